//===- ClassLosses.h - losses over classes that may be cut ------*- C++ -*-===//
//
// Problem: the loss of a label is one number among those of all classes. A
// gather by labels, or a softmax, would keep the class dimension whole.
//
// Idea: pick by comparing labels with an iota of the classes and sum; of a cut
// class dimension come three reductions of one number per label (the largest
// score, which only shifts and has no gradient; the sum of exponentials; what
// is picked). What a label counts is read from a table of the classes, which
// fails at run time on labels out of range. Both --loss and ONNX's losses are
// made of this.
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
  /// How reductions over classes and labels are made; the default is
  /// GradientBuilder::reduce.
  using Reduce =
      std::function<Value(Value, ReduceKind, llvm::ArrayRef<int64_t>)>;

  /// `scores` has the classes in dimension `dim`; `labels` are i64, of the
  /// other dimensions.
  ClassLosses(mlir::OpBuilder &builder, mlir::Location loc, Value scores,
              Value labels, int64_t dim, std::optional<int64_t> ignoreIndex,
              Reduce reduce = {});

  int64_t numClasses() const { return classes; }
  /// x minus its largest over the classes.
  Value shifted(Value x);
  /// log sum exp over the classes of what shifted() gave, per label.
  Value logSum(Value shifted);
  Value sumOverClasses(Value x);
  /// One number per label with the class dimension back, of size 1.
  Value column(Value perLabel);
  /// x at the label, per label.
  Value picked(Value x);
  /// Zero where a label is ignored. A select: what is ignored may be infinite.
  Value zeroIgnored(Value perLabel);
  /// What each label counts: `table` (of the classes; null: ones) at the label,
  /// 0 where it is ignored. No gradient goes to it. Another label is an error
  /// of the run that names the op.
  Value weights(Value table);
  Value sumAll(Value x);
  /// sum / count, NaN where nothing counts. The divisor is then NaN and never
  /// 0, so that each micro-batch may divide its part of the sum.
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
