//===- IntegersTest.cpp - ops on bits, against the processor's ------------===//
//
// The interpreter has integers as doubles, folding has them in 64 bits. Both
// are held here against integers of the type itself, at the ends of each type's
// range and with shifts by more than its bits.
//
//===----------------------------------------------------------------------===//
#include "kerf/Interpret/Interpret.h"
#include "kerf/NN/IR/Evaluate.h"
#include "kerf/NN/NN.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <type_traits>

using namespace mlir;
using namespace kerf;

namespace {

template <typename T> constexpr bool isSigned = std::is_signed_v<T>;

template <typename T> std::string element() {
  return (isSigned<T> ? "i" : "ui") + std::to_string(sizeof(T) * 8);
}

/// Numbers that a double holds: at most 53 bits from the first to the last that
/// is set.
template <typename T> std::vector<T> numbers() {
  const int bits = sizeof(T) * 8;
  const T top = T(uint64_t(1) << (bits - 1)),
          low = T(uint64_t(3) << (bits - 7));
  std::vector<T> result = {0, 1, 2, 5, 7, 101, top, T(top | low), low};
  if (isSigned<T>)
    result.insert(result.end(), {T(-1), T(-5), T(-128)});
  return result;
}

template <typename T> std::vector<T> shifts() {
  const int bits = sizeof(T) * 8;
  std::vector<T> result = {0, 1, 3, T(bits - 1), T(bits), T(bits + 1), 100};
  if (isSigned<T>)
    result.insert(result.end(), {T(-1), T(-128)});
  return result;
}

template <typename T>
std::string constant(const std::vector<T> &values, const std::string &type) {
  const bool isColumn = type.find("x1x") != std::string::npos;
  std::string text = "nn.constant dense<[";
  for (auto [at, value] : llvm::enumerate(values))
    text += (at ? ", " : "") + std::string(isColumn ? "[" : "") +
            std::to_string(value) + (isColumn ? "]" : "");
  return text + "]> : " + type + "\n";
}

/// `op` of every pair, by folding and by the interpreter.
template <typename T, typename Expected>
void expectPairs(const std::string &op, std::vector<T> xs, std::vector<T> ys,
                 Expected expected) {
  SCOPED_TRACE(op + " of " + element<T>());
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<func::FuncDialect, nn::NNDialect>();
  const std::string rows = std::to_string(xs.size()),
                    columns = std::to_string(ys.size());
  const std::string x = "tensor<" + rows + "x1x" + element<T>() + ">",
                    y = "tensor<" + columns + "x" + element<T>() + ">",
                    type = "tensor<" + rows + "x" + columns + "x" +
                           element<T>() + ">";
  auto module = parseSourceString<ModuleOp>(
      "func.func @main() -> " + type + " {\n%x = " + constant(xs, x) +
          "%y = " + constant(ys, y) + "%r = nn." + op + " %x, %y : (" + x +
          ", " + y + ") -> " + type + "\nreturn %r : " + type + "\n}\n",
      &context);
  ASSERT_TRUE(module);
  auto function = cast<func::FuncOp>(module->lookupSymbol("main"));
  interpret::RunOptions options;
  options.rounding = interpret::Rounding::Stored;
  auto outputs = interpret::run(function, {}, nullptr, options);
  ASSERT_TRUE(succeeded(outputs));
  Operation *computed = function.front().getTerminator()->getPrevNode();
  DenseElementsAttr folded = nn::evaluate(computed);
  ASSERT_TRUE(folded);
  auto elements = folded.getValues<llvm::APInt>();
  for (size_t i = 0; i < xs.size(); ++i)
    for (size_t j = 0; j < ys.size(); ++j) {
      const T want = expected(xs[i], ys[j]);
      const size_t at = i * ys.size() + j;
      EXPECT_EQ((*outputs)[0].data[at], double(want))
          << +xs[i] << ", " << +ys[j];
      EXPECT_EQ(T(elements[at].getZExtValue()), want)
          << +xs[i] << ", " << +ys[j];
    }
}

template <typename T> class IntegersTest : public ::testing::Test {};
using Types = ::testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t,
                               uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(IntegersTest, Types);

TYPED_TEST(IntegersTest, Bits) {
  using T = TypeParam;
  auto x = numbers<T>();
  expectPairs<T>("and", x, x, [](T x, T y) { return T(x & y); });
  expectPairs<T>("or", x, x, [](T x, T y) { return T(x | y); });
  expectPairs<T>("xor", x, x, [](T x, T y) { return T(x ^ y); });
}

TYPED_TEST(IntegersTest, Shifts) {
  using T = TypeParam;
  constexpr int kBits = sizeof(T) * 8;
  auto isWithin = [](T y) {
    return !(isSigned<T> && y < T(0)) && uint64_t(y) < kBits;
  };
  expectPairs<T>("shift_left", numbers<T>(), shifts<T>(), [&](T x, T y) {
    return isWithin(y) ? T(uint64_t(x) << y) : T(0);
  });
  expectPairs<T>("shift_right", numbers<T>(), shifts<T>(), [&](T x, T y) {
    return isWithin(y) ? T(x >> y) : T(isSigned<T> && x < T(0) ? -1 : 0);
  });
}

} // namespace
