//===- PackageTest.cpp - whole packages through the C ABI -----------------===//
//
// Each test is a small program in C with its manifest: parameters and how they
// are cut, thread ranks, micro-batches, stages, functions that run at load.
//
//===----------------------------------------------------------------------===//
#include "TestPackage.h"
#include "execution/Parameters.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

using namespace kerf::rt;
using namespace kerf::rt::test;
using nlohmann::json;
using testing::HasSubstr;

namespace {

std::vector<float> ramp(size_t count, float start = 0) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), start);
  return values;
}

json io(const std::vector<int64_t> &shape) {
  return {{"dtype", "f32"}, {"shape", shape}};
}

// y = x @ w over the local k, then the sum over the axis: k cut over ranks.
constexpr const char *matmulSource = R"(
static void kernel(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const float *x = b[0], *w = b[1]; float *y = b[2];
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < s[1]; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < s[0]; ++k)
        sum += x[i * s[0] + k] * w[k * s[1] + j];
      y[i * s[1] + j] = sum;
    }
}
FUNCTION(matmul) {
  int64_t sizes[] = {K, 5};
  void *b[] = {ios[0], params[0], scratch};
  TRY(api->launch(ctx, 0, kernel, b, 3, sizes, 2, 1));
  ASYNC
}
)";

std::string matmulProgram(int64_t localK, bool async) {
  std::string source = matmulSource;
  auto replace = [&](const std::string &what, const std::string &with) {
    source.replace(source.find(what), what.size(), with);
  };
  replace("{K,", "{" + std::to_string(localK) + ",");
  replace("ASYNC",
          async ? "TRY(api->collective_start(ctx, 0, scratch, ios[1]));\n"
                  "  return api->collective_wait(ctx, 0);"
                : "return api->collective(ctx, 0, scratch, ios[1]);");
  return source;
}

// x[2,10] @ w[10,5] with k = 10 cut over `ranks`: uneven parts are padded with
// zeros, in the input and in the parameter.
TestPackage matmulPackage(int64_t ranks, bool async = false) {
  int64_t k = ceilDiv(10, ranks);
  TestPackage p(matmulProgram(k, async));
  p.weights["w"] = {{10, 5}, ramp(50, -20)};
  p.manifest["mesh"] = {{"axes", {{{"name", "tp"}, {"size", ranks}}}}};
  json parameter = tensor("w", {10, 5}, {axes({"tp"}), axes({})});
  parameter["tensor"] = "w";
  p.manifest["parameters"] = {parameter};
  p.manifest["inputs"] = {tensor("x", {2, 10}, {axes({}), axes({"tp"})})};
  p.manifest["outputs"] = {tensor("y", {2, 5}, {axes({}), axes({})})};
  p.manifest["kernels"] = {{{"name", "matmul_kernel"}, {"node", "/MatMul"}}};
  p.manifest["collectives"] = {{{"kind", "all_reduce"},
                                {"reduction", "sum"},
                                {"dtype", "f32"},
                                {"axes", axes({"tp"})},
                                {"src_shape", {2, 5}},
                                {"dst_shape", {2, 5}},
                                {"group_bytes", 2 * (ranks - 1) * 40},
                                {"node", "/MatMul"},
                                {"tensor", "y"}}};
  p.manifest["functions"] = {{{"symbol", "matmul"},
                              {"scratch_bytes", 40},
                              {"num_arguments", 1},
                              {"ios", {io({2, k}), io({2, 5})}}}};
  p.manifest["stages"] = {
      {{"arena_bytes", 256},
       {"scratch", {{"offset", 192}, {"bytes", 64}}},
       {"slots",
        {{{"offset", 0}, {"bytes", 128}}, {{"offset", 128}, {"bytes", 64}}}},
       {"instructions",
        {{{"input", 0}, {"slot", 0}},
         {{"run", 0}, {"slots", {0, 1}}},
         {{"output", 0}, {"slot", 1}}}}}};
  return p;
}

std::vector<float> matmulReference() {
  std::vector<float> x = ramp(20), w = ramp(50, -20), y(10);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 5; ++j)
      for (int k = 0; k < 10; ++k)
        y[i * 5 + j] += x[i * 10 + k] * w[k * 5 + j];
  return y;
}

