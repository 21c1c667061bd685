//===- Epilogue.h - what follows a product, in the same call ----*- C++ -*-===//
#ifndef KERF_LIB_LOWER_LIBRARY_EPILOGUE_H
#define KERF_LIB_LOWER_LIBRARY_EPILOGUE_H

#include "LibraryCall.h"

namespace kerf {

/// Whether the value is a sum over micro-batches so far, to which its only user
/// adds what is returned in its place.
bool isAccumulator(mlir::Value value);

/// Follows the result of a call's anchor, whose shape is `logicalShape`,
/// through its users and takes in what the device's library does before it
/// stores: ops, bias, post-ops and `result` of the call are set. Returns the
/// reshapes and transposes between the anchor's result and the call's.
llvm::SmallVector<mlir::Operation *>
fuseEpilogue(LibraryCall &call, llvm::ArrayRef<int64_t> logicalShape);

} // namespace kerf

#endif // KERF_LIB_LOWER_LIBRARY_EPILOGUE_H
