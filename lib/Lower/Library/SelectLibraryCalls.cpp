//===- SelectLibraryCalls.cpp - library calls instead of ops --------------===//
//
// Each product, convolution, ... that the library supports (LibraryCall.h)
// becomes an op of exec with the ops that the call takes in and the destination
// of its result, placed behind the last op that it replaces, of the update or
// not as the product is (with several results: in the place of the op). Results
// get memory of their own, except sums over micro-batches. O(ops + the chains
// that calls take in).
//
//===----------------------------------------------------------------------===//
#include "LibraryCall.h"

#include "../Calls.h"
#include "../OpKinds.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Lower/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_SELECTLIBRARYCALLS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
class Selector {
public:
  Selector(Block &block) : block(block), builder(block.front().getContext()) {}

  void run() {
    SmallVector<Operation *> ops;
    for (Operation &op : block) {
      position[&op] = ops.size();
      ops.push_back(&op);
    }
    for (Operation *op : ops)
      if (!erased.contains(op) && !op->hasAttr(exec::kAtLoad))
        if (auto call = selectLibraryCall(op))
          replace(*call);
  }

private:
  void replace(const LibraryCall &call) {
    SmallVector<Operation *> ops = call.ops;
    llvm::sort(ops, [&](Operation *a, Operation *b) {
      return position.lookup(a) < position.lookup(b);
    });
    ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
    // With several results, one may be read before the last is stored, so the
    // call stays in the anchor's place; its operands are computed before that.
    // A gradient does not wait for a cast that belongs to the update.
    auto isOfUpdate = [](Operation *op) {
      return dist::getPhase(op) == dist::Phase::Update;
    };
    Operation *last = call.anchor;
    if (call.moreResults.empty())
      for (Operation *op : ops)
        if (isOfUpdate(call.anchor) || !isOfUpdate(op))
          last = op;
    builder.setInsertionPointAfter(last);
    exec::LibraryCallInterface emitted =
        emitLibraryCall(builder, call, numCalls++,
                        {[](Value base) { return base; },
                         [&](Value result) { return placeOf(call, result); }});
    int64_t place = position.lookup(last), behind = place;
    for (Value operand : emitted->getOperands())
      if (Operation *def = operand.getDefiningOp())
        // Numbers of the block would be counted anew after each insertion.
        if (int64_t made = position.lookup(def);
            made > place && emitted->isBeforeInBlock(def)) {
          emitted->moveAfter(def);
          behind = std::max(behind, made);
        }
    position[emitted] = behind;
    SmallVector<Value> results = {call.result};
    for (const LibraryCall::Result &more : call.moreResults)
      results.push_back(more.value);
    for (auto [old, result] : llvm::zip_equal(results, emitted->getResults()))
      old.replaceAllUsesWith(result);
    for (Operation *op : llvm::reverse(ops)) {
      erased.insert(op);
      op->erase();
    }
  }

  Value placeOf(const LibraryCall &call, Value result) {
    if (call.accumulator && result == call.result)
      return call.accumulator;
    return exec::EmptyOp::create(builder, result.getLoc(),
                                 cast<RankedTensorType>(result.getType()));
  }

  Block &block;
  OpBuilder builder;
  DenseMap<Operation *, int64_t> position;
  DenseSet<Operation *> erased;
  int64_t numCalls = 0;
};

struct SelectLibraryCalls
    : kerf::impl::SelectLibraryCallsBase<SelectLibraryCalls> {
  void runOnOperation() override {
    FailureOr<Block *> block = blockOf(getOperation());
    if (failed(block))
      return signalPassFailure();
    if (*block)
      Selector(**block).run();
  }
};
} // namespace
