//===- VectorMath.h - functions as polynomials ------------------*- C++ -*-===//
//
// Problem: program.so may call nothing, and a call per element would be slow.
//
// Idea: every function is a branch-free expression of adds, multiplies, shifts
// and selects on a value of any width: scalar or vector, f32 or f64, over any
// builder (Builder.h). Kernels for GPUs compute the same expressions.
// Coefficients were fitted at Chebyshev nodes in 60 digits.
//
// Invariant: errors are at most 6 units in the last place in f32 and 4 in f64
// (unittests/Codegen/MathTest.cpp); NaN gives NaN, infinities and zeros give
// the results of libm. exp flushes results below the smallest normal number to
// zero. sin and cos are accurate for |x| < 2^30.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_VECTORMATH_H
#define KERF_LOWER_CODEGEN_VECTORMATH_H

#include "Builder.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/Intrinsics.h"

namespace kerf::codegen {

template <typename B> class VectorMathOf {
public:
  using Value = typename B::V;
  using Type = typename B::T;
  explicit VectorMathOf(B &builder) : b(builder) {}

  Value exp(Value x);
  /// For x <= 0 (or NaN), as in softmax: no overflow to take care of.
  Value expNonPositive(Value x);
  Value log(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value sin(Value x) { return sinCos(x, false); }
  Value cos(Value x) { return sinCos(x, true); }
  Value pow(Value x, Value y);
  Value sigmoid(Value x);
  /// x - trunc(x / y) y, or with floor.
  Value remainder(Value x, Value y, bool floor);

  /// NaN if either is.
  Value maximum(Value x, Value y);
  Value minimum(Value x, Value y);
  Value unary(llvm::Intrinsic::ID id, Value x);
  Value mulAdd(Value x, Value y, Value z);
  /// A constant of the type (and width) of `like`.
  Value constant(Value like, double value);

private:
  Value polynomial(Value x, llvm::ArrayRef<double> ascending);
  Value expImpl(Value x, bool nonPositive);
  Value erf64(Value x);
  Value withinOne(Value x);
  Value sinCos(Value x, bool cosine);
  Value select(Value condition, Value a, Value b_);
  Type integerType(Type type, unsigned bits) {
    return b.withElement(type, b.getIntNTy(bits));
  }
  bool isDouble(Value x) { return b.isDouble(b.typeOf(x)); }

  B &b;
};

using VectorMath = VectorMathOf<LlvmBuilder>;

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_VECTORMATH_H
