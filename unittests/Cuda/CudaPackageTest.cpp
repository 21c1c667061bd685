//===- CudaPackageTest.cpp - packages for CUDA, without a GPU -------------===//
//
// Whole packages through sessions over the recording driver: the same program
// for the CPU and for CUDA must give equal results, in many orders of
// execution, with and without graphs; a dropped event must be noticed. Kernels
// are host kernels written in C here.
//
//===----------------------------------------------------------------------===//
#include "CudaKernelEntry.h"
#include "RecordingDriver.h"
#include "TestPackage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <sys/wait.h>

using namespace kerf::rt;
using namespace kerf::rt::test;
using nlohmann::json;

namespace {

// Two ranks: y = relu(x W) summed over tp, twice, plus a bias; the second sum
// is started, a kernel runs beside it, then it is waited for.
constexpr const char *source = R"C(
static void add(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const float *x = b[0], *y = b[1]; float *z = b[2];
  for (int64_t i = begin; i < end; ++i) z[i] = x[i] + y[i];
}
static void twice(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const float *x = b[0]; float *z = b[1];
  for (int64_t i = begin; i < end; ++i) z[i] = 2 * x[i] + s[0];
}
static void gather(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const float *x = b[0]; float *z = b[1];
  API api = b[2]; CTX ctx = b[3]; const char *node = b[4];
  for (int64_t i = begin; i < end; ++i) {
    if (x[i] > 1000) { api->fail(ctx, 1, node, 7); return; }
    z[i] = x[i];
  }
}
FUNCTION(forward) {
  char *at = scratch;
  void *h = at, *r = at + 256, *t = at + 512, *u = at + 768, *v = at + 896;
  void *matmul[] = {ios[0], h};
  TRY(api->library(ctx, 0, matmul));
  TRY(api->collective(ctx, 0, h, r));
  void *l0[] = {r, v};
  int64_t three[] = {3};
  TRY(api->launch(ctx, 1, twice, l0, 2, three, 8, 1));
  TRY(api->collective_start(ctx, 1, v, t));
  void *l1[] = {h, u};
  TRY(api->launch(ctx, 1, twice, l1, 2, three, 8, 1));
  TRY(api->collective_wait(ctx, 1));
  void *l2[] = {t, u, h};
  TRY(api->launch(ctx, 0, add, l2, 3, 0, 8, 1));
  void *l4[] = {h, params[1], r};
  TRY(api->launch(ctx, 0, add, l4, 3, 0, 8, 1));
  void *l3[] = {r, ios[1], (void *)api, ctx, (void *)"/gather"};
  return api->launch(ctx, 2, gather, l3, 5, 0, 8, 1);
}
)C";

TestPackage twoRanks(bool cuda) {
  TestPackage p(source);
  json &m = p.manifest;
  if (cuda) {
    m["target"] = {
        {"device", "cuda"},
        {"cuda",
         {{"ptx", "kernels.ptx"},
          {"ptx_arch", "sm_80"},
          {"cubins", {{{"arch", "sm_90"}, {"file", "kernels.sm_90.cubin"}}}}}}};
    p.dir().write("kernels.ptx",
                  ".entry kerf_add\n.entry kerf_twice\n.entry kerf_gather\n");
    p.dir().write("kernels.sm_90.cubin", "\x7f"
                                         "ELF and so on");
  }
  m["mesh"] = {{"axes", {{{"name", "tp"}, {"size", 2}}}}};
  std::vector<float> w(16);
  for (int i = 0; i < 16; ++i)
    w[i] = static_cast<float>((i * 5) % 7 - 3);
  p.weights["w"] = {{4, 4}, w};
  p.weights["b"] = {{8}, {1, 2, 3, 4, 5, 6, 7, 8}};
  m["parameters"] = {tensor("w", {4, 4}, {axes({"tp"}), json::array()}),
                     tensor("b", {8}, {json::array()})};
  m["parameters"][0]["tensor"] = "w";
  m["parameters"][0]["library_only"] = true;
  m["parameters"][1]["tensor"] = "b";
  m["inputs"] = {tensor("x", {2, 4}, {json::array(), axes({"tp"})})};
  m["outputs"] = {tensor("y", {2, 4}, {json::array(), json::array()})};
  m["kernels"] = {{{"name", "add"}},
                  {{"name", "twice"}},
                  {{"name", "gather"}, {"node", "/gather"}}};
  if (cuda) {
    m["kernels"][0]["cuda"] = cudaKernel("kerf_add", 3, 0);
    m["kernels"][1]["cuda"] = cudaKernel("kerf_twice", 2, 1);
    m["kernels"][2]["cuda"] = cudaKernel("kerf_gather", 2, 0, true);
  }
  m["library"] = {{{"kind", "matmul"},
                   {"dtype", "f32"},
                   {"batch", json::array()},
                   {"m", 2},
                   {"n", 4},
                   {"k", 2},
                   {"lhs", {{"buffer", 0}}},
                   {"rhs", {{"param", 0}}},
                   {"dst", {{"buffer", 1}}}}};
  json sum = {{"kind", "all_reduce"}, {"reduction", "sum"},
              {"dtype", "f32"},       {"axes", axes({"tp"})},
              {"src_shape", {2, 4}},  {"dst_shape", {2, 4}},
              {"group_bytes", 64},    {"node", "/sum"}};
  m["collectives"] = {sum, sum};
  m["functions"] = {{{"symbol", "forward"},
                     {"scratch_bytes", 1024},
                     {"num_arguments", 1},
                     {"ios",
                      {{{"dtype", "f32"}, {"shape", {2, 2}}},
                       {{"dtype", "f32"}, {"shape", {2, 4}}}}}}};
  m["stages"] = oneRun(2048, 1024, 1024);
  return p;
}

