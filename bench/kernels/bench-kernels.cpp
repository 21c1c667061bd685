//===- bench-kernels.cpp - generated kernels against memcpy ---------------===//
//
// Compiles the kernels below for this host, runs each on one thread, and prints
// the median time, the bytes per second that it moves (inputs and outputs
// once), and the time of one memcpy of as many bytes, measured in turns with
// it.
//
//===----------------------------------------------------------------------===//
#include "../../unittests/Codegen/KernelFunctions.h"

#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/NN/NN.h"
#include "kerf/rt/program.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

using namespace mlir;
using namespace kerf;

static const char *kKernels = R"(
exec.kernel @softmax_4096x1024(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.softmax %x dim 1 : tensor<4096x1024xf32>
  exec.yield %r : tensor<4096x1024xf32>
}
exec.kernel @softmax_attention_12x128x128(%x: tensor<1x12x128x128xf32>, %m: tensor<1x1x128x128xi1>) -> tensor<1x12x128x128xf32> attributes {index = 0 : i64, node = ""} {
  %c = nn.constant dense<0.125> : tensor<f32>
  %low = nn.constant dense<-3.4e38> : tensor<f32>
  %a = nn.mul %x, %c : (tensor<1x12x128x128xf32>, tensor<f32>) -> tensor<1x12x128x128xf32>
  %b = nn.select %m, %a, %low : (tensor<1x1x128x128xi1>, tensor<1x12x128x128xf32>, tensor<f32>) -> tensor<1x12x128x128xf32>
  %r = nn.softmax %b dim 3 : tensor<1x12x128x128xf32>
  exec.yield %r : tensor<1x12x128x128xf32>
}
exec.kernel @layer_norm_1024x768(%x: tensor<1024x768xf32>, %s: tensor<768xf32>, %b: tensor<768xf32>) -> tensor<1024x768xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.layer_norm %x, %s, %b dim 1 epsilon 1.0e-05 : tensor<1024x768xf32>, tensor<768xf32>
  exec.yield %r : tensor<1024x768xf32>
}
exec.kernel @add_layer_norm_128x768(%x: tensor<128x768xf32>, %y: tensor<128x768xf32>, %s: tensor<768xf32>, %b: tensor<768xf32>) -> (tensor<128x768xf32>, tensor<128x768xf32>) attributes {index = 0 : i64, node = ""} {
  %a = nn.add %x, %y : tensor<128x768xf32>
  %r = nn.layer_norm %a, %s, %b dim 1 epsilon 1.0e-05 : tensor<128x768xf32>, tensor<768xf32>
  exec.yield %a, %r : tensor<128x768xf32>, tensor<128x768xf32>
}
exec.kernel @add_4Mi(%x: tensor<4194304xf32>, %y: tensor<4194304xf32>) -> tensor<4194304xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.add %x, %y : tensor<4194304xf32>
  exec.yield %r : tensor<4194304xf32>
}
exec.kernel @gelu_tanh_128x3072(%x: tensor<128x3072xf32>, %b: tensor<3072xf32>) -> tensor<128x3072xf32> attributes {index = 0 : i64, node = ""} {
  %a = nn.add %x, %b : (tensor<128x3072xf32>, tensor<3072xf32>) -> tensor<128x3072xf32>
  %r = nn.gelu %a {tanh} : tensor<128x3072xf32>
  exec.yield %r : tensor<128x3072xf32>
}
exec.kernel @gelu_erf_128x3072(%x: tensor<128x3072xf32>) -> tensor<128x3072xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.gelu %x : tensor<128x3072xf32>
  exec.yield %r : tensor<128x3072xf32>
}
exec.kernel @transpose_1024x1024(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.transpose %x perm [1, 0] : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  exec.yield %r : tensor<1024x1024xf32>
}
exec.kernel @transpose_3000x2000(%x: tensor<3000x2000xf32>) -> tensor<2000x3000xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.transpose %x perm [1, 0] : (tensor<3000x2000xf32>) -> tensor<2000x3000xf32>
  exec.yield %r : tensor<2000x3000xf32>
}
exec.kernel @nchw_to_nhwc_64x56x56(%x: tensor<1x64x56x56xf32>) -> tensor<1x56x56x64xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.transpose %x perm [0, 2, 3, 1] : (tensor<1x64x56x56xf32>) -> tensor<1x56x56x64xf32>
  exec.yield %r : tensor<1x56x56x64xf32>
}
exec.kernel @split_heads_128x12x64(%x: tensor<128x768xf32>) -> tensor<12x128x64xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.reshape %x : (tensor<128x768xf32>) -> tensor<128x12x64xf32>
  %t = nn.transpose %r perm [1, 0, 2] : (tensor<128x12x64xf32>) -> tensor<12x128x64xf32>
  exec.yield %t : tensor<12x128x64xf32>
}
exec.kernel @column_sum_4096x768(%x: tensor<4096x768xf32>) -> tensor<768xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.reduce sum %x dims [0] : (tensor<4096x768xf32>) -> tensor<768xf32>
  exec.yield %r : tensor<768xf32>
}
exec.kernel @row_sum_4096x768(%x: tensor<4096x768xf32>) -> tensor<4096xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.reduce sum %x dims [1] : (tensor<4096x768xf32>) -> tensor<4096xf32>
  exec.yield %r : tensor<4096xf32>
}
exec.kernel @max_pool_112x112x64(%x: tensor<1x112x112x64xf32>) -> tensor<1x56x56x64xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.max_pool %x kernel 3x3 strides 2x2 pad 1x1 : (tensor<1x112x112x64xf32>) -> tensor<1x56x56x64xf32>
  exec.yield %r : tensor<1x56x56x64xf32>
}
exec.kernel @embedding_128x768(%t: tensor<50257x768xf32>, %i: tensor<1x128xi64>, %p: tensor<1x128x768xf32>) -> tensor<1x128x768xf32> attributes {index = 0 : i64, node = ""} {
  %e = nn.gather %t, %i dim 0 : (tensor<50257x768xf32>, tensor<1x128xi64>) -> tensor<1x128x768xf32>
  %r = nn.add %e, %p : tensor<1x128x768xf32>
  exec.yield %r : tensor<1x128x768xf32>
}
exec.kernel @lrn_55x55x96(%x: tensor<1x55x55x96xf32>) -> tensor<1x55x55x96xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.lrn %x size 5 alpha 0.0001 beta 0.75 bias 1.0 : tensor<1x55x55x96xf32>
  exec.yield %r : tensor<1x55x55x96xf32>
}
exec.kernel @cast_i64_f32_1Mi(%x: tensor<1048576xi64>) -> tensor<1048576xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.cast %x : (tensor<1048576xi64>) -> tensor<1048576xf32>
  exec.yield %r : tensor<1048576xf32>
}
exec.kernel @relu_bf16_1Mi(%x: tensor<1048576xbf16>) -> tensor<1048576xbf16> attributes {index = 0 : i64, node = ""} {
  %r = nn.relu %x : tensor<1048576xbf16>
  exec.yield %r : tensor<1048576xbf16>
}
)";

