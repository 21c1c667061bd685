//===- Evaluate.cpp - nn ops on constants ---------------------------------===//
//
// Elementwise ops have their meaning beside their definition (Elements.h); ops
// that move elements are one strided copy; the few others have a function each.
//
//===----------------------------------------------------------------------===//
#include "kerf/NN/IR/Evaluate.h"
#include "HostTensor.h"
#include "Repeats.h"

#include "PatternUtils.h"
#include "kerf/NN/IR/Elements.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

namespace {

using Float = double;
using Int = int64_t;

SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t dim = int64_t(shape.size()) - 2; dim >= 0; --dim)
    strides[dim] = strides[dim + 1] * shape[dim + 1];
  return strides;
}

/// Calls `visit(linear offset of each operand)` for every index of `shape`, in
/// row-major order; operand k advances by strides[k][d] along dimension d.
template <typename Visit>
void forEachIndex(ArrayRef<int64_t> shape,
                  ArrayRef<SmallVector<int64_t>> strides,
                  MutableArrayRef<int64_t> offsets, Visit visit) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    visit(offsets);
    for (int64_t dim = int64_t(shape.size()) - 1; dim >= 0; --dim) {
      bool wraps = ++index[dim] == shape[dim];
      for (size_t k = 0; k < strides.size(); ++k)
        offsets[k] +=
            wraps ? strides[k][dim] * (1 - shape[dim]) : strides[k][dim];
      if (!wraps)
        break;
      index[dim] = 0;
    }
  }
}

/// Strides that read `from` broadcast (right-aligned) to rank `rank`.
SmallVector<int64_t> broadcastStrides(const HostTensor &from, size_t rank) {
  ArrayRef<int64_t> shape = from.type.getShape();
  SmallVector<int64_t> own = rowMajorStrides(shape), strides(rank, 0);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 && !from.splat)
      strides[rank - shape.size() + d] = own[d];
  return strides;
}

template <typename T> std::vector<T> &numbers(HostTensor &tensor) {
  if constexpr (std::is_same_v<T, Float>)
    return tensor.floats;
  else
    return tensor.integers;
}
template <typename T> const std::vector<T> &numbers(const HostTensor &tensor) {
  return numbers<T>(const_cast<HostTensor &>(tensor));
}

/// result[i] = f(the operands' elements there), broadcast; conditions are
/// integers.
template <typename In, typename F>
bool elementwise(ArrayRef<HostTensor> operands, HostTensor &result, F f) {
  bool splat =
      llvm::all_of(operands, [](const HostTensor &t) { return t.splat; }) &&
      result.type.getNumElements() > 0;
  SmallVector<int64_t> shape(result.type.getShape());
  if (splat)
    shape.assign(shape.size(), 1);
  else if (result.type.getNumElements() > kMaxEvaluatedElements)
    return false;
  result.splat = splat;
  SmallVector<SmallVector<int64_t>, 3> strides;
  SmallVector<const In *, 3> from;
  for (const HostTensor &operand : operands) {
    strides.push_back(broadcastStrides(operand, shape.size()));
    from.push_back(numbers<In>(operand).data());
  }
  SmallVector<int64_t, 3> offsets(operands.size(), 0);
  SmallVector<In, 3> x(operands.size());
  using Result = decltype(f(ArrayRef<In>()));
  using Out = std::conditional_t<std::is_same_v<Result, Float>, Float, Int>;
  std::vector<Out> &out = numbers<Out>(result);
  forEachIndex(shape, strides, offsets, [&](ArrayRef<int64_t> at) {
    for (size_t k = 0; k < x.size(); ++k)
      x[k] = from[k][at[k]];
    out.push_back(Out(f(ArrayRef<In>(x))));
  });
  return true;
}

struct Evaluator {
  Operation *op;
  SmallVector<HostTensor, 4> in;
  HostTensor result;

  bool run();

private:
  bool floats();
  bool integers();
  bool convert();
  bool select();
  bool strided(ArrayRef<int64_t> strides, int64_t base);
  bool iota(int64_t dim);
  bool concat(int64_t dim);
  bool pad(PadOp pad);
  bool gather(int64_t dim, bool batched);
  bool scatter(ScatterOp scatter);
  template <typename T> bool scatter(ScatterOp scatter, std::vector<T> &to);
  bool reduce(ReduceOp reduce);
  template <typename T> void copyAll(ArrayRef<int64_t> strides, int64_t base);
};

