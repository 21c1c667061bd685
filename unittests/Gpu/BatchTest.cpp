//===- BatchTest.cpp - updates of several parameters in one launch --------===//
//
// The batch of an update on the emulated GPU against the CPU's own kernel of
// each parameter: tensors of many sizes, whole chunks and ends, written over
// what they were, next to a page that may not be touched.
//
//===----------------------------------------------------------------------===//
#include "Emulator.h"
#include "Harness.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "mlir/Parser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

constexpr int64_t chunk = 16384; // lib/Lower/Gpu/GpuBatch.h

/// AdamW without its corrections: m += (g - m) b1, v = v b2 + g g b3,
/// w -= lr m / (sqrt v + e); with `bf16` the new w is also stored rounded; of
/// several `parts` g is the sum.
std::string adam(int64_t index, const std::string &shape, bool bf16 = false,
                 int64_t parts = 1) {
  std::string t = "tensor<" + shape + "xf32>", s = "tensor<f32>";
  std::string h = "tensor<" + shape + "xbf16>";
  std::string p = "tensor<" + std::to_string(parts) + "x" + shape + "xf32>";
  auto binary = [&](const char *name, const char *op, const char *x,
                    const char *y, bool scalar = false) {
    return std::string("  %") + name + " = nn." + op + " %" + x + ", %" + y +
           " : (" + t + ", " + (scalar ? s : t) + ") -> " + t + "\n";
  };
  return "exec.kernel @update" + std::to_string(index) + "(%w: " + t +
         (parts > 1 ? ", %p: " + p : ", %g: " + t) + ", %m: " + t +
         ", %v: " + t + ", %lr: " + s + ") -> (" + t + ", " + t + ", " + t +
         (bf16 ? ", " + h : "") +
         ") attributes {index = " + std::to_string(index) +
         " : i64, node = \"/w\", phase = #exec<phase update>} {\n"
         "  %b1 = nn.constant dense<0.1> : " +
         s + "\n" + "  %b2 = nn.constant dense<0.99> : " + s + "\n" +
         "  %b3 = nn.constant dense<0.01> : " + s + "\n" +
         "  %e = nn.constant dense<1.0e-3> : " + s + "\n" +
         (parts > 1
              ? "  %g = nn.reduce sum %p dims [0] : (" + p + ") -> " + t + "\n"
              : "") +
         binary("d", "sub", "g", "m") + binary("d1", "mul", "d", "b1", true) +
         binary("m1", "add", "m", "d1") + binary("gg", "mul", "g", "g") +
         binary("g3", "mul", "gg", "b3", true) +
         binary("v2", "mul", "v", "b2", true) +
         binary("v1", "add", "v2", "g3") + "  %q = nn.sqrt %v1 : (" + t +
         ") -> " + t + "\n" + binary("q1", "add", "q", "e", true) +
         binary("ml", "mul", "m1", "lr", true) +
         binary("s", "div", "ml", "q1") + binary("w1", "sub", "w", "s") +
         (bf16 ? "  %h = nn.cast %w1 : (" + t + ") -> " + h + "\n" : "") +
         "  exec.yield %w1, %m1, %v1" + (bf16 ? ", %h" : "") + " : " + t +
         ", " + t + ", " + t + (bf16 ? ", " + h : "") + "\n}\n";
}

int64_t elementsOf(const std::string &shape) {
  int64_t n = 1;
  for (size_t at = 0; at < shape.size(); at = shape.find('x', at) + 1) {
    n *= std::stoll(shape.substr(at));
    if (shape.find('x', at) == std::string::npos)
      break;
  }
  return n;
}

struct Tensors {
  int64_t count;
  std::vector<std::unique_ptr<GuardedBuffer>> memory; ///< w, g, m, v (, h)
  std::vector<std::vector<float>> before;
  float *data(size_t i) const {
    return reinterpret_cast<float *>(memory[i]->data());
  }
  Tensors(int64_t count, bool bf16, int64_t parts, std::mt19937_64 &random)
      : count(count) {
    std::uniform_real_distribution<float> uniform(0.1f, 1);
    for (int i = 0; i < 4; ++i) {
      int64_t elements = i == 1 ? parts * count : count;
      memory.push_back(std::make_unique<GuardedBuffer>(elements * 4));
      for (int64_t k = 0; k < elements; ++k)
        data(i)[k] = uniform(random);
      before.emplace_back(data(i), data(i) + elements);
    }
    if (bf16)
      memory.push_back(std::make_unique<GuardedBuffer>(count * 2));
  }
};

