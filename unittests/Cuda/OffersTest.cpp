//===- OffersTest.cpp - what products do beside, or kernels do ------------===//
//
// Calls that are offered a kernel's work (docs/Package.md): with the kernel and
// without it a step computes the same, and one of the two does it.
//
//===----------------------------------------------------------------------===//
#include "CudaKernelEntry.h"
#include "RecordingDriver.h"
#include "TestPackage.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace kerf::rt;
using namespace kerf::rt::test;
using nlohmann::json;

namespace {
constexpr int rows = 8, parts = 2;

int count(const std::string &text, const std::string &part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; ++at)
    ++n;
  return n;
}

/// For the life of a test.
struct Variable {
  Variable(const char *name, const char *value) : name(name) {
    ::setenv(name, value, 1);
  }
  ~Variable() { ::unsetenv(name); }
  const char *name;
};

// The gradients of a layer: w = x^T g, and b, the sums over the 8 rows of g, in
// two parts by the first kernel, which the second adds up. `lhs`: w = g^T x.
TestPackage gradients(bool cuda, bool lhs, bool callFirst, int ranks = 1) {
  std::string call = "  TRY(api->library(ctx, 0, product));\n",
              kernel = "  TRY(api->launch(ctx, 0, sums, first, 2, 0, 4, 1));\n";
  TestPackage p(R"C(
static void sums(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const float *g = b[0]; float *z = b[1];
  for (int64_t i = begin; i < end; ++i)
    for (int part = 0; part < 2; ++part) {
      float sum = 0;
      for (int row = 0; row < 4; ++row) sum += g[(part * 4 + row) * 4 + i];
      z[part * 4 + i] = sum;
    }
}
static void total(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const float *x = b[0]; float *z = b[1];
  for (int64_t i = begin; i < end; ++i) z[i] = x[i] + x[4 + i];
}
FUNCTION(forward) {
  void *parts = scratch;
  void *first[] = {ios[1], parts}, *second[] = {parts, ios[3]};
  void *product[] = {ios[0], ios[1], ios[2], parts};
)C" + (callFirst ? call + kernel : kernel + call) +
                R"C(
  return api->launch(ctx, 1, total, second, 2, 0, 4, 1);
}
)C");
  json &m = p.manifest;
  if (ranks > 1)
    m["mesh"] = {{"axes", {{{"name", "tp"}, {"size", ranks}}}}};
  m["kernels"] = {{{"name", "sums"}}, {{"name", "total"}}};
  json product = {
      {"kind", "matmul"},
      {"dtype", "f32"},
      {"batch", json::array()},
      {"m", lhs ? 4 : 3},
      {"n", lhs ? 3 : 4},
      {"k", rows},
      {"lhs", {{"buffer", lhs ? 1 : 0}, {"strides", {1, lhs ? 4 : 3}}}},
      {"rhs", {{"buffer", lhs ? 0 : 1}}},
      {"dst", {{"buffer", 2}}}};
  if (cuda) {
    m["target"] = {{"device", "cuda"},
                   {"cuda", {{"ptx", "k.ptx"}, {"ptx_arch", "sm_80"}}}};
    p.dir().write("k.ptx", ".entry kerf_k0\n.entry kerf_k1\n");
    for (int i : {0, 1})
      m["kernels"][i]["cuda"] = cudaKernel(i ? "kerf_k1" : "kerf_k0", 2, 0);
    m["kernels"][0]["cuda"]["bytes"] = {4 * rows * 4, 4 * parts * 4};
    m["kernels"][1]["cuda"]["bytes"] = {4 * parts * 4, 4 * 4};
    product["bias_gradient"] = {{"buffer", 3},
                                {"rows", parts},
                                {"kernel", 0},
                                {"operand", lhs ? "lhs" : "rhs"}};
  }
  m["library"] = {product};
  auto io = [](int a, int b) -> json {
    return {{"dtype", "f32"}, {"shape", {a, b}}};
  };
  json both = {json::array(), json::array()};
  m["inputs"] = {tensor("x", {rows, 3}, both), tensor("g", {rows, 4}, both)};
  m["outputs"] = {
      tensor("w", lhs ? std::vector<int64_t>{4, 3} : std::vector<int64_t>{3, 4},
             both),
      tensor("b", {1, 4}, both)};
  m["functions"] = {
      {{"symbol", "forward"},
       {"scratch_bytes", 64},
       {"num_arguments", 2},
       {"ios",
        {io(rows, 3), io(rows, 4), io(lhs ? 4 : 3, lhs ? 3 : 4), io(1, 4)}}}};
  m["stages"] = {{{"arena_bytes", 1024},
                  {"scratch", {{"offset", 512}, {"bytes", 64}}},
                  {"slots",
                   {{{"offset", 0}, {"bytes", 128}},
                    {{"offset", 128}, {"bytes", 128}},
                    {{"offset", 256}, {"bytes", 128}},
                    {{"offset", 384}, {"bytes", 64}}}},
                  {"instructions",
                   {{{"input", 0}, {"slot", 0}},
                    {{"input", 1}, {"slot", 1}},
                    {{"run", 0}, {"slots", {0, 1, 2, 3}}},
                    {{"output", 0}, {"slot", 2}},
                    {{"output", 1}, {"slot", 3}}}}}};
  return p;
}

