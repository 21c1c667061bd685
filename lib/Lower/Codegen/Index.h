//===- Index.h - symbolic indices of generated loops ------------*- C++ -*-===//
//
// Problem: when reshapes, slices and transposes are folded into loads, the code
// generator must see that ((i*12 + h)*64 + j) is contiguous in j although it
// was written as a div and a mod of another shape's indices.
//
// Idea: an index is a linear form over atoms with known ranges. An atom is a
// loop variable, a value known at run time, or the quotient or remainder of an
// index by a constant that could not be resolved. div and mod split off the
// multiples of the divisor and use ranges to resolve the rest; addition puts a
// quotient and a remainder of the same index together again.
//
// Invariant: two indices that print alike are equal for all values; ranges hold
// for every iteration. Linear in the number of terms, which is small.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_INDEX_H
#define KERF_LOWER_CODEGEN_INDEX_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <map>
#include <utility>

namespace kerf::codegen {

using AtomId = unsigned;

/// sum of coefficient * atom, plus a constant. Terms ascend by atom and have no
/// zero coefficient.
struct Index {
  llvm::SmallVector<std::pair<AtomId, int64_t>, 4> terms;
  int64_t constant = 0;

  Index(int64_t constant = 0) : constant(constant) {}
  bool isConstant() const { return terms.empty(); }
  int64_t coefficient(AtomId atom) const;
  bool operator==(const Index &other) const {
    return constant == other.constant && terms == other.terms;
  }
  bool operator!=(const Index &other) const { return !(*this == other); }
  bool operator<(const Index &other) const;
};

using IndexVec = llvm::SmallVector<Index, 4>;

struct Atom {
  enum class Kind { Loop, Quotient, Remainder, Runtime };
  Kind kind;
  int64_t low, high; ///< inclusive
  Index argument;    ///< of a quotient or remainder
  int64_t divisor = 1;
};

class IndexSpace {
public:
  /// A loop variable in [0, size).
  AtomId addLoop(int64_t size);
  /// A value in [low, high] known at run time only.
  AtomId addRuntime(int64_t low, int64_t high);

  const Atom &operator[](AtomId atom) const { return atoms[atom]; }
  /// Narrows a loop variable, for a part of its loop, to [low, high].
  void setRange(AtomId atom, int64_t low, int64_t high) {
    atoms[atom].low = low;
    atoms[atom].high = high;
  }

  Index get(AtomId atom, int64_t coefficient = 1) const;
  Index add(const Index &a, const Index &b) const;
  Index scale(const Index &a, int64_t factor) const;
  /// Floor division and the remainder in [0, divisor).
  std::pair<Index, Index> divide(const Index &a, int64_t divisor);
  /// Smallest and largest value.
  std::pair<int64_t, int64_t> range(const Index &a) const;
  /// Whether the index depends on the atom, through quotients, too.
  bool dependsOn(const Index &a, AtomId atom) const;
  bool dependsOnRuntime(const Index &a) const;
  bool dependsOnAny(const Index &a, llvm::ArrayRef<AtomId> of) const;

  /// Row-major position of an element, and back.
  Index linearize(llvm::ArrayRef<Index> index, llvm::ArrayRef<int64_t> shape);
  IndexVec delinearize(Index flat, llvm::ArrayRef<int64_t> shape);

  size_t size() const { return atoms.size(); }

private:
  AtomId intern(Atom::Kind kind, const Index &argument, int64_t divisor);

  llvm::SmallVector<Atom, 0> atoms;
  std::map<std::pair<Index, std::pair<int64_t, bool>>, AtomId> interned;
};

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_INDEX_H
