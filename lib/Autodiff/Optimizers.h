//===- Optimizers.h - the table of optimizers -------------------*- C++ -*-===//
//
// An optimizer is an entry of a table (Optimizers.cpp): its options, and the op
// that computes one step (NNUpdates.td). No other file names an optimizer.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_AUTODIFF_OPTIMIZERS_H
#define KERF_LIB_AUTODIFF_OPTIMIZERS_H

#include "Specs.h"

#include "kerf/NN/Gradients/GradientBuilder.h"

namespace kerf::autodiff {

/// The update of one parameter while it is built.
struct ParameterUpdate {
  const OptimizerSpec &spec;
  nn::GradientBuilder b;
  mlir::OpBuilder &ops;
  mlir::Location loc;
  mlir::Value w, g;
  mlir::Value lr;
  double decay; ///< 0 where the parameter has none
  llvm::function_ref<mlir::Value(llvm::StringRef name, double init)> makeState;
  /// The scalar of this name (StepScalars.h) that the caller sets for each
  /// step; docs/Training.md says what each is.
  llvm::function_ref<mlir::Value(llvm::StringRef name)> scalar;
  /// The states made so far; the op's results are the new parameter, then
  /// these.
  llvm::SmallVector<mlir::Value> states;

  /// A state of the parameter, named after it.
  mlir::Value state(llvm::StringRef name, double init = 0) {
    states.push_back(makeState(name, init));
    return states.back();
  }
  mlir::Type type() { return w.getType(); }
  mlir::FloatAttr real(double value) { return ops.getF64FloatAttr(value); }
  mlir::FloatAttr option(const char *key) { return real(spec.option(key)); }
};

struct OptimizerRule {
  llvm::StringLiteral name;
  llvm::ArrayRef<NumberOption> options;
  mlir::Operation *(*build)(ParameterUpdate &update);
  double learningRate = 1e-3, weightDecay = 0;
  /// What is wrong with the options together; empty: nothing.
  llvm::StringRef (*check)(const OptimizerSpec &spec) = nullptr;
};

llvm::ArrayRef<OptimizerRule> optimizerRules();
const OptimizerRule *findOptimizer(llvm::StringRef name);

} // namespace kerf::autodiff

#endif // KERF_LIB_AUTODIFF_OPTIMIZERS_H
