//===- MergeEqualOps.cpp - one op for several equal ones ------------------===//
//
// One scan per block in program order with a table of the ops seen. The first
// of several equal ops stays, since it comes before all users of the others.
// Linear.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Passes.h"

#include "kerf/Dist/SameComputation.h"

namespace kerf::dist {
#define GEN_PASS_DEF_MERGEEQUALOPS
#include "kerf/Dist/Passes.h.inc"
} // namespace kerf::dist

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

static void merge(Block &block) {
  llvm::DenseSet<Operation *, SameComputation> seen;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
      continue;
    }
    if (op.hasTrait<OpTrait::IsTerminator>() || op.getNumRegions() != 0 ||
        !isMemoryEffectFree(&op))
      continue;
    auto [it, isNew] = seen.insert(&op);
    if (isNew)
      continue;
    op.replaceAllUsesWith(*it);
    op.erase();
  }
}

namespace {
struct MergeEqualOps : dist::impl::MergeEqualOpsBase<MergeEqualOps> {
  void runOnOperation() override {
    getOperation()->walk([](Block *block) { merge(*block); });
  }
};
} // namespace
