//===- GradientsShape.cpp - gradients of ops that move elements -----------===//
//
// Each is the transpose of a 0/1 matrix: elements go back to where they came
// from, and those that were read several times are summed.
//
//===----------------------------------------------------------------------===//
#include "../IR/PatternUtils.h"
#include "GradientBuilder.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

#define KERF_VJP(Op)                                                           \
  Gradients Op::buildVectorJacobianProduct(OpBuilder &builder,                 \
                                           ValueRange resultGradients)

using Dims = SmallVector<int64_t>;

/// Gradient of the first operand alone; all others have none.
static Gradients ofFirst(Operation *op, OpBuilder &builder, Value dy,
                         llvm::function_ref<Value(GradientBuilder &)> vjp) {
  GradientBuilder b(builder, op->getLoc());
  SmallVector<Value> gradients(op->getNumOperands());
  if (dy && isDifferentiable(op->getOperand(0)))
    gradients[0] = vjp(b);
  return gradients;
}

KERF_VJP(ReshapeOp) {
  Value dy = resultGradients[0];
  return ofFirst(getOperation(), builder, dy, [&](GradientBuilder &b) {
    return b.reshape(dy, shapeOf(getX()));
  });
}

KERF_VJP(TransposeOp) {
  Value dy = resultGradients[0];
  return ofFirst(getOperation(), builder, dy, [&](GradientBuilder &b) {
    return b.transpose(dy, inversePermutation(getPerm()));
  });
}

KERF_VJP(BroadcastOp) {
  Value dy = resultGradients[0];
  return ofFirst(getOperation(), builder, dy,
                 [&](GradientBuilder &b) { return b.unbroadcast(dy, getX()); });
}

KERF_VJP(ConcatOp) {
  SmallVector<Value> gradients(getNumOperands());
  GradientBuilder b(builder, getLoc());
  Value dy = resultGradients[0];
  auto rank = static_cast<size_t>(getResult().getType().getRank());
  Dims starts(rank, 0);
  for (auto [gradient, input] : llvm::zip_equal(gradients, getInputs())) {
    if (dy && isDifferentiable(input))
      gradient = b.slice(dy, starts, shapeOf(input), Dims(rank, 1));
    starts[getDim()] += shapeOf(input)[getDim()];
  }
  return gradients;
}

/// Puts s - 1 zeros after each element of dimension `dim`.
static Value spread(GradientBuilder &b, Value x, size_t dim, int64_t s) {
  Dims shape(shapeOf(x));
  shape.insert(shape.begin() + dim + 1, 1);
  Dims low(shape.size(), 0), high(shape.size(), 0);
  high[dim + 1] = s - 1;
  Value padded = b.pad(b.reshape(x, shape), low, high);
  shape.erase(shape.begin() + dim + 1);
  shape[dim] *= s;
  return b.reshape(padded, shape);
}

KERF_VJP(SliceOp) {
  Value dy = resultGradients[0];
  if (getResult().getType().getNumElements() == 0)
    dy = nullptr;
  return ofFirst(getOperation(), builder, dy, [&](GradientBuilder &b) {
    ArrayRef<int64_t> shape = shapeOf(getX());
    size_t rank = shape.size();
    Dims first(getStarts()), last(rank, 0);
    // Dimensions with negative steps are reversed first.
    Dims starts(rank, 0), turn(rank, 1);
    for (size_t d = 0; d < rank; ++d)
      if (getStrides()[d] < 0) {
        turn[d] = -1;
        starts[d] = getSizes()[d] - 1;
        first[d] += (getSizes()[d] - 1) * getStrides()[d];
      }
    Value x = b.slice(dy, starts, getSizes(), turn);
    for (size_t d = 0; d < rank; ++d)
      if (int64_t stride = std::abs(getStrides()[d]);
          stride > 1 && getSizes()[d] > 1)
        x = spread(b, x, d, stride);
    // The zeros after the last element may go past the end.
    Dims kept(shapeOf(x));
    for (size_t d = 0; d < rank; ++d) {
      kept[d] = std::min(kept[d], shape[d] - first[d]);
      last[d] = shape[d] - first[d] - kept[d];
    }
    x = b.slice(x, Dims(rank, 0), kept, Dims(rank, 1));
    return b.pad(x, first, last);
  });
}

KERF_VJP(PadOp) {
  Value dy = resultGradients[0];
  return ofFirst(getOperation(), builder, dy, [&](GradientBuilder &b) {
    ArrayRef<int64_t> shape = shapeOf(getX());
    return b.slice(dy, getLow(), shape, Dims(shape.size(), 1));
  });
}

KERF_VJP(GatherOp) {
  Value dy = resultGradients[0];
  if (getResult().getType().getNumElements() == 0)
    dy = nullptr;
  return ofFirst(getOperation(), builder, dy, [&](GradientBuilder &b) {
    return b.make<ScatterAddOp>(getData().getType(), getIndices(), dy,
                                getDimAttr(), getPartialAttr());
  });
}
