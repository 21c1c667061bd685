//===- PlanNotes.h - notes for the user on a plan ---------------*- C++ -*-===//
//
// A mesh that the user fixed may cut nothing along an axis, or not divide the
// batch. Both give right results at a cost that is easily overlooked, so they
// are reported.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PIPELINES_PLANNOTES_H
#define KERF_LIB_PIPELINES_PLANNOTES_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace kerf {

/// Notes on a planned module, one line each: axes of the mesh over which
/// devices compute the same, and inputs whose parts are padded.
std::vector<std::string> planNotes(mlir::ModuleOp module);

} // namespace kerf

#endif // KERF_LIB_PIPELINES_PLANNOTES_H
