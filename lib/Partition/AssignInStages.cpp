//===- AssignInStages.cpp - a new value where a source is used ------------===//
//
// A stage that only reads a parameter holds a copy of it: each step it must get
// the new value, too, which the update of another stage computes.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Entry.h"
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace kerf {
#define GEN_PASS_DEF_ASSIGNINSTAGES
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

/// Copies of `assign` for every other stage that reads its source.
static void assignInStages(AssignOp assign) {
  llvm::SmallSetVector<int64_t, 4> others;
  for (Operation *user : assign.getSource().getUsers())
    if (!user->hasTrait<OpTrait::IsTerminator>() &&
        getStage(user) != getStage(assign))
      others.insert(getStage(user));
  SmallVector<int64_t> sorted = others.takeVector();
  llvm::sort(sorted);
  OpBuilder builder(assign->getContext());
  builder.setInsertionPointAfter(assign);
  for (int64_t stage : sorted) {
    Operation *other = builder.clone(*assign);
    setStage(other, stage);
    setColocation(other, std::nullopt);
    builder.setInsertionPointAfter(other);
  }
}

namespace {
struct AssignInStages : kerf::impl::AssignInStagesBase<AssignInStages> {
  void runOnOperation() override {
    auto main = dist::findEntry(getOperation());
    if (!main || main.isExternal())
      return;
    for (auto assign :
         llvm::to_vector(main.getBody().front().getOps<AssignOp>()))
      assignInStages(assign);
  }
};
} // namespace
