//===- Autodiff.h - from inference to a training step -----------*- C++ -*-===//
//
// Problem: a function that computes outputs from inputs, a loss on the outputs
// and an optimizer make one step of training: forward, loss, backward and
// update; state that outlives the step is in mutable sources. docs/Training.md
// is the contract of the result; kerf-verify-after-autodiff checks it.
//
// Idea: reverse mode over the function, one vector-Jacobian product per op
// through DifferentiableInterface. The only ops named here are those with
// another form in training (batch_norm, dropout). Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_AUTODIFF_AUTODIFF_H
#define KERF_AUTODIFF_AUTODIFF_H

#include "kerf/Autodiff/Precision.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kerf::autodiff {

/// The loss: one of the registered losses (LossRules.cpp). `prediction` is a
/// graph output; `target` an input of the model or a new one.
struct LossSpec {
  std::string name = "cross_entropy";
  std::string prediction, target;
  int64_t ignoreIndex = -100; ///< of labels
  int64_t classDim = -1;      ///< of the prediction; negative: from its end
  /// Of each class how much its labels count, as PyTorch's weight=; empty: 1.
  std::vector<double> classWeights;
  bool mean = true; ///< over what counts in the whole batch; else the sum
  std::map<std::string, double> options; ///< all others that the loss has
  std::string text;                      ///< that it was read from

  /// An option; 0 where the loss has none of the name.
  double option(const std::string &key) const {
    auto found = options.find(key);
    return found == options.end() ? 0 : found->second;
  }
};

/// One of the registered optimizers (Optimizers.cpp), as torch.optim has it.
struct OptimizerSpec {
  std::string name = "sgd";
  double learningRate = 1e-3, weightDecay = 0;
  std::map<std::string, double> options; ///< all others that the optimizer has
  std::string noDecay; ///< names of parameters without weight decay
  std::string text;    ///< that it was read from

  /// An option; 0 where the optimizer has none of the name.
  double option(const std::string &key) const {
    auto found = options.find(key);
    return found == options.end() ? 0 : found->second;
  }
};

/// `cross_entropy(logits,labels,ignore_index=-100,label_smoothing=0.1,
/// reduction=sum)`, any other loss; `output(name)` or `name`.
llvm::Expected<LossSpec> parseLoss(llvm::StringRef text);
/// `adamw,lr=3e-4,wd=0.1,beta1=0.9,beta2=0.95,eps=1e-8,no_decay=REGEX`, or any
/// other optimizer. REGEX is the rest of the text.
llvm::Expected<OptimizerSpec> parseOptimizer(llvm::StringRef text);

/// The names that exist, as text: "a, b or c".
std::string lossNames();
std::string optimizerNames();

enum class BatchNormMode {
  Sync,   ///< statistics of each micro-batch over all devices
  Local,  ///< of each device's part of a micro-batch
  Frozen, ///< the running statistics, as in inference
};

struct AutodiffOptions {
  LossSpec loss;
  OptimizerSpec optimizer;
  /// Regular expressions that match whole names. `trainable`: only these
  /// parameters; with a leading `+`, these besides the default; empty: the
  /// default, all parameters that the loss depends on and that are used like
  /// parameters (not like masks, tables or numbers: lib/Autodiff/Sources.h).
  std::vector<std::string> trainable, frozen;
  std::optional<double> clipNorm;
  bool skipNonFinite = false; ///< keep the old values where loss or norm is not
  Precision precision = Precision::F32;   ///< of products
  std::optional<Precision> gradientDtype; ///< none: as `precision`
  BatchNormMode batchNorm = BatchNormMode::Sync;
  /// The micro-batches and devices over which BatchNorm's statistics are taken;
  /// only its training form uses them.
  int64_t microBatches = 1, dataParallel = 1;

  /// Whether the backward pass starts from a loss times `train.loss_scale`,
  /// which the caller sets: small gradients are 0 in float16, whose least
  /// number is 6e-8. Steps whose gradients overflow change nothing.
  bool scalesLoss() const { return precision == Precision::F16; }
  /// The type in which gradients are sent.
  Precision gradientType() const { return gradientDtype.value_or(precision); }
};

/// The type in which gradients are sent: "f32", "bf16" or "f16".
llvm::StringRef gradientDtypeName(const AutodiffOptions &options);

/// Whether the name is one that torch.onnx gives constants ("val_9"), not that
/// of a module's parameter.
bool isNamedAsConstant(llvm::StringRef name);

struct TrainedParameter {
  std::string name; ///< "w@0,64" for a view of w that begins at [0, 64]
  std::vector<int64_t> shape;
  bool decayed = false;
  bool isClear = true; ///< decided by its use; false: by its name
};

/// Why a float tensor of the model is not trained.
enum class KeptWhy {
  Frozen, ///< --frozen, or --trainable names others
  Mask,   ///< hides scores or elements
  Table,  ///< sines and cosines, positions
  Frequencies,
  Constant,   ///< a number, or equal ones, that an exporter wrote
  Statistic,  ///< what normalization subtracts and divides by
  Buffer,     ///< the framework does not train it, as its exporter says
  NoGradient, ///< the loss reads it where no gradient goes: class weights
  NotReached, ///< the loss does not depend on it
};
/// "a mask", "a table of sines and cosines", ...
llvm::StringRef describe(KeptWhy why);

struct KeptParameter {
  std::string name;
  std::vector<int64_t> shape;
  KeptWhy why = KeptWhy::Frozen;
  bool isClear = true;
};

struct AutodiffResult {
  std::vector<TrainedParameter> trained; ///< in program order
  std::vector<KeptParameter> kept;       ///< float tensors that stay
  std::vector<std::string> buffers; ///< not trained, but written by the step
  std::vector<std::string> notes;   ///< what the user may not have meant
  /// Constants without dimensions to which the loss would give no gradient.
  std::vector<std::string> idleNumbers;
};

/// Why a step cannot be made: lines "NODE: reason", all at once, then notes
/// ("note: ...").
struct AutodiffFailure {
  bool isRequest = true; ///< the request is wrong; else the model is refused
  struct Message {
    std::optional<mlir::Location> where; ///< none: of the whole model
    std::string text;
    bool isNote = false; ///< on the errors before it
  };
  std::vector<Message> messages;
};

/// Turns the program of a module (dist::findEntry) into a step. On failure
/// `failure` says why, or an error where it is has said so, and the module must
/// not be used any more.
mlir::FailureOr<AutodiffResult> differentiate(mlir::ModuleOp module,
                                              const AutodiffOptions &options,
                                              AutodiffFailure &failure);

} // namespace kerf::autodiff

#endif // KERF_AUTODIFF_AUTODIFF_H