std::vector<float> input(float first = 1) {
  std::vector<float> x(8);
  for (int i = 0; i < 8; ++i)
    x[i] = first + static_cast<float>(i % 3);
  return x;
}

/// write() lists program and weights; the GPU code is not hashed here.
std::string written(TestPackage &p) { return p.write(); }

TEST(CudaPackage, EqualsTheCpu) {
  TestPackage host = twoRanks(false), gpu = twoRanks(true);
  std::string hostPath = written(host), gpuPath = written(gpu);
  RunResult want = runTestPackage(hostPath, {input()}, {}, 3);
  ASSERT_EQ(want.code, KERF_OK) << want.message;
  for (int seed = 1; seed <= 10; ++seed) {
    RecordingDriver driver("seed=" + std::to_string(seed));
    RunResult got = runTestPackage(gpuPath, {input()}, {}, 3);
    ASSERT_EQ(got.code, KERF_OK) << got.message;
    EXPECT_EQ(got.outputs, want.outputs) << "seed " << seed;
    EXPECT_EQ(driver.report(), "");
  }
}

// Of a step that is replayed, too: every kernel once, under its own name and
// node though functions are shared, and what lies between inputs and outputs.
TEST(CudaPackage, TraceShowsTheDevice) {
  RecordingDriver driver;
  TestPackage gpu = twoRanks(true);
  kerf_session_options_t options = {};
  options.trace = 1;
  for (int steps : {1, 2, 4}) {
    RunResult got = runTestPackage(written(gpu), {input()}, options, steps);
    ASSERT_EQ(got.code, KERF_OK) << got.message;
    std::map<std::string, int> seen;
    json events = json::parse(got.trace)["traceEvents"];
    for (const json &event : events)
      if (event["pid"] == 1 && event["ph"] == "X") {
        ++seen[event["name"].get<std::string>()];
        EXPECT_GE(event["ts"].get<double>(), 0);
        EXPECT_GE(event["dur"].get<double>(), 0);
        if (event["name"] == "gather") {
          EXPECT_EQ(event["args"]["node"], "/gather");
        }
      }
    // On two ranks: a copy to each GPU; the result and the failure record back.
    std::map<std::string, int> expected = {{"add", 4},
                                           {"twice", 4},
                                           {"gather", 2},
                                           {"library 0 matmul", 2},
                                           {"nccl all_reduce 32", 4},
                                           {"copy to the device", 2},
                                           {"copy from the device", 3}};
    for (const auto &[name, count] : expected)
      EXPECT_EQ(seen[name], count) << name << " in step " << steps;
    json time = json::parse(got.statistics)["time"];
    ASSERT_EQ(time["device_seconds_all"].size(), static_cast<size_t>(steps));
    for (const json &seconds : time["device_seconds_all"]) {
      EXPECT_GT(seconds.get<double>(), 0);
      EXPECT_LT(seconds.get<double>(), time["load_seconds"].get<double>() + 60);
    }
  }
}

