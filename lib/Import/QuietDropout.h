//===- QuietDropout.h - dropout that training would miss --------*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_QUIETDROPOUT_H
#define KERF_LIB_IMPORT_QUIETDROPOUT_H

#include "File/Tensors.h"

#include <string>

namespace kerf::onnx_import {

/// What a model in training form does not drop, though it was told to: see
/// QuietDropout.cpp. Empty: there is none. `files`: of the model.
std::string describeQuietDropout(const onnx::ModelProto &model,
                                 ModelFiles &files, mlir::MLIRContext &context);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_QUIETDROPOUT_H
