//===- BlockOrder.cpp - dependences between groups; see BlockOrder.h ------===//
#include "BlockOrder.h"

#include "../OpKinds.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;

/// Views that are not part of a kernel are nodes of the graph.
static bool isView(Operation *op) {
  return isa<nn::NNDialect>(op->getDialect()) && isAlias(op);
}

Value kerf::memoryOf(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!isView(def) && !isa<dist::WaitOp>(def))
      break;
    value = def->getOperand(0);
  }
  return value;
}

Value kerf::computedValue(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!isa<nn::ReshapeOp, dist::WaitOp>(def))
      break;
    value = def->getOperand(0);
  }
  return value;
}

MutableArrayRef<OpOperand> kerf::destinationsOf(Operation *op) {
  if (auto group = dyn_cast<exec::GroupOp>(op))
    return op->getOpOperands().take_back(group.getDestinations().size());
  if (auto call = dyn_cast<exec::LibraryCallInterface>(op))
    return op->getOpOperands().slice(call.getDestination().getOperandNumber(),
                                     op->getNumResults());
  return {};
}

Value kerf::overwrittenBy(OpResult result) {
  MutableArrayRef<OpOperand> places = destinationsOf(result.getOwner());
  if (places.empty())
    return {};
  Value place = memoryOf(places[result.getResultNumber()].get());
  return place.getDefiningOp<exec::EmptyOp>() ? Value() : place;
}

bool kerf::isWrittenOver(Operation *assign) {
  auto op = dyn_cast<dist::AssignOp>(assign);
  auto value = op ? dyn_cast<OpResult>(computedValue(op.getValue())) : nullptr;
  return value && overwrittenBy(value) == op.getSource();
}

bool kerf::namesDestination(Operation *op) {
  if (isa<exec::EmptyOp>(op))
    return true;
  return isView(op) && !op->use_empty() &&
         llvm::all_of(op->getUses(), [](OpOperand &use) {
           MutableArrayRef<OpOperand> places = destinationsOf(use.getOwner());
           return &use >= places.begin() && &use < places.end();
         });
}

BlockOrder::BlockOrder(Block &block) {
  for (Operation &op : block.without_terminator())
    if (!isa<SourceOpInterface>(op) && !namesDestination(&op) &&
        !isWrittenOver(&op)) {
      number[&op] = ops.size();
      ops.push_back(&op);
    }
  successors.resize(ops.size());
  for (Operation *op : ops) {
    MutableArrayRef<OpOperand> places = destinationsOf(op);
    for (OpOperand &operand : op->getOpOperands()) {
      bool names = &operand >= places.begin() && &operand < places.end();
      Value value = operand.get();
      if (names)
        addEdgeFromPlace(value, op);
      // An assignment names the old value, a product the sums of a kernel.
      if (names || value.getDefiningOp<exec::EmptyOp>() ||
          (isa<dist::AssignOp>(op) && operand.getOperandNumber() == 0))
        continue;
      if (Operation *def = value.getDefiningOp(); def && number.contains(def))
        addEdge(def, op);
      if (!isView(op))
        readers[memoryOf(value)].push_back(op);
    }
  }
  addReadersBeforeWriters();
}

/// Orders the op that makes a destination before the op that writes there.
void BlockOrder::addEdgeFromPlace(Value place, Operation *writer) {
  while (Operation *def = place.getDefiningOp()) {
    if (number.contains(def))
      return addEdge(def, writer);
    if (!isView(def))
      return;
    place = def->getOperand(0);
  }
}

void BlockOrder::addEdge(Operation *from, Operation *to) {
  successors[number.at(from)].push_back(number.at(to));
}

bool BlockOrder::isReachable(Operation *from,
                             const DenseSet<Operation *> &to) const {
  int64_t start = number.at(from);
  DenseSet<int64_t> seen = {start};
  SmallVector<int64_t> stack = {start};
  while (!stack.empty())
    for (int64_t next : successors[stack.pop_back_val()]) {
      if (to.contains(ops[next]))
        return true;
      if (seen.insert(next).second)
        stack.push_back(next);
    }
  return false;
}

SmallVector<Operation *> BlockOrder::readersOf(Value place) const {
  SmallVector<Operation *> found;
  for (Operation *op : readers.lookup(place)) {
    found.push_back(op);
    auto collective = dyn_cast<dist::CollectiveOpInterface>(op);
    if (collective && collective.isStarted())
      llvm::append_range(
          found, llvm::make_filter_range(op->getUsers(), [&](Operation *user) {
            return number.contains(user);
          }));
  }
  return found;
}

void BlockOrder::addReadersBeforeWriters() {
  auto add = [&](Value place, Operation *writer) {
    for (Operation *reader : readersOf(place))
      if (reader != writer)
        addEdge(reader, writer);
  };
  for (Operation *op : ops) {
    if (auto assign = dyn_cast<dist::AssignOp>(op))
      add(assign.getSource(), op);
    for (OpOperand &place : destinationsOf(op))
      if (Value old = memoryOf(place.get());
          !old.getDefiningOp<exec::EmptyOp>())
        add(old, op);
  }
}

void BlockOrder::addPlannedOrder() {
  // Except where fusion reversed a pair.
  Operation *last = nullptr;
  for (Operation *op : ops) {
    if (!isa<dist::CollectiveOpInterface, dist::WaitOp>(op))
      continue;
    if (last && !isReachable(op, {last}))
      addEdge(last, op);
    last = op;
  }
  for (Operation *op : ops) {
    auto product = dyn_cast<exec::MatmulOp>(op);
    if (!product || !product.getSums())
      continue;
    for (OpOperand &use : product.getSums().getUses())
      if (auto group = dyn_cast<exec::GroupOp>(use.getOwner())) {
        unsigned result = use.getOperandNumber() - group.getInputs().size();
        for (Operation *user : group->getResult(result).getUsers())
          if (number.contains(user))
            addEdge(op, user);
      }
  }
}
