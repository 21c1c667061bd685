//===- ReshardState.h - a layout as lists of atoms --------------*- C++ -*-===//
//
// The nodes of ReshardSearch, see there for what an atom is. Searches make
// millions of them: all lists of atoms lie in one piece of memory.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_RESHARDSTATE_H
#define KERF_DIST_RESHARDSTATE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace kerf::dist {

using Wide = __int128;

/// Numbers of at most 32 atoms.
using AtomList = llvm::SmallVector<uint8_t, 4>;

class ReshardState {
public:
  uint32_t partial = 0;
  /// Atoms that cut dimensions.
  uint32_t used = 0;
  /// As in a layout: empty where every dimension lies in blocks of ceiling
  /// size.
  llvm::SmallVector<int64_t, 4> blocks;

  size_t rank() const { return ends.size(); }
  /// The atoms that cut a dimension, major to minor.
  llvm::ArrayRef<uint8_t> dim(size_t number) const {
    return llvm::ArrayRef(atoms).slice(begin(number),
                                       ends[number] - begin(number));
  }
  llvm::MutableArrayRef<uint8_t> dim(size_t number) {
    return llvm::MutableArrayRef(atoms).slice(begin(number),
                                              ends[number] - begin(number));
  }
  int64_t block(size_t dim) const { return blocks.empty() ? 0 : blocks[dim]; }

  void addDim(llvm::ArrayRef<uint8_t> list) {
    atoms.append(list.begin(), list.end());
    ends.push_back(atoms.size());
  }
  /// `list` must not lie in this state.
  void append(size_t dim, llvm::ArrayRef<uint8_t> list) {
    atoms.insert(atoms.begin() + ends[dim], list.begin(), list.end());
    for (size_t later = dim; later < ends.size(); ++later)
      ends[later] += list.size();
  }
  void truncate(size_t dim, size_t size) {
    size_t first = begin(dim) + size, removed = ends[dim] - first;
    atoms.erase(atoms.begin() + first, atoms.begin() + ends[dim]);
    for (size_t later = dim; later < ends.size(); ++later)
      ends[later] -= removed;
  }

  /// Equal for equal states; raw bytes, for hashing.
  llvm::SmallString<64> key() const {
    llvm::SmallString<64> result;
    auto append = [&](const void *bytes, size_t size) {
      result += llvm::StringRef(static_cast<const char *>(bytes), size);
    };
    append(ends.data(), ends.size());
    append(atoms.data(), atoms.size());
    append(&partial, sizeof(partial));
    append(blocks.data(), blocks.size() * sizeof(int64_t));
    return result;
  }

private:
  size_t begin(size_t dim) const { return dim ? ends[dim - 1] : 0; }

  llvm::SmallVector<uint8_t, 16> atoms; ///< of all dimensions in order
  llvm::SmallVector<uint8_t, 8> ends;   ///< of each dimension in `atoms`
};

} // namespace kerf::dist

#endif // KERF_DIST_RESHARDSTATE_H
