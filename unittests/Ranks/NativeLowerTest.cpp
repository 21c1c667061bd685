//===- NativeLowerTest.cpp - ops that upstream lowers on request ----------===//
#include "NativeProgram.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Native/Native.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

TEST(NativeLower, SineCosineAndClampWithoutAWarning) {
  NativeContext native;
  auto module = parseSourceString<ModuleOp>(R"(
func.func @f(%x: tensor<3xf64> {kerf.name = "angles"})
    -> (tensor<3xf64> {kerf.name = "sine"}, tensor<3xf64>, tensor<3xf64>) {
  %s, %c = math.sincos %x : tensor<3xf64>
  %low = arith.constant dense<-0.5> : tensor<3xf64>
  %high = arith.constant dense<0.25> : tensor<3xf64>
  %b = math.clampf %x to [%low, %high] : tensor<3xf64>
  return %s, %c, %b : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
})",
                                            &native.context);
  ASSERT_TRUE(module);
  std::string said;
  ScopedDiagnosticHandler handler(&native.context, [&](Diagnostic &diagnostic) {
    said += diagnostic.str();
    return success();
  });
  auto program = native::Program::create(*module, "f");
  ASSERT_TRUE(static_cast<bool>(program)) << toString(program.takeError());
  EXPECT_EQ(said, "");
  double x[3] = {-1.25, 0.125, 2.0}, sine[3], cosine[3], clamped[3];
  auto error = (*program)->run({x, sine, cosine, clamped});
  ASSERT_FALSE(static_cast<bool>(error)) << toString(std::move(error));
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(sine[i], std::sin(x[i]), 1e-12);
    EXPECT_NEAR(cosine[i], std::cos(x[i]), 1e-12);
    EXPECT_EQ(clamped[i], std::clamp(x[i], -0.5, 0.25));
  }
}

TEST(NativeLower, AttributesOfTheHostStay) {
  NativeContext native;
  auto module = parseSourceString<ModuleOp>(R"(
func.func @f(%x: tensor<3xf64> {kerf.name = "x", llvm.noundef})
    -> tensor<3xf64> {
  %y = arith.negf %x : tensor<3xf64>
  return %y : tensor<3xf64>
}
func.func private @other(i64 {kerf.name = "n", llvm.zeroext}))",
                                            &native.context);
  ASSERT_TRUE(module);
  auto program = native::Program::create(*module, "f");
  ASSERT_TRUE(static_cast<bool>(program)) << toString(program.takeError());
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  EXPECT_NE(text.find("llvm.zeroext"), std::string::npos) << text;
  EXPECT_EQ(text.find(kNameAttr.str()), std::string::npos) << text;
}

} // namespace
