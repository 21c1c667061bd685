//===- CanonicalizeFolds.cpp - constants and identities -------------------===//
//
// What is known is computed; what does nothing vanishes.
//
//===----------------------------------------------------------------------===//
#include "kerf/NN/Evaluate.h"
#include "kerf/NN/NN.h"
#include "kerf/NN/Simplify.h"

using namespace kerf::nn;
using namespace mlir;

namespace {

/// Any op on unnamed constants.
struct EvaluateConstants : RewritePattern {
  EvaluateConstants(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 10, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (isa<ConstantOp>(op) || op->getNumOperands() == 0)
      return failure();
    DenseElementsAttr value = evaluate(op);
    if (!value)
      return failure();
    rewriter.replaceOpWithNewOp<ConstantOp>(op, value);
    return success();
  }
};

} // namespace

void kerf::nn::populateFoldPatterns(RewritePatternSet &patterns) {
  patterns.add<EvaluateConstants>(patterns.getContext());
}

void kerf::nn::populateSimplifyPatterns(RewritePatternSet &patterns) {
  populateFoldPatterns(patterns);
}
