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

const HandlerTable &kerf::onnx_import::handlers() {
  static const HandlerTable table = [] {
    HandlerTable result;
    addElementwise(result);
    addActivations(result);
    addAttention(result);
    addContractions(result);
    addConvTranspose(result);
    addIndexing(result);
    addLosses(result);
    addResize(result);
    addRows(result);
    addSampling(result);
    addScatter(result);
    addSequences(result);
    addShapeOps(result);
    addSources(result);
    addWindows(result);
    return result;
  }();
  return table;
}
