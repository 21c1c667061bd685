//===- Memory.cpp - indices, loads, stores, element types -----------------===//
//
// How an element lies in memory and how it is computed with: f16 and bf16 in
// f32, i1 in one byte. A load at a symbolic index becomes a scalar load, a
// contiguous vector, a reversed one, or a gather, by how the index changes over
// the lanes.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace kerf::codegen {

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

Type *KernelEmitter::vectorOf(Type *type, int64_t width) {
  return width == 1 ? type : FixedVectorType::get(type, width);
}

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

Type *KernelEmitter::computeType(mlir::Type element) {
  if (element.isF64())
    return b.getDoubleTy();
  if (mlir::isa<mlir::FloatType>(element))
    return b.getFloatTy();
  return b.getIntNTy(element.getIntOrFloatBitWidth());
}

KernelEmitter::V KernelEmitter::widen(V value, int64_t to) {
  to = to ? to : lanes;
  if (to == 1 || value->getType()->isVectorTy())
    return value;
  return b.CreateVectorSplat(to, value);
}

void KernelEmitter::widenAll(MutableArrayRef<V> values) {
  if (any_of(values, [](V v) { return v->getType()->isVectorTy(); }))
    for (V &value : values)
      value = widen(value);
}

static Type *sameWidth(Type *like, Type *element) {
  if (auto *vector = dyn_cast<FixedVectorType>(like))
    return FixedVectorType::get(element, vector->getNumElements());
  return element;
}

/// binary16 without instructions for it: a multiplication by 2^112 moves the
/// exponent, for subnormals, too.
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

KernelEmitter::V KernelEmitter::constantOf(mlir::Type element, double value) {
  Type *type = computeType(element);
  if (type->isFloatingPointTy())
    return ConstantFP::get(type, value);
  return ConstantInt::get(type, static_cast<int64_t>(value), true);
}

