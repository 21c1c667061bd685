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

static Value scatter(GradientBuilder &b, ScatterKind kind, Value data,
                     Value indices, Value updates, int64_t dim) {
  return b.make<ScatterOp>(data, indices, updates, kind, dim);
}

KERF_VJP(GatherOp) {
  Value dy = resultGradients[0];
  if (getResult().getType().getNumElements() == 0)
    dy = nullptr;
  return ofFirst(getOperation(), builder, dy, [&](GradientBuilder &b) -> Value {
    if (!getBatched())
      return b.make<ScatterAddOp>(getData().getType(), getIndices(), dy,
                                  getDimAttr(), getPartialAttr());
    // Calls that go by indices add in f32.
    Value wide = b.widen(dy);
    Value zeros = b.broadcast(b.number(0, wide), shapeOf(getData()));
    return b.castLike(
        scatter(b, ScatterKind::Add, zeros, getIndices(), wide, getDim()),
        getData());
  });
}

KERF_VJP(ScatterOp) {
  SmallVector<Value> gradients(3);
  Value dy = resultGradients[0], indices = getIndices();
  bool ofData = isDifferentiable(getData());
  bool ofUpdates = isDifferentiable(getUpdates());
  if (!dy || !(ofData || ofUpdates) || typeOf(dy).getNumElements() == 0)
    return gradients;
  GradientBuilder b(builder, getLoc());
  auto dim = static_cast<int64_t>(getDim());
  auto at = [&](Value x) {
    return b.make<GatherOp>(x, indices, getDimAttr(), UnitAttr(),
                            builder.getUnitAttr());
  };
  // Like `x`, all elements equal.
  auto full = [&](double value, Value x) {
    return b.broadcast(b.number(value, x), shapeOf(x));
  };
  switch (getKind()) {
  case ScatterKind::Add:
    gradients[0] = ofData ? dy : Value();
    gradients[2] = ofUpdates ? at(dy) : Value();
    return gradients;
  case ScatterKind::Set: {
    if (ofData)
      gradients[0] =
          scatter(b, ScatterKind::Set, dy, indices, full(0, getUpdates()), dim);
    if (ofUpdates) {
      // Only the last update of a place is in the result: number them, and
      // compare with the number that is left.
      auto numbers = typeOf(indices).clone(Type(builder.getI64Type()));
      Dims row(numbers.getShape().drop_front(dim));
      auto count = llvm::product_of(row);
      Value iota =
          b.make<IotaOp>(RankedTensorType::get({count}, builder.getI64Type()),
                         builder.getI64IntegerAttr(0));
      Value own = b.broadcast(b.reshape(iota, row), numbers.getShape());
      Dims places(shapeOf(getData()).take_front(dim + 1));
      Value left =
          scatter(b, ScatterKind::Set, b.broadcast(b.number(0, own), places),
                  indices, own, dim);
      Dims shape(numbers.getShape());
      shape.resize(rankOf(getUpdates()), 1);
      gradients[2] =
          b.keepWhere(b.reshape(b.equal(at(left), own), shape), at(dy));
    }
    return gradients;
  }
  case ScatterKind::Min:
  case ScatterKind::Max: {
    // Of those that are equal to the result each has the same share.
    Value y = getResult();
    auto ones = [&](Value same, Value like) {
      return b.select(same, full(1, like), full(0, like));
    };
    Value data = ones(b.equal(getData(), y), y);
    Value updates = ones(b.equal(getUpdates(), at(y)), getUpdates());
    Value share = b.div(dy, b.make<MaxOp>(scatter(b, ScatterKind::Add, data,
                                                  indices, updates, dim),
                                          b.number(1, y)));
    gradients[0] = ofData ? b.mul(share, data) : Value();
    gradients[2] = ofUpdates ? b.mul(at(share), updates) : Value();
    return gradients;
  }
  case ScatterKind::Mul:
    return emitOpError("mul has no gradient: a product without one of its "
                       "factors is not kept"),
           failure();
  }
  llvm_unreachable("bad ScatterKind");
}
