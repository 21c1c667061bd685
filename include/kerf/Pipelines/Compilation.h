//===- Compilation.h - a model on its way to a package ----------*- C++ -*-===//
//
// The phases one after another over one module, for the driver and for programs
// that embed Kerf: import -> (autodiff, for a training step) -> plan ->
// partition -> collectives -> lower -> package. Each phase, behind the reading
// of the model, is a pipeline of passes, which can be printed and run by
// kerf-opt as well; the IR after each can be read, printed or written to a
// folder, and a compilation can go on from there. Two compilations can live
// side by side.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PIPELINES_COMPILATION_H
#define KERF_PIPELINES_COMPILATION_H

#include "kerf/Autodiff/Autodiff.h"
#include "kerf/Import/State.h"
#include "kerf/Lower/ObjectCache.h"
#include "kerf/Plan/Explain.h"

#include "mlir/IR/MLIRContext.h"

#include <functional>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace kerf {

namespace exec {
class TargetAttr;
}

namespace plan {
struct PlanRun;
}

/// Exit codes of the driver, also the classes of failure of the library.
enum class Outcome {
  Fine = 0,
  ResultsDiffer = 1,
  WrongUsage = 2,
  ModelRefused = 3,
  NoPlan = 4,
  RunTimeFailure = 5,
  Internal = 70,
  Interrupted = 130,
};

/// The phases up to "lower", in order.
std::vector<std::string> phaseNames(bool training);
/// The file in CompilationOptions::dumpDir with the IR after phase `number`,
/// from 1 on.
std::string dumpName(size_t number, llvm::StringRef phase);

/// IR from which a compilation continues, instead of a model.
struct Resumption {
  std::string phase; ///< that it was printed after
  /// The plan.json (an object) that it was made by; needed from "plan" on.
  std::optional<llvm::json::Value> plan;
};

struct CompilationOptions {
  std::string model; ///< path of the ONNX file, or of the IR to go on from
  std::optional<Resumption> resume;
  ImportOptions import;
  /// Outputs that stay on the ranks as inputs of the next step.
  StateOptions state;
  /// The type of products; a training step repeats it in its own options.
  autodiff::Precision precision = autodiff::Precision::F32;
  /// What makes the model a training step; none: inference.
  std::optional<autodiff::AutodiffOptions> training;
  plan::PlanOptions plan;
  /// Every how many blocks of a training step one is computed again (pass
  /// recompute); 0: none.
  int64_t recomputeEvery = 0;
  std::string machine; ///< that names plan.machine, or the file it is from
  /// What whoever asks holds in the memory of CPU ranks' host besides the
  /// inputs and outputs of a step.
  int64_t callerBytes = 0;
  /// The same, of the module before it is planned. The ranks keep half of what
  /// is left.
  std::function<int64_t(mlir::ModuleOp)> callerBytesOf;
  /// Of plan.machine, once a compilation has left room there for what the
  /// caller holds: what it had.
  std::optional<int64_t> machineMemoryPerDevice;
  /// A plan.json to use instead of planning, and where it came from.
  std::optional<llvm::json::Value> givenPlan;
  std::string givenPlanPath;
  /// As LLVM names it; "host" for this machine.
  std::string targetCpu = "host";
  /// An op, by its name in plan.json, or an output of the model or of one of
  /// its nodes, of which is asked what its choices cost (kerf/Plan/Explain.h)
  /// once the plan is lowered; empty: none. Not of a plan that is given.
  std::string explain;
  /// Where compiled kernels are kept for compilations to come.
  ObjectCacheOptions objectCache;
  /// Kernels for CUDA GPUs (docs/Cuda.md) instead of this CPU's.
  bool cuda = false;
  /// For GPUs: where ptxas is (empty: none), and kernels for the CPU as well.
  std::string ptxas;
  bool hostKernels = false;
  /// What exporters spell in many ways is brought to one form
  /// (kerf-simplify-import).
  bool simplify = true;
  /// Attention as one call, where products are rounded to bf16 or f16.
  bool fusedAttention = false;
  /// Folder for the IR of code generation, for people; empty: not written.
  std::string kernelDumpDir;
  /// Packages refer to the model's weights where they are instead of copying
  /// them (for packages that live no longer than a run).
  bool weightsInPlace = false;
  /// Test only: this phase fails as if it had a bug.
  std::string failPhase;
  /// Called on the module before it is planned, and when it is planned
  /// (docs/Verification.md); called again if it is planned again.
  std::function<void(mlir::ModuleOp)> beforePlan, afterPlan;
  /// Called with its name as each phase begins, with none as it ends.
  std::function<void(llvm::StringRef)> onPhase;
  /// Write 01-import.mlir, 02-plan.mlir, ... and plan.json here; empty:
  /// nowhere.
  std::string dumpDir;
};

class Compilation {
public:
  explicit Compilation(CompilationOptions options);
  ~Compilation();

