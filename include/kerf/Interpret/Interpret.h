//===- Interpret.h - runs modules, whole or partitioned ---------*- C++ -*-===//
//
// The reference for partitioning: evaluates a function as it is, and the
// partitioned program on simulated ranks that run their instruction lists
// together. Plain loops in double precision; for small tensors.
//
// Padding is filled with NaN (for integers: with a number that is out of range
// for every index), so that a result which depends on padding is noticed.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERPRET_INTERPRET_H
#define KERF_INTERPRET_INTERPRET_H

#include "kerf/Interpret/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <map>
#include <string>

namespace kerf::interpret {

/// The whole (global) content of an nn.weight.
using Weights = std::function<Tensor(mlir::Operation *weight)>;

/// One op of nn on given operands. Fails with an error on the op if the
/// interpreter does not know it or an index is out of range.
mlir::FailureOr<llvm::SmallVector<Tensor, 1>>
evaluate(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands);

/// Whole values of mutable sources, by sourceKey().
using State = std::map<std::string, Tensor>;
/// The identity of a source, on any rank and in any stage: its name and view.
std::string sourceKey(mlir::Operation *source);
/// The whole content of a source before the first step.
mlir::FailureOr<Tensor> firstValue(mlir::Operation *source,
                                   const Weights &weights);

/// Runs an unpartitioned function. Sources are read from `state` if they are in
/// it; values that the function assigns are put there.
mlir::FailureOr<std::vector<Tensor>> run(mlir::func::FuncOp function,
                                         llvm::ArrayRef<Tensor> inputs,
                                         const Weights &weights,
                                         State *state = nullptr);

/// How an op's results, which are computed in doubles, are rounded.
enum class Rounding {
  None,
  Stored, ///< to their element types, as a program that stores them would
  Wide,   ///< the same, but 16-bit floats to f32: a program may keep what it
          ///< does not store in a wider type
  Random, ///< as Stored, but up or down by chance: how far results move shows
          ///< what rounding leaves of them
  Choices ///< as Stored, but what depends on which of two floats is larger
          ///< (relu, less, max, floor, ...) goes either way by chance where
          ///< they are nearly equal
};

/// How a function is run to judge compiled programs.
struct RunOptions {
  /// Products, convolutions and ops over many elements use blocked loops on
  /// `threads` (lib/Interpret/Unfused.h), since the loops of the formulas would
  /// take minutes. Either way one op at a time, in doubles.
  bool unfused = false;
  unsigned threads = 1;
  Rounding rounding = Rounding::None;
  uint64_t seed = 0; ///< of Rounding::Random and Rounding::Choices
  /// The width of the range from which Random draws, in distances of two
  /// numbers of the type: 1 rounds up or down, more stands for several
  /// roundings. Negative: each number moves the other way. Of Choices, in
  /// distances of two numbers at the largest of the tensor: how much nearly
  /// equal floats differ.
  double roundingUnits = 1;
  State *state = nullptr;
  /// Called with the results of every op except sources; false ends the run.
  std::function<bool(mlir::Operation *op, llvm::ArrayRef<Tensor> results)> seen;
  /// Called with the operands of every step of an optimizer (nn.*_update).
  std::function<void(mlir::Operation *op,
                     llvm::ArrayRef<const Tensor *> operands)>
      updates;
};

/// The same, but frees a value behind its last use. Returns no outputs if
/// `seen` ended the run.
mlir::FailureOr<std::vector<Tensor>> run(mlir::func::FuncOp function,
                                         std::vector<Tensor> inputs,
                                         const Weights &weights,
                                         const RunOptions &options);

/// By how much a parameter and the optimizer's states of it may differ in each
/// element behind some steps; empty: by nothing.
using UpdateMoves = std::vector<std::vector<float>>;

/// The same behind one step more, whose gradient may differ by `gradient` in
/// each element. `moves`: in the order of the op's results. The step is done
/// again with the gradient and the states at the ends of their ranges, and of a
/// gradient that may be of either sign with 0.
void moveUpdate(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                double gradient, unsigned threads, UpdateMoves &moves);

/// Reads nn.weight from the files that `module` names (`kerf.files`). What
/// cannot be read is an error on the op, and `failed` is set.
Weights weightsOfFiles(mlir::ModuleOp module, bool &failed);

/// The state of the ranks of a partitioned program: their parts of mutable
/// sources that steps have assigned.
struct RankStates {
  struct Placed {
    mlir::Attribute sharding;
    mlir::Type globalType;
    Tensor part;
  };
  /// By rank and sourceKey().
  std::vector<std::map<std::string, Placed>> ranks;

  /// The whole values. Fails with an error on `module` if ranks that hold the
  /// same element have different bits, or if padding is not zero.
  mlir::FailureOr<State> join(mlir::ModuleOp module) const;
};

/// Called with the result of every op of `dist` or source that has one, by rank
/// of its stage, before anything reads it; may change it.
using Observer = std::function<void(mlir::Operation *op,
                                    llvm::MutableArrayRef<Tensor> results)>;

/// Evaluates an op of a dialect that the interpreter does not know. `operands`:
/// those of the op, then the values from outside that its regions use; what is
/// no tensor has rank 0.
using Evaluator = std::function<mlir::FailureOr<llvm::SmallVector<Tensor, 1>>(
    mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands)>;

/// Runs a partitioned module (docs/Partition.md): cuts the global inputs, lets
/// every stage run its schedule, joins the outputs. Fails with an error if the
/// schedules deadlock, or if ranks that hold the same part of an output differ.
/// Training steps read and assign `states`. `others`, if given, evaluates all
/// ops but those of dist, sources too.
mlir::FailureOr<std::vector<Tensor>>
runPartitioned(mlir::ModuleOp module, llvm::ArrayRef<Tensor> inputs,
               const Weights &weights, RankStates *states = nullptr,
               const Observer &observer = nullptr,
               const Evaluator &others = nullptr);

/// Largest |a - b| / (1 + |b|); infinite where shapes differ or one is NaN.
double difference(const Tensor &a, const Tensor &b);

} // namespace kerf::interpret

#endif // KERF_INTERPRET_INTERPRET_H
