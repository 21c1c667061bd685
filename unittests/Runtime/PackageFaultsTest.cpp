//===- PackageFaultsTest.cpp - damaged packages, failing runs -------------===//
//
// Whatever is in the folder: an error with its place, never a crash. And what a
// caller of the C ABI sees when the model or a rank fails in a run.
//
//===----------------------------------------------------------------------===//
#include "TestPackage.h"
#include "package/Manifest.h"

#include <gmock/gmock.h>

#include <chrono>

using namespace kerf::rt;
using namespace kerf::rt::test;
using nlohmann::json;
using testing::HasSubstr;

namespace {

// Doubles x over two ranks, with an all_gather of what each rank holds.
constexpr const char *source = R"(
static void kernel(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const float *x = b[0]; float *y = b[1];
  API api = b[2]; CTX ctx = b[3];
  for (int64_t i = begin; i < end; ++i) {
    if (x[i] < 0) { api->fail(ctx, KERF_FAIL_INDEX_OUT_OF_RANGE, "/Gather", (int64_t)x[i]); return; }
    y[i] = 2 * x[i];
  }
}
FUNCTION(run) {
  void *b[] = {ios[0], scratch, (void *)api, ctx};
  TRY(api->launch(ctx, -1, kernel, b, 4, 0, 4, 1));
  return api->collective(ctx, 0, scratch, ios[1]);
}
FUNCTION(gives_up) { return 7; }
FUNCTION(bad_index) { return api->library(ctx, 3, ios); }
)";

TestPackage twoRanks() {
  TestPackage p(source);
  p.weights["w"] = {{2}, {1, 2}};
  p.manifest["mesh"] = {{"axes", {{{"name", "tp"}, {"size", 2}}}}};
  json parameter = tensor("w", {2}, {axes({"tp"})});
  parameter["tensor"] = "w";
  p.manifest["parameters"] = {parameter};
  p.manifest["inputs"] = {tensor("x", {8}, {axes({"tp"})})};
  p.manifest["outputs"] = {tensor("y", {8}, {axes({})})};
  p.manifest["shard_indices"] = {axes({"tp"})};
  p.manifest["kernels"] = {{{"name", "k"}, {"node", "/n"}}};
  p.manifest["library"] = {{{"kind", "matmul"},
                            {"dtype", "f32"},
                            {"batch", json::array()},
                            {"m", 2},
                            {"n", 2},
                            {"k", 2},
                            {"lhs", {{"buffer", 0}}},
                            {"rhs", {{"buffer", 1}}},
                            {"dst", {{"buffer", 2}}},
                            {"post_ops", {{{"kind", "relu"}}}}}};
  p.manifest["collectives"] = {{{"kind", "all_gather"},
                                {"dtype", "f32"},
                                {"axes", axes({"tp"})},
                                {"src_shape", {4}},
                                {"dst_shape", {8}},
                                {"dim", 0},
                                {"group_bytes", 32},
                                {"node", "/Gather"}}};
  json ios = {{{"dtype", "f32"}, {"shape", {4}}},
              {{"dtype", "f32"}, {"shape", {8}}}};
  p.manifest["functions"] = {{{"symbol", "run"},
                              {"scratch_bytes", 16},
                              {"num_arguments", 1},
                              {"ios", ios}}};
  p.manifest["stages"] = oneRun(192, 128, 64);
  return p;
}

const std::vector<std::vector<float>> input = {{0, 1, 2, 3, 4, 5, 6, 7}};

RunResult runWith(const std::function<void(TestPackage &)> &edit,
                  kerf_session_options_t options = {}) {
  TestPackage p = twoRanks();
  edit(p);
  return runTestPackage(p.write(), input, options);
}

TEST(PackageFaults, TheUndamagedPackageRuns) {
  RunResult result = runWith([](TestPackage &) {});
  EXPECT_EQ(result.message, "");
  EXPECT_EQ(result.outputs[0], (std::vector<float>{0, 2, 4, 6, 8, 10, 12, 14}));
}

