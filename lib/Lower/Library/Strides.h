//===- Strides.h - tensors as strided views of dense ones -------*- C++ -*-===//
//
// Problem: attention moves heads by reshape and transpose around every matmul,
// and a library that takes strides needs none of these copies.
//
// Idea: a chain of shape ops over a dense tensor can often be expressed as an
// offset and one stride per dimension. Followed from a tensor towards its user,
// it gives the strides of an operand (composeView); followed backwards from a
// result, it gives the strides, over the producer's dimensions, of the value at
// the end of the chain (pullBack).
//
// Invariant: element i of the view is element offset + sum i_d stride_d of the
// base. A dimension of size 1 may have any stride.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_LIBRARY_STRIDES_H
#define KERF_LIB_LOWER_LIBRARY_STRIDES_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

#include <optional>

namespace kerf {

using Dims = llvm::SmallVector<int64_t, 4>;

/// Row-major strides of a dense tensor, in elements.
Dims denseStrides(llvm::ArrayRef<int64_t> shape);

/// A strided view of the dense value `base`.
struct StridedView {
  mlir::Value base;
  int64_t offset = 0;
  Dims sizes, strides;
};

/// Whether the op is a reshape, transpose, broadcast or slice.
bool isShapeOp(mlir::Operation *op);

/// `value` as a view of a value that is no shape op's result; where strides
/// cannot express that, of the result of the first shape op behind which they
/// can.
StridedView composeView(mlir::Value value);

/// `view` broadcast, right-aligned, to `shape`: strides of 0 where it repeats.
StridedView broadcastView(StridedView view, llvm::ArrayRef<int64_t> shape);

/// `chain` holds reshapes and transposes, each of the result of the one before.
/// Given a tensor with `strides` over the dimensions of the last result,
/// returns its strides over the dimensions of the first operand; none if there
/// are none.
std::optional<Dims> pullBack(llvm::ArrayRef<mlir::Operation *> chain,
                             llvm::ArrayRef<int64_t> strides);

} // namespace kerf

#endif // KERF_LIB_LOWER_LIBRARY_STRIDES_H
