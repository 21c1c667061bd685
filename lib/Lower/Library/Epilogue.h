//===- Epilogue.h - epilogues of library calls ------------------*- C++ -*-===//
#ifndef KERF_LIB_LOWER_LIBRARY_EPILOGUE_H
#define KERF_LIB_LOWER_LIBRARY_EPILOGUE_H

#include "LibraryCall.h"

namespace kerf {

/// Whether the value is the sum so far over micro-batches: an argument to which
/// its only user adds the value that is returned in its place.
bool isAccumulator(mlir::Value value);

/// Follows the result of a call's anchor, whose shape is `logicalShape`,
/// through its users and takes in what the device's library does before it
/// stores: sets ops, bias, post-ops and `result` of the call. Returns the
/// reshapes and transposes between the anchor's result and the call's.
llvm::SmallVector<mlir::Operation *>
fuseEpilogue(LibraryCall &call, llvm::ArrayRef<int64_t> logicalShape);

} // namespace kerf

#endif // KERF_LIB_LOWER_LIBRARY_EPILOGUE_H
