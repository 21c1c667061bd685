//===- MemoryFloor.cpp ----------------------------------------------------===//
#include "MemoryFloor.h"

#include "Graph.h"

#include "kerf/Fusion/Casts.h"
#include "kerf/Fusion/KeptValues.h"
#include "kerf/Interfaces/ShardingRule.h"

#include "mlir/Interfaces/CallInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

static int64_t numElements(Value value) {
  return tensorType(value).getNumElements();
}
static bool isMutable(Operation *op) {
  auto source = dyn_cast<SourceOpInterface>(op);
  return source && source.isMutable();
}

MemoryFloor::MemoryFloor(func::FuncOp function, bool isTraining)
    : body(function.getBody().front()), isTraining(isTraining) {
  for (Operation &op : body) {
    for (Value result : op.getResults()) {
      Type element = getElementTypeOrSelf(result);
      hasHalves |= element.isBF16() || element.isF16();
    }
    if (isa<OpCostInterface>(op) && op.getNumOperands() > 0 &&
        op.getNumResults() == 1 &&
        llvm::all_of(op.getOperands(), [&](Value operand) {
          Operation *def = operand.getDefiningOp();
          return def && (isa<SourceOpInterface>(def) ? !isMutable(def)
                                                     : atLoad.contains(def));
        }))
      atLoad.insert(&op);
  }
  if (!isTraining)
    findOutputs();
  findInstants();
}

/// The minimal bytes per element in which `value`, a source or a value that is
/// computed from sources alone, may be held: its own, or those of a value that
/// is computed from it at load and held in its place.
int64_t MemoryFloor::bytesPerElement(Value value, bool &hasSeveralUses) const {
  int64_t own = elementBytes(tensorType(value)), min = 0, uses = 0;
  for (OpOperand &use : value.getUses()) {
    if (isAssignTarget(use))
      continue;
    ++uses;
    Operation *user = use.getOwner();
    if (!mayBeAtLoad(user)) {
      min = own;
      continue;
    }
    // Two operands of one size may become one value at load.
    bool isOnlyOne = llvm::all_of(user->getOpOperands(), [&](OpOperand &other) {
      return &other == &use || numElements(other.get()) < numElements(value);
    });
    Value result = user->getResult(0);
    if (isOnlyOne && numElements(result) == numElements(value))
      min =
          std::max(min, std::min(own, bytesPerElement(result, hasSeveralUses)));
  }
  hasSeveralUses |= uses > 1;
  return min;
}

HeldSource MemoryFloor::heldOf(Value source) const {
  auto op = source.getDefiningOp<SourceOpInterface>();
  if (op.isMutable())
    return {elementBytes(tensorType(source)), true};
  if (!op.isParameter())
    return {}; // constants may become a part of the code
  bool hasSeveralUses = false;
  int64_t bytes = bytesPerElement(source, hasSeveralUses);
  return {bytes, !hasSeveralUses};
}

int64_t MemoryFloor::narrowest(Value value) const {
  int64_t bytes = elementBytes(tensorType(value));
  return hasHalves && isa<FloatType>(getElementTypeOrSelf(value))
             ? std::min<int64_t>(bytes, 2)
             : bytes;
}

int64_t MemoryFloor::minHeldBytes() const {
  cost::Int128 bytes = 0;
  for (Operation &op : body)
    if (isa<SourceOpInterface>(op))
      for (Value result : op.getResults())
        bytes +=
            cost::Int128(numElements(result)) * heldOf(result).bytesPerElement;
  return cost::saturate(bytes);
}

int64_t MemoryFloor::minInputBytes() const {
  int64_t bytes = 0;
  for (BlockArgument argument : body.getArguments())
    if (!argument.use_empty())
      bytes += numElements(argument) * narrowest(argument);
  return bytes;
}

void MemoryFloor::findOutputs() {
  llvm::DenseSet<Value> seen;
  for (OpOperand &operand : body.getTerminator()->getOpOperands()) {
    auto op = operand.get().getDefiningOp<OpCostInterface>();
    if (op && op.getCostClass() != CostClass::View &&
        !mayBeAtLoad(op.getOperation()) && seen.insert(operand.get()).second)
      outputs.push_back(&operand);
  }
}

