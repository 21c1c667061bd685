//===- PullElementwise.h - elementwise ops ----------------------*- C++ -*-===//
//
// Each op's definition says what it does to elements. Operands arrive in
// compute types, all scalars or all vectors of one width. Arithmetic may be
// contracted into fused multiply-adds; nothing else is relaxed.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_PULLELEMENTWISE_H
#define KERF_LOWER_CODEGEN_PULLELEMENTWISE_H

#include "Elements.h"
#include "NarrowFloats.h"
#include "PullEmitter.h"

#include "kerf/NN/IR/Elements.h"

namespace kerf::codegen {

template <typename B>
auto PullEmitter<B>::elementwise(mlir::Operation *op,
                                 llvm::MutableArrayRef<V> operands) -> V {
  FloatElements<B> floats(b, math, operands[0]);
  if (mlir::isa<nn::SelectOp>(op)) {
    if (isComputedFloat(elementOf(op->getResult(0))))
      return floats.selectNumber(operands[0], operands[1], operands[2]);
    return b.CreateSelect(operands[0], operands[1], operands[2]);
  }
  if (mlir::isa<nn::CastOp>(op))
    return convert(operands[0], elementOf(op->getOperand(0)),
                   elementOf(op->getResult(0)));
  if (mlir::isa<nn::BitcastOp>(op))
    return bitcast(operands[0], elementOf(op->getOperand(0)),
                   elementOf(op->getResult(0)));
  if (auto philox = mlir::dyn_cast<nn::PhiloxOp>(op))
    return philoxUniform(philox.getStream(), operands);
  if (!mlir::isa<mlir::FloatType>(elementOf(op->getOperand(0))))
    return elementwiseInteger(op, operands);
  bool before = b.isContract();
  b.setContract(true);
  V result = nullptr;
  if (auto norm = mlir::dyn_cast<nn::BatchNormOp>(op))
    result = batchNorm(norm, operands);
  else
    nn::visitOps(op, [&](auto typed) {
      if constexpr (nn::isOnFloats<decltype(typed)>())
        result = typed.onFloats(floats, llvm::ArrayRef<V>(operands));
      return true;
    });
  b.setContract(before);
  return result;
}

template <typename B>
auto PullEmitter<B>::batchNorm(nn::BatchNormOp op, llvm::ArrayRef<V> in) -> V {
  V x = in[0];
  V deviation = math.unary(
      llvm::Intrinsic::sqrt,
      b.CreateFAdd(in[4], math.constant(x, op.getEpsilon().convertToDouble())));
  V factor = b.CreateFDiv(in[1], deviation);
  return math.mulAdd(b.CreateFSub(x, in[3]), factor, in[2]);
}

template <typename B>
auto PullEmitter<B>::elementwiseInteger(mlir::Operation *op,
                                        llvm::ArrayRef<V> in) -> V {
  mlir::Type element = elementOf(op->getOperand(0));
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  // The hardware traps on a division by zero.
  auto nonZero = [&](V y) -> V {
    if (isNonZeroConstant(op->getOperand(1)))
      return y;
    T type = b.typeOf(y);
    V bad = b.CreateICmpEQ(y, b.zero(type));
    V detail = b.getInt64(0);
    failIf(op, bad, detail, 2);
    return b.CreateSelect(bad, b.integer(type, 1), y);
  };
  IntegerElements<B> integers(b, in[0], isUnsigned, nonZero);
  V result = nullptr;
  nn::visitOps(op, [&](auto typed) {
    if constexpr (nn::isOnIntegers<decltype(typed)>())
      result = typed.onIntegers(integers, in);
    return true;
  });
  return result;
}

/// Philox4x32-10 in lanes of 64 bits whose upper halves are zero, so that a
/// product of two words is one instruction.
template <typename B>
auto PullEmitter<B>::philoxUniform(uint64_t stream, llvm::ArrayRef<V> operands)
    -> V {
  T type = b.typeOf(operands[0]);
  auto constant = [&](uint64_t value) { return b.integer(type, value); };
  auto low = [&](V x) { return b.CreateAnd(x, constant(0xffffffff)); };
  auto high = [&](V x) { return b.CreateLShr(x, constant(32)); };
  V counter[] = {low(operands[0]), high(operands[0]), low(operands[2]),
                 constant(stream & 0xffffffff)};
  V key[] = {low(operands[1]), high(operands[1])};
  for (int round = 0; round < 10; ++round) {
    V first = b.CreateMul(counter[0], constant(0xD2511F53));
    V second = b.CreateMul(counter[2], constant(0xCD9E8D57));
    V next0 = b.CreateXor(b.CreateXor(high(second), counter[1]), key[0]);
    V next2 = b.CreateXor(b.CreateXor(high(first), counter[3]), key[1]);
    counter[0] = next0;
    counter[1] = low(second);
    counter[2] = next2;
    counter[3] = low(first);
    key[0] = low(b.CreateAdd(key[0], constant(0x9E3779B9)));
    key[1] = low(b.CreateAdd(key[1], constant(0xBB67AE85)));
  }
  T word = b.withElement(type, b.getInt32Ty());
  T real = b.withElement(type, b.getFloatTy());
  V bits = b.CreateTrunc(b.CreateLShr(counter[0], constant(8)), word);
  V number = b.CreateSIToFP(bits, real);
  return b.CreateFMul(number, math.constant(number, 0x1p-24));
}

/// Where one of two types, or both, is of codes.
template <typename B>
auto PullEmitter<B>::convertNarrow(V value, mlir::Type from, mlir::Type to)
    -> V {
  NarrowFloats<B> floats(b);
  mlir::Builder types(to.getContext());
  T byte = b.withElement(b.typeOf(value), b.getIntNTy(8));
  unsigned unused = 8 - to.getIntOrFloatBitWidth() % 8;
  if (isNarrow(from)) {
    if (from == to)
      return value;
    mlir::Type number = types.getF32Type();
    if (mlir::isa<mlir::FloatType>(from)) {
      value = floats.toFloat(value, from);
    } else {
      unsigned above = 8 - from.getIntOrFloatBitWidth();
      value = b.CreateShl(value, above);
      number = from.isUnsignedInteger() ? types.getIntegerType(8, false)
                                        : types.getI8Type();
      value = from.isUnsignedInteger() ? b.CreateLShr(value, above)
                                       : b.CreateAShr(value, above);
    }
    return convert(value, number, to);
  }
  if (mlir::isa<mlir::FloatType>(to)) {
    if (!mlir::isa<mlir::FloatType>(from))
      value = convert(value, from, types.getF32Type());
    return floats.fromFloat(value, to);
  }
  value = mlir::isa<mlir::FloatType>(from)
              ? convert(value, from, types.getI8Type())
              : b.CreateZExtOrTrunc(value, byte);
  return b.CreateLShr(b.CreateShl(value, unused), unused);
}

template <typename B>
auto PullEmitter<B>::bitcast(V value, mlir::Type from, mlir::Type to) -> V {
  V raw = toStorage(value, from);
  return fromStorage(
      b.CreateBitCast(raw, b.withElement(b.typeOf(raw), storageType(to))), to);
}

template <typename B>
auto PullEmitter<B>::convert(V value, mlir::Type from, mlir::Type to) -> V {
  if (isNarrow(from) || isNarrow(to))
    return convertNarrow(value, from, to);
  T type = b.withElement(b.typeOf(value), computeType(to));
  bool fromFloat = mlir::isa<mlir::FloatType>(from);
  bool toFloat = mlir::isa<mlir::FloatType>(to);
  bool fromUnsigned = from.isUnsignedInteger() || from.isInteger(1);
  V zero = b.zero(b.typeOf(value));
  if (to.isInteger(1))
    return fromFloat ? b.CreateFCmpUNE(value, zero)
                     : b.CreateICmpNE(value, zero);
  if (fromFloat && toFloat) {
    V result = b.CreateFPCast(value, type);
    // A result that is stored as f16 is rounded here, though computed in f32.
    if (to.getIntOrFloatBitWidth() < 32 && from != to)
      result = fromStorage(toStorage(result, to), to);
    return result;
  }
  if (fromFloat) {
    unsigned width = to.getIntOrFloatBitWidth();
    if (width == 64 || (width == 32 && !to.isUnsignedInteger()))
      return b.CreateFreeze(to.isUnsignedInteger()
                                ? b.CreateFPToUI(value, type)
                                : b.CreateFPToSI(value, type));
    // Numbers outside of the type wrap, on every CPU, as those of C compilers
    // and ONNX Runtime do.
    T wide = b.withElement(type, width == 32 ? b.getInt64Ty() : b.getInt32Ty());
    return b.CreateTrunc(b.CreateFreeze(b.CreateFPToSI(value, wide)), type);
  }
  if (!toFloat)
    return fromUnsigned ? b.CreateZExtOrTrunc(value, type)
                        : b.CreateSExtOrTrunc(value, type);
  V result =
      fromUnsigned ? b.CreateUIToFP(value, type) : b.CreateSIToFP(value, type);
  if (to.getIntOrFloatBitWidth() < 32)
    result = fromStorage(toStorage(result, to), to);
  return result;
}

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_PULLELEMENTWISE_H
