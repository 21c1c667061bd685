//===- BoundedOps.cpp - ops on dimensions whose size is computed ----------===//
//
// What Bounds.h promises, op by op: an op of nn is built on the whole tensors,
// then looked at. Most ops are known by their sharding rule alone. Those whose
// rule says "every device needs the whole range", and those that name places
// (slices, indices) or put tensors behind each other, have their case here.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Node.h"

#include "kerf/Interfaces/Identity.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {
/// One op, behind which nothing stands yet; masks are put in front of it.
class BoundedOp {
public:
  BoundedOp(GraphBuilder &b, Operation *op)
      : b(b), op(op), rule(cast<ShardingRuleInterface>(op).getShardingRule()) {}

  LogicalResult run() {
    LogicalResult special =
        llvm::TypeSwitch<Operation *, LogicalResult>(op)
            .Case<ReshapeOp, SliceOp, GatherOp, ScatterOp, ConcatOp, TopKOp,
                  ArgReduceOp, SoftmaxOp, LogSoftmaxOp>(
                [&](auto each) { return visit(each); })
            .Default([](Operation *) { return success(); });
    return failed(special) ? failure() : followRule();
  }

  /// What takes the place of the result.
  Value result() const { return replacement ? replacement : op->getResult(0); }

private:
  GraphBuilder &b;
  Operation *op;
  ShardingRule rule;
  Value replacement;
  /// Dimensions of operands that the rule need not explain.
  SmallVector<std::pair<unsigned, int64_t>> seen;

  bool isSeen(unsigned operand, int64_t dim) const {
    return llvm::is_contained(seen, std::pair(operand, dim));
  }
  Value x() const { return op->getOperand(0); }

  InFlightDiagnostic refuse(unsigned operand, int64_t dim) {
    auto node = dyn_cast<NameLoc>(op->getOperand(operand).getLoc());
    InFlightDiagnostic error = emitError(b.loc);
    error << "the number of elements along dimension " << dim << " of ";
    if (node && node != b.loc)
      error << "what \"" << node.getName().getValue() << "\" gives";
    else
      error << "input " << operand;
    error << " is known only when the program runs, and ";
    return error;
  }
  LogicalResult readsAcross(unsigned operand, int64_t dim) {
    return refuse(operand, dim)
           << op->getName().stripDialect() << " reads across them";
  }

  /// A value that this node has made besides, for the size of a bounded one.
  bool isOwn(Value value) const {
    Operation *maker = value.getDefiningOp();
    return maker && maker->getLoc() == b.loc;
  }

  LogicalResult fill(unsigned operand, int64_t dim, Value length,
                     Attribute number) {
    Value masked = b.filled(op->getOperand(operand), dim, length, number);
    if (!masked)
      return failure();
    op->setOperand(operand, masked);
    return success();
  }