std::vector<std::vector<float>> inputs() {
  std::vector<float> x(rows * 3), g(rows * 4);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i * 3 % 7) - 3;
  for (size_t i = 0; i < g.size(); ++i)
    g[i] = static_cast<float>(i * 5 % 11) - 5;
  return {x, g};
}

std::string withoutTiming(const std::string &dump) {
  return dump.substr(std::min(dump.size(), dump.find("begin capture")));
}

// BGRADA (256) for g on the right, BGRADB (512) on the left. Where the library
// refuses it, is slower with it, or is not to do it, the kernel runs.
TEST(Offers, GradientsOfBiases) {
  Variable library("KERF_CUBLASLT", KERF_RECORDING_LIBRARY),
      cache("KERF_CUDA_CACHE", "none");
  for (bool lhs : {false, true})
    for (bool callFirst : {false, true}) {
      TestPackage host = gradients(false, lhs, callFirst),
                  gpu = gradients(true, lhs, callFirst);
      RunResult want = runTestPackage(host.write(), inputs(), {}, 3);
      ASSERT_EQ(want.code, KERF_OK) << want.message;
      std::string path = gpu.write(), epilogue = lhs ? "512" : "256";
      for (auto [settings, wanted, used] :
           {std::tuple<std::string, const char *, bool>{"", "1", true},
            {"seed=2;algorithms=3", "1", true},
            {"refuse_epilogue=" + epilogue, "1", false},
            {"slow_epilogue=" + epilogue, "1", false},
            {"", "0", false}}) {
        Variable epilogues("KERF_CUDA_EPILOGUES", wanted);
        RecordingDriver driver(settings);
        RunResult got = runTestPackage(path, inputs(), {}, 3);
        ASSERT_EQ(got.code, KERF_OK) << got.message;
        EXPECT_EQ(got.outputs, want.outputs) << settings;
        EXPECT_EQ(driver.report(), "");
        std::string dump = driver.dump(), step = withoutTiming(dump);
        EXPECT_EQ(count(dump, "launch kerf_k0"), used ? 0 : 2) << dump;
        EXPECT_EQ(count(dump, "launch kerf_k1"), 2) << dump;
        EXPECT_EQ(count(step, "epilogue " + epilogue), used) << dump;
        EXPECT_EQ(count(step, "set 16"), used) << dump; // the second part
      }
    }
}

// Products that the CPU's library answers leave it to the kernel.
TEST(Offers, NotAnswered) {
  TestPackage host = gradients(false, false, false),
              gpu = gradients(true, false, false);
  RunResult want = runTestPackage(host.write(), inputs());
  RecordingDriver driver;
  RunResult got = runTestPackage(gpu.write(), inputs());
  ASSERT_EQ(got.code, KERF_OK) << got.message;
  EXPECT_EQ(got.outputs, want.outputs);
  EXPECT_EQ(count(driver.dump(), "launch kerf_k0"), 1);
}

