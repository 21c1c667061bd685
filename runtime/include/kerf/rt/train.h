//===- train.h - training a package as a whole ------------------*- C++ -*-===//
//
// The loop of `kerf train` above the C ABI: data files, learning rates, steps,
// evaluation, logs, checkpoints, and the trained model. Six steps make an
// iteration: 1 read a mini-batch (ahead of time, on a thread), 2 copy it to the
// ranks, 3 forward, 4 loss and backward, 5 synchronise gradients, 6 update. The
// first is done here, the others are what the package's program does.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_H
#define KERF_RT_TRAIN_H

#include "kerf/rt/inputs.h"
#include "kerf/rt/printable.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kerf::rt {

/// The scalars of a step; see docs/Train.md for the formulas.
struct LearningRate {
  enum Kind { Constant, Linear, Cosine, Step, Exponential };
  Kind kind = Constant;
  double base = 1e-3, min = 0;
  /// Of Step and Exponential: what the rate is multiplied by every so many
  /// steps, at once or bit by bit.
  double factor = 0.1;
  int64_t every = 0;
  int64_t warmup = 0;
  int64_t steps = 0; ///< 0: the steps of the run

  /// Whether it ends at `steps`.
  bool hasEnd() const { return kind == Linear || kind == Cosine; }
  /// Of step t >= 0. `steps` must be set where it has an end.
  double at(int64_t t) const;
  /// As parseLearningRate takes it, with all that matters.
  std::string text() const;
};

/// "constant", "linear,warmup=10,min=1e-5", "cosine,steps=1000,lr=3e-4",
/// "step,every=30,factor=0.1", "exponential,every=100,factor=0.5"; or a plain
/// number. Keys: lr (base), warmup, min, steps, every, factor. Empty on
/// success, else what is wrong.
std::string parseLearningRate(const std::string &text, LearningRate &rate);

/// 1 - beta^updates in double.
double biasCorrection(double beta, int64_t updates);

/// What is measured against what, for evaluation and padding.
struct TrainLoss {
  std::string name = "cross_entropy"; ///< in Metrics.cpp
  std::map<std::string, double> options;
  std::string output;              ///< of the model: logits, or the scalar
  std::vector<std::string> labels; ///< inputs that are labels
  /// Labels must be in [0, classes), or ignoreIndex where it `ignores`.
  int64_t ignoreIndex = -100;
  bool ignores = true;
  int64_t classes = 0; ///< 0: unknown, or the loss has no labels
  /// How much the labels of each class count; empty: 1.
  std::vector<double> classWeights;
  /// Where the output has its classes; negative: counted from its end.
  int64_t classDim = -1;
  /// Of the output, batch first; empty: not known.
  std::vector<int64_t> outputShape;
  std::string text; ///< as the user wrote it

  bool hasClasses() const;
  /// Computed by the model itself.
  bool isScalar() const { return name == "output"; }
};

struct TrainOptions {
  std::string model;       ///< as the user named it, for messages
  std::string package;     ///< one training step, weights in place
  std::string evalPackage; ///< the model alone on one rank; empty: none
  /// The model's file and those it refers to, absolute: copied for `output`.
  std::vector<std::string> modelFiles;
  /// The file of the trained model, as ranges of the model's file and bytes
  /// between them; empty: a copy of the model's file.
  struct Piece {
    uint64_t begin = 0, length = 0; ///< length 0: `bytes`
    std::string bytes;
  };
  std::vector<Piece> image;
  /// Where in it weights begin that the model does not have: copies of what
  /// several nodes read.
  std::map<std::string, uint64_t> copies;
  /// What the files of external data are called beside the trained model, by
  /// their absolute paths; others keep their names.
  std::map<std::string, std::string> dataNames;
  /// Names of the model's tensors that steps change: weights, running
  /// statistics.
  std::vector<std::string> trained;
  /// Shapes that the model's file gives weights, where the package may have
  /// others.
  std::map<std::string, std::vector<int64_t>> shapes;

  std::string data, evalData;
  /// Inputs that have no samples: the data has one array of just their shape,
  /// which is the same in every step.
  std::vector<std::string> sharedInputs;
  int64_t sequenceLength = 0, evalEvery = 0; ///< 0: as the model; at the end
  bool shuffle = true, keepLast = false;
  /// Why a batch that is filled up with samples whose labels are ignored gives
  /// other numbers than its own samples, as "node_matmul (nn.matmul) joins
  /// samples"; empty: it does not.
  std::string joins;
  uint64_t seed = 0;
  bool seedGiven = false; ///< by a flag, so that it should change something
  int64_t steps = 0, epochs = 0; ///< one of them, 0: not given
  LearningRate rate;
  double beta1 = 0.9, beta2 = 0.999;
  double dampening = 0; ///< of SGD's momentum, from the second update on
  TrainLoss loss;
  /// As text, what else decides over the updates, by keys of a checkpoint's
  /// metadata: another than the checkpoint's is noted.
  std::map<std::string, std::string> recipe;
  bool skipNan = false;
  double lossScale = 0; ///< of float16 at the start, a power of two; 0: 65536
  int64_t lossScaleInterval = 0; ///< steps after which it doubles; 0: 2000

  std::string output, safetensors, log, trace, stats; ///< empty: none
  std::string checkpointDir;
  int64_t checkpointEvery = 0; ///< steps; 0: at the end alone
  bool resume = false;

  int32_t threads = 0;
  double timeoutSeconds = 30;
  std::string inject;
  /// Said right in front of the first step, once the data and the checkpoint
  /// are taken. Where they are refused, the error comes first, and then those
  /// notes that may tell why.
  std::vector<std::string> notes, hints;
  bool json = false, quiet = false, verbose = false;
  /// Set by a signal handler to the signal's number: the current step is
  /// finished, a checkpoint written, and the exit code is 128 + the number.
  const volatile std::sig_atomic_t *stop = nullptr;
};

/// Errors that can be found before anything is compiled: data that cannot be
/// read, outputs that cannot be written (by rank 0). Empty if there are none.
std::string checkTrainOptions(const TrainOptions &options, bool writes = true);

/// The arrays of the data in `path` that hold samples of `inputs`, one entry
/// for each; no entries for flat tokens. False and `error` where an array has
/// another rank, or another size in a dimension behind the first that is not
/// open.
bool matchData(const std::string &path, const std::vector<InputSpec> &inputs,
               std::vector<std::optional<GivenInput>> &given,
               std::string &error);

/// Runs the loop; prints results on `out`, errors and progress on `err`;
/// returns the exit code. In a job every process reads the data, rank 0 writes.
int trainPackage(const TrainOptions &options, std::FILE *out,
                 const Messages &err);
/// The same for a process that has joined its job already.
class JobScope;
int trainPackage(const TrainOptions &options, JobScope &job, std::FILE *out,
                 const Messages &err);

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_H
