//===- LossRules.cpp - the losses -----------------------------------------===//
//
// See LossRules.h.
//
//===----------------------------------------------------------------------===//
#include "LossRules.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;
using nn::GradientBuilder;

/// With smoothing e the label is 1 - e of itself and e of all classes alike,
/// each of which counts by its own weight.
static Value crossEntropy(GradientBuilder &b, const LossSpec &spec, Value x,
                          Value table, nn::ClassLosses &parts) {
  Value shifted = parts.shifted(x), log = parts.logSum(shifted);
  Value perLabel = b.sub(log, parts.picked(shifted));
  if (table)
    perLabel = b.mul(perLabel, parts.weights(table));
  if (double e = spec.option("label_smoothing"); e > 0) {
    auto classes = static_cast<double>(parts.numClasses());
    double sum = classes;
    Value all = shifted;
    if (table) {
      sum = 0;
      for (double weight : spec.classWeights)
        sum += weight;
      all = b.mul(all, parts.alongClasses(table));
    }
    Value mean = b.mul(parts.sumOverClasses(all), 1.0 / classes);
    Value part = sum == classes ? log : b.mul(log, sum / classes);
    perLabel = b.add(b.mul(perLabel, 1 - e), b.mul(b.sub(part, mean), e));
  }
  return perLabel;
}

/// Of log-probabilities.
static Value negativeLogLikelihood(GradientBuilder &b, const LossSpec &,
                                   Value x, Value table,
                                   nn::ClassLosses &parts) {
  Value perLabel = b.neg(parts.picked(x));
  return table ? b.mul(perLabel, parts.weights(table)) : perLabel;
}

static Value squaredError(GradientBuilder &b, const LossSpec &, Value x,
                          Value target) {
  return b.square(b.sub(x, target));
}

static Value absoluteError(GradientBuilder &b, const LossSpec &, Value x,
                           Value target) {
  return b.make<nn::AbsOp>(b.sub(x, target));
}

/// Quadratic up to delta, linear with slope delta beyond.
static Value huber(GradientBuilder &b, const LossSpec &spec, Value x,
                   Value target) {
  double delta = spec.option("delta");
  Value error = b.sub(x, target), size = b.make<nn::AbsOp>(error);
  return b.select(b.less(size, b.number(delta, size)),
                  b.mul(b.square(error), 0.5),
                  b.mul(b.add(size, -delta / 2), delta));
}

/// max(x, 0) - x t + log(1 + exp(-|x|)). At x = 0 the gradients of max and |x|
/// give 1/2 - t, the derivative of the whole.
static Value binaryCrossEntropy(GradientBuilder &b, const LossSpec &, Value x,
                                Value target) {
  Value positive = b.make<nn::MaxOp>(x, b.number(0, x));
  Value tail = b.exp(b.neg(b.make<nn::AbsOp>(x)));
  return b.add(b.sub(positive, b.mul(x, target)), b.make<nn::Log1pOp>(tail));
}

static constexpr NumberOption kCrossEntropy[] = {{"label_smoothing", 0, 0, 1}};
static constexpr NumberOption kHuber[] = {{"delta", 1, 1e-6, 1e6}};

static constexpr LossRule kLosses[] = {
    {"cross_entropy", nullptr, crossEntropy, kCrossEntropy, "logits"},
    {"nll", nullptr, negativeLogLikelihood, {}, "log-probabilities"},
    {"mse", squaredError},
    {"l1", absoluteError},
    {"bce_with_logits", binaryCrossEntropy, nullptr, {}, "logits"},
    {"huber", huber, nullptr, kHuber},
    {kOutputLoss},
};

llvm::ArrayRef<LossRule> kerf::autodiff::lossRules() { return kLosses; }

const LossRule *kerf::autodiff::findLoss(llvm::StringRef name) {
  for (const LossRule &rule : kLosses)
    if (rule.name == name)
      return &rule;
  return nullptr;
}
