//===- Values.cpp - pulling values, ops that move elements ----------------===//
//
// `pull` is the heart: the value of an op at symbolic indices, remembered for
// the current scope. Ops that move elements only change the indices; where an
// element may lie outside of an operand (pad, concat), a guard decides: by
// ranges, by a branch if all lanes agree, or else by a select over clamped
// loads, so that memory outside of the operand is never touched.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"

#include "kerf/NN/NN.h"

using namespace llvm;
using mlir::cast;
using mlir::dyn_cast;
using mlir::isa;

namespace kerf::codegen {

KernelEmitter::V KernelEmitter::pull(mlir::Value value, ArrayRef<Index> index) {
  std::pair<void *, IndexVec> key(value.getAsOpaquePointer(), IndexVec(index));
  for (auto &scope : llvm::reverse(scopes))
    if (auto it = scope.find(key); it != scope.end())
      return it->second;
  V result;
  mlir::Operation *op = value.getDefiningOp();
  if (!op || !plan.ops.contains(op)) {
    Index flat = space.linearize(index, shapeOf(value));
    auto tile = llvm::find_if(tiles, [&](const Tile &candidate) {
      return tileRow && candidate.value == value && candidate.flat == flat;
    });
    if (tile != tiles.end()) {
      Type *type = storageType(elementOf(value));
      V row = b.CreateGEP(type, tile->buffer,
                          b.CreateMul(tileRow, b.getInt64(native)));
      result = fromStorage(
          b.CreateAlignedLoad(vectorOf(type, native), row,
                              Align(type->getScalarSizeInBits() / 8)),
          elementOf(value));
    } else {
      result = load(pointers.lookup(value), elementOf(value), flat,
                    invariant.lookup(value));
    }
  } else if (auto it = kept.find(value);
             it != kept.end() && it->second.index == key.second) {
    Type *type = computeType(elementOf(value));
    V position = scalarIndex(it->second.position);
    if (plan.lanesOuter)
      position = b.CreateMul(position, b.getInt64(lanes));
    result = b.CreateAlignedLoad(vectorOf(type, lanes),
                                 b.CreateGEP(type, it->second.buffer, position),
                                 Align(type->getScalarSizeInBits() / 8));
  } else {
    result = pullOp(op, index);
  }
  scopes.back()[key] = result;
  return result;
}

KernelEmitter::V KernelEmitter::pullOp(mlir::Operation *op,
                                       ArrayRef<Index> index) {
  switch (kindOf(op)) {
  case OpKind::Elementwise: {
    SmallVector<V> operands;
    for (OperandUse &use : operandUses(op, index, space))
      operands.push_back(pull(op->getOperand(use.operand), use.index));
    widenAll(operands);
    return elementwise(op, operands);
  }
  case OpKind::Shape: {
    auto uses = operandUses(op, index, space);
    return pull(op->getOperand(0), uses[0].index);
  }
  case OpKind::Pad:
  case OpKind::Concat:
    return pullUses(op, index);
  case OpKind::Constant:
    return pullConstant(op, index);
  case OpKind::Iota:
    return pullIota(op, index);
  case OpKind::Gather:
    return pullGather(op, index);
  case OpKind::Row:
    return pullRow(op, index);
  case OpKind::Window:
    return isa<nn::LRNOp>(op) ? pullLRN(op, index) : pullPool(op, index);
  case OpKind::Contraction:
    return isa<nn::ConvOp>(op) ? pullConv(op, index) : pullMatmul(op, index);
  case OpKind::Unsupported:
    break;
  }
  llvm_unreachable("refused by the plan");
}

//===----------------------------------------------------------------------===//
// Guards
//===----------------------------------------------------------------------===//

/// Whether the guard holds for all values of its atoms (true), for none
/// (false).
static std::optional<bool> decide(const IndexSpace &space, const Guard &guard) {
  auto [low, high] = space.range(guard.index);
  if (high < guard.low || low >= guard.high || guard.low >= guard.high)
    return false;
  if (low >= guard.low && high < guard.high)
    return true;
  return std::nullopt;
}

KernelEmitter::V KernelEmitter::guardCondition(ArrayRef<Guard> guards) {
  V all = b.getTrue();
  for (const Guard &guard : guards) {
    std::optional<bool> known = decide(space, guard);
    if (known && *known)
      continue;
    if (known)
      return b.getFalse();
    // low <= i < high as one unsigned comparison.
    Index shifted = space.add(guard.index, Index(-guard.low));
    V at = variesOverLanes(shifted) ? laneIndex(shifted) : scalarIndex(shifted);
    V condition = b.CreateICmpULT(
        at, ConstantInt::get(at->getType(), guard.high - guard.low));
    V both[] = {all, condition};
    widenAll(both);
    all = both[0] == b.getTrue() ? both[1] : b.CreateAnd(both[0], both[1]);
  }
  return all;
}

KernelEmitter::V KernelEmitter::pullGuarded(mlir::Value operand,
                                            const OperandUse &use,
                                            function_ref<V()> otherwise) {
  V condition = guardCondition(use.guards);
  if (auto *known = dyn_cast<ConstantInt>(condition))
    return known->isOne() ? pull(operand, use.index) : otherwise();
  if (!condition->getType()->isVectorTy())
    return ifElse(
        condition, [&] { return pull(operand, use.index); }, otherwise);
  // Lanes disagree: every index is moved into the operand.
  IndexVec clamped(use.index);
  for (auto [i, size] : llvm::zip_equal(clamped, shapeOf(operand))) {
    auto [low, high] = space.range(i);
    if (low >= 0 && high < size)
      continue;
    V at = variesOverLanes(i) ? laneIndexAs(i, b.getInt64Ty()) : scalarIndex(i);
    at = b.CreateBinaryIntrinsic(Intrinsic::smax, at,
                                 ConstantInt::get(at->getType(), 0));
    at = b.CreateBinaryIntrinsic(Intrinsic::smin, at,
                                 ConstantInt::get(at->getType(), size - 1));
    i = space.get(runtimeAtom(at, 0, size - 1));
  }
  V values[] = {pull(operand, clamped), otherwise()};
  values[0] = widen(values[0]);
  values[1] = widen(values[1]);
  return b.CreateSelect(condition, values[0], values[1]);
}

KernelEmitter::V KernelEmitter::pullUses(mlir::Operation *op,
                                         ArrayRef<Index> index) {
  SmallVector<OperandUse, 3> uses;
  for (OperandUse &use : operandUses(op, index, space)) {
    bool never = any_of(use.guards, [&](const Guard &guard) {
      return decide(space, guard) == std::optional<bool>(false);
    });
    if (!never)
      uses.push_back(std::move(use));
  }
  auto pad = dyn_cast<nn::PadOp>(op);
  std::function<V(size_t)> chain = [&](size_t at) -> V {
    if (at == uses.size()) {
      mlir::Type element = elementOf(op->getResult(0));
      return pad ? constantOf(element, pad.getValue())
                 : constantOf(element, 0.0);
    }
    mlir::Value operand = op->getOperand(uses[at].operand);
    // The last part of a concat takes what the others left.
    if (!pad && at + 1 == uses.size()) {
      OperandUse use = uses[at];
      bool inside = all_of(use.guards, [&](const Guard &guard) {
        return decide(space, guard) == std::optional<bool>(true);
      });
      if (inside)
        return pull(operand, use.index);
    }
    return pullGuarded(operand, uses[at], [&] { return chain(at + 1); });
  };
  return chain(0);
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

KernelEmitter::V KernelEmitter::pullConstant(mlir::Operation *op,
                                             ArrayRef<Index> index) {
  mlir::DenseElementsAttr elements = cast<nn::ConstantOp>(op).getElements();
  mlir::Type element = elements.getElementType();
  if (elements.isSplat())
    return constantOf(element, elements.getSplatValue<mlir::Attribute>());
  V &global = constants[op];
  if (!global) {
    Type *type = storageType(element);
    SmallVector<Constant *> values;
    bool isFloat = isa<mlir::FloatType>(element);
    auto push = [&](const APInt &bits) {
      if (type->isFloatingPointTy())
        values.push_back(
            ConstantFP::get(context, APFloat(type->getFltSemantics(), bits)));
      else
        values.push_back(ConstantInt::get(
            context, bits.zextOrTrunc(type->getIntegerBitWidth())));
    };
    if (isFloat)
      for (const APFloat &value : elements.getValues<APFloat>())
        push(value.bitcastToAPInt());
    else
      for (const APInt &value : elements.getValues<APInt>())
        push(value);
    auto *array = ArrayType::get(type, values.size());
    auto *variable = new GlobalVariable(
        module, array, true, GlobalValue::PrivateLinkage,
        ConstantArray::get(array, values), function->getName() + ".data");
    variable->setAlignment(Align(64));
    global = variable;
  }
  Index flat = space.linearize(index, shapeOf(op->getResult(0)));
  return load(global, element, flat, true);
}

KernelEmitter::V KernelEmitter::pullIota(mlir::Operation *op,
                                         ArrayRef<Index> index) {
  const Index &i = index[cast<nn::IotaOp>(op).getDim()];
  mlir::Type element = elementOf(op->getResult(0));
  V at = variesOverLanes(i) ? laneIndex(i) : scalarIndex(i);
  Type *type = computeType(element);
  if (auto *vector = dyn_cast<FixedVectorType>(at->getType()))
    type = vectorOf(type, vector->getNumElements());
  return type->isFPOrFPVectorTy() ? b.CreateSIToFP(at, type)
                                  : b.CreateSExtOrTrunc(at, type);
}

KernelEmitter::V KernelEmitter::pullGather(mlir::Operation *op,
                                           ArrayRef<Index> index) {
  auto gather = cast<nn::GatherOp>(op);
  int64_t dim = gather.getDim();
  int64_t rank = shapeOf(gather.getIndices()).size();
  int64_t size = shapeOf(gather.getData())[dim];
  mlir::Type indexElement = elementOf(gather.getIndices());
  V raw = pull(gather.getIndices(),
               IndexVec(index.begin() + dim, index.begin() + dim + rank));
  Type *i64 = b.getInt64Ty();
  if (auto *vector = dyn_cast<FixedVectorType>(raw->getType()))
    i64 = vectorOf(i64, vector->getNumElements());
  bool isUnsigned =
      indexElement.isUnsignedInteger() || indexElement.isInteger(1);
  V at = isUnsigned ? b.CreateZExt(raw, i64) : b.CreateSExt(raw, i64);
  V zero = ConstantInt::get(i64, 0), bound = ConstantInt::get(i64, size);
  V wrapped = at;
  if (!gather.getPartial())
    wrapped =
        b.CreateSelect(b.CreateICmpSLT(at, zero), b.CreateAdd(at, bound), at);
  V inside = b.CreateICmpULT(wrapped, bound);
  if (!gather.getPartial())
    failIf(b.CreateNot(inside), at, 1);
  V nothing = constantOf(elementOf(op->getResult(0)), 0.0);
  if (!size)
    return nothing;
  V safe = b.CreateSelect(inside, wrapped, zero);
  IndexVec data(index.begin(), index.begin() + dim);
  data.push_back(space.get(runtimeAtom(safe, 0, size - 1)));
  data.append(index.begin() + dim + rank, index.end());
  V value = pull(gather.getData(), data);
  if (!gather.getPartial())
    return value;
  V parts[] = {inside, value, nothing};
  if (value->getType()->isVectorTy() || inside->getType()->isVectorTy())
    for (V &part : parts)
      part = widen(part);
  return b.CreateSelect(parts[0], parts[1], parts[2]);
}

/// Calls api->fail(context, code, node, detail) if any lane is bad, with the
/// detail of the first of them, and goes on.
void KernelEmitter::failIf(V bad, V detail, int code) {
  V any = bad;
  if (bad->getType()->isVectorTy())
    any = b.CreateOrReduce(bad);
  if (auto *known = dyn_cast<ConstantInt>(any); known && known->isZero())
    return;
  ifThen(any, [&] {
    V first = detail;
    if (auto *vector = dyn_cast<FixedVectorType>(bad->getType())) {
      unsigned width = vector->getNumElements();
      V bits = b.CreateBitCast(bad, b.getIntNTy(width));
      V lane = b.CreateZExtOrTrunc(
          b.CreateBinaryIntrinsic(Intrinsic::cttz, bits, b.getTrue()),
          b.getInt64Ty());
      first = b.CreateExtractElement(widen(detail), lane);
    }
    auto *pointer = PointerType::get(context, 0);
    auto *type = FunctionType::get(
        b.getInt32Ty(), {pointer, b.getInt32Ty(), pointer, b.getInt64Ty()},
        false);
    V slot = b.CreateConstGEP1_64(b.getInt8Ty(), api, kApiFail);
    V fail = b.CreateLoad(pointer, slot);
    CallInst *call =
        b.CreateCall(type, fail, {apiContext, b.getInt32(code), node, first});
    call->addFnAttr(Attribute::Cold);
  });
}

} // namespace kerf::codegen