// Sums of small integers are exact: every number of ranks gives the same.
TEST(Package, MatmulOverRanks) {
  for (int64_t ranks : {1, 2, 3, 4, 8})
    for (bool async : {false, true})
      for (bool aligned : {true, false}) {
        TestPackage p = matmulPackage(ranks, async);
        RunResult result =
            runTestPackage(p.write(aligned), {ramp(20)}, {}, /*repeat=*/3);
        ASSERT_EQ(result.message, "");
        EXPECT_EQ(result.outputs[0], matmulReference()) << ranks << " ranks";
      }
}

// The same on teams of two threads per rank.
TEST(Package, ThreadsPerRank) {
  TestPackage p = matmulPackage(2);
  kerf_session_options_t options = {};
  options.threads = 2;
  EXPECT_EQ(runTestPackage(p.write(), {ramp(20)}, options).outputs[0],
            matmulReference());
}

// Measured bytes have plan.json's names; a trace has an event for everything.
TEST(Package, StatisticsAndTrace) {
  TestPackage p = matmulPackage(4);
  kerf_session_options_t options = {};
  options.trace = 1;
  RunResult result = runTestPackage(p.write(), {ramp(20)}, options, 2);
  json stats = json::parse(result.statistics);
  EXPECT_EQ(stats["schema"], "kerf.run/1");
  EXPECT_EQ(stats["devices"], 4);
  EXPECT_EQ(stats["mesh"]["tp"], 4);
  const json &comm = stats["communication"];
  EXPECT_EQ(comm["bytes_per_rank"], 2 * 3 * 40 / 4);
  EXPECT_EQ(comm["planned_bytes_per_rank"], comm["bytes_per_rank"]);
  EXPECT_EQ(comm["total_bytes"], 2 * 3 * 40);
  EXPECT_EQ(comm["by_axis"]["tp"], 60);
  EXPECT_EQ(comm["by_purpose"]["activation"], 60);
  ASSERT_EQ(comm["collectives"].size(), 1u);
  EXPECT_EQ(comm["collectives"][0]["count"], 1);
  EXPECT_EQ(comm["collectives"][0]["node"], "/MatMul");
  EXPECT_EQ(comm["collectives"][0]["axes"], json({"tp"}));
  EXPECT_EQ(comm["collectives"][0]["groups"], 1);
  EXPECT_GT(stats["time"]["step_seconds"], 0);
  EXPECT_EQ(stats["ranks"][3]["instructions"].size(), 3u);
  EXPECT_THAT(result.trace, HasSubstr("matmul_kernel"));
  EXPECT_THAT(result.trace, HasSubstr("all_reduce /MatMul"));
}

// Two stages of two data-parallel ranks, three micro-batches in flight; the
// first stage doubles, the second adds its rank's index on "dp".
constexpr const char *pipelineSource = R"(
FUNCTION(first) {
  const float *x = ios[0]; float *y = ios[1];
  for (int i = 0; i < 2; ++i) y[i] = 2 * x[i];
  return 0;
}
FUNCTION(second) {
  const float *x = ios[0]; float *y = ios[1];
  for (int i = 0; i < 2; ++i) y[i] = x[i] + 100 * api->shard_index(ctx, 0);
  return 0;
}
)";

TestPackage pipelinePackage() {
  TestPackage p(pipelineSource);
  std::vector<json> sharding = {axes({"mb", "dp"})};
  p.manifest["mesh"] = {
      {"axes", {{{"name", "pp"}, {"size", 2}}, {{"name", "dp"}, {"size", 2}}}},
      {"stage_axis", "pp"},
      {"time_axis", {{"name", "mb"}, {"size", 3}}}};
  p.manifest["inputs"] = {tensor("x", {12}, sharding)};
  p.manifest["outputs"] = {tensor("y", {12}, sharding)};
  p.manifest["shard_indices"] = {axes({"dp"})};
  p.manifest["channels"] = {{{"from_stage", 0},
                             {"to_stage", 1},
                             {"dtype", "f32"},
                             {"shape", {2}},
                             {"bytes", 8},
                             {"node", "/cut"}}};
  json ios = {io({2}), io({2})};
  p.manifest["functions"] = {{{"symbol", "first"},
                              {"scratch_bytes", 0},
                              {"num_arguments", 1},
                              {"ios", ios}},
                             {{"symbol", "second"},
                              {"scratch_bytes", 0},
                              {"num_arguments", 1},
                              {"ios", ios}}};
  json slots = {{{"offset", 0}, {"bytes", 64}},
                {{"offset", 64}, {"bytes", 64}}};
  json lists[2] = {json::array(), json::array()};
  for (int j = 0; j < 3; ++j) {
    // Slot 1 is written again while it may still be sent: the runtime waits.
    lists[0].push_back({{"input", 0}, {"slot", 0}, {"micro_batch", j}});
    lists[0].push_back({{"run", 0}, {"slots", {0, 1}}, {"micro_batch", j}});
    lists[0].push_back({{"send", 0}, {"slot", 1}, {"micro_batch", j}});
    lists[1].push_back({{"recv", 0}, {"slot", 0}, {"micro_batch", j}});
    lists[1].push_back({{"run", 1}, {"slots", {0, 1}}, {"micro_batch", j}});
    lists[1].push_back({{"output", 0}, {"slot", 1}, {"micro_batch", j}});
  }
  p.manifest["stages"] = {
      {{"arena_bytes", 128}, {"slots", slots}, {"instructions", lists[0]}},
      {{"arena_bytes", 128}, {"slots", slots}, {"instructions", lists[1]}}};
  return p;
}

