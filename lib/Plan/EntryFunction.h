//===- EntryFunction.h - the function that is planned -----------*- C++ -*-===//
#ifndef KERF_LIB_PLAN_ENTRYFUNCTION_H
#define KERF_LIB_PLAN_ENTRYFUNCTION_H

#include "kerf/Plan/OpRules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf::plan {

/// The function to plan (dist::findEntry), of one block in which all that ops
/// use are their operands. Null if there is none such, with errors where that
/// is. The rules go to `rules`, if given.
mlir::func::FuncOp entryToPlan(mlir::ModuleOp module, OpRules *rules = nullptr);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_ENTRYFUNCTION_H