  /// Each returns Outcome::Fine or sets messages().
  Outcome runImport();
  /// Only where the options ask for training.
  Outcome runAutodiff();
  Outcome runPlan();
  Outcome runPartition();
  Outcome runCollectives();
  Outcome runLower();
  void refineMemory();
  /// Writes the package folder `path`, under a temporary name first.
  /// `further`: compilations of the same model with other sizes, lowered, which
  /// become programs of the package under these names; `sizes`: its sizes.json
  /// (docs/Package.md).
  using Further = std::pair<std::string, Compilation *>;
  Outcome runPackage(llvm::StringRef path, llvm::ArrayRef<Further> further = {},
                     llvm::StringRef sizes = "");
  /// Runs everything up to and including `phase` ("import" ... "lower";
  /// "autodiff" only in training): from import, or from the phase behind that
  /// of the IR from which the compilation continues.
  Outcome runUntil(llvm::StringRef phase);

  /// "error: FILE[:NODE]: reason" and its notes, one per line.
  const std::vector<std::string> &messages() const { return lines; }

  mlir::ModuleOp getModule() const { return module.get(); }
  /// Names of the inputs that stay on the ranks as state.
  const std::vector<std::string> &getStates() const { return states; }
  const ImportReport &getImportReport() const { return report; }
  /// Which parameters a training step changes.
  const autodiff::AutodiffResult &getTraining() const { return trained; }
  const plan::PlanResult &getPlan() const { return planned; }
  /// plan.json (schema kerf.plan/1). After runCollectives its `communication`
  /// is that of the program; before, it is missing.
  const llvm::json::Object &getPlanJson() const { return planJson; }
  /// Bytes of a device that a plan keeps, once it was searched; none: any.
  std::optional<int64_t> memoryLimit() const;
  /// The answer to CompilationOptions::explain.
  const plan::Explanation &getExplanation() const { return explanation; }
  /// Notes of the phases so far for the user, one line each.
  std::vector<std::string> getNotes() const;
  /// The pipelines of the phases that ran, as --pass-pipeline of kerf-opt takes
  /// them; of import only the passes behind the reading of the model.
  const std::vector<std::pair<std::string, std::string>> &getPipelines() const {
    return pipelines;
  }
  /// Seconds of each phase that ran, in order.
  const std::vector<std::pair<std::string, double>> &getTimes() const {
    return times;
  }

private:
  class Timer;
  Outcome fail(Outcome outcome, const llvm::Twine &reason);
  /// Reads the IR from which the compilation continues.
  Outcome runResume();
  /// `refuse` is called when the passes have failed: it returns a message if
  /// the request is at fault; nothing means a bug.
  Outcome
  runPasses(llvm::StringRef phase,
            llvm::function_ref<void(mlir::OpPassManager &)> build,
            llvm::function_ref<std::optional<Outcome>()> refuse = nullptr);
  Outcome dump(llvm::StringRef phase);
  Outcome dumpPlan();
  bool hasAutodiff() const;
  /// What can be done on the devices for which is compiled.
  exec::TargetAttr target() const;
  Outcome readModel();
  Outcome makePlan();
  void addPlanning(mlir::OpPassManager &passes, plan::PlanRun &run) const;
  /// What kerf-opt --pass-pipeline takes to run the same.
  static std::string textOf(mlir::PassManager &passes);
  /// Notes as the pipeline of planning what kerf-opt has to run to come to the
  /// same plan.
  void notePlanning();
  Outcome takePlan();
  void noteUntied();
  void noteNumbers();
  void noteFolded();
  void noteLeftOut();
  /// Takes inputs and outputs off the default limit of CPU ranks.
  Outcome leaveRoom();
  /// Bytes of the device that holds most, as laid out.
  int64_t laidOutPeak() const;
  /// What was planned for a limit may need a little more once it is laid out:
  /// then the search goes on, until what is laid out keeps the limit.
  Outcome obeyLimit(size_t timesBefore, size_t dumpsBefore);
  Outcome planWithout(int64_t laidOutBytes);
  /// The name of a value that CompilationOptions::explain means.
  std::string explainedName() const;
  /// Why an output that is asked for is not in a training step; may be empty.
  std::string noteOnOutput() const;
  Outcome runExplain();
  void takePlanned(plan::PlanResult result);
  void noteOtherName(std::string &message);
  /// The lines of a message, the first an error about the model.
  Outcome failWith(Outcome outcome, const llvm::Twine &message);

  CompilationOptions options;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ImportReport report;
  std::vector<std::string> states;
  autodiff::AutodiffResult trained;
  std::vector<std::string> outputs; ///< of the model that is trained
  plan::PlanResult planned;
  /// The search for a plan, where it may have to go on.
  std::unique_ptr<plan::Planning> planning;
  bool mayGoOn = false;
  plan::Explanation explanation;
  llvm::json::Object planJson;
  std::vector<std::string> lines;
  std::vector<std::string> trainingNotes, planningNotes, packagingNotes;
  std::vector<std::pair<std::string, double>> times;
  std::vector<std::pair<std::string, std::string>> pipelines;
  size_t dumps = 0;
};

} // namespace kerf

#endif // KERF_PIPELINES_COMPILATION_H
