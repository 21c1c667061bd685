//===- Elementwise.cpp - elementwise ops on scalars and vectors -----------===//
//
// Operands arrive in compute types, all scalars or all vectors of one width.
// Arithmetic may be contracted into fused multiply-adds; nothing else is
// relaxed.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"

#include "kerf/NN/NN.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace llvm;

namespace kerf::codegen {

KernelEmitter::V KernelEmitter::elementwise(mlir::Operation *op,
                                            MutableArrayRef<V> operands) {
  if (mlir::isa<nn::SelectOp>(op))
    return b.CreateSelect(operands[0], operands[1], operands[2]);
  if (mlir::isa<nn::CastOp>(op))
    return convert(operands[0], elementOf(op->getOperand(0)),
                   elementOf(op->getResult(0)));
  if (auto philox = mlir::dyn_cast<nn::PhiloxOp>(op))
    return philoxUniform(philox.getStream(), operands);
  mlir::Type element = elementOf(op->getOperand(0));
  if (mlir::isa<mlir::FloatType>(element)) {
    IRBuilder<>::FastMathFlagGuard guard(b);
    FastMathFlags flags;
    flags.setAllowContract();
    b.setFastMathFlags(flags);
    return elementwiseFloat(op, operands);
  }
  return elementwiseInteger(op, operands);
}

/// Philox4x32-10 in lanes of 64 bits whose upper halves are zero, so that a
/// product of two words is one instruction.
KernelEmitter::V KernelEmitter::philoxUniform(uint64_t stream,
                                              ArrayRef<V> operands) {
  Type *type = operands[0]->getType();
  auto constant = [&](uint64_t value) { return ConstantInt::get(type, value); };
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
  Type *word = b.getInt32Ty(), *real = b.getFloatTy();
  if (auto *vector = llvm::dyn_cast<FixedVectorType>(type)) {
    word = vectorOf(word, vector->getNumElements());
    real = vectorOf(real, vector->getNumElements());
  }
  V bits = b.CreateTrunc(b.CreateLShr(counter[0], constant(8)), word);
  V number = b.CreateSIToFP(bits, real);
  return b.CreateFMul(number, math.constant(number, 0x1p-24));
}

/// x^c without logarithms, null if c is not special.
KernelEmitter::V KernelEmitter::powConstant(V x, double exponent) {
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
  return constant.getElements().getSplatValue<APFloat>().convertToDouble();
}

KernelEmitter::V KernelEmitter::elementwiseFloat(mlir::Operation *op,
                                                 ArrayRef<V> in) {
  V x = in[0], y = in.size() > 1 ? in[1] : nullptr;
  auto constant = [&](double value) { return math.constant(x, value); };
  // Polynomials need their exact order.
  auto strict = [&](auto function) {
    IRBuilder<>::FastMathFlagGuard guard(b);
    b.clearFastMathFlags();
    return function();
  };
  auto compare = [&](CmpInst::Predicate predicate) {
    return b.CreateFCmp(predicate, x, y);
  };
  using mlir::Operation;
  return TypeSwitch<Operation *, V>(op)
      .Case<nn::NegOp>([&](auto) { return b.CreateFNeg(x); })
      .Case<nn::AbsOp>([&](auto) { return math.unary(Intrinsic::fabs, x); })
      .Case<nn::SignOp>([&](auto) {
        V positive = b.CreateFCmpOGT(x, constant(0));
        V negative = b.CreateFCmpOLT(x, constant(0));
        return b.CreateSelect(positive, constant(1),
                              b.CreateSelect(negative, constant(-1), x));
      })
      .Case<nn::ExpOp>(
          [&](auto) { return strict([&] { return math.exp(x); }); })
      .Case<nn::LogOp>(
          [&](auto) { return strict([&] { return math.log(x); }); })
      .Case<nn::SqrtOp>([&](auto) { return math.unary(Intrinsic::sqrt, x); })
      .Case<nn::RsqrtOp>([&](auto) {
        return b.CreateFDiv(constant(1), math.unary(Intrinsic::sqrt, x));
      })
      .Case<nn::ReciprocalOp>(
          [&](auto) { return b.CreateFDiv(constant(1), x); })
      .Case<nn::ErfOp>(
          [&](auto) { return strict([&] { return math.erf(x); }); })
      .Case<nn::TanhOp>(
          [&](auto) { return strict([&] { return math.tanh(x); }); })
      .Case<nn::SigmoidOp>(
          [&](auto) { return strict([&] { return math.sigmoid(x); }); })
      .Case<nn::SinOp>(
          [&](auto) { return strict([&] { return math.sin(x); }); })
      .Case<nn::CosOp>(
          [&](auto) { return strict([&] { return math.cos(x); }); })
      .Case<nn::FloorOp>([&](auto) { return math.unary(Intrinsic::floor, x); })
      .Case<nn::CeilOp>([&](auto) { return math.unary(Intrinsic::ceil, x); })
      .Case<nn::RoundOp>(
          [&](auto) { return math.unary(Intrinsic::roundeven, x); })
      .Case<nn::ReluOp>([&](auto) {
        // NaN stays.
        return b.CreateSelect(b.CreateFCmpOLT(x, constant(0)), constant(0), x);
      })
      .Case<nn::GeluOp>([&](nn::GeluOp gelu) {
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
        V product = b.CreateFMul(x, s);
        // -infinity times 0.
        return b.CreateSelect(b.CreateFCmpOEQ(x, constant(-INFINITY)),
                              constant(0), product);
      })
      .Case<nn::IsNaNOp>([&](auto) { return b.CreateFCmpUNO(x, x); })
      .Case<nn::AddOp>([&](auto) { return b.CreateFAdd(x, y); })
      .Case<nn::SubOp>([&](auto) { return b.CreateFSub(x, y); })
      .Case<nn::MulOp>([&](auto) { return b.CreateFMul(x, y); })
      .Case<nn::DivOp>([&](auto) { return b.CreateFDiv(x, y); })
      .Case<nn::ModOp>([&](auto) {
        return strict([&] { return math.remainder(x, y, true); });
      })
      .Case<nn::RemOp>([&](auto) {
        return strict([&] { return math.remainder(x, y, false); });
      })
      .Case<nn::PowOp>([&](nn::PowOp pow) {
        if (auto exponent = splatValue(pow.getRhs()))
          if (V special = powConstant(x, *exponent))
            return special;
        return strict([&] { return math.pow(x, y); });
      })
      .Case<nn::MaxOp>([&](auto) { return math.maximum(x, y); })
      .Case<nn::MinOp>([&](auto) { return math.minimum(x, y); })
      .Case<nn::EqualOp>([&](auto) { return compare(CmpInst::FCMP_OEQ); })
      .Case<nn::LessOp>([&](auto) { return compare(CmpInst::FCMP_OLT); })
      .Case<nn::LessEqualOp>([&](auto) { return compare(CmpInst::FCMP_OLE); })
      .Case<nn::BatchNormOp>([&](nn::BatchNormOp norm) {
        V deviation = math.unary(
            Intrinsic::sqrt,
            b.CreateFAdd(in[4], constant(norm.getEpsilon().convertToDouble())));
        V factor = b.CreateFDiv(in[1], deviation);
        return math.mulAdd(b.CreateFSub(x, in[3]), factor, in[2]);
      });
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

KernelEmitter::V KernelEmitter::integerDivision(mlir::Operation *op,
                                                ArrayRef<V> in) {
  V x = in[0], y = in[1];
  mlir::Type element = elementOf(op->getOperand(0));
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  Type *type = x->getType();
  V zero = Constant::getNullValue(type), one = ConstantInt::get(type, 1);
  if (!isNonZeroConstant(op->getOperand(1))) {
    // The hardware traps on both: division by zero and the one overflow.
    V bad = b.CreateICmpEQ(y, zero);
    V detail = b.getInt64(0);
    failIf(bad, detail, 2);
    y = b.CreateSelect(bad, one, y);
  }
  V minusOne = nullptr;
  if (!isUnsigned) {
    minusOne = b.CreateICmpEQ(y, Constant::getAllOnesValue(type));
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

KernelEmitter::V KernelEmitter::integerPower(V base, V exponent,
                                             bool isUnsigned) {
  Type *type = base->getType();
  auto constant = [&](int64_t value) {
    return ConstantInt::get(type, value, true);
  };
  V negative = isUnsigned ? ConstantInt::getFalse(type)
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

KernelEmitter::V KernelEmitter::elementwiseInteger(mlir::Operation *op,
                                                   ArrayRef<V> in) {
  V x = in[0], y = in.size() > 1 ? in[1] : nullptr;
  mlir::Type element = elementOf(op->getOperand(0));
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  V zero = Constant::getNullValue(x->getType());
  auto choose = [&](CmpInst::Predicate forSigned,
                    CmpInst::Predicate forUnsigned) {
    return b.CreateICmp(isUnsigned ? forUnsigned : forSigned, x, y);
  };
  using mlir::Operation;
  return TypeSwitch<Operation *, V>(op)
      .Case<nn::NegOp>([&](auto) { return b.CreateNeg(x); })
      .Case<nn::AbsOp>([&](auto) {
        return isUnsigned
                   ? x
                   : b.CreateBinaryIntrinsic(Intrinsic::abs, x, b.getFalse());
      })
      .Case<nn::SignOp>([&](auto) {
        V one = ConstantInt::get(x->getType(), 1);
        if (isUnsigned)
          return b.CreateSelect(b.CreateICmpNE(x, zero), one, zero);
        V minus = Constant::getAllOnesValue(x->getType());
        return b.CreateSelect(
            b.CreateICmpSGT(x, zero), one,
            b.CreateSelect(b.CreateICmpSLT(x, zero), minus, zero));
      })
      .Case<nn::ReluOp>([&](auto) {
        return isUnsigned ? x
                          : b.CreateBinaryIntrinsic(Intrinsic::smax, x, zero);
      })
      .Case<nn::NotOp>([&](auto) { return b.CreateNot(x); })
      .Case<nn::AddOp>([&](auto) { return b.CreateAdd(x, y); })
      .Case<nn::SubOp>([&](auto) { return b.CreateSub(x, y); })
      .Case<nn::MulOp>([&](auto) { return b.CreateMul(x, y); })
      .Case<nn::DivOp, nn::ModOp, nn::RemOp>(
          [&](auto) { return integerDivision(op, in); })
      .Case<nn::PowOp>([&](auto) { return integerPower(x, y, isUnsigned); })
      .Case<nn::MaxOp>([&](auto) {
        return b.CreateBinaryIntrinsic(
            isUnsigned ? Intrinsic::umax : Intrinsic::smax, x, y);
      })
      .Case<nn::MinOp>([&](auto) {
        return b.CreateBinaryIntrinsic(
            isUnsigned ? Intrinsic::umin : Intrinsic::smin, x, y);
      })
      .Case<nn::AndOp>([&](auto) { return b.CreateAnd(x, y); })
      .Case<nn::OrOp>([&](auto) { return b.CreateOr(x, y); })
      .Case<nn::XorOp>([&](auto) { return b.CreateXor(x, y); })
      .Case<nn::EqualOp>([&](auto) { return b.CreateICmpEQ(x, y); })
      .Case<nn::LessOp>(
          [&](auto) { return choose(CmpInst::ICMP_SLT, CmpInst::ICMP_ULT); })
      .Case<nn::LessEqualOp>(
          [&](auto) { return choose(CmpInst::ICMP_SLE, CmpInst::ICMP_ULE); });
}

KernelEmitter::V KernelEmitter::convert(V value, mlir::Type from,
                                        mlir::Type to) {
  Type *type = computeType(to);
  if (auto *vector = llvm::dyn_cast<FixedVectorType>(value->getType()))
    type = vectorOf(type, vector->getNumElements());
  bool fromFloat = mlir::isa<mlir::FloatType>(from);
  bool toFloat = mlir::isa<mlir::FloatType>(to);
  bool fromUnsigned = from.isUnsignedInteger() || from.isInteger(1);
  V zero = Constant::getNullValue(value->getType());
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
