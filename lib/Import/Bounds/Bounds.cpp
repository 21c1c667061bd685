//===- Bounds.cpp - dimensions whose size the program computes ------------===//
//
// See Bounds.h.
//
//===----------------------------------------------------------------------===//
#include "Bounds.h"

#include "kerf/NN/NN.h"

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

ArrayRef<Bound> Bounds::of(Value x) const {
  auto found = known.find(x);
  return found == known.end() ? ArrayRef<Bound>() : found->second;
}

Value Bounds::lengthOf(Value x, int64_t dim) const {
  for (const Bound &bound : of(x))
    if (bound.dim == dim)
      return bound.length;
  return {};
}

void Bounds::set(Value x, int64_t dim, Value length) {
  SmallVector<Bound, 1> &list = known[x];
  for (Bound &bound : list)
    if (bound.dim == dim) {
      bound.length = length;
      return;
    }
  list.push_back({dim, length});
}

static bool isTruth(Value x) {
  return getElementTypeOrSelf(x).isSignlessInteger(1);
}

/// The mask whose trues a number counts, as exporters write the number of
/// elements that a mask selects; null if it is no such number.
static Value maskOf(Value number) {
  auto behind = [](Value x) {
    for (Operation *op = x.getDefiningOp();
         isa_and_nonnull<ReshapeOp, CastOp>(op); op = x.getDefiningOp()) {
      Type from = getElementTypeOrSelf(op->getOperand(0)),
           to = getElementTypeOrSelf(x);
      // Integers of 32 bits hold what is counted.
      if (from != to &&
          !(to.isSignlessInteger() && to.getIntOrFloatBitWidth() >= 32 &&
            from.isSignlessInteger()))
        break;
      x = op->getOperand(0);
    }
    return x;
  };
  auto sum = behind(number).getDefiningOp<ReduceOp>();
  if (!sum || sum.getKind() != ReduceKind::Sum ||
      cast<RankedTensorType>(sum.getType()).getNumElements() != 1)
    return {};
  Value mask = behind(sum.getX());
  return isTruth(mask) && !isTruth(sum.getX()) ? mask : Value();
}

std::optional<int64_t> Bounds::most(Value number) const {
  if (auto found = largest.find(number); found != largest.end())
    return found->second;
  Operation *op = number.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (Value mask = maskOf(number))
    return cast<RankedTensorType>(mask.getType()).getNumElements();
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    DenseElementsAttr elements = constant.getElements();
    if (!isa<IntegerType>(elements.getElementType()))
      return std::nullopt;
    int64_t all = 0;
    for (const APInt &value : elements.getValues<APInt>()) {
      if (value.getSignificantBits() > 48 || value.isNegative())
        return std::nullopt;
      all = std::max(all, value.getSExtValue());
    }
    return all;
  }
  SmallVector<std::optional<int64_t>> x;
  for (Value operand : op->getOperands())
    x.push_back(most(operand));
  auto smaller = [&]() {
    return !x[0] ? x[1] : !x[1] ? x[0] : std::min(*x[0], *x[1]);
  };
  auto both = [&](auto combine) -> std::optional<int64_t> {
    int64_t result;
    if (!x[0] || !x[1] || combine(*x[0], *x[1], result) ||
        result > (int64_t(1) << 47))
      return std::nullopt;
    return result;
  };
  return llvm::TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case<ReshapeOp, BroadcastOp, SliceOp>([&](auto) { return x[0]; })
      .Case<CastOp>([&](CastOp cast) -> std::optional<int64_t> {
        if (!isa<IntegerType>(cast.getX().getType().getElementType()))
          return std::nullopt;
        return x[0];
      })
      .Case<ConcatOp, MaxOp>([&](auto) -> std::optional<int64_t> {
        int64_t result = 0;
        for (std::optional<int64_t> each : x) {
          if (!each)
            return std::nullopt;
          result = std::max(result, *each);
        }
        return result;
      })
      // A number that is smaller than a length may still be negative.
      .Case<MinOp>(
          [&](auto) { return x[0] && x[1] ? smaller() : std::nullopt; })
      .Case<MulOp>([&](auto) {
        return both([](int64_t a, int64_t b, int64_t &result) {
          return llvm::MulOverflow(a, b, result);
        });
      })
      .Case<AddOp>([&](auto) {
        return both([](int64_t a, int64_t b, int64_t &result) {
          return llvm::AddOverflow(a, b, result);
        });
      })
      .Case<DivOp>([&](auto) { return x[1] ? x[0] : std::nullopt; })
      .Case<SelectOp>([&](auto) -> std::optional<int64_t> {
        if (!x[1] || !x[2])
          return std::nullopt;
        return std::max(*x[1], *x[2]);
      })
      .Case<GatherOp>([&](auto) { return x[0]; })
      .Case<ReduceOp>([&](ReduceOp reduce) -> std::optional<int64_t> {
        // Minimum of a constant and a length, as exporters write it.
        if (reduce.getKind() == ReduceKind::Max)
          return x[0];
        auto list = reduce.getX().getDefiningOp<ConcatOp>();
        if (reduce.getKind() != ReduceKind::Min || !list)
          return std::nullopt;
        std::optional<int64_t> result;
        for (Value each : list.getInputs()) {
          auto known = most(each);
          if (!known)
            return std::nullopt;
          result = std::min(result.value_or(*known), *known);
        }
        return result;
      })
      .Default([](Operation *) { return std::nullopt; });
}

