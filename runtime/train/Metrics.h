//===- Metrics.h - loss and accuracy of outputs -----------------*- C++ -*-===//
//
// Evaluation compares the model's output with the labels on the host, in
// double, sample by sample, so that the last, partial batch counts correctly.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_METRICS_H
#define KERF_RT_TRAIN_METRICS_H

#include "../base/Types.h"
#include "kerf/rt/train.h"

namespace kerf::rt {

struct Metrics {
  double lossSum = 0, weight = 0; ///< their quotient is the loss
  int64_t count = 0; ///< elements of the loss: labels that are not ignored
  int64_t correct = 0;
  int64_t samples = 0;
  bool hasAccuracy = false;

  double loss() const { return lossSum / weight; }
  double accuracy() const {
    return static_cast<double>(correct) / static_cast<double>(count);
  }
};

/// A dense tensor of a batch.
struct MetricTensor {
  kerf_dtype_t dtype = KERF_F32;
  Shape shape;
  const char *data = nullptr;
};

/// Adds the first `samples` samples of a batch. Throws KERF_INVALID_ARGUMENT
/// showing both shapes where output and labels do not fit, or a label that is
/// out of range.
void addMetrics(const TrainLoss &loss, const MetricTensor &output,
                const MetricTensor *labels, int64_t samples, Metrics &metrics);

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_METRICS_H
