//===- GpuBuilder.cpp - arith, vector and llvm ops ------------------------===//
#include "GpuBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace kerf::cuda {

using V = Value;

V GpuBuilder::constant(T type, TypedAttr value) {
  if (auto vector = dyn_cast<VectorType>(type))
    value = DenseElementsAttr::get(vector, Attribute(value));
  return arith::ConstantOp::create(ops, loc, value);
}

V GpuBuilder::real(T type, double value) {
  return constant(type, ops.getFloatAttr(elementOf(type), value));
}

V GpuBuilder::integer(T type, int64_t value) {
  return integer(type, APInt(64, value, true).sextOrTrunc(bitsOf(type)));
}

V GpuBuilder::integer(T type, const APInt &value) {
  return constant(type, ops.getIntegerAttr(elementOf(type), value));
}

V GpuBuilder::infinity(T type, bool negative) {
  auto element = cast<FloatType>(elementOf(type));
  return constant(
      type,
      ops.getFloatAttr(element,
                       APFloat::getInf(element.getFloatSemantics(), negative)));
}

V GpuBuilder::steps(T type) {
  SmallVector<Attribute> values;
  for (int64_t lane = 0; lane < widthOf(type); ++lane)
    values.push_back(ops.getIntegerAttr(elementOf(type), lane));
  return arith::ConstantOp::create(
      ops, loc, DenseElementsAttr::get(cast<VectorType>(type), values));
}

std::optional<bool> GpuBuilder::known(V condition) {
  APInt value;
  if (isVector(condition) || !matchPattern(condition, m_ConstantInt(&value)))
    return std::nullopt;
  return !value.isZero();
}

V GpuBuilder::mulAdd(V x, V y, V z) {
  return math::FmaOp::create(ops, loc, x, y, z);
}

V GpuBuilder::CreateICmp(llvm::CmpInst::Predicate predicate, V x, V y) {
  using From = llvm::CmpInst;
  using To = arith::CmpIPredicate;
  To to = To::eq;
  switch (predicate) {
  case From::ICMP_EQ:
    break;
  case From::ICMP_NE:
    to = To::ne;
    break;
  case From::ICMP_SLT:
    to = To::slt;
    break;
  case From::ICMP_SLE:
    to = To::sle;
    break;
  case From::ICMP_SGT:
    to = To::sgt;
    break;
  case From::ICMP_SGE:
    to = To::sge;
    break;
  case From::ICMP_ULT:
    to = To::ult;
    break;
  case From::ICMP_ULE:
    to = To::ule;
    break;
  case From::ICMP_UGT:
    to = To::ugt;
    break;
  case From::ICMP_UGE:
    to = To::uge;
    break;
  default:
    llvm_unreachable("no comparison of integers");
  }
  return make<arith::CmpIOp>(to, x, y);
}

V GpuBuilder::CreateFCmp(llvm::CmpInst::Predicate predicate, V x, V y) {
  using From = llvm::CmpInst;
  using To = arith::CmpFPredicate;
  To to = To::OEQ;
  switch (predicate) {
  case From::FCMP_OEQ:
    break;
  case From::FCMP_OGT:
    to = To::OGT;
    break;
  case From::FCMP_OLT:
    to = To::OLT;
    break;
  case From::FCMP_OLE:
    to = To::OLE;
    break;
  case From::FCMP_ONE:
    to = To::ONE;
    break;
  case From::FCMP_UNO:
    to = To::UNO;
    break;
  case From::FCMP_ULT:
    to = To::ULT;
    break;
  case From::FCMP_UNE:
    to = To::UNE;
    break;
  default:
    llvm_unreachable("a comparison that nothing uses");
  }
  return make<arith::CmpFOp>(to, x, y);
}

V GpuBuilder::CreateSelect(V condition, V x, V y) {
  if (isVector(condition) && !isVector(x)) {
    x = CreateVectorSplat(widthOf(condition), x);
    y = CreateVectorSplat(widthOf(condition), y);
  }
  return make<arith::SelectOp>(condition, x, y);
}

