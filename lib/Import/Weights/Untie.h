//===- Untie.h - equal tensors that an exporter stored once -----*- C++ -*-===//
//
// Problem: exporters store tensors of equal values once, and the norms of a
// fresh model are all ones: nine parameters become one, and would be trained as
// one.
//
// Idea: if several nodes read a vector, or a tensor of equal elements, each
// gets a copy whose first value is the same bytes. Nodes of one module that is
// applied several times, where the file says so (OwnReads.h), keep one.
// Matrices that several nodes read are tied on purpose (embedding and head) and
// stay one. For the rest of import a copy is an ordinary initializer. The file
// of a trained model gets the copies that were trained: it is the original with
// some inputs of nodes renamed and initializers added; everything else stays
// byte for byte.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_WEIGHTS_UNTIE_H
#define KERF_LIB_IMPORT_WEIGHTS_UNTIE_H

#include "../File/Tensors.h"

#include "kerf/Import/Import.h"

namespace kerf::onnx_import {

/// Renames inputs of nodes in `model` and adds the copies. Names that match one
/// of `tied` stay as they are; where a pattern matches no initializer that
/// several nodes read, `error` says so.
std::vector<UntiedCopy> untie(onnx::ModelProto &model, ModelFiles &files,
                              mlir::MLIRContext &context,
                              const std::vector<std::string> &tied,
                              std::string &error);

/// Marks the weights that are copies (kerf.copy_of).
void markCopies(mlir::ModuleOp module, llvm::ArrayRef<UntiedCopy> copies);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_WEIGHTS_UNTIE_H
