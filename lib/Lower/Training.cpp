//===- Training.cpp - functions of a training step in plain nn ops --------===//
//
// See prepareTraining in Simplify.h. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Parameters.h"
#include "Simplify.h"
#include "Strides.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace kerf;

/// All uses of a mutable source mean the same memory.
static void mergeMutableSources(func::FuncOp function) {
  llvm::StringMap<Operation *> known;
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (!isMutableSource(&op))
      continue;
    auto [it, added] = known.try_emplace(mutableIdentity(&op), &op);
    // Where types differ the table of parameters says so.
    if (added || it->second->getResultTypes() != op.getResultTypes())
      continue;
    op.replaceAllUsesWith(it->second);
    op.erase();
  }
}

/// A source that gets the value of another is told from it: each is read before
/// either is written.
static void separateSources(func::FuncOp function) {
  for (auto assign : function.getBody().front().getOps<dist::AssignOp>()) {
    Value value = assign.getValue();
    while (isShapeOp(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    if (!isMutableSource(value.getDefiningOp()))
      continue;
    OpBuilder builder(assign);
    assign.getValueMutable().assign(
        nn::CastOp::create(builder, assign.getLoc(),
                           assign.getValue().getType(), assign.getValue()));
  }
}

static void expandAccumulates(func::FuncOp function) {
  for (auto accumulate : llvm::make_early_inc_range(
           function.getBody().front().getOps<dist::AccumulateOp>())) {
    Value sum = accumulate.getX();
    if (Value into = accumulate.getInto()) {
      OpBuilder builder(accumulate);
      sum = nn::AddOp::create(builder, accumulate.getLoc(), into, sum);
    }
    accumulate.getResult().replaceAllUsesWith(sum);
    accumulate.erase();
  }
}

/// Where and when an nn op runs is decided: equal ops may merge again.
static void dropPlacement(func::FuncOp function) {
  for (Operation &op : function.getBody().front()) {
    if (!isa<nn::NNDialect>(op.getDialect()))
      continue;
    for (StringRef name :
         {StringRef(dist::kStage), StringRef(dist::kPhase),
          StringRef(dist::kColocation), StringRef(dist::kPurpose),
          StringRef(dist::kOperands), StringRef(dist::kResults)})
      op.removeDiscardableAttr(name);
  }
}

void kerf::prepareTraining(func::FuncOp function) {
  mergeMutableSources(function);
  separateSources(function);
  expandAccumulates(function);
  dropPlacement(function);
}
