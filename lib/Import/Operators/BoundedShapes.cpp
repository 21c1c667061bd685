//===- BoundedShapes.cpp - shapes that the program computes ---------------===//
//
// See BoundedShapes.h. Numbers that are no lengths, nor follow from them and
// from constants, have no bound and are refused.
//
//===----------------------------------------------------------------------===//
#include "BoundedShapes.h"

#include "../Importer.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// The constant that a number is.
static std::optional<int64_t> constantOf(Node &node, Value number) {
  auto known = node.integerElements(number);
  if (!known || known->size() != 1)
    return std::nullopt;
  return known->front();
}

/// The numbers of an input; reports what is no list.
static std::optional<SmallVector<Value>> numbersAt(Node &node, size_t index) {
  auto numbers = node.numbersOf(node.in(index));
  if (!numbers)
    (void)node.constantIntegers(index);
  return numbers;
}

std::optional<Integers>
kerf::onnx_import::largestShape(Node &node, size_t index,
                                SmallVectorImpl<Value> &lengths) {
  auto numbers = numbersAt(node, index);
  if (!numbers)
    return std::nullopt;
  Integers shape;
  for (Value number : *numbers) {
    auto known = constantOf(node, number);
    auto most = known ? known : node.bounds.most(number);
    if (!most) {
      (void)node.constantIntegers(index); // reports it
      return std::nullopt;
    }
    // A dimension of one element would be broadcast.
    shape.push_back(known ? *known : std::max<int64_t>(*most, 2));
    lengths.push_back(known ? Value() : number);
  }
  return shape;
}

namespace {
/// Dimensions [first, open] of a shape and those behind, into which the
/// elements of one dimension of x and those behind it go.
struct OpenGroup {
  int64_t dim;          ///< of x, whose size is not known
  int64_t first;        ///< of the result
  int64_t open;         ///< of the result
  int64_t before, rows; ///< elements of both in front, of the group's dims
  int64_t behind;       ///< elements of x behind one of `dim`
  int64_t behindOpen;   ///< elements of the result behind one of `open`
};
} // namespace

/// The group of the open dimension, where a dimension of fixed size stands
/// in front of it there, or where the largest size is no multiple.
static std::optional<OpenGroup>
openGroup(Node &node, Value x, ArrayRef<int64_t> shape, int64_t open) {
  ArrayRef<Bound> bounds = node.bounds.of(x);
  if (bounds.size() != 1 || llvm::is_contained(shape, 0))
    return std::nullopt;
  ArrayRef<int64_t> sizes = shapeOf(x);
  OpenGroup group{bounds[0].dim, 0, open, 1, 1, 1, 1};
  for (int64_t size : sizes.take_front(group.dim))
    group.before *= size;
  for (int64_t size : sizes.drop_front(group.dim + 1))
    group.behind *= size;
  for (int64_t size : shape.drop_front(open + 1))
    group.behindOpen *= size;
  int64_t front = 1;
  while (group.first < open && front < group.before)
    front *= shape[group.first++];
  if (front != group.before)
    return std::nullopt;
  for (int64_t size : shape.slice(group.first, open - group.first))
    group.rows *= size;
  bool isEven = llvm::product_of(shape) == typeOf(x).getNumElements();
  return group.rows == 1 && isEven ? std::nullopt : std::optional(group);
}

/// Elements move, since how many stand behind each other is computed: a row of
/// the open dimension begins where the one before it ends.
static Value reshapeIntoGroup(Node &node, Value x, ArrayRef<int64_t> shape,
                              const OpenGroup &group) {
  int64_t parts = group.rows * group.behindOpen;
  int64_t most = shape[group.open], flat = shapeOf(x)[group.dim] * group.behind;
  Value length = node.bounds.of(x)[0].length;
  int64_t common = std::gcd(group.behind, parts);
  length =
      node.dividedBy(node.times(length, group.behind / common), parts / common);
  // Rows of as many elements as stand behind one of the open dimension.
  int64_t rows = flat / group.behindOpen;
  Value all = node.reshape(node.whole(x), {group.before, flat});
  if (rows * group.behindOpen != flat)
    all = node.slice(all, 1, 0, rows * group.behindOpen);
  all = node.reshape(all, {group.before, rows, group.behindOpen});
  if (group.rows > 1) {
    Value part = node.reshape(node.iota(group.rows, node.ops.getI64Type()),
                              {group.rows, 1});
    Value place = node.add(node.mul(part, length),
                           node.iota(most, node.ops.getI64Type()));
    place = node.make<MinOp>(
        {place, node.scalar(double(rows - 1), node.ops.getI64Type())});
    all = node.gather(all, node.reshape(place, {group.rows * most}), 1);
  } else {
    all = node.slice(all, 1, 0, most);
  }
  Value result = node.reshape(all, shape);
  if (!result || !length)
    return {};
  if (!node.bounds.most(length))
    node.bounds.setMost(length, most);
  node.bounds.set(result, group.open, length);
  return result;
}

