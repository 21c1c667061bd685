//===- GraphBuilder.cpp - builds nn ops from checked parts ----------------===//
//
// Every op is built in the same way: its type is inferred, it is verified, and
// it is folded if its operands are constants. The other functions are
// shorthands for handlers.
//
//===----------------------------------------------------------------------===//
#include "Node.h"

#include "kerf/NN/IR/Evaluate.h"
#include "kerf/Support/DescribeType.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/APSInt.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using IntegerList = ArrayRef<int64_t>;

NamedAttribute GraphBuilder::i64(StringRef name, int64_t value) {
  return ops.getNamedAttr(name, ops.getI64IntegerAttr(value));
}
NamedAttribute GraphBuilder::i64s(StringRef name, IntegerList values) {
  return ops.getNamedAttr(name, ops.getDenseI64ArrayAttr(values));
}
NamedAttribute GraphBuilder::f64(StringRef name, double value) {
  return ops.getNamedAttr(name, ops.getF64FloatAttr(value));
}
NamedAttribute GraphBuilder::unit(StringRef name) {
  return ops.getNamedAttr(name, ops.getUnitAttr());
}

bool GraphBuilder::tooLarge(Type type) {
  auto tensor = llvm::cast<RankedTensorType>(type);
  if (tensorBytes(tensor.getShape(), tensor.getElementType()))
    return false;
  emitError(loc) << "result " << describeType(type)
                 << " is larger than 2^47 bytes";
  return true;
}

Value GraphBuilder::finish(OperationState &state) {
  for (Type type : state.types)
    if (tooLarge(type))
      return {};
  Operation *op = ops.create(state);
  if (failed(verify(op, /*verifyRecursively=*/false))) {
    op->erase();
    return {};
  }
  if (llvm::any_of(op->getOperands(),
                   [&](Value operand) { return bounds.has(operand); }))
    return passBounds(op);
  if (DenseElementsAttr folded = evaluate(op)) {
    auto type = llvm::cast<RankedTensorType>(op->getResult(0).getType());
    op->erase();
    return makeConstant(ops, loc, type, folded);
  }
  return op->getResult(0);
}

Value GraphBuilder::makeTyped(StringRef op, RankedTensorType type,
                              ValueRange operands,
                              ArrayRef<NamedAttribute> attributes) {
  if (!type || llvm::is_contained(operands, Value()))
    return {};
  OperationState state(loc, op);
  state.addOperands(operands);
  state.addTypes(type);
  state.addAttributes(attributes);
  return finish(state);
}

Value GraphBuilder::constant(DenseElementsAttr elements) {
  return ConstantOp::create(ops, loc, elements).getResult();
}
Value GraphBuilder::integers(IntegerList values) {
  auto type = RankedTensorType::get({int64_t(values.size())}, ops.getI64Type());
  return constant(DenseElementsAttr::get(type, values));
}
Value GraphBuilder::scalar(double value, Type element) {
  return splat({}, value, element);
}
APInt kerf::onnx_import::integerOf(double value, unsigned width) {
  llvm::APSInt number(64, /*isUnsigned=*/false);
  bool exact = false;
  // Rounds towards zero; infinities and numbers out of range become the nearest
  // integer, NaN becomes 0.
  (void)APFloat(value).convertToInteger(number, APFloat::rmTowardZero, &exact);
  return number.trunc(width);
}
Attribute GraphBuilder::number(double value, Type element) {
  if (isa<Float8E8M0FNUType>(element)) // has no 0, nor a sign
    return FloatAttr::get(element,
                          APFloat(APFloat::Float8E8M0FNU(), APInt::getZero(8)));
  if (isa<Float4E2M1FNType>(element)) // has neither infinity nor NaN
    value = std::isnan(value) ? 0 : std::clamp(value, -6.0, 6.0);
  if (auto floatType = dyn_cast<FloatType>(element))
    return FloatAttr::get(floatType, value);
  return IntegerAttr::get(element,
                          integerOf(value, element.getIntOrFloatBitWidth()));
}
Value GraphBuilder::splat(IntegerList shape, double value, Type element) {
  auto type = RankedTensorType::get(shape, element);
  if (tooLarge(type))
    return {};
  return constant(DenseElementsAttr::get(type, number(value, element)));
}
Value GraphBuilder::iota(int64_t size, Type element) {
  auto type = RankedTensorType::get({size}, ops.getI64Type());
  return cast(makeTyped(IotaOp::getOperationName(), type, {}, {i64("dim", 0)}),
              element);
}

