//===- VerifyReference.h - what a program is held against -------*- C++ -*-===//
//
// docs/Verification.md. Each says what it still shares with the program.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_VERIFYREFERENCE_H
#define KERF_TOOLS_VERIFYREFERENCE_H

#include "VerifyCompare.h"
#include "VerifyProgram.h"

#include "kerf/Interpret/Interpret.h"
#include "kerf/Interpret/Samples.h"

#include <memory>

namespace kerf::tool {

class Reference {
public:
  virtual ~Reference() = default;
  /// The step that `judged` has just run, on its inputs.
  virtual void step(const Program &judged) = 0;
  /// What is known of an output.
  virtual std::vector<Piece> output(const kerf_tensor_info_t &info,
                                    int32_t index) = 0;
  /// A parameter that steps write; none: the reference has none.
  virtual std::optional<std::vector<double>>
  parameter(const kerf_parameter_info_t &info, const std::string &name) = 0;

  std::string kind;                ///< as --reference, or "expected"
  std::string how;                 ///< what it is, in a line
  std::vector<std::string> shares; ///< with the program
  std::string sampled;             ///< which part is compared; empty: all
  std::vector<std::string> notes;
  /// Four units of rounding of the narrowest type that is computed with; 0
  /// where that is f32.
  double narrow = 0;
};

/// The one that the options ask for.
std::unique_ptr<Reference> makeReference(const Options &options,
                                         const Program &judged);

/// The model as imported, run op by op in doubles.
class Evaluation {
public:
  /// With or without the rewrites that follow the importer; a training step
  /// needs them.
  Evaluation(const Options &options, bool simplified);

  /// The same on one sample of the batch; null where samples are mixed.
  static std::unique_ptr<Evaluation> ofSample(const Evaluation &whole,
                                              int64_t sample);

  mlir::ModuleOp module() const { return cut ? *cut : compiled().getModule(); }
  /// Where inputs and outputs of a sample lie in those of the batch.
  const interpret::SampleDims &dims() const { return sampleDims; }
  /// Operations of a step.
  double operations() const;
  /// Seconds that a step takes, as a rule.
  double seconds(bool unfused) const;

  /// What a step gives on the inputs of `program`; empty if `seen` ended it.
  std::vector<interpret::Tensor>
  step(const Program &program, bool unfused,
       std::function<bool(mlir::Operation *, llvm::ArrayRef<interpret::Tensor>)>
           seen = nullptr);

  interpret::State state; ///< of training, after the last step

private:
  Evaluation() = default;
  const Compilation &compiled() const { return *compilation; }
  interpret::Tensor input(const Program &program, unsigned index) const;

  std::string model;
  std::shared_ptr<Compilation> compilation;
  mlir::OwningOpRef<mlir::ModuleOp> cut;
  interpret::SampleDims sampleDims;
  int64_t sample = 0;
};

} // namespace kerf::tool

#endif // KERF_TOOLS_VERIFYREFERENCE_H