void checkBatch(const std::vector<std::string> &shapes, bool bf16,
                int64_t parts = 1) {
  auto context = makeContext();
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i)
    text += adam(static_cast<int64_t>(i), shapes[i], bf16, parts);
  auto module = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(module) << text;
  Emulator emulator;
  ASSERT_TRUE(
      emulator.addBatch(*module->getOps<exec::KernelOp>().begin(), "b"));
  ASSERT_EQ(emulator.compile(), "");
  std::mt19937_64 random(5);
  std::vector<Tensors> all;
  GuardedBuffer rate(4);
  *reinterpret_cast<float *>(rate.data()) = 0.25f;
  std::vector<uint64_t> words, rows;
  int64_t blocks = 0;
  for (const std::string &shape : shapes) {
    all.emplace_back(elementsOf(shape), bf16, parts, random);
    Tensors &t = all.back();
    words.push_back(blocks);
    blocks += (t.count + chunk - 1) / chunk;
    auto add = [&](const GuardedBuffer &buffer) {
      rows.push_back(reinterpret_cast<uint64_t>(buffer.data()));
    };
    for (int i : {0, 1, 2, 3})
      add(*t.memory[i]);
    add(rate);
    for (int i : {0, 2, 3}) // over what they were
      add(*t.memory[i]);
    if (bf16)
      add(*t.memory[4]);
    rows.push_back(t.count);
  }
  words.push_back(blocks);
  words.insert(words.end(), rows.begin(), rows.end());
  GuardedBuffer table(static_cast<int64_t>(words.size()) * 8);
  memcpy(table.data(), words.data(), words.size() * 8);
  FailureRecord record = {};
  std::vector<uint32_t> grid;
  for (int64_t block = 0; block < blocks; ++block)
    grid.push_back(static_cast<uint32_t>(block));
  void *members = reinterpret_cast<void *>(uint64_t(shapes.size()));
  ASSERT_EQ(emulator.launch("b", {table.data(), members}, record, 3, grid), "");
  // The kernel of each parameter on the CPU.
  for (auto [kernel, t] : llvm::zip(module->getOps<exec::KernelOp>(), all)) {
    Result result;
    auto type = cast<RankedTensorType>(kernel.getArgumentTypes()[0]);
    std::vector<int64_t> shape(type.getShape().begin(), type.getShape().end());
    for (int i = 0; i < 4; ++i) {
      result.inputs.push_back(
          {shape, {t.before[i].begin(), t.before[i].end()}});
      if (i == 1 && parts > 1)
        result.inputs.back().shape.insert(result.inputs.back().shape.begin(),
                                          parts);
    }
    result.inputs.push_back({{}, {0.25}});
    evaluate(kernel, result);
    int output = 0;
    for (int i : {0, 2, 3}) {
      const auto &want = result.expected[output++].data;
      for (int64_t k = 0; k < t.count; ++k)
        ASSERT_NEAR(t.data(i)[k], want[k], 1e-6)
            << "element " << k << " of " << t.count << ", tensor " << i;
    }
    for (int64_t k = 0; bf16 && k < t.count; ++k) {
      uint32_t bits =
          uint32_t(reinterpret_cast<uint16_t *>(t.memory[4]->data())[k]) << 16;
      float stored;
      memcpy(&stored, &bits, 4);
      ASSERT_NEAR(stored, t.data(0)[k], std::abs(t.data(0)[k]) / 256);
    }
  }
}

TEST(GpuBatch, EqualsTheUpdateOfEachParameter) {
  checkBatch({"4", "3", "7x11", "16384", "2", "64x300", "16385", "8x4", "32767",
              "5x3x2", "49153"},
             false);
}

TEST(GpuBatch, StoresRoundedCopies) {
  checkBatch({"5", "128x130", "8", "777"}, true);
}

