//===- Simplify.cpp - rewrites and common subexpressions ------------------===//
//
// Rewrites run until nothing changes, then equal ops are merged, which makes
// more rewrites match; two rounds are enough in practice and bound the work.
//
//===----------------------------------------------------------------------===//
#include "kerf/Import/Simplify.h"
#include "kerf/Import/Passes.h"
#include "kerf/NN/Transforms/Simplify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

namespace kerf {
#define GEN_PASS_DEF_SIMPLIFYIMPORT
#define GEN_PASS_DEF_RECOGNISEATTENTION
#include "kerf/Import/Passes.h.inc"
} // namespace kerf

using namespace kerf;
using namespace mlir;

LogicalResult kerf::simplifyModule(ModuleOp module) {
  for (int round = 0; round < 2; ++round) {
    IRRewriter rewriter(module.getContext());
    DominanceInfo dominance(module);
    eliminateCommonSubExpressions(rewriter, dominance, module);
    if (round == 0)
      for (auto function : module.getOps<func::FuncOp>())
        for (Block &block : function.getBody())
          nn::joinAlikeParts(block);
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

int64_t kerf::fuseAttention(ModuleOp module, const nn::AttentionForms &forms) {
  int64_t count = 0;
  for (auto function : module.getOps<func::FuncOp>())
    for (Block &block : function.getBody())
      count += nn::recogniseAttention(block, forms);
  if (count) {
    IRRewriter rewriter(module.getContext());
    DominanceInfo dominance(module);
    eliminateCommonSubExpressions(rewriter, dominance, module);
  }
  return count;
}

namespace {
struct RecogniseAttention
    : kerf::impl::RecogniseAttentionBase<RecogniseAttention> {
  using RecogniseAttentionBase::RecogniseAttentionBase;
  void runOnOperation() override {
    if (!std::isfinite(lowest) || lowest >= 0) {
      emitError(getOperation().getLoc(), "lowest: ")
          << llvm::formatv("{0}", double(lowest)).str()
          << ", expected a number below 0";
      return signalPassFailure();
    }
    nn::AttentionForms forms;
    forms.wide = wide;
    forms.training = training;
    forms.lowest = lowest;
    fuseAttention(getOperation(), forms);
  }
};

struct SimplifyImport : kerf::impl::SimplifyImportBase<SimplifyImport> {
  void runOnOperation() override {
    if (failed(simplifyModule(getOperation()))) {
      getOperation().emitError("simplification does not converge");
      signalPassFailure();
    }
  }
};
} // namespace