/// Of a call nothing is known but what it costs.
static CostClass classOf(Operation *op) {
  if (isa<CallOpInterface>(op) || op->hasTrait<OpTrait::IsIsolatedFromAbove>())
    return CostClass::Gather;
  auto costed = dyn_cast<OpCostInterface>(op);
  return costed ? costed.getCostClass() : CostClass::Gather;
}
bool MemoryFloor::isProduct(Operation *op) const {
  CostClass kind = classOf(op);
  return !mayBeAtLoad(op) &&
         (kind == CostClass::Matmul || kind == CostClass::Convolution);
}

/// A product of values alone may be a part of one call that does not store what
/// it makes (attention); in training that is kept.
bool MemoryFloor::storesResult(Operation *op) const {
  return isTraining || llvm::any_of(op->getOperands(), [&](Value operand) {
           Operation *def = operand.getDefiningOp();
           return def && (isa<SourceOpInterface>(def) || mayBeAtLoad(def));
         });
}

/// The result of the product that `value` comes from by elementwise ops, which
/// are followed through the last of their operands of the same size: of a
/// residual sum that is the block's output and not its input. Null: it comes
/// from no product.
Value MemoryFloor::rootOf(Value value) const {
  while (Operation *def = value.getDefiningOp()) {
    if (isProduct(def))
      return storesResult(def) ? value : Value();
    CostClass kind = classOf(def);
    if (def->getNumResults() != 1 ||
        (kind != CostClass::View && kind != CostClass::Elementwise &&
         kind != CostClass::Row && !movesOrCasts(def)))
      return {};
    Value next;
    for (Value operand : def->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      if (!maker || numElements(operand) != numElements(value))
        continue;
      if (!next || next.getDefiningOp()->isBeforeInBlock(maker))
        next = operand;
    }
    if (!next)
      return {};
    value = next;
  }
  return {};
}

void MemoryFloor::findInstants() {
  // More would say little more, and cost time on long functions.
  constexpr size_t kInstants = 256;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, size_t> position;
  SmallVector<size_t> products;
  // What they come from is counted as the outputs.
  llvm::DenseSet<Value> counted;
  for (OpOperand *output : outputs)
    if (Value root = rootOf(output->get()))
      counted.insert(root);
  auto storedRootOf = [&](Value value) {
    Value root = rootOf(value);
    return counted.contains(root) ? Value() : root;
  };
  // Which roots a product reads, by its position.
  std::vector<std::pair<size_t, Value>> reads;
  for (Operation &op : body) {
    position[&op] = ops.size();
    if (isProduct(&op)) {
      products.push_back(ops.size());
      for (Value operand : op.getOperands())
        if (Value root = storedRootOf(operand))
          reads.push_back({ops.size(), root});
    }
    ops.push_back(&op);
  }
  // By positions, since each instant follows them anew.
  std::vector<SmallVector<uint32_t, 4>> makers(ops.size());
  for (auto [at, op] : llvm::enumerate(ops))
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        makers[at].push_back(static_cast<uint32_t>(position[def]));
  std::vector<size_t> makerOfRead;
  DenseSet<Value> stored;
  for (auto [reader, root] : reads) {
    makerOfRead.push_back(position[root.getDefiningOp()]);
    stored.insert(root);
  }
  for (Value output : body.getTerminator()->getOperands())
    if (Value root = storedRootOf(output))
      stored.insert(root);
  size_t step = (products.size() + kInstants - 1) / kInstants;
  std::vector<char> before, behind;
  for (size_t number = 0; number < products.size(); number += step) {
    size_t at = products[number];
    before.assign(ops.size(), false);
    behind.assign(ops.size(), false);
    before[at] = behind[at] = true;
    for (size_t i = at + 1; i-- > 0;)
      if (before[i])
        for (uint32_t maker : makers[i])
          before[maker] = true;
    for (size_t i = at + 1; i < ops.size(); ++i)
      behind[i] = llvm::any_of(makers[i],
                               [&](uint32_t maker) { return behind[maker]; });
    Instant instant{ops[at], {}, stored.contains(ops[at]->getResult(0)), 0};
    llvm::SetVector<Value> own, others;
    for (OpOperand &operand : ops[at]->getOpOperands())
      if (Value root = storedRootOf(operand.get()); root && own.insert(root))
        instant.reads.push_back(&operand);
    for (auto [read, maker] : llvm::zip_equal(reads, makerOfRead)) {
      auto [reader, root] = read;
      if (reader != at && behind[reader] && maker != at && before[maker] &&
          !own.contains(root))
        others.insert(root);
    }
    for (Value root : others)
      instant.othersBytes += numElements(root) * narrowest(root);
    instants.push_back(std::move(instant));
  }
}
