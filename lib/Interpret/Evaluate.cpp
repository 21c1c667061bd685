//===- Evaluate.cpp - elementwise ops, and the way to all others ----------===//
//
// Ops that the tests use; an op that is missing is an error with its name.
//
//===----------------------------------------------------------------------===//
#include "Evaluate.h"

#include "kerf/NN/NN.h"
#include "kerf/NN/Rows.h"

#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }
double geluTanh(double x) {
  return x / 2 *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double pickMax(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double pickMin(double a, double b) { return std::isnan(a) || a < b ? a : b; }

} // namespace

Unary kerf::interpret::findUnary(Operation *op) {
  static const llvm::StringMap<Unary> table = {
      {"nn.neg", [](double x) { return -x; }},
      {"nn.abs", [](double x) { return std::fabs(x); }},
      {"nn.sign", [](double x) { return double((x > 0) - (x < 0)); }},
      {"nn.exp", [](double x) { return std::exp(x); }},
      {"nn.log", [](double x) { return std::log(x); }},
      {"nn.sqrt", [](double x) { return std::sqrt(x); }},
      {"nn.rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"nn.reciprocal", [](double x) { return 1 / x; }},
      {"nn.erf", [](double x) { return std::erf(x); }},
      {"nn.tanh", [](double x) { return std::tanh(x); }},
      {"nn.sigmoid", sigmoid},
      {"nn.sin", [](double x) { return std::sin(x); }},
      {"nn.cos", [](double x) { return std::cos(x); }},
      {"nn.floor", [](double x) { return std::floor(x); }},
      {"nn.ceil", [](double x) { return std::ceil(x); }},
      {"nn.round", [](double x) { return std::nearbyint(x); }},
      {"nn.relu", [](double x) { return x < 0 ? 0.0 : x; }},
      {"nn.is_nan", [](double x) { return double(std::isnan(x)); }},
      {"nn.not", [](double x) { return double(x == 0); }},
  };
  if (auto op_ = dyn_cast<nn::GeluOp>(op))
    return op_.getTanh() ? geluTanh : gelu;
  return table.lookup(op->getName().getStringRef());
}

Binary kerf::interpret::findBinary(Operation *op) {
  static const llvm::StringMap<Binary> table = {
      {"nn.add", [](double a, double b) { return a + b; }},
      {"nn.sub", [](double a, double b) { return a - b; }},
      {"nn.mul", [](double a, double b) { return a * b; }},
      {"nn.pow", [](double a, double b) { return std::pow(a, b); }},
      {"nn.max", pickMax},
      {"nn.min", pickMin},
      {"nn.and", [](double a, double b) { return double(a && b); }},
      {"nn.or", [](double a, double b) { return double(a || b); }},
      {"nn.xor", [](double a, double b) { return double(!a != !b); }},
      {"nn.equal", [](double a, double b) { return double(a == b); }},
      {"nn.less", [](double a, double b) { return double(a < b); }},
      {"nn.less_equal", [](double a, double b) { return double(a <= b); }},
      {"nn.mod", [](double a, double b) { return a - std::floor(a / b) * b; }},
      {"nn.rem", [](double a, double b) { return std::fmod(a, b); }},
  };
  if (isa<nn::DivOp>(op)) {
    if (isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
      return [](double a, double b) { return a / b; };
    return [](double a, double b) { return std::trunc(a / b); };
  }
  return table.lookup(op->getName().getStringRef());
}

namespace {

MaybeTensor evaluateElementwise(Operation *op, Operands operands) {
  Tensor result(resultShape(op));
  size_t next = 0;
  if (Unary function = findUnary(op)) {
    for (double x : operands[0]->data)
      result.data[next++] = function(x);
    return result;
  }
  if (Binary function = findBinary(op)) {
    forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
      result.data[next++] = function(operands[0]->broadcastAt(index),
                                     operands[1]->broadcastAt(index));
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
    return result;
  }
  return std::nullopt;
}

/// Whether an integer op of which garbage must be kept away sees it.
LogicalResult checkIntegers(Operation *op, Operands operands) {
  if (isa<nn::DivOp, nn::ModOp, nn::RemOp>(op) &&
      isa<IntegerType>(getElementTypeOrSelf(op->getResult(0).getType())))
    for (double value : operands[1]->data)
      if (value == 0 || std::fabs(value) >= 1e15)
        return op->emitError("interpreter: divides by ") << value;
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
