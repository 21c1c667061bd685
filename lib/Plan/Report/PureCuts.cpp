//===- PureCuts.cpp - the article's three cuts ----------------------------===//
#include "PureCuts.h"

#include "../Model/Graph.h"
#include "../Model/Terminator.h"

#include "kerf/Cost/Volume.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/ShardingRule.h"
#include "kerf/Support/TensorTypes.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Whether only updates read the source (momenta): it is then no parameter.
static bool isKeptByUpdates(Operation &op) {
  return !op.use_empty() && llvm::all_of(op.getUsers(), [](Operation *user) {
    return isa<dist::AssignOp>(user) ||
           dist::getPhase(user) == dist::Phase::Update;
  });
}

/// Whether the forward pass writes the source (a key/value cache, statistics).
static bool isState(Operation &op) {
  return llvm::any_of(op.getUses(), [](OpOperand &use) {
    return isAssignTarget(use) &&
           dist::getPhase(use.getOwner()) == dist::Phase::Forward;
  });
}

bool kerf::plan::isModelParameter(Operation &op) {
  auto source = dyn_cast<SourceOpInterface>(&op);
  return source && source.isParameter() && !isKeptByUpdates(op) && !isState(op);
}

/// Elements that a step changes by a gradient; without a step, all that is
/// stored.
static int64_t countTrained(func::FuncOp function) {
  auto isAssigned = [](Operation &op) {
    return llvm::any_of(op.getUses(), isAssignTarget);
  };
  Block &block = function.getBody().front();
  if (llvm::none_of(block, isAssigned))
    return countParameters(function).elements;
  int64_t elements = 0;
  for (Operation &op : block)
    if (isModelParameter(op) && isAssigned(op))
      elements += tensorType(op.getResult(0)).getNumElements();
  return elements;
}

ParameterCount kerf::plan::countParameters(func::FuncOp function) {
  ParameterCount count;
  for (Operation &op : function.getBody().front())
    if (isModelParameter(op)) {
      RankedTensorType type = tensorType(op.getResult(0));
      count.elements += type.getNumElements();
      count.bytes +=
          type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
    }
  return count;
}

static int64_t flopsOf(Operation &op) {
  auto costed = dyn_cast<OpCostInterface>(&op);
  if (!costed)
    return 0;
  SmallVector<RankedTensorType> operands, results;
  for (Value value : op.getOperands())
    operands.push_back(tensorType(value));
  for (Value value : op.getResults())
    results.push_back(tensorType(value));
  return costed.getFlops(operands, results);
}

int64_t kerf::plan::countFlops(func::FuncOp function) {
  cost::Int128 flops = 0;
  for (Operation &op : function.getBody().front())
    if (!dist::isRecomputed(&op))
      flops += flopsOf(op);
  return cost::saturate(flops);
}

PureCuts kerf::plan::pureCuts(func::FuncOp function, int64_t numDevices) {
  constexpr int64_t kBytes = 4; // the article counts 32-bit elements
  // Whether a value comes from parameters and constants alone.
  llvm::DenseSet<Value> fixed;
  SmallVector<int64_t> layers;
  std::vector<Operation *> ops;
  cost::Int128 total = 0;
  for (Operation &op : function.getBody().front()) {
    // The formulas already include backward and update. The loss is no layer:
    // the last stage sends nothing on.
    if (isTerminator(&op) || isa<dist::AccumulateOp>(op) ||
        dist::getPhase(&op) != dist::Phase::Forward || dist::isOfLoss(&op))
      continue;
    bool isFixed = llvm::all_of(op.getOperands(), [&](Value operand) {
      return fixed.contains(operand);
    });
    if (isFixed) {
      for (Value result : op.getResults())
        fixed.insert(result);
      continue;
    }
    auto costed = dyn_cast<OpCostInterface>(&op);
    bool contracts =
        costed && (costed.getCostClass() == CostClass::Matmul ||
                   costed.getCostClass() == CostClass::Convolution);
    if (contracts && llvm::any_of(op.getOperands(), [&](Value operand) {
          return fixed.contains(operand);
        }))
      layers.push_back(tensorType(op.getResult(0)).getNumElements());
    ops.push_back(&op);
    total += flopsOf(op);
  }
  // Stages of equal work in program order; each boundary is placed where the
  // fewest bytes cross, within half a stage of its even position.
  llvm::DenseMap<Operation *, size_t> index;
  for (auto [i, op] : llvm::enumerate(ops))
    index[op] = i;
  std::vector<int64_t> crossing(ops.size() + 1, 0);
  std::vector<cost::Int128> done(ops.size() + 1, 0);
  for (auto [i, op] : llvm::enumerate(ops)) {
    done[i + 1] = done[i] + flopsOf(*op);
    for (Value result : op->getResults()) {
      size_t last = i;
      for (Operation *user : result.getUsers())
        if (auto found = index.find(user); found != index.end())
          last = std::max(last, found->second);
      for (size_t cut = i + 1; cut <= last; ++cut)
        crossing[cut] += tensorType(result).getNumElements();
    }
  }
  SmallVector<int64_t> handedOn;
  size_t previous = 0;
  for (int64_t boundary = 1; boundary < numDevices; ++boundary) {
    // The place in the window where the fewest bytes cross; if one op fills the
    // window, the nearest place.
    auto distance = [&](size_t cut) {
      cost::Int128 off = done[cut] * numDevices - total * boundary;
      return off < 0 ? -off : off;
    };
    std::optional<size_t> best, nearest;
    for (size_t cut = previous + 1; cut < ops.size(); ++cut) {
      if (!nearest || distance(cut) < distance(*nearest))
        nearest = cut;
      if (distance(cut) * 2 <= total &&
          (!best || crossing[cut] < crossing[*best]))
        best = cut;
    }
    if (!best)
      best = nearest;
    if (!best)
      break; // fewer ops than stages
    previous = *best;
    handedOn.push_back(crossing[*best]);
  }
  int64_t parameters = countTrained(function);
  SmallVector<int64_t> perDevice;
  for (int64_t elements : layers)
    perDevice.push_back((elements + numDevices - 1) / numDevices);
  PureCuts cuts;
  cuts.article[0] =
      cost::articleDataParallelBytes(parameters, kBytes, numDevices);
  cuts.article[1] = cost::articleVerticalBytes(perDevice, kBytes, numDevices);
  cuts.article[2] = cost::articleHorizontalBytes(handedOn, kBytes);
  cuts.ring[0] = cost::ringDataParallelBytes(parameters, kBytes, numDevices);
  cuts.ring[1] = cost::ringVerticalBytes(layers, kBytes, numDevices);
  cuts.ring[2] = cost::ringHorizontalBytes(handedOn, kBytes);
  return cuts;
}
