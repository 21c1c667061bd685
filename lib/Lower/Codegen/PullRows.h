//===- PullRows.h - reductions, softmax, normalizations ---------*- C++ -*-===//
//
// Every Row op is a few passes over the row, which is in the first-level cache
// by then: first statistics (rowState), then the elements when they are pulled.
// Two things are kept in a row buffer on the stack if it is small enough, else
// recomputed: the operand (so that a prologue is evaluated once) and softmax's
// exponentials.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_PULLROWS_H
#define KERF_LOWER_CODEGEN_PULLROWS_H

#include "Elements.h"
#include "PullEmitter.h"

#include "kerf/NN/IR/Elements.h"

namespace kerf::codegen {

/// The value behind reshapes and transposes of the group.
inline std::pair<mlir::Value, IndexVec>
behindShapes(mlir::Value value, IndexVec index, KernelPlan &plan) {
  mlir::Operation *op = value.getDefiningOp();
  while (op && plan.ops.contains(op) && kindOf(op) == KernelKind::Shape) {
    index = operandUses(op, index, plan.space)[0].index;
    value = op->getOperand(0);
    op = value.getDefiningOp();
  }
  return {value, index};
}

/// The current element of operand 0; the first pass keeps it if `buffer`.
template <typename B>
auto PullEmitter<B>::rowElement(mlir::Operation *op) -> V {
  return pull(op->getOperand(0), rowOperandIndex(op, plan));
}

template <typename B>
auto PullEmitter<B>::sumRow(Flat &flat, int64_t wide, V like,
                            llvm::function_ref<V()> element) -> V {
  V zero = b.zero(b.typeOf(like));
  return reduceRow(
      flat, wide, {zero}, [&] { return State{element()}; },
      [&](const State &a, const State &c) {
        return State{b.CreateFAdd(a[0], c[0])};
      })[0];
}

/// Smallest (largest) value of a type: the identity of max (min).
template <typename B>
auto PullEmitter<B>::extreme(T type, bool largest, bool isUnsigned) -> V {
  if (b.isFloat(type))
    return b.infinity(type, !largest);
  using llvm::APInt;
  unsigned bits = b.bitsOf(type);
  if (isUnsigned)
    return b.integer(type, largest ? APInt::getMaxValue(bits)
                                   : APInt::getMinValue(bits));
  return b.integer(type, largest ? APInt::getSignedMaxValue(bits)
                                 : APInt::getSignedMinValue(bits));
}

template <typename B>
auto PullEmitter<B>::reduceFor(mlir::Operation *op, Flat &flat) -> State {
  mlir::Type element = elementOf(op->getOperand(0));
  T type = computeType(element);
  bool isFloat = b.isFloat(type);
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  nn::ReduceKind kind = mlir::cast<nn::ReduceOp>(op).getKind();
  V identity = b.zero(type);
  if (kind == nn::ReduceKind::Prod)
    identity = isFloat ? b.real(type, 1.0) : b.integer(type, 1);
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
          isUnsigned ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, x, y)};
    case nn::ReduceKind::Min:
      if (isFloat)
        return {math.minimum(x, y)};
      return {b.CreateBinaryIntrinsic(
          isUnsigned ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, x, y)};
    }
    llvm_unreachable("unknown reduction");
  };
  return reduceRow(
      flat, 4 * native, {identity}, [&] { return State{rowElement(op)}; },
      combine);
}

