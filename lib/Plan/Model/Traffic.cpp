//===- Traffic.cpp - what ops move through memory; see Traffic.h ----------===//
#include "Traffic.h"

#include "Graph.h"
#include "Terminator.h"

#include "../Memory/FunctionOrder.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {
/// The questions about a function of which nothing is cut.
class Uncut : public FunctionQuestions {
public:
  Uncut(const Views &views, const DenseSet<Operation *> &atLoad)
      : FunctionQuestions(views), atLoad(atLoad) {}

  bool isConstant(Operation *op) const override { return atLoad.contains(op); }

private:
  const DenseSet<Operation *> &atLoad;
};
} // namespace

Traffic::Traffic(func::FuncOp function) {
  Block &block = function.getBody().front();
  auto isMoved = [](OpOperand &) { return false; };
  DenseSet<Operation *> atLoad = findConstants(function, isMoved);
  auto isViewOp = [](Operation *op) {
    return !isa<SourceOpInterface>(op) && op->getNumOperands() > 0 &&
           costClassOf(op) == CostClass::View;
  };
  auto areTogether = [](Operation *, Operation *) { return true; };
  Views views(block, {isViewOp, isMoved, areTogether});

  FunctionOrder order;
  order.form(block, Uncut(views, atLoad));

  // The first op of its group; an op that is in none is one by itself.
  auto firstOf = [&](Operation *op) {
    ArrayRef<Operation *> group = order.togetherWith(op);
    return group.empty() ? op : group.front();
  };
  DenseSet<Value> written;
  for (Operation &op : block) {
    if (views.contains(&op))
      continue;
    for (OpOperand &operand : op.getOpOperands()) {
      Value root = views.rootOf(operand.get());
      Operation *maker = root.getDefiningOp();
      if (!isAssignTarget(operand) && maker &&
          (isTerminator(&op) || isa<dist::AssignOp>(op) ||
           firstOf(maker) != firstOf(&op)))
        written.insert(root);
    }
  }
  // A concatenation whose parts are all written in their places is not
  // computed.
  auto isPlaced = [&](OpOperand &operand) {
    Value place = order.placeOf(views.rootOf(operand.get()));
    return place && place.getDefiningOp() == operand.getOwner();
  };
  DenseSet<std::pair<Operation *, Value>> read;
  for (Operation &op : block) {
    if (isa<SourceOpInterface, dist::AssignOp>(op) || isTerminator(&op))
      continue;
    OpTraffic &own = known[&op];
    own.isFree =
        views.contains(&op) || atLoad.contains(&op) ||
        (op.getNumOperands() > 0 && llvm::all_of(op.getOpOperands(), isPlaced));
    if (own.isFree)
      continue;
    Operation *first = firstOf(&op);
    own.isLaunched = first == &op;
    own.unread.resize(op.getNumOperands());
    own.unwritten.resize(op.getNumResults());
    for (OpOperand &operand : op.getOpOperands()) {
      Value root = views.rootOf(operand.get());
      Operation *maker = root.getDefiningOp();
      if ((maker && firstOf(maker) == first) || isPlaced(operand) ||
          !read.insert({first, root}).second)
        own.unread.set(operand.getOperandNumber());
    }
    for (OpResult result : op.getResults())
      if (!written.contains(result))
        own.unwritten.set(result.getResultNumber());
  }
}
