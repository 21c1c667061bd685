//===- Lengths.cpp - numbers of elements that are computed ----------------===//
//
// What handlers and ops on bounded dimensions (BoundedOps.cpp) do with lengths,
// and how a list of sizes is taken apart into them.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Node.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

Value GraphBuilder::within(Value x, int64_t dim, Value length) {
  if (!x || !length)
    return {};
  Integers shape(rankOf(x) - dim, 1);
  shape[0] = shapeOf(x)[dim];
  Value place = iota(shape[0], ops.getI64Type());
  return reshape(make<LessOp>({place, length}), shape);
}

Value GraphBuilder::filled(Value x, int64_t dim, Value length, Attribute fill) {
  Value inside = within(x, dim, length);
  if (!inside)
    return {};
  auto type = RankedTensorType::get({}, elementOf(x));
  Value number = constant(DenseElementsAttr::get(type, fill));
  Value result = select(inside, x, number);
  for (const Bound &bound : SmallVector<Bound>(bounds.of(x)))
    if (result)
      bounds.set(result, bound.dim, bound.length);
  return result;
}

Value GraphBuilder::filled(Value x, double fill) {
  if (!x)
    return {};
  for (const Bound &bound : SmallVector<Bound>(bounds.of(x)))
    x = filled(x, bound.dim, bound.length, number(fill, elementOf(x)));
  return x;
}

Value GraphBuilder::whole(Value x) {
  if (!x || !bounds.has(x))
    return x;
  auto rank = size_t(rankOf(x));
  Value all = make<SliceOp>({x}, {i64s("starts", Integers(rank, 0)),
                                  i64s("sizes", shapeOf(x)),
                                  i64s("strides", Integers(rank, 1))});
  if (all)
    bounds.forget(all);
  return all;
}

Value GraphBuilder::sizeOf(Value x, int64_t dim) {
  if (Value length = bounds.lengthOf(x, dim))
    return length;
  return scalar(double(shapeOf(x)[dim]), ops.getI64Type());
}

Value GraphBuilder::times(Value length, int64_t factor) {
  if (!length || factor == 1)
    return length;
  return mul(length, double(factor));
}

Value GraphBuilder::dividedBy(Value length, int64_t divisor) {
  if (!length || divisor == 1)
    return length;
  if (auto product = length.getDefiningOp<MulOp>())
    if (auto known = scalarElement(product.getRhs()))
      if (int64_t(*known) % divisor == 0)
        return times(product.getLhs(), int64_t(*known) / divisor);
  return div(length, scalar(double(divisor), ops.getI64Type()));
}

std::optional<SmallVector<Value>> GraphBuilder::numbersOf(Value x) {
  Type i64 = ops.getI64Type();
  auto scalarOf = [&](int64_t value) {
    auto type = RankedTensorType::get({}, i64);
    return constant(DenseElementsAttr::get(type, value));
  };
  if (auto known = integerElements(x))
    return llvm::map_to_vector(*known, scalarOf);
  constexpr int64_t kMost = 64;
  int64_t count = typeOf(x).getNumElements();
  Operation *op = x.getDefiningOp();
  if (rankOf(x) > 1 || count > kMost || !isa<IntegerType>(elementOf(x)))
    return std::nullopt;
  using Numbers = std::optional<SmallVector<Value>>;
  auto apart = [&]() -> Numbers {
    SmallVector<Value> result;
    Value wide = cast(x, i64);
    for (int64_t i = 0; i < count; ++i)
      result.push_back(
          reshape(rankOf(x) == 0 ? wide : slice(wide, 0, i, 1), {}));
    if (llvm::is_contained(result, Value()))
      return std::nullopt;
    return result;
  };
  if (!op || count == 0)
    return apart();
  return llvm::TypeSwitch<Operation *, Numbers>(op)
      .Case<ReshapeOp>([&](ReshapeOp each) { return numbersOf(each.getX()); })
      .Case<CastOp>([&](CastOp each) -> Numbers {
        if (!isa<IntegerType>(elementOf(each.getX())) ||
            elementOf(each.getX()).isInteger(1))
          return apart();
        return numbersOf(each.getX());
      })
      .Case<BroadcastOp>([&](BroadcastOp each) -> Numbers {
        auto inner = numbersOf(each.getX());
        if (inner && inner->size() == 1)
          inner->resize(count, inner->front());
        return inner && int64_t(inner->size()) == count ? inner : apart();
      })
      .Case<ConcatOp>([&](ConcatOp each) -> Numbers {
        SmallVector<Value> result;
        for (Value part : each.getInputs()) {
          auto inner = numbersOf(part);
          if (!inner)
            return std::nullopt;
          llvm::append_range(result, *inner);
        }
        return result;
      })
      .Case<SliceOp>([&](SliceOp each) -> Numbers {
        auto inner = numbersOf(each.getX());
        if (!inner)
          return std::nullopt;
        SmallVector<Value> result;
        for (int64_t i = 0; i < count; ++i)
          result.push_back(
              (*inner)[each.getStarts()[0] + i * each.getStrides()[0]]);
        return result;
      })
      .Case<GatherOp>([&](GatherOp each) -> Numbers {
        auto places = integerElements(each.getIndices());
        auto inner = places && rankOf(each.getData()) == 1
                         ? numbersOf(each.getData())
                         : std::nullopt;
        if (!inner)
          return apart();
        SmallVector<Value> result;
        auto size = int64_t(inner->size());
        for (int64_t place : *places) {
          if (place < -size || place >= size)
            return std::nullopt;
          result.push_back((*inner)[place < 0 ? place + size : place]);
        }
        return result;
      })
      .Case<AddOp, SubOp, MulOp, MinOp, MaxOp>([&](auto each) -> Numbers {
        auto lhs = numbersOf(each.getLhs()), rhs = numbersOf(each.getRhs());
        if (!lhs || !rhs)
          return std::nullopt;
        SmallVector<Value> result;
        for (int64_t i = 0; i < count; ++i) {
          Value l = (*lhs)[lhs->size() == 1 ? 0 : i],
                r = (*rhs)[rhs->size() == 1 ? 0 : i];
          result.push_back(make<decltype(each)>({l, r}));
          if (!result.back())
            return std::nullopt;
        }
        return result;
      })
      .Case<SelectOp>([&](SelectOp each) -> Numbers {
        // As exporters write Expand: where(shape == -1, 1, shape).
        auto equal = each.getCondition().getDefiningOp<EqualOp>();
        auto lhs = equal ? numbersOf(equal.getLhs()) : std::nullopt,
             rhs = equal ? numbersOf(equal.getRhs()) : std::nullopt,
             then = numbersOf(each.getOnTrue()),
             otherwise = numbersOf(each.getOnFalse());
        if (!lhs || !rhs || !then || !otherwise)
          return apart();
        auto at = [](SmallVector<Value> &list, int64_t i) {
          return list[list.size() == 1 ? 0 : i];
        };
        SmallVector<Value> result;
        for (int64_t i = 0; i < count; ++i) {
          Value l = at(*lhs, i), r = at(*rhs, i);
          auto left = scalarElement(l), right = scalarElement(r);
          bool differs = (left && *left < 0 && bounds.most(r)) ||
                         (right && *right < 0 && bounds.most(l));
          if (left && right)
            result.push_back(*left == *right ? at(*then, i)
                                             : at(*otherwise, i));
          else if (differs)
            result.push_back(at(*otherwise, i));
          else
            return apart();
        }
        return result;
      })
      .Default([&](Operation *) { return apart(); });
}
