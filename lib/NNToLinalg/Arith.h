//===- Arith.h - operations on elements as arith and math ops ---*- C++ -*-===//
//
// What the definitions of nn ops ask for (kerf/NN/IR/Elements.h), as ops on
// scalars of one type.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_NNTOLINALG_ARITH_H
#define KERF_LIB_NNTOLINALG_ARITH_H

#include "kerf/NN/IR/Elements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace kerf::nntolinalg {

/// On f32 and f64.
class ArithFloats {
public:
  using V = mlir::Value;
  using C = mlir::Value;
  ArithFloats(mlir::OpBuilder &builder, mlir::Location loc,
              mlir::FloatType type)
      : b(builder), loc(loc), type(type) {}

  V number(double value) { return constant(b.getFloatAttr(type, value)); }
  V number(llvm::APFloat value) {
    bool losesInfo;
    value.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                  &losesInfo);
    return constant(b.getFloatAttr(type, value));
  }
  V add(V x, V y) { return make<mlir::arith::AddFOp>(x, y); }
  V sub(V x, V y) { return make<mlir::arith::SubFOp>(x, y); }
  V mul(V x, V y) { return make<mlir::arith::MulFOp>(x, y); }
  V div(V x, V y) { return make<mlir::arith::DivFOp>(x, y); }
  V mulAdd(V x, V y, V z) { return add(mul(x, y), z); }
  V neg(V x) { return make<mlir::arith::NegFOp>(x); }
  V abs(V x) { return make<mlir::math::AbsFOp>(x); }
  V copySign(V x, V y) { return make<mlir::math::CopySignOp>(x, y); }
  V sqrt(V x) { return make<mlir::math::SqrtOp>(x); }
  V floor(V x) { return make<mlir::math::FloorOp>(x); }
  V ceil(V x) { return make<mlir::math::CeilOp>(x); }
  V round(V x) { return make<mlir::math::RoundEvenOp>(x); }
  V max(V x, V y) { return make<mlir::arith::MaximumFOp>(x, y); }
  V min(V x, V y) { return make<mlir::arith::MinimumFOp>(x, y); }
  V rem(V x, V y) { return make<mlir::arith::RemFOp>(x, y); }
  /// The remainder takes the divisor's sign.
  V mod(V x, V y) {
    V rest = rem(x, y), zero = number(0);
    V differs = make<mlir::arith::XOrIOp>(less(rest, zero), less(y, zero));
    V isWrong = make<mlir::arith::AndIOp>(
        differs, compare(mlir::arith::CmpFPredicate::UNE, rest, zero));
    return select(isWrong, add(rest, y), rest);
  }
  V exp(V x) { return make<mlir::math::ExpOp>(x); }
  V log(V x) { return make<mlir::math::LogOp>(x); }
  V erf(V x) { return make<mlir::math::ErfOp>(x); }
  V tanh(V x) { return make<mlir::math::TanhOp>(x); }
  V sigmoid(V x) { return div(number(1), add(number(1), exp(neg(x)))); }
  V sin(V x) { return make<mlir::math::SinOp>(x); }
  V cos(V x) { return make<mlir::math::CosOp>(x); }
  template <typename Constant> V pow(V x, V y, Constant) {
    return make<mlir::math::PowFOp>(x, y);
  }
  C less(V x, V y) { return compare(mlir::arith::CmpFPredicate::OLT, x, y); }
  C lessEqual(V x, V y) {
    return compare(mlir::arith::CmpFPredicate::OLE, x, y);
  }
  C equal(V x, V y) { return compare(mlir::arith::CmpFPredicate::OEQ, x, y); }
  C isNaN(V x) { return compare(mlir::arith::CmpFPredicate::UNO, x, x); }
  V select(C c, V x, V y) {
    return mlir::arith::SelectOp::create(b, loc, c, x, y);
  }
  V selectNumber(C c, V x, V y) { return select(c, x, y); }
  template <typename F> auto exactly(F f) { return f(); }

private:
  template <typename Op> V make(mlir::ValueRange operands) {
    return Op::create(b, loc, operands)->getResult(0);
  }
  template <typename Op> V make(V x) { return Op::create(b, loc, x); }
  template <typename Op> V make(V x, V y) { return Op::create(b, loc, x, y); }
  V constant(mlir::TypedAttr value) {
    return mlir::arith::ConstantOp::create(b, loc, value);
  }
  C compare(mlir::arith::CmpFPredicate how, V x, V y) {
    return mlir::arith::CmpFOp::create(b, loc, how, x, y);
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::FloatType type;
};