bool Evaluator::floats() {
  HostFloats on;
  return visitOps(op, [&](auto typed) {
    if constexpr (isOnFloats<decltype(typed)>())
      return elementwise<Float>(
          in, result, [&](ArrayRef<Float> x) { return typed.onFloats(on, x); });
    return false;
  });
}

bool Evaluator::integers() {
  HostIntegers on{in[0].type.getElementType().isUnsignedInteger(64)};
  if (dividesIntegers(op) && llvm::is_contained(in[1].integers, 0))
    return false;
  return visitOps(op, [&](auto typed) {
    if constexpr (isOnIntegers<decltype(typed)>())
      return elementwise<Int>(
          in, result, [&](ArrayRef<Int> x) { return typed.onIntegers(on, x); });
    return false;
  });
}

bool Evaluator::convert() {
  Type to = result.type.getElementType();
  auto fromFloats = [&](auto f) {
    return elementwise<Float>(in, result,
                              [&](ArrayRef<Float> x) { return f(x[0]); });
  };
  auto fromIntegers = [&](auto f) {
    return elementwise<Int>(in, result,
                            [&](ArrayRef<Int> x) { return f(x[0]); });
  };
  if (to.isInteger(1))
    return in[0].isFloat() ? fromFloats([](Float a) { return a != 0; })
                           : fromIntegers([](Int a) { return a != 0; });
  bool fromUnsigned = in[0].type.getElementType().isUnsignedInteger(64);
  if (result.isFloat())
    return in[0].isFloat()
               ? fromFloats([](Float a) { return a; })
               : fromIntegers([&](Int a) {
                   return fromUnsigned ? Float(uint64_t(a)) : Float(a);
                 });
  if (!in[0].isFloat())
    return fromIntegers([](Int a) { return a; });
  // Out of range has no meaning in ONNX; saturate at 64 bits.
  return fromFloats([](Float a) -> Int {
    if (std::isnan(a))
      return 0;
    if (a >= 9.2233720368547758e18)
      return std::numeric_limits<Int>::max();
    if (a <= -9.2233720368547758e18)
      return std::numeric_limits<Int>::min();
    return Int(a);
  });
}

bool Evaluator::select() {
  bool splat = llvm::all_of(in, [](const HostTensor &t) { return t.splat; }) &&
               result.type.getNumElements() > 0;
  if (!splat && result.type.getNumElements() > kMaxEvaluatedElements)
    return false;
  result.splat = splat;
  SmallVector<int64_t> shape(result.type.getShape());
  if (splat)
    shape.assign(shape.size(), 1);
  SmallVector<SmallVector<int64_t>, 3> strides;
  for (const HostTensor &operand : in)
    strides.push_back(broadcastStrides(operand, shape.size()));
  SmallVector<int64_t, 3> offsets(3, 0);
  forEachIndex(shape, strides, offsets, [&](ArrayRef<int64_t> at) {
    int which = in[0].integers[at[0]] ? 1 : 2;
    if (result.isFloat())
      result.floats.push_back(in[which].floats[at[which]]);
    else
      result.integers.push_back(in[which].integers[at[which]]);
  });
  return true;
}

template <typename T>
void Evaluator::copyAll(ArrayRef<int64_t> strides, int64_t base) {
  SmallVector<int64_t, 1> offsets{base};
  SmallVector<SmallVector<int64_t>, 1> all{SmallVector<int64_t>(strides)};
  const std::vector<T> &from = numbers<T>(in[0]);
  std::vector<T> &to = numbers<T>(result);
  to.reserve(result.type.getNumElements());
  forEachIndex(result.type.getShape(), all, offsets,
               [&](ArrayRef<int64_t> at) { to.push_back(from[at[0]]); });
}

/// result[i] = x[base + sum strides[d] i_d]
bool Evaluator::strided(ArrayRef<int64_t> strides, int64_t base) {
  if (in[0].splat && result.type.getNumElements() > 0) {
    HostTensor copy = in[0];
    copy.type = result.type;
    result = std::move(copy);
    return true;
  }
  if (result.type.getNumElements() > kMaxEvaluatedElements)
    return false;
  if (result.isFloat())
    copyAll<Float>(strides, base);
  else
    copyAll<Int>(strides, base);
  return true;
}

bool Evaluator::iota(int64_t dim) {
  ArrayRef<int64_t> shape = result.type.getShape();
  if (result.isFloat() || result.type.getNumElements() > (1 << 16))
    return false;
  int64_t stride = rowMajorStrides(shape)[dim];
  for (int64_t i = 0; i < result.type.getNumElements(); ++i)
    result.integers.push_back(i / stride % shape[dim]);
  return true;
}