Value GraphBuilder::reshape(Value x, IntegerList shape) {
  if (!x || shapeOf(x) == shape)
    return x;
  return makeTyped(ReshapeOp::getOperationName(), typeOf(x).clone(shape), {x});
}
Value GraphBuilder::broadcast(Value x, IntegerList shape) {
  if (!x || shapeOf(x) == shape)
    return x;
  return makeTyped(BroadcastOp::getOperationName(), typeOf(x).clone(shape),
                   {x});
}
Value GraphBuilder::transpose(Value x, IntegerList perm) {
  if (!x || llvm::is_sorted(perm))
    return x;
  return make<TransposeOp>({x}, {i64s("perm", perm)});
}
Value GraphBuilder::slice(Value x, int64_t dim, int64_t start, int64_t size,
                          int64_t stride) {
  if (!x)
    return {};
  SmallVector<int64_t> starts(rankOf(x), 0), sizes(shapeOf(x)),
      strides(rankOf(x), 1);
  starts[dim] = start;
  sizes[dim] = size;
  strides[dim] = stride;
  if (start == 0 && stride == 1 && size == shapeOf(x)[dim])
    return x;
  return make<SliceOp>({x}, {i64s("starts", starts), i64s("sizes", sizes),
                             i64s("strides", strides)});
}
Value GraphBuilder::concat(ValueRange inputs, int64_t dim) {
  if (inputs.size() == 1)
    return inputs[0];
  return make<ConcatOp>(inputs, {i64("dim", dim)});
}
Value GraphBuilder::gather(Value data, Value indices, int64_t dim) {
  return make<GatherOp>({data, indices}, {i64("dim", dim)});
}
Value GraphBuilder::cast(Value x, Type element) {
  if (!x || elementOf(x) == element)
    return x;
  return makeTyped(CastOp::getOperationName(), typeOf(x).clone(element), {x});
}
Value GraphBuilder::reduce(Value x, ReduceKind kind, IntegerList dims,
                           bool keepDims) {
  if (!x || dims.empty())
    return x;
  Value result = make<ReduceOp>(
      {x}, {ops.getNamedAttr("kind", ReduceKindAttr::get(context, kind)),
            i64s("dims", dims)});
  if (!result || !keepDims)
    return result;
  SmallVector<int64_t> shape(shapeOf(x));
  for (int64_t dim : dims)
    shape[dim] = 1;
  return reshape(result, shape);
}
Value GraphBuilder::mean(Value x, IntegerList dims, bool keepDims) {
  if (!x)
    return {};
  int64_t count = 1;
  Value length;
  for (int64_t dim : dims)
    if (Value each = bounds.lengthOf(x, dim))
      length = length ? mul(length, each) : each;
    else
      count *= shapeOf(x)[dim];
  if (length) { // 0 / 0 is what the mean of nothing is
    Type wide = elementOf(x).isF64() ? elementOf(x) : ops.getF32Type();
    if (!isa<FloatType>(elementOf(x)))
      wide = elementOf(x);
    Value sum = reduce(cast(x, wide), ReduceKind::Sum, dims, keepDims);
    Value total = times(length, count);
    if (total && !isa<FloatType>(wide))
      total = make<MaxOp>({total, scalar(1, elementOf(total))});
    return cast(div(sum, cast(total, wide)), elementOf(x));
  }
  Value sum = reduce(x, ReduceKind::Sum, dims, keepDims);
  if (count == 1)
    return sum;
  if (sum && !isa<FloatType>(elementOf(x)))
    return div(sum, scalar(double(count), elementOf(x)));
  return mul(sum, 1.0 / double(count));
}
Value GraphBuilder::matmul(Value lhs, Value rhs, bool transposeLhs,
                           bool transposeRhs) {
  SmallVector<NamedAttribute, 2> flags;
  if (transposeLhs)
    flags.push_back(unit("transpose_lhs"));
  if (transposeRhs)
    flags.push_back(unit("transpose_rhs"));
  return make<MatmulOp>({lhs, rhs}, flags);
}
Value GraphBuilder::add(Value a, Value b) { return make<AddOp>({a, b}); }
Value GraphBuilder::sub(Value a, Value b) { return make<SubOp>({a, b}); }
Value GraphBuilder::mul(Value a, Value b) { return make<MulOp>({a, b}); }
Value GraphBuilder::div(Value a, Value b) { return make<DivOp>({a, b}); }
Value GraphBuilder::add(Value a, double b) {
  return a ? add(a, scalar(b, elementOf(a))) : a;
}
Value GraphBuilder::mul(Value a, double b) {
  return a ? mul(a, scalar(b, elementOf(a))) : a;
}
Value GraphBuilder::select(Value condition, Value a, Value b) {
  return make<SelectOp>({condition, a, b});
}

