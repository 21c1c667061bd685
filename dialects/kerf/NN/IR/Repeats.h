//===- Repeats.h - tensors that repeat, stored once -------------*- C++ -*-===//
//
// Masks and positions of a batch are the same for every sample: a model of 32
// samples has masks of 32 million elements that are one million 32 times.
// The evaluator keeps such a tensor as its `core`, of the same rank and of size
// 1 along the dimensions in which it repeats.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_IR_REPEATS_H
#define KERF_NN_IR_REPEATS_H

#include "HostTensor.h"

#include "mlir/IR/Operation.h"

#include <optional>

namespace kerf::nn {

/// `elements` with size 1 along the dimensions in `dims` in which they repeat.
mlir::DenseElementsAttr shrink(mlir::DenseElementsAttr elements,
                               llvm::ArrayRef<int64_t> dims);
/// The same along every dimension.
mlir::DenseElementsAttr shrink(mlir::DenseElementsAttr elements);

/// `core` repeated to `shape`; none if that is more than the evaluator takes.
std::optional<HostTensor> repeat(const HostTensor &core,
                                 llvm::ArrayRef<int64_t> shape);

/// The core's shape of the result of `op` on operands whose cores are `cores`.
/// Those that the op does not take part by part become larger; none if they
/// would be larger than the evaluator takes.
std::optional<llvm::SmallVector<int64_t>>
coreOfResult(mlir::Operation *op, llvm::MutableArrayRef<HostTensor> cores);

} // namespace kerf::nn

#endif // KERF_NN_IR_REPEATS_H
