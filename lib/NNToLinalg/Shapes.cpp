//===- Shapes.cpp - reductions, products, and ops that move elements ------===//
#include "NNToLinalg.h"

#include "Arith.h"

#include "kerf/Interfaces/Identity.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nntolinalg;

namespace {
class Shapes {
public:
  Shapes(OpBuilder &builder, Location loc) : b(builder), loc(loc) {}

  Value lower(nn::ConstantOp op);
  Value lower(nn::IotaOp op);
  Value lower(nn::ReduceOp op);
  Value lower(nn::MatmulOp op);
  Value lower(nn::ReshapeOp op);
  Value lower(nn::BroadcastOp op);
  Value lower(nn::TransposeOp op);
  Value lower(nn::SliceOp op);
  Value lower(nn::PadOp op);
  Value lower(nn::ConcatOp op);
  Value lower(nn::GatherOp op);

private:
  Value filled(ArrayRef<int64_t> shape, Attribute value) {
    auto typed = mlir::cast<TypedAttr>(value);
    Value empty = tensor::EmptyOp::create(b, loc, shape, typed.getType());
    Value scalar = arith::ConstantOp::create(b, loc, typed);
    return linalg::FillOp::create(b, loc, scalar, empty).getResult(0);
  }
  Value converted(Value x, RankedTensorType type) {
    if (x.getType() == type)
      return x;
    return byElement(b, loc, x, type, [&](OpBuilder &inner, ValueRange in) {
      return Results{castElement(inner, loc, in[0], type.getElementType())};
    })[0];
  }
  SmallVector<OpFoldResult> sizesOf(ArrayRef<int64_t> values) {
    return getAsIndexOpFoldResult(b.getContext(), values);
  }