  LogicalResult followRule() {
    llvm::DenseMap<unsigned, Value> lengths; // of factors
    for (OpOperand &operand : op->getOpOperands())
      for (const Bound &bound :
           SmallVector<Bound>(b.bounds.of(operand.get()))) {
        unsigned number = operand.getOperandNumber();
        if (isSeen(number, bound.dim))
          continue;
        const DimFactors &factors = rule.operands[number][bound.dim];
        if (factors.size() != 1 ||
            rule.factors[factors[0]].kind == FactorKind::Replicated)
          return readsAcross(number, bound.dim);
        auto [known, isNew] = lengths.try_emplace(factors[0], bound.length);
        if (!isNew && !areSameNumber(known->second, bound.length))
          return refuse(number, bound.dim)
                 << op->getName().stripDialect()
                 << " joins them with another number of elements";
      }
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned number = operand.getOperandNumber();
      for (auto [dim, factors] : llvm::enumerate(rule.operands[number])) {
        if (factors.size() != 1 || !lengths.count(factors[0]))
          continue;
        if (!b.bounds.lengthOf(operand.get(), int64_t(dim)) &&
            !isOwn(operand.get()))
          return joinsFixed(factors[0]);
        const Factor &factor = rule.factors[factors[0]];
        if (factor.kind == FactorKind::Reduction &&
            failed(
                fill(number, int64_t(dim), lengths[factors[0]],
                     identityOf(factor.reduction, elementOf(operand.get())))))
          return failure();
      }
    }
    // What lies behind must not make the op fail.
    for (ShardingRule::PaddingFill each : rule.paddingFills) {
      Value value = op->getOperand(each.operand);
      for (const Bound &bound : SmallVector<Bound>(b.bounds.of(value)))
        if (failed(fill(each.operand, bound.dim, bound.length,
                        b.number(double(each.value), elementOf(value)))))
          return failure();
    }
    if (replacement)
      return success();
    for (auto [index, value] : llvm::enumerate(op->getResults()))
      for (auto [dim, factors] : llvm::enumerate(rule.results[index]))
        if (factors.size() == 1)
          if (auto found = lengths.find(factors[0]); found != lengths.end())
            b.bounds.set(value, int64_t(dim), found->second);
    return success();
  }

  LogicalResult joinsFixed(unsigned factor) {
    for (OpOperand &operand : op->getOpOperands())
      for (const Bound &bound : b.bounds.of(operand.get())) {
        unsigned number = operand.getOperandNumber();
        if (!isSeen(number, bound.dim) &&
            llvm::is_contained(rule.operands[number][bound.dim], factor))
          return refuse(number, bound.dim)
                 << op->getName().stripDialect() << " joins them with "
                 << rule.factors[factor].size;
      }
    return failure();
  }

  LogicalResult visit(ReshapeOp reshape);
  LogicalResult reshapeGroup(ArrayRef<int64_t> from, ArrayRef<int64_t> to);
  LogicalResult pack(ArrayRef<int64_t> from, int64_t to);
  /// Dimensions of x that become one of the result, of which another than the
  /// first is bounded.
  SmallVector<std::pair<Integers, int64_t>> packs;
  LogicalResult visit(SliceOp slice);
  LogicalResult visit(GatherOp gather);
  LogicalResult visit(ScatterOp scatter);
  LogicalResult visit(ConcatOp concat);

  /// The last dimension: numbers behind all that there are.
  LogicalResult visit(TopKOp top) {
    int64_t last = rankOf(x()) - 1;
    Value length = b.bounds.lengthOf(x(), last);
    if (!length)
      return success();
    seen.push_back({0, last});
    Type element = elementOf(x());
    // NaN is larger than every number, and of equal elements the first counts.
    Attribute behind = identityOf(
        top.getSmallest() ? ReductionKind::Min : ReductionKind::Max, element);
    if (auto type = dyn_cast<FloatType>(element); type && top.getSmallest())
      behind = FloatAttr::get(type, APFloat::getNaN(type.getFloatSemantics()));
    return fill(0, last, length, behind);
  }
  LogicalResult visit(ArgReduceOp arg) {
    auto dim = int64_t(arg.getDim());
    Value length = b.bounds.lengthOf(x(), dim);
    if (!length)
      return success();
    if (arg.getLast())
      return readsAcross(0, dim);
    seen.push_back({0, dim});
    return fill(
        0, dim, length,
        identityOf(arg.getMin() ? ReductionKind::Min : ReductionKind::Max,
                   elementOf(x())));
  }
  template <typename Op> LogicalResult visitSoftmax(Op softmax) {
    auto dim = int64_t(softmax.getDim());
    Value length = b.bounds.lengthOf(x(), dim);
    if (!length)
      return success();
    seen.push_back({0, dim});
    b.bounds.set(op->getResult(0), dim, length);
    return fill(0, dim, length, identityOf(ReductionKind::Max, elementOf(x())));
  }
  LogicalResult visit(SoftmaxOp softmax) { return visitSoftmax(softmax); }
  LogicalResult visit(LogSoftmaxOp softmax) { return visitSoftmax(softmax); }
};
} // namespace

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

/// Dimensions of x that together are as many elements as dimensions of the
/// result, in order.
LogicalResult BoundedOp::visit(ReshapeOp reshape) {
  ArrayRef<int64_t> from = shapeOf(x()), to = shapeOf(reshape.getResult());
  if (llvm::is_contained(from, 0))
    return emitError(b.loc, "has no elements");
  for (const Bound &bound : b.bounds.of(x()))
    seen.push_back({0, bound.dim});
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    Integers left, right;
    int64_t sizeLeft = 1, sizeRight = 1;
    do {
      bool takesLeft =
          j == to.size() || (i < from.size() && sizeLeft <= sizeRight);
      if (takesLeft) {
        sizeLeft *= from[i];
        left.push_back(int64_t(i++));
      } else {
        sizeRight *= to[j];
        right.push_back(int64_t(j++));
      }
    } while (sizeLeft != sizeRight);
    if (failed(reshapeGroup(left, right)))
      return failure();
  }
  for (const auto &[group, to] : packs)
    if (failed(pack(group, to)))
      return failure();
  return success();
}

