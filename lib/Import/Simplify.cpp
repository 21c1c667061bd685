//===- Simplify.cpp - rewrites and common subexpressions ------------------===//
//
// Rewrites run to a fixed point, then equal ops are merged, which uncovers more
// rewrites; two rounds are enough in practice and bound the work.
//
//===----------------------------------------------------------------------===//
#include "kerf/Import/Simplify.h"
#include "kerf/Import/Passes.h"
#include "kerf/NN/Simplify.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace kerf {
#define GEN_PASS_DEF_SIMPLIFYIMPORT
#include "kerf/Import/Passes.h.inc"
} // namespace kerf

using namespace kerf;
using namespace mlir;

LogicalResult kerf::simplifyModule(ModuleOp module) {
  for (int round = 0; round < 2; ++round) {
    IRRewriter rewriter(module.getContext());
    DominanceInfo dominance(module);
    eliminateCommonSubExpressions(rewriter, dominance, module);
    RewritePatternSet patterns(module.getContext());
    nn::populateSimplifyPatterns(patterns);
    GreedyRewriteConfig config;
    config.setMaxIterations(20);
    if (failed(applyPatternsGreedily(module, std::move(patterns), config)))
      return failure();
  }
  IRRewriter rewriter(module.getContext());
  DominanceInfo dominance(module);
  eliminateCommonSubExpressions(rewriter, dominance, module);
  return success();
}

namespace {
struct SimplifyImport : kerf::impl::SimplifyImportBase<SimplifyImport> {
  void runOnOperation() override {
    if (failed(simplifyModule(getOperation())))
      signalPassFailure();
  }
};
} // namespace
