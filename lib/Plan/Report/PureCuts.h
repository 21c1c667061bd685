//===- PureCuts.h - the article's three cuts --------------------*- C++ -*-===//
//
// What data parallel, tensor parallel and pipeline alone would send in one
// training step, over all devices, by the formulas of the source article and as
// ring collectives (docs/CostModel.md). Shown beside every plan, whatever the
// plan is for: it is the article's question.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_REPORT_PURECUTS_H
#define KERF_LIB_PLAN_REPORT_PURECUTS_H

#include "kerf/Plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf::plan {

/// Whether an op is a parameter of the model: no constant, no state of an
/// optimizer, which only updates read, and none that the model writes itself.
bool isModelParameter(mlir::Operation &op);

/// Parameters of a function: elements, and bytes as stored.
struct ParameterCount {
  int64_t elements = 0, bytes = 0;
};
ParameterCount countParameters(mlir::func::FuncOp function);

/// Floating-point operations of the function on its present shapes, without
/// what it computes a second time.
int64_t countFlops(mlir::func::FuncOp function);

/// `numDevices` devices. Layers of the vertical cut are the ops that contract
/// with a parameter (their outputs must be put together); stages of the
/// horizontal cut divide the operations evenly, in program order.
PureCuts pureCuts(mlir::func::FuncOp function, int64_t numDevices);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_REPORT_PURECUTS_H