LogicalResult BoundedOp::reshapeGroup(ArrayRef<int64_t> from,
                                      ArrayRef<int64_t> to) {
  Value result = op->getResult(0);
  ArrayRef<int64_t> sizes = shapeOf(x()), sizesTo = shapeOf(result);
  Integers wide, wideTo;
  bool any = false, inside = false;
  for (int64_t dim : from) {
    bool isBounded = bool(b.bounds.lengthOf(x(), dim));
    any |= isBounded;
    if (sizes[dim] == 1 && !isBounded)
      continue;
    inside |= isBounded && !wide.empty();
    wide.push_back(dim);
  }
  if (!any)
    return success();
  for (int64_t dim : to)
    if (sizesTo[dim] != 1)
      wideTo.push_back(dim);
  if (wideTo.empty()) // a dimension of at most one element
    return readsAcross(0, wide[0]);
  if (wide.size() == wideTo.size() &&
      llvm::all_of(llvm::zip(wide, wideTo), [&](auto pair) {
        return sizes[std::get<0>(pair)] == sizesTo[std::get<1>(pair)];
      })) {
    for (auto [d, e] : llvm::zip(wide, wideTo))
      if (Value length = b.bounds.lengthOf(x(), d))
        b.bounds.set(result, e, length);
    return success();
  }
  if (inside) {
    if (wideTo.size() != 1)
      return readsAcross(0, wide[0]);
    packs.push_back({wide, wideTo[0]});
    return success();
  }
  int64_t behind = 1, behindTo = 1;
  for (int64_t dim : ArrayRef(wide).drop_front())
    behind *= sizes[dim];
  for (int64_t dim : ArrayRef(wideTo).drop_front())
    behindTo *= sizesTo[dim];
  Value length = b.bounds.lengthOf(x(), wide[0]);
  length = behind % behindTo == 0
               ? b.times(length, behind / behindTo)
               : b.dividedBy(b.times(length, behind), behindTo);
  if (!length)
    return failure();
  b.bounds.set(result, wideTo[0], length);
  return success();
}

