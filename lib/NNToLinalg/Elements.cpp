//===- Elements.cpp - ops on elements -------------------------------------===//
//
// The body of a linalg.generic is what the op's definition says of elements.
//
//===----------------------------------------------------------------------===//
#include "NNToLinalg.h"

#include "Arith.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nntolinalg;

Type nntolinalg::computeTypeOf(Type element) {
  auto type = dyn_cast<FloatType>(element);
  return type && type.getWidth() < 32 ? Float32Type::get(element.getContext())
                                      : element;
}

Value nntolinalg::castElement(OpBuilder &builder, Location loc, Value value,
                              Type to) {
  Type from = value.getType();
  if (from == to)
    return value;
  auto fromFloat = dyn_cast<FloatType>(from), toFloat = dyn_cast<FloatType>(to);
  if (fromFloat && toFloat) {
    if (fromFloat.getWidth() < toFloat.getWidth())
      return arith::ExtFOp::create(builder, loc, to, value);
    if (fromFloat.getWidth() > toFloat.getWidth())
      return arith::TruncFOp::create(builder, loc, to, value);
    // f16 and bf16 by way of f32.
    Value wide = castElement(builder, loc, value, builder.getF32Type());
    return castElement(builder, loc, wide, to);
  }
  if (to.isInteger(1)) {
    Value zero =
        arith::ConstantOp::create(builder, loc, builder.getZeroAttr(from));
    if (fromFloat)
      return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE,
                                   value, zero);
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value,
                                 zero);
  }
  if (toFloat) {
    Type wide = computeTypeOf(to);
    Value made =
        from.isInteger(1)
            ? arith::UIToFPOp::create(builder, loc, wide, value).getResult()
            : arith::SIToFPOp::create(builder, loc, wide, value).getResult();
    return castElement(builder, loc, made, to);
  }
  // Numbers outside of a narrow type wrap.
  if (fromFloat) {
    Value whole =
        arith::FPToSIOp::create(builder, loc, builder.getI64Type(), value);
    return castElement(builder, loc, whole, to);
  }
  if (from.getIntOrFloatBitWidth() > to.getIntOrFloatBitWidth())
    return arith::TruncIOp::create(builder, loc, to, value);
  if (from.isInteger(1))
    return arith::ExtUIOp::create(builder, loc, to, value);
  return arith::ExtSIOp::create(builder, loc, to, value);
}

AffineMap nntolinalg::broadcastMap(RankedTensorType type,
                                   ArrayRef<int64_t> shape) {
  MLIRContext *context = type.getContext();
  SmallVector<AffineExpr> dims;
  size_t skipped = shape.size() - type.getRank();
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    dims.push_back(size == 1 && shape[skipped + dim] != 1
                       ? getAffineConstantExpr(0, context)
                       : getAffineDimExpr(skipped + dim, context));
  return AffineMap::get(shape.size(), 0, dims, context);
}

Results nntolinalg::byElement(OpBuilder &builder, Location loc,
                              ValueRange operands,
                              ArrayRef<RankedTensorType> results, Body body) {
  ArrayRef<int64_t> shape = results[0].getShape();
  SmallVector<AffineMap> maps;
  for (Value operand : operands)
    maps.push_back(broadcastMap(typeOf(operand), shape));
  SmallVector<Value> outs;
  SmallVector<Type> types(results);
  for (RankedTensorType type : results) {
    maps.push_back(builder.getMultiDimIdentityMap(shape.size()));
    outs.push_back(tensor::EmptyOp::create(builder, loc, type.getShape(),
                                           type.getElementType()));
  }
  SmallVector<utils::IteratorType> loops(shape.size(),
                                         utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      builder, loc, types, operands, outs, maps, loops,
      [&](OpBuilder &inner, Location at, ValueRange elements) {
        linalg::YieldOp::create(
            inner, at, body(inner, elements.take_front(operands.size())));
      });
  return Results(generic.getResults());
}

namespace {
/// One result of an op for elements in the types of computing.
Results computeElements(OpBuilder &builder, Operation *op, Location loc,
                        ArrayRef<Value> x) {
  if (isa<nn::SelectOp>(op))
    return {arith::SelectOp::create(builder, loc, x[0], x[1], x[2])};
  Results made;
  nn::visitOps(op, [&](auto typed) {
    using Op = decltype(typed);
    Type type = x[0].getType();
    if constexpr (Op::template hasTrait<nn::Update>()) {
      ArithFloats s(builder, loc, cast<FloatType>(type));
      llvm::append_range(made, typed.step(s, x));
    } else {
      if constexpr (nn::isOnFloats<Op>())
        if (auto floats = dyn_cast<FloatType>(type)) {
          ArithFloats s(builder, loc, floats);
          made.push_back(typed.onFloats(s, x));
        }
      if constexpr (nn::isOnIntegers<Op>())
        if (auto integers = dyn_cast<IntegerType>(type)) {
          ArithIntegers s(builder, loc, integers);
          made.push_back(typed.onIntegers(s, x));
        }
    }
    return true;
  });
  return made;
}

bool isByElement(Operation *op) {
  bool found = isa<nn::BitcastOp, nn::CastOp, nn::SelectOp>(op);
  nn::visitOps(op, [&](auto typed) {
    using Op = decltype(typed);
    bool isFloat = op->getNumOperands() > 0 &&
                   isa<FloatType>(typeOf(op->getOperand(0)).getElementType());
    found |= Op::template hasTrait<nn::Update>() ||
             (isFloat ? nn::isOnFloats<Op>() : nn::isOnIntegers<Op>());
    return true;
  });
  return found;
}
} // namespace

Results nntolinalg::lowerByElement(OpBuilder &builder, Operation *op) {
  if (!isByElement(op))
    return {};
  SmallVector<RankedTensorType> types;
  for (Value result : op->getResults())
    types.push_back(typeOf(result));
  // Updates take scalars in f32 and compute in the type of the parameter.
  bool isUpdate = op->hasTrait<nn::Update>();
  Type compute = computeTypeOf(typeOf(op->getOperand(0)).getElementType());
  return byElement(
      builder, op->getLoc(), op->getOperands(), types,
      [&](OpBuilder &inner, ValueRange elements) {
        Location loc = op->getLoc();
        if (isa<nn::CastOp>(op))
          return Results{
              castElement(inner, loc, elements[0], types[0].getElementType())};
        if (isa<nn::BitcastOp>(op))
          return Results{arith::BitcastOp::create(
              inner, loc, types[0].getElementType(), elements[0])};
        SmallVector<Value> x;
        for (Value element : elements)
          x.push_back(castElement(inner, loc, element,
                                  isUpdate ? compute
                                           : computeTypeOf(element.getType())));
        Results made = computeElements(inner, op, loc, x);
        for (auto [value, type] : llvm::zip(made, types))
          value = castElement(inner, loc, value, type.getElementType());
        return made;
      });
}
