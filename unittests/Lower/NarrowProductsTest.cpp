//===- NarrowProductsTest.cpp - what 16-bit products become is the same
//------===//
//
// Random functions around a product of 16 bits whose rows are of odd length, as
// they are and behind kerf-pad-products, by the interpreter. What stands behind
// the rows is made to matter: 0 is divided by, and log and reciprocal make it
// infinite. And what kerf-narrow-storage rounds may be a mask. KERF_WITHOUT
// takes one precondition away (test/Products/padding.py).
//
//===----------------------------------------------------------------------===//
#include "kerf/Interpret/Interpret.h"
#include "kerf/Pipelines/Register.h"
#include "kerf/Support/Preconditions.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

using namespace mlir;
using namespace kerf;

namespace {

/// Text of a function: a product of 24 rows of `n` columns, some ops on its
/// rows, and what reads them.
class RandomRows {
public:
  RandomRows(uint64_t seed, int64_t n) : random(seed), n(n) {}

  std::string build() {
    std::string f32 = rows("f32"), bf16 = rows("bf16"), i32 = rows("i32");
    line("%w = nn.cast %v : (tensor<" + cols() + "x16xf32>) -> tensor<" +
         cols() + "x16xbf16>");
    line("%p = nn.matmul %x, %w {transpose_rhs, exec.stored} : "
         "(tensor<24x16xbf16>, tensor<" +
         cols() + "x16xbf16>) -> " + bf16);
    line("%r0 = nn.cast %p : (" + bf16 + ") -> " + f32);
    std::string row = "%r0";
    for (int step = 0, steps = 1 + pick(4); step < steps; ++step)
      row = rowOp(row, step);
    for (int read = 0, reads = 1 + pick(3); read < reads; ++read)
      readRows(row, read);
    std::string types, values;
    for (const auto &[value, type] : outputs) {
      values += (values.empty() ? "" : ", ") + value;
      types += (types.empty() ? "" : ", ") + type;
    }
    return "module attributes {exec.target = #exec.target<cuda>} {\n"
           "func.func @main(%x: tensor<24x16xbf16>, %v: tensor<" +
           cols() + "x16xf32>, %c: tensor<24x1xf32>, %u: " + column() +
           ") -> (" + types + ") {\n" + text + "return " + values + " : " +
           types + "\n}\n}\n";
  }

private:
  int pick(int count) {
    return static_cast<int>(random() % static_cast<uint64_t>(count));
  }
  std::string cols() const { return std::to_string(n); }
  std::string rows(const char *type) const {
    return "tensor<24x" + cols() + "x" + type + ">";
  }
  /// As many elements as the rows have, each a row.
  std::string column() const {
    return "tensor<" + std::to_string(24 * n) + "x1xf32>";
  }
  void line(const std::string &op) { text += op + "\n"; }

  std::string rowOp(const std::string &row, int step) {
    std::string id = std::to_string(step), to = "%s" + id, f32 = rows("f32");
    auto unary = [&](const char *op, const std::string &of) {
      return std::string("nn.") + op + " " + of + " : " + f32;
    };
    switch (pick(7)) {
    case 6: // and others, which come from elsewhere
      line("%u" + id + " = nn.reshape %u : (" + column() + ") -> " + f32);
      line(to + " = nn.add " + row + ", %u" + id + " : " + f32);
      break;
    case 0:
      line(to + " = " + unary("exp", row));
      break;
    case 1:
      line("%a" + id + " = " + unary("abs", row));
      line(to + " = " + unary("log", "%a" + id));
      break;
    case 2:
      line(to + " = " + unary("reciprocal", row));
      break;
    case 3:
      line(to + " = nn.mul " + row + ", %c : (" + f32 +
           ", tensor<24x1xf32>) -> " + f32);
      break;
    case 4: // 7 by a number that is 0 behind the rows
      line("%k" + id + " = nn.constant dense<70000.0> : tensor<f32>");
      line("%m" + id + " = nn.mul " + row + ", %k" + id + " : (" + f32 +
           ", tensor<f32>) -> " + f32);
      line("%i" + id + " = nn.cast %m" + id + " : (" + f32 + ") -> " +
           rows("i32"));
      line("%t" + id + " = nn.constant dense<1000000> : tensor<i32>");
      line("%d" + id + " = nn.div %t" + id + ", %i" + id + " : (tensor<i32>, " +
           rows("i32") + ") -> " + rows("i32"));
      line(to + " = nn.cast %d" + id + " : (" + rows("i32") + ") -> " + f32);
      break;
    default:
      line("%n" + id + " = nn.reduce max " + row + " dims [1] : (" + f32 +
           ") -> tensor<24xf32>");
      line("%o" + id + " = nn.reshape %n" + id +
           " : (tensor<24xf32>) -> tensor<24x1xf32>");
      line(to + " = nn.sub " + row + ", %o" + id + " : (" + f32 +
           ", tensor<24x1xf32>) -> " + f32);
    }
    return to;
  }

