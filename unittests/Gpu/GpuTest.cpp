//===- GpuTest.cpp - failures, PTX, and the emulator itself ---------------===//
#include "Emulator.h"
#include "Harness.h"

#include "kerf/NN/NN.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "mlir/Parser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

FailureRecord runWith(const std::string &text,
                      std::vector<reference::Tensor> inputs) {
  Parsed parsed(text);
  exec::KernelOp kernel = parsed.kernel();
  Emulator emulator;
  EXPECT_TRUE(emulator.add(kernel, "k"));
  EXPECT_EQ(emulator.compile(), "");
  Result result;
  result.inputs = std::move(inputs);
  Buffers buffers(kernel, result);
  FailureRecord record = {};
  EXPECT_EQ(emulator.launch("k", buffers.ios, record, 1), "");
  return record;
}

/// The first failure takes the record: code, number of the kernel, detail.
TEST(GpuFailures, GatherRecordsKernelAndIndex) {
  FailureRecord record = runWith(
      R"(exec.kernel @k(%t: tensor<10x4xf32>, %i: tensor<6xi64>) -> tensor<6x4xf32>
           attributes {index = 7 : i64, node = "/node"} {
         %r = nn.gather %t, %i dim 0 : (tensor<10x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
         exec.yield %r : tensor<6x4xf32>
       })",
      {{{10, 4}, std::vector<double>(40, 1)}, {{6}, {0, 9, -10, 3, 12, 1}}});
  EXPECT_EQ(record.state, 1u);
  EXPECT_EQ(record.code, (uint32_t)KERF_FAIL_INDEX_OUT_OF_RANGE);
  EXPECT_EQ(record.kernel, 7u);
  EXPECT_EQ(record.detail, 12);
}

TEST(GpuFailures, DivisionByZero) {
  std::vector<double> divisors(40, 2);
  divisors[33] = 0;
  FailureRecord record = runWith(
      R"(exec.kernel @k(%x: tensor<40xi64>, %y: tensor<40xi64>) -> tensor<40xi64>
           attributes {index = 3 : i64, node = "/node"} {
         %r = nn.div %x, %y : tensor<40xi64>
         exec.yield %r : tensor<40xi64>
       })",
      {{{40}, std::vector<double>(40, 7)}, {{40}, divisors}});
  EXPECT_EQ(record.state, 1u);
  EXPECT_EQ(record.code, (uint32_t)KERF_FAIL_DIVISION_BY_ZERO);
  EXPECT_EQ(record.kernel, 3u);
}

/// What cannot fail leaves the record as it is.
TEST(GpuFailures, NoneWithoutReason) {
  FailureRecord record = runWith(
      R"(exec.kernel @k(%t: tensor<10x4xf32>, %i: tensor<2xi64>) -> tensor<2x4xf32>
           attributes {index = 7 : i64, node = "/node"} {
         %r = nn.gather %t, %i dim 0 : (tensor<10x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
         exec.yield %r : tensor<2x4xf32>
       })",
      {{{10, 4}, std::vector<double>(40, 1)}, {{2}, {9, -10}}});
  EXPECT_EQ(record.state, 0u);
}

/// The first difference of a kernel from the reference.
std::string runOne(const std::string &text, bool dropBarriers) {
  Parsed parsed(text);
  exec::KernelOp kernel = parsed.kernel();
  Emulator emulator;
  emulator.dropBarriers = dropBarriers;
  EXPECT_TRUE(emulator.add(kernel, "k"));
  EXPECT_EQ(emulator.compile(), "");
  Result result;
  fillInputs(kernel, 1, result);
  evaluate(kernel, result);
  Buffers buffers(kernel, result);
  FailureRecord record = {};
  std::string error = emulator.launch("k", buffers.ios, record, 1);
  buffers.read(kernel, result);
  return error.empty() ? compare(kernel, result, 0) : error;
}

