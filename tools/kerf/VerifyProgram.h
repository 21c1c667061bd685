//===- VerifyProgram.h - a package that is verified -------------*- C++ -*-===//
#ifndef KERF_TOOLS_VERIFYPROGRAM_H
#define KERF_TOOLS_VERIFYPROGRAM_H

#include "Setup.h"

#include "kerf/Format/StepScalars.h"
#include "kerf/rt/run.h"

#include <deque>

namespace kerf::tool {

/// Throws a Failure with what a status of the runtime says.
void check(kerf_status_t status, const std::string &file);

/// A package under execution, with its inputs.
class Program {
public:
  enum class Role {
    Judged,    ///< as planned
    OneDevice, ///< the same code on one device
    Probe      ///< as a judged one was planned, with values as outputs
  };
  /// For a probe: the plan that it follows, and the values to expose, by their
  /// numbers among computedValues(); afterwards those that are exposed, in the
  /// order of the outputs behind the model's own. `values` describes them all.
  struct Exposed {
    llvm::json::Value plan = nullptr;
    std::vector<size_t> wanted, given;
    std::vector<std::string> values;
  };

  Program(const Options &options, Role role, Exposed *exposed = nullptr);
  ~Program();
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// Of inference 1, of training --steps.
  int64_t numSteps() const;
  /// Parameters are as they are before the first step, which does it, too.
  void load();
  /// Runs a step on given inputs, or on inputs drawn for this step.
  void step();
  /// Forgets all steps: the next one is the first, with the loss multiplied by
  /// `scale`.
  void restart(double scale);
  /// By which a step in float16 multiplies its loss.
  double lossScale = kFirstLossScale;
  bool scalesLoss() const { return optimizer && input(kLossScaleInput); }
  int64_t numRanks() const { return kerf_package_num_ranks(package); }
  /// The input of the last step; null if there is none of that name.
  const rt::HostTensor *input(const std::string &name) const;
  /// With the shapes that the last step gave them; before it, the largest.
  std::vector<kerf_tensor_info_t> outputs() const;
  /// Whether the size of a dimension of an output depends on what is computed.
  bool isBounded(int32_t index, int32_t dim) const {
    return kerf_package_output_is_bounded(package, index, dim) != 0;
  }
  const void *output(int32_t index) const;
  /// Parameters that steps write, by name ("w", or "w[0,64]" of a view).
  std::vector<std::pair<std::string, int32_t>> mutableParameters() const;
  kerf_parameter_info_t parameter(int32_t index) const;
  std::vector<char> parameterData(int32_t index) const;

  std::string description; ///< of its mesh
  /// Four units of rounding of the narrowest type in which the model computes,
  /// and of the narrowest on which each output depends; 0 for f32.
  double narrow = 0;
  std::vector<double> narrowOutputs;
  llvm::json::Object planJson;

private:
  /// Enough for gradients of a mean, and far from what mostly overflows.
  static constexpr double kFirstLossScale = 1024;
  void setNarrow(mlir::ModuleOp module);
  void setHooks(CompilationOptions &compile, Role role, Exposed *exposed);
  bool setStepScalar(const kerf_tensor_info_t &info, rt::HostTensor &input);
  void readInputs();

  TemporaryFolder folder;
  const Options &options;
  std::optional<autodiff::OptimizerSpec> optimizer;
  kerf_package_t *package = nullptr;
  kerf_session_t *session = nullptr;
  int64_t stepNumber = 0;
  /// What shapes of outputs() point to, where they are not the package's.
  mutable std::deque<std::vector<int64_t>> shapes;
  bool damaged = false; ///< as --damage asks
  std::vector<std::string> names;
  std::vector<bool> isGiven;
  std::vector<rt::HostTensor> inputs;
};

/// The options for the same model on one device: the same micro-batches,
/// nothing cut.
Options forOneDevice(const Options &options);

} // namespace kerf::tool

#endif // KERF_TOOLS_VERIFYPROGRAM_H
