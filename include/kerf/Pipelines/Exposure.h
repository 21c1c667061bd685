//===- Exposure.h - values of a model as results of it ----------*- C++ -*-===//
//
// A wrong output does not say where it went wrong. Any value of @main can be
// made a result, and a program that hands it out can be compared there. That
// program is another one: what is handed out is not fused away. Who looks for a
// fault must say so (docs/Verification.md).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PIPELINES_EXPOSURE_H
#define KERF_PIPELINES_EXPOSURE_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace kerf {

/// What the ops of @main compute, in program order: results of all but sources
/// and what belongs to `dist`.
std::vector<mlir::Value> computedValues(mlir::ModuleOp module);

/// The ONNX node that a value comes from, and its op: "Add_3 (nn.add)".
std::string describeValue(mlir::Value value);
/// The same with types: two modules of which these are equal have the same
/// values.
std::vector<std::string> describeValues(llvm::ArrayRef<mlir::Value> values);

/// Makes values of a planned @main results of it, behind those it has, as
/// `value:NUMBER` by their place in `values`, cut as they are planned. A value
/// that is null is left out, and so are those that no device holds whole until
/// a later sum over time. What was made a result: places in `values`.
std::vector<size_t> exposeValues(mlir::ModuleOp planned,
                                 llvm::ArrayRef<mlir::Value> values);

/// Test only: whoever reads the value of the last op of this node gets it with
/// `amount` of it added to every element, as from a kernel that is wrong. The
/// value and what stands for it; null if the node has no float result.
std::pair<mlir::Value, mlir::Value>
damageValue(mlir::ModuleOp module, llvm::StringRef node,
            llvm::function_ref<double(mlir::Value)> amount);

} // namespace kerf

#endif // KERF_PIPELINES_EXPOSURE_H
