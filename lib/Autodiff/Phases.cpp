//===- Phases.cpp - the prologue, and colocation numbers ------------------===//
//
// A mean over a batch that is cut into micro-batches divides by a number that
// depends on the whole batch. Such numbers depend on data alone: every scalar
// that depends on no parameter and no random number is computed in the
// prologue, from clones of the ops that it depends on. Exact, since the
// prologue sees whole tensors.
//
// Colocation numbers are positions in the forward pass; an op of the prologue
// gets the least number of its users.
//
//===----------------------------------------------------------------------===//
#include "Step.h"

#include "kerf/Format/StepScalars.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

static bool isScalar(Operation *op) {
  return op->getNumResults() == 1 &&
         cast<RankedTensorType>(op->getResult(0).getType()).getNumElements() ==
             1;
}

/// The op and all ops that it is computed from, except sources.
static void collectCone(Operation *root, llvm::SetVector<Operation *> &cone) {
  SmallVector<Operation *> work{root};
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    if (isa<SourceOpInterface>(op) || !cone.insert(op))
      continue;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        work.push_back(def);
  }
}

void Step::hoistPrologue() {
  llvm::DenseSet<Value> data, ofInputs;
  for (BlockArgument argument : body().getArguments()) {
    auto name =
        main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    if (!isStepScalar(name.getValue()))
      data.insert(argument), ofInputs.insert(argument);
  }
  llvm::DenseSet<Value> trained;
  for (const Parameter &parameter : parameters)
    trained.insert(parameter.value);
  llvm::SetVector<Operation *> roots, cone;
  auto inSet = [](const llvm::DenseSet<Value> &set) {
    return [&](Value value) { return set.contains(value); };
  };
  for (Operation &op : body().without_terminator()) {
    bool isData = isa<SourceOpInterface>(op)
                      ? !cast<SourceOpInterface>(op).isMutable() &&
                            !trained.contains(op.getResult(0))
                      : llvm::all_of(op.getOperands(), inSet(data));
    if (!isData)
      continue;
    data.insert(op.result_begin(), op.result_end());
    if (!llvm::any_of(op.getOperands(), inSet(ofInputs)))
      continue;
    ofInputs.insert(op.result_begin(), op.result_end());
    if (isScalar(&op)) {
      roots.insert(&op);
      collectCone(&op, cone);
    }
  }
  if (roots.empty())
    return;
  // In program order; clones stand before the first op of the forward.
  OpBuilder::InsertionGuard guard(ops);
  IRMapping mapping;
  Tag before = std::exchange(tag, Tag{dist::Phase::Prologue, -1, {}});
  for (Operation &op : llvm::make_early_inc_range(body().without_terminator()))
    if (cone.contains(&op)) {
      ops.setInsertionPoint(&op);
      ops.clone(op, mapping);
    }
  tag = before;
  for (Operation *root : roots)
    root->getResult(0).replaceAllUsesWith(mapping.lookup(root->getResult(0)));
  eraseDeadOps();
}

void Step::numberForward() {
  int64_t next = 0;
  bool inLoss = false;
  for (Operation &op : body().without_terminator()) {
    if (isa<SourceOpInterface>(op) ||
        dist::getPhase(&op) != dist::Phase::Forward)
      continue;
    // All ops behind the first op of the loss.
    inLoss |= dist::isOfLoss(&op);
    dist::setOfLoss(&op, inLoss);
    dist::setColocation(&op, next++);
  }
  for (Operation &op : llvm::reverse(body().without_terminator())) {
    if (dist::getPhase(&op) != dist::Phase::Prologue)
      continue;
    int64_t min = next;
    for (Operation *user : op.getUsers())
      if (int64_t there = colocationOf(user); there >= 0)
        min = std::min(min, there);
    dist::setColocation(&op, min == next ? 0 : min);
  }
}

void Step::classifyBackward(ArrayRef<Value> activationGradients) {
  llvm::DenseSet<Operation *> towardsActivations;
  SmallVector<Value> work(activationGradients);
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || dist::getPhase(op) != dist::Phase::BackwardInput ||
        !towardsActivations.insert(op).second)
      continue;
    llvm::append_range(work, op->getOperands());
  }
  for (Operation &op : body().without_terminator())
    if (dist::getPhase(&op) == dist::Phase::BackwardInput &&
        !towardsActivations.contains(&op))
      dist::setPhase(&op, dist::Phase::BackwardWeight);
}