LogicalResult kerf::onnx_import::reshapeBounded(Node &node, bool allowZero) {
  Value x = node.in(0);
  auto wish = numbersAt(node, 1);
  if (!wish)
    return failure();
  int64_t total = typeOf(x).getNumElements(), known = 1, open = -1;
  Integers shape;
  SmallVector<bool> mayBeBounded;
  bool isNamed = false; // the dimension of x that is not known
  for (auto [index, number] : llvm::enumerate(*wish)) {
    auto size = constantOf(node, number);
    bool copies = size && *size == 0 && !allowZero;
    mayBeBounded.push_back(!size || copies || *size == -1);
    if (copies) {
      if (int64_t(index) >= rankOf(x))
        return node.error("the shape copies a dimension that the input does "
                          "not have");
      size = shapeOf(x)[index];
      isNamed |= bool(node.bounds.lengthOf(x, int64_t(index)));
    }
    // A length is that of the dimension of x that has it.
    for (const Bound &bound : node.bounds.of(x))
      if (!size && areSameNumber(bound.length, number)) {
        size = shapeOf(x)[bound.dim];
        isNamed = true;
      }
    if (!size && !node.bounds.most(number)) { // reports it
      (void)node.constantIntegers(1);
      return failure();
    }
    if (!size)
      size = -1;
    if (*size == -1) {
      if (open >= 0)
        return node.unsupported("operator Reshape to several sizes that are "
                                "known only when the program runs");
      open = int64_t(index);
    } else if (*size < 0 || llvm::MulOverflow(known, *size, known)) {
      return node.error("the shape is not one");
    }
    shape.push_back(*size);
  }
  if (open >= 0)
    shape[open] = known == 0 ? 0 : total / known;
  if (open >= 0 && !isNamed)
    if (auto group = openGroup(node, x, shape, open))
      return node.set(reshapeIntoGroup(node, x, shape, *group));
  if (llvm::product_of(shape) != total)
    return node.unsupported(
        "operator Reshape of a tensor whose size is known only when the "
        "program runs to another number of elements",
        open < 0 ? "leave one size open (-1)" : "");
  Value result = node.reshape(x, shape);
  if (!result)
    return node.fail();
  for (const Bound &bound : node.bounds.of(result))
    if (!mayBeBounded[bound.dim])
      return node.unsupported(
          "operator Reshape that puts elements whose number is known only when "
          "the program runs into a dimension of " +
              Twine(shape[bound.dim]),
          "the dimension that is not known must be the open one (-1)");
  return node.set(result);
}

LogicalResult kerf::onnx_import::expandBounded(Node &node) {
  Value x = node.in(0);
  SmallVector<Value> lengths;
  auto wish = largestShape(node, 1, lengths);
  if (!wish)
    return failure();
  int64_t rank = std::max<int64_t>(rankOf(x), int64_t(wish->size()));
  Integers shape(rank, 1);
  SmallVector<Value> wanted(rank);
  for (int64_t d = 0; d < rank; ++d) {
    int64_t own = d - (rank - rankOf(x)),
            given = d - (rank - int64_t(wish->size()));
    int64_t size = own < 0 ? 1 : shapeOf(x)[own];
    Value length = own < 0 ? Value() : node.bounds.lengthOf(x, own);
    shape[d] = size;
    if (given < 0 || (!lengths[given] && (*wish)[given] == 1))
      continue;
    if (length) {
      if (!lengths[given] || !areSameNumber(length, lengths[given]))
        return node.unsupported("operator Expand of a dimension whose size is "
                                "known only when the program runs to another");
      continue;
    }
    if (size != 1) {
      if (!lengths[given] && (*wish)[given] != size)
        return node.error("cannot expand " + Twine(size) + " to " +
                          Twine((*wish)[given]));
      continue;
    }
    shape[d] = (*wish)[given];
    wanted[d] = lengths[given];
  }
  Value result = node.broadcast(x, shape);
  if (!result)
    return node.fail();
  for (int64_t d = 0; d < rank; ++d)
    if (wanted[d])
      node.bounds.set(result, d, wanted[d]);
  return node.set(result);
}

