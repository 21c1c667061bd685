//===- WholeOps.h - ops that nothing says how to cut ------------*- C++ -*-===//
//
// An op without a rule is right on any mesh, but each device does all of its
// work: whoever wrote it should know, and what bringing it its operands costs.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_WHOLEOPS_H
#define KERF_LIB_PLAN_WHOLEOPS_H

#include "mlir/IR/Operation.h"

namespace kerf::plan {

/// Whether every device computes all of an op, for want of a rule, and that is
/// worth a remark: not of what gives or takes single numbers, nor of what dist
/// itself puts there, which computes nothing.
bool lacksRule(mlir::Operation *op);

/// The remark. `bytes`: what all devices send in a step to bring the op its
/// operands.
void remarkWhole(mlir::Operation *op, mlir::Location loc, int64_t bytes);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_WHOLEOPS_H
