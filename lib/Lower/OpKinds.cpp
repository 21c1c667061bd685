//===- OpKinds.cpp - classes of tensor ops for lowering -------------------===//
#include "OpKinds.h"

#include "Library/Strides.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;

bool kerf::isInline(Operation *op) {
  if (isa<nn::IotaOp>(op))
    return true;
  auto constant = dyn_cast<nn::ConstantOp>(op);
  return constant && (constant.getElements().isSplat() ||
                      exec::sizeBytes(constant.getResult().getType()) <=
                          kMaxInlineConstantBytes);
}

bool kerf::isElementwise(Operation *op) {
  auto cost = dyn_cast_or_null<OpCostInterface>(op);
  return cost && op->getNumResults() == 1 &&
         isa<nn::NNDialect>(op->getDialect()) &&
         cost.getCostClass() == CostClass::Elementwise &&
         !isa<nn::PhiloxOp, nn::DropoutOp>(op) &&
         !op->hasAttr(exec::kUpdateMark);
}

bool kerf::isAlias(Operation *op) {
  if (isa<nn::ReshapeOp>(op))
    return true;
  auto slice = dyn_cast<nn::SliceOp>(op);
  if (!slice)
    return false;
  RankedTensorType from = slice.getX().getType(),
                   to = slice.getResult().getType();
  Dims strides = denseStrides(from.getShape());
  int64_t offset = 0;
  bool whole = true; // every dimension so far (from the last) is taken whole
  for (int64_t d = from.getRank() - 1; d >= 0; --d) {
    offset += slice.getStarts()[d] * strides[d];
    if (to.getDimSize(d) > 1 && slice.getStrides()[d] != 1)
      return false;
    if (!whole && to.getDimSize(d) != 1)
      return false;
    whole &= to.getDimSize(d) == from.getDimSize(d);
  }
  return offset * exec::elementBytes(from.getElementType()) %
             exec::bufferAlignment ==
         0;
}

bool kerf::isReadByUpdate(Operation *view) {
  Operation *user = *view->user_begin();
  while (isa<nn::ReshapeOp>(user) && !user->use_empty())
    user = *user->user_begin();
  return user->hasAttr(exec::kUpdateMark);
}

bool kerf::hasRange(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF32() || element.isBF16();
}

bool kerf::isRounding(Operation *op) {
  auto cast = dyn_cast_or_null<nn::CastOp>(op);
  return cast && hasRange(cast.getX().getType()) && hasRange(cast.getType());
}

FailureOr<Block *> kerf::blockOf(func::FuncOp function) {
  if (function.isExternal())
    return nullptr;
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError("has more than one block");
  return &function.getBody().front();
}

SmallVector<int64_t> kerf::accumulators(func::FuncOp function) {
  SmallVector<int64_t> arguments(function.getNumResults(), -1);
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto result = dist::numberFrom(function, i, dist::From::Accumulator))
      arguments[*result] = i;
  return arguments;
}