static double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int main(int argc, char **argv) {
  MLIRContext context;
  context.loadDialect<nn::NNDialect, exec::ExecDialect>();
  auto module = parseSourceString<ModuleOp>(kKernels, &context);
  if (!module)
    return 1;
  auto kernels = llvm::to_vector(module->getOps<exec::KernelOp>());
  test::addFunctions(*module);
  CodegenOptions options;
  if (argc > 1)
    options.cpu = argv[1];
  if (argc > 2)
    options.dumpDir = argv[2];
  double start = seconds();
  auto program = compileProgram(*module, options);
  if (failed(program))
    return 1;
  std::printf("%lld kernels compiled in %.3f s, %zu bytes, for %s\n",
              (long long)program->numKernels, seconds() - start,
              program->sharedObject.size(), program->target.cpu.c_str());

  char path[] = "/tmp/kerf-bench-XXXXXX";
  close(mkstemp(path));
  std::ofstream(path, std::ios::binary) << program->sharedObject;
  void *library = dlopen(path, RTLD_NOW);
  unlink(path);
  kerf_program_api api = {};
  api.launch = [](kerf_program_context *, int32_t, kerf_kernel_t kernel,
                  void *const *buffers, int32_t, const int64_t *scalars,
                  int64_t count, int64_t) -> int32_t {
    kernel(buffers, scalars, 0, count);
    return 0;
  };
  std::printf("%-30s %10s %10s %10s\n", "kernel", "ms", "GB/s", "memcpy ms");
  for (exec::KernelOp kernel : kernels) {
    auto function = reinterpret_cast<kerf_program_function_t>(
        dlsym(library, ("run_" + kernel.getSymName()).str().c_str()));
    std::vector<void *> buffers;
    int64_t bytes = 0, largest = 0;
    for (TypeRange range : {TypeRange(kernel.getArgumentTypes()),
                            TypeRange(kernel.getResultTypes())})
      for (Type type : range) {
        auto tensor = cast<RankedTensorType>(type);
        int64_t size = exec::sizeBytes(tensor);
        void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
        memset(memory, 0, size);
        if (tensor.getElementType().isF32())
          for (int64_t i = 0; i < size / 4; ++i)
            static_cast<float *>(memory)[i] = (i * 37 % 101) / 50.0f - 1;
        buffers.push_back(memory);
        if (size < (100 << 20))
          bytes += size;
        largest = std::max(largest, size);
      }
    std::vector<char> from(bytes / 2, 1), to(bytes / 2, 2);
    std::vector<double> times, copies;
    double until = seconds() + 0.3;
    while (times.size() < 5 || seconds() < until) {
      double before = seconds();
      function(&api, nullptr, nullptr, buffers.data(), nullptr);
      double between = seconds();
      memcpy(to.data(), from.data(), from.size());
      asm volatile("" ::"r"(to.data()) : "memory");
      times.push_back(between - before);
      copies.push_back(seconds() - between);
    }
    std::printf("%-30s %10.4f %10.1f %10.4f\n",
                kernel.getSymName().str().c_str(), median(times) * 1e3,
                bytes / median(times) / 1e9, median(copies) * 1e3);
    for (void *buffer : buffers)
      free(buffer);
  }
  return 0;
}
