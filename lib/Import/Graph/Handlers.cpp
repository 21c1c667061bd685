//===- Handlers.cpp - the table of operators ------------------------------===//
//
// Chooses the largest since-version that is not above the model's operator set.
//
//===----------------------------------------------------------------------===//
#include "Handlers.h"

using namespace kerf;
using namespace kerf::onnx_import;

Handler HandlerTable::find(llvm::StringRef name, int64_t opset,
                           int64_t &first) const {
  first = 0;
  auto found = entries.find(name);
  if (found == entries.end())
    return nullptr;
  const Entry *best = nullptr;
  for (const Entry &entry : found->second) {
    first = first ? std::min(first, entry.since) : entry.since;
    if (entry.since <= opset && (!best || entry.since > best->since))
      best = &entry;
  }
  return best ? best->handler : nullptr;
}

static HandlerTable tableOf(llvm::ArrayRef<void (*)(HandlerTable &)> groups) {
  HandlerTable table;
  for (auto *add : groups)
    add(table);
  return table;
}

const HandlerTable &kerf::onnx_import::handlers(llvm::StringRef domain) {
  static const HandlerTable onnx = tableOf(
      {addElementwise,     addActivations, addAttention,     addCasts,
       addContractions,    addControlFlow, addConvTranspose, addIndexing,
       addLinearAttention, addLosses,      addQuantization,  addRandom,
       addRecurrent,       addRegions,     addDeterminant,   addFeatures,
       addResize,          addRows,        addSampling,      addScatter,
       addSelection,       addSequences,   addShapeOps,      addSignal,
       addSources,         addSuppression, addUnique,        addWindows});
  // What ONNX Runtime's optimizer and its generation tool write.
  static const HandlerTable microsoft =
      tableOf({addMicrosoft, addMicrosoftAttention});
  static const HandlerTable learning = tableOf({addMachineLearning});
  static const HandlerTable training = tableOf({addTrainingSteps});
  static const HandlerTable preview = tableOf({addFlexAttention});
  static const HandlerTable none;
  return domain.empty()                         ? onnx
         : domain == "com.microsoft"            ? microsoft
         : domain == "ai.onnx.preview.training" ? training
         : domain == "ai.onnx.preview"          ? preview
         : domain == "ai.onnx.ml"               ? learning
                                                : none;
}
