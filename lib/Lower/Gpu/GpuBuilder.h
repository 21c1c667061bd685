//===- GpuBuilder.h - an IRBuilder that builds MLIR ops ---------*- C++ -*-===//
//
// The builder (Codegen/Builder.h) with which shared code generation builds the
// body of a gpu.func: arith, math and vector ops on scalars and vectors, memory
// through llvm pointers. Ops on constants are folded at once, so that `known`
// sees constants.
//
// Invariant: integers are signless; i1 lies in memory as i8.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_GPU_GPUBUILDER_H
#define KERF_LOWER_GPU_GPUBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Intrinsics.h"

#include <optional>

namespace kerf::cuda {

class GpuBuilder {
public:
  using V = mlir::Value;
  using T = mlir::Type;
  GpuBuilder(mlir::OpBuilder builder, mlir::Location loc)
      : ops(builder), loc(loc) {}

  mlir::OpBuilder ops;
  mlir::Location loc;

  T typeOf(V value) { return value.getType(); }
  static int64_t widthOf(T type) {
    auto vector = mlir::dyn_cast<mlir::VectorType>(type);
    return vector ? vector.getNumElements() : 1;
  }
  int64_t widthOf(V value) { return widthOf(value.getType()); }
  bool isVector(V value) {
    return mlir::isa<mlir::VectorType>(value.getType());
  }
  static T elementOf(T type) { return mlir::getElementTypeOrSelf(type); }
  bool isFloat(T type) { return mlir::isa<mlir::FloatType>(elementOf(type)); }
  bool isDouble(T type) { return elementOf(type).isF64(); }
  unsigned bitsOf(T type) { return elementOf(type).getIntOrFloatBitWidth(); }
  T vectorOf(T element, int64_t width) {
    return width == 1 ? element : T(mlir::VectorType::get({width}, element));
  }
  T withElement(T like, T element) { return vectorOf(element, widthOf(like)); }
  T getIntNTy(unsigned bits) { return ops.getIntegerType(bits); }
  T getInt1Ty() { return ops.getI1Type(); }
  T getInt8Ty() { return ops.getI8Type(); }
  T getInt32Ty() { return ops.getI32Type(); }
  T getInt64Ty() { return ops.getI64Type(); }
  T getFloatTy() { return ops.getF32Type(); }
  T getDoubleTy() { return ops.getF64Type(); }
  T pointer(unsigned space = 0) {
    return mlir::LLVM::LLVMPointerType::get(ops.getContext(), space);
  }

  V real(T type, double value);
  V integer(T type, int64_t value);
  V integer(T type, const llvm::APInt &value);
  V zero(T type) { return isFloat(type) ? real(type, 0.0) : integer(type, 0); }
  V infinity(T type, bool negative);
  V steps(T type);
  V getTrue() { return integer(getInt1Ty(), 1); }
  V getFalse() { return integer(getInt1Ty(), 0); }
  V getInt32(int64_t value) { return integer(getInt32Ty(), value); }
  V getInt64(int64_t value) { return integer(getInt64Ty(), value); }
  std::optional<bool> known(V condition);

  void setContract(bool value) { contract = value; }
  bool isContract() { return contract; }

  V CreateFAdd(V x, V y) { return floating<mlir::arith::AddFOp>(x, y); }
  V CreateFSub(V x, V y) { return floating<mlir::arith::SubFOp>(x, y); }
  V CreateFMul(V x, V y) { return floating<mlir::arith::MulFOp>(x, y); }
  V CreateFDiv(V x, V y) { return floating<mlir::arith::DivFOp>(x, y); }
  V CreateFNeg(V x) { return make<mlir::arith::NegFOp>(x); }
  V mulAdd(V x, V y, V z);

  V CreateAdd(V x, V y) { return make<mlir::arith::AddIOp>(x, y); }
  V CreateSub(V x, V y) { return make<mlir::arith::SubIOp>(x, y); }
  V CreateMul(V x, V y) { return make<mlir::arith::MulIOp>(x, y); }
  V CreateUDiv(V x, V y) { return make<mlir::arith::DivUIOp>(x, y); }
  V CreateSDiv(V x, V y) { return make<mlir::arith::DivSIOp>(x, y); }
  V CreateURem(V x, V y) { return make<mlir::arith::RemUIOp>(x, y); }
  V CreateSRem(V x, V y) { return make<mlir::arith::RemSIOp>(x, y); }
  V CreateAnd(V x, V y) { return make<mlir::arith::AndIOp>(x, y); }
  V CreateOr(V x, V y) { return make<mlir::arith::OrIOp>(x, y); }
  V CreateXor(V x, V y) { return make<mlir::arith::XOrIOp>(x, y); }
  V CreateNot(V x) { return CreateXor(x, integer(x.getType(), -1)); }
  V CreateNeg(V x) { return CreateSub(zero(x.getType()), x); }
  V CreateShl(V x, V y) { return make<mlir::arith::ShLIOp>(x, y); }
  V CreateLShr(V x, V y) { return make<mlir::arith::ShRUIOp>(x, y); }
  V CreateAShr(V x, V y) { return make<mlir::arith::ShRSIOp>(x, y); }
  V CreateShl(V x, uint64_t n) { return CreateShl(x, integer(typeOf(x), n)); }
  V CreateLShr(V x, uint64_t n) { return CreateLShr(x, integer(typeOf(x), n)); }
  V CreateAShr(V x, uint64_t n) { return CreateAShr(x, integer(typeOf(x), n)); }

