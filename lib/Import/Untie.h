//===- Untie.h - equal tensors that an exporter stored once -----*- C++ -*-===//
//
// Problem: exporters store tensors of equal values once, and a fresh model's
// norms are all ones: nine parameters become one, and are trained as one.
//
// Idea: a vector, or a tensor of equal elements, that several nodes read gives
// each of them a copy, with the same bytes as its first value. Matrices that
// several nodes read are tied on purpose (embedding and head) and stay one. To
// import a copy is an initializer like any other. A trained model gets the
// copies that were trained: its file is the original's with some nodes' inputs
// renamed and initializers added; everything else stays byte for byte.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_UNTIE_H
#define KERF_LIB_IMPORT_UNTIE_H

#include "Tensors.h"

#include "kerf/Import/Import.h"

namespace kerf::onnx_import {

/// Renames inputs of nodes in `model` and adds the copies. Names that match one
/// of `tied` stay as they are; of patterns that match none `unused` gets the
/// first.
std::vector<UntiedCopy> untie(onnx::ModelProto &model, ModelFiles &files,
                              mlir::MLIRContext &context,
                              const std::vector<std::string> &tied,
                              std::string &unused);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_UNTIE_H
