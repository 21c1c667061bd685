//===- ZeroParts.cpp ------------------------------------------------------===//
#include "ZeroParts.h"

#include "../Model/Terminator.h"
#include "../Report/PureCuts.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Fusion/Casts.h"
#include "kerf/Interfaces/ShardingRule.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

StringRef kerf::plan::toString(Zero zero) {
  switch (zero) {
  case Zero::None:
    return "none";
  case Zero::States:
    return "1";
  case Zero::Gradients:
    return "2";
  case Zero::Parameters:
    return "3";
  }
  llvm_unreachable("bad Zero");
}

std::optional<Zero> kerf::plan::parseZero(StringRef text) {
  for (Zero zero : kZeros)
    if (text == toString(zero))
      return zero;
  return std::nullopt;
}

SmallVector<StringRef> kerf::plan::partNames(Zero zero) {
  SmallVector<StringRef> names;
  if (zero >= Zero::States)
    names.push_back("optimizer states");
  if (zero >= Zero::Gradients)
    names.push_back("gradients");
  if (zero >= Zero::Parameters)
    names.push_back("parameters");
  return names;
}

static bool isOfUpdate(Operation *op) {
  return isa<dist::AssignOp>(op) || dist::getPhase(op) == dist::Phase::Update;
}

/// A cast that a step makes of a parameter for its products.
static bool isRounding(Operation *op) {
  return isFloatCast(op) && !isOfUpdate(op);
}

/// Whether a step reads a source through casts alone, besides its updates.
static bool isReadRounded(Operation *source) {
  bool isRead = false;
  for (Operation *user : source->getUsers()) {
    if (isOfUpdate(user))
      continue;
    isRead = true;
    if (!isRounding(user))
      return false;
  }
  return isRead;
}

namespace {
/// Of a step: sums of gradients, ops that make new values of them, element by
/// element, and the sources that get these.
struct Trained {
  SmallVector<Operation *> sums, updates, sources;
};
} // namespace

static Trained findTrained(func::FuncOp function) {
  Trained found;
  // Gradients and what updates make of them, element by element.
  DenseSet<Value> made;
  auto isMadeOfGradient = [&](Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return made.contains(operand) &&
             llvm::all_of(op->getResultTypes(), [&](Type type) {
               return cast<ShapedType>(type).getShape() ==
                      cast<ShapedType>(operand.getType()).getShape();
             });
    });
  };
  for (Operation &op : function.getBody().front().without_terminator()) {
    dist::PurposeAttr purpose = dist::getPurpose(&op);
    if (isa<dist::AccumulateOp>(op)) {
      if (purpose && purpose.getValue() == dist::Purpose::Gradient) {
        found.sums.push_back(&op);
        made.insert(op.getResult(0));
      }
    } else if (auto assign = dyn_cast<dist::AssignOp>(op)) {
      Operation *source = assign.getSource().getDefiningOp();
      if (source && made.contains(assign.getValue()))
        found.sources.push_back(source);
    } else if (isOfUpdate(&op) && isMadeOfGradient(&op)) {
      made.insert(op.result_begin(), op.result_end());
      found.updates.push_back(&op);
    }
  }
  return found;
}

ZeroParts::ZeroParts(func::FuncOp function, Zero zero) : zero(zero) {
  if (zero == Zero::None)
    return;
  Trained trained = findTrained(function);
  inParts.insert(trained.updates.begin(), trained.updates.end());
  if (zero >= Zero::Gradients)
    for (Operation *sum : trained.sums) {
      sums.insert(sum);
      Operation *def = sum->getOperand(0).getDefiningOp();
      for (; def && isFloatCast(def) && def->hasOneUse();
           def = def->getOperand(0).getDefiningOp())
        widening.insert(def);
    }
  for (Operation *source : trained.sources) {
    if (zero != Zero::Parameters && isModelParameter(*source) &&
        !isReadRounded(source))
      continue;
    inParts.insert(source);
    for (Operation *user : source->getUsers())
      if (isRounding(user))
        inParts.insert(user);
  }
}

bool ZeroParts::mayCut(Operation *op) const {
  return zero != Zero::None &&
         (isInParts(op) || addsParts(op) || widening.contains(op) ||
          (isOfUpdate(op) && !isa<dist::AssignOp>(op)));
}

bool ZeroParts::isGatheredOnce(Value value) const {
  Operation *def = value.getDefiningOp();
  return zero != Zero::Parameters && def && isInParts(def) && isRounding(def);
}

bool ZeroParts::isGatheredPerPass(Value value) const {
  Operation *def = value.getDefiningOp();
  return zero == Zero::Parameters && def && isInParts(def) &&
         (isRounding(def) || isModelParameter(*def));
}

std::optional<StepPass> ZeroParts::passOf(OpOperand &use) const {
  Operation *user = use.getOwner();
  if (!isGatheredPerPass(use.get()) || isInParts(user) || isOfUpdate(user) ||
      isTerminator(user))
    return std::nullopt;
  switch (dist::getPhase(user)) {
  case dist::Phase::Prologue:
  case dist::Phase::Update:
    return std::nullopt;
  case dist::Phase::Forward:
    return StepPass::Forward;
  case dist::Phase::BackwardInput:
  case dist::Phase::BackwardWeight:
    return StepPass::Backward;
  }
  llvm_unreachable("bad Phase");
}

bool kerf::plan::roundInPrologue(func::FuncOp function, Zero zero) {
  if (zero != Zero::States && zero != Zero::Gradients)
    return false;
  // Blocks that are computed again have roundings of their own, which the
  // prologue's replace.
  llvm::MapVector<std::pair<Value, Type>, SmallVector<Operation *>> alike;
  ZeroParts parts(function, zero);
  for (Operation &op : function.getBody().front())
    if (isRounding(&op) && parts.isInParts(&op))
      alike[{op.getOperand(0), op.getResultTypes()[0]}].push_back(&op);
  for (auto &[key, casts] : alike) {
    Operation *first = casts.front();
    first->setAttr(dist::kStep,
                   dist::StepAttr::get(
                       function.getContext(), dist::Phase::Prologue,
                       dist::getColocation(first), std::nullopt, false, false));
    for (Operation *other : llvm::drop_begin(casts)) {
      other->getResult(0).replaceAllUsesWith(first->getResult(0));
      other->erase();
    }
  }
  return !alike.empty();
}