/// On signless integers; i1 is unsigned.
class ArithIntegers {
public:
  using V = mlir::Value;
  using C = mlir::Value;
  ArithIntegers(mlir::OpBuilder &builder, mlir::Location loc,
                mlir::IntegerType type)
      : b(builder), loc(loc), type(type), isUnsigned(type.getWidth() == 1) {}

  V number(int64_t value) {
    return mlir::arith::ConstantOp::create(b, loc,
                                           b.getIntegerAttr(type, value));
  }
  V add(V x, V y) { return make<mlir::arith::AddIOp>(x, y); }
  V sub(V x, V y) { return make<mlir::arith::SubIOp>(x, y); }
  V mul(V x, V y) { return make<mlir::arith::MulIOp>(x, y); }
  V neg(V x) { return sub(number(0), x); }
  V abs(V x) { return select(less(x, number(0)), neg(x), x); }
  V sign(V x) {
    V zero = number(0);
    return select(less(zero, x), number(1),
                  select(less(x, zero), number(-1), zero));
  }
  V max(V x, V y) { return select(less(x, y), y, x); }
  V min(V x, V y) { return select(less(y, x), y, x); }
  /// The smallest number by -1, and all by 0, would trap.
  V div(V x, V y) {
    if (isUnsigned)
      return make<mlir::arith::DivUIOp>(x, nonZero(y));
    V isMinusOne = equal(y, number(-1));
    V by = select(isMinusOne, number(1), nonZero(y));
    return select(isMinusOne, neg(x), make<mlir::arith::DivSIOp>(x, by));
  }
  V rem(V x, V y) { return sub(x, mul(div(x, nonZero(y)), nonZero(y))); }
  V mod(V x, V y) {
    V rest = rem(x, y), zero = number(0);
    V differs = make<mlir::arith::XOrIOp>(less(rest, zero), less(y, zero));
    V isWrong = make<mlir::arith::AndIOp>(
        differs, compare(mlir::arith::CmpIPredicate::ne, rest, zero));
    return isUnsigned ? rest : select(isWrong, add(rest, y), rest);
  }
  V pow(V x, V y) { return make<mlir::math::IPowIOp>(x, y); }
  V bitAnd(V x, V y) { return make<mlir::arith::AndIOp>(x, y); }
  V bitOr(V x, V y) { return make<mlir::arith::OrIOp>(x, y); }
  V bitXor(V x, V y) { return make<mlir::arith::XOrIOp>(x, y); }
  V invert(V x) { return bitXor(x, number(-1)); }
  V shiftLeft(V x, V y) {
    V inside = isInside(y);
    return select(inside,
                  make<mlir::arith::ShLIOp>(x, select(inside, y, number(0))),
                  number(0));
  }
  V shiftRight(V x, V y) {
    V inside = isInside(y);
    if (isUnsigned)
      return select(inside,
                    make<mlir::arith::ShRUIOp>(x, select(inside, y, number(0))),
                    number(0));
    return make<mlir::arith::ShRSIOp>(
        x, select(inside, y, number(type.getWidth() - 1)));
  }
  C less(V x, V y) {
    return compare(isUnsigned ? mlir::arith::CmpIPredicate::ult
                              : mlir::arith::CmpIPredicate::slt,
                   x, y);
  }
  C lessEqual(V x, V y) {
    return compare(isUnsigned ? mlir::arith::CmpIPredicate::ule
                              : mlir::arith::CmpIPredicate::sle,
                   x, y);
  }
  C equal(V x, V y) { return compare(mlir::arith::CmpIPredicate::eq, x, y); }
  V select(C c, V x, V y) {
    return mlir::arith::SelectOp::create(b, loc, c, x, y);
  }

private:
  template <typename Op> V make(V x, V y) { return Op::create(b, loc, x, y); }
  C compare(mlir::arith::CmpIPredicate how, V x, V y) {
    return mlir::arith::CmpIOp::create(b, loc, how, x, y);
  }
  V nonZero(V y) { return select(equal(y, number(0)), number(1), y); }
  /// Whether a shift is by less than the width.
  C isInside(V y) {
    return compare(mlir::arith::CmpIPredicate::ult, y, number(type.getWidth()));
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::IntegerType type;
  bool isUnsigned;
};

} // namespace kerf::nntolinalg

#endif // KERF_LIB_NNTOLINALG_ARITH_H