// What was found out is kept: neither is asked nor measured again.
TEST(Offers, AreCached) {
  TestPackage gpu = gradients(true, false, false);
  std::string path = gpu.write();
  Variable library("KERF_CUBLASLT", KERF_RECORDING_LIBRARY);
  for (const char *settings : {"", "slow_epilogue=256"}) {
    Variable cache("KERF_CUDA_CACHE", (path + settings + ".cache").c_str());
    for (bool first : {true, false}) {
      RecordingDriver driver(first ? settings : "");
      RunResult got = runTestPackage(path, inputs());
      ASSERT_EQ(got.code, KERF_OK) << got.message;
      std::string dump = driver.dump();
      EXPECT_EQ(count(dump, "cublaslt heuristics"), first ? 2 : 0) << dump;
      EXPECT_EQ(count(dump, "cublaslt 4x3"), first ? 13 : 1) << dump;
      EXPECT_EQ(count(dump, "launch kerf_k0"), *settings ? 1 : 0) << dump;
    }
  }
}

// Ranks that compute the same do it in the same way: the lowest one's.
TEST(Offers, RanksAgree) {
  TestPackage gpu = gradients(true, false, false, 2);
  std::string path = gpu.write();
  Variable library("KERF_CUBLASLT", KERF_RECORDING_LIBRARY),
      cache("KERF_CUDA_CACHE", "none");
  for (int slow : {0, 1}) {
    RecordingDriver driver(cat("slow_epilogue=256:", slow));
    RunResult got = runTestPackage(path, inputs(), {}, 2);
    ASSERT_EQ(got.code, KERF_OK) << got.message;
    EXPECT_EQ(driver.report(), "");
    EXPECT_EQ(count(driver.dump(), "launch kerf_k0"), slow == 0 ? 4 : 0);
  }
}

TEST(Offers, Refused) {
  struct Edit {
    const char *pointer;
    json value;
    const char *message;
  };
  const std::string at = "library[0].bias_gradient";
  for (const Edit &edit : std::initializer_list<Edit>{
           {"/library/0/bias_gradient/operand", "dst",
            "operand: expected lhs or rhs"},
           {"/library/0/bias_gradient/buffer", 2,
            "buffer: is one of the product's own"},
           {"/library/0/bias_gradient/rows", 0,
            "rows: expected an integer in [1, "},
           {"/library/0/bias_gradient/rows", 3,
            "kernel: expected a kernel for GPUs that writes 48 bytes to its "
            "last buffer and does nothing else"},
           {"/library/0/bias_gradient/kernel", 2,
            "kernel: expected an integer in [0, 1]"},
           {"/library/0/bias_gradient/kernel", 1,
            "kernel: expected a kernel for GPUs that writes 32 bytes"},
           {"/kernels/0/cuda/access",
            {"write", "write"},
            "kernel: expected a kernel for GPUs that"},
           {"/kernels/0/cuda/access",
            {"read", "read_write"},
            "kernel: expected a kernel for GPUs that"},
           {"/kernels/0/cuda/fails", true,
            "kernel: expected a kernel for GPUs that"},
           {"/library/0/post_ops",
            {{{"kind", "relu"}}},
            "expected a matmul without batch, bias and post-ops"}}) {
    TestPackage gpu = gradients(true, false, false);
    gpu.manifest[json::json_pointer(edit.pointer)] = edit.value;
    RecordingDriver driver;
    RunResult got = runTestPackage(gpu.write(), inputs());
    EXPECT_EQ(got.code, KERF_BAD_PACKAGE) << edit.pointer;
    EXPECT_NE(got.message.find(at), std::string::npos) << got.message;
    EXPECT_NE(got.message.find(edit.message), std::string::npos) << got.message;
  }
  TestPackage gpu = gradients(true, false, false);
  gpu.manifest["library"].push_back(gpu.manifest["library"][0]);
  RecordingDriver driver;
  RunResult got = runTestPackage(gpu.write(), inputs());
  EXPECT_EQ(got.code, KERF_BAD_PACKAGE);
  EXPECT_NE(got.message.find("library[1].bias_gradient.kernel: is that of "
                             "another call, too"),
            std::string::npos)
      << got.message;
}