namespace {
/// The numbers of a tensor in row-major order, as far as they are constants:
/// parts of a shape are, of which other parts are computed.
using PartlyKnown = SmallVector<std::optional<APInt>>;
} // namespace

static PartlyKnown partlyKnown(Value x);

/// The numbers of a concatenation: for each index before `dim`, those of all
/// parts one after the other.
static PartlyKnown joined(ConcatOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  auto dim = size_t(op.getDim());
  int64_t outer = computeProduct(shape.take_front(dim)),
          inner = computeProduct(shape.drop_front(dim + 1));
  SmallVector<std::pair<PartlyKnown, int64_t>> parts;
  for (Value part : op.getInputs())
    parts.push_back({partlyKnown(part), shapeOf(part)[dim] * inner});
  PartlyKnown result;
  for (int64_t index = 0; index < outer; ++index)
    for (const auto &[numbers, size] : parts)
      llvm::append_range(result, ArrayRef(numbers).slice(index * size, size));
  return result;
}

static PartlyKnown cutOut(SliceOp op) {
  PartlyKnown all = partlyKnown(op.getX()), result;
  SmallVector<int64_t> from = computeStrides(shapeOf(op.getX())),
                       to = computeStrides(shapeOf(op.getResult()));
  for (int64_t i = 0, n = typeOf(op.getResult()).getNumElements(); i < n; ++i) {
    int64_t place = 0;
    for (auto [dim, index] : llvm::enumerate(delinearize(i, to)))
      place += (op.getStarts()[dim] + index * op.getStrides()[dim]) * from[dim];
    result.push_back(all[place]);
  }
  return result;
}

static PartlyKnown partlyKnown(Value x) {
  int64_t count = typeOf(x).getNumElements();
  PartlyKnown nothing(count, std::nullopt);
  if (DenseElementsAttr known = wholeElements(x);
      known && isa<IntegerType>(known.getElementType())) {
    PartlyKnown result;
    for (const APInt &value : known.getValues<APInt>())
      result.push_back(value);
    return result;
  }
  Operation *op = x.getDefiningOp();
  constexpr int64_t kMost = 1024;
  if (!op || count > kMost)
    return nothing;
  return llvm::TypeSwitch<Operation *, PartlyKnown>(op)
      .Case<ReshapeOp>([&](ReshapeOp each) { return partlyKnown(each.getX()); })
      .Case<CastOp>([&](CastOp each) {
        Type from = elementOf(each.getX());
        if (!from.isSignlessInteger() || from.isInteger(1) ||
            !elementOf(x).isSignlessInteger() || rankOf(each.getX()) > 1)
          return nothing;
        PartlyKnown result = partlyKnown(each.getX());
        for (std::optional<APInt> &number : result)
          if (number)
            number = number->sextOrTrunc(elementOf(x).getIntOrFloatBitWidth());
        return result;
      })
      .Case<ConcatOp>([&](ConcatOp each) { return joined(each); })
      .Case<SliceOp>([&](SliceOp each) { return cutOut(each); })
      .Case<GatherOp>([&](GatherOp each) {
        DenseElementsAttr places = wholeElements(each.getIndices());
        if (!places || rankOf(each.getData()) != 1)
          return nothing;
        PartlyKnown all = partlyKnown(each.getData()), result;
        auto size = int64_t(all.size());
        for (const APInt &value : places.getValues<APInt>()) {
          int64_t place = value.getSExtValue();
          place = place < 0 ? place + size : place;
          if (place < 0 || place >= size)
            return nothing;
          result.push_back(all[place]);
        }
        return result;
      })
      .Default([&](Operation *) { return nothing; });
}