/// Dimensions become one, in which the elements that there are come first.
LogicalResult BoundedOp::pack(ArrayRef<int64_t> from, int64_t to) {
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPointAfter(op);
  Value result = this->result();
  int64_t total = shapeOf(result)[to];
  Type i64 = b.ops.getI64Type();
  Value rest = b.iota(total, i64), source, count;
  int64_t stride = 1;
  for (int64_t dim : llvm::reverse(from)) {
    Value length = b.sizeOf(x(), dim);
    Value divisor =
        b.make<MaxOp>({length, b.scalar(1, i64)}); // nothing is read then
    Value place = b.times(b.make<RemOp>({rest, divisor}), stride);
    source = source ? b.add(source, place) : place;
    rest = b.div(rest, divisor);
    count = count ? b.mul(count, length) : length;
    stride *= shapeOf(x())[dim];
  }
  if (!source || !count)
    return failure();
  source = b.make<MinOp>({source, b.scalar(double(total - 1), i64)});
  replacement = b.gather(result, source, to);
  if (!replacement)
    return failure();
  b.bounds.set(replacement, to, count);
  return success();
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// What a slice from the front on leaves of a bounded dimension.
LogicalResult BoundedOp::visit(SliceOp slice) {
  Type i64 = b.ops.getI64Type();
  for (const Bound &bound : SmallVector<Bound>(b.bounds.of(x()))) {
    int64_t start = slice.getStarts()[bound.dim],
            size = slice.getSizes()[bound.dim],
            stride = slice.getStrides()[bound.dim];
    if (start == 0 && size == shapeOf(x())[bound.dim] && stride == 1)
      continue;
    if (stride < 1)
      return readsAcross(0, bound.dim);
    seen.push_back({0, bound.dim});
    Value length = bound.length;
    if (stride - 1 != start)
      length = b.add(length, double(stride - 1 - start));
    length = b.make<MaxOp>({length, b.scalar(0, i64)});
    length = b.dividedBy(length, stride);
    length = b.make<MinOp>({length, b.scalar(double(size), i64)});
    if (!length)
      return failure();
    b.bounds.setMost(length, size);
    b.bounds.set(op->getResult(0), bound.dim, length);
  }
  return success();
}

/// Indices into a bounded dimension: negative ones count from its end, and what
/// an index finds that is outside is not said.
LogicalResult BoundedOp::visit(GatherOp gather) {
  auto dim = int64_t(gather.getDim());
  Value length = b.bounds.lengthOf(gather.getData(), dim);
  if (!length)
    return success();
  seen.push_back({0, dim});
  Value indices = gather.getIndices();
  Type element = elementOf(indices);
  SmallVector<Bound> known(b.bounds.of(indices));
  Value zero = b.scalar(0, element);
  Value fromEnd = b.add(indices, b.cast(length, element));
  Value last = b.scalar(double(shapeOf(gather.getData())[dim] - 1), element);
  Value place = b.select(b.make<LessOp>({indices, zero}), fromEnd, indices);
  place = b.make<MinOp>({b.make<MaxOp>({place, zero}), last});
  if (!place)
    return failure();
  op->setOperand(1, place);
  return success();
}

/// Updates behind the last one change nothing.
LogicalResult BoundedOp::visit(ScatterOp scatter) {
  auto dim = int64_t(scatter.getDim());
  if (Value length = b.bounds.lengthOf(scatter.getData(), dim)) {
    seen.push_back({0, dim});
    b.bounds.set(op->getResult(0), dim, length);
  }
  int64_t count = rankOf(scatter.getIndices());
  Value indices = scatter.getIndices();
  bool any = false;
  for (int64_t d = dim; d < count; ++d) {
    Value length = b.bounds.lengthOf(indices, d);
    Value other = b.bounds.lengthOf(scatter.getUpdates(), d);
    if (!length && !other)
      continue;
    if (length && other && !areSameNumber(length, other))
      return refuse(1, d) << "the updates have another number of them";
    if (length)
      seen.push_back({1, d});
    if (other)
      seen.push_back({2, d});
    int64_t size = shapeOf(scatter.getData())[dim];
    Type element = elementOf(indices);
    indices = b.select(b.within(indices, d, length ? length : other), indices,
                       b.scalar(double(size), element));
    if (!indices)
      return failure();
    any = true;
  }
  if (!any)
    return success();
  // Indices are in range here, so what is outside is what was put there.
  op->setOperand(1, indices);
  for (int64_t d = dim; d < count; ++d)
    seen.push_back({1, d});
  scatter.setPartial(true);
  return success();
}

/// Tensors of which each begins where the one before it ends.
LogicalResult BoundedOp::visit(ConcatOp concat) {
  auto dim = int64_t(concat.getDim());
  Type i64 = b.ops.getI64Type();
  bool any = false;
  for (OpOperand &operand : op->getOpOperands())
    if (b.bounds.lengthOf(operand.get(), dim)) {
      seen.push_back({operand.getOperandNumber(), dim});
      any = true;
    }
  if (!any)
    return success();
  if (failed(followRule())) // the other dimensions
    return failure();
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPointAfter(op);
  Value whole = op->getResult(0);
  SmallVector<Bound> others(b.bounds.of(whole));
  int64_t total = shapeOf(whole)[dim];
  // How much room lies behind all parts that end in front of a place, or there,
  // is how far behind the place its element is.
  auto parts = int64_t(concat.getInputs().size());
  SmallVector<Value> sizes;
  Integers room;
  bool hasGaps = false;
  for (auto [index, part] : llvm::enumerate(concat.getInputs())) {
    sizes.push_back(b.reshape(b.sizeOf(part, dim), {1}));
    room.push_back(shapeOf(part)[dim]);
    hasGaps |= int64_t(index) + 1 != parts && b.bounds.lengthOf(part, dim);
  }
  if (llvm::is_contained(sizes, Value()))
    return failure();
  Value lengths = b.concat(sizes, 0);
  Value end = b.reduce(lengths, ReduceKind::Sum, {0}, false);
  if (hasGaps) {
    Value zero = b.scalar(0, i64), number = b.iota(parts, i64);
    Value upTo = b.make<LessEqualOp>({number, b.reshape(number, {parts, 1})});
    Value ends =
        b.reduce(b.select(upTo, lengths, zero), ReduceKind::Sum, {1}, false);
    Value gaps = b.sub(b.integers(room), lengths);
    Value place = b.iota(total, i64);
    Value isBehind = b.make<LessEqualOp>({ends, b.reshape(place, {total, 1})});
    Value source = b.add(place, b.reduce(b.select(isBehind, gaps, zero),
                                         ReduceKind::Sum, {1}, false));
    source = b.make<MinOp>({source, b.scalar(double(total - 1), i64)});
    whole = source ? b.gather(whole, source, dim) : Value();
  }
  if (!whole || !end)
    return failure();
  for (const Bound &bound : others)
    b.bounds.set(whole, bound.dim, bound.length);
  b.bounds.setMost(end, total);
  b.bounds.set(whole, dim, end);
  replacement = whole;
  return success();
}

//===----------------------------------------------------------------------===//
// The builder
//===----------------------------------------------------------------------===//

Value GraphBuilder::passBounds(Operation *op) {
  OpBuilder::InsertionGuard guard(ops);
  ops.setInsertionPoint(op);
  BoundedOp bounded(*this, op);
  if (failed(bounded.run()))
    return {};
  return bounded.result();
}
