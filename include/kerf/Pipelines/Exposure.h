//===- Exposure.h - values of a model as results of it ----------*- C++ -*-===//
//
// A wrong output does not say which op is wrong. Any value of @main can be made
// a result, so that a program that returns it can be compared there. That
// program differs: a value that is returned is not fused away. Users of this
// file must report so (docs/Verification.md).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PIPELINES_EXPOSURE_H
#define KERF_PIPELINES_EXPOSURE_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace kerf {

/// The values that ops of @main compute, in program order; not those of sources
/// and of ops of `dist`.
std::vector<mlir::Value> computedValues(mlir::ModuleOp module);

/// The ONNX node that a value comes from, and its op: "Add_3 (nn.add)".
std::string describeValue(mlir::Value value);
/// The same with types. Two modules have the same values if these lists are
/// equal.
std::vector<std::string> describeValues(llvm::ArrayRef<mlir::Value> values);

/// Makes values of a planned @main further results of it, named `value:NUMBER`
/// by their place in `values`, in their planned layouts. Skips null values and
/// those that no device holds whole until a later sum over time. Returns the
/// places in `values` of those that became results.
std::vector<size_t> exposeValues(mlir::ModuleOp planned,
                                 llvm::ArrayRef<mlir::Value> values);

/// Test only: adds `amount` (of the value) to every element of the result of
/// this node's last op, as a wrong kernel might; all readers see the sum.
/// Returns the value and its replacement; null if the node has no float result.
std::pair<mlir::Value, mlir::Value>
damageValue(mlir::ModuleOp module, llvm::StringRef node,
            llvm::function_ref<double(mlir::Value)> amount);

/// Test only: the step of the optimizer for this parameter has learning rate 0.
/// Returns whether there is such a step.
bool leaveUpdateOut(mlir::ModuleOp module, llvm::StringRef parameter);

} // namespace kerf

#endif // KERF_PIPELINES_EXPOSURE_H