TEST(CudaPackage, OrderOfWork) {
  RecordingDriver driver;
  TestPackage gpu = twoRanks(true);
  RunResult got = runTestPackage(written(gpu), {input()}, {}, 3);
  ASSERT_EQ(got.code, KERF_OK) << got.message;
  std::string dump = driver.dump();
  // In this order on rank 0's streams.
  size_t at = 0;
  for (const char *line : {"rank0.comm0.tp:",
                           "wait rank0.compute #",
                           "mark",
                           "nccl all_reduce 32",
                           "mark",
                           "rank0.compute:",
                           "upload",
                           "library 0 matmul",
                           "wait rank0.comm0.tp #",
                           "launch kerf_twice r gpu0+",
                           "launch kerf_twice r gpu0+",
                           "wait rank0.comm0.tp #",
                           "launch kerf_add",
                           "launch kerf_gather",
                           "download",
                           "begin capture",
                           "upload",
                           "library 0 matmul",
                           "end capture",
                           "launch graph of",
                           "launch graph of"}) {
    at = dump.find(line, at);
    ASSERT_NE(at, std::string::npos) << line << " is not in\n" << dump;
  }
}

// Every event that orders compute and communication is needed: without it the
// checker reports a race, whatever the order of execution happens to be.
TEST(CudaPackage, DroppedEventsAreNoticed) {
  TestPackage gpu = twoRanks(true);
  std::string path = written(gpu);
  int noticed = 0;
  std::vector<int> missed;
  for (int index = 0; index < 40; ++index) {
    RecordingDriver driver("drop=wait:0:" + std::to_string(index));
    kerf_session_options_t options{};
    options.deadline_seconds = 2;
    RunResult got = runTestPackage(path, {input()}, options, 1);
    if (got.code == KERF_OK) {
      missed.push_back(index);
      continue;
    }
    ++noticed;
    EXPECT_EQ(got.code, KERF_INTERNAL) << got.message;
    EXPECT_NE(got.message.find("race: "), std::string::npos) << got.message;
  }
  // Step 1 has five waits: two before the collectives, two after them, one at
  // the end, which the one after the last collective makes redundant.
  EXPECT_EQ(noticed, 4);
  ASSERT_FALSE(missed.empty());
  EXPECT_EQ(missed[0], 4);
}

TEST(CudaPackage, DroppedRecordsAreNoticed) {
  TestPackage gpu = twoRanks(true);
  std::string path = written(gpu);
  int noticed = 0;
  for (int index = 0; index < 20; ++index) {
    RecordingDriver driver("drop=record:1:" + std::to_string(index));
    kerf_session_options_t options{};
    options.deadline_seconds = 2;
    noticed += runTestPackage(path, {input()}, options, 1).code != KERF_OK;
  }
  EXPECT_GE(noticed, 4);
}

// A step that cannot be captured is enqueued
// again, and so are the later ones; the bytes of the attempt are not counted.
TEST(CudaPackage, CaptureFails) {
  TestPackage host = twoRanks(false), gpu = twoRanks(true);
  RunResult want = runTestPackage(written(host), {input()}, {}, 4);
  RecordingDriver driver("fail_capture=1");
  RunResult got = runTestPackage(written(gpu), {input()}, {}, 4);
  ASSERT_EQ(got.code, KERF_OK) << got.message;
  EXPECT_EQ(got.outputs, want.outputs);
  std::string dump = driver.dump();
  size_t first = dump.find("rank0.compute:"), second = dump.find("rank1.");
  ASSERT_NE(first, std::string::npos);
  std::string own = dump.substr(first, second - first);
  EXPECT_NE(own.find("end capture"), std::string::npos);
  EXPECT_EQ(own.find("launch graph"), std::string::npos) << own;
}

TEST(CudaPackage, KernelFails) {
  RecordingDriver driver;
  TestPackage gpu = twoRanks(true);
  RunResult got = runTestPackage(written(gpu), {input(5000)}, {}, 2);
  EXPECT_EQ(got.code, KERF_PROGRAM_FAILURE);
  EXPECT_EQ(got.node, "/gather");
  EXPECT_EQ(got.message.find("index 7 is out of range on rank"), 0u)
      << got.message;
}