// Case 12: the node is named, and every rank ends.
TEST(PackageFaults, IndexOutOfRangeInAKernel) {
  TestPackage p = twoRanks();
  RunResult result = runTestPackage(p.write(), {{0, 1, 2, 3, 4, -5, 6, 7}});
  EXPECT_EQ(result.code, KERF_PROGRAM_FAILURE);
  EXPECT_EQ(result.exitCode, 5);
  EXPECT_EQ(result.node, "/Gather");
  EXPECT_EQ(result.message, "index -5 is out of range on rank 1");
}

TEST(PackageFaults, FunctionsThatGiveUp) {
  RunResult result = runWith([](TestPackage &p) {
    p.manifest["functions"][0]["symbol"] = "gives_up";
  });
  EXPECT_EQ(result.message, "function \"gives_up\" failed with status 7");
  result = runWith([](TestPackage &p) {
    p.manifest["functions"][0]["symbol"] = "bad_index";
  });
  EXPECT_EQ(result.message, "program names library call 3 of 1");
}

// Cases 19 and 20 through the C ABI: in time, with the table, exit code 5.
TEST(PackageFaults, RanksThatDieOrHang) {
  for (const char *fault : {"die", "hang"}) {
    std::string inject = std::string("rank=1,collective=0,fault=") + fault;
    kerf_session_options_t options = {};
    options.deadline_seconds = 0.3;
    options.inject = inject.c_str();
    auto begin = std::chrono::steady_clock::now();
    RunResult result = runWith([](TestPackage &) {}, options);
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    EXPECT_LT(seconds, 0.3 + 5);
    EXPECT_EQ(result.code, KERF_RANK_FAILURE);
    EXPECT_EQ(result.exitCode, 5);
    EXPECT_EQ(result.node, "/Gather");
    EXPECT_THAT(
        result.message,
        HasSubstr("rank 1 did not arrive at all_gather f32 4 at /Gather"));
    ASSERT_EQ(result.notes.size(), 2u);
    EXPECT_THAT(result.notes[1],
                HasSubstr("rank 1: 0 collectives begun, last none"));
    EXPECT_TRUE(result.outputs.empty());
  }
}

// A rank that leaves out the last collective ends early; the others name it.
TEST(PackageFaults, RankThatSkipsTheLastCollective) {
  kerf_session_options_t options = {};
  options.deadline_seconds = 0.3;
  options.inject = "rank=0,collective=0,fault=skip";
  RunResult result = runWith([](TestPackage &) {}, options);
  EXPECT_EQ(result.code, KERF_RANK_FAILURE);
  EXPECT_THAT(result.message, HasSubstr("rank 0 did not arrive"));
}

TEST(PackageFaults, PlannedBytesMustBeRight) {
  RunResult result = runWith(
      [](TestPackage &p) { p.manifest["collectives"][0]["group_bytes"] = 33; });
  EXPECT_EQ(result.code, KERF_BYTES_DIFFER);
  EXPECT_EQ(result.exitCode, 5);
  EXPECT_THAT(
      result.message,
      HasSubstr("counted bytes of all_gather f32 4 at /Gather (#0) are 32, "
                "planned are 33"));
}

struct Edit {
  const char *pointer; ///< JSON pointer
  json value;
  const char *message; ///< part of the error
};

// What another Kerf wrote is not damaged: an exit code of its own.
TEST(PackageFaults, OtherVersions) {
  const Edit edits[] = {
      {"/schema", "kerf.package/2",
       "manifest.json: schema: is \"kerf.package/2\", newer than "
       "\"kerf.package/1\""},
      {"/schema", "kerf.package/0", "older than \"kerf.package/1\""},
      {"/abi", 99, "manifest.json: abi: is 99, newer than 3"},
  };
  for (const Edit &edit : edits) {
    TestPackage p = twoRanks();
    p.write();
    p.manifest[json::json_pointer(edit.pointer)] = edit.value;
    RunResult result = runTestPackage(p.write(), input);
    EXPECT_EQ(result.code, KERF_OTHER_VERSION) << edit.pointer;
    EXPECT_THAT(result.message, HasSubstr(edit.message));
    EXPECT_EQ(result.exitCode, 2);
  }
}