template <typename B>
auto PullEmitter<B>::argReduceFor(mlir::Operation *op, Flat &flat) -> State {
  auto arg = mlir::cast<nn::ArgReduceOp>(op);
  bool min = arg.getMin(), last = arg.getLast();
  mlir::Type element = elementOf(op->getOperand(0));
  T type = computeType(element);
  bool isFloat = b.isFloat(type);
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  int64_t none = last ? -1 : flat.size;
  Combine combine = [&](const State &s, const State &t) -> State {
    V better, equal = isFloat ? b.CreateFCmpOEQ(t[0], s[0])
                              : b.CreateICmpEQ(t[0], s[0]);
    if (isFloat) {
      V isNaN = b.CreateFCmpUNO(t[0], t[0]),
        wasNaN = b.CreateFCmpUNO(s[0], s[0]);
      better = min ? b.CreateFCmpOLT(t[0], s[0]) : b.CreateFCmpOGT(t[0], s[0]);
      better = b.CreateOr(better, b.CreateAnd(isNaN, b.CreateNot(wasNaN)));
      equal = b.CreateOr(equal, b.CreateAnd(isNaN, wasNaN));
    } else
      better = b.CreateICmp(
          min ? (isUnsigned ? llvm::CmpInst::ICMP_ULT : llvm::CmpInst::ICMP_SLT)
              : (isUnsigned ? llvm::CmpInst::ICMP_UGT
                            : llvm::CmpInst::ICMP_SGT),
          t[0], s[0]);
    V order = last ? b.CreateICmpSGT(t[1], s[1]) : b.CreateICmpSLT(t[1], s[1]);
    V take = b.CreateOr(better, b.CreateAnd(equal, order));
    return {b.CreateSelect(take, t[0], s[0]), b.CreateSelect(take, t[1], s[1])};
  };
  State state = reduceRow(
      flat, native, {extreme(type, min, isUnsigned), indexConstant(none)},
      [&] {
        V position = variesOverLanes(flat.index)
                         ? laneIndexAs(flat.index, indexType())
                         : scalarIndex(flat.index);
        return State{rowElement(op), position};
      },
      combine);
  // No element replaced the initial extreme: the result is the first (last)
  // position.
  V isNone = b.CreateICmpEQ(state[1], b.integer(b.typeOf(state[1]), none));
  V fallback = b.integer(b.typeOf(state[1]), last ? flat.size - 1 : 0);
  V position = b.CreateSelect(isNone, fallback, state[1]);
  T result = computeType(elementOf(op->getResult(0)));
  return {
      b.CreateSExtOrTrunc(position, b.withElement(b.typeOf(position), result))};
}

/// The `s` of the statistics of a normalization.
template <typename B> struct PullEmitter<B>::RowElements : FloatElements<B> {
  PullEmitter &emitter;
  mlir::Operation *op;
  Flat &flat;

  /// Over a row, of a function of its elements.
  template <typename F> V sum(F f) {
    return emitter.sumRow(flat, 4 * emitter.native, this->like,
                          [&] { return f(emitter.rowElement(op)); });
  }
  template <typename F> V mean(F f) {
    V total = sum(f);
    double count = std::max<int64_t>(flat.size, 1);
    return this->b.CreateFMul(total, this->math.constant(total, 1 / count));
  }
};

