//===- LossRules.h - the table of losses ------------------------*- C++ -*-===//
//
// A loss is an entry of a table (LossRules.cpp): its options, and its value per
// element or per label. runtime/train/Metrics.cpp has the same losses on the
// host, for evaluation. No other file names a loss.
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_AUTODIFF_LOSSRULES_H
#define KERF_LIB_AUTODIFF_LOSSRULES_H

#include "Specs.h"

#include "kerf/NN/Gradients/ClassLosses.h"
#include "kerf/NN/Gradients/GradientBuilder.h"

namespace kerf::autodiff {

/// A loss that the graph computes itself: the one without a target.
inline constexpr llvm::StringLiteral kOutputLoss = "output";

struct LossRule {
  using Value = mlir::Value;
  llvm::StringLiteral name;
  /// Of a prediction and a target of one shape, element by element.
  Value (*ofElements)(nn::GradientBuilder &b, const LossSpec &spec, Value x,
                      Value target) = nullptr;
  /// Of a prediction with classes in one dimension and class labels, per label.
  /// `table` is the weight of each class, null: 1.
  Value (*ofClasses)(nn::GradientBuilder &b, const LossSpec &spec, Value x,
                     Value table, nn::ClassLosses &parts) = nullptr;
  llvm::ArrayRef<NumberOption> options = {};
  /// What the prediction is to be; what Sigmoid or Softmax gives is none of it.
  const char *expects = nullptr;

  bool isOfClasses() const { return ofClasses != nullptr; }
};

llvm::ArrayRef<LossRule> lossRules();
const LossRule *findLoss(llvm::StringRef name);

} // namespace kerf::autodiff

#endif // KERF_LIB_AUTODIFF_LOSSRULES_H
