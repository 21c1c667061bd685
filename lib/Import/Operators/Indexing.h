//===- Indexing.h - what operators with indices share -----------*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_OPERATORS_INDEXING_H
#define KERF_LIB_IMPORT_OPERATORS_INDEXING_H

#include "../Graph/Node.h"

namespace kerf::onnx_import {

/// As i64; reports (and gives null) what is no tensor of integers.
mlir::Value wideIndices(Node &node, mlir::Value indices);

/// The indices, input 1, of an operator that has one for each element
/// (GatherElements, ScatterElements), and the axis that they count. Null after
/// reporting what does not fit input 0.
mlir::Value elementIndices(Node &node, int64_t &axis);

/// The same indices in [0, size): negative ones count from the end. One that is
/// outside [-size, size) is an error here if it is a constant, and else when
/// the program runs.
/// `length`: how many there are, if that is computed; negative ones count from
/// there.
mlir::Value indicesWithin(Node &node, mlir::Value indices, int64_t size,
                          mlir::Value length = {});

/// For each entry of the last dimension of `indices` the number of the element
/// (or slice) of dimensions `sizes`, in row-major order. Indices have the
/// checks above. `lengths`: of the dimensions, null where they are the sizes.
mlir::Value linearIndices(Node &node, mlir::Value indices,
                          llvm::ArrayRef<int64_t> sizes,
                          llvm::ArrayRef<mlir::Value> lengths = {});

/// The attribute `axis` of an operator on slices of x. Without it x becomes a
/// vector of its elements. Nothing after reporting.
std::optional<int64_t> axisOrFlat(Node &node, mlir::Value &x);

/// The places in the vector `mask` that hold, in order, of which there are at
/// most `most`: bounded by their number, with 0 behind them. Null after
/// reporting.
mlir::Value placesOf(Node &node, mlir::Value mask, int64_t most);

/// What nn.top_k compares instead of x, in the same order.
mlir::Value sortKeys(Node &node, mlir::Value x);

/// Where dimension `axis` of `rank` becomes the last one, and the way back.
llvm::SmallVector<int64_t> axisToLast(int64_t axis, int64_t rank);
llvm::SmallVector<int64_t> lastToAxis(int64_t axis, int64_t rank);

/// nn.gather with indices of its own for each row: dimensions before `dim` are
/// those of both.
mlir::Value gatherRows(Node &node, mlir::Value data, mlir::Value indices,
                       int64_t dim);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_OPERATORS_INDEXING_H