/// The element of a tensor that may be a splat.
template <typename T> static T element(const HostTensor &tensor, int64_t at) {
  return numbers<T>(tensor)[tensor.splat ? 0 : at];
}

bool Evaluator::concat(int64_t dim) {
  int64_t count = result.type.getNumElements();
  if (count > kMaxEvaluatedElements)
    return false;
  ArrayRef<int64_t> shape = result.type.getShape();
  int64_t inner = rowMajorStrides(shape)[dim];
  int64_t outer = shape[dim] ? count / (inner * shape[dim]) : 0;
  for (int64_t o = 0; o < outer; ++o)
    for (const HostTensor &part : in) {
      int64_t run = part.type.getDimSize(dim) * inner;
      for (int64_t i = 0; i < run; ++i)
        if (result.isFloat())
          result.floats.push_back(element<Float>(part, o * run + i));
        else
          result.integers.push_back(element<Int>(part, o * run + i));
    }
  return true;
}

bool Evaluator::pad(PadOp pad) {
  int64_t count = result.type.getNumElements();
  if (count > kMaxEvaluatedElements)
    return false;
  SmallVector<int64_t> strides = rowMajorStrides(result.type.getShape());
  int64_t base = 0;
  for (auto [stride, low] : llvm::zip(strides, pad.getLow()))
    base += stride * low;
  if (result.isFloat())
    result.floats.assign(count,
                         cast<FloatAttr>(pad.getValue()).getValueAsDouble());
  else
    result.integers.assign(count, cast<IntegerAttr>(pad.getValue()).getInt());
  SmallVector<int64_t, 1> offsets{base};
  SmallVector<SmallVector<int64_t>, 1> all{strides};
  int64_t i = 0;
  forEachIndex(in[0].type.getShape(), all, offsets, [&](ArrayRef<int64_t> at) {
    if (result.isFloat())
      result.floats[at[0]] = element<Float>(in[0], i++);
    else
      result.integers[at[0]] = element<Int>(in[0], i++);
  });
  return true;
}

bool Evaluator::gather(int64_t dim, bool batched) {
  int64_t count = result.type.getNumElements();
  if (count > kMaxEvaluatedElements)
    return false;
  ArrayRef<int64_t> shape = in[0].type.getShape();
  int64_t size = shape[dim], inner = rowMajorStrides(shape)[dim];
  int64_t outer = llvm::product_of(shape.take_front(dim));
  int64_t picks = in[1].type.getNumElements();
  if (batched && outer)
    picks /= outer;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t p = 0; p < picks; ++p) {
      int64_t index = element<Int>(in[1], batched ? o * picks + p : p);
      index += index < 0 ? size : 0;
      if (index < 0 || index >= size)
        return false;
      for (int64_t i = 0; i < inner; ++i) {
        int64_t at = (o * size + index) * inner + i;
        if (result.isFloat())
          result.floats.push_back(element<Float>(in[0], at));
        else
          result.integers.push_back(element<Int>(in[0], at));
      }
    }
  return true;
}

template <typename T>
bool Evaluator::scatter(ScatterOp scatter, std::vector<T> &elements) {
  const std::conditional_t<std::is_same_v<T, Float>, HostFloats, HostIntegers>
      numbers{};
  auto dim = static_cast<int64_t>(scatter.getDim());
  ArrayRef<int64_t> shape = result.type.getShape();
  int64_t size = shape[dim],
          inner = llvm::product_of(shape.drop_front(dim + 1));
  int64_t outer = llvm::product_of(shape.take_front(dim));
  int64_t count = outer ? in[1].type.getNumElements() / outer : 0;
  for (int64_t i = 0; i < result.type.getNumElements(); ++i)
    elements.push_back(element<T>(in[0], i));
  for (int64_t at = 0; at < outer * count; ++at) {
    int64_t row = element<Int>(in[1], at);
    row += row < 0 ? size : 0;
    if (row < 0 || row >= size)
      continue;
    for (int64_t c = 0; c < inner; ++c) {
      T &to = elements[(at / count * size + row) * inner + c];
      T update = element<T>(in[2], at * inner + c);
      switch (scatter.getKind()) {
      case ScatterKind::Set:
        to = update;
        break;
      case ScatterKind::Add:
        to = numbers.add(to, update);
        break;
      case ScatterKind::Mul:
        to = numbers.mul(to, update);
        break;
      case ScatterKind::Min:
        to = numbers.min(to, update);
        break;
      case ScatterKind::Max:
        to = numbers.max(to, update);
        break;
      }
    }
  }
  return true;
}