  void output(const std::string &value, const std::string &type) {
    outputs.emplace_back(value, type);
  }

  void readRows(const std::string &row, int read) {
    std::string id = std::to_string(read), f32 = rows("f32"),
                bf16 = rows("bf16");
    static const char *const kinds[] = {"sum", "max", "min", "prod"};
    switch (pick(6)) {
    case 0:
    case 1:
      line("%e" + id + " = nn.reduce " + kinds[pick(4)] + " " + row +
           " dims [1] : (" + f32 + ") -> tensor<24xf32>");
      return output("%e" + id, "tensor<24xf32>");
    case 2: { // in other rows
      std::string type = "tensor<4x6x" + cols() + "xf32>";
      line("%f" + id + " = nn.reshape " + row + " : (" + f32 + ") -> " + type);
      line("%e" + id + " = nn.reduce sum %f" + id + " dims [2] : (" + type +
           ") -> tensor<4x6xf32>");
      return output("%e" + id, "tensor<4x6xf32>");
    }
    case 3: { // whose rows are something else
      std::string type = "tensor<" + cols() + "x24xf32>";
      line("%f" + id + " = nn.reshape " + row + " : (" + f32 + ") -> " + type);
      line("%e" + id + " = nn.reduce sum %f" + id + " dims [1] : (" + type +
           ") -> tensor<" + cols() + "xf32>");
      return output("%e" + id, "tensor<" + cols() + "xf32>");
    }
    case 4: // a product that adds up over them
      line("%f" + id + " = nn.cast " + row + " : (" + f32 + ") -> " + bf16);
      line("%e" + id + " = nn.matmul %f" + id + ", %w {exec.stored} : (" +
           bf16 + ", tensor<" + cols() + "x16xbf16>) -> tensor<24x16xbf16>");
      return output("%e" + id, "tensor<24x16xbf16>");
    default: // and one that has them as columns, whose result is read in rows
      line("%f" + id + " = nn.cast " + row + " : (" + f32 + ") -> " + bf16);
      line("%e" + id + " = nn.matmul %f" + id + ", %f" + id +
           " {transpose_lhs, exec.stored} : (" + bf16 + ", " + bf16 +
           ") -> tensor<" + cols() + "x" + cols() + "xbf16>");
      line("%g" + id + " = nn.reduce max %e" + id + " dims [1] : (tensor<" +
           cols() + "x" + cols() + "xbf16>) -> tensor<" + cols() + "xbf16>");
      return output("%g" + id, "tensor<" + cols() + "xbf16>");
    }
  }

  std::mt19937_64 random;
  int64_t n;
  std::string text;
  std::vector<std::pair<std::string, std::string>> outputs;
};

FailureOr<std::vector<interpret::Tensor>>
computed(ModuleOp module, const std::vector<interpret::Tensor> &inputs) {
  return interpret::run(module.lookupSymbol<func::FuncOp>("main"), inputs,
                        nullptr);
}

bool isSame(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b)) ||
         std::fabs(a - b) <= 1e-9 * (std::fabs(a) + std::fabs(b));
}

