//===- Bounded.cpp - outputs whose size is computed -----------------------===//
#include "kerf/Interpret/Bounded.h"

#include "kerf/Interfaces/Bounded.h"

using namespace kerf;
using namespace kerf::interpret;
using namespace mlir;

std::vector<Tensor> kerf::interpret::modelOutputs(func::FuncOp function,
                                                  ArrayRef<Tensor> results) {
  std::vector<Tensor> outputs;
  for (unsigned index = 0; index < results.size(); ++index) {
    const Tensor &whole = results[index];
    if (function.getResultAttr(index, kLengthAttr))
      continue;
    auto bounded = function.getResultAttrOfType<ArrayAttr>(index, kBoundedAttr);
    if (!bounded) {
      outputs.push_back(whole);
      continue;
    }
    auto at = [&](size_t i) { return cast<IntegerAttr>(bounded[i]).getInt(); };
    Index shape(whole.shape);
    for (size_t i = 0; i < bounded.size(); i += 2)
      shape[at(i)] = static_cast<int64_t>(results[at(i + 1)].data[0]);
    Tensor part(shape);
    size_t next = 0;
    forEachIndex(shape, [&](ArrayRef<int64_t> position) {
      part.data[next++] = whole.at(position);
    });
    outputs.push_back(std::move(part));
  }
  return outputs;
}
