//===- Memory.cpp - indices, loads, stores, element types -----------------===//
//
// How an element is stored and in which type it is computed: f16 and bf16 in
// f32, i1 in one byte. A load at a symbolic index becomes a scalar load, a
// contiguous vector, a reversed one, or a gather, depending on how the index
// varies over the lanes.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace kerf::codegen {

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

Type *KernelEmitter::storageType(mlir::Type element) {
  if (element.isF32())
    return b.getFloatTy();
  if (element.isF64())
    return b.getDoubleTy();
  if (element.isF16() && target.hasF16C)
    return b.getHalfTy();
  unsigned bits = element.getIntOrFloatBitWidth();
  return b.getIntNTy(std::max(bits, 8u));
}

static Type *sameWidth(Type *like, Type *element) {
  if (auto *vector = dyn_cast<FixedVectorType>(like))
    return FixedVectorType::get(element, vector->getNumElements());
  return element;
}

/// Widens binary16 without instructions for it: multiplying by 2^112 adjusts
/// the exponent, also of subnormals.
KernelEmitter::V KernelEmitter::halfToFloat(V bits) {
  Type *i32 = sameWidth(bits->getType(), b.getInt32Ty());
  Type *f32 = sameWidth(bits->getType(), b.getFloatTy());
  auto constant = [&](uint32_t value) { return ConstantInt::get(i32, value); };
  V wide = b.CreateZExt(bits, i32);
  V sign = b.CreateShl(b.CreateAnd(wide, constant(0x8000)), 16);
  V magnitude = b.CreateAnd(wide, constant(0x7fff));
  V shifted = b.CreateShl(magnitude, 13);
  V scaled = b.CreateFMul(b.CreateBitCast(shifted, f32),
                          ConstantFP::get(f32, std::ldexp(1.0, 112)));
  V special = b.CreateICmpUGE(magnitude, constant(0x7c00));
  V result = b.CreateSelect(special, b.CreateOr(shifted, constant(0x7f800000)),
                            b.CreateBitCast(scaled, i32));
  return b.CreateBitCast(b.CreateOr(result, sign), f32);
}

/// Rounds to nearest even: subnormal results by adding 1/2, whose last bit has
/// the right weight; normal ones by adding just under half, plus the last bit.
KernelEmitter::V KernelEmitter::floatToHalf(V value) {
  Type *f32 = value->getType();
  Type *i32 = sameWidth(f32, b.getInt32Ty());
  Type *i16 = sameWidth(f32, b.getInt16Ty());
  auto constant = [&](uint32_t bits) { return ConstantInt::get(i32, bits); };
  V bits = b.CreateBitCast(value, i32);
  V sign = b.CreateAnd(bits, constant(0x80000000));
  V magnitude = b.CreateXor(bits, sign);
  V half = constant(0x3f000000);
  V small =
      b.CreateSub(b.CreateBitCast(b.CreateFAdd(b.CreateBitCast(magnitude, f32),
                                               b.CreateBitCast(half, f32)),
                                  i32),
                  half);
  V odd = b.CreateAnd(b.CreateLShr(magnitude, 13), constant(1));
  V normal =
      b.CreateAdd(b.CreateAdd(magnitude, odd), constant(0xc8000000u + 0xfff));
  normal = b.CreateLShr(normal, 13);
  V result = b.CreateSelect(b.CreateICmpULT(magnitude, constant(0x38800000)),
                            small, normal);
  V large = b.CreateSelect(b.CreateICmpUGT(magnitude, constant(0x7f800000)),
                           constant(0x7e00), constant(0x7c00));
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, constant(0x47800000)),
                          large, result);
  return b.CreateTrunc(b.CreateOr(result, b.CreateLShr(sign, 16)), i16);
}

