//===- Step.h - a training step while it is made ----------------*- C++ -*-===//
//
// Shared by the parts of autodiff: the function, a builder that sets phase,
// colocation and purpose on every op that it makes, and the list of the step's
// assignments.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_AUTODIFF_STEP_H
#define KERF_LIB_AUTODIFF_STEP_H

#include "kerf/Autodiff/Autodiff.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/NN/Gradients/GradientBuilder.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace kerf::autodiff {

using nn::GradientBuilder;

/// The attributes that new ops get.
struct Tag {
  dist::Phase phase = dist::Phase::Forward;
  int64_t colocation = -1; ///< -1: numbered later
  std::optional<dist::Purpose> purpose;
  bool isLoss = false; ///< comes after the model's own output
};

/// A source whose gradient is computed.
struct Parameter {
  mlir::Value value;
  std::string name;       ///< of the parameter
  std::string label;      ///< with where its view begins: "w@0,64"
  bool decayed = true;    ///< has weight decay, if the optimizer has
  bool isClear = true;    ///< SourceVerdict's
  std::string absentFile; ///< if the verdict lacks numbers: that of these
  int64_t colocation = 0; ///< least of its users
  mlir::Value gradient;   ///< after dist.accumulate
};

/// A running statistic: new = keep * old + sum over micro-batches of `part`.
/// While the step is being built, `part` is a result of the function.
struct RunningStatistic {
  mlir::Value source;
  double keep = 0;
};

class Step : private mlir::OpBuilder::Listener {
public:
  Step(mlir::func::FuncOp main, const AutodiffOptions &options,
       AutodiffFailure &failure);

  mlir::func::FuncOp main;
  const AutodiffOptions &options;
  AutodiffFailure &failure;
  mlir::MLIRContext *context;
  mlir::OpBuilder ops; ///< before the return, unless moved
  Tag tag;

  std::vector<Parameter> parameters;
  std::vector<RunningStatistic> statistics;
  /// Running statistics, by which inference normalises: not trained by default.
  llvm::DenseSet<mlir::Value> buffers;
  std::vector<KeptParameter> kept;

  mlir::Block &body() { return main.getBody().front(); }
  mlir::Operation *terminator() { return body().getTerminator(); }
  GradientBuilder at(mlir::Location loc) { return {ops, loc}; }
  mlir::Location named(const llvm::Twine &name);

  /// The argument of this name, or null.
  mlir::Value argument(llvm::StringRef name);
  mlir::Value addArgument(llvm::StringRef name, mlir::RankedTensorType type,
                          std::optional<int64_t> batchDim = {});
  /// The scalar that the caller sets for each step; made at its first use.
  mlir::Value stepScalar(llvm::StringRef name, mlir::Type element);
  /// By which the loss is multiplied before it is differentiated; null: by 1.
  mlir::Value lossScale();

  /// What is wrong with the request, or with the model; always a failure.
  mlir::LogicalResult request(const llvm::Twine &text,
                              std::optional<mlir::Location> where = {});
  mlir::LogicalResult refuse(const llvm::Twine &text,
                             std::optional<mlir::Location> where = {});
  void note(const llvm::Twine &text);
  std::vector<std::string> notes;       ///< of a step that can be made
  std::vector<std::string> idleNumbers; ///< as AutodiffResult has them

  // The parts, in the order in which they run.
  void nameEnds();                           // Parameters.cpp
  mlir::LogicalResult checkNames();          // Parameters.cpp
  void mergeSources();                       // Parameters.cpp
  mlir::FailureOr<mlir::Value> buildLoss();  // Losses.cpp
  mlir::LogicalResult expandTrainingForms(); // TrainingForms.cpp
  void joinViews();                          // JoinViews.cpp
  mlir::LogicalResult selectParameters();    // Parameters.cpp
  mlir::LogicalResult refuseNotF32(llvm::ArrayRef<mlir::Value> sources);
  void hoistPrologue();                // Phases.cpp
  void numberForward();                // Phases.cpp
  mlir::LogicalResult buildBackward(); // Backward.cpp
  void putBatchFirst();                // JoinedRows.cpp
  void keepGradientsWide();            // Precision.cpp
  void buildUpdates();                 // Updates.cpp
  void finish();                       // Step.cpp
  void mergeEqualSums();               // Merge.cpp

  /// While the step is being built, the function returns the loss and then the
  /// parts of the running statistics.
  mlir::Value loss() { return terminator()->getOperand(0); }
  void eraseDeadOps();
  /// Notes trained parameters that several nodes read.
  void noteShared();
  /// Notes a trained matrix that is stored a second time, transposed.
  void noteTransposes(); // Transposes.cpp
  void noteUnclear();
  /// The gradient, cast so that it is sent in `--gradient-dtype`.
  mlir::Value sendNarrow(mlir::Value gradient, mlir::Location loc);
  /// Replaces `value` by a source that steps may write; null if that is
  /// impossible.
  mlir::Value makeMutable(mlir::Value value);
  /// The reverse, for a source that no step writes.
  void makeConstant(mlir::Value source);

private:
  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint) override;
  /// Values on which the loss depends; `byGradients`: on which it does through
  /// floats, where no op stops gradients.
  llvm::DenseSet<mlir::Value> reachedFromLoss(bool byGradients);
  /// Refuses what option trainable names and nothing trains.
  mlir::LogicalResult checkTrainable();
  void classifyBackward(llvm::ArrayRef<mlir::Value> activationGradients);
};

/// The name of the ONNX node that an op comes from.
std::string nodeName(mlir::Operation *op);
/// The node's name in front of a message about it: "name: "; empty if it has
/// none, where the location says which op is meant.
std::string prefixOf(mlir::Operation *op);
int64_t colocationOf(mlir::Operation *op);

/// Whether gradients stop at the op.
inline bool stopsGradient(mlir::Operation *op) {
  return op->hasAttr(kNoGradientAttr);
}

} // namespace kerf::autodiff

#endif // KERF_LIB_AUTODIFF_STEP_H