/// `at` from `least` to `length`, where a negative one counts from there.
static Value clamped(Node &node, Value at, Value length, int64_t least = 0) {
  Type i64 = node.ops.getI64Type();
  auto known = constantOf(node, at);
  if (known && *known < 0)
    at = node.add(
        length,
        node.scalar(double(std::max<int64_t>(*known, -(int64_t(1) << 47))),
                    i64));
  else if (!known && !node.bounds.most(at))
    at = node.select(node.make<LessOp>({at, node.scalar(0, i64)}),
                     node.add(at, length), at);
  Value lowest = node.scalar(double(least), i64);
  return node.make<MinOp>({node.make<MaxOp>({at, lowest}), length});
}

/// Every `step`th element along an axis from `start` to `end`, which is
/// excluded; a negative step goes backwards.
static Value sliceBetween(Node &node, Value x, int64_t axis, Value start,
                          Value end, int64_t step) {
  Type i64 = node.ops.getI64Type();
  int64_t size = shapeOf(x)[axis];
  Value length = node.sizeOf(x, axis);
  auto first = constantOf(node, start), last = constantOf(node, end);
  if (step == 1 && first && last && *first >= 0 && *last >= 0) {
    int64_t from = std::min(*first, size), to = std::min(*last, size);
    if (from == 0 && to == size)
      return x;
    return to <= from ? node.slice(x, axis, 0, 0)
                      : node.slice(x, axis, from, to - from);
  }
  SmallVector<Bound> others(node.bounds.of(x));
  Value result;
  if (step == 1 && first && *first == 0) {
    // The front of what there is: its places stay.
    length = last || !node.bounds.most(end) || *node.bounds.most(end) > size ||
                     node.bounds.lengthOf(x, axis)
                 ? clamped(node, end, length)
                 : end;
    Integers sizes(shapeOf(x));
    if (auto most = node.bounds.most(end))
      sizes[axis] = std::min(size, std::max<int64_t>(*most, 2));
    auto rank = size_t(rankOf(x));
    result = node.make<SliceOp>({node.whole(x)},
                                {node.i64s("starts", Integers(rank, 0)),
                                 node.i64s("sizes", sizes),
                                 node.i64s("strides", Integers(rank, 1))});
  } else {
    // Backwards from the last element at most, to what is before the first.
    Value from = clamped(node, start, length),
          to = clamped(node, end, length, step < 0 ? -1 : 0);
    if (step < 0)
      from = node.make<MinOp>({from, node.add(length, -1)});
    if (!from || !to)
      return {};
    int64_t stride = std::abs(step);
    length = step > 0 ? node.sub(to, from) : node.sub(from, to);
    length = node.make<MaxOp>({length, node.scalar(0, i64)});
    if (stride > 1)
      length = node.dividedBy(node.add(length, double(stride - 1)), stride);
    int64_t most = (size + stride - 1) / stride;
    Value place = node.iota(std::max<int64_t>(most, 2), i64);
    if (step != 1)
      place = node.mul(place, double(step));
    place = node.make<MaxOp>({node.add(place, from), node.scalar(0, i64)});
    place = node.make<MinOp>({place, node.scalar(double(size - 1), i64)});
    result = node.gather(node.whole(x), place, axis);
  }
  if (!result || !length)
    return {};
  if (!node.bounds.most(length))
    node.bounds.setMost(length, shapeOf(result)[axis]);
  for (const Bound &bound : others)
    if (bound.dim != axis)
      node.bounds.set(result, bound.dim, bound.length);
  node.bounds.set(result, axis, length);
  return result;
}

