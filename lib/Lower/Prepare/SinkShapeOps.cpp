//===- SinkShapeOps.cpp - ops that belong to their readers ----------------===//
//
// Every use of a shape op (reshape, transpose, slice, broadcast) and of a small
// constant gets a copy of the op in front of the user, which then computes it
// while reading. If memory is slow, so does a widening cast, which costs less
// than the bytes that it saves. O(uses log uses).
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "../Library/Strides.h"
#include "../OpKinds.h"

#include "kerf/NN/NN.h"

#include <limits>

namespace kerf {
#define GEN_PASS_DEF_SINKSHAPEOPS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

static LibraryWork libraryWorkOf(Operation *op) {
  auto cost = dyn_cast_or_null<OpCostInterface>(op);
  return cost ? cost.getLibraryWork() : LibraryWork::None;
}

/// From 16 bits to 32; not of what a call widens while it stores.
static bool isWidening(Operation *op) {
  auto cast = dyn_cast<nn::CastOp>(op);
  if (!cast)
    return false;
  Operation *from = cast.getX().getDefiningOp();
  if (isLibraryCall(libraryWorkOf(from)) && !from->hasAttr(exec::kStoredMark))
    return false;
  return typeOf(cast.getX()).getElementTypeBitWidth() == 16 &&
         isa<FloatType>(typeOf(cast.getX()).getElementType()) &&
         typeOf(cast.getResult()).getElementType().isF32();
}

/// Whether the op will be computed by a kernel, as far as that is known before
/// groups are formed.
static bool becomesKernel(Operation *op) {
  return isa<nn::NNDialect>(op->getDialect()) &&
         !isLibraryCall(libraryWorkOf(op));
}

static void sink(func::FuncOp function) {
  bool sinksWidenings = exec::TargetAttr::of(function).getMemoryBound();
  SmallVector<Operation *> ops;
  // Insertions make the block renumber its ops, in linear time for each, so
  // numbers are taken before; a copy in front of an op has the number of that
  // op.
  DenseMap<Operation *, std::pair<int64_t, int64_t>> place;
  int64_t last = 0, copies = 0;
  for (Operation &op : function.getBody().front()) {
    place[&op] = {last++, std::numeric_limits<int64_t>::max()};
    bool moves = isShapeOp(&op) && !op.hasAttr(exec::kStoredMark);
    if (moves || isInline(&op) || (sinksWidenings && isWidening(&op)))
      ops.push_back(&op);
  }
  OpBuilder builder(function.getContext());
  for (Operation *op : llvm::reverse(ops)) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getResult(0).getUses())
      uses.push_back(&use);
    // Sorted, since the order of the list of uses depends on how it was built.
    llvm::sort(uses, [&](OpOperand *a, OpOperand *b) {
      if (a->getOwner() != b->getOwner())
        return place.lookup(a->getOwner()) < place.lookup(b->getOwner());
      return a->getOperandNumber() < b->getOperandNumber();
    });
    // Only kernels can compute a widening while reading.
    bool stays = isa<nn::CastOp>(op) && llvm::any_of(uses, [](OpOperand *use) {
                   return !becomesKernel(use->getOwner());
                 });
    bool isPlaced = false; // in front of the first call that reads it
    for (auto [i, use] : llvm::enumerate(uses)) {
      Operation *own = op;
      if (stays && !becomesKernel(use->getOwner())) {
        if (!isPlaced)
          op->moveBefore(use->getOwner());
        isPlaced = true;
        continue;
      }
      if (stays || i > 0) {
        builder.setInsertionPoint(use->getOwner());
        own = builder.clone(*op);
        use->set(own->getResult(0));
      } else {
        op->moveBefore(use->getOwner());
      }
      place[own] = {place.lookup(use->getOwner()).first, copies++};
    }
  }
}

namespace {
struct SinkShapeOps : kerf::impl::SinkShapeOpsBase<SinkShapeOps> {
  void runOnOperation() override {
    if (!getOperation().isExternal())
      sink(getOperation());
  }
};
} // namespace
