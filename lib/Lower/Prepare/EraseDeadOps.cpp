//===- EraseDeadOps.cpp - ops that nothing uses ---------------------------===//
//
// Users come behind their operands, so one walk from the end finds all dead
// ops: O(ops).
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

namespace kerf {
#define GEN_PASS_DEF_ERASEDEADOPS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
struct EraseDeadOps : kerf::impl::EraseDeadOpsBase<EraseDeadOps> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    for (Operation &op : llvm::make_early_inc_range(
             llvm::reverse(getOperation().getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};
} // namespace
