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

/// Limit on the elements of results that are not splats.
constexpr int64_t kMaxEvaluatedElements = int64_t(1) << 24;

/// The result of `op` if its operands are all unnamed nn.constant ops, it has
/// one result, and it is one of the ops that can be evaluated; else null. An
/// integer division by zero or an index out of range gives null.
mlir::DenseElementsAttr evaluate(mlir::Operation *op);

} // namespace kerf::nn

#endif // KERF_NN_IR_EVALUATE_H
