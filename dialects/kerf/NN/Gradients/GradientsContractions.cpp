//===- GradientsContractions.cpp - gradients of matmul, conv, pools -------===//
//
// The gradients of a matmul are matmuls with transposed operands; an operand
// without batch dimensions (a weight) gets one product that sums over the batch
// rather than a batch of products that are summed afterwards.
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

static Value matmul(GradientBuilder &b, OpBuilder &builder, Value lhs,
                    Value rhs, bool transposeLhs, bool transposeRhs) {
  auto flag = [&](bool set) {
    return set ? builder.getUnitAttr() : UnitAttr();
  };
  return b.make<MatmulOp>(lhs, rhs, flag(transposeLhs), flag(transposeRhs));
}

/// The last two dimensions exchanged.
static Value swapLast(GradientBuilder &b, Value x) {
  Dims perm;
  for (int64_t dim = 0; dim < rankOf(x); ++dim)
    perm.push_back(dim);
  std::swap(perm[perm.size() - 2], perm.back());
  return b.transpose(x, perm);
}

/// Reshapes [b..., m, n] to [b... m, n].
static Value joinRows(GradientBuilder &b, Value x) {
  int64_t columns = shapeOf(x).back();
  return b.reshape(x, {typeOf(x).getNumElements() / columns, columns});
}

/// Reshapes [b..., m, n] to [m, b... n].
static Value joinColumns(GradientBuilder &b, Value x) {
  int64_t rank = rankOf(x), rows = shapeOf(x)[rank - 2];
  Dims perm{rank - 2};
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != rank - 2)
      perm.push_back(dim);
  return b.reshape(b.transpose(x, perm),
                   {rows, typeOf(x).getNumElements() / rows});
}

static int64_t batchOf(Value x) {
  int64_t size = 1;
  for (int64_t dim : shapeOf(x).drop_back(2))
    size *= dim;
  return size;
}

/// Whether one product that contracts rows and batch gives the gradient of
/// `operand`: it has no batch, and `other` has the batch of the result.
static bool isShared(Value operand, Value other, Value result) {
  return batchOf(operand) == 1 && batchOf(other) > 1 &&
         batchOf(other) == batchOf(result);
}

// With L = lhs [m, k] and R = rhs [k, n] after their transpositions:
// dL = dy R^T, dR = L^T dy. Where an operand is stored transposed, so is its
// gradient: dL^T = R dy^T, dR^T = dy^T L.
KERF_VJP(MatmulOp) {
  SmallVector<Value> gradients(2);
  Value dy = resultGradients[0], lhs = getLhs(), rhs = getRhs();
  if (!dy || getResult().getType().getNumElements() == 0 ||
      typeOf(lhs).getNumElements() == 0)
    return gradients;
  GradientBuilder b(builder, getLoc());
  bool tl = getTransposeLhs(), tr = getTransposeRhs();
  if (isDifferentiable(lhs)) {
    Value dL;
    if (isShared(lhs, rhs, dy)) {
      // dL = sum_b dy_b R_b^T: contract over batch and columns.
      Value wide = joinColumns(b, dy);                       // [m, b n]
      Value tall = joinRows(b, tr ? rhs : swapLast(b, rhs)); // [b n, k]
      dL = tl ? matmul(b, builder, tall, wide, true, true)
              : matmul(b, builder, wide, tall, false, false);
    } else {
      dL = tl ? matmul(b, builder, rhs, dy, tr, true)
              : matmul(b, builder, dy, rhs, false, !tr);
    }
    gradients[0] = rankOf(dL) < rankOf(lhs) ? b.reshape(dL, shapeOf(lhs))
                                            : b.unbroadcast(dL, lhs);
  }
  if (isDifferentiable(rhs)) {
    Value dR;
    if (isShared(rhs, lhs, dy)) {
      Value left = joinRows(b, tl ? swapLast(b, lhs) : lhs); // [b m, k]
      Value right = joinRows(b, dy);                         // [b m, n]
      dR = tr ? matmul(b, builder, right, left, true, false)
              : matmul(b, builder, left, right, true, false);
    } else {
      dR = tr ? matmul(b, builder, dy, lhs, true, tl)
              : matmul(b, builder, lhs, dy, !tl, false);
    }
    gradients[1] = rankOf(dR) < rankOf(rhs) ? b.reshape(dR, shapeOf(rhs))
                                            : b.unbroadcast(dR, rhs);
  }
  return gradients;
}

KERF_VJP(ConvOp) {
  SmallVector<Value> gradients(2);
  Value dy = resultGradients[0];
  if (!dy || getResult().getType().getNumElements() == 0)
    return gradients;
  GradientBuilder b(builder, getLoc());
  if (isDifferentiable(getX()))
    gradients[0] = b.make<ConvInputGradientOp>(
        getX().getType(), dy, getWeights(), getStridesAttr(), getLowAttr(),
        getHighAttr(), getDilationsAttr(), getGroupsAttr());
  if (isDifferentiable(getWeights()))
    gradients[1] = b.make<ConvWeightGradientOp>(
        getWeights().getType(), getX(), dy, getStridesAttr(), getLowAttr(),
        getHighAttr(), getDilationsAttr(), getGroupsAttr());
  return gradients;
}

// result = conv^T(dy, w): the image of the forward convolution is what it
// gives.
KERF_VJP(ConvInputGradientOp) {
  SmallVector<Value> gradients(2);
  Value image = resultGradients[0];
  if (!image || getDy().getType().getNumElements() == 0)
    return gradients;
  GradientBuilder b(builder, getLoc());
  if (isDifferentiable(getDy()))
    gradients[0] =
        b.make<ConvOp>(image, getWeights(), getStridesAttr(), getLowAttr(),
                       getHighAttr(), getDilationsAttr(), getGroupsAttr());
  if (isDifferentiable(getWeights()))
    gradients[1] = b.make<ConvWeightGradientOp>(
        getWeights().getType(), image, getDy(), getStridesAttr(), getLowAttr(),
        getHighAttr(), getDilationsAttr(), getGroupsAttr());
  return gradients;
}

KERF_VJP(MaxPoolOp) {
  Value dy = resultGradients[0];
  if (!dy || !isDifferentiable(getX()))
    return SmallVector<Value>(1);
  GradientBuilder b(builder, getLoc());
  return SmallVector<Value>{b.make<MaxPoolGradientOp>(
      getX(), dy, getKernelAttr(), getStridesAttr(), getLowAttr(),
      getHighAttr(), getDilationsAttr())};
}

KERF_VJP(AvgPoolOp) {
  Value dy = resultGradients[0];
  if (!dy || !isDifferentiable(getX()))
    return SmallVector<Value>(1);
  GradientBuilder b(builder, getLoc());
  return SmallVector<Value>{b.make<AvgPoolGradientOp>(
      getX().getType(), dy, getKernelAttr(), getStridesAttr(), getLowAttr(),
      getHighAttr(), getDilationsAttr(), getCountIncludePadAttr(),
      getCountHighAttr())};
}