bool kerf::onnx_import::takesBounded(StringRef domain, StringRef opType) {
  static const llvm::StringSet<> known = {
      // one element
      "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh",
      "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
      "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Elu",
      "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual",
      "HardSigmoid", "HardSwish", "Identity", "IsNaN", "LeakyRelu", "Less",
      "LessOrEqual", "Log", "Max", "Min", "Mish", "Mod", "Mul", "Neg", "Not",
      "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink",
      "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub",
      "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor",
      // rows and products
      "ArgMax", "ArgMin", "AveragePool", "BatchNormalization", "Conv", "CumSum",
      "Einsum", "Gemm", "GlobalAveragePool", "LayerNormalization", "LogSoftmax",
      "MatMul", "MaxPool", "ReduceL1", "ReduceL2", "ReduceLogSum",
      "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
      "ReduceSum", "ReduceSumSquare", "Softmax", "TopK",
      // shapes and places
      "Compress", "Concat", "ConstantOfShape", "Expand", "Flatten", "Gather",
      "GatherElements", "GatherND", "NonMaxSuppression", "NonZero", "Pad",
      "Range", "Reshape", "RoiAlign", "ScatterElements", "ScatterND", "Shape",
      "Size", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Trilu",
      "Unique", "Unsqueeze"};
  return domain.empty() && known.contains(opType);
}

namespace {
/// Compares what values are computed by; each pair of ops once.
class SameNumber {
public:
  bool areSame(Value a, Value b) {
    if (a == b)
      return true;
    if (Value mask = maskOf(a))
      if (Value other = maskOf(b))
        return areSame(mask, other);
    Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
    if (!x || !y || x->getNumOperands() != y->getNumOperands() ||
        x->getNumRegions() != 0 || depth > kDepth)
      return false;
    // Not the same until it is found out: there are no cycles.
    auto [known, isNew] = pairs.try_emplace({x, y}, false);
    if (!isNew)
      return known->second;
    ++depth;
    bool result = OperationEquivalence::isEquivalentTo(
        x, y, [&](Value c, Value d) { return success(areSame(c, d)); }, nullptr,
        OperationEquivalence::IgnoreLocations);
    --depth;
    return pairs[{x, y}] = result;
  }

private:
  static constexpr unsigned kDepth = 1000;
  llvm::DenseMap<std::pair<Operation *, Operation *>, bool> pairs;
  unsigned depth = 0;
};
} // namespace

bool kerf::onnx_import::areSameNumber(Value a, Value b) {
  return SameNumber().areSame(a, b);
}
