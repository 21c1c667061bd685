//===- Tables.h - shared cost tables by content -----------------*- C++ -*-===//
//
// Solvers work on one number per entry (Model.h combines the levels). Tables
// are interned: equal content gives the same id, so that work on equal inputs,
// such as the layers of a transformer, is found by comparing a few integers.
//
// Sums of allowed entries stay below a quarter of infinity() in magnitude, and
// 64 infinities add without overflow; `addCosts` keeps sums at infinity.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_SOLVER_TABLES_H
#define KERF_LIB_PLAN_SOLVER_TABLES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/xxhash.h"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace kerf::plan {

/// "Not allowed": 2^56 or 2^120.
template <typename V> constexpr V infinity() {
  return static_cast<V>(1) << (sizeof(V) * 8 - 8);
}
/// Sums with an allowed cost, also a negative one, stay below half of
/// infinity(); sums with a blocked one stay above.
template <typename V> bool blocked(V value) {
  return value >= infinity<V>() / 2;
}
template <typename V> V clampBlocked(V value) {
  return blocked(value) ? infinity<V>() : value;
}
template <typename V> V addCosts(V a, V b) { return clampBlocked<V>(a + b); }

/// Row-major, last dimension fastest.
template <typename V> struct Table {
  llvm::SmallVector<uint32_t, 4> dims;
  std::vector<V> values;
};

using TableId = uint32_t;

template <typename V> class TableStore {
public:
  const Table<V> &operator[](TableId id) const { return *tables[id]; }
  size_t size() const { return tables.size(); }

  TableId intern(Table<V> table) {
    uint64_t hash = hashOf(table);
    auto [begin, end] = byHash.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      const Table<V> &other = *tables[it->second];
      if (other.dims == table.dims && other.values == table.values)
        return it->second;
    }
    TableId id = tables.size();
    byHash.emplace(hash, id);
    hashes.push_back(hash);
    tables.push_back(std::make_shared<const Table<V>>(std::move(table)));
    return id;
  }

  /// Forgets the tables with ids >= `size`.
  void truncate(size_t size) {
    while (tables.size() > size) {
      auto [begin, end] = byHash.equal_range(hashes.back());
      for (auto it = begin; it != end; ++it)
        if (it->second == tables.size() - 1) {
          byHash.erase(it);
          break;
        }
      hashes.pop_back();
      tables.pop_back();
    }
  }

private:
  static uint64_t hashOf(const Table<V> &table) {
    auto bytes = [](const void *data, size_t size) {
      return llvm::xxh3_64bits(
          llvm::ArrayRef(static_cast<const uint8_t *>(data), size));
    };
    uint64_t dims =
        bytes(table.dims.data(), table.dims.size() * sizeof(uint32_t));
    return dims * 0x9E3779B97F4A7C15ull ^
           bytes(table.values.data(), table.values.size() * sizeof(V));
  }

  /// Shared by copies of a store.
  std::vector<std::shared_ptr<const Table<V>>> tables;
  std::vector<uint64_t> hashes;
  std::unordered_multimap<uint64_t, TableId> byHash;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_SOLVER_TABLES_H