KernelEmitter::V KernelEmitter::constantOf(mlir::Type element,
                                           mlir::Attribute value) {
  Type *type = computeType(element);
  if (auto number = mlir::dyn_cast<mlir::FloatAttr>(value))
    return ConstantFP::get(type, number.getValueAsDouble());
  return ConstantInt::get(
      context, mlir::cast<mlir::IntegerAttr>(value).getValue().zextOrTrunc(
                   type->getIntegerBitWidth()));
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

KernelEmitter::V KernelEmitter::scalarAtom(AtomId id) {
  const Atom &atom = space[id];
  if (atom.kind == Atom::Kind::Loop || atom.kind == Atom::Kind::Runtime) {
    V value = atomValues.lookup(id);
    assert(value && !value->getType()->isVectorTy());
    return value;
  }
  V argument = scalarIndex(atom.argument);
  V divisor = b.getInt64(atom.divisor);
  if (space.range(atom.argument).first >= 0)
    return atom.kind == Atom::Kind::Quotient ? b.CreateUDiv(argument, divisor)
                                             : b.CreateURem(argument, divisor);
  V rest = b.CreateSRem(argument, divisor);
  V negative = b.CreateICmpSLT(rest, b.getInt64(0));
  if (atom.kind == Atom::Kind::Remainder)
    return b.CreateSelect(negative, b.CreateAdd(rest, divisor), rest);
  return b.CreateSub(b.CreateSDiv(argument, divisor),
                     b.CreateZExt(negative, b.getInt64Ty()));
}

KernelEmitter::V KernelEmitter::scalarIndex(const Index &index) {
  V sum = nullptr;
  for (auto [atom, k] : index.terms) {
    V term = b.CreateMul(scalarAtom(atom), b.getInt64(k));
    sum = sum ? b.CreateAdd(sum, term) : term;
  }
  if (!sum)
    return b.getInt64(index.constant);
  return b.CreateAdd(sum, b.getInt64(index.constant));
}

bool KernelEmitter::variesOverLanes(const Index &index) {
  if (lanes == 1)
    return false;
  for (auto [id, k] : index.terms) {
    const Atom &atom = space[id];
    if (id == laneAtom)
      return true;
    if (atom.kind == Atom::Kind::Runtime &&
        atomValues.lookup(id)->getType()->isVectorTy())
      return true;
    if ((atom.kind == Atom::Kind::Quotient ||
         atom.kind == Atom::Kind::Remainder) &&
        variesOverLanes(atom.argument))
      return true;
  }
  return false;
}

std::optional<int64_t> KernelEmitter::laneStride(const Index &index) {
  int64_t stride = 0;
  for (auto [id, k] : index.terms) {
    if (lanes > 1 && id == laneAtom) {
      stride = k;
      continue;
    }
    Index term;
    term.terms.push_back({id, k});
    if (variesOverLanes(term))
      return std::nullopt;
  }
  return stride;
}

KernelEmitter::V KernelEmitter::laneIndexAs(const Index &index, Type *type) {
  Type *vector = vectorOf(type, lanes);
  auto splat = [&](V scalar) {
    return widen(b.CreateSExtOrTrunc(scalar, type));
  };
  V sum = nullptr;
  for (auto [id, k] : index.terms) {
    Index term;
    term.terms.push_back({id, 1});
    const Atom &atom = space[id];
    V value;
    if (!variesOverLanes(term)) {
      value = splat(scalarAtom(id));
    } else if (id == laneAtom) {
      SmallVector<Constant *> steps;
      for (int64_t lane = 0; lane < lanes; ++lane)
        steps.push_back(ConstantInt::get(type, lane));
      value =
          b.CreateAdd(splat(atomValues.lookup(id)), ConstantVector::get(steps));
    } else if (atom.kind == Atom::Kind::Runtime) {
      value = b.CreateSExtOrTrunc(atomValues.lookup(id), vector);
    } else {
      V argument = laneIndexAs(atom.argument, type);
      V divisor = ConstantInt::get(vector, atom.divisor);
      bool quotient = atom.kind == Atom::Kind::Quotient;
      if (space.range(atom.argument).first >= 0) {
        value = quotient ? b.CreateUDiv(argument, divisor)
                         : b.CreateURem(argument, divisor);
      } else {
        V rest = b.CreateSRem(argument, divisor);
        V negative = b.CreateICmpSLT(rest, Constant::getNullValue(vector));
        value = quotient ? b.CreateSub(b.CreateSDiv(argument, divisor),
                                       b.CreateZExt(negative, vector))
                         : b.CreateSelect(negative, b.CreateAdd(rest, divisor),
                                          rest);
      }
    }
    if (k != 1)
      value = b.CreateMul(value, ConstantInt::get(vector, k, true));
    sum = sum ? b.CreateAdd(sum, value) : value;
  }
  Constant *constant = ConstantInt::get(vector, index.constant, true);
  return sum ? b.CreateAdd(sum, constant) : constant;
}

static bool fitsInt32(IndexSpace &space, const Index &index) {
  int64_t bound = std::abs(index.constant);
  for (auto [id, k] : index.terms) {
    const Atom &atom = space[id];
    int64_t magnitude = std::max(std::abs(atom.low), std::abs(atom.high));
    int64_t product;
    if (MulOverflow(magnitude, std::abs(k), product) ||
        AddOverflow(bound, product, bound))
      return false;
    if ((atom.kind == Atom::Kind::Quotient ||
         atom.kind == Atom::Kind::Remainder) &&
        (atom.divisor > INT32_MAX || !fitsInt32(space, atom.argument)))
      return false;
  }
  return bound < INT32_MAX - 1024;
}

KernelEmitter::V KernelEmitter::laneIndex(const Index &index) {
  bool narrow = fitsInt32(space, index);
  return laneIndexAs(index, narrow ? b.getInt32Ty() : b.getInt64Ty());
}

AtomId KernelEmitter::runtimeAtom(V value, int64_t low, int64_t high) {
  AtomId atom = space.addRuntime(low, high);
  atomValues[atom] = value;
  return atom;
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

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

/// Bounded, so that any thread's stack holds it; null if it would be too much.
KernelEmitter::V KernelEmitter::rowBuffer(int64_t count, Type *type) {
  constexpr int64_t kStackBytes = 256 << 10;
  int64_t bytes = count * lanes * (type->getScalarSizeInBits() / 8);
  if (stackBytes + bytes > kStackBytes)
    return nullptr;
  stackBytes += bytes;
  return entryAlloca(ArrayType::get(type, count * lanes));
}

} // namespace kerf::codegen