TEST(PadProducts, ComputeTheSame) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  ScopedDiagnosticHandler quiet(&context,
                                [](Diagnostic &) { return success(); });
  registerPasses();
  const char *without = std::getenv("KERF_WITHOUT");
  int compared = 0, padded = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    int64_t n = seed % 2 ? 37 : 43;
    std::string text = RandomRows(seed, n).build();
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(bool(module)) << text;
    if (without)
      (*module)->setAttr(kWithoutAttr, StringAttr::get(&context, without));
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> numbers(-1, 1);
    std::vector<interpret::Tensor> inputs;
    for (std::vector<int64_t> shape :
         {std::vector<int64_t>{24, 16}, {n, 16}, {24, 1}, {24 * n, 1}}) {
      interpret::Tensor &tensor = inputs.emplace_back(shape);
      for (double &number : tensor.data)
        number = numbers(random);
    }
    auto before = computed(*module, inputs);
    if (failed(before))
      continue; // divides by 0
    std::string unpadded;
    llvm::raw_string_ostream(unpadded) << *module;
    PassManager passes(&context);
    ASSERT_TRUE(
        succeeded(parsePassPipeline("func.func(kerf-pad-products)", passes)));
    ASSERT_TRUE(succeeded(passes.run(*module))) << text;
    std::string after;
    llvm::raw_string_ostream(after) << *module;
    padded += after != unpadded;
    auto found = computed(*module, inputs);
    ASSERT_TRUE(succeeded(found)) << text << after;
    for (auto [a, b] : llvm::zip_equal(*before, *found))
      for (auto [x, y] : llvm::zip_equal(a.data, b.data))
        ASSERT_TRUE(isSame(x, y)) << x << " and " << y << "\n" << text << after;
    ++compared;
  }
  EXPECT_GT(compared, 300);
  EXPECT_GT(padded, 300);
}

// A mask on scores that hides every key leaves all of them equally likely. In
// bfloat16 it would be -infinity, and the row NaN.
TEST(NarrowStorage, MasksStayFinite) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  registerPasses();
  auto module = parseSourceString<ModuleOp>(
      "module attributes {exec.target = #exec.target<cuda>} {\n"
      "func.func @main(%x: tensor<8x16xbf16>, %k: tensor<12x16xbf16>, "
      "%m: tensor<12xf32>) -> tensor<8x12xf32> {\n"
      "%p = nn.matmul %x, %k {transpose_rhs} : (tensor<8x16xbf16>, "
      "tensor<12x16xbf16>) -> tensor<8x12xbf16>\n"
      "%w = nn.cast %p : (tensor<8x12xbf16>) -> tensor<8x12xf32>\n"
      "%a = nn.add %w, %m : (tensor<8x12xf32>, tensor<12xf32>) -> "
      "tensor<8x12xf32>\n"
      "%s = nn.softmax %a dim 1 : tensor<8x12xf32>\n"
      "return %s : tensor<8x12xf32>\n}\n}\n",
      &context);
  ASSERT_TRUE(bool(module));
  if (const char *without = std::getenv("KERF_WITHOUT"))
    (*module)->setAttr(kWithoutAttr, StringAttr::get(&context, without));
  PassManager passes(&context);
  ASSERT_TRUE(
      succeeded(parsePassPipeline("func.func(kerf-narrow-storage)", passes)));
  ASSERT_TRUE(succeeded(passes.run(*module)));
  interpret::RunOptions options;
  options.rounding = interpret::Rounding::Stored;
  auto found = interpret::run(
      module->lookupSymbol<func::FuncOp>("main"),
      {interpret::Tensor({8, 16}, 0.5), interpret::Tensor({12, 16}, 0.25),
       interpret::Tensor({12}, std::numeric_limits<float>::lowest())},
      nullptr, options);
  ASSERT_TRUE(succeeded(found));
  for (double number : found->front().data)
    EXPECT_NEAR(number, 1.0 / 12, 1e-6);
}

} // namespace