TEST(CudaPackage, OutOfMemory) {
  RecordingDriver driver("memory=4096");
  TestPackage gpu = twoRanks(true);
  gpu.manifest["stages"][0]["arena_bytes"] = 8192;
  gpu.manifest["stages"][0]["planned_bytes"] = 9000;
  kerf_session_options_t options{};
  options.deadline_seconds = 1;
  RunResult got = runTestPackage(written(gpu), {input()}, options);
  EXPECT_EQ(got.code, KERF_OUT_OF_MEMORY);
  EXPECT_EQ(got.exitCode, 5);
  for (const char *part :
       {"out of memory on GPU ", "(Recording GPU (sm_90))",
        " asks for 8704 bytes",
        "arena 8192, parameters 512, the plan's peak is 9000",
        "of 4096 bytes are free"})
    EXPECT_NE(got.message.find(part), std::string::npos)
        << part << " is not in " << got.message;
}

// A driver that is too old for the cubin compiles the PTX.
TEST(CudaPackage, FallsBackToPtx) {
  TestPackage gpu = twoRanks(true);
  std::string path = written(gpu);
  std::vector<std::string> lines;
  kerf_session_options_t options{};
  options.log = [](void *user, kerf_log_level_t level, const char *line) {
    if (level == KERF_LOG_WARNING)
      static_cast<std::vector<std::string> *>(user)->push_back(line);
  };
  options.log_user = &lines;
  {
    RecordingDriver driver("refuse_cubin=1");
    RunResult got = runTestPackage(path, {input()}, options);
    ASSERT_EQ(got.code, KERF_OK) << got.message;
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0],
              "the driver (CUDA 13.0) refuses kernels.sm_90.cubin "
              "(CUDA_ERROR_NO_BINARY_FOR_GPU: error 209 of the recording "
              "driver): kernels.ptx is compiled by the driver instead");
  }
  RecordingDriver driver("refuse_cubin=1;refuse_ptx=1");
  RunResult got = runTestPackage(path, {input()});
  EXPECT_EQ(got.code, KERF_UNSUPPORTED_HOST);
  EXPECT_EQ(got.exitCode, 5);
  EXPECT_NE(got.message.find("no GPU code can be loaded"), std::string::npos)
      << got.message;
}

