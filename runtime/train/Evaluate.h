//===- Evaluate.h - the model on data that it is not trained on -*- C++ -*-===//
//
// The model as inference (no Dropout, BatchNorm with its running statistics) is
// a package of its own on one rank. Each evaluation takes the weights from the
// training session, starts a session with them instead of the file's, runs all
// of the data once, in order, and ends it: weights are packed as inference
// packs them, and nothing stays in memory between evaluations.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_EVALUATE_H
#define KERF_RT_TRAIN_EVALUATE_H

#include "Data.h"
#include "Metrics.h"
#include "Weights.h"

namespace kerf::rt {

class Evaluator {
public:
  /// `labels`: what the training step calls so, with their shapes. Throws where
  /// package, data and loss do not fit.
  /// `ranks` of the training session, whose threads it may use.
  Evaluator(const TrainOptions &options, const std::vector<DataInput> &labels,
            int32_t ranks);
  ~Evaluator();
  Evaluator(const Evaluator &) = delete;
  Evaluator &operator=(const Evaluator &) = delete;

  Metrics evaluate(const Weights &weights, kerf_session_t *training);

private:
  void addBatch(kerf_session_t *session, int64_t index, Metrics &metrics);

  const TrainOptions &options;
  int32_t ranks;
  kerf_package_t *package = nullptr;
  int32_t output = -1;
  int64_t batch = 0;
  bool isWhole = false; ///< a batch that is not filled is left out
  size_t numInputs = 0;
  std::vector<DataInput> inputs; ///< of the package, then labels
  Samples samples;
  std::vector<std::vector<char>> buffers; ///< as inputs
};

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_EVALUATE_H
