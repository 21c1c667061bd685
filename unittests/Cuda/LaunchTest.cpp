//===- LaunchTest.cpp - updates in one launch, products with epilogues ----===//
//
// What the CUDA device makes of a program's launches and library calls: updates
// that share a launch, gradients of activations behind a product.
//
//===----------------------------------------------------------------------===//
#include "CudaKernelEntry.h"
#include "RecordingDriver.h"
#include "TestPackage.h"

#include "device/cuda/Batches.h"
#include "device/cuda/Copies.h"
#include "device/cuda/CudaDevice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

using namespace kerf::rt;
using namespace kerf::rt::test;
using nlohmann::json;

namespace {

// Three updates w += lr g of tensors of different size, then one that reads
// what the first has written.
TestPackage updates(bool cuda) {
  TestPackage p(R"C(
static void update(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const float *w = b[0], *g = b[1], *lr = b[2]; float *z = b[3];
  for (int64_t i = begin; i < end; ++i) z[i] = w[i] + lr[0] * g[i];
}
FUNCTION(forward) {
  char *at = scratch;
  TRY(api->copy(ctx, ios[0], at, 64));
  void *l0[] = {at, ios[0], ios[0], at}, *l1[] = {at + 64, ios[0], ios[0], at + 64};
  void *l2[] = {ios[0], ios[0], ios[0], at + 128};
  TRY(api->copy(ctx, ios[0], at + 64, 48));
  TRY(api->launch(ctx, 0, update, l0, 4, 0, 16, 1));
  TRY(api->launch(ctx, 1, update, l1, 4, 0, 12, 1));
  TRY(api->launch(ctx, 2, update, l2, 4, 0, 8, 1));
  void *l3[] = {at, at + 128, ios[0], ios[1]};
  return api->launch(ctx, 2, update, l3, 4, 0, 8, 1);
}
)C");
  json &m = p.manifest;
  if (cuda) {
    m["target"] = {{"device", "cuda"},
                   {"cuda", {{"ptx", "k.ptx"}, {"ptx_arch", "sm_80"}}}};
    p.dir().write("k.ptx", ".entry kerf_u\n.entry kerf_b0\n");
  }
  m["inputs"] = {tensor("x", {16}, {json::array()})};
  m["outputs"] = {tensor("y", {8}, {json::array()})};
  m["kernels"] = json::array();
  for (int elements : {16, 12, 8}) {
    json kernel = {{"name", "update"}};
    if (cuda) {
      kernel["cuda"] = cudaKernel("kerf_u", 4, 0);
      kernel["cuda"]["bytes"] = {4 * elements, 4 * elements, 4, 4 * elements};
      kernel["cuda"]["batch"] = {{"entry", "kerf_b0"},
                                 {"elements", elements},
                                 {"chunk", 8},
                                 {"threads", 32}};
    }
    m["kernels"].push_back(kernel);
  }
  auto io = [](int n) -> json { return {{"dtype", "f32"}, {"shape", {n}}}; };
  m["functions"] = {{{"symbol", "forward"},
                     {"scratch_bytes", 256},
                     {"num_arguments", 1},
                     {"ios", {io(16), io(8)}}}};
  m["stages"] = oneRun(512, 256, 256);
  return p;
}

int count(const std::string &text, const std::string &part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; ++at)
    ++n;
  return n;
}