LogicalResult kerf::onnx_import::sliceBounded(Node &node) {
  Value x = node.in(0);
  auto starts = numbersAt(node, 1), ends = numbersAt(node, 2);
  for (size_t index : {1, 2}) // an option makes it known
    for (Value number :
         (index == 1 ? starts : ends).value_or(SmallVector<Value>()))
      if (!constantOf(node, number) && !node.bounds.most(number) &&
          !steeringInputs(number).empty())
        return node.constantIntegers(index) ? success() : failure();
  auto axes = node.constantIntegers(3), steps = node.constantIntegers(4);
  if (node.failed || !starts || !ends)
    return node.failed ? failure() : node.error("starts or ends are missing");
  if (!axes) {
    axes.emplace();
    for (size_t dim = 0; dim < starts->size(); ++dim)
      axes->push_back(int64_t(dim));
  }
  if (ends->size() != starts->size() || axes->size() != starts->size() ||
      (steps && steps->size() != starts->size()))
    return node.error("starts, ends, axes and steps have different numbers of "
                      "entries");
  for (size_t i = 0; i < starts->size(); ++i) {
    auto axis = node.axisWithin((*axes)[i], rankOf(x));
    if (!axis)
      return failure();
    auto start = constantOf(node, (*starts)[i]),
         end = constantOf(node, (*ends)[i]);
    int64_t step = steps ? (*steps)[i] : 1;
    Value length = node.bounds.lengthOf(x, *axis);
    if (step == 1 && start && *start == 0 && length &&
        areSameNumber(length, (*ends)[i]))
      continue; // all that there is
    bool isFixed = start && end && !length;
    if (step == 0)
      return node.error("a step is 0");
    if (isFixed) { // as the sizes are
      int64_t size = shapeOf(x)[*axis];
      int64_t lowest = step < 0 ? -1 : 0, stride = std::abs(step);
      auto at = [&](int64_t place, int64_t least) {
        place = place < 0 ? std::max(place, -size - 1) + size : place;
        return std::clamp<int64_t>(place, least, size + lowest);
      };
      int64_t from = at(*start, std::min<int64_t>(0, size + lowest)),
              to = at(*end, lowest);
      int64_t range = step < 0 ? from - to : to - from;
      int64_t count = range <= 0 ? 0 : (range - 1) / stride + 1;
      x = node.slice(x, *axis, count ? from : 0, count, count > 1 ? step : 1);
    } else {
      x = sliceBetween(node, x, *axis, (*starts)[i], (*ends)[i], step);
    }
    if (!x)
      return node.fail();
  }
  return node.set(x);
}

LogicalResult kerf::onnx_import::rangeBounded(Node &node) {
  auto start = node.constantIntegers(0), delta = node.constantIntegers(2);
  auto limit = numbersAt(node, 1);
  (void)node.integer("stash_type", 1);
  if (!start || !delta || !limit)
    return failure();
  auto most =
      limit->size() == 1 ? node.bounds.most(limit->front()) : std::nullopt;
  if (!most) {
    (void)node.constantReal(1); // reports it
    return node.failed ? failure() : node.fail();
  }
  int64_t first = start->front(), step = delta->front();
  constexpr int64_t kMost = int64_t(1) << 30;
  if (step < 1 || *most - first > kMost)
    return node.unsupported("operator Range to a computed number in steps "
                            "below 1, or of more than 2^30 elements");
  Type i64 = node.ops.getI64Type();
  Value length = limit->front();
  if (first != 0 || step != 1) {
    length = node.add(length, double(step - 1 - first));
    length =
        node.dividedBy(node.make<MaxOp>({length, node.scalar(0, i64)}), step);
  }
  int64_t size = std::max<int64_t>(
      2, (std::max<int64_t>(*most - first, 0) + step - 1) / step);
  Value result = node.iota(size, i64);
  if (step != 1)
    result = node.mul(result, double(step));
  if (first != 0)
    result = node.add(result, double(first));
  if (!result || !length)
    return node.fail();
  if (first != 0 || step != 1)
    node.bounds.setMost(length, size);
  node.bounds.set(result, 0, length);
  return node.set(result);
}
