//===- DecomposeOps.cpp - ops that have no loops of their own -------------===//
//
// Upstream takes some ops apart on request only: softmax, packed layouts, the
// sine and cosine of one angle. math-expand-ops of LLVM 22 takes clampf apart
// in the wrong order: everything becomes the upper bound.
//
//===----------------------------------------------------------------------===//
#include "DecomposeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace {

struct DecomposeOps : PassWrapper<DecomposeOps, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DecomposeOps)
  StringRef getName() const override { return "DecomposeOps"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, linalg::LinalgDialect,
                    math::MathDialect, tensor::TensorDialect>();
  }

  void runOnOperation() override {
    SmallVector<Operation *> found;
    getOperation()->walk([&](Operation *op) {
      if (isa<linalg::AggregatedOpInterface, linalg::PackOp, linalg::UnPackOp,
              math::SincosOp, math::ClampFOp>(op))
        found.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (Operation *op : found) {
      rewriter.setInsertionPoint(op);
      if (failed(decompose(rewriter, op))) {
        op->emitError("cannot be taken apart");
        return signalPassFailure();
      }
    }
  }

  static LogicalResult decompose(IRRewriter &rewriter, Operation *op) {
    if (auto pack = dyn_cast<linalg::PackOp>(op))
      return linalg::lowerPack(rewriter, pack);
    if (auto unpack = dyn_cast<linalg::UnPackOp>(op))
      return linalg::lowerUnPack(rewriter, unpack);
    if (auto both = dyn_cast<math::SincosOp>(op)) {
      Value angle = both.getOperand();
      Value sine = math::SinOp::create(rewriter, op->getLoc(), angle);
      Value cosine = math::CosOp::create(rewriter, op->getLoc(), angle);
      rewriter.replaceOp(op, {sine, cosine});
      return success();
    }
    if (auto clamp = dyn_cast<math::ClampFOp>(op)) {
      Value least = arith::MaximumFOp::create(rewriter, op->getLoc(),
                                              clamp.getValue(), clamp.getMin());
      rewriter.replaceOpWithNewOp<arith::MinimumFOp>(op, least, clamp.getMax());
      return success();
    }
    FailureOr<SmallVector<Value>> parts =
        cast<linalg::AggregatedOpInterface>(op).decomposeOperation(rewriter);
    if (failed(parts))
      return failure();
    rewriter.replaceOp(op, *parts);
    return success();
  }
};

} // namespace

std::unique_ptr<Pass> kerf::native::createDecomposeOps() {
  return std::make_unique<DecomposeOps>();
}
