//===- Sequence.h - a list of tensors while a model is imported -*- C++ -*-===//
//
// A value of tuple type, made of its elements by an unrealized_conversion_cast;
// Operators/Sequences.cpp says why. Import erases these casts at its end.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_GRAPH_SEQUENCE_H
#define KERF_LIB_IMPORT_GRAPH_SEQUENCE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"

namespace kerf::onnx_import {

inline bool isSequence(mlir::Value value) {
  return value && mlir::isa<mlir::TupleType>(value.getType());
}

inline mlir::Value makeSequence(mlir::OpBuilder &builder, mlir::Location loc,
                                llvm::ArrayRef<mlir::Value> elements) {
  auto type = mlir::TupleType::get(builder.getContext(),
                                   mlir::ValueRange(elements).getTypes());
  return mlir::UnrealizedConversionCastOp::create(builder, loc, type, elements)
      .getResult(0);
}

inline llvm::SmallVector<mlir::Value> elementsOf(mlir::Value sequence) {
  return llvm::to_vector(sequence.getDefiningOp()->getOperands());
}

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_GRAPH_SEQUENCE_H
