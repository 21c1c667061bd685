//===- Assembly.h - pieces of text of exec ops ------------------*- C++ -*-===//
//
// The custom directives of the .td files: integers and numbers without a type,
// operands of library calls with their views, epilogues.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_EXEC_ASSEMBLY_H
#define KERF_EXEC_ASSEMBLY_H

#include "kerf/Exec/Exec.h"

namespace kerf::exec {

using UnresolvedOperand = mlir::OpAsmParser::UnresolvedOperand;

/// [1, 2, 3]
mlir::ParseResult parseList(mlir::AsmParser &parser,
                            llvm::SmallVectorImpl<int64_t> &values);
void printList(mlir::AsmPrinter &printer, llvm::ArrayRef<int64_t> values);

/// Optional `strides [..]` and `offset n`; null where there is neither.
mlir::ParseResult parseView(mlir::AsmParser &parser, ViewAttr &view);
void printView(mlir::AsmPrinter &printer, ViewAttr view);

/// `kind` or `kind(1.0, 2.0)`.
mlir::ParseResult parseKind(mlir::AsmParser &parser, PostOpKind &kind,
                            mlir::FloatAttr &alpha, mlir::FloatAttr &beta);
void printKind(mlir::AsmPrinter &printer, PostOpAttr postOp);

mlir::ParseResult parseInt(mlir::OpAsmParser &parser, mlir::IntegerAttr &value);
void printInt(mlir::OpAsmPrinter &printer, mlir::Operation *,
              mlir::IntegerAttr value);
mlir::ParseResult parseReal(mlir::OpAsmParser &parser, mlir::FloatAttr &value);
void printReal(mlir::OpAsmPrinter &printer, mlir::Operation *,
               mlir::FloatAttr value);

/// `all_gather` or, with a reduction, `all_reduce sum`.
mlir::ParseResult parseKind(mlir::OpAsmParser &parser,
                            dist::CollectiveKindAttr &kind,
                            dist::ReductionAttr &reduction);
void printKind(mlir::OpAsmPrinter &printer, mlir::Operation *,
               dist::CollectiveKindAttr kind, dist::ReductionAttr reduction);

/// (%x : memref<2x3xf32> strides [1, 2] offset 6)
mlir::ParseResult parseRole(mlir::OpAsmParser &parser,
                            UnresolvedOperand &operand, mlir::Type &type,
                            ViewAttr &view);
void printRole(mlir::OpAsmPrinter &printer, mlir::Operation *,
               mlir::Value operand, mlir::Type type, ViewAttr view);
mlir::ParseResult parseRole(mlir::OpAsmParser &parser,
                            std::optional<UnresolvedOperand> &operand,
                            mlir::Type &type, ViewAttr &view);

/// (%x : memref<2x3xf32>)
mlir::ParseResult parseDense(mlir::OpAsmParser &parser,
                             UnresolvedOperand &operand, mlir::Type &type);
mlir::ParseResult parseDense(mlir::OpAsmParser &parser,
                             std::optional<UnresolvedOperand> &operand,
                             mlir::Type &type);
void printDense(mlir::OpAsmPrinter &printer, mlir::Operation *,
                mlir::Value operand, mlir::Type type);

/// [add(%r : memref<2x4xf32> strides [0, 1]), linear(2.0, 0.0), relu]
mlir::ParseResult
parseEpilogue(mlir::OpAsmParser &parser, mlir::ArrayAttr &postOps,
              llvm::SmallVectorImpl<UnresolvedOperand> &operands,
              llvm::SmallVectorImpl<mlir::Type> &types);
void printEpilogue(mlir::OpAsmPrinter &printer, mlir::Operation *,
                   mlir::ArrayAttr postOps, mlir::OperandRange operands,
                   mlir::TypeRange types);

} // namespace kerf::exec

#endif // KERF_EXEC_ASSEMBLY_H