  OpBuilder &b;
  Location loc;
};

Value Shapes::lower(nn::ConstantOp op) {
  return arith::ConstantOp::create(b, loc, op.getValue());
}

Value Shapes::lower(nn::IotaOp op) {
  auto type = typeOf(op.getResult());
  return byElement(b, loc, {}, type, [&](OpBuilder &inner, ValueRange) {
    Value at = linalg::IndexOp::create(inner, loc, op.getDim());
    Value wide = arith::IndexCastOp::create(inner, loc, inner.getI64Type(), at);
    return Results{castElement(inner, loc, wide, type.getElementType())};
  })[0];
}

Value join(OpBuilder &b, Location loc, nn::ReduceKind kind, Value x, Value y) {
  auto with = [&](auto s) {
    switch (kind) {
    case nn::ReduceKind::Sum:
      return s.add(x, y);
    case nn::ReduceKind::Prod:
      return s.mul(x, y);
    case nn::ReduceKind::Max:
      return s.max(x, y);
    case nn::ReduceKind::Min:
      return s.min(x, y);
    }
    llvm_unreachable("a kind of reduction");
  };
  if (auto floats = dyn_cast<FloatType>(x.getType()))
    return with(ArithFloats(b, loc, floats));
  return with(ArithIntegers(b, loc, cast<IntegerType>(x.getType())));
}

Value Shapes::lower(nn::ReduceOp op) {
  auto from = typeOf(op.getX()), to = typeOf(op.getResult());
  Type compute = computeTypeOf(from.getElementType());
  llvm::SmallSet<int64_t, 4> reduced(op.getDims().begin(), op.getDims().end());
  SmallVector<utils::IteratorType> loops;
  SmallVector<AffineExpr> kept;
  for (int64_t dim = 0; dim < from.getRank(); ++dim) {
    bool isReduced = reduced.contains(dim);
    loops.push_back(isReduced ? utils::IteratorType::reduction
                              : utils::IteratorType::parallel);
    if (!isReduced)
      kept.push_back(b.getAffineDimExpr(dim));
  }
  SmallVector<AffineMap> maps = {
      b.getMultiDimIdentityMap(from.getRank()),
      AffineMap::get(from.getRank(), 0, kept, b.getContext())};
  Value made =
      linalg::GenericOp::create(
          b, loc, to.clone(compute), op.getX(),
          filled(to.getShape(),
                 identityOf(nn::toReduction(op.getKind()), compute)),
          maps, loops,
          [&](OpBuilder &inner, Location at, ValueRange x) {
            Value element = castElement(inner, at, x[0], compute);
            linalg::YieldOp::create(
                inner, at, join(inner, at, op.getKind(), x[1], element));
          })
          .getResult(0);
  return converted(made, to);
}

/// Loops over the result's dims, then over what is summed up.
Value Shapes::lower(nn::MatmulOp op) {
  auto to = typeOf(op.getResult());
  Type compute = computeTypeOf(to.getElementType());
  unsigned rank = to.getRank();
  AffineExpr m = b.getAffineDimExpr(rank - 2), n = b.getAffineDimExpr(rank - 1),
             k = b.getAffineDimExpr(rank);
  auto mapOf = [&](Value operand, AffineExpr row, AffineExpr column,
                   bool isTransposed) {
    auto type = typeOf(operand);
    SmallVector<AffineExpr> dims(
        broadcastMap(RankedTensorType::get(type.getShape().drop_back(2),
                                           type.getElementType()),
                     to.getShape().drop_back(2))
            .getResults());
    if (isTransposed)
      std::swap(row, column);
    dims.append({row, column});
    return AffineMap::get(rank + 1, 0, dims, b.getContext());
  };
  SmallVector<AffineExpr> made;
  for (unsigned dim = 0; dim < rank; ++dim)
    made.push_back(b.getAffineDimExpr(dim));
  SmallVector<AffineMap> maps = {
      mapOf(op.getLhs(), m, k, op.getTransposeLhs()),
      mapOf(op.getRhs(), k, n, op.getTransposeRhs()),
      AffineMap::get(rank + 1, 0, made, b.getContext())};
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
  loops.push_back(utils::IteratorType::reduction);
  constexpr auto sum = nn::ReduceKind::Sum;
  Value products =
      linalg::GenericOp::create(
          b, loc, to.clone(compute), ValueRange{op.getLhs(), op.getRhs()},
          filled(to.getShape(), identityOf(ReductionKind::Sum, compute)), maps,
          loops,
          [&](OpBuilder &inner, Location at, ValueRange x) {
            Value left = castElement(inner, at, x[0], compute);
            Value right = castElement(inner, at, x[1], compute);
            Value product =
                isa<FloatType>(compute)
                    ? arith::MulFOp::create(inner, at, left, right).getResult()
                    : arith::MulIOp::create(inner, at, left, right).getResult();
            linalg::YieldOp::create(inner, at,
                                    join(inner, at, sum, x[2], product));
          })
          .getResult(0);
  return converted(products, to);
}

/// Through one dim of all elements.
Value Shapes::lower(nn::ReshapeOp op) {
  Value x = op.getX();
  auto type = typeOf(x);
  ArrayRef<int64_t> shape = typeOf(op.getResult()).getShape();
  auto groupOf = [](int64_t rank) {
    SmallVector<ReassociationIndices> groups;
    if (rank > 0)
      groups.push_back(llvm::to_vector(llvm::seq<int64_t>(0, rank)));
    return groups;
  };
  int64_t flat = shape.empty() ? 0 : 1;
  if (type.getRank() > flat) {
    SmallVector<int64_t> one(flat, type.getNumElements());
    x = tensor::CollapseShapeOp::create(b, loc, type.clone(one), x,
                                        flat ? groupOf(type.getRank())
                                             : groupOf(0));
  }
  auto now = typeOf(x);
  if (now.getShape() == shape)
    return x;
  return tensor::ExpandShapeOp::create(b, loc, type.clone(shape), x,
                                       now.getRank() ? groupOf(shape.size())
                                                     : groupOf(0));
}

Value Shapes::lower(nn::BroadcastOp op) {
  return byElement(b, loc, op.getX(), typeOf(op.getResult()),
                   [](OpBuilder &, ValueRange x) { return Results(x); })[0];
}

Value Shapes::lower(nn::TransposeOp op) {
  auto type = typeOf(op.getResult());
  Value empty =
      tensor::EmptyOp::create(b, loc, type.getShape(), type.getElementType());
  return linalg::TransposeOp::create(b, loc, op.getX(), empty, op.getPerm())
      ->getResult(0);
}

/// Strides may be negative, which those of tensor.extract_slice are not.
Value Shapes::lower(nn::SliceOp op) {
  auto type = typeOf(op.getResult());
  if (llvm::all_of(op.getStrides(), [](int64_t stride) { return stride > 0; }))
    return tensor::ExtractSliceOp::create(
        b, loc, type, op.getX(), sizesOf(op.getStarts()),
        sizesOf(op.getSizes()), sizesOf(op.getStrides()));
  return byElement(b, loc, {}, type, [&](OpBuilder &inner, ValueRange) {
    SmallVector<Value> at;
    for (auto [dim, start, stride] :
         llvm::enumerate(op.getStarts(), op.getStrides())) {
      Value i = linalg::IndexOp::create(inner, loc, dim);
      Value scaled = arith::MulIOp::create(
          inner, loc, i, arith::ConstantIndexOp::create(inner, loc, stride));
      at.push_back(arith::AddIOp::create(
          inner, loc, scaled,
          arith::ConstantIndexOp::create(inner, loc, start)));
    }
    return Results{tensor::ExtractOp::create(inner, loc, op.getX(), at)};
  })[0];
}

Value Shapes::lower(nn::PadOp op) {
  auto type = typeOf(op.getResult()), from = typeOf(op.getX());
  Value border = filled(type.getShape(), op.getValue());
  SmallVector<int64_t> strides(from.getRank(), 1);
  return tensor::InsertSliceOp::create(
      b, loc, op.getX(), border, sizesOf(op.getLow()), sizesOf(from.getShape()),
      sizesOf(strides));
}

Value Shapes::lower(nn::ConcatOp op) {
  auto type = typeOf(op.getResult());
  Value whole =
      tensor::EmptyOp::create(b, loc, type.getShape(), type.getElementType());
  SmallVector<OpFoldResult> starts(type.getRank(), b.getIndexAttr(0)),
      strides(type.getRank(), b.getIndexAttr(1));
  int64_t at = 0;
  for (Value input : op.getInputs()) {
    ArrayRef<int64_t> shape = typeOf(input).getShape();
    starts[op.getDim()] = b.getIndexAttr(at);
    whole = tensor::InsertSliceOp::create(b, loc, input, whole, starts,
                                          sizesOf(shape), strides);
    at += shape[op.getDim()];
  }
  return whole;
}

/// A loop over the result, which reads an index and what it names.
Value Shapes::lower(nn::GatherOp op) {
  if (op.getPartial()) // of ranks that hold parts of the table
    return {};
  auto type = typeOf(op.getResult()), data = typeOf(op.getData());
  auto indices = typeOf(op.getIndices());
  int64_t dim = op.getDim(), size = data.getDimSize(dim);
  if (size == 0)
    return {};
  int64_t first = op.getBatched() ? 0 : dim;
  int64_t last = first + indices.getRank(); // dims of the result in `indices`
  return byElement(b, loc, {}, type, [&](OpBuilder &inner, ValueRange) {
    SmallVector<Value> all, names, at;
    for (int64_t i = 0; i < type.getRank(); ++i)
      all.push_back(linalg::IndexOp::create(inner, loc, i));
    names.append(all.begin() + first, all.begin() + last);
    Value name = tensor::ExtractOp::create(inner, loc, op.getIndices(), names);
    ArithIntegers s(inner, loc, inner.getI64Type());
    name = castElement(inner, loc, name, inner.getI64Type());
    name =
        s.select(s.less(name, s.number(0)), s.add(name, s.number(size)), name);
    name = s.min(s.max(name, s.number(0)), s.number(size - 1));
    at.append(all.begin(), all.begin() + dim);
    at.push_back(
        arith::IndexCastOp::create(inner, loc, inner.getIndexType(), name));
    at.append(all.begin() + last, all.end());
    return Results{tensor::ExtractOp::create(inner, loc, op.getData(), at)};
  })[0];
}
} // namespace

Results nntolinalg::lowerShape(OpBuilder &builder, Operation *op) {
  Shapes shapes(builder, op->getLoc());
  Value made = llvm::TypeSwitch<Operation *, Value>(op)
                   .Case<nn::ConstantOp, nn::IotaOp, nn::ReduceOp, nn::MatmulOp,
                         nn::ReshapeOp, nn::BroadcastOp, nn::TransposeOp,
                         nn::SliceOp, nn::PadOp, nn::ConcatOp, nn::GatherOp>(
                       [&](auto typed) { return shapes.lower(typed); })
                   .Default([](Operation *) { return Value(); });
  return made ? Results{made} : Results();
}
