//===- bench-library.cpp - library calls and launches, alone --------------===//
//
//   kerf-bench-library [THREADS]
//   kerf-bench-library teams [THREADS]
//
// The matmuls of GPT-2 124M at 128 tokens and typical convolutions of
// ResNet-50, through the same path as a package (packed weights, post-ops):
// milliseconds and GFLOP/s, medians of 20. Then what a launch of an empty
// kernel costs. `teams` shows where a team begins to pay (Team.h): matmuls of
// growing size on one thread and on all, in turn, each the least of many.
//
//===----------------------------------------------------------------------===//
#include "device/Device.h"
#include "device/cpu/Team.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace kerf::rt;

namespace {
double now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <typename Body> double medianMs(int rounds, Body &&body) {
  std::vector<double> times;
  for (int i = 0; i < rounds + 3; ++i) {
    double begin = now();
    body();
    if (i >= 3)
      times.push_back(now() - begin);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Operand operand(Operand::Kind kind, int64_t index) {
  Operand result;
  result.kind = kind;
  result.index = index;
  return result;
}

class Bench {
public:
  explicit Bench(int32_t threads)
      : device(makeCpuDevice(0, threads, makeCpuPackCache())) {
    for (auto &buffer : buffers)
      buffer = device->allocate(int64_t(512) << 20, "a buffer");
  }

  void run(const char *name, const LibraryDesc &desc, double flops) {
    ParameterView view{buffers[3]->data, buffers[3]->bytes / 4, name, nullptr};
    auto call = device->prepare(desc, 0, [&](int64_t) { return view; });
    auto scratch = device->allocate(call->scratchBytes(), "scratch");
    void *pointers[] = {buffers[0]->data, buffers[1]->data, buffers[2]->data};
    double ms = medianMs(20, [&] { call->run(pointers, scratch->data); });
    std::printf("%-44s %9.3f ms %7.0f GFLOP/s\n", name, ms, flops / ms * 1e-6);
    total += ms;
  }

  void matmul(const char *name, int64_t m, int64_t n, int64_t k,
              std::vector<PostOp> postOps, bool bias = true) {
    LibraryDesc desc;
    desc.m = m;
    desc.n = n;
    desc.k = k;
    desc.lhs = operand(Operand::Buffer, 0);
    desc.rhs = operand(Operand::Param, 0);
    desc.dst = operand(Operand::Buffer, 1);
    if (bias)
      desc.bias = operand(Operand::Param, 1);
    desc.postOps = std::move(postOps);
    run(name, desc, 2.0 * m * n * k);
  }

  void conv(const char *name, int64_t in, int64_t out, int64_t size,
            int64_t kernel, int64_t stride, std::vector<PostOp> postOps) {
    LibraryDesc desc;
    desc.kind = LibraryDesc::Conv;
    desc.batch = {1};
    desc.inChannels = in;
    desc.outChannels = out;
    int64_t pad = kernel / 2, result = (size + 2 * pad - kernel) / stride + 1;
    desc.in = {size, size};
    desc.out = {result, result};
    desc.kernel = {kernel, kernel};
    desc.strides = {stride, stride};
    desc.padsLow = desc.padsHigh = {pad, pad};
    desc.dilations = {1, 1};
    desc.lhs = operand(Operand::Buffer, 0);
    desc.rhs = operand(Operand::Param, 0);
    desc.bias = operand(Operand::Param, 1);
    desc.dst = operand(Operand::Buffer, 1);
    desc.postOps = std::move(postOps);
    run(name, desc, 2.0 * in * out * kernel * kernel * result * result);
  }

  void launches() {
    auto empty = [](void *const *, const int64_t *, int64_t, int64_t) {};
    for (int64_t count : {1, 1000}) {
      double ms = medianMs(50, [&] {
        for (int i = 0; i < 1000; ++i)
          device->launch(empty, nullptr, nullptr, count, 1);
      });
      std::printf("launch of %lld iterations: %.3f us\n",
                  static_cast<long long>(count), ms);
    }
  }

  double total = 0;

private:
  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceMemory> buffers[4];
};

/// One call on a device of its own.
struct OnThreads {
  OnThreads(const LibraryDesc &desc, int32_t threads, float *weights)
      : device(makeCpuDevice(0, threads, makeCpuPackCache())) {
    for (auto &buffer : buffers)
      buffer = device->allocate(int64_t(8) << 20, "a buffer");
    ParameterView view{weights, int64_t(8) << 20, "w", nullptr};
    call = device->prepare(desc, 0, [&](int64_t) { return view; });
    scratch = device->allocate(call->scratchBytes(), "scratch");
  }
  void least(double &best, int rounds) {
    void *pointers[] = {buffers[0]->data, buffers[1]->data};
    for (int i = 0; i < rounds; ++i) {
      double begin = now();
      call->run(pointers, scratch->data);
      best = std::min(best, now() - begin);
    }
  }
  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceMemory> buffers[2];
  std::unique_ptr<LibraryCall> call;
  std::unique_ptr<DeviceMemory> scratch;
};

int compareTeams(int32_t threads) {
  ::setenv("KERF_TEAMS", "always", 1);
  std::vector<float> weights(8 << 20);
  std::printf("%-20s%10s%12s%12s%8s\n", "matmul", "parts", "1 thread", "all",
              "ratio");
  for (int64_t rows : {1, 16, 64})
    for (int64_t size = 16; size <= 1024; size *= 2)
      for (int64_t columns : {size, 3 * size / 2}) {
        LibraryDesc desc;
        desc.m = rows, desc.n = columns, desc.k = size;
        desc.lhs = operand(Operand::Buffer, 0);
        desc.rhs = operand(Operand::Param, 0);
        desc.dst = operand(Operand::Buffer, 1);
        OnThreads one(desc, 1, weights.data());
        OnThreads all(desc, threads, weights.data());
        double alone = 1e9, together = 1e9, seconds = now() + 150;
        while (now() < seconds)
          one.least(alone, 20), all.least(together, 20);
        std::string name = std::to_string(rows) + "x" +
                           std::to_string(columns) + "x" + std::to_string(size);
        std::printf("%-20s%10.2f%9.2f us%9.2f us%8.2f\n", name.c_str(),
                    partsOf(workOf(desc)), alone * 1e3, together * 1e3,
                    together / alone);
      }
  return 0;
}
} // namespace

int main(int argc, char **argv) {
  if (argc > 1 && std::strcmp(argv[1], "teams") == 0)
    return compareTeams(argc > 2 ? std::atoi(argv[2]) : 2);
  Bench bench(argc > 1 ? std::atoi(argv[1]) : 2);
  PostOp gelu{"gelu_tanh", 0, 0, {}}, relu{"relu", 0, 0, {}};
  PostOp residual{"add", 0, 0, operand(Operand::Buffer, 2)};
  PostOp sum{"sum", 0, 0, {}};
  bench.matmul("qkv 128x2304x768", 128, 2304, 768, {});
  bench.matmul("proj 128x768x768", 128, 768, 768, {});
  bench.matmul("proj + residual (add)", 128, 768, 768, {residual});
  bench.matmul("proj + residual (sum)", 128, 768, 768, {sum});
  bench.matmul("fc 128x3072x768", 128, 3072, 768, {});
  bench.matmul("fc + gelu_tanh", 128, 3072, 768, {gelu});
  bench.matmul("fc2 128x768x3072", 128, 768, 3072, {});
  bench.matmul("fc2 + residual (add)", 128, 768, 3072, {residual});
  bench.matmul("lm head 128x50257x768", 128, 50257, 768, {}, false);
  bench.matmul("one token, fc 1x3072x768", 1, 3072, 768, {gelu});
  bench.conv("conv1 7x7 s2 3->64 at 224 + relu", 3, 64, 224, 7, 2, {relu});
  bench.conv("1x1 64->256 at 56", 64, 256, 56, 1, 1, {});
  bench.conv("1x1 64->256 at 56 + residual + relu", 64, 256, 56, 1, 1,
             {residual, relu});
  bench.conv("3x3 64->64 at 56 + relu", 64, 64, 56, 3, 1, {relu});
  bench.conv("3x3 128->128 at 28 + relu", 128, 128, 28, 3, 1, {relu});
  bench.conv("3x3 256->256 at 14 + relu", 256, 256, 14, 3, 1, {relu});
  bench.conv("3x3 512->512 at 7 + relu", 512, 512, 7, 3, 1, {relu});
  bench.conv("1x1 2048->512 at 7 + relu", 2048, 512, 7, 1, 1, {relu});
  bench.conv("1x1 512->2048 at 7 + residual + relu", 512, 2048, 7, 1, 1,
             {residual, relu});
  bench.launches();
}
