//===- BoundedShapes.h - shapes that the program computes -------*- C++ -*-===//
//
// Operators that move elements, where a shape, a place or a size that they are
// told is a length (Bounds.h), or where they go along a bounded dimension.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_OPERATORS_BOUNDEDSHAPES_H
#define KERF_LIB_IMPORT_OPERATORS_BOUNDEDSHAPES_H

#include "../Graph/Node.h"

namespace kerf::onnx_import {

/// The shape that input `index` lists, with the most that each size can be, and
/// for each the length, or null where it is constant. None after reporting one
/// that has no bound.
std::optional<llvm::SmallVector<int64_t>>
largestShape(Node &node, size_t index,
             llvm::SmallVectorImpl<mlir::Value> &lengths);

mlir::LogicalResult reshapeBounded(Node &node, bool allowZero);
mlir::LogicalResult expandBounded(Node &node);
mlir::LogicalResult sliceBounded(Node &node);
/// From a constant, in constant steps, to a number that is computed.
mlir::LogicalResult rangeBounded(Node &node);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_OPERATORS_BOUNDEDSHAPES_H
