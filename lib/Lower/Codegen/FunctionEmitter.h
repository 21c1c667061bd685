//===- FunctionEmitter.h - exec.func as LLVM IR -----------------*- C++ -*-===//
//
// An exec.func becomes straight code: addresses are parameters, boundary
// buffers, or scratch plus a constant; every call goes through the runtime's
// table, and a status that is not 0 is returned at once.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_FUNCTIONEMITTER_H
#define KERF_LOWER_CODEGEN_FUNCTIONEMITTER_H

#include "KernelEmitter.h"

#include "kerf/Exec/Exec.h"

namespace kerf::codegen {

/// The function that a launch of an exec.kernel calls; without a symbol: NULL.
struct CompiledKernel {
  std::string symbol;
  KernelLaunch launch;
  /// Where in its buffer each input begins; empty: all at 0.
  llvm::SmallVector<int64_t> byteOffsets;
};

/// Defines `int32_t NAME(api, context, params, ios, scratch)`.
mlir::LogicalResult
emitFunction(exec::FuncOp func, llvm::Module &module,
             const llvm::DenseMap<mlir::StringAttr, CompiledKernel> &kernels,
             mlir::SymbolTable &symbols);

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_FUNCTIONEMITTER_H