template <typename B>
auto PullEmitter<B>::computeRow(mlir::Operation *op) -> void {
  llvm::SmallVector<int64_t> sizes = innerShape(op);
  Flat &flat = plan.inner[llvm::product_of(sizes)];
  T type = computeType(elementOf(op->getOperand(0)));
  auto behind =
      behindShapes(op->getOperand(0), rowOperandIndex(op, plan), plan);
  mlir::Value source = behind.first;
  IndexVec index = behind.second;
  mlir::Operation *producer = source.getDefiningOp();
  bool computed = producer && plan.ops.contains(producer) &&
                  kindOf(producer) != KernelKind::Constant;
  // An index that depends on every loop over the row is only asked for inside
  // these loops. One that does not (a reshape of one element, repeated) could
  // be asked for outside of them, where the place in the buffer is unknown.
  bool inLoops = llvm::all_of(flat.vars, [&](const LoopVar &var) {
    return var.size == 1 || llvm::any_of(index, [&](const Index &i) {
             return space.dependsOn(i, var.atom);
           });
  });
  V buffer = nullptr;
  if (computed && inLoops && !kept.contains(source) &&
      (keepsRowDims(op) || !source.hasOneUse()))
    buffer = rowBuffer(flat.size, computeType(elementOf(source)));
  auto keep = [&](V value, V memory, T element) {
    storeRow(widen(value), rowPlace(memory, element, flat.index));
  };
  // The first pass that reads the operand fills the buffer.
  if (buffer) {
    forRow(flat, computed ? native : 4 * native, [&] {
      keep(pull(source, index), buffer, computeType(elementOf(source)));
    });
    kept[source] = {buffer, index, flat.index};
  }
  V like = b.zero(type);
  if (mlir::isa<nn::ReduceOp>(op)) {
    rowState[op] = reduceFor(op, flat);
  } else if (mlir::isa<nn::ArgReduceOp>(op)) {
    rowState[op] = argReduceFor(op, flat);
  } else if (mlir::isa<nn::SoftmaxOp, nn::LogSoftmaxOp>(op)) {
    V max = reduceRow(
        flat, 4 * native, {extreme(type, false, false)},
        [&] { return State{rowElement(op)}; },
        [&](const State &s, const State &t) {
          return State{b.CreateSelect(b.CreateFCmpOGT(t[0], s[0]), t[0], s[0])};
        })[0];
    V memory =
        mlir::isa<nn::SoftmaxOp>(op) ? rowBuffer(flat.size, type) : nullptr;
    V sum = sumRow(flat, 2 * native, like, [&] {
      V parts[] = {rowElement(op), max};
      widenAll(parts);
      V e = math.expNonPositive(b.CreateFSub(parts[0], parts[1]));
      if (memory)
        keep(e, memory, type);
      return e;
    });
    if (memory)
      keptExp[op] = {memory, rowOperandIndex(op, plan), flat.index};
    if (mlir::isa<nn::SoftmaxOp>(op))
      rowState[op] = {max, b.CreateFDiv(math.constant(sum, 1), sum)};
    else
      rowState[op] = {max, math.log(sum)};
  } else {
    RowElements elements{{b, math, like}, *this, op, flat};
    nn::visitOps(op, [&](auto typed) {
      if constexpr (decltype(typed)::template hasTrait<nn::Norm>())
        rowState[op] = typed.statistics(elements);
      return true;
    });
  }
}

template <typename B>
auto PullEmitter<B>::pullRow(mlir::Operation *op, llvm::ArrayRef<Index> index)
    -> V {
  const State state = rowState.lookup(op);
  if (!keepsRowDims(op))
    return state[0];
  if (auto it = keptExp.find(op);
      it != keptExp.end() && it->second.index == IndexVec(index)) {
    T type = computeType(elementOf(op->getResult(0)));
    V e = loadRow(rowPlace(it->second.buffer, type, it->second.position),
                  vectorOf(type, lanes));
    return b.CreateFMul(e, widen(state[1]));
  }
  V x = pull(op->getOperand(0), index);
  llvm::SmallVector<V> values = {x};
  values.append(state.begin(), state.end());
  IndexVec trailing(index.begin() + rowDims(op).front(), index.end());
  for (mlir::Value operand : op->getOperands().drop_front())
    values.push_back(pull(operand, trailing));
  widenAll(values);
  x = values[0];
  if (mlir::isa<nn::SoftmaxOp>(op))
    return b.CreateFMul(math.expNonPositive(b.CreateFSub(x, values[1])),
                        values[2]);
  if (mlir::isa<nn::LogSoftmaxOp>(op))
    return b.CreateFSub(b.CreateFSub(x, values[1]), values[2]);
  FloatElements<B> elements(b, math, x);
  V result = nullptr;
  nn::visitOps(op, [&](auto typed) {
    if constexpr (decltype(typed)::template hasTrait<nn::Norm>())
      result = typed.onRow(elements, llvm::ArrayRef<V>(values));
    return true;
  });
  return result;
}

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_PULLROWS_H