/// Gradients of biases come in parts.
TEST(GpuBatch, AddsUpParts) {
  checkBatch({"4", "768", "16388", "12", "49156"}, false, 2);
  checkBatch({"768", "20"}, true, 16);
}

TEST(GpuBatch, OneTensor) { checkBatch({"1030"}, false); }

/// What is no elementwise function of tensors of one size has none.
TEST(GpuBatch, NotEveryKernel) {
  auto context = makeContext();
  const std::string kernels[] = {
      R"(exec.kernel @k(%x: tensor<8x16xf32>, %y: tensor<16xf32>) -> tensor<8x16xf32> attributes {index = 0 : i64, node = "/n"} {
           %0 = nn.add %x, %y : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
           exec.yield %0 : tensor<8x16xf32>
         })",
      R"(exec.kernel @k(%x: tensor<8x16xf32>) -> tensor<8xf32> attributes {index = 0 : i64, node = "/n"} {
           %0 = nn.reduce sum %x dims [1] : (tensor<8x16xf32>) -> tensor<8xf32>
           exec.yield %0 : tensor<8xf32>
         })",
      // Parts that do not begin where 16 bytes are read at once.
      R"(exec.kernel @k(%x: tensor<8x6xf32>) -> tensor<6xf32> attributes {index = 0 : i64, node = "/n"} {
           %0 = nn.reduce sum %x dims [0] : (tensor<8x6xf32>) -> tensor<6xf32>
           exec.yield %0 : tensor<6xf32>
         })",
      // A sum that something else reads as well.
      R"(exec.kernel @k(%x: tensor<2x8xf32>) -> (tensor<8xf32>, tensor<16xf32>) attributes {index = 0 : i64, node = "/n"} {
           %0 = nn.reduce sum %x dims [0] : (tensor<2x8xf32>) -> tensor<8xf32>
           %1 = nn.reshape %x : (tensor<2x8xf32>) -> tensor<16xf32>
           exec.yield %0, %1 : tensor<8xf32>, tensor<16xf32>
         })",
      R"(exec.kernel @k(%x: tensor<8x16xi64>, %y: tensor<8x16xi64>) -> tensor<8x16xi64> attributes {index = 0 : i64, node = "/n"} {
           %0 = nn.div %x, %y : tensor<8x16xi64>
           exec.yield %0 : tensor<8x16xi64>
         })"};
  for (const std::string &text : kernels) {
    auto module = parseSourceString<ModuleOp>(text, context.get());
    ASSERT_TRUE(module) << text;
    llvm::LLVMContext llvm;
    EXPECT_FALSE(
        emitGpuBatch(*module->getOps<exec::KernelOp>().begin(), "b", llvm))
        << text;
  }
}

/// Updates of one kind share an entry, which reads and writes 16 bytes at once.
TEST(GpuBatch, OneEntryInThePtx) {
  auto context = makeContext();
  auto module = parseSourceString<ModuleOp>(adam(0, "64x64") + adam(1, "4096") +
                                                adam(2, "70000x40000") +
                                                adam(3, "8", true),
                                            context.get());
  ASSERT_TRUE(module);
  auto program = compileGpuKernels(*module, {});
  ASSERT_TRUE(succeeded(program));
  std::vector<std::string> entries;
  for (auto kernel : module->getOps<exec::KernelOp>()) {
    exec::GpuBatchAttr batch = kernel.getCudaAttr().getBatch();
    entries.push_back(batch ? batch.getEntry().str() : "");
    if (batch && kernel.getIndex() == 2)
      EXPECT_EQ(batch.getElements(), 2800000000);
  }
  EXPECT_EQ(entries,
            (std::vector<std::string>{"kerf_b0", "kerf_b0", "kerf_b0", ""}));
  llvm::StringRef ptx(program->ptx);
  ptx = ptx.substr(ptx.find(".entry kerf_b0("));
  EXPECT_THAT(ptx.str(), HasSubstr("ld.global.v4"));
  EXPECT_THAT(ptx.str(), HasSubstr("st.global.v4"));
  EXPECT_THAT(ptx.str(), Not(HasSubstr(".local")));
}

} // namespace
