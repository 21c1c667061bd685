//===- RandomMasks.h - dropout that exporters take apart --------*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_RANDOMMASKS_H
#define KERF_LIB_IMPORT_RANDOMMASKS_H

#include "File/Tensors.h"

#include "llvm/ADT/StringSet.h"

namespace kerf::onnx_import {

/// Makes Dropout nodes of what PyTorch's exporter takes apart: see
/// RandomMasks.cpp. `files`: of the model, with its constants.
void recogniseMasks(onnx::ModelProto &model, ModelFiles &files,
                    mlir::MLIRContext &context);

/// Names that are read as ratios of Dropout and as nothing else.
llvm::StringSet<> ratiosOfDropout(const onnx::GraphProto &graph);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_RANDOMMASKS_H
