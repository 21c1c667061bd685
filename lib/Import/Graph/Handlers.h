//===- Handlers.h - the table of operators' handlers ------------*- C++ -*-===//
//
// A handler serves one operator from one version on, until the next entry of
// the same operator. The table is built once from the files that group
// handlers by kind; there is no switch over operators.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_GRAPH_HANDLERS_H
#define KERF_LIB_IMPORT_GRAPH_HANDLERS_H

#include "Node.h"

namespace kerf::onnx_import {

using Handler = mlir::LogicalResult (*)(Node &);

/// The newest operator set and file format that the handlers know.
constexpr int64_t kNewestOpset = 28;
constexpr int64_t kNewestIR = 14;

class HandlerTable {
public:
  /// `since` is the first version of the operator that `handler` serves.
  /// Others than those that take sequences get tensors only.
  void add(llvm::StringRef name, int64_t since, Handler handler,
           bool takesSequences = false) {
    entries[name].push_back({since, handler});
    if (takesSequences)
      withSequences.insert(name);
  }
  bool takesSequences(llvm::StringRef name) const {
    return withSequences.contains(name);
  }
  /// The handler for the operator in this version of its domain; null if there
  /// is none. `first` is set to the first version that has one, or 0.
  Handler find(llvm::StringRef name, int64_t opset, int64_t &first) const;

private:
  struct Entry {
    int64_t since;
    Handler handler;
  };
  llvm::StringMap<llvm::SmallVector<Entry, 2>> entries;
  llvm::StringSet<> withSequences;
};

/// The operators of a domain ("": ai.onnx); of one that is not known none.
const HandlerTable &handlers(llvm::StringRef domain);

void addDeterminant(HandlerTable &table);
void addElementwise(HandlerTable &table);
void addActivations(HandlerTable &table);
void addAttention(HandlerTable &table);
void addContractions(HandlerTable &table);
void addControlFlow(HandlerTable &table);
void addCasts(HandlerTable &table);
void addConvTranspose(HandlerTable &table);
void addFlexAttention(HandlerTable &table);
void addFeatures(HandlerTable &table);
void addIndexing(HandlerTable &table);
void addLinearAttention(HandlerTable &table);
void addLosses(HandlerTable &table);
void addMachineLearning(HandlerTable &table);
void addMicrosoft(HandlerTable &table);
void addMicrosoftAttention(HandlerTable &table);
void addQuantization(HandlerTable &table);
void addRandom(HandlerTable &table);
void addRecurrent(HandlerTable &table);
void addRegions(HandlerTable &table);
void addResize(HandlerTable &table);
void addRows(HandlerTable &table);
void addSampling(HandlerTable &table);
void addScatter(HandlerTable &table);
void addSelection(HandlerTable &table);
void addSequences(HandlerTable &table);
void addShapeOps(HandlerTable &table);
void addSignal(HandlerTable &table);
void addSources(HandlerTable &table);
void addTrainingSteps(HandlerTable &table);
void addSuppression(HandlerTable &table);
void addUnique(HandlerTable &table);
void addWindows(HandlerTable &table);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_GRAPH_HANDLERS_H
