//===- Calls.h - calls of the runtime's functions ---------------*- C++ -*-===//
//
// Functions of kerf/rt/ranks.h take addresses. An address that was taken from a
// buffer hides its use, so a pass that frees buffers early could free one
// before the call. Each call therefore stands in a private function that takes
// the buffers themselves and is not inlined.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_RANKS_CALLS_H
#define KERF_LIB_RANKS_CALLS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

#include <map>
#include <string>

namespace kerf::ranks {

/// The first arguments of a function that runs on ranks.
struct RankArguments {
  mlir::Value rank;       ///< !llvm.ptr
  mlir::Value microBatch; ///< i64
};

class Calls {
public:
  explicit Calls(mlir::ModuleOp module) : symbols(module), module(module) {}

  /// Calls `callee`(rank, numbers..., addresses of buffers...) through a
  /// function named `name`, or like it if that is taken; calls of equal names
  /// and types share it. `alive` are buffers that live until the call returns.
  mlir::func::CallOp call(mlir::OpBuilder &builder, mlir::Location loc,
                          llvm::StringRef name, llvm::StringRef callee,
                          mlir::Value rank, mlir::ValueRange numbers,
                          mlir::ValueRange buffers,
                          mlir::ValueRange alive = {});
  /// The dense buffer of a tensor as it is here, to be read alone. Where
  /// bufferization places the tensor in a part of another one, it copies it
  /// here. Each read has a number, since two that are equal would be merged
  /// (CSE), and an op between them could then write into what the second reads.
  mlir::Value readBuffer(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value tensor);
  /// The rank's number, an i64.
  mlir::Value rankNumber(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value rank);

  mlir::SymbolTable symbols;

private:
  /// Calls a function of the runtime, which is declared as one of LLVM: passes
  /// that give functions of MLIR other interfaces leave it alone.
  mlir::LLVM::CallOp callRuntime(mlir::OpBuilder &builder, mlir::Location loc,
                                 llvm::StringRef name, mlir::Type result,
                                 mlir::ValueRange operands);

  mlir::ModuleOp module;
  int64_t numReads = 0;
  /// By name and type.
  std::map<std::pair<std::string, const void *>, mlir::func::FuncOp> made;
};

} // namespace kerf::ranks

#endif // KERF_LIB_RANKS_CALLS_H