KernelEmitter::V KernelEmitter::floatToBFloat(V value) {
  Type *i32 = sameWidth(value->getType(), b.getInt32Ty());
  Type *i16 = sameWidth(value->getType(), b.getInt16Ty());
  auto constant = [&](uint32_t bits) { return ConstantInt::get(i32, bits); };
  V bits = b.CreateBitCast(value, i32);
  V odd = b.CreateAnd(b.CreateLShr(bits, 16), constant(1));
  V rounded = b.CreateAdd(b.CreateAdd(bits, odd), constant(0x7fff));
  V nan = b.CreateOr(bits, constant(0x00400000));
  rounded = b.CreateSelect(b.CreateFCmpUNO(value, value), nan, rounded);
  return b.CreateTrunc(b.CreateLShr(rounded, 16), i16);
}

KernelEmitter::V KernelEmitter::fromStorage(V raw, mlir::Type element) {
  if (element.isInteger(1))
    return b.CreateICmpNE(raw, Constant::getNullValue(raw->getType()));
  if (element.isF16())
    return target.hasF16C
               ? b.CreateFPExt(raw, sameWidth(raw->getType(), b.getFloatTy()))
               : halfToFloat(raw);
  if (element.isBF16()) {
    Type *i32 = sameWidth(raw->getType(), b.getInt32Ty());
    return b.CreateBitCast(b.CreateShl(b.CreateZExt(raw, i32), 16),
                           sameWidth(raw->getType(), b.getFloatTy()));
  }
  return raw;
}