// One launch does the three that do not depend on each other; the table is
// written once, and used by the captured step as well.
TEST(CudaPackage, UpdatesInOneLaunch) {
  std::vector<float> x(16);
  for (int i = 0; i < 16; ++i)
    x[i] = static_cast<float>(i % 5);
  TestPackage host = updates(false), gpu = updates(true);
  std::string path = gpu.write();
  RunResult want = runTestPackage(host.write(), {x}, {}, 3);
  ASSERT_EQ(want.code, KERF_OK) << want.message;
  for (int seed = 1; seed <= 5; ++seed) {
    RecordingDriver driver("seed=" + std::to_string(seed));
    RunResult got = runTestPackage(path, {x}, {}, 3);
    ASSERT_EQ(got.code, KERF_OK) << got.message;
    EXPECT_EQ(got.outputs, want.outputs);
    std::string dump = driver.dump();
    EXPECT_EQ(count(dump, "launch kerf_b0"), 2) << dump; // steps 1 and 2
    EXPECT_EQ(count(dump, "launch kerf_u"), 2) << dump;  // the last update
    // 4 first blocks and rows of 5 words for three tensors.
    EXPECT_EQ(count(dump, "upload 152"), 1) << dump;
  }
  RecordingDriver driver;
  ::setenv("KERF_CUDA_BATCH", "0", 1);
  RunResult got = runTestPackage(path, {x}, {}, 3);
  ::unsetenv("KERF_CUDA_BATCH");
  EXPECT_EQ(got.outputs, want.outputs);
  EXPECT_EQ(count(driver.dump(), "launch kerf_u"), 8);
  EXPECT_EQ(count(driver.dump(), "launch kerf_b0"), 0);
}

// dst = (x w) gelu'(p), m x n x 4.
TestPackage slopes(bool cuda, int m, int n) {
  TestPackage p(R"C(
FUNCTION(forward) {
  void *matmul[] = {ios[0], params[0], ios[1], ios[2]};
  return api->library(ctx, 0, matmul);
}
)C");
  json &manifest = p.manifest;
  if (cuda) {
    manifest["target"] = {{"device", "cuda"},
                          {"cuda", {{"ptx", "k.ptx"}, {"ptx_arch", "sm_80"}}}};
    p.dir().write("k.ptx", ".entry kerf_c0\n");
  }
  std::vector<float> w(4 * n);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = static_cast<float>(static_cast<int>(i * 5 % 7) - 3) / 4;
  p.weights["w"] = {{4, n}, w};
  manifest["parameters"] = {
      tensor("w", {4, n}, {json::array(), json::array()})};
  manifest["parameters"][0]["tensor"] = "w";
  manifest["inputs"] = {tensor("x", {m, 4}, {json::array(), json::array()}),
                        tensor("p", {m, n}, {json::array(), json::array()})};
  manifest["outputs"] = {tensor("y", {m, n}, {json::array(), json::array()})};
  manifest["kernels"] = json::array();
  json call = {
      {"kind", "matmul"},
      {"dtype", "f32"},
      {"batch", json::array()},
      {"m", m},
      {"n", n},
      {"k", 4},
      {"lhs", {{"buffer", 0}}},
      {"rhs", {{"buffer", 1}}},
      {"dst", {{"buffer", 3}}},
      {"post_ops",
       {{{"kind", "gelu_tanh_gradient"}, {"operand", {{"buffer", 2}}}}}}};
  if (cuda) {
    call["cuda"] = cudaKernel("kerf_c0", 3, 0);
    call["cuda"]["arguments"] = {3, 2, 3};
    call["cuda"]["bytes"] = {4 * m * n, 4 * m * n, 4 * m * n};
  }
  manifest["library"] = {call};
  auto io = [](int a, int b) -> json {
    return {{"dtype", "f32"}, {"shape", {a, b}}};
  };
  manifest["functions"] = {{{"symbol", "forward"},
                            {"scratch_bytes", 0},
                            {"num_arguments", 2},
                            {"ios", {io(m, 4), io(m, n), io(m, n)}}}};
  manifest["stages"] = {{{"arena_bytes", 4096},
                         {"scratch", {{"offset", 4096}, {"bytes", 0}}},
                         {"slots",
                          {{{"offset", 0}, {"bytes", 1024}},
                           {{"offset", 1024}, {"bytes", 1024}},
                           {{"offset", 2048}, {"bytes", 1024}}}},
                         {"instructions",
                          {{{"input", 0}, {"slot", 0}},
                           {{"input", 1}, {"slot", 1}},
                           {{"run", 0}, {"slots", {0, 1, 2}}},
                           {{"output", 0}, {"slot", 2}}}}}};
  return p;
}