// One wrong entry each: refused on load, with its place.
TEST(PackageFaults, ManifestEntries) {
  const Edit edits[] = {
      {"/schema", "kerf.plan/1",
       "schema: is \"kerf.plan/1\", expected \"kerf.package/1\""},
      {"/schema", "kerf.package/01", "expected \"kerf.package/1\""},
      {"/abi", 0, "abi: expected an integer in [1"},
      {"/weihgts", "w", "manifest.json: unknown key \"weihgts\""},
      {"/collectives/0/dimm", 0, "collectives[0]: unknown key \"dimm\""},
      {"/stages/0/instructions/0/micro_batches", 0,
       "stages[0].instructions[0]: unknown key \"micro_batches\""},
      {"/collectives/0/reduction", "sum",
       "collectives[0]: unknown key \"reduction\""},
      {"/program", "../program.so", "program: expected a plain file name"},
      {"/program", "other.so", "file \"other.so\" is not in \"files\""},
      {"/mesh/axes/0/size", 0, "mesh.axes[0].size: expected an integer in [1"},
      {"/mesh/axes/0/size", 3,
       "collectives[0]: dimension 0 of a part of 8 over 3 ranks is 4, expected "
       "3"},
      {"/mesh/stage_axis", "pp", "stage axis \"pp\" is not an axis"},
      {"/target", {{"device", "npu"}}, "device \"npu\" is not in this runtime"},
      {"/target", {{"features", {"sse2", "xop"}}}, "this CPU lacks: xop"},
      {"/files/0/bytes", 5, "program.so: has"},
      {"/files/0/xxh3", "0123456789abcdef", "program.so: has hash"},
      {"/files/1/path", "nothing",
       "file \"weights.safetensors\" is not in \"files\""},
      {"/files/0/path", ".", "files[0].path: expected a plain file name"},
      {"/parameters/0/tensor", "v", "no tensor \"v\" in weights.safetensors"},
      {"/parameters/0/dtype", "i32", "the stored tensor is f32"},
      {"/parameters/0/global_shape", {3}, "is 3, the stored tensor is 2"},
      {"/parameters/0/global_shape",
       {int64_t(1) << 62, 16},
       "expected an integer in [0"},
      {"/parameters/0/view",
       {{"starts", {1}}, {"sizes", {2}}},
       "view of 2 at 1 is not inside 2"},
      {"/parameters/0/local_shape", {2}, "is 2, the sharding gives 1"},
      {"/parameters/0/splat", 1, "exactly one of"},
      {"/parameters/0/stages", {1}, "stages[0]: expected an integer in [0, 0]"},
      {"/inputs/0/sharding", json::array({axes({"xx"})}),
       "\"xx\" is not an axis of the mesh"},
      {"/inputs/0/sharding", json::array(),
       "has 0 dimensions, the tensor has 1"},
      {"/inputs/0/sharding/0", axes({"tp", "tp"}), "axes of a group overlap"},
      {"/inputs/0/blocks", {4}, "is 4, expected more than 4 and less than 8"},
      {"/inputs/0/blocks", {8}, "is 8, expected more than 4 and less than 8"},
      {"/inputs/0/blocks", {0, 0}, "has 2 dimensions, the tensor has 1"},
      {"/inputs/0/range", {3, 3}, "inputs[0].range[1]"},
      {"/inputs/0/global_shape",
       {int64_t(1) << 50, int64_t(1) << 50},
       "overflows"},
      {"/collectives/0/kind", "gather", "unknown collective \"gather\""},
      {"/collectives/0/dim", 4, "dim 4 is not a dimension"},
      {"/collectives/0/dst_shape", {9}, "expected 5"},
      {"/collectives/0/part", 5, "over 2 ranks is 4, expected 5"},
      {"/collectives/0/part", 4, "expected more than 4 and less than 8"},
      {"/collectives/0/part", 8, "expected more than 4 and less than 8"},
      {"/collectives/0/axes/0/size", 4,
       "axes[0].size: expected an integer in [1, 2]"},
      {"/collectives/0/group_bytes", -1, "group_bytes: expected an integer"},
      {"/library/0/kind", "fft", "unknown library call"},
      {"/library/0/lhs", {{"buffer", 0}, {"param", 0}}, "exactly one of"},
      {"/library/0/dst", {{"buffer", 7}}, "no operand is buffer 2 of 8"},
      {"/library/0/rhs",
       {{"param", 1}},
       "rhs.param: expected an integer in [0, 0]"},
      {"/library/0/bias",
       {{"param", 0}},
       "operand reaches element 2 of parameter 0, which has 1"},
      {"/library/0/dst", {{"param", 0}}, "dst: expected a buffer"},
      {"/library/0/lhs/strides", {1}, "has 1 entries, expected 2"},
      {"/library/0/post_ops/0/kind", "softmax", "unknown post-op \"softmax\""},
      {"/library/0/post_ops/0/kind", "add", "post-op add has no operand"},
      {"/functions/0/symbol", "missing", "program.so: no function \"missing\""},
      {"/functions/0/symbol", "malloc", "program.so: no function \"malloc\""},
      {"/functions/0/num_arguments", 3,
       "num_arguments: expected an integer in [0, 2]"},
      {"/functions/0/scratch_bytes", 65, "needs 65 bytes of scratch"},
      {"/stages/0/arena_bytes", 128, "ends at 192, past the arena"},
      {"/stages/0/slots/0/offset", 4, "offset 4 is not a multiple of 64"},
      {"/stages/0/slots/1/bytes", 16, "slot 1 has 16 bytes, needs 32"},
      {"/stages/0/slots/0/offset", int64_t(1) << 52, "past the arena"},
      {"/stages/0/instructions/0/slot", 2, "slot 2 is not one of 2"},
      {"/stages/0/instructions/0/micro_batch", 1,
       "micro_batch: expected an integer in [0, 0]"},
      {"/stages/0/instructions/1/slots",
       {0},
       "has 1 slots, function \"run\" takes 2"},
      {"/stages/0/instructions/1",
       {{"jump", 0}},
       "expected exactly one of input, run"},
      {"/stages/0/instructions/1",
       {{"send", 0}, {"slot", 0}},
       "send: expected an integer in [0, -1]"},
      {"/stages", json::array(), "has 0 entries, the mesh has 1 stages"},
  };
  for (const Edit &edit : edits) {
    TestPackage p = twoRanks();
    p.write();
    json::json_pointer pointer(edit.pointer);
    p.manifest[pointer] = edit.value;
    RunResult result = runTestPackage(p.write(), input);
    EXPECT_TRUE(result.code == KERF_BAD_PACKAGE ||
                result.code == KERF_UNSUPPORTED_HOST)
        << edit.pointer << ": " << result.code;
    EXPECT_THAT(result.message, HasSubstr(edit.message)) << edit.pointer;
    EXPECT_EQ(result.exitCode, result.code == KERF_BAD_PACKAGE ? 3 : 5);
  }
}

