//===- State.h - outputs that are inputs of the next step -------*- C++ -*-===//
//
// Problem: a decoder hands out its keys and values, longer by what is new, and
// takes them in at the next step. They should stay where they are computed.
//
// Idea: each pair becomes one `nn.state`. Where the output is as large as the
// input, it is what the step assigns. Where exporters append (concat of what
// was there and what is new), the state is a cache of fixed length: new rows
// are written at the input `state.position`, and the mask of the model hides
// the positions behind them. That is right only if the model lets its mask hide
// them, which is proven (docs/Generate.md).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_IMPORT_STATE_H
#define KERF_IMPORT_STATE_H

#include "kerf/Import/Import.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace kerf {

/// An output of a step, and the input of the next one that it is.
struct StatePair {
  std::string output, input;
};

struct StateOptions {
  /// Pairs by name.
  std::vector<StatePair> pairs;
  /// And those that exporters name: `present.N.key` and
  /// `past_key_values.N.key` or `past.N.key`, in any spelling that replaces the
  /// word alone.
  bool automatic = false;
};

/// The result of a run of the pass, besides what it writes into the module.
struct StateRun {
  std::vector<std::string> states; ///< inputs that are state now
  std::string message;             ///< what is wrong; empty: nothing
  std::string note;                ///< how to mend it; may be empty
  bool isRequest = false;          ///< what was asked for, not the model
};

/// `present.0.key=past_key_values.0.key`, or `auto`. False and `error` if it is
/// neither.
bool parseState(llvm::StringRef text, StateOptions &options,
                std::string &error);

/// The pairs of a model: those given, and those that are recognised.
std::vector<StatePair> findStatePairs(const StateOptions &options,
                                      llvm::ArrayRef<std::string> inputs,
                                      llvm::ArrayRef<std::string> outputs);

/// What is wrong with the names of the pairs that were given, with the closest
/// ones that the model has; empty: nothing.
std::string checkStateNames(const StateOptions &options,
                            llvm::ArrayRef<std::string> inputs,
                            llvm::ArrayRef<std::string> outputs);

/// Sizes for the open dimensions of a decoder, by symbol: one sample, steps of
/// `tokens` tokens (of input_ids), and a cache of `length` positions, of which
/// a step of one token takes the last for itself. Dimensions that `dims` binds
/// stay as they are. Empty and `error` where the inputs are not those of a
/// decoder with a cache, or the length does not fit.
std::map<std::string, int64_t>
bindDecoder(llvm::ArrayRef<ModelValue> inputs, llvm::ArrayRef<StatePair> pairs,
            const std::map<std::string, int64_t> &dims, int64_t tokens,
            int64_t length, std::string &error);

/// The pass kerf-keep-state for these options.
std::unique_ptr<mlir::Pass> createKeepStatePass(const StateOptions &options,
                                                StateRun &run);

} // namespace kerf

#endif // KERF_IMPORT_STATE_H
