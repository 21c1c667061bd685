//===- PullIndices.h - symbolic indices as values ---------------*- C++ -*-===//
//
// An index is a scalar of the index type or, if it varies over the lanes, a
// vector, of 32-bit elements if its range fits. f16 and bf16 are computed in
// f32, codes of 2 to 8 bits are bytes, other types are computed in their own.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_PULLINDICES_H
#define KERF_LOWER_CODEGEN_PULLINDICES_H

#include "PullEmitter.h"

#include "kerf/Support/NarrowTypes.h"

#include "llvm/Support/MathExtras.h"

namespace kerf::codegen {

template <typename B>
auto PullEmitter<B>::computeType(mlir::Type element) -> T {
  if (element.isF64())
    return b.getDoubleTy();
  if (isNarrow(element))
    return b.getIntNTy(8);
  if (mlir::isa<mlir::FloatType>(element))
    return b.getFloatTy();
  return b.getIntNTy(element.getIntOrFloatBitWidth());
}

template <typename B> auto PullEmitter<B>::widen(V value, int64_t to) -> V {
  to = to ? to : lanes;
  if (to == 1 || b.isVector(value))
    return value;
  return b.CreateVectorSplat(to, value);
}

template <typename B>
auto PullEmitter<B>::widenAll(llvm::MutableArrayRef<V> values) -> void {
  if (llvm::any_of(values, [&](V v) { return b.isVector(v); }))
    for (V &value : values)
      value = widen(value);
}

template <typename B>
auto PullEmitter<B>::constantOf(mlir::Type element, double value) -> V {
  T type = computeType(element);
  if (b.isFloat(type))
    return b.real(type, value);
  return b.integer(type, static_cast<int64_t>(value));
}

template <typename B>
auto PullEmitter<B>::constantOf(mlir::Type element, mlir::Attribute value)
    -> V {
  T type = computeType(element);
  if (isNarrow(element))
    return b.integer(type, llvm::APInt(8, codeOf(value)));
  if (auto number = mlir::dyn_cast<mlir::FloatAttr>(value))
    return b.real(type, number.getValueAsDouble());
  return b.integer(type,
                   mlir::cast<mlir::IntegerAttr>(value).getValue().zextOrTrunc(
                       b.bitsOf(type)));
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

template <typename B> auto PullEmitter<B>::scalarAtom(AtomId id) -> V {
  const Atom &atom = space[id];
  if (atom.kind == Atom::Kind::Loop || atom.kind == Atom::Kind::Runtime) {
    V value = atomValues.lookup(id);
    assert(value && !b.isVector(value));
    return value;
  }
  V argument = scalarIndex(atom.argument);
  V divisor = indexConstant(atom.divisor);
  if (space.range(atom.argument).first >= 0)
    return atom.kind == Atom::Kind::Quotient ? b.CreateUDiv(argument, divisor)
                                             : b.CreateURem(argument, divisor);
  V rest = b.CreateSRem(argument, divisor);
  V negative = b.CreateICmpSLT(rest, indexConstant(0));
  if (atom.kind == Atom::Kind::Remainder)
    return b.CreateSelect(negative, b.CreateAdd(rest, divisor), rest);
  return b.CreateSub(b.CreateSDiv(argument, divisor),
                     b.CreateZExt(negative, indexType()));
}

template <typename B>
auto PullEmitter<B>::scalarIndex(const Index &index) -> V {
  V sum = nullptr;
  for (auto [atom, k] : index.terms) {
    V term = b.CreateMul(scalarAtom(atom), indexConstant(k));
    sum = sum ? b.CreateAdd(sum, term) : term;
  }
  if (!sum)
    return indexConstant(index.constant);
  return b.CreateAdd(sum, indexConstant(index.constant));
}

template <typename B>
auto PullEmitter<B>::variesOverLanes(const Index &index) -> bool {
  if (lanes == 1)
    return false;
  for (auto [id, k] : index.terms) {
    const Atom &atom = space[id];
    if (id == laneAtom)
      return true;
    if (atom.kind == Atom::Kind::Runtime && b.isVector(atomValues.lookup(id)))
      return true;
    if ((atom.kind == Atom::Kind::Quotient ||
         atom.kind == Atom::Kind::Remainder) &&
        variesOverLanes(atom.argument))
      return true;
  }
  return false;
}

template <typename B>
auto PullEmitter<B>::laneStride(const Index &index) -> std::optional<int64_t> {
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

template <typename B>
auto PullEmitter<B>::laneIndexAs(const Index &index, T type) -> V {
  T vector = vectorOf(type, lanes);
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
      value = b.CreateAdd(splat(atomValues.lookup(id)), b.steps(vector));
    } else if (atom.kind == Atom::Kind::Runtime) {
      value = b.CreateSExtOrTrunc(atomValues.lookup(id), vector);
    } else {
      V argument = laneIndexAs(atom.argument, type);
      V divisor = b.integer(vector, atom.divisor);
      bool quotient = atom.kind == Atom::Kind::Quotient;
      if (space.range(atom.argument).first >= 0) {
        value = quotient ? b.CreateUDiv(argument, divisor)
                         : b.CreateURem(argument, divisor);
      } else {
        V rest = b.CreateSRem(argument, divisor);
        V negative = b.CreateICmpSLT(rest, b.zero(vector));
        value = quotient ? b.CreateSub(b.CreateSDiv(argument, divisor),
                                       b.CreateZExt(negative, vector))
                         : b.CreateSelect(negative, b.CreateAdd(rest, divisor),
                                          rest);
      }
    }
    if (k != 1)
      value = b.CreateMul(value, b.integer(vector, k));
    sum = sum ? b.CreateAdd(sum, value) : value;
  }
  V constant = b.integer(vector, index.constant);
  return sum ? b.CreateAdd(sum, constant) : constant;
}

inline bool fitsInt32(IndexSpace &space, const Index &index) {
  int64_t bound = std::abs(index.constant);
  for (auto [id, k] : index.terms) {
    const Atom &atom = space[id];
    int64_t magnitude = std::max(std::abs(atom.low), std::abs(atom.high));
    int64_t product;
    if (llvm::MulOverflow(magnitude, std::abs(k), product) ||
        llvm::AddOverflow(bound, product, bound))
      return false;
    if ((atom.kind == Atom::Kind::Quotient ||
         atom.kind == Atom::Kind::Remainder) &&
        (atom.divisor > INT32_MAX || !fitsInt32(space, atom.argument)))
      return false;
  }
  return bound < INT32_MAX - 1024;
}

template <typename B> auto PullEmitter<B>::laneIndex(const Index &index) -> V {
  bool narrow = fitsInt32(space, index);
  return laneIndexAs(index, narrow ? T(b.getInt32Ty()) : indexType());
}

template <typename B>
auto PullEmitter<B>::runtimeAtom(V value, int64_t low, int64_t high) -> AtomId {
  AtomId atom = space.addRuntime(low, high);
  T type = b.withElement(b.typeOf(value), indexType());
  atomValues[atom] = b.CreateSExtOrTrunc(value, type);
  return atom;
}

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_PULLINDICES_H
