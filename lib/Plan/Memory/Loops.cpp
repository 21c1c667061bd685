//===- Loops.cpp - memory of ops that have blocks of their own ------------===//
//
// While a loop runs it has a second buffer for what it carries, and the values
// of its body, which live from their definition to their last use there. The
// body is not planned by itself: its values are counted whole, and cut as the
// results are on the whole. Its kernels need less, since they keep what they
// compute in between. Linear in the body.
//
//===----------------------------------------------------------------------===//
#include "StageMemory.h"

#include "kerf/Interfaces/AnyOp.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

static int64_t wholeBytes(Value value) {
  return canBeCut(value.getType()) ? sizeBytes(plannedType(value)) : 0;
}

/// The most bytes of values that live together in a block, its arguments apart.
static int64_t bodyPeak(Block &block) {
  int64_t live = 0, max = 0;
  DenseMap<Operation *, int64_t> freedBehind;
  for (Operation &op : block) {
    int64_t inside = 0;
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        inside = std::max(inside, bodyPeak(inner));
    for (Value result : op.getResults()) {
      Operation *last = &op;
      for (Operation *user : result.getUsers())
        if (Operation *here = block.findAncestorOpInBlock(*user);
            here && last->isBeforeInBlock(here))
          last = here;
      live += wholeBytes(result);
      freedBehind[last] += wholeBytes(result);
    }
    max = std::max(max, live + inside);
    live -= freedBehind.lookup(&op);
  }
  return max;
}

void StageMemory::addLoops() {
  for (Operation &op : function.getBody().front()) {
    if (!op.hasTrait<OpTrait::IsIsolatedFromAbove>() ||
        op.getNumRegions() != 1 || !isHere(&op))
      continue;
    int64_t whole = 0, local = 0;
    for (Value result : op.getResults()) {
      whole += wholeBytes(result);
      local += graph.localBytes(solution, result);
    }
    // What is carried is yielded, so it is among the values of the body.
    auto peak = static_cast<double>(bodyPeak(op.getRegion(0).front()));
    double part =
        whole ? static_cast<double>(local) / static_cast<double>(whole) : 1;
    scratch(functionOf(&op), timeOf(&op), timeOf(&op) + 1,
            static_cast<int64_t>(peak * std::min(part, 1.0)));
  }
}
