//===- RandomOp.h - a random op that has a gradient -------------*- C++ -*-===//
//
// Tests of gradients: one op with random shapes and attributes in a function of
// its operands, in doubles, and its vector-Jacobian product. Every op that says
// it is differentiable is drawn; a new one has to be added to any().
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_NN_RANDOMOP_H
#define KERF_UNITTESTS_NN_RANDOMOP_H

#include "kerf/Interpret/Interpret.h"
#include "kerf/NN/NN.h"

#include <random>
#include <set>
#include <string>

namespace kerf::test {

/// Names of the elementwise ops that have no meaning on floats.
std::set<std::string> opsOnIntegersAlone();

/// Names of the registered ops that are differentiable, but for those that give
/// no gradient (of booleans and integers alone) and nn.dropout, which is
/// expanded before.
std::set<std::string> opsWithGradients(mlir::MLIRContext &context);

class RandomOp {
public:
  RandomOp(mlir::MLIRContext *context, unsigned seed);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp main; ///< the op, of its arguments; no terminator yet
  mlir::Operation *op = nullptr;

  double real(double from, double to) {
    return from + (to - from) * (double(random() % 100000) / 100000);
  }
  /// A value for each argument of @main.
  std::vector<interpret::Tensor> inputs();
  /// Adds an argument for the gradient of the first result (those behind it are
  /// statistics) and a return of the operands' gradients, after the op's own
  /// results if `all`. Gives the operands that have one.
  std::vector<unsigned> differentiate(bool all);

private:
  using Shape = llvm::SmallVector<int64_t>;

  int64_t draw(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % (to - from + 1));
  }
  bool chance() { return draw(0, 1) == 0; }
  Shape shape(int64_t low, int64_t high, int64_t max = 5);
  /// An argument with elements of [from, 2].
  mlir::Value argument(llvm::ArrayRef<int64_t> shape, double from = -2,
                       double to = 2);
  mlir::Value indices(llvm::ArrayRef<int64_t> shape, int64_t size);
  mlir::UnitAttr flag(bool set) {
    return set ? builder.getUnitAttr() : mlir::UnitAttr();
  }
  mlir::DenseI64ArrayAttr list(llvm::ArrayRef<int64_t> values) {
    return builder.getDenseI64ArrayAttr(values);
  }
  template <typename Op, typename... Args>
  mlir::Operation *make(Args &&...args) {
    return Op::create(builder, builder.getUnknownLoc(),
                      std::forward<Args>(args)...);
  }

  mlir::Operation *binary();
  mlir::Operation *select();
  mlir::Operation *unary(unsigned turn);
  mlir::RankedTensorType ofShape(llvm::ArrayRef<int64_t> shape) {
    return mlir::RankedTensorType::get(shape, builder.getF64Type());
  }
  mlir::Operation *reshape();
  mlir::Operation *rearrange();
  mlir::Operation *matmul();

  struct Window {
    Shape kernel, strides, low, high, dilations, image;
  };
  Window window(bool lowPadding = true);
  mlir::Operation *conv();
  mlir::Operation *pool();
  mlir::Operation *slice();
  mlir::Operation *rows();
  mlir::Operation *reduce();
  mlir::Operation *move();
  mlir::Operation *attention();
  /// Kinds of ops, and unary ones among them, take turns: as many seeds draw
  /// each of them.
  mlir::Operation *any(unsigned seed);

  mlir::OpBuilder builder;
  std::mt19937 random;
  mlir::Block *block = nullptr;
  /// From where to where each argument is.
  llvm::SmallVector<std::pair<double, double>> ranges;
  double limit = 0; ///< of integers
};

} // namespace kerf::test

#endif // KERF_UNITTESTS_NN_RANDOMOP_H
