//===- OtherName.h - plans of another export of a model ---------*- C++ -*-===//
#ifndef KERF_LIB_PLAN_REPORT_OTHERNAME_H
#define KERF_LIB_PLAN_REPORT_OTHERNAME_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

namespace kerf::plan {

/// The plan with the model's name of a weight that several ops read, where the
/// plan has another one for it and that is all in which their names differ.
llvm::json::Value withNamesOf(mlir::func::FuncOp function,
                              const llvm::json::Value &plan);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_REPORT_OTHERNAME_H
