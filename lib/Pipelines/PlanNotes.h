//===- PlanNotes.h - what a user should know of a plan ----------*- C++ -*-===//
//
// A mesh that a user fixes may not cut anything, and a batch may not divide by
// it: both give right results at a cost that nobody sees. So they are said.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PIPELINES_PLANNOTES_H
#define KERF_LIB_PIPELINES_PLANNOTES_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace kerf {

/// Of a planned module, a line each: axes of the mesh over which every device
/// does the same, and inputs whose parts are padded.
std::vector<std::string> planNotes(mlir::ModuleOp module);

} // namespace kerf

#endif // KERF_LIB_PIPELINES_PLANNOTES_H
