//===- Descriptors.h - library calls and collectives as entries -*- C++ -*-===//
//
// What a call is, in the words of manifest.json (docs/Package.md).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_DESCRIPTORS_H
#define KERF_LIB_LOWER_DESCRIPTORS_H

#include "Library.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace kerf {

/// The node's name in the model: the innermost name of the location.
std::string modelNode(mlir::Location loc);

/// The manifest's name of a dist.phase: prologue, forward, backward, update.
llvm::StringRef phaseName(mlir::Attribute phase);

/// The phase that prepareTraining left on a location, null if there is none.
mlir::Attribute phaseOf(mlir::Location loc);

/// {buffer = k} or {param = i} for the base of an operand; `packed`: the call
/// keeps its own copy of a parameter.
using DescribeBase =
    llvm::function_ref<mlir::DictionaryAttr(mlir::Value base, bool packed)>;

/// Entry of the manifest's `library`. `dst` is what the call writes.
mlir::DictionaryAttr describeLibraryCall(const LibraryCall &call,
                                         mlir::DictionaryAttr dst,
                                         DescribeBase describeBase);

/// Entry of the manifest's `collectives` for a dist collective.
mlir::DictionaryAttr describeCollective(mlir::Operation *op);

} // namespace kerf

#endif // KERF_LIB_LOWER_DESCRIPTORS_H