/// A short list of integers all of which are known.
static DenseElementsAttr knownList(Value x) {
  constexpr int64_t kMost = 64;
  if (rankOf(x) > 1 || typeOf(x).getNumElements() > kMost ||
      !elementOf(x).isSignlessInteger())
    return {};
  SmallVector<APInt> numbers;
  for (const std::optional<APInt> &number : partlyKnown(x)) {
    if (!number)
      return {};
    numbers.push_back(*number);
  }
  return numbers.empty() ? DenseElementsAttr()
                         : DenseElementsAttr::get(typeOf(x), numbers);
}

/// The elements of what an op makes of known ones. A list of numbers that an
/// exporter puts together of constants (scales of a Resize) is not evaluated at
/// once where these could be parameters.
DenseElementsAttr GraphBuilder::evaluated(Value x, int64_t depth) {
  constexpr int64_t kMaxElements = 64;
  auto isLong = [](Value value) {
    return typeOf(value).getNumElements() > kMaxElements;
  };
  Operation *op = x.getDefiningOp();
  if (depth == 0 || !op || op->getNumResults() != 1 ||
      op->getNumOperands() == 0 || isLong(x) ||
      llvm::any_of(op->getOperands(), isLong))
    return {};
  SmallVector<DenseElementsAttr> known;
  for (Value operand : op->getOperands())
    if (DenseElementsAttr given = elements(operand, depth - 1))
      known.push_back(given);
    else
      return {};
  SmallVector<Value> constants;
  for (DenseElementsAttr given : known)
    constants.push_back(constant(given));
  Operation *copy = ops.clone(*op);
  copy->setOperands(constants);
  DenseElementsAttr result = evaluate(copy);
  copy->erase();
  for (Value each : constants)
    each.getDefiningOp()->erase();
  return result;
}

DenseElementsAttr GraphBuilder::elements(Value x, int64_t depth) {
  if (!x || bounds.has(x)) // how many there are is not known
    return {};
  if (DenseElementsAttr known = wholeElements(x))
    return known;
  if (DenseElementsAttr known = knownList(x))
    return known;
  if (DenseElementsAttr made = evaluated(x, depth))
    return made;
  auto weight = x.getDefiningOp<WeightOp>();
  constexpr uint64_t kMax = 16 << 20;
  if (!weight || weight.getStarts() || weight.getLength() > kMax ||
      files.isAbsent(int64_t(weight.getFile())))
    return {};
  TensorData data;
  data.type = typeOf(x);
  data.bytes = files.bytes(int64_t(weight.getFile()))
                   .slice(weight.getOffset(), weight.getLength());
  return toElements(data);
}

Value GraphBuilder::asConstant(Value x) {
  DenseElementsAttr attr = elements(x);
  return attr ? constant(attr) : x;
}

Value GraphBuilder::asParameter(Value x, StringRef name) {
  auto constant = x ? x.getDefiningOp<ConstantOp>() : ConstantOp();
  if (!constant || constant.getName() || typeOf(x).getNumElements() <= 1 ||
      !isComputedFloat(elementOf(x)))
    return x;
  constant.setName(name);
  return x;
}

std::optional<SmallVector<int64_t>> GraphBuilder::integerElements(Value x) {
  DenseElementsAttr attr = elements(x);
  constexpr int64_t kMax = 1 << 20;
  if (!attr || !isa<IntegerType>(attr.getElementType()) ||
      attr.getNumElements() > kMax)
    return std::nullopt;
  bool zeroExtend = attr.getElementType().isUnsignedInteger() ||
                    attr.getElementType().isInteger(1);
  SmallVector<int64_t> result;
  for (const APInt &value : attr.getValues<APInt>())
    result.push_back(zeroExtend ? int64_t(value.getZExtValue())
                                : value.getSExtValue());
  return result;
}

std::optional<double> GraphBuilder::scalarElement(Value x) {
  DenseElementsAttr attr = elements(x);
  if (!attr || attr.getNumElements() != 1)
    return std::nullopt;
  if (isa<IntegerType>(attr.getElementType()))
    return double((*integerElements(x))[0]);
  APFloat value = *attr.getValues<APFloat>().begin();
  bool lost;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return value.convertToDouble();
}
