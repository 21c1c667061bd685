//===- VerifyEvaluation.h - the model run op by op --------------*- C++ -*-===//
#ifndef KERF_TOOLS_VERIFYEVALUATION_H
#define KERF_TOOLS_VERIFYEVALUATION_H

#include "VerifyProgram.h"

#include "kerf/Interpret/Interpret.h"
#include "kerf/Interpret/Samples.h"

#include <memory>

namespace kerf::tool {

/// How a step of a reference rounds: as interpret::RunOptions has it.
struct Roundings {
  interpret::Rounding kind = interpret::Rounding::Random;
  uint64_t seed = 0;
  double units = 1;
};

/// The model as imported, run op by op in doubles.
class Evaluation {
public:
  /// With or without the rewrites behind the importer; a training step needs
  /// them.
  Evaluation(const Options &options, bool simplified);

  /// An evaluation of one sample of the batch; null if the model mixes samples.
  static std::unique_ptr<Evaluation> ofSample(const Evaluation &whole,
                                              int64_t sample);

  mlir::ModuleOp module() const { return cut ? *cut : compiled().getModule(); }
  /// The ranges of the batch's inputs and outputs that a sample has.
  const interpret::SampleDims &dims() const { return sampleDims; }
  /// Operations of a step.
  double operations() const;
  /// Estimated seconds of a step.
  double seconds(bool unfused) const;

  /// Called with the results of an op; false ends the step.
  using Seen =
      std::function<bool(mlir::Operation *, llvm::ArrayRef<interpret::Tensor>)>;

  /// The outputs of a step on the inputs of `program`; empty if `seen` ended
  /// it.
  std::vector<interpret::Tensor> step(const Program &program, bool unfused,
                                      Seen seen = nullptr);

  /// Forgets all steps.
  void restart() {
    state.clear();
    inputsOfSteps.clear();
    moves.clear();
  }

  /// Runs all steps again, from the first state and on the same inputs, with
  /// other roundings. `seen`: of the last step.
  std::vector<interpret::Tensor>
  stepsAgain(bool unfused, const Roundings &others, Seen seen = nullptr);

  interpret::Rounding rounding = interpret::Rounding::Stored;
  /// By how much gradients may differ, relative to the largest element of each;
  /// if it is not 0, each step() adds to `moves`.
  double gradientTolerance = 0;
  /// By interpret::sourceKey() of a parameter: by how much it and its states
  /// may differ behind the steps so far, as its gradients may.
  std::map<std::string, interpret::UpdateMoves> moves;
  interpret::State state; ///< of training, after the last step
  /// Whether some op has statistics of parts of the batch, and whether forward
  /// and backward run on parts.
  bool needsParts() const;
  bool runsInParts() const { return inParts != nullptr; }
  /// If it needs parts and cannot run on them: the op that stands in the way.
  const std::string &obstacle() const { return obstacleToParts; }

private:
  Evaluation() = default;
  const Compilation &compiled() const { return *compilation; }
  interpret::Tensor input(const Program &program, unsigned index) const;
  std::vector<interpret::Tensor> run(std::vector<interpret::Tensor> inputs,
                                     bool unfused, const Roundings &roundings,
                                     Seen seen, bool moving = false);
  void move(mlir::Operation *update,
            llvm::ArrayRef<const interpret::Tensor *> operands);

  std::string model;
  bool isTraining = false;
  std::shared_ptr<Compilation> compilation;
  // Objects of the compilation's context: destroyed before it.
  mlir::OwningOpRef<mlir::ModuleOp> cut;
  std::unique_ptr<interpret::StepInParts> inParts;
  std::string obstacleToParts;
  interpret::SampleDims sampleDims;
  /// Of every step so far; of inference, whose steps are alike, of one.
  std::vector<std::vector<interpret::Tensor>> inputsOfSteps;
  int64_t sample = 0;
};

} // namespace kerf::tool

#endif // KERF_TOOLS_VERIFYEVALUATION_H