bool Evaluator::scatter(ScatterOp op) {
  if (result.type.getNumElements() > kMaxEvaluatedElements ||
      in[2].type.getNumElements() > kMaxEvaluatedElements)
    return false;
  return result.isFloat() ? scatter(op, result.floats)
                          : scatter(op, result.integers);
}

bool Evaluator::reduce(ReduceOp reduce) {
  const HostFloats floats;
  const HostIntegers integers;
  if (in[0].type.getNumElements() > kMaxEvaluatedElements)
    return false;
  // Strides of the result along the dimensions of the operand.
  SmallVector<int64_t> own = rowMajorStrides(result.type.getShape()), strides;
  size_t next = 0;
  for (int64_t d = 0; d < in[0].type.getRank(); ++d)
    strides.push_back(llvm::is_contained(reduce.getDims(), d) ? 0
                                                              : own[next++]);
  int64_t count = result.type.getNumElements();
  ReduceKind kind = reduce.getKind();
  Float inf = std::numeric_limits<Float>::infinity();
  bool sum = kind == ReduceKind::Sum, prod = kind == ReduceKind::Prod;
  bool max = kind == ReduceKind::Max;
  if (in[0].type.getNumElements() == 0 && !result.isFloat() && !sum && !prod)
    return false;
  if (result.isFloat())
    result.floats.assign(count, sum ? 0.0 : prod ? 1.0 : max ? -inf : inf);
  else
    result.integers.assign(count, sum    ? 0
                                  : prod ? 1
                                  : max  ? std::numeric_limits<Int>::min()
                                         : std::numeric_limits<Int>::max());
  SmallVector<int64_t, 1> offsets{0};
  SmallVector<SmallVector<int64_t>, 1> all{strides};
  int64_t i = 0;
  forEachIndex(in[0].type.getShape(), all, offsets, [&](ArrayRef<int64_t> at) {
    if (result.isFloat()) {
      Float &to = result.floats[at[0]];
      Float x = element<Float>(in[0], i++);
      to = sum    ? to + x
           : prod ? to * x
           : max  ? floats.max(to, x)
                  : floats.min(to, x);
    } else {
      Int &to = result.integers[at[0]];
      Int x = element<Int>(in[0], i++);
      to = sum    ? integers.add(to, x)
           : prod ? integers.mul(to, x)
           : max  ? std::max(to, x)
                  : std::min(to, x);
    }
  });
  return true;
}

bool Evaluator::run() {
  auto strideView = [&](auto view) { return strided(view, 0); };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<CastOp>([&](auto) { return convert(); })
      .Case<SelectOp>([&](auto) { return select(); })
      .Case<ReshapeOp>([&](auto) {
        return strideView(rowMajorStrides(result.type.getShape()));
      })
      .Case<BroadcastOp>([&](auto) {
        return strideView(broadcastStrides(in[0], result.type.getRank()));
      })
      .Case<TransposeOp>([&](TransposeOp transpose) {
        SmallVector<int64_t> own = rowMajorStrides(in[0].type.getShape());
        SmallVector<int64_t> strides;
        for (int64_t dim : transpose.getPerm())
          strides.push_back(own[dim]);
        return strided(strides, 0);
      })
      .Case<SliceOp>([&](SliceOp slice) {
        SmallVector<int64_t> strides = rowMajorStrides(in[0].type.getShape());
        int64_t base = 0;
        for (size_t d = 0; d < strides.size(); ++d) {
          if (in[0].type.getDimSize(d) != 1) // else it may repeat
            base += strides[d] * slice.getStarts()[d];
          strides[d] *= slice.getStrides()[d];
        }
        return strided(strides, base);
      })
      .Case<IotaOp>([&](IotaOp iotaOp) { return iota(iotaOp.getDim()); })
      .Case<ConcatOp>(
          [&](ConcatOp concatOp) { return concat(concatOp.getDim()); })
      .Case<PadOp>([&](PadOp padOp) { return pad(padOp); })
      .Case<GatherOp>([&](GatherOp gatherOp) {
        return !gatherOp.getPartial() &&
               gather(gatherOp.getDim(), gatherOp.getBatched());
      })
      .Case<ScatterOp>([&](ScatterOp scatterOp) {
        return !scatterOp.getPartial() && scatter(scatterOp);
      })
      .Case<ReduceOp>([&](ReduceOp reduceOp) { return reduce(reduceOp); })
      .Default([&](Operation *) {
        return !in.empty() && (in[0].isFloat() ? floats() : integers());
      });
}

} // namespace

