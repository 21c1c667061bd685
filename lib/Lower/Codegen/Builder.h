//===- Builder.h - the builder of shared code generation --------*- C++ -*-===//
//
// Problem: CPU and GPU code compute the values of nn ops in the same way, but
// one becomes LLVM IR and the other MLIR.
//
// Idea: shared code (VectorMath, PullEmitter) is written once over a builder
// with the names of llvm::IRBuilder, and instantiated twice. LlvmBuilder is
// IRBuilder with the functions that it lacks; GpuBuilder (lib/Lower/Gpu) makes
// arith and llvm ops. The comments here hold for both.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_BUILDER_H
#define KERF_LOWER_CODEGEN_BUILDER_H

#include "llvm/IR/IRBuilder.h"

#include <optional>

namespace kerf::codegen {

class LlvmBuilder : public llvm::IRBuilder<> {
public:
  /// A value, and a type: scalar or vector.
  using V = llvm::Value *;
  using T = llvm::Type *;
  explicit LlvmBuilder(llvm::LLVMContext &context)
      : llvm::IRBuilder<>(context) {}

  T typeOf(V value) { return value->getType(); }
  /// Lanes of a vector, 1 of a scalar.
  static int64_t widthOf(T type) {
    auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    return vector ? vector->getNumElements() : 1;
  }
  int64_t widthOf(V value) { return widthOf(value->getType()); }
  bool isVector(V value) { return value->getType()->isVectorTy(); }
  bool isFloat(T type) { return type->isFPOrFPVectorTy(); }
  bool isDouble(T type) { return type->getScalarType()->isDoubleTy(); }
  unsigned bitsOf(T type) { return type->getScalarSizeInBits(); }
  /// `element` as wide as `like`.
  T withElement(T like, T element) { return vectorOf(element, widthOf(like)); }
  T vectorOf(T element, int64_t width) {
    return width == 1 ? element : llvm::FixedVectorType::get(element, width);
  }

  // Constants of a scalar or vector type.
  V real(T type, double value) { return llvm::ConstantFP::get(type, value); }
  V integer(T type, int64_t value) {
    return llvm::ConstantInt::get(type, value, true);
  }
  V integer(T type, const llvm::APInt &value) {
    return llvm::ConstantInt::get(type, value);
  }
  V zero(T type) { return llvm::Constant::getNullValue(type); }
  V infinity(T type, bool negative) {
    return llvm::ConstantFP::getInfinity(type, negative);
  }
  /// 0, 1, 2, ... in the lanes of a vector type.
  V steps(T type) {
    llvm::SmallVector<llvm::Constant *> steps;
    for (int64_t lane = 0; lane < widthOf(type); ++lane)
      steps.push_back(llvm::ConstantInt::get(type->getScalarType(), lane));
    return llvm::ConstantVector::get(steps);
  }
  /// The value of an i1 that is a constant.
  std::optional<bool> known(V condition) {
    auto *constant = llvm::dyn_cast<llvm::ConstantInt>(condition);
    return constant ? std::optional<bool>(constant->isOne()) : std::nullopt;
  }

  V mulAdd(V x, V y, V z) {
    return CreateIntrinsic(llvm::Intrinsic::fmuladd, {x->getType()}, {x, y, z});
  }
  /// Whether multiplications and additions may be contracted from now on.
  void setContract(bool contract) {
    llvm::FastMathFlags flags;
    flags.setAllowContract(contract);
    setFastMathFlags(flags);
  }
  bool isContract() { return getFastMathFlags().allowContract(); }
};

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_BUILDER_H
