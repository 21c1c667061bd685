//===- KernelTest.cpp - each op, and fused groups, against the reference --===//
#include "Harness.h"

#include "gtest/gtest.h"

#include "mlir/Parser/Parser.h"

using namespace kerf;
using namespace kerf::test;

namespace {

/// "exec.kernel @k(ARGS) -> RESULT attributes {...} { BODY }"
std::string kernel(const std::string &arguments, const std::string &results,
                   const std::string &body) {
  return "exec.kernel @k(" + arguments + ") -> " + results +
         " attributes {index = 0 : i64, node = \"/node\"} {\n" + body + "\n}\n";
}

std::string unary(const std::string &op, const std::string &shape,
                  const std::string &attributes = "",
                  const std::string &range = "") {
  std::string type = "tensor<" + shape + ">";
  return kernel("%x: " + type + range, type,
                "%r = nn." + op + " %x " + attributes + " : (" + type +
                    ") -> " + type + "\nexec.yield %r : " + type);
}

std::string rangeOf(double low, double high) {
  return " {test.low = " + std::to_string(low) +
         " : f64, test.high = " + std::to_string(high) + " : f64}";
}

const char *kShapes[] = {"1x", "7x", "16x", "3x37x", "1000x", "5000x"};

TEST(Kernels, UnaryOps) {
  for (const char *element : {"f32", "f64"}) {
    for (const char *shape : kShapes) {
      std::string type = std::string(shape) + element;
      for (const char *op : {"neg", "abs", "sign", "exp", "erf", "tanh",
                             "sigmoid", "sin", "cos", "relu", "gelu", "floor",
                             "ceil", "round"})
        EXPECT_EQ(check(unary(op, type)), "") << op << " " << type;
      for (const char *op : {"log", "sqrt", "rsqrt", "reciprocal"})
        EXPECT_EQ(check(unary(op, type, "", rangeOf(0.01, 10))), "")
            << op << " " << type;
      EXPECT_EQ(check(unary("gelu", type, "{tanh}")), "");
    }
  }
}

} // namespace