// A changed number of the format is another version.
bool isRefusal(const Error &error) {
  return error.code == KERF_BAD_PACKAGE || error.code == KERF_OTHER_VERSION;
}

// A manifest cut off anywhere, or with any byte changed: an error or a
// manifest.
TEST(PackageFaults, TruncatedAndEditedManifests) {
  TestPackage p = twoRanks();
  p.write();
  std::string text = p.manifest.dump();
  for (size_t n = 0; n < text.size(); ++n)
    EXPECT_THROW(parseManifest(text.data(), n), Error);
  unsigned parsed = 0;
  for (size_t i = 0; i < text.size(); ++i)
    for (char c : {'9', '-', '"', '}', '\xff'}) {
      std::string changed = text;
      changed[i] = c;
      try {
        parseManifest(changed.data(), changed.size());
        ++parsed;
      } catch (const Error &error) {
        EXPECT_TRUE(isRefusal(error)) << error.message;
      }
    }
  EXPECT_GT(parsed, 0u); // changes of names do no harm
}

// Every value replaced by values of every other kind, every entry removed.
void mutateEach(const json &root, const json::json_pointer &at,
                const json &value) {
  static const json others[] = {
      nullptr,       true,           -1,     int64_t(1) << 60, 0.5, "x", "",
      json::array(), json::object(), {1, 2}, UINT64_MAX};
  for (const json &other : others) {
    json changed = root;
    changed[at] = other;
    std::string text = changed.dump();
    try {
      parseManifest(text.data(), text.size());
    } catch (const Error &error) {
      EXPECT_TRUE(isRefusal(error)) << at.to_string() << ": " << error.message;
    }
  }
  if (value.is_object())
    for (auto &item : value.items())
      mutateEach(root, at / item.key(), item.value());
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i)
      mutateEach(root, at / i, value[i]);
}

