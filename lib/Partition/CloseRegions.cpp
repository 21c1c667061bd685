//===- CloseRegions.cpp - constants back into regions ---------------------===//
//
// Canonicalization takes constants out of the bodies of ops, to the start of
// the function, and gives them no plan, which partitioning asks of every op.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/Repeat.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kerf {
#define GEN_PASS_DEF_CLOSEREGIONS
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {

struct CloseRegions : kerf::impl::CloseRegionsBase<CloseRegions> {
  void runOnOperation() override {
    func::FuncOp entry = dist::findEntry(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() ||
          (function != entry && !dist::isPlanned(function)))
        continue;
      Block &block = function.getBody().front();
      for (Operation &op : block.without_terminator())
        repeatInRegions(&op);
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
        if (isOpTriviallyDead(&op) && dist::getResultShardings(&op).empty())
          op.erase();
    }
  }
};

} // namespace
