//===- Evaluate.cpp - elementwise ops, and the way to all others ----------===//
//
// Computes ops element by element from their definitions, for tests of every
// phase and for `kerf verify`. An op that is not implemented is an error that
// names it.
//
//===----------------------------------------------------------------------===//
#include "Evaluate.h"

#include "kerf/NN/NN.h"
#include "kerf/NN/Rules/Rows.h"
#include "kerf/Support/NarrowTypes.h"

#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

namespace {

MaybeTensor evaluateElementwise(Operation *op, Operands operands) {
  Tensor result(resultShape(op));
  size_t next = 0;
  if (ElementFunction function = findElementFunction(op)) {
    llvm::SmallVector<double, 2> x(operands.size());
    forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
      for (auto [element, operand] : llvm::zip_equal(x, operands))
        element = operand->broadcastAt(index);
      result.data[next++] = function(op, x);
    });
    return result;
  }
  if (isa<nn::SelectOp>(op)) {
    forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
      bool first = operands[0]->broadcastAt(index) != 0;
      result.data[next++] = operands[first ? 1 : 2]->broadcastAt(index);
    });
    return result;
  }
  if (isa<nn::CastOp>(op)) {
    Type to = getElementTypeOrSelf(op->getResult(0).getType());
    for (double x : operands[0]->data)
      result.data[next++] = to.isInteger(1)        ? double(x != 0)
                            : isa<IntegerType>(to) ? std::trunc(x)
                                                   : x;
    if (isNarrow(to)) // also where nothing else is rounded
      roundTo(result, to);
    return result;
  }
  if (isa<nn::BitcastOp>(op)) {
    auto type = cast<RankedTensorType>(op->getOperand(0).getType());
    return fromBytes(cast<RankedTensorType>(op->getResult(0).getType()),
                     toBytes(type, *operands[0]));
  }
  return std::nullopt;
}

/// Fails if a division of integers or a gather reads an invalid number, for
/// example one from poisoned padding.
LogicalResult checkIntegers(Operation *op, Operands operands) {
  if (nn::dividesIntegers(op))
    for (double value : operands[1]->data)
      if (value == 0 || std::fabs(value) >= 1e15)
        return op->emitError("interpreter: divides by ") << value;
  // Elements are doubles, which hold the bits of 53 places.
  if (isa<nn::BitcastOp>(op) &&
      getElementTypeOrSelf(op->getResult(0)).getIntOrFloatBitWidth() > 32)
    return op->emitError("interpreter: bits of more than 32 places are not "
                         "known");
  if (auto gather = dyn_cast<nn::GatherOp>(op);
      gather && !gather.getPartial()) {
    double size = static_cast<double>(operands[0]->shape[gather.getDim()]);
    for (double value : operands[1]->data)
      if (value < -size || value >= size)
        return op->emitError("interpreter: index ")
               << value << " is not in a dimension of " << size;
  }
  if (auto gather = dyn_cast<nn::GatherOp>(op); gather && gather.getPartial())
    for (double value : operands[1]->data)
      if (value < static_cast<double>(nn::kNoRow / 2))
        return op->emitError("interpreter: an index is in no device's rows");
  return success();
}

} // namespace

FailureOr<llvm::SmallVector<Tensor, 1>>
kerf::interpret::evaluate(Operation *op, ArrayRef<const Tensor *> operands) {
  if (failed(checkIntegers(op, operands)))
    return failure();
  if (isa<nn::LoopOp>(op))
    return evaluateLoop(op, operands, [](Operation *inner, Operands x) {
      auto results = evaluate(inner, x);
      if (succeeded(results))
        for (auto [value, result] :
             llvm::zip_equal(inner->getResults(), *results))
          roundTo(result, getElementTypeOrSelf(value.getType()));
      return results;
    });
  if (auto updated = evaluateUpdate(op, operands); !updated.empty())
    return updated;
  if (auto attended = evaluateAttention(op, operands); !attended.empty())
    return attended;
  MaybeTensor result = evaluateElementwise(op, operands);
  if (!result)
    result = evaluateContraction(op, operands);
  if (!result)
    result = evaluateMovement(op, operands);
  if (!result)
    result = evaluateGradient(op, operands);
  if (!result)
    return op->emitError("interpreter: '") << op->getName() << "' is not known",
           failure();
  llvm::SmallVector<Tensor, 1> results;
  results.push_back(std::move(*result));
  return results;
}

double kerf::interpret::difference(const Tensor &a, const Tensor &b) {
  if (a.shape != b.shape)
    return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    if (a.data[i] == b.data[i])
      continue;
    double here = std::fabs(a.data[i] - b.data[i]) / (1 + std::fabs(b.data[i]));
    if (std::isnan(here))
      return INFINITY;
    largest = std::max(largest, here);
  }
  return largest;
}
