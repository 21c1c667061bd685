//===- KernelPlanTest.cpp - loops of kernels ------------------------------===//
#include "../../lib/Lower/Codegen/KernelPlan.h"

#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace kerf;

namespace {

/// The plan of one kernel of all ops of `body`, a function's text.
codegen::KernelPlan planOf(mlir::MLIRContext &context, const std::string &text,
                           mlir::OwningOpRef<mlir::ModuleOp> &module) {
  context.loadDialect<nn::NNDialect, mlir::func::FuncDialect>();
  module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  llvm::SmallVector<mlir::Operation *> ops;
  for (auto function : module->getOps<mlir::func::FuncOp>())
    for (mlir::Operation &op : function.getBody().front().without_terminator())
      ops.push_back(&op);
  return codegen::planKernel(ops, {});
}

/// A buffer of `pieces` tensors, of a matrix each.
std::string bucket(int pieces) {
  std::string arguments, reshapes, operands, types;
  for (int i = 0; i < pieces; ++i) {
    std::string n = std::to_string(i), comma = i ? ", " : "";
    arguments += comma + "%a" + n + ": tensor<64x32xf32>";
    reshapes += "  %r" + n + " = nn.reshape %a" + n +
                " : (tensor<64x32xf32>) -> tensor<2048xf32>\n";
    operands += comma + "%r" + n;
    types += comma + "tensor<2048xf32>";
  }
  std::string result = "tensor<" + std::to_string(2048 * pieces) + "xf32>";
  return "func.func @f(" + arguments + ") -> " + result + " {\n" + reshapes +
         "  %c = nn.concat " + operands + " dim 0 : (" + types + ") -> " +
         result + "\n  return %c : " + result + "\n}\n";
}

// The reshapes would split the loop into rows of 32, in which no border of a
// piece is a constant: every element would ask in which piece it lies.
TEST(KernelPlan, EachPieceOfABufferHasALoop) {
  for (int pieces : {2, 36, 200}) {
    mlir::MLIRContext context;
    mlir::OwningOpRef<mlir::ModuleOp> module;
    codegen::KernelPlan plan = planOf(context, bucket(pieces), module);
    ASSERT_TRUE(plan.supported) << plan.reason;
    ASSERT_EQ(plan.outer.vars.size(), 1u);
    EXPECT_EQ(plan.cuts[plan.outer.vars[0].atom].size(), size_t(pieces - 1));
  }
}

// A bias that is added by row is read by column: the loop is split.
TEST(KernelPlan, ReshapeThatMattersSplits) {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  codegen::KernelPlan plan = planOf(context, R"(
func.func @f(%x: tensor<64x32xf32>, %b: tensor<32xf32>) -> tensor<2048xf32> {
  %s = nn.add %x, %b : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
  %r = nn.reshape %s : (tensor<64x32xf32>) -> tensor<2048xf32>
  return %r : tensor<2048xf32>
})",
                                    module);
  ASSERT_TRUE(plan.supported) << plan.reason;
  EXPECT_EQ(plan.outer.vars.size(), 2u);
}

} // namespace
