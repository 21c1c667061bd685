//===- PullElementwise.h - elementwise ops ----------------------*- C++ -*-===//
//
// Operands arrive in compute types, all scalars or all vectors of one width.
// Arithmetic may be contracted into fused multiply-adds; nothing else is
// relaxed.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_PULLELEMENTWISE_H
#define KERF_LOWER_CODEGEN_PULLELEMENTWISE_H

#include "PullEmitter.h"

#include "kerf/NN/NN.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

namespace kerf::codegen {

/// Of two numbers. LLVM (22.1) takes `x > 0 ? x : 0` for x where x is itself
/// `y < 0 ? 0 : y`, as if no y were NaN; it does so for other bounds as well. A
/// fence, which is no instruction, keeps it from seeing one in the other.
template <typename B>
auto PullEmitter<B>::selectNumber(V condition, V x, V y) -> V {
  return b.CreateUnaryIntrinsic(llvm::Intrinsic::arithmetic_fence,
                                b.CreateSelect(condition, x, y));
}

template <typename B>
auto PullEmitter<B>::elementwise(mlir::Operation *op,
                                 llvm::MutableArrayRef<V> operands) -> V {
  if (mlir::isa<nn::SelectOp>(op)) {
    if (mlir::isa<mlir::FloatType>(elementOf(op->getResult(0))))
      return selectNumber(operands[0], operands[1], operands[2]);
    return b.CreateSelect(operands[0], operands[1], operands[2]);
  }
  if (mlir::isa<nn::CastOp>(op))
    return convert(operands[0], elementOf(op->getOperand(0)),
                   elementOf(op->getResult(0)));
  if (auto philox = mlir::dyn_cast<nn::PhiloxOp>(op))
    return philoxUniform(philox.getStream(), operands);
  mlir::Type element = elementOf(op->getOperand(0));
  if (mlir::isa<mlir::FloatType>(element)) {
    bool before = b.isContract();
    b.setContract(true);
    V result = elementwiseFloat(op, operands);
    b.setContract(before);
    return result;
  }
  return elementwiseInteger(op, operands);
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

/// x^c without logarithms, null if c is not special.
template <typename B>
auto PullEmitter<B>::powConstant(V x, double exponent) -> V {
  if (exponent == 0)
    return math.constant(x, 1);
  if (exponent == 1)
    return x;
  if (exponent == 2)
    return b.CreateFMul(x, x);
  if (exponent == 3)
    return b.CreateFMul(b.CreateFMul(x, x), x);
  if (exponent == 4) {
    V square = b.CreateFMul(x, x);
    return b.CreateFMul(square, square);
  }
  if (exponent == -1)
    return b.CreateFDiv(math.constant(x, 1), x);
  if (exponent == -2)
    return b.CreateFDiv(math.constant(x, 1), b.CreateFMul(x, x));
  return nullptr;
}

static std::optional<double> splatValue(mlir::Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  if (!constant || !constant.getElements().isSplat() ||
      !mlir::isa<mlir::FloatType>(elementOf(value)))
    return std::nullopt;
  return constant.getElements()
      .getSplatValue<llvm::APFloat>()
      .convertToDouble();
}

template <typename B>
auto PullEmitter<B>::elementwiseFloat(mlir::Operation *op, llvm::ArrayRef<V> in)
    -> V {
  V x = in[0], y = in.size() > 1 ? in[1] : nullptr;
  auto constant = [&](double value) { return math.constant(x, value); };
  // Polynomials need their exact order.
  auto strict = [&](auto function) {
    bool before = b.isContract();
    b.setContract(false);
    V result = function();
    b.setContract(before);
    return result;
  };
  auto compare = [&](llvm::CmpInst::Predicate predicate) {
    return b.CreateFCmp(predicate, x, y);
  };
  using mlir::Operation;
  return llvm::TypeSwitch<Operation *, V>(op)
      .template Case<nn::NegOp>([&](auto) { return b.CreateFNeg(x); })
      .template Case<nn::AbsOp>(
          [&](auto) { return math.unary(llvm::Intrinsic::fabs, x); })
      .template Case<nn::SignOp>([&](auto) {
        V positive = b.CreateFCmpOGT(x, constant(0));
        V negative = b.CreateFCmpOLT(x, constant(0));
        return b.CreateSelect(positive, constant(1),
                              b.CreateSelect(negative, constant(-1), x));
      })
      .template Case<nn::ExpOp>(
          [&](auto) { return strict([&] { return math.exp(x); }); })
      .template Case<nn::LogOp>(
          [&](auto) { return strict([&] { return math.log(x); }); })
      .template Case<nn::SqrtOp>(
          [&](auto) { return math.unary(llvm::Intrinsic::sqrt, x); })
      .template Case<nn::RsqrtOp>([&](auto) {
        return b.CreateFDiv(constant(1), math.unary(llvm::Intrinsic::sqrt, x));
      })
      .template Case<nn::ReciprocalOp>(
          [&](auto) { return b.CreateFDiv(constant(1), x); })
      .template Case<nn::ErfOp>(
          [&](auto) { return strict([&] { return math.erf(x); }); })
      .template Case<nn::TanhOp>(
          [&](auto) { return strict([&] { return math.tanh(x); }); })
      .template Case<nn::SigmoidOp>(
          [&](auto) { return strict([&] { return math.sigmoid(x); }); })
      .template Case<nn::SinOp>(
          [&](auto) { return strict([&] { return math.sin(x); }); })
      .template Case<nn::CosOp>(
          [&](auto) { return strict([&] { return math.cos(x); }); })
      .template Case<nn::FloorOp>(
          [&](auto) { return math.unary(llvm::Intrinsic::floor, x); })
      .template Case<nn::CeilOp>(
          [&](auto) { return math.unary(llvm::Intrinsic::ceil, x); })
      .template Case<nn::RoundOp>(
          [&](auto) { return math.unary(llvm::Intrinsic::roundeven, x); })
      .template Case<nn::ReluOp>([&](auto) {
        // NaN stays.
        return selectNumber(b.CreateFCmpOLT(x, constant(0)), constant(0), x);
      })
      .template Case<nn::GeluOp>([&](nn::GeluOp gelu) {
        if (!gelu.getTanh()) {
          V e = strict([&] {
            return math.erf(b.CreateFMul(x, constant(std::sqrt(0.5))));
          });
          return b.CreateFMul(b.CreateFMul(x, constant(0.5)),
                              b.CreateFAdd(e, constant(1)));
        }
        // 1/2 (1 + tanh u) = sigmoid(2u).
        double scale = 2 * std::sqrt(2 / M_PI);
        V inner = math.mulAdd(b.CreateFMul(x, x), constant(0.044715 * scale),
                              constant(scale));
        V s = strict([&] { return math.sigmoid(b.CreateFMul(x, inner)); });
        return b.CreateFMul(x, s);
      })
      .template Case<nn::IsNaNOp>([&](auto) { return b.CreateFCmpUNO(x, x); })
      .template Case<nn::AddOp>([&](auto) { return b.CreateFAdd(x, y); })
      .template Case<nn::SubOp>([&](auto) { return b.CreateFSub(x, y); })
      .template Case<nn::MulOp>([&](auto) { return b.CreateFMul(x, y); })
      .template Case<nn::DivOp>([&](auto) { return b.CreateFDiv(x, y); })
      .template Case<nn::ModOp>([&](auto) {
        return strict([&] { return math.remainder(x, y, true); });
      })
      .template Case<nn::RemOp>([&](auto) {
        return strict([&] { return math.remainder(x, y, false); });
      })
      .template Case<nn::PowOp>([&](nn::PowOp pow) {
        if (auto exponent = splatValue(pow.getRhs()))
          if (V special = powConstant(x, *exponent))
            return special;
        return strict([&] { return math.pow(x, y); });
      })
      .template Case<nn::MaxOp>([&](auto) { return math.maximum(x, y); })
      .template Case<nn::MinOp>([&](auto) { return math.minimum(x, y); })
      .template Case<nn::EqualOp>(
          [&](auto) { return compare(llvm::CmpInst::FCMP_OEQ); })
      .template Case<nn::LessOp>(
          [&](auto) { return compare(llvm::CmpInst::FCMP_OLT); })
      .template Case<nn::LessEqualOp>(
          [&](auto) { return compare(llvm::CmpInst::FCMP_OLE); })
      .template Case<nn::BatchNormOp>([&](nn::BatchNormOp norm) {
        V deviation = math.unary(
            llvm::Intrinsic::sqrt,
            b.CreateFAdd(in[4], constant(norm.getEpsilon().convertToDouble())));
        V factor = b.CreateFDiv(in[1], deviation);
        return math.mulAdd(b.CreateFSub(x, in[3]), factor, in[2]);
      });
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

template <typename B>
auto PullEmitter<B>::integerDivision(mlir::Operation *op, llvm::ArrayRef<V> in)
    -> V {
  V x = in[0], y = in[1];
  mlir::Type element = elementOf(op->getOperand(0));
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  T type = b.typeOf(x);
  V zero = b.zero(type), one = b.integer(type, 1);
  if (!isNonZeroConstant(op->getOperand(1))) {
    // The hardware traps on both: division by zero and the one overflow.
    V bad = b.CreateICmpEQ(y, zero);
    V detail = b.getInt64(0);
    failIf(bad, detail, 2);
    y = b.CreateSelect(bad, one, y);
  }
  V minusOne = nullptr;
  if (!isUnsigned) {
    minusOne = b.CreateICmpEQ(y, b.integer(type, -1));
    y = b.CreateSelect(minusOne, one, y);
  }
  if (mlir::isa<nn::DivOp>(op)) {
    if (isUnsigned)
      return b.CreateUDiv(x, y);
    V q = b.CreateSDiv(x, y);
    return b.CreateSelect(minusOne, b.CreateNeg(x), q);
  }
  if (isUnsigned)
    return b.CreateURem(x, y);
  // The remainder by -1 is that by 1.
  V r = b.CreateSRem(x, y);
  if (mlir::isa<nn::RemOp>(op))
    return r;
  V opposite = b.CreateICmpSLT(b.CreateXor(r, y), zero);
  V wrong = b.CreateAnd(opposite, b.CreateICmpNE(r, zero));
  return b.CreateSelect(wrong, b.CreateAdd(r, y), r);
}

template <typename B>
auto PullEmitter<B>::integerPower(V base, V exponent, bool isUnsigned) -> V {
  T type = b.typeOf(base);
  auto constant = [&](int64_t value) { return b.integer(type, value); };
  V negative = isUnsigned ? b.integer(b.withElement(type, b.getInt1Ty()), 0)
                          : b.CreateICmpSLT(exponent, constant(0));
  // Beyond 63 only 0 and +-1 do not overflow; they need the parity.
  V odd = b.CreateAnd(exponent, constant(1));
  V large = b.CreateICmpUGT(exponent, constant(63));
  V e = b.CreateSelect(large, b.CreateAdd(odd, constant(62)), exponent);
  V power = base, result = constant(1);
  for (int bit = 0; bit < 6; ++bit) {
    V set = b.CreateICmpNE(b.CreateAnd(e, constant(int64_t(1) << bit)),
                           constant(0));
    result = b.CreateSelect(set, b.CreateMul(result, power), result);
    power = b.CreateMul(power, power);
  }
  // 1 / x^n: 1 for 1, +-1 for -1, else 0.
  V isOne = b.CreateICmpEQ(base, constant(1));
  V isMinusOne = b.CreateICmpEQ(base, constant(-1));
  V sign = b.CreateSelect(b.CreateICmpEQ(odd, constant(1)), constant(-1),
                          constant(1));
  V inverse = b.CreateSelect(isOne, constant(1),
                             b.CreateSelect(isMinusOne, sign, constant(0)));
  return b.CreateSelect(negative, inverse, result);
}

template <typename B>
auto PullEmitter<B>::elementwiseInteger(mlir::Operation *op,
                                        llvm::ArrayRef<V> in) -> V {
  V x = in[0], y = in.size() > 1 ? in[1] : nullptr;
  mlir::Type element = elementOf(op->getOperand(0));
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  V zero = b.zero(b.typeOf(x));
  auto choose = [&](llvm::CmpInst::Predicate forSigned,
                    llvm::CmpInst::Predicate forUnsigned) {
    return b.CreateICmp(isUnsigned ? forUnsigned : forSigned, x, y);
  };
  using mlir::Operation;
  return llvm::TypeSwitch<Operation *, V>(op)
      .template Case<nn::NegOp>([&](auto) { return b.CreateNeg(x); })
      .template Case<nn::AbsOp>([&](auto) {
        return isUnsigned ? x
                          : b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x,
                                                    b.getFalse());
      })
      .template Case<nn::SignOp>([&](auto) {
        V one = b.integer(b.typeOf(x), 1);
        if (isUnsigned)
          return b.CreateSelect(b.CreateICmpNE(x, zero), one, zero);
        V minus = b.integer(b.typeOf(x), -1);
        return b.CreateSelect(
            b.CreateICmpSGT(x, zero), one,
            b.CreateSelect(b.CreateICmpSLT(x, zero), minus, zero));
      })
      .template Case<nn::ReluOp>([&](auto) {
        return isUnsigned
                   ? x
                   : b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, zero);
      })
      .template Case<nn::NotOp>([&](auto) { return b.CreateNot(x); })
      .template Case<nn::AddOp>([&](auto) { return b.CreateAdd(x, y); })
      .template Case<nn::SubOp>([&](auto) { return b.CreateSub(x, y); })
      .template Case<nn::MulOp>([&](auto) { return b.CreateMul(x, y); })
      .template Case<nn::DivOp, nn::ModOp, nn::RemOp>(
          [&](auto) { return integerDivision(op, in); })
      .template Case<nn::PowOp>(
          [&](auto) { return integerPower(x, y, isUnsigned); })
      .template Case<nn::MaxOp>([&](auto) {
        return b.CreateBinaryIntrinsic(
            isUnsigned ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, x, y);
      })
      .template Case<nn::MinOp>([&](auto) {
        return b.CreateBinaryIntrinsic(
            isUnsigned ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, x, y);
      })
      .template Case<nn::AndOp>([&](auto) { return b.CreateAnd(x, y); })
      .template Case<nn::OrOp>([&](auto) { return b.CreateOr(x, y); })
      .template Case<nn::XorOp>([&](auto) { return b.CreateXor(x, y); })
      .template Case<nn::EqualOp>([&](auto) { return b.CreateICmpEQ(x, y); })
      .template Case<nn::LessOp>([&](auto) {
        return choose(llvm::CmpInst::ICMP_SLT, llvm::CmpInst::ICMP_ULT);
      })
      .template Case<nn::LessEqualOp>([&](auto) {
        return choose(llvm::CmpInst::ICMP_SLE, llvm::CmpInst::ICMP_ULE);
      });
}

template <typename B>
auto PullEmitter<B>::convert(V value, mlir::Type from, mlir::Type to) -> V {
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
    // What is stored as f16 is rounded to it here, though computed in f32.
    if (to.getIntOrFloatBitWidth() < 32 && from != to)
      result = fromStorage(toStorage(result, to), to);
    return result;
  }
  if (fromFloat)
    return b.CreateFreeze(to.isUnsignedInteger() ? b.CreateFPToUI(value, type)
                                                 : b.CreateFPToSI(value, type));
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