TEST(Package, PipelineOfMicroBatches) {
  TestPackage p = pipelinePackage();
  RunResult result = runTestPackage(p.write(), {ramp(12)}, {}, 20);
  ASSERT_EQ(result.message, "");
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(result.outputs[0][i], 2 * i + 100 * (i / 2 % 2));
  json stats = json::parse(result.statistics);
  EXPECT_EQ(stats["communication"]["bytes_per_rank"], 24);
  EXPECT_EQ(stats["communication"]["total_bytes"], 48);
  EXPECT_EQ(stats["communication"]["by_axis"]["pp"], 24);
}

// Functions of one rank that copy parameter 0 to the output.
constexpr const char *copySource = R"(
FUNCTION(copy_parameter) { return api->copy(ctx, params[0], ios[0], BYTES); }
FUNCTION(init) {
  const float *a = params[1]; float *d = ios[0];
  for (int i = 0; i < 4; ++i) d[i] = a[i] + 1000;
  return 0;
}
)";

TestPackage copyPackage(const std::vector<int64_t> &global,
                        const std::vector<int64_t> &local,
                        const std::vector<json> &sharding) {
  int64_t bytes = numBytes(local, KERF_F32);
  std::string source = copySource;
  source.replace(source.find("BYTES"), 5, std::to_string(bytes));
  TestPackage p(source);
  p.manifest["mesh"] = {
      {"axes", {{{"name", "a"}, {"size", 2}}, {{"name", "b"}, {"size", 2}}}}};
  p.manifest["outputs"] = {tensor("y", global, sharding)};
  p.manifest["functions"] = {{{"symbol", "copy_parameter"},
                              {"scratch_bytes", 0},
                              {"num_arguments", 0},
                              {"ios", {io(local)}}}};
  p.manifest["stages"] = {
      {{"arena_bytes", ceilDiv(bytes, 64) * 64},
       {"slots", {{{"offset", 0}, {"bytes", bytes}}}},
       {"instructions",
        {{{"run", 0}, {"slots", {0}}}, {{"output", 0}, {"slot", 0}}}}}};
  return p;
}

// A parameter that is a view of a stored tensor, cut unevenly in two dimensions
// over two axes, comes out whole: columns 2..6 of 3x8 as 3x5.
TEST(Package, ViewsAndUnevenShardsOfParameters) {
  for (auto &[rows, columns] :
       std::vector<std::pair<json, json>>{{axes({}), axes({})},
                                          {axes({"a"}), axes({"b"})},
                                          {axes({"b", "a"}), axes({})},
                                          {axes({}), axes({"a", "b"})}}) {
    std::vector<json> sharding = {rows, columns};
    std::vector<int64_t> local = {ceilDiv(3, int64_t(1) << rows.size()),
                                  ceilDiv(5, int64_t(1) << columns.size())};
    TestPackage p = copyPackage({3, 5}, local, sharding);
    p.weights["w"] = {{3, 8}, ramp(24)};
    json parameter = tensor("v", {3, 5}, sharding);
    parameter["tensor"] = "w";
    parameter["view"] = {{"starts", {0, 2}}, {"sizes", {3, 5}}};
    parameter["local_shape"] = local;
    p.manifest["parameters"] = {parameter};
    RunResult result = runTestPackage(p.write(), {});
    ASSERT_EQ(result.message, "");
    for (int i = 0; i < 15; ++i)
      EXPECT_EQ(result.outputs[0][i], 8 * (i / 5) + 2 + i % 5);
  }
}