KernelEmitter::V KernelEmitter::toStorage(V value, mlir::Type element) {
  if (element.isInteger(1))
    return b.CreateZExt(value, sameWidth(value->getType(), b.getInt8Ty()));
  if (element.isF16())
    return target.hasF16C ? b.CreateFPTrunc(value, sameWidth(value->getType(),
                                                             b.getHalfTy()))
                          : floatToHalf(value);
  if (element.isBF16())
    return floatToBFloat(value);
  return value;
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

KernelEmitter::V KernelEmitter::loadInput(mlir::Value value,
                                          const Index &flat) {
  auto tile = find_if(tiles, [&](const Tile &candidate) {
    return tileRow && candidate.value == value && candidate.flat == flat;
  });
  if (tile == tiles.end())
    return load(pointers.lookup(value), elementOf(value), flat,
                invariant.lookup(value));
  Type *type = storageType(elementOf(value));
  V row =
      b.CreateGEP(type, tile->buffer, b.CreateMul(tileRow, b.getInt64(native)));
  return fromStorage(
      b.CreateAlignedLoad(vectorOf(type, native), row,
                          Align(type->getScalarSizeInBits() / 8)),
      elementOf(value));
}

KernelEmitter::V KernelEmitter::constantData(mlir::Operation *op,
                                             mlir::DenseElementsAttr elements) {
  mlir::Type element = elements.getElementType();
  Type *type = storageType(element);
  SmallVector<Constant *> values;
  bool isFloat = mlir::isa<mlir::FloatType>(element);
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
  return variable;
}

KernelEmitter::V KernelEmitter::load(V pointer, mlir::Type element,
                                     const Index &flat, bool invariantLoad) {
  Type *type = storageType(element);
  Align align(type->getScalarSizeInBits() / 8);
  auto loadAt = [&](V at, Type *as) {
    LoadInst *instruction =
        b.CreateAlignedLoad(as, b.CreateInBoundsGEP(type, pointer, at), align);
    if (invariantLoad)
      instruction->setMetadata(LLVMContext::MD_invariant_load,
                               MDNode::get(context, {}));
    return instruction;
  };
  std::optional<int64_t> stride = laneStride(flat);
  V raw;
  if (stride == 0) {
    raw = loadAt(scalarIndex(flat), type);
  } else if (stride == 1) {
    raw = loadAt(scalarIndex(flat), vectorOf(type, lanes));
  } else if (stride == -1) {
    V first = b.CreateSub(scalarIndex(flat), b.getInt64(lanes - 1));
    raw = b.CreateVectorReverse(loadAt(first, vectorOf(type, lanes)));
  } else {
    V addresses = b.CreateInBoundsGEP(type, pointer, laneIndex(flat));
    raw = b.CreateMaskedGather(vectorOf(type, lanes), addresses, align);
  }
  return fromStorage(raw, element);
}

void KernelEmitter::store(V value, V pointer, mlir::Type element,
                          const Index &flat) {
  Type *type = storageType(element);
  Align align(type->getScalarSizeInBits() / 8);
  std::optional<int64_t> stride = laneStride(flat);
  V raw = toStorage(value, element);
  if (stride == 0) {
    b.CreateAlignedStore(
        raw, b.CreateInBoundsGEP(type, pointer, scalarIndex(flat)), align);
  } else if (stride == 1) {
    b.CreateAlignedStore(widen(raw),
                         b.CreateInBoundsGEP(type, pointer, scalarIndex(flat)),
                         align);
  } else {
    V addresses = b.CreateInBoundsGEP(type, pointer, laneIndex(flat));
    b.CreateMaskedScatter(widen(raw), addresses, align);
  }
}

KernelEmitter::V KernelEmitter::entryAlloca(Type *type) {
  IRBuilder<>::InsertPointGuard guard(b);
  BasicBlock &entry = function->getEntryBlock();
  b.SetInsertPoint(&entry, entry.begin());
  AllocaInst *memory = b.CreateAlloca(type);
  memory->setAlignment(Align(64));
  return memory;
}

/// Memory on the stack; null if it would be too much for any thread's stack.
KernelEmitter::V KernelEmitter::rowBuffer(int64_t count, Type *type) {
  constexpr int64_t kStackBytes = 256 << 10;
  int64_t bytes = count * lanes * (type->getScalarSizeInBits() / 8);
  if (stackBytes + bytes > kStackBytes)
    return nullptr;
  stackBytes += bytes;
  return entryAlloca(ArrayType::get(type, count * lanes));
}

KernelEmitter::V KernelEmitter::rowPlace(V buffer, Type *type,
                                         const Index &at) {
  V position = scalarIndex(at);
  if (plan.lanesOuter)
    position = b.CreateMul(position, b.getInt64(lanes));
  return b.CreateGEP(type, buffer, position);
}

KernelEmitter::V KernelEmitter::loadRow(V place, Type *type) {
  return b.CreateAlignedLoad(type, place,
                             Align(type->getScalarSizeInBits() / 8));
}

void KernelEmitter::storeRow(V value, V place) {
  Type *type = value->getType();
  b.CreateAlignedStore(value, place, Align(type->getScalarSizeInBits() / 8));
}

void KernelEmitter::failIf(mlir::Operation *op, V bad, V detail, int code) {
  reportIf(bad, detail, kApiFail, [&](V first) -> SmallVector<V> {
    return {apiContext, b.getInt32(code), names.at(op), first};
  });
}

void KernelEmitter::failIndexIf(mlir::Operation *op, V bad, V index,
                                int64_t size) {
  reportIf(bad, index, kApiFailIndex, [&](V first) -> SmallVector<V> {
    return {apiContext, names.at(op), first, b.getInt64(size)};
  });
}

void KernelEmitter::reportIf(V bad, V detail, ApiOffset entry,
                             function_ref<SmallVector<V>(V)> arguments) {
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
    SmallVector<V> values = arguments(first);
    SmallVector<Type *> types;
    for (V value : values)
      types.push_back(value->getType());
    auto *type = FunctionType::get(b.getInt32Ty(), types, false);
    V slot = b.CreateConstGEP1_64(b.getInt8Ty(), api, entry);
    V function = b.CreateLoad(PointerType::get(context, 0), slot);
    CallInst *call = b.CreateCall(type, function, values);
    call->addFnAttr(Attribute::Cold);
  });
}

} // namespace kerf::codegen
