//===- Evaluate.h - nn ops on constants -------------------------*- C++ -*-===//
//
// Shape computations, masks and other values that are known at import are
// computed there. Elements are widened to double or int64, computed, and
// rounded back to the element type (for f32 that equals computing in f32 for +
// - * / and sqrt). A splat stays one element, whatever the size of the tensor.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_IR_EVALUATE_H
#define KERF_NN_IR_EVALUATE_H

#include "kerf/NN/NN.h"

namespace kerf::nn {

/// Limit on the elements of results that are not splats, each counted once
/// where they repeat.
constexpr int64_t kMaxEvaluatedElements = int64_t(1) << 24;

/// Tensors of at most as many elements are whole: those who read constants find
/// one op.
constexpr int64_t kSmallTensor = int64_t(1) << 16;

/// The result of `op` if its operands are all unnamed nn.constant ops, it has
/// one result, and it is one of the ops that can be evaluated; else null. Where
/// a tensor has more than `small` elements, operands may also be nn.iota and
/// nn.broadcast of constants, the result has size 1 along dimensions in which
/// it repeats, and a broadcast stays one: null. An integer division by zero or
/// an index out of range gives null.
mlir::DenseElementsAttr evaluate(mlir::Operation *op,
                                 int64_t small = kSmallTensor);

/// nn.constant of what evaluate() gave, with nn.broadcast to `type` behind it
/// where it repeats.
mlir::Value makeConstant(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::RankedTensorType type,
                         mlir::DenseElementsAttr elements);

/// The elements of what makeConstant() made; null of another value, and if they
/// are more than kMaxEvaluatedElements.
mlir::DenseElementsAttr wholeElements(mlir::Value value);

} // namespace kerf::nn

#endif // KERF_NN_IR_EVALUATE_H