/// What `value` is known to be, stored once where it repeats; null if it is not
/// known.
static DenseElementsAttr knownCore(Value value) {
  if (auto iota = value.getDefiningOp<IotaOp>())
    return evaluate(iota);
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  auto constant =
      (broadcast ? broadcast.getX() : value).getDefiningOp<ConstantOp>();
  if (!constant || constant.getName())
    return {};
  auto type = cast<RankedTensorType>(value.getType());
  DenseElementsAttr core = constant.getElements();
  if (core.isSplat() || type.getNumElements() == 0)
    return broadcast ? DenseElementsAttr() : core;
  SmallVector<int64_t> shape(type.getRank(), 1);
  llvm::copy(cast<RankedTensorType>(core.getType()).getShape(),
             shape.end() - constant.getType().getRank());
  return shrink(core.reshape(type.clone(shape)));
}

/// The result, whole if it is small, else stored once where it repeats.
static DenseElementsAttr elementsOf(HostTensor result, RankedTensorType type,
                                    int64_t small) {
  if (!result.splat && type.getNumElements() <= small)
    if (auto whole = repeat(result, type.getShape()))
      result = std::move(*whole);
  DenseElementsAttr elements = encode(result);
  return elements.isSplat() ? elements.resizeSplat(type) : elements;
}

static DenseElementsAttr evaluateCores(Operation *op, RankedTensorType type,
                                       int64_t small) {
  Evaluator evaluator{op, {}, {}};
  for (Value operand : op->getOperands()) {
    DenseElementsAttr core = knownCore(operand);
    if (!core)
      return {};
    HostTensor &tensor = evaluator.in.emplace_back(decode(core));
    if (tensor.splat && tensor.type.getNumElements() > 0)
      tensor.type =
          tensor.type.clone(SmallVector<int64_t>(tensor.type.getRank(), 1));
  }
  auto shape = coreOfResult(op, evaluator.in);
  if (!shape)
    return {};
  evaluator.result.type = type.clone(*shape);
  if (!evaluator.run())
    return {};
  return elementsOf(std::move(evaluator.result), type, small);
}

DenseElementsAttr kerf::nn::evaluate(Operation *op, int64_t small) {
  if (op->getNumResults() != 1 || op->getNumOperands() > 4096)
    return {};
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || (op->getNumOperands() == 0 && !isa<IotaOp>(op)))
    return {};
  if (op->getDialect() != op->getContext()->getLoadedDialect<NNDialect>())
    return {};
  auto isLarge = [&](Value value) {
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    return tensor && tensor.getNumElements() > small;
  };
  bool large =
      isLarge(op->getResult(0)) || llvm::any_of(op->getOperands(), isLarge);
  auto isKnown = [&](Value value) {
    if (large && value.getDefiningOp<IotaOp>())
      return true;
    auto broadcast = value.getDefiningOp<BroadcastOp>();
    auto constant = (broadcast && large ? broadcast.getX() : value)
                        .getDefiningOp<ConstantOp>();
    return constant && !constant.getName();
  };
  if (!llvm::all_of(op->getOperands(), isKnown))
    return {};
  if (isa<BitcastOp>(op)) {
    auto constant = op->getOperand(0).getDefiningOp<ConstantOp>();
    return constant ? constant.getElements().bitcast(type.getElementType())
                    : DenseElementsAttr();
  }
  if (large) {
    // What is broadcast stays so, but for one number.
    auto broadcast = dyn_cast<BroadcastOp>(op);
    if (broadcast && !splatOf(broadcast.getX()))
      return {};
    return evaluateCores(op, type, small);
  }
  Evaluator evaluator{op, {}, {}};
  for (Value operand : op->getOperands())
    evaluator.in.push_back(
        decode(operand.getDefiningOp<ConstantOp>().getElements()));
  evaluator.result.type = type;
  if (!evaluator.run())
    return {};
  return encode(evaluator.result);
}

Value kerf::nn::makeConstant(OpBuilder &builder, Location loc,
                             RankedTensorType type,
                             DenseElementsAttr elements) {
  Value constant =
      ConstantOp::create(builder, loc, cast<ElementsAttr>(elements));
  if (constant.getType() == type)
    return constant;
  return BroadcastOp::create(builder, loc, type, constant);
}

DenseElementsAttr kerf::nn::wholeElements(Value value) {
  if (auto constant = value.getDefiningOp<ConstantOp>())
    return constant.getElements();
  DenseElementsAttr core = knownCore(value);
  if (!core)
    return {};
  auto type = cast<RankedTensorType>(value.getType());
  auto whole = repeat(decode(core), type.getShape());
  return whole ? encode(*whole) : DenseElementsAttr();
}
