//===- Trainer.h - the loop of training -------------------------*- C++ -*-===//
//
// Opens package, data and checkpoint, runs the steps, writes the requested
// outputs. In a job all processes read the data and run the steps; only rank 0
// evaluates, logs and writes, while the others send it their parts. All errors
// that can be known are refused before the first step; outputs are written
// after the last step, before the last evaluation.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_TRAINER_H
#define KERF_RT_TRAIN_TRAINER_H

#include "../base/Error.h"
#include "Batches.h"
#include "Checkpoints.h"
#include "Evaluate.h"
#include "Progress.h"
#include "kerf/rt/job.h"

#include <limits>
#include <optional>

namespace kerf::rt {

/// Ends the run with an exit code; the message was printed.
struct TrainExit {
  int code;
};

class Trainer {
public:
  /// `isReady` becomes true in front of the first step.
  Trainer(const TrainOptions &options, JobScope &job, std::FILE *out,
          const Messages &err, bool &isReady)
      : options(options), job(job), out(out), err(err), isReady(isReady) {}
  ~Trainer();
  void run();

private:
  void openPackage();
  void openData();
  void createSession();
  void resume();
  bool loadCheckpoint();
  void setScalars();
  /// Of a step in float16: takes notice of an overflow. Throws where the
  /// gradients cannot be had at any scale.
  void updateLossScale(bool finite);
  /// One iteration; the batch's number in the log is state.step + 1.
  void step();
  void checkLabels(const Batch &batch);
  /// Text to add to the error of a step: if an index was out of range, which
  /// sample of the batch has it in an input; empty if none has it.
  std::string sampleOf(const std::string &failure, const Batch &batch) const;
  /// "; sample 3 of D.npz has nan in "x"": the first that is not finite; or
  /// that no label counts.
  std::string notFiniteIn(const Batch &batch) const;
  void evaluate();
  void checkpoint();
  void finish();
  /// Several steps were skipped in a row: throws if a parameter is not finite,
  /// since then all that follow would be.
  void requireFiniteParameters();
  /// A checkpoint during the run: if it cannot be written, the run continues.
  void checkpointOnTheWay();
  /// Writes all requested outputs, the model first; one that cannot be written
  /// does not prevent the others. Throws the first error.
  void writeOutputs();
  void writeMeasurements();
  /// If the model could not be written: saves the run's state elsewhere, now or
  /// when there is room. Throws `error` with that place.
  [[noreturn]] void rescue(Error error);
  void printSummary();
  /// Chrome trace of the last step, reading its batch included.
  std::string trace();
  std::string takeJson(kerf_status_t (*get)(kerf_session_t *, char **));
  double scalarOutput(int32_t index);
  void note(const std::string &text);
  /// Notes options that change nothing with this data and program.
  void noteIdle();
  /// The other processes of a job follow rank 0.
  bool stopRequested() const {
    return job.leads() && options.stop && *options.stop;
  }

  /// The scalars that the program asks for, by their name after "train.".
  struct Scalars {
    float learningRate = 0, biasCorrection1 = 1, biasCorrection2 = 1;
    float gradientWeight = 1, lossScale = 1;
    int64_t seed = 0, step = 0;
  };

  const TrainOptions &options;
  JobScope &job;
  std::FILE *out;
  Messages err;
  bool &isReady;
  kerf_package_t *package = nullptr;
  kerf_session_t *session = nullptr;
  std::vector<DataInput> inputs;     ///< that are fed from data
  std::vector<int32_t> inputIndices; ///< of the package
  int32_t lossOutput = -1, normOutput = -1;
  std::optional<Weights> weights;
  std::optional<FolderLock> checkpoints;
  std::unique_ptr<Evaluator> evaluator;
  std::unique_ptr<BatchLoader> loader;
  std::unique_ptr<Progress> progress;
  Samples samples;
  BatchOptions batches;
  LearningRate rate;
  Recipe recipe;
  Scalars scalars;
  RunState state;
  int64_t readBegin = 0, readEnd = 0, runEnd = 0; ///< ns, of the last step
  int64_t steps = 0, firstStep = 0, checkpointed = -1;
  int64_t bytesPerRank = 0;
  /// The first that is finite, and its step; 0: none is.
  double firstLoss = std::numeric_limits<double>::quiet_NaN();
  int64_t firstLossStep = 0;
  double lastLoss = firstLoss, readSeconds = 0;
  std::optional<Metrics> lastMetrics;
  int64_t evaluatedAt = -1;
  int64_t skippedInRow = 0;
  bool drawsNumbers = false; ///< the program takes a seed
};

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_TRAINER_H