/// Called by name: the pass for GPU ops would turn math ops into calls of
/// libdevice, and rejects the LLVM dialect's own ops.
V GpuBuilder::callIntrinsic(llvm::Intrinsic::ID id, ArrayRef<V> operands) {
  return LLVM::CallIntrinsicOp::create(
             ops, loc, operands[0].getType(),
             ops.getStringAttr(llvm::Intrinsic::getBaseName(id)), operands)
      .getResult(0);
}

V GpuBuilder::CreateUnaryIntrinsic(llvm::Intrinsic::ID id, V x) {
  return callIntrinsic(id, x);
}

V GpuBuilder::CreateBinaryIntrinsic(llvm::Intrinsic::ID id, V x, V y) {
  switch (id) {
  case llvm::Intrinsic::copysign:
    return callIntrinsic(id, {x, y});
  case llvm::Intrinsic::abs:
    return make<math::AbsIOp>(x);
  case llvm::Intrinsic::smax:
    return make<arith::MaxSIOp>(x, y);
  case llvm::Intrinsic::smin:
    return make<arith::MinSIOp>(x, y);
  case llvm::Intrinsic::umax:
    return make<arith::MaxUIOp>(x, y);
  case llvm::Intrinsic::umin:
    return make<arith::MinUIOp>(x, y);
  default:
    llvm_unreachable("an intrinsic that nothing uses");
  }
}

V GpuBuilder::CreateZExtOrTrunc(V x, T type) {
  unsigned from = bitsOf(typeOf(x)), to = bitsOf(type);
  if (from == to)
    return x;
  return from < to ? make<arith::ExtUIOp>(type, x)
                   : make<arith::TruncIOp>(type, x);
}

V GpuBuilder::CreateSExtOrTrunc(V x, T type) {
  unsigned from = bitsOf(typeOf(x)), to = bitsOf(type);
  if (from == to)
    return x;
  return from < to ? make<arith::ExtSIOp>(type, x)
                   : make<arith::TruncIOp>(type, x);
}

V GpuBuilder::CreateFPCast(V x, T type) {
  unsigned from = bitsOf(typeOf(x)), to = bitsOf(type);
  if (typeOf(x) == type)
    return x;
  return from < to ? make<arith::ExtFOp>(type, x)
                   : make<arith::TruncFOp>(type, x);
}

V GpuBuilder::CreateFreeze(V x) { return LLVM::FreezeOp::create(ops, loc, x); }

V GpuBuilder::CreateVectorSplat(int64_t width, V x) {
  if (width == 1 || isVector(x))
    return x;
  return make<vector::BroadcastOp>(vectorOf(x.getType(), width), x);
}

V GpuBuilder::CreateExtractElement(V x, int64_t lane) {
  if (!isVector(x))
    return x;
  return make<vector::ExtractOp>(x, ArrayRef<int64_t>{lane});
}

V GpuBuilder::fromElements(ArrayRef<V> elements) {
  if (elements.size() == 1)
    return elements[0];
  return vector::FromElementsOp::create(
      ops, loc,
      VectorType::get({static_cast<int64_t>(elements.size())},
                      elements[0].getType()),
      elements);
}

V GpuBuilder::CreateLoad(T type, V pointer, unsigned align, bool invariant) {
  T element = elementOf(type);
  T stored = element.isInteger(1) ? withElement(type, getInt8Ty()) : type;
  align = align ? align : std::max(1u, bitsOf(type) / 8);
  auto load = LLVM::LoadOp::create(ops, loc, stored, pointer, align,
                                   /*isVolatile=*/false,
                                   /*isNonTemporal=*/false, invariant);
  return CreateZExtOrTrunc(load, type);
}

void GpuBuilder::CreateStore(V value, V pointer, unsigned align) {
  if (elementOf(typeOf(value)).isInteger(1))
    value = CreateZExt(value, withElement(typeOf(value), getInt8Ty()));
  align = align ? align : std::max(1u, bitsOf(typeOf(value)) / 8);
  LLVM::StoreOp::create(ops, loc, value, pointer, align);
}

V GpuBuilder::gep(T element, V pointer, V index) {
  if (element.isInteger(1))
    element = getInt8Ty();
  return LLVM::GEPOp::create(ops, loc, pointer.getType(), element, pointer,
                             ValueRange{index}, LLVM::GEPNoWrapFlags::inbounds);
}

} // namespace kerf::cuda
