//===- Assembly.h - how nn ops are written ----------------------*- C++ -*-===//
//
// The custom directives of the ops' assembly formats. They omit what follows
// from the rest of the line: attributes with their default value, types that
// follow from others. Printed text parses back to the same op; where a short
// form would lose something, the long one is printed.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_IR_ASSEMBLY_H
#define KERF_NN_IR_ASSEMBLY_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"

namespace kerf::nn {

/// Bytes of a tensor in a file: elements take whole bytes.
int64_t sizeInBytes(mlir::RankedTensorType type);

/// `T` where operands and result have one type, else `(T, U) -> V`.
mlir::ParseResult parseTypes(mlir::OpAsmParser &parser, mlir::Type &x,
                             mlir::Type &result);
mlir::ParseResult parseTypes(mlir::OpAsmParser &parser, mlir::Type &lhs,
                             mlir::Type &rhs, mlir::Type &result);
void printTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Type x,
                mlir::Type result);
void printTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                mlir::Type lhs, mlir::Type rhs, mlir::Type result);

/// `T, V` where the result has the type T of the first operand and the vectors
/// all have the type V, else `(T, V, W) -> U`.
mlir::ParseResult parseRowTypes(mlir::OpAsmParser &parser, mlir::Type &x,
                                mlir::Type &scale, mlir::Type &result);
mlir::ParseResult parseRowTypes(mlir::OpAsmParser &parser, mlir::Type &x,
                                mlir::Type &scale, mlir::Type &bias,
                                mlir::Type &result);
mlir::ParseResult parseRowTypes(mlir::OpAsmParser &parser, mlir::Type &x,
                                mlir::Type &scale, mlir::Type &bias,
                                mlir::Type &mean, mlir::Type &variance,
                                mlir::Type &result);
void printRowTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                   mlir::Type x, mlir::Type scale, mlir::Type result);
void printRowTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                   mlir::Type x, mlir::Type scale, mlir::Type bias,
                   mlir::Type result);
void printRowTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                   mlir::Type x, mlir::Type scale, mlir::Type bias,
                   mlir::Type mean, mlir::Type variance, mlir::Type result);

/// An f64 that a model's f32 gave, in the fewest digits of an f32: `1.0e-05`;
/// with `f64` behind it where it is none: `0.1 f64`.
mlir::ParseResult parseSingle(mlir::OpAsmParser &parser,
                              mlir::FloatAttr &value);
void printSingle(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                 mlir::FloatAttr value);

/// Elements before and after each dimension: `[0, 1, 2:1]`, one number where
/// both are equal.
mlir::ParseResult parseBorders(mlir::OpAsmParser &parser,
                               mlir::DenseI64ArrayAttr &low,
                               mlir::DenseI64ArrayAttr &high);
void printBorders(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                  mlir::DenseI64ArrayAttr low, mlir::DenseI64ArrayAttr high);

/// An f64 in the fewest digits that give it back: `0.1`, `1.0e-05`.
mlir::ParseResult parseReal(mlir::OpAsmParser &parser, mlir::FloatAttr &value);
void printReal(mlir::OpAsmPrinter &printer, mlir::Operation *op,
               mlir::FloatAttr value);

/// `kernel 3x3 strides 2x2 pad 1x1 dilations 2x2`, or `low 0x0 high 1x1` where
/// these differ.
mlir::ParseResult
parseWindow(mlir::OpAsmParser &parser, mlir::DenseI64ArrayAttr &kernel,
            mlir::DenseI64ArrayAttr &strides, mlir::DenseI64ArrayAttr &low,
            mlir::DenseI64ArrayAttr &high, mlir::DenseI64ArrayAttr &dilations);
void printWindow(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                 mlir::DenseI64ArrayAttr kernel,
                 mlir::DenseI64ArrayAttr strides, mlir::DenseI64ArrayAttr low,
                 mlir::DenseI64ArrayAttr high,
                 mlir::DenseI64ArrayAttr dilations);

/// `Q, K, V` or `Q, K, V, bias` of attention's gradient: what attention gives
/// of them has the types of its result and statistics.
mlir::ParseResult parseAttentionTypes(mlir::OpAsmParser &parser, mlir::Type &q,
                                      mlir::Type &k, mlir::Type &v,
                                      mlir::Type &result, mlir::Type &stats,
                                      mlir::Type &dy, mlir::Type &bias);
void printAttentionTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                         mlir::Type q, mlir::Type k, mlir::Type v,
                         mlir::Type result, mlir::Type stats, mlir::Type dy,
                         mlir::Type bias);

/// `%w, %g, %m, %lr momentum 0.9 ... : T`: the parameter, its gradient, what
/// the optimizer remembers, then `numScalars` of tensor<f32>. All tensors have
/// the type T, and so do the new parameter and memory.
mlir::ParseResult parseUpdate(mlir::OpAsmParser &parser,
                              mlir::OperationState &state,
                              llvm::ArrayRef<llvm::StringRef> numbers,
                              size_t numScalars);
void printUpdate(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                 llvm::ArrayRef<llvm::StringRef> numbers, size_t numScalars);

/// `[0, 5] strides [1, -2]`, without strides where all are 1.
mlir::ParseResult parseSliceStarts(mlir::OpAsmParser &parser,
                                   mlir::DenseI64ArrayAttr &starts,
                                   mlir::DenseI64ArrayAttr &strides);
void printSliceStarts(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                      mlir::DenseI64ArrayAttr starts,
                      mlir::DenseI64ArrayAttr strides);

/// `(T) -> U`; the sizes are those of U.
mlir::ParseResult parseSliceTypes(mlir::OpAsmParser &parser,
                                  mlir::DenseI64ArrayAttr &sizes, mlir::Type &x,
                                  mlir::Type &result);
void printSliceTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                     mlir::DenseI64ArrayAttr sizes, mlir::Type x,
                     mlir::Type result);

/// `T`, or of a view `T of S from [0, 768]`; the length is that of S in bytes.
mlir::ParseResult parseStoredType(mlir::OpAsmParser &parser, mlir::Type &result,
                                  mlir::TypeAttr &stored,
                                  mlir::DenseI64ArrayAttr &starts,
                                  mlir::IntegerAttr &length);
void printStoredType(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                     mlir::Type result, mlir::TypeAttr stored,
                     mlir::DenseI64ArrayAttr starts, mlir::IntegerAttr length);

} // namespace kerf::nn

#endif // KERF_NN_IR_ASSEMBLY_H
