//===- Kinds.cpp - what a weight was in the module ------------------------===//
#include "Kinds.h"

#include "../Importer.h"
#include "OwnReads.h"
#include "kerf/Interfaces/KerfDialect.h"

#include <cmath>

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

StringRef kerf::onnx_import::kindOf(const onnx::ValueInfoProto &info) {
  for (const auto &entry : info.metadata_props())
    if (entry.key() == "pkg.torch.export.graph_signature.InputSpec.kind")
      return entry.value();
  return "";
}

bool kerf::onnx_import::isOfLearnedSize(Value number) {
  auto constant = number.getDefiningOp<nn::ConstantOp>();
  if (!constant)
    return true;
  constexpr double kLeast = 1e-4, kMost = 1e4;
  APFloat value = *constant.getElements().getValues<APFloat>().begin();
  bool lost;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  double size = std::abs(value.convertToDouble());
  return size == 0 || (size >= kLeast && size <= kMost);
}

void Importer::noteKinds(const onnx::GraphProto &graph) {
  SmallVector<Attribute> buffers, parameters, shared, others;
  for (const auto &info : graph.value_info()) {
    if (!initializers.count(info.name()))
      continue;
    StringRef kind = kindOf(info);
    if (isBufferKind(kind))
      buffers.push_back(ops.getStringAttr(info.name()));
    else if (isParameterKind(kind) && options.smallWeights)
      parameters.push_back(ops.getStringAttr(info.name()));
  }
  if (options.smallWeights)
    for (const std::string &name : sharedByModel(graph))
      shared.push_back(ops.getStringAttr(name));
  for (const auto &[other, stored] : otherNamesOf(graph))
    for (const std::string &name : {other, stored})
      others.push_back(ops.getStringAttr(name));
  for (auto [key, names] : {std::pair(kBuffersAttr, &buffers),
                            {kParametersAttr, &parameters},
                            {kSharedAttr, &shared},
                            {kOtherNamesAttr, &others}})
    if (!names->empty())
      (*module)->setAttr(key, ops.getArrayAttr(*names));
}