/// Fibers run in random order, so that a barrier that is not there is seen.
TEST(GpuEmulator, MissingBarriersAreNoticed) {
  const std::string kernels[] = {
      R"(exec.kernel @k(%x: tensor<64x96xf32>) -> tensor<96x64xf32> attributes {index = 0 : i64, node = "/t"} {
           %0 = nn.transpose %x perm [1, 0] : (tensor<64x96xf32>) -> tensor<96x64xf32>
           exec.yield %0 : tensor<96x64xf32>
         })",
      R"(exec.kernel @k(%x: tensor<3x2000xf32>) -> tensor<3xf32> attributes {index = 0 : i64, node = "/sum"} {
           %0 = nn.reduce sum %x dims [1] : (tensor<3x2000xf32>) -> tensor<3xf32>
           exec.yield %0 : tensor<3xf32>
         })",
      R"(exec.kernel @k(%x: tensor<200x70xf32>) -> tensor<200x70xf32> attributes {index = 0 : i64, node = "/columns"} {
           %0 = nn.softmax %x dim 0 : tensor<200x70xf32>
           exec.yield %0 : tensor<200x70xf32>
         })"};
  for (const std::string &text : kernels) {
    EXPECT_EQ(runOne(text, false), "");
    EXPECT_NE(runOne(text, true), "") << text;
  }
}

/// The kernels of lowered models, which test/Gpu writes (KERF_TEST_KERNELS: a
/// list of files of IR), on random inputs.
TEST(GpuModels, KernelsOfFilesEqualReference) {
  const char *files = getenv("KERF_TEST_KERNELS");
  if (!files)
    GTEST_SKIP() << "KERF_TEST_KERNELS is not set";
  llvm::SmallVector<llvm::StringRef> paths;
  llvm::StringRef(files).split(paths, ':');
  for (llvm::StringRef path : paths) {
    auto context = makeContext();
    auto module = parseSourceFile<ModuleOp>(path, context.get());
    ASSERT_TRUE(module) << path.str();
    int64_t kernels = llvm::range_size(module->getOps<exec::KernelOp>());
    EXPECT_GT(kernels, 0);
    // Integers are labels, tokens and positions: small, so that they are in
    // range.
    Builder builder(context.get());
    for (auto kernel : module->getOps<exec::KernelOp>())
      for (auto [at, type] : llvm::enumerate(kernel.getArgumentTypes()))
        if (isa<IntegerType>(cast<ShapedType>(type).getElementType())) {
          kernel.setArgAttr(at, "test.low", builder.getF64FloatAttr(0));
          kernel.setArgAttr(at, "test.high", builder.getF64FloatAttr(2));
        }
    EXPECT_EQ(checkOnGpu(*module, 1, 2e-3), "") << path.str();
    std::printf("%s: %lld kernels\n", path.str().c_str(), (long long)kernels);
  }
}

std::string ptxOf(const std::string &text) {
  Parsed parsed(text);
  auto program = compileGpuKernels(*parsed.module, {});
  EXPECT_TRUE(succeeded(program));
  return succeeded(program) ? program->ptx : "";
}

/// The same module gives the same PTX, whatever the number of threads.
TEST(GpuProgram, SameBytesAndSharedEntries) {
  std::string text;
  for (int at = 0; at < 3; ++at)
    text +=
        "exec.kernel @k" + std::to_string(at) +
        R"((%x: tensor<64x96xf32>) -> tensor<64x96xf32> attributes {index = )" +
        std::to_string(at) + R"( : i64, node = "/n"} {
           %0 = nn.softmax %x dim 1 : tensor<64x96xf32>
           exec.yield %0 : tensor<64x96xf32>
         })";
  Parsed parsed(text);
  GpuOptions options;
  options.threads = 3;
  auto program = compileGpuKernels(*parsed.module, options);
  ASSERT_TRUE(succeeded(program));
  EXPECT_EQ(program->numKernels, 1);
  EXPECT_EQ(program->ptx, ptxOf(text));
  EXPECT_THAT(program->ptx, Not(HasSubstr(".extern")));
  for (auto kernel : parsed.module->getOps<exec::KernelOp>())
    EXPECT_EQ(kernel.getCudaAttr().getEntry(), "kerf_k0");
}

} // namespace
