//===- Join.h - a parameter that an exporter stored twice -------*- C++ -*-===//
//
// Problem: PyTorch's exporter folds the transpose of a Linear's weight on three
// dimensions, at each application by itself: a module that is applied several
// times (ALBERT's layers) has as many matrices, val_57, val_133, ..., which
// would be trained apart.
//
// Idea: the exporter says of each node which call it is from, with the
// parameters that the call reads. Matrices of equal numbers at the same place
// of nodes whose calls are alike are the same parameter, and one of them is
// read by all. The file of a trained model has that one.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_WEIGHTS_JOIN_H
#define KERF_LIB_IMPORT_WEIGHTS_JOIN_H

#include "../File/Tensors.h"

#include "kerf/Import/Import.h"

namespace kerf::onnx_import {

/// Renames inputs of nodes in `model` and takes out the initializers that
/// nothing reads any more.
std::vector<JoinedRead> joinFolded(onnx::ModelProto &model, ModelFiles &files,
                                   mlir::MLIRContext &context);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_WEIGHTS_JOIN_H