// y = relu(x w + b) and z = x w where y > 0, which a kernel sees to in place.
TestPackage masks(bool cuda, bool bias) {
  TestPackage p(R"C(
static void mask(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const float *y = b[0], *g = b[1]; float *z = b[2];
  for (int64_t i = begin; i < end; ++i) z[i] = y[i] <= 0 ? 0 : g[i];
}
FUNCTION(forward) {
  void *first[] = {ios[0], ios[1], ios[3], ios[2]};
  void *second[] = {ios[0], ios[1], ios[4]}, *third[] = {ios[3], ios[4], ios[4]};
  TRY(api->library(ctx, 0, first));
  TRY(api->library(ctx, 1, second));
  return api->launch(ctx, 0, mask, third, 3, 0, 20, 1);
}
)C");
  json &m = p.manifest;
  m["kernels"] = {{{"name", "mask"}}};
  json relu = {{"kind", "matmul"},
               {"dtype", "f32"},
               {"batch", json::array()},
               {"m", 5},
               {"n", 4},
               {"k", 3},
               {"lhs", {{"buffer", 0}}},
               {"rhs", {{"buffer", 1}}},
               {"dst", {{"buffer", 2}}}},
       plain = relu;
  if (bias)
    relu["bias"] = {{"buffer", 3}};
  relu["post_ops"] = {{{"kind", "relu"}}};
  if (cuda) {
    m["target"] = {{"device", "cuda"},
                   {"cuda", {{"ptx", "k.ptx"}, {"ptx_arch", "sm_80"}}}};
    p.dir().write("k.ptx", ".entry kerf_k0\n");
    m["kernels"][0]["cuda"] = cudaKernel("kerf_k0", 3, 0);
    m["kernels"][0]["cuda"]["bytes"] = {80, 80, 80};
    plain["relu_gradient"] = {{"forward", 0}, {"kernel", 0}};
  }
  m["library"] = {relu, plain};
  auto io = [](int a, int b) -> json {
    return {{"dtype", "f32"}, {"shape", {a, b}}};
  };
  json both = {json::array(), json::array()};
  m["inputs"] = {tensor("x", {5, 3}, both), tensor("w", {3, 4}, both),
                 tensor("b", {1, 4}, both)};
  m["outputs"] = {tensor("y", {5, 4}, both), tensor("z", {5, 4}, both)};
  m["functions"] = {
      {{"symbol", "forward"},
       {"scratch_bytes", 0},
       {"num_arguments", 3},
       {"ios", {io(5, 3), io(3, 4), io(1, 4), io(5, 4), io(5, 4)}}}};
  json slots = json::array(), instructions = json::array();
  for (int i = 0; i < 5; ++i)
    slots.push_back({{"offset", 128 * i}, {"bytes", 128}});
  for (int i = 0; i < 3; ++i)
    instructions.push_back({{"input", i}, {"slot", i}});
  instructions.push_back({{"run", 0}, {"slots", {0, 1, 2, 3, 4}}});
  for (int i = 0; i < 2; ++i)
    instructions.push_back({{"output", i}, {"slot", 3 + i}});
  m["stages"] = {{{"arena_bytes", 1024},
                  {"scratch", {{"offset", 1024}, {"bytes", 0}}},
                  {"slots", slots},
                  {"instructions", instructions}}};
  return p;
}

std::vector<std::vector<float>> maskInputs() {
  std::vector<float> x(15), w(12);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i * 3 % 7) - 3;
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = static_cast<float>(i * 5 % 11) - 5;
  return {x, w, {1, -2, 3, -4}};
}

