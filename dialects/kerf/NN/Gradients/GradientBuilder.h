//===- GradientBuilder.h - builds vector-Jacobian products ------*- C++ -*-===//
//
// Short names for the nn ops that the Gradients*.cpp files use. Scalars
// broadcast, so code reads like the formula.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_GRADIENTS_GRADIENTBUILDER_H
#define KERF_NN_GRADIENTS_GRADIENTBUILDER_H

#include "kerf/NN/NN.h"

namespace kerf::nn {

using Gradients = mlir::FailureOr<llvm::SmallVector<mlir::Value>>;

/// Whether a gradient to this value is of use: the value is a float, has
/// elements and is not a literal.
bool isDifferentiable(mlir::Value value);

class GradientBuilder {
public:
  using Value = mlir::Value;
  using Dims = llvm::ArrayRef<int64_t>;

  GradientBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(builder, loc, std::forward<Args>(args)...)->getResult(0);
  }

  Value add(Value a, Value b) { return make<AddOp>(a, b); }
  Value sub(Value a, Value b) { return make<SubOp>(a, b); }
  Value mul(Value a, Value b) { return make<MulOp>(a, b); }
  Value div(Value a, Value b) { return make<DivOp>(a, b); }
  Value add(Value a, double b) { return add(a, number(b, a)); }
  Value sub(double a, Value b) { return sub(number(a, b), b); }
  Value mul(Value a, double b) { return mul(a, number(b, a)); }
  Value neg(Value a) { return make<NegOp>(a); }
  Value exp(Value a) { return make<ExpOp>(a); }
  Value rsqrt(Value a) { return make<RsqrtOp>(a); }
  Value square(Value a) { return mul(a, a); }
  Value less(Value a, Value b) { return make<LessOp>(a, b); }
  Value equal(Value a, Value b) { return make<EqualOp>(a, b); }
  Value select(Value c, Value a, Value b) { return make<SelectOp>(c, a, b); }
  /// a where the condition holds, else zero; and the reverse.
  Value keepWhere(Value c, Value a) { return select(c, a, number(0, a)); }
  Value zeroWhere(Value c, Value a) { return select(c, number(0, a), a); }

  /// A scalar of the element type of `like`.
  Value number(double value, Value like);

  Value reshape(Value x, Dims shape);
  Value transpose(Value x, Dims perm);
  Value broadcast(Value x, Dims shape);
  Value slice(Value x, Dims starts, Dims sizes, Dims strides);
  /// Pads with zeros.
  Value pad(Value x, Dims low, Dims high);
  Value reduce(Value x, ReduceKind kind, Dims dims);
  /// Reduced dimensions stay with size 1.
  Value sumKeep(Value x, Dims dims);
  /// Adds the dimensions `dims` of `x` to `y`, which lacks them, with size 1.
  Value restore(Value y, Value x, Dims dims);
  /// The gradient of a value that was broadcast: summed to the shape of `like`.
  Value unbroadcast(Value gradient, Value like);

  /// Narrow floats cast to f32, for formulas with several roundings.
  Value widen(Value x);
  /// The element type of `like`.
  Value castLike(Value x, Value like);

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace kerf::nn

#endif // KERF_NN_GRADIENTS_GRADIENTBUILDER_H
