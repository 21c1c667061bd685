//===- VerifyReference.h - the references of kerf verify --------*- C++ -*-===//
//
// docs/Verification.md. Each reference says what it shares with the program.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_VERIFYREFERENCE_H
#define KERF_TOOLS_VERIFYREFERENCE_H

#include "VerifyCompare.h"
#include "VerifyEvaluation.h"
#include "VerifyProgram.h"

#include <memory>

namespace kerf::tool {

class Reference {
public:
  virtual ~Reference() = default;
  /// The step that `judged` has just run, on its inputs.
  virtual void step(const Program &judged) = 0;
  /// Runs an inference again with 16-bit values held in f32, whose outputs
  /// output() then gives: a program need not round values that it does not
  /// store. False: this reference cannot do that.
  virtual bool stepWide(const Program &) { return false; }
  /// Runs all steps again with other roundings, whose outputs and parameters
  /// output() and parameter() then give. False: this reference cannot do that.
  virtual bool stepsAgain(const Roundings &) { return false; }
  /// What that takes, estimated.
  virtual double secondsAgain() const { return 0; }
  /// A reference that shares less with the program, and was not taken for the
  /// time that it takes; null: there is none.
  virtual std::unique_ptr<Reference> independent() { return nullptr; }
  /// Forgets all steps, as Program::restart does.
  virtual void restart(double lossScale) {}
  /// The only element of an output of the last step; none: it is not known.
  virtual std::optional<double> scalar(int32_t index) const {
    return std::nullopt;
  }
  /// What is known of an output, once for each step.
  virtual std::vector<Piece> output(const kerf_tensor_info_t &info,
                                    int32_t index) = 0;
  /// A parameter that steps write; none: the reference has none.
  virtual std::optional<std::vector<double>>
  parameter(const kerf_parameter_info_t &info, const std::string &name) = 0;
  /// By how much a parameter may differ behind all steps, as 16 bits let its
  /// gradients differ; null: that is not known.
  virtual const std::vector<float> *moves(const kerf_parameter_info_t &info) {
    return nullptr;
  }

  std::string kind;                ///< as --reference, or "expected"
  std::string how;                 ///< what it is, in a line
  std::vector<std::string> shares; ///< with the program
  std::string sampled;             ///< which part is compared; empty: all
  std::vector<std::string> notes;
};

/// The reference that the options select.
std::unique_ptr<Reference> makeReference(const Options &options,
                                         const Program &judged);

} // namespace kerf::tool

#endif // KERF_TOOLS_VERIFYREFERENCE_H