// The epilogue of cuBLASLt where it takes it (192 is CUBLASLT_EPILOGUE_DGELU):
// else, and where the auxiliary matrix has rows of other than 8 elements, the
// plain product and the package's kernel. In all cases what the CPU computes.
TEST(CudaPackage, GradientEpilogues) {
  ::setenv("KERF_CUBLASLT", KERF_RECORDING_LIBRARY, 1);
  ::setenv("KERF_CUDA_CACHE", "none", 1);
  for (auto [settings, n, fused] :
       {std::tuple<const char *, int, bool>{"", 16, true},
        {"refuse_epilogue=192", 16, false},
        {"", 12, false}}) {
    int m = 5;
    std::vector<float> x(m * 4), point(m * n);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i % 5) - 2;
    for (size_t i = 0; i < point.size(); ++i)
      point[i] = static_cast<float>(static_cast<int>(i * 3 % 11) - 5) / 3;
    TestPackage host = slopes(false, m, n), gpu = slopes(true, m, n);
    RunResult want = runTestPackage(host.write(), {x, point}, {}, 3);
    ASSERT_EQ(want.code, KERF_OK) << want.message;
    RecordingDriver driver(settings);
    RunResult got = runTestPackage(gpu.write(), {x, point}, {}, 3);
    ASSERT_EQ(got.code, KERF_OK) << got.message;
    ASSERT_EQ(got.outputs[0].size(), want.outputs[0].size());
    for (size_t i = 0; i < got.outputs[0].size(); ++i) {
      double v = point[i], s = 0.7978845608028654, c = 0.044715, sum = 0;
      double t = std::tanh(s * (v + c * v * v * v));
      double slope =
          0.5 * (1 + t) + 0.5 * v * (1 - t * t) * s * (1 + 3 * c * v * v);
      for (int k = 0; k < 4; ++k)
        sum += x[i / n * 4 + k] * host.weights["w"].values[k * n + i % n];
      EXPECT_NEAR(want.outputs[0][i], sum * slope, 1e-5) << i;
      EXPECT_NEAR(got.outputs[0][i], sum * slope, 1e-5) << i;
    }
    EXPECT_EQ(driver.report(), "");
    std::string dump = driver.dump();
    EXPECT_EQ(count(dump, "epilogue 192"), fused ? 2 : 0) << dump;
    EXPECT_EQ(count(dump, "launch kerf_c0"), fused ? 0 : 2) << dump;
  }
  ::unsetenv("KERF_CUBLASLT");
  ::unsetenv("KERF_CUDA_CACHE");
}

// y = (x w + b) w + c, b and c from one parameter, c aligned to 4 bytes alone.
TestPackage biases(bool cuda) {
  TestPackage p(R"C(
FUNCTION(forward) {
  void *h = scratch;
  void *first[] = {ios[0], params[0], params[1], h};
  TRY(api->library(ctx, 0, first));
  void *second[] = {h, params[0], params[1], ios[1]};
  return api->library(ctx, 1, second);
}
)C");
  json &manifest = p.manifest;
  if (cuda) {
    manifest["target"] = {{"device", "cuda"},
                          {"cuda", {{"ptx", "k.ptx"}, {"ptx_arch", "sm_80"}}}};
    p.dir().write("k.ptx", ".entry kerf_c0\n");
  }
  p.weights["w"] = {{4, 4}, {1, 0, 2, 0, 0, 1, 0, 1, 3, 0, 1, 0, 0, 0, 0, 1}};
  p.weights["b"] = {{8}, {1, 2, 3, 4, 5, 6, 7, 8}};
  manifest["parameters"] = {tensor("w", {4, 4}, {json::array(), json::array()}),
                            tensor("b", {8}, {json::array()})};
  manifest["parameters"][0]["tensor"] = "w";
  manifest["parameters"][1]["tensor"] = "b";
  manifest["inputs"] = {tensor("x", {3, 4}, {json::array(), json::array()})};
  manifest["outputs"] = {tensor("y", {3, 4}, {json::array(), json::array()})};
  manifest["kernels"] = json::array();
  manifest["library"] = json::array();
  for (int offset : {0, 1})
    manifest["library"].push_back(
        {{"kind", "matmul"},
         {"dtype", "f32"},
         {"batch", json::array()},
         {"m", 3},
         {"n", 4},
         {"k", 4},
         {"lhs", {{"buffer", 0}}},
         {"rhs", {{"buffer", 1}}},
         {"bias", {{"buffer", 2}, {"offset", offset}}},
         {"dst", {{"buffer", 3}}}});
  json io = {{"dtype", "f32"}, {"shape", {3, 4}}};
  manifest["functions"] = {{{"symbol", "forward"},
                            {"scratch_bytes", 64},
                            {"num_arguments", 1},
                            {"ios", {io, io}}}};
  manifest["stages"] = oneRun(512, 256, 64);
  return p;
}

