//===- Reshard.cpp - from one layout to another in few bytes --------------===//
//
// The way is found by ReshardSearch. Two layouts that cut an axis in
// incompatible ways (12 as 3 x 4 and as 4 x 3) have no common atoms: such an
// axis is first gathered, then cut again.
//
//===----------------------------------------------------------------------===//
#include "ReshardSearch.h"

#include "llvm/ADT/STLExtras.h"

#include <unordered_map>

using namespace llvm;
using namespace kerf;
using namespace kerf::dist;

StringRef dist::stringifyStepKind(StepKind kind) {
  switch (kind) {
  case StepKind::AllReduce:
    return "all_reduce";
  case StepKind::ReduceScatter:
    return "reduce_scatter";
  case StepKind::AllGather:
    return "all_gather";
  case StepKind::AllSlice:
    return "all_slice";
  case StepKind::AllToAll:
    return "all_to_all";
  case StepKind::Permute:
    return "permute";
  }
  llvm_unreachable("bad StepKind");
}

Wide dist::wideGroupBytes(StepKind kind, Wide n, Wide source, Wide result,
                          Wide splitSource, Wide movedPairs) {
  switch (kind) {
  case StepKind::AllReduce:
    return 2 * (n - 1) * source;
  case StepKind::ReduceScatter:
    return (n - 1) * n * result;
  case StepKind::AllGather:
    return (n - 1) * n * source;
  case StepKind::AllSlice:
    return 0;
  case StepKind::AllToAll:
    return (n - 1) * n * splitSource;
  case StepKind::Permute:
    return source * movedPairs;
  }
  llvm_unreachable("bad StepKind");
}

int64_t dist::groupBytes(StepKind kind, int64_t groupSize, int64_t sourceBytes,
                         int64_t resultBytes, int64_t splitSourceBytes,
                         int64_t movedPairs) {
  return saturate(wideGroupBytes(kind, groupSize, sourceBytes, resultBytes,
                                 splitSourceBytes, movedPairs));
}

std::optional<Reshard> dist::decomposeReshard(const Layout &from,
                                              const Layout &to,
                                              ArrayRef<int64_t> shape,
                                              int64_t elementBytes,
                                              const Mesh &mesh) {
  if (to.isPartial() && from.isPartial() && to.reduction != from.reduction)
    return std::nullopt;
  Reshard result;
  if (from == to)
    return result;
  ReshardSearch search(shape, elementBytes, mesh, from.reduction);
  unsigned conflict = 0;
  if (search.makeAtoms(from, to, conflict)) {
    if (!search.run(from, to, result))
      return std::nullopt;
    return result;
  }
  // No common atoms on this axis: let go of it, then take it up again.
  Layout middle = from;
  auto drop = [&](AxisList &axes) {
    size_t before = axes.size();
    erase_if(axes, [&](const AxisRef &ref) { return ref.axis == conflict; });
    return axes.size() != before;
  };
  for (auto [dim, axes] : enumerate(middle.dims))
    if (drop(axes))
      middle.setBlock(dim, shape[dim], 0);
  drop(middle.partial);
  if (middle == from)
    return std::nullopt;
  auto first = decomposeReshard(from, middle, shape, elementBytes, mesh);
  auto second = decomposeReshard(middle, to, shape, elementBytes, mesh);
  if (!first || !second)
    return std::nullopt;
  first->steps.append(second->steps);
  first->totalBytes = saturate(Wide(first->totalBytes) + second->totalBytes);
  return first;
}

//===----------------------------------------------------------------------===//
// ReshardCache
//===----------------------------------------------------------------------===//

namespace {
struct Query {
  Layout from, to;
  SmallVector<int64_t, 4> shape;
  int64_t elementBytes;
  bool operator==(const Query &other) const {
    return from == other.from && to == other.to && shape == other.shape &&
           elementBytes == other.elementBytes;
  }
};
struct QueryHash {
  size_t operator()(const Query &query) const {
    return hash_combine(
        hash_value(query.from), hash_value(query.to),
        hash_combine_range(query.shape.begin(), query.shape.end()),
        query.elementBytes);
  }
};
} // namespace

struct ReshardCache::Table
    : std::unordered_map<Query, std::optional<Reshard>, QueryHash> {};

ReshardCache::ReshardCache(Mesh mesh)
    : mesh(std::move(mesh)), table(std::make_unique<Table>()) {}
ReshardCache::~ReshardCache() = default;

const Reshard *ReshardCache::get(const Layout &from, const Layout &to,
                                 ArrayRef<int64_t> shape,
                                 int64_t elementBytes) {
  Query query{from, to, SmallVector<int64_t, 4>(shape), elementBytes};
  auto [it, added] = table->try_emplace(std::move(query));
  if (added)
    it->second = decomposeReshard(from, to, shape, elementBytes, mesh);
  return it->second ? &*it->second : nullptr;
}