// RELU_AUX (130) or RELU_AUX_BIAS (134) writes the bits that DRELU (136) reads:
// both, or neither of them and the kernel.
TEST(Offers, GradientsOfRelu) {
  Variable library("KERF_CUBLASLT", KERF_RECORDING_LIBRARY),
      cache("KERF_CUDA_CACHE", "none");
  for (bool bias : {false, true}) {
    TestPackage host = masks(false, bias), gpu = masks(true, bias);
    RunResult want = runTestPackage(host.write(), maskInputs(), {}, 3);
    ASSERT_EQ(want.code, KERF_OK) << want.message;
    std::string path = gpu.write(), forward = bias ? "134" : "130",
                plain = bias ? "6" : "2";
    for (auto [settings, wanted, used] :
         {std::tuple<std::string, const char *, bool>{"", "1", true},
          {"seed=2;algorithms=3", "1", true},
          {"refuse_epilogue=" + forward, "1", false},
          {"refuse_epilogue=136", "1", false},
          {"slow_epilogue=" + forward, "1", false},
          {"slow_epilogue=136", "1", false},
          {"", "0", false}}) {
      Variable epilogues("KERF_CUDA_EPILOGUES", wanted);
      RecordingDriver driver(settings);
      RunResult got = runTestPackage(path, maskInputs(), {}, 3);
      ASSERT_EQ(got.code, KERF_OK) << got.message;
      EXPECT_EQ(got.outputs, want.outputs) << settings;
      EXPECT_EQ(driver.report(), "");
      std::string dump = driver.dump(), step = withoutTiming(dump);
      EXPECT_EQ(count(dump, "launch kerf_k0"), used ? 0 : 2) << dump;
      EXPECT_EQ(count(step, "epilogue " + forward + " "), used) << dump;
      EXPECT_EQ(count(step, "epilogue 136"), used) << dump;
      EXPECT_EQ(count(step, "epilogue " + plain + " "), !used) << dump;
    }
  }
}

TEST(Offers, RefusedMasks) {
  struct Edit {
    const char *pointer;
    json value;
    const char *message;
  };
  for (const Edit &edit : std::initializer_list<Edit>{
           {"/library/1/relu_gradient/forward", 1,
            "relu_gradient.forward: expected a call before this one"},
           {"/library/1/relu_gradient/forward", 7,
            "relu_gradient.forward: expected a call before this one"},
           {"/library/0/post_ops", json::array(),
            "relu_gradient.forward: expected a matmul of 5x4 without batch "
            "that ends with relu"},
           {"/library/0/n", 3,
            "relu_gradient.forward: expected a matmul of 5x4 without batch"},
           {"/library/0/dst/offset", 4,
            "relu_gradient.forward: expected products that are stored dense"},
           {"/library/1/dst/strides",
            {1, 5},
            "relu_gradient.forward: expected products that are stored dense"},
           {"/library/1/post_ops",
            {{{"kind", "relu"}}},
            "relu_gradient: expected a matmul without batch, bias, "
            "bias_gradient and post-ops"},
           {"/kernels/0/cuda/bytes",
            {80, 80, 40},
            "relu_gradient.kernel: expected a kernel for GPUs that writes 80 "
            "bytes to its last buffer and does nothing else"},
           {"/library/1/relu_gradient/kernel", 1,
            "relu_gradient.kernel: expected an integer in [0, 0]"}}) {
    TestPackage gpu = masks(true, false);
    gpu.manifest[json::json_pointer(edit.pointer)] = edit.value;
    RecordingDriver driver;
    RunResult got = runTestPackage(gpu.write(), maskInputs());
    EXPECT_EQ(got.code, KERF_BAD_PACKAGE) << edit.pointer;
    EXPECT_NE(got.message.find("library[1]." + std::string(edit.message)),
              std::string::npos)
        << got.message;
  }
  // Two calls of one kernel, of one product with ReLU.
  for (const char *key : {"kernel", "forward"}) {
    TestPackage gpu = masks(true, false);
    gpu.manifest["library"].push_back(gpu.manifest["library"][1]);
    if (std::string(key) == "forward") {
      gpu.manifest["kernels"].push_back(gpu.manifest["kernels"][0]);
      gpu.manifest["library"][2]["relu_gradient"]["kernel"] = 1;
    }
    RecordingDriver driver;
    RunResult got = runTestPackage(gpu.write(), maskInputs());
    EXPECT_EQ(got.code, KERF_BAD_PACKAGE);
    EXPECT_NE(got.message.find(cat("library[2].relu_gradient.", key,
                                   ": is that of another call, too")),
              std::string::npos)
        << got.message;
  }
}

} // namespace