  V CreateICmp(llvm::CmpInst::Predicate predicate, V x, V y);
  V CreateFCmp(llvm::CmpInst::Predicate predicate, V x, V y);
  V CreateICmpEQ(V x, V y) { return CreateICmp(llvm::CmpInst::ICMP_EQ, x, y); }
  V CreateICmpNE(V x, V y) { return CreateICmp(llvm::CmpInst::ICMP_NE, x, y); }
  V CreateICmpULT(V x, V y) {
    return CreateICmp(llvm::CmpInst::ICMP_ULT, x, y);
  }
  V CreateICmpUGT(V x, V y) {
    return CreateICmp(llvm::CmpInst::ICMP_UGT, x, y);
  }
  V CreateICmpSLT(V x, V y) {
    return CreateICmp(llvm::CmpInst::ICMP_SLT, x, y);
  }
  V CreateICmpSGT(V x, V y) {
    return CreateICmp(llvm::CmpInst::ICMP_SGT, x, y);
  }
  V CreateFCmpOEQ(V x, V y) {
    return CreateFCmp(llvm::CmpInst::FCMP_OEQ, x, y);
  }
  V CreateFCmpOGT(V x, V y) {
    return CreateFCmp(llvm::CmpInst::FCMP_OGT, x, y);
  }
  V CreateFCmpOLT(V x, V y) {
    return CreateFCmp(llvm::CmpInst::FCMP_OLT, x, y);
  }
  V CreateFCmpONE(V x, V y) {
    return CreateFCmp(llvm::CmpInst::FCMP_ONE, x, y);
  }
  V CreateFCmpUNO(V x, V y) {
    return CreateFCmp(llvm::CmpInst::FCMP_UNO, x, y);
  }
  V CreateFCmpULT(V x, V y) {
    return CreateFCmp(llvm::CmpInst::FCMP_ULT, x, y);
  }
  V CreateFCmpUNE(V x, V y) {
    return CreateFCmp(llvm::CmpInst::FCMP_UNE, x, y);
  }
  V CreateSelect(V condition, V x, V y);

  V CreateUnaryIntrinsic(llvm::Intrinsic::ID id, V x);
  V CreateBinaryIntrinsic(llvm::Intrinsic::ID id, V x, V y);

  V CreateBitCast(V x, T type) {
    return typeOf(x) == type ? x : make<mlir::arith::BitcastOp>(type, x);
  }
  V CreateTrunc(V x, T type) { return CreateZExtOrTrunc(x, type); }
  V CreateZExt(V x, T type) { return CreateZExtOrTrunc(x, type); }
  V CreateSExt(V x, T type) { return CreateSExtOrTrunc(x, type); }
  V CreateZExtOrTrunc(V x, T type);
  V CreateSExtOrTrunc(V x, T type);
  V CreateFPCast(V x, T type);
  V CreateFPExt(V x, T type) { return CreateFPCast(x, type); }
  V CreateFPTrunc(V x, T type) { return CreateFPCast(x, type); }
  V CreateSIToFP(V x, T type) { return make<mlir::arith::SIToFPOp>(type, x); }
  V CreateUIToFP(V x, T type) { return make<mlir::arith::UIToFPOp>(type, x); }
  V CreateFPToSI(V x, T type) { return make<mlir::arith::FPToSIOp>(type, x); }
  V CreateFPToUI(V x, T type) { return make<mlir::arith::FPToUIOp>(type, x); }
  V CreateFreeze(V x);

  V CreateVectorSplat(int64_t width, V x);
  V CreateExtractElement(V x, int64_t lane);
  V fromElements(llvm::ArrayRef<V> elements);

  /// Memory of one value; `align` in bytes, 0: that of its element.
  V CreateLoad(T type, V pointer, unsigned align = 0, bool invariant = false);
  void CreateStore(V value, V pointer, unsigned align = 0);
  V gep(T element, V pointer, V index);

private:
  template <typename Op, typename... Args> V make(Args &&...args) {
    return ops.createOrFold<Op>(loc, std::forward<Args>(args)...);
  }
  template <typename Op> V floating(V x, V y) {
    auto flags = mlir::arith::FastMathFlagsAttr::get(
        ops.getContext(), contract ? mlir::arith::FastMathFlags::contract
                                   : mlir::arith::FastMathFlags::none);
    return make<Op>(x, y, flags);
  }
  V constant(T type, mlir::TypedAttr value);
  V callIntrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<V> operands);

  bool contract = false;
};

} // namespace kerf::cuda

#endif // KERF_LOWER_GPU_GPUBUILDER_H