/// kerf-run in a process of its own; what it printed, and its exit code.
std::pair<std::string, int> run(const std::string &environment,
                                const std::string &path) {
  std::string command = "env " + environment + " " KERF_RUN " " + path +
                        " --seed=1 --quiet --timeout=2 2>&1";
  std::string text;
  std::FILE *pipe = ::popen(command.c_str(), "r");
  char buffer[256];
  while (size_t n = std::fread(buffer, 1, sizeof(buffer), pipe))
    text.append(buffer, n);
  int status = ::pclose(pipe);
  return {text, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

TEST(CudaPackage, ErrorsOfTheMachine) {
  TestPackage gpu = twoRanks(true);
  std::string path = written(gpu);
  struct Case {
    const char *environment, *text;
    int code;
  } cases[] = {
      {"KERF_CUDA_DRIVER=/nowhere/libcuda.so.1",
       "no CUDA driver on this machine, so no GPU can be used: ", 5},
      {"KERF_RECORDING=devices=0", "the CUDA driver finds no GPU", 5},
      {"KERF_RECORDING=devices=1",
       "rank 1 needs GPU 1, this machine has 1 (0: Recording GPU (sm_90))", 5},
      {"KERF_CUDA_DEVICES=0,9", "rank 1 needs GPU 9, this machine has 8", 5},
      {"KERF_CUDA_DEVICES=x", "bad list of GPUs 'x'", 2},
      {"KERF_CUDA_DEVICES=1,1", "ranks 0 and 1 both use GPU", 5},
      {"KERF_NCCL=/nowhere/libnccl.so",
       "several GPUs need NCCL, which is not on this machine: ", 5},
      {"'KERF_RECORDING=names=NVIDIA H200,NVIDIA A100'",
       "mixed GPU models: rank 0 has NVIDIA H200 (sm_90), rank 1 has NVIDIA "
       "A100 (sm_90)",
       5},
      {"KERF_RECORDING=arch=75",
       "no GPU code can be loaded: no cubin for Recording GPU (sm_75)", 5},
      {"KERF_SHARE_GPU=1 KERF_RECORDING=devices=1", "", 0},
      {"KERF_RECORDING=devices=2", "", 0},
  };
  for (const Case &c : cases) {
    auto [text, code] = run(c.environment, path);
    EXPECT_EQ(code, c.code) << c.environment << "\n" << text;
    EXPECT_NE(text.find(c.text), std::string::npos)
        << c.environment << " printed\n"
        << text;
  }
}

// Ranks that share a GPU leave a mark in run.json.
TEST(CudaPackage, SharedGpuIsMarked) {
  TestPackage gpu = twoRanks(true);
  std::string path = written(gpu);
  // Beside the package, not in it: that would be one of its files.
  std::string stats = path.substr(0, path.find_last_not_of('/') + 1) + ".json";
  for (const char *devices : {"1", "2"}) {
    auto [text, code] =
        run(std::string("KERF_SHARE_GPU=1 KERF_RECORDING=devices=") + devices,
            path + " --stats=" + stats);
    ASSERT_EQ(code, 0) << text;
    json root = json::parse(std::ifstream(stats));
    EXPECT_EQ(root.contains("shared_devices"), *devices == '1');
  }
  std::remove(stats.c_str());
}

// What kerf-run's --inject does on GPU ranks: all is over in T + a few seconds.
TEST(CudaPackage, InjectedFaults) {
  TestPackage gpu = twoRanks(true);
  std::string path = written(gpu);
  for (const char *fault : {"die", "hang", "skip"}) {
    RecordingDriver driver;
    kerf_session_options_t options{};
    options.deadline_seconds = 1;
    std::string inject = std::string("rank=1,collective=1,fault=") + fault;
    options.inject = inject.c_str();
    RunResult got = runTestPackage(path, {input()}, options, 2);
    EXPECT_EQ(got.exitCode, 5) << fault << ": " << got.message;
  }
}

// NCCL before 2.22 aborts communicators on a thread each, later ones in a
// group; nothing is wrong at the end of a good run either.
TEST(CudaPackage, EndsOfRuns) {
  TestPackage gpu = twoRanks(true);
  std::string path = written(gpu);
  for (const char *version : {"22000", "22200"})
    for (const char *fault : {"", "die"}) {
      auto [text, code] = run(
          std::string("KERF_RECORDING_LOUD=1 KERF_RECORDING=nccl_version=") +
              version,
          path + " --repeat=3" +
              (*fault
                   ? std::string(" --inject=rank=1,collective=3,fault=") + fault
                   : ""));
      EXPECT_EQ(code, *fault ? 5 : 0) << text;
      EXPECT_EQ(text.find("recording: "), std::string::npos) << text;
    }
}

// Each GPU finds another algorithm to be the fastest; the lowest rank's holds.
TEST(CudaPackage, RanksUseOneAlgorithm) {
  TestPackage host = twoRanks(false), gpu = twoRanks(true);
  RunResult want = runTestPackage(written(host), {input()});
  RecordingDriver driver("algorithms=3");
  ::setenv("KERF_CUBLASLT", KERF_RECORDING_LIBRARY, 1);
  ::setenv("KERF_CUDA_CACHE", "none", 1);
  RunResult got = runTestPackage(written(gpu), {input()}, {}, 2);
  ::unsetenv("KERF_CUBLASLT");
  ::unsetenv("KERF_CUDA_CACHE");
  ASSERT_EQ(got.code, KERF_OK) << got.message;
  EXPECT_EQ(got.outputs, want.outputs);
  EXPECT_EQ(driver.report(), "");
  std::string dump = driver.dump();
  for (int rank : {0, 1}) {
    std::string own = dump.substr(dump.find(cat("rank", rank, ".compute:")));
    own = own.substr(0, own.find("end capture"));
    for (int i : {0, 1, 2})
      EXPECT_NE(own.find(cat("algorithm ", i)), std::string::npos) << own;
    size_t step = own.rfind("begin capture");
    EXPECT_NE(own.find("algorithm 0", step), std::string::npos) << own;
    own.resize(step);
    EXPECT_EQ(own.substr(own.rfind("algorithm "), 11), "algorithm 0") << own;
  }
}

// Weights drawn from a seed: the same on a CPU and on a GPU, whatever the mesh.
TEST(CudaPackage, SeededWeights) {
  auto seeded = [](bool cuda) {
    TestPackage p = twoRanks(cuda);
    p.weights.erase("w");
    json &w = p.manifest["parameters"][0];
    w.erase("tensor");
    w["seed"] = 7;
    w["stored"] = "w";
    w["distribution"] = "normal";
    w["std"] = 0.5;
    return p;
  };
  TestPackage host = seeded(false), gpu = seeded(true);
  RecordingDriver driver;
  RunResult want = runTestPackage(written(host), {input()}),
            got = runTestPackage(written(gpu), {input()});
  ASSERT_EQ(want.code, KERF_OK) << want.message;
  ASSERT_EQ(got.code, KERF_OK) << got.message;
  EXPECT_EQ(got.outputs, want.outputs);
  EXPECT_NE(got.outputs[0][0], 0);
}

// A shard index is written on the stream, in the order of launches: here into
// bytes that a kernel before it reads. With micro-batches it changes.
TEST(CudaPackage, ShardIndices) {
  constexpr const char *program = R"C(
static void number(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const int64_t *i = b[0]; const float *x = b[1]; float *z = b[2];
  for (int64_t k = begin; k < end; ++k) z[k] = x[k] + 10 * i[0];
}
FUNCTION(forward) {
  char *at = scratch;
  TRY(api->copy(ctx, ios[0], at + 64, 8));
  TRY(api->store_shard_index(ctx, 0, at));
  void *l0[] = {at, ios[0], at + 128};
  TRY(api->launch(ctx, 0, number, l0, 3, 0, 2, 1));
  TRY(api->store_shard_index(ctx, 1, at));
  void *l1[] = {at, at + 128, ios[1]};
  return api->launch(ctx, 0, number, l1, 3, 0, 2, 1);
}
)C";
  auto package = [&](bool cuda) {
    TestPackage p(program);
    json &m = p.manifest;
    m["abi"] = 2;
    if (cuda) {
      m["target"] = {{"device", "cuda"},
                     {"cuda", {{"ptx", "k.ptx"}, {"ptx_arch", "sm_80"}}}};
      p.dir().write("k.ptx", ".entry kerf_number\n");
    }
    m["mesh"] = {{"axes", {{{"name", "tp"}, {"size", 2}}}},
                 {"time_axis", {{"name", "mb"}, {"size", 3}}}};
    std::vector<json> sharding = {axes({"mb", "tp"})};
    m["inputs"] = {tensor("x", {12}, sharding)};
    m["outputs"] = {tensor("y", {12}, sharding)};
    m["shard_indices"] = {axes({"tp"}), axes({"mb", "tp"})};
    m["kernels"] = {{{"name", "number"}}};
    if (cuda) {
      m["kernels"][0]["cuda"] = cudaKernel("kerf_number", 3, 0);
      m["kernels"][0]["cuda"]["bytes"] = {8, 8, 8};
    }
    json io = {{"dtype", "f32"}, {"shape", {2}}};
    m["functions"] = {{{"symbol", "forward"},
                       {"scratch_bytes", 256},
                       {"num_arguments", 1},
                       {"ios", {io, io}}}};
    json list = json::array();
    for (int j = 0; j < 3; ++j) {
      list.push_back({{"input", 0}, {"slot", 0}, {"micro_batch", j}});
      list.push_back({{"run", 0}, {"slots", {0, 1}}, {"micro_batch", j}});
      list.push_back({{"output", 0}, {"slot", 1}, {"micro_batch", j}});
    }
    m["stages"] = {
        {{"arena_bytes", 512},
         {"scratch", {{"offset", 256}, {"bytes", 256}}},
         {"slots",
          {{{"offset", 0}, {"bytes", 64}}, {{"offset", 64}, {"bytes", 64}}}},
         {"instructions", list}}};
    return p;
  };
  TestPackage host = package(false), gpu = package(true);
  std::vector<float> x(12), want(12);
  for (int i = 0; i < 12; ++i) {
    x[i] = static_cast<float>(i);
    want[i] = x[i] + 10.f * static_cast<float>(i / 2 % 2) +
              10.f * static_cast<float>(i / 2);
  }
  RunResult cpu = runTestPackage(written(host), {x});
  ASSERT_EQ(cpu.code, KERF_OK) << cpu.message;
  EXPECT_EQ(cpu.outputs[0], want);
  for (int seed = 1; seed < 4; ++seed) {
    RecordingDriver driver("seed=" + std::to_string(seed));
    RunResult got = runTestPackage(written(gpu), {x}, {}, 3);
    ASSERT_EQ(got.code, KERF_OK) << got.message;
    EXPECT_EQ(got.outputs[0], want);
  }
}

} // namespace
