//===- Boundary.h - the program's function and its lists --------*- C++ -*-===//
//
// Between the whole tensors that a host passes and the functions of stages: the
// list of each stage becomes code that takes parts, calls, sends, receives and
// gives parts.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_RANKS_BOUNDARY_H
#define KERF_LIB_RANKS_BOUNDARY_H

#include "Calls.h"
#include "Description.h"

namespace kerf::ranks {

/// Defines `entry`, a declaration on whole tensors, as a function of a rank and
/// whole memrefs, inputs then outputs, that runs the module's lists; erases
/// these and the channels. Fails with an error where it cannot.
mlir::LogicalResult defineEntry(mlir::func::FuncOp entry,
                                Description &description, Calls &calls);

} // namespace kerf::ranks

#endif // KERF_LIB_RANKS_BOUNDARY_H