// Splats, and parameters in a file outside of the package.
TEST(Package, SplatAndExternalParameters) {
  TestPackage p = copyPackage({4}, {4}, {axes({})});
  json parameter = tensor("s", {4}, {axes({})});
  parameter["splat"] = "-inf";
  p.manifest["parameters"] = {parameter};
  RunResult result = runTestPackage(p.write(), {});
  ASSERT_EQ(result.message, "");
  EXPECT_EQ(result.outputs[0], std::vector<float>(4, -INFINITY));

  TestPackage q = copyPackage({4}, {2}, {axes({"a"})});
  std::vector<float> data = ramp(7);
  q.dir().write("outside",
                std::string(reinterpret_cast<char *>(data.data()), 28));
  q.manifest["external_files"] = {
      {{"path", q.dir().path("outside")}, {"bytes", 28}}};
  parameter = tensor("e", {4}, {axes({"a"})});
  parameter["external"] = {{"file", 0}, {"offset", 8}, {"shape", {2, 2}}};
  q.manifest["parameters"] = {parameter};
  result = runTestPackage(q.write(), {});
  ASSERT_EQ(result.message, "");
  EXPECT_EQ(result.outputs[0], ramp(4, 2));
  q.dir().write("outside", "short");
  EXPECT_THAT(runTestPackage(q.dir().path(""), {}).message,
              HasSubstr("the manifest says 28"));
}

// A derived parameter is computed at load from another one.
TEST(Package, DerivedParameters) {
  TestPackage p = copyPackage({4}, {4}, {axes({})});
  p.weights["w"] = {{4}, ramp(4)};
  json source = tensor("w", {4}, {axes({})});
  source["tensor"] = "w";
  p.manifest["parameters"] = {{{"name", "d"},
                               {"derived", true},
                               {"dtype", "f32"},
                               {"local_shape", {4}},
                               {"stages", {0}}},
                              source};
  p.manifest["functions"].push_back({{"symbol", "init"},
                                     {"scratch_bytes", 0},
                                     {"num_arguments", 0},
                                     {"ios", {io({4})}}});
  p.manifest["stages"][0]["init"] = {{{"run", 1}, {"parameters", {0}}}};
  RunResult result = runTestPackage(p.write(), {});
  ASSERT_EQ(result.message, "");
  EXPECT_EQ(result.outputs[0], ramp(4, 1000));
  p.manifest["stages"][0].erase("init");
  EXPECT_THAT(runTestPackage(p.write(), {}).message,
              HasSubstr("derived, but no init call"));
}

// Aligned whole parts lie in the mapping; ranks share what has to be copied.
TEST(Package, ParametersAreSharedNotCopied) {
  TestPackage p = copyPackage({4, 4}, {4, 2}, {axes({}), axes({"a"})});
  p.weights["w"] = {{4, 4}, ramp(16)};
  json whole = tensor("whole", {4, 4}, {axes({}), axes({})});
  json rows = tensor("rows", {4, 4}, {axes({"a"}), axes({})});
  json columns = tensor("columns", {4, 4}, {axes({}), axes({"a"})});
  whole["tensor"] = rows["tensor"] = columns["tensor"] = "w";
  p.manifest["parameters"] = {columns, whole, rows};
  auto package = Package::open(p.write(), false);
  ParameterStore store(package);
  auto device = makeCpuDevice(0, 1, makeCpuPackCache());
  EXPECT_EQ(store.get(1, 0, *device).data, package->stored[1].data);
  EXPECT_EQ(store.get(2, 0, *device).data, package->stored[2].data);
  EXPECT_EQ(store.copiedBytes(),
            0); // the second half of rows is not aligned to 64
  ParameterView left = store.get(0, 0, *device),
                same = store.get(0, 1, *device),
                right = store.get(0, 2, *device);
  EXPECT_EQ(left.data, same.data);
  EXPECT_NE(left.data, right.data);
  EXPECT_EQ(store.copiedBytes(), 2 * 32);
  EXPECT_EQ(static_cast<const float *>(right.data)[0], 2);
}
} // namespace