TEST(PackageFaults, EveryValueReplaced) {
  TestPackage p = twoRanks();
  p.write();
  for (auto &item : p.manifest.items())
    mutateEach(p.manifest, json::json_pointer("/" + item.key()), item.value());
}

TEST(PackageFaults, DamagedFolders) {
  EXPECT_EQ(runTestPackage("/nonexistent.kerf", input).message,
            "cannot open: No such file or directory");
  TempDir dir;
  EXPECT_THAT(runTestPackage(dir.path(""), input).message,
              HasSubstr("as kerf compile makes it of a model"));
  dir.write("file", "x");
  EXPECT_THAT(runTestPackage(dir.path("file"), input).message,
              HasSubstr("not a package"));
  TestPackage p = twoRanks();
  std::string path = p.write();
  p.dir().write("weights.safetensors",
                p.dir().read("weights.safetensors") + "x");
  EXPECT_THAT(runTestPackage(path, input).message,
              HasSubstr("weights.safetensors: has"));
  // With a matching hash it is the loader that refuses.
  TestPackage q = twoRanks();
  q.write();
  std::string junk = "not an ELF file";
  q.manifest["files"][0] = {{"path", "program.so"},
                            {"bytes", junk.size()},
                            {"xxh3", hashHex(junk.data(), junk.size())}};
  q.write();
  q.dir().write("program.so", junk);
  EXPECT_THAT(runTestPackage(q.dir().path(""), input).message,
              HasSubstr("program.so: cannot load"));
}

// Case 22 for the host: size, buffer and rank.
TEST(PackageFaults, OutOfMemory) {
  RunResult result = runWith([](TestPackage &p) {
    p.manifest["stages"][0]["arena_bytes"] = int64_t(1) << 52;
  });
  EXPECT_EQ(result.code, KERF_OUT_OF_MEMORY);
  EXPECT_EQ(result.exitCode, 5);
  EXPECT_THAT(
      result.message,
      HasSubstr("out of memory: 4503599627370496 bytes for the arena of rank"));
}

// Wrong use of the C ABI is an error of the caller.
TEST(PackageFaults, WrongUseOfTheAbi) {
  TestPackage p = twoRanks();
  EXPECT_EQ(runTestPackage(p.write(), {}).message, "input \"x\" is not set");
  EXPECT_EQ(runTestPackage(p.write(), {{1, 2}}).message,
            "input \"x\" has 8 bytes, expected 32");
  kerf_session_options_t options = {};
  options.inject = "rank=5,collective=0,fault=die";
  EXPECT_EQ(runTestPackage(p.write(), input, options).exitCode, 2);
  kerf_status_t status = kerf_package_open(nullptr, nullptr, nullptr);
  EXPECT_EQ(kerf_status_code(status), KERF_INVALID_ARGUMENT);
  kerf_status_free(status);
}
} // namespace
