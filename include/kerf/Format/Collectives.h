//===- Collectives.h - the collectives by name ------------------*- C++ -*-===//
//
// The one enum of collectives, and the properties of each that do not depend on
// an op: Collectives.def has the entries. Includes only the C++ library, since
// the runtime includes this file.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FORMAT_COLLECTIVES_H
#define KERF_FORMAT_COLLECTIVES_H

#include <cstddef>
#include <optional>
#include <string_view>

namespace kerf {

enum class CollectiveKind {
#define KERF_COLLECTIVE(KIND, NAME, PROPERTIES) KIND,
#include "kerf/Format/Collectives.def"
};

namespace detail {
/// A member contributes the operand and receives the result. The properties say
/// which attributes the collective has (in brackets), which shapes fit, and
/// what an element of the result is: that of the operand of member `m` at an
/// index.
enum CollectiveProperty : unsigned {
  /// The sum (or max, ...) over all members. [reduction]
  Reduces = 1,
  /// A member's result is its part along a dimension: its index counts from
  /// where its part begins.
  Cuts = 2,
  /// A member's operand is its part along a dimension: m owns the index.
  Joins = 4,
  /// m is one position for all. [root]
  Root = 8,
  /// m is given for each position; a position without one receives zeros.
  /// [pairs]
  Pairs = 16,
  /// Operand and result may be one buffer.
  InPlace = 32
};

struct CollectiveEntry {
  std::string_view name;
  unsigned properties;
};
inline constexpr CollectiveEntry collectiveEntries[] = {
#define KERF_COLLECTIVE(KIND, NAME, PROPERTIES) {#NAME, PROPERTIES},
#include "kerf/Format/Collectives.def"
};
inline constexpr bool has(CollectiveKind kind, unsigned property) {
  return (collectiveEntries[static_cast<size_t>(kind)].properties & property) !=
         0;
}
} // namespace detail

/// "all_reduce", ...: the name of the op of `dist`, in packages and in plans.
inline constexpr std::string_view collectiveName(CollectiveKind kind) {
  return detail::collectiveEntries[static_cast<size_t>(kind)].name;
}
inline constexpr std::optional<CollectiveKind>
parseCollectiveKind(std::string_view name) {
  for (size_t i = 0; i < std::size(detail::collectiveEntries); ++i)
    if (detail::collectiveEntries[i].name == name)
      return static_cast<CollectiveKind>(i);
  return std::nullopt;
}

inline constexpr bool reduces(CollectiveKind kind) {
  return detail::has(kind, detail::Reduces);
}
inline constexpr bool cuts(CollectiveKind kind) {
  return detail::has(kind, detail::Cuts);
}
inline constexpr bool joins(CollectiveKind kind) {
  return detail::has(kind, detail::Joins);
}
inline constexpr bool hasRoot(CollectiveKind kind) {
  return detail::has(kind, detail::Root);
}
inline constexpr bool hasPairs(CollectiveKind kind) {
  return detail::has(kind, detail::Pairs);
}
inline constexpr bool mayBeInPlace(CollectiveKind kind) {
  return detail::has(kind, detail::InPlace);
}
/// A collective that cuts one dimension and joins another names both, as
/// `split` and `concat`; one that does only one of them names `dim`.
inline constexpr bool hasTwoDims(CollectiveKind kind) {
  return cuts(kind) && joins(kind);
}
inline constexpr bool hasOneDim(CollectiveKind kind) {
  return cuts(kind) != joins(kind);
}
/// Whether members send different amounts; the busiest sends all that it holds.
inline constexpr bool isUneven(CollectiveKind kind) {
  return hasRoot(kind) || hasPairs(kind);
}

} // namespace kerf

#endif // KERF_FORMAT_COLLECTIVES_H
