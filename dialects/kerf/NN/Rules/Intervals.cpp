//===- Intervals.cpp - which values the results of nn ops may hold --------===//
//
// For every op that is not elementwise (those have theirs in their
// definitions); see Interfaces/Interval.h. A sum counts the largest possible
// number of elements, and padding as 0.
//
//===----------------------------------------------------------------------===//
#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

#define KERF_INTERVAL(Op)                                                      \
  Interval Op::getInterval([[maybe_unused]] unsigned result,                   \
                           [[maybe_unused]] ArrayRef<Interval> x)

bool kerf::nn::holdsFloats(Value value) {
  return isa<FloatType>(elementOf(value));
}

static bool isZero(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant || !constant.getElements().isSplat())
    return false;
  Interval elements = Interval::of(constant.getElements());
  return elements.low == 0 && elements.high == 0;
}

SmallVector<SmallVector<unsigned>> kerf::nn::linearGroupsOf(SelectOp select) {
  SmallVector<SmallVector<unsigned>> groups;
  groups.push_back({1, 2});
  if (isZero(select.getOnFalse()))
    groups.push_back({1});
  if (isZero(select.getOnTrue()))
    groups.push_back({2});
  return groups;
}

bool kerf::nn::isWhereNotZero(SelectOp select) {
  auto equal = select.getCondition().getDefiningOp<EqualOp>();
  if (!equal)
    return false;
  Value x = select.getOnFalse();
  return (equal.getLhs() == x && isZero(equal.getRhs())) ||
         (equal.getRhs() == x && isZero(equal.getLhs()));
}

/// The interval extended by 0.
static Interval orZero(Interval x) { return join(x, Interval::of(0)); }

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

// Values in files, and their values after training steps, are assumed to be
// finite, except for weights in which import found an infinity.
KERF_INTERVAL(WeightOp) {
  return getInfinite() ? Interval::all() : finiteOf(elementOf(getResult()));
}
KERF_INTERVAL(StateOp) { return finiteOf(elementOf(getResult())); }
KERF_INTERVAL(ConstantOp) { return Interval::of(getElements()); }
KERF_INTERVAL(IotaOp) {
  return {0, double(typeOf(getResult()).getDimSize(getDim()))};
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

KERF_INTERVAL(ReshapeOp) { return x[0]; }
KERF_INTERVAL(TransposeOp) { return x[0]; }
KERF_INTERVAL(BroadcastOp) { return x[0]; }
KERF_INTERVAL(SliceOp) { return x[0]; }
KERF_INTERVAL(GatherOp) { return getPartial() ? orZero(x[0]) : x[0]; }

KERF_INTERVAL(ConcatOp) {
  Interval all = Interval::none();
  for (Interval part : x)
    all = join(all, part);
  return all;
}

KERF_INTERVAL(PadOp) {
  auto type = RankedTensorType::get({}, elementOf(getResult()));
  return join(
      x[0], Interval::of(DenseElementsAttr::get(type, Attribute(getValue()))));
}

KERF_INTERVAL(ScatterOp) {
  bool joins = getKind() == ScatterKind::Set || getKind() == ScatterKind::Min ||
               getKind() == ScatterKind::Max;
  return joins ? join(x[0], x[2]) : Interval::all();
}

KERF_INTERVAL(ScatterAddOp) {
  return sumOf(orZero(x[1]), typeOf(getIndices()).getNumElements());
}

//===----------------------------------------------------------------------===//
// Contractions and windows
//===----------------------------------------------------------------------===//

KERF_INTERVAL(MatmulOp) {
  ArrayRef<int64_t> lhs = typeOf(getLhs()).getShape();
  return sumOf(x[0] * x[1], lhs[lhs.size() - (getTransposeLhs() ? 2 : 1)]);
}

KERF_INTERVAL(ConvOp) {
  return sumOf(orZero(x[0] * x[1]),
               product(typeOf(getWeights()).getShape().drop_front()));
}
KERF_INTERVAL(ConvInputGradientOp) {
  return sumOf(orZero(x[0] * x[1]), typeOf(getWeights()).getNumElements());
}
KERF_INTERVAL(ConvWeightGradientOp) {
  return sumOf(orZero(x[0] * x[1]), typeOf(getDy()).getNumElements());
}

/// The maximum over a window that lies wholly in the padding is -infinity.
KERF_INTERVAL(MaxPoolOp) {
  auto isZero = [](int64_t size) { return size == 0; };
  bool isPadded =
      !llvm::all_of(getLow(), isZero) || !llvm::all_of(getHigh(), isZero);
  return isPadded ? join(x[0], Interval::of(-Interval::kInfinity)) : x[0];
}
KERF_INTERVAL(AvgPoolOp) { return orZero(x[0]); }
KERF_INTERVAL(MaxPoolGradientOp) {
  return sumOf(orZero(x[1]), product(getKernel()));
}
KERF_INTERVAL(AvgPoolGradientOp) {
  return sumOf(orZero(x[0]), product(getKernel()));
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

KERF_INTERVAL(ReduceOp) {
  int64_t count = 1;
  for (int64_t dim : getDims())
    count *= typeOf(getX()).getDimSize(dim);
  switch (getKind()) {
  case ReduceKind::Sum:
    return sumOf(x[0], count);
  case ReduceKind::Prod:
    return productOf(x[0], count);
  case ReduceKind::Max:
  case ReduceKind::Min:
    return count == 0 ? Interval::all() : x[0];
  }
  llvm_unreachable("bad ReduceKind");
}

KERF_INTERVAL(ArgReduceOp) {
  return {0, double(typeOf(getX()).getDimSize(getDim()))};
}

KERF_INTERVAL(TopKOp) { return {0, double(typeOf(getX()).getShape().back())}; }

// NaN where all scores are -infinity or one is infinity.
KERF_INTERVAL(SoftmaxOp) { return {0, 1}; }
KERF_INTERVAL(LogSoftmaxOp) {
  auto size = double(typeOf(getX()).getDimSize(getDim()));
  return {std::min((x[0] - x[0]).low - std::log(size), 0.0), 0};
}

/// scale * h + bias, where a row of n numbers divided by its root mean square
/// (or a larger number) has no element beyond sqrt(n). Infinities give NaN.
Interval nn::normalized(Value x, int64_t dim, double epsilon, Interval scale,
                        Interval bias) {
  if (epsilon < 0)
    return Interval::all();
  auto size = double(product(typeOf(x).getShape().drop_front(dim)));
  return Interval::within(2 * std::sqrt(size)) * scale + bias;
}

KERF_INTERVAL(BatchNormOp) {
  Interval variance = x[4] + Interval::of(getEpsilon().convertToDouble());
  return (x[0] - x[3]) * reciprocal(squareRoot(variance)) * x[1] + x[2];
}

/// Without a bias that is above 0 the sum of squares may be 0.
KERF_INTERVAL(LRNOp) {
  double bias = getBias().convertToDouble();
  if (bias <= 0 || getAlpha().convertToDouble() < 0)
    return Interval::all();
  Interval divisor = power({bias, Interval::kInfinity},
                           Interval::of(getBeta().convertToDouble()));
  return x[0] * reciprocal(divisor);
}

/// Means of rows of v.
KERF_INTERVAL(AttentionOp) { return result == 0 ? x[2] : Interval::all(); }
KERF_INTERVAL(AttentionGradientOp) { return Interval::all(); }