// What was chosen for one alignment of the bias is not used for another; and
// what is in the cache is found good without asking again.
TEST(CudaPackage, AlignmentOfTheBias) {
  TestPackage host = biases(false), gpu = biases(true);
  std::vector<float> x(12);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i % 5) - 2;
  RunResult want = runTestPackage(host.write(), {x});
  ASSERT_EQ(want.code, KERF_OK) << want.message;
  std::string path = gpu.write();
  ::setenv("KERF_CUBLASLT", KERF_RECORDING_LIBRARY, 1);
  ::setenv("KERF_CUDA_CACHE", (path + ".cache").c_str(), 1);
  for (int asked : {2, 0}) {
    RecordingDriver driver("algorithms=2");
    RunResult got = runTestPackage(path, {x});
    EXPECT_EQ(got.code, KERF_OK) << got.message;
    EXPECT_EQ(got.outputs, want.outputs);
    EXPECT_EQ(driver.report(), "");
    EXPECT_EQ(count(driver.dump(), "cublaslt heuristics"), asked);
  }
  ::unsetenv("KERF_CUBLASLT");
  ::unsetenv("KERF_CUDA_CACHE");
}

// Rows that lie further apart than the GPU copies at once are copied one by
// one.
TEST(CudaPackage, CopiesOfFarRows) {
  for (int64_t pitch : {24, 16}) {
    RecordingDriver driver("max_pitch=16");
    Package package;
    package.manifest.cuda.used = true;
    auto device = makeCudaDevice(package, 0, 1, makeCpuPackCache());
    GpuInfo gpu = device->driver().gpus[0];
    EXPECT_EQ(gpu.maxPitch, INT_MAX);
    gpu.maxPitch = 16;
    auto from = device->allocateTemporary(96, "a test"),
         to = device->allocateTemporary(96, "a test");
    std::vector<char> data(96), got(96);
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<char>(i);
    device->upload(data.data(), from->data, 96);
    BoxCopy box;
    box.runBytes = 8;
    box.loops = {{2, 48, 40}, {2, pitch, 16}};
    copyBoxOn(device->driver(), gpu, box, from->data, to->data,
              device->computeStream());
    device->download(to->data, got.data(), 96);
    for (int64_t i : {0, 1})
      for (int64_t j : {0, 1})
        for (int64_t k = 0; k < 8; ++k)
          EXPECT_EQ(got[i * 40 + j * 16 + k], data[i * 48 + j * pitch + k]);
    EXPECT_EQ(count(driver.dump(), "strided copy"), pitch == 16 ? 2 : 0);
    EXPECT_EQ(driver.report(), "");
    device->stop();
  }
}

TEST(ByteRanges, OverlapsWhatWasAdded) {
  ByteRanges ranges;
  ranges.add(10, 20);
  ranges.add(30, 40);
  for (auto [begin, end, overlaps] : {std::tuple<int, int, bool>{0, 10, false},
                                      {0, 11, true},
                                      {19, 25, true},
                                      {20, 30, false},
                                      {25, 31, true},
                                      {40, 50, false},
                                      {0, 100, true},
                                      {15, 15, true}})
    EXPECT_EQ(ranges.overlaps(begin, end), overlaps) << begin << " " << end;
  ranges.add(15, 35); // joins both
  EXPECT_TRUE(ranges.overlaps(22, 28));
  ranges.add(50, 50);
  EXPECT_FALSE(ranges.overlaps(45, 60));
}

} // namespace
