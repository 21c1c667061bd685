//===- Rows.cpp - reductions, softmax and normalizations ------------------===//
//
// Every Row op is a few passes over the row, which lies in the first-level
// cache: statistics first (rowState), the elements when they are pulled. What
// is computed on the way is kept in a row buffer on the stack if it is small
// enough, else computed again: the operand (a prologue is evaluated once), and
// softmax's exponentials.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"

#include "kerf/NN/NN.h"

using namespace llvm;
using mlir::cast;
using mlir::dyn_cast;
using mlir::isa;

namespace kerf::codegen {

/// The value behind reshapes and transposes of the group.
static std::pair<mlir::Value, IndexVec>
behindShapes(mlir::Value value, IndexVec index, KernelPlan &plan) {
  mlir::Operation *op = value.getDefiningOp();
  while (op && plan.ops.contains(op) && kindOf(op) == OpKind::Shape) {
    index = operandUses(op, index, plan.space)[0].index;
    value = op->getOperand(0);
    op = value.getDefiningOp();
  }
  return {value, index};
}

static bool isSinglePass(mlir::Operation *op) {
  return isa<nn::ReduceOp, nn::ArgReduceOp>(op);
}

/// The current element of operand 0; the first pass keeps it if `buffer`.
KernelEmitter::V KernelEmitter::rowElement(mlir::Operation *op) {
  return pull(op->getOperand(0), rowOperandIndex(op, plan));
}

KernelEmitter::V KernelEmitter::sumRow(Flat &flat, int64_t wide, V like,
                                       function_ref<V()> element) {
  V zero = Constant::getNullValue(like->getType());
  return reduceRow(
      flat, wide, {zero}, [&] { return State{element()}; },
      [&](const State &a, const State &c) {
        return State{b.CreateFAdd(a[0], c[0])};
      })[0];
}

/// Smallest (largest) value of a type: the identity of max (min).
static Constant *extreme(Type *type, bool largest, bool isUnsigned) {
  if (type->isFloatingPointTy())
    return ConstantFP::getInfinity(type, !largest);
  unsigned bits = type->getIntegerBitWidth();
  if (isUnsigned)
    return ConstantInt::get(type, largest ? APInt::getMaxValue(bits)
                                          : APInt::getMinValue(bits));
  return ConstantInt::get(type, largest ? APInt::getSignedMaxValue(bits)
                                        : APInt::getSignedMinValue(bits));
}

KernelEmitter::State KernelEmitter::reduceFor(mlir::Operation *op, Flat &flat) {
  mlir::Type element = elementOf(op->getOperand(0));
  Type *type = computeType(element);
  bool isFloat = type->isFloatingPointTy();
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  nn::ReduceKind kind = cast<nn::ReduceOp>(op).getKind();
  V identity = Constant::getNullValue(type);
  if (kind == nn::ReduceKind::Prod)
    identity = isFloat ? ConstantFP::get(type, 1.0)
                       : (Constant *)ConstantInt::get(type, 1);
  else if (kind != nn::ReduceKind::Sum)
    identity = extreme(type, kind == nn::ReduceKind::Min, isUnsigned);
  Combine combine = [&, kind](const State &s, const State &t) -> State {
    V x = s[0], y = t[0];
    switch (kind) {
    case nn::ReduceKind::Sum:
      if (element.isInteger(1))
        return {b.CreateOr(x, y)};
      return {isFloat ? b.CreateFAdd(x, y) : b.CreateAdd(x, y)};
    case nn::ReduceKind::Prod:
      return {isFloat ? b.CreateFMul(x, y) : b.CreateMul(x, y)};
    case nn::ReduceKind::Max:
      if (isFloat)
        return {math.maximum(x, y)};
      return {b.CreateBinaryIntrinsic(
          isUnsigned ? Intrinsic::umax : Intrinsic::smax, x, y)};
    case nn::ReduceKind::Min:
      if (isFloat)
        return {math.minimum(x, y)};
      return {b.CreateBinaryIntrinsic(
          isUnsigned ? Intrinsic::umin : Intrinsic::smin, x, y)};
    }
    llvm_unreachable("unknown reduction");
  };
  return reduceRow(
      flat, 4 * native, {identity}, [&] { return State{rowElement(op)}; },
      combine);
}

KernelEmitter::State KernelEmitter::argReduceFor(mlir::Operation *op,
                                                 Flat &flat) {
  auto arg = cast<nn::ArgReduceOp>(op);
  bool min = arg.getMin(), last = arg.getLast();
  mlir::Type element = elementOf(op->getOperand(0));
  Type *type = computeType(element);
  bool isFloat = type->isFloatingPointTy();
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  int64_t none = last ? -1 : flat.size;
  Combine combine = [&](const State &s, const State &t) -> State {
    V better, equal = isFloat ? b.CreateFCmpOEQ(t[0], s[0])
                              : b.CreateICmpEQ(t[0], s[0]);
    if (isFloat)
      better = min ? b.CreateFCmpOLT(t[0], s[0]) : b.CreateFCmpOGT(t[0], s[0]);
    else
      better = b.CreateICmp(
          min ? (isUnsigned ? CmpInst::ICMP_ULT : CmpInst::ICMP_SLT)
              : (isUnsigned ? CmpInst::ICMP_UGT : CmpInst::ICMP_SGT),
          t[0], s[0]);
    V order = last ? b.CreateICmpSGT(t[1], s[1]) : b.CreateICmpSLT(t[1], s[1]);
    V take = b.CreateOr(better, b.CreateAnd(equal, order));
    return {b.CreateSelect(take, t[0], s[0]), b.CreateSelect(take, t[1], s[1])};
  };
  State state = reduceRow(
      flat, native, {extreme(type, min, isUnsigned), b.getInt64(none)},
      [&] {
        V position = variesOverLanes(flat.index)
                         ? laneIndexAs(flat.index, b.getInt64Ty())
                         : scalarIndex(flat.index);
        return State{rowElement(op), position};
      },
      combine);
  // Nothing but NaN: the first (last) element.
  V isNone = b.CreateICmpEQ(state[1],
                            ConstantInt::get(state[1]->getType(), none, true));
  V fallback = ConstantInt::get(state[1]->getType(), last ? flat.size - 1 : 0);
  return {b.CreateSelect(isNone, fallback, state[1])};
}

void KernelEmitter::computeRow(mlir::Operation *op) {
  SmallVector<int64_t> sizes = innerShape(op);
  Flat &flat = plan.inner[product_of(sizes)];
  Type *type = computeType(elementOf(op->getOperand(0)));
  auto behind =
      behindShapes(op->getOperand(0), rowOperandIndex(op, plan), plan);
  mlir::Value source = behind.first;
  IndexVec index = behind.second;
  mlir::Operation *producer = source.getDefiningOp();
  bool computed = producer && plan.ops.contains(producer) &&
                  kindOf(producer) != OpKind::Constant;
  V buffer = nullptr;
  if (computed && !kept.contains(source) &&
      (!isSinglePass(op) || !source.hasOneUse()))
    buffer = rowBuffer(flat.size, computeType(elementOf(source)));
  auto place = [&](V memory, Type *element) {
    V position = scalarIndex(flat.index);
    if (plan.lanesOuter)
      position = b.CreateMul(position, b.getInt64(lanes));
    return b.CreateGEP(element, memory, position);
  };
  auto keep = [&](V value, V memory) {
    Type *element = value->getType()->getScalarType();
    b.CreateAlignedStore(widen(value), place(memory, element),
                         Align(element->getScalarSizeInBits() / 8));
  };
  // Whoever runs first fills the buffer.
  if (buffer) {
    forRow(flat, computed ? native : 4 * native,
           [&] { keep(pull(source, index), buffer); });
    kept[source] = {buffer, index, flat.index};
  }
  double count = std::max<int64_t>(flat.size, 1);
  auto scaled = [&](V sum) {
    return b.CreateFMul(sum, math.constant(sum, 1 / count));
  };
  auto inverseRoot = [&](V variance, const APFloat &epsilon) {
    V shifted = b.CreateFAdd(
        variance, math.constant(variance, epsilon.convertToDouble()));
    return b.CreateFDiv(math.constant(variance, 1),
                        math.unary(Intrinsic::sqrt, shifted));
  };
  V like = Constant::getNullValue(type);
  if (isa<nn::ReduceOp>(op)) {
    rowState[op] = reduceFor(op, flat);
  } else if (isa<nn::ArgReduceOp>(op)) {
    rowState[op] = argReduceFor(op, flat);
  } else if (isa<nn::SoftmaxOp, nn::LogSoftmaxOp>(op)) {
    V max = reduceRow(
        flat, 4 * native, {extreme(type, false, false)},
        [&] { return State{rowElement(op)}; },
        [&](const State &s, const State &t) {
          return State{b.CreateSelect(b.CreateFCmpOGT(t[0], s[0]), t[0], s[0])};
        })[0];
    V memory = isa<nn::SoftmaxOp>(op) ? rowBuffer(flat.size, type) : nullptr;
    V sum = sumRow(flat, 2 * native, like, [&] {
      V parts[] = {rowElement(op), max};
      widenAll(parts);
      V e = math.expNonPositive(b.CreateFSub(parts[0], parts[1]));
      if (memory)
        keep(e, memory);
      return e;
    });
    if (memory)
      keptExp[op] = {memory, rowOperandIndex(op, plan), flat.index};
    if (isa<nn::SoftmaxOp>(op))
      rowState[op] = {max, b.CreateFDiv(math.constant(sum, 1), sum)};
    else
      rowState[op] = {max, math.log(sum)};
  } else if (auto norm = dyn_cast<nn::LayerNormOp>(op)) {
    V mean =
        scaled(sumRow(flat, 4 * native, like, [&] { return rowElement(op); }));
    V variance = scaled(sumRow(flat, 4 * native, like, [&] {
      V parts[] = {rowElement(op), mean};
      widenAll(parts);
      V d = b.CreateFSub(parts[0], parts[1]);
      return b.CreateFMul(d, d);
    }));
    rowState[op] = {mean, inverseRoot(variance, norm.getEpsilon())};
  } else {
    V square = scaled(sumRow(flat, 4 * native, like, [&] {
      V x = rowElement(op);
      return b.CreateFMul(x, x);
    }));
    rowState[op] = {inverseRoot(square, cast<nn::RMSNormOp>(op).getEpsilon())};
  }
}

KernelEmitter::V KernelEmitter::pullRow(mlir::Operation *op,
                                        ArrayRef<Index> index) {
  const State state = rowState.lookup(op);
  if (!keepsRowDims(op))
    return state[0];
  if (auto it = keptExp.find(op);
      it != keptExp.end() && it->second.index == IndexVec(index)) {
    Type *type = computeType(elementOf(op->getResult(0)));
    V position = scalarIndex(it->second.position);
    if (plan.lanesOuter)
      position = b.CreateMul(position, b.getInt64(lanes));
    V e = b.CreateAlignedLoad(vectorOf(type, lanes),
                              b.CreateGEP(type, it->second.buffer, position),
                              Align(type->getScalarSizeInBits() / 8));
    return b.CreateFMul(e, widen(state[1]));
  }
  V x = pull(op->getOperand(0), index);
  SmallVector<V> values = {x};
  values.append(state.begin(), state.end());
  IndexVec trailing(index.begin() + rowDims(op).front(), index.end());
  for (mlir::Value operand : op->getOperands().drop_front())
    values.push_back(pull(operand, trailing));
  widenAll(values);
  x = values[0];
  if (isa<nn::SoftmaxOp>(op))
    return b.CreateFMul(math.expNonPositive(b.CreateFSub(x, values[1])),
                        values[2]);
  if (isa<nn::LogSoftmaxOp>(op))
    return b.CreateFSub(b.CreateFSub(x, values[1]), values[2]);
  if (isa<nn::LayerNormOp>(op)) {
    V normal = b.CreateFMul(b.CreateFSub(x, values[1]), values[2]);
    return math.mulAdd(normal, values[3], values[4]);
  }
  return b.CreateFMul(b.CreateFMul(x, values[1]), values[2]);
}

} // namespace kerf::codegen
