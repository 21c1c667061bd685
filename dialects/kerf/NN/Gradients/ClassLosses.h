//===- ClassLosses.h - losses over classes that may be cut ------*- C++ -*-===//
//
// Problem: the loss of a label reads one number of all classes. A gather by
// labels, or a softmax, could not be cut along the classes.
//
// Idea: compare labels with an iota of the classes, select and sum. A cut class
// dimension then costs three reductions of one number per label: the largest
// score (which only shifts and has no gradient), the sum of exponentials, and
// the selected score. The weight of a label is gathered from a table of the
// classes, which fails at run time for labels out of range. Used for --loss and
// for ONNX's losses.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_GRADIENTS_CLASSLOSSES_H
#define KERF_NN_GRADIENTS_CLASSLOSSES_H

#include "kerf/NN/Gradients/GradientBuilder.h"

#include <functional>
#include <optional>

namespace kerf::nn {

class ClassLosses {
public:
  using Value = mlir::Value;
  /// Builds reductions over classes and labels; the default is
  /// GradientBuilder::reduce.
  using Reduce =
      std::function<Value(Value, ReduceKind, llvm::ArrayRef<int64_t>)>;

  /// `scores` has the classes in dimension `dim`; `labels` are i64, of the
  /// other dimensions.
  ClassLosses(mlir::OpBuilder &builder, mlir::Location loc, Value scores,
              Value labels, int64_t dim, std::optional<int64_t> ignoreIndex,
              Reduce reduce = {});

  int64_t numClasses() const { return classes; }
  /// x minus its maximum over the classes.
  Value shifted(Value x);
  /// log sum exp over the classes of a result of shifted(), per label.
  Value logSum(Value shifted);
  Value sumOverClasses(Value x);
  /// Adds the class dimension, of size 1, to one number per label.
  Value column(Value perLabel);
  /// One number per class, to be broadcast over the labels.
  Value alongClasses(Value perClass);
  /// x at the label, per label.
  Value picked(Value x);
  /// Zero where a label is ignored. A select, since an ignored value may be
  /// infinite.
  Value zeroIgnored(Value perLabel);
  /// The weight of each label: `table` (per class; null: ones) at the label, 0
  /// where it is ignored. It has no gradient. A label out of range is an error
  /// at run time that names the op.
  Value weights(Value table);
  Value sumAll(Value x);
  /// sum / count, NaN if the count is 0: the divisor is then NaN and never 0,
  /// so that each micro-batch may divide its part of the sum.
  Value mean(Value sum, Value count);

private:
  Value integer(int64_t value);
  Value constant(llvm::ArrayRef<int64_t> shape, mlir::Attribute element);

  mlir::OpBuilder &builder;
  GradientBuilder b;
  Reduce reduce;
  Value labels, hit;
  int64_t dim, classes;
  llvm::SmallVector<int64_t> columnShape;
  std::optional<int64_t> ignoreIndex;
};

} // namespace kerf::nn

#endif // KERF_NN_GRADIENTS_CLASSLOSSES_H
