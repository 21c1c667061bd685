//===- Reshard.cpp - from one layout to another in few bytes --------------===//
//
// ReshardSearch finds the steps. Two layouts that cut an axis in incompatible
// ways (12 as 3 x 4 and as 4 x 3) have no common atoms: such an axis is first
// gathered, then cut again.
//
//===----------------------------------------------------------------------===//
#include "ReshardSearch.h"

#include "llvm/ADT/STLExtras.h"

#include <unordered_map>

using namespace llvm;
using namespace kerf;
using namespace kerf::dist;

//===----------------------------------------------------------------------===//
// The order of dimensions
//===----------------------------------------------------------------------===//

namespace {

/// A query to the search. Dimensions of equal size are put in one order, since
/// no step depends on which of them comes first; dimensions of one element that
/// neither layout cuts are left out. A tensor of many dimensions has thousands
/// of layouts and millions of pairs, but few different queries.
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

/// `order[k]`: which dimension of the tensor is number k of the query.
using DimOrder = SmallVector<unsigned, 8>;

} // namespace

static DimOrder orderDims(const Layout &from, const Layout &to,
                          ArrayRef<int64_t> shape) {
  DimOrder order;
  for (unsigned dim = 0; dim < shape.size(); ++dim)
    if (shape[dim] != 1 || !from.dims[dim].empty() || !to.dims[dim].empty())
      order.push_back(dim);
  auto compareAxes = [](ArrayRef<AxisRef> a, ArrayRef<AxisRef> b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  };
  llvm::stable_sort(order, [&](unsigned a, unsigned b) {
    if (shape[a] != shape[b])
      return shape[a] < shape[b];
    for (const Layout *layout : {&from, &to}) {
      if (layout->dims[a] != layout->dims[b])
        return compareAxes(layout->dims[a], layout->dims[b]);
      if (layout->block(a) != layout->block(b))
        return layout->block(a) < layout->block(b);
    }
    return false;
  });
  return order;
}

static Layout inOrder(const Layout &layout, const DimOrder &order) {
  Layout result(order.size());
  for (auto [at, dim] : enumerate(order))
    result.dims[at] = layout.dims[dim];
  if (any_of(order, [&](unsigned dim) { return layout.block(dim) != 0; }))
    for (unsigned dim : order)
      result.blocks.push_back(layout.block(dim));
  result.partial = layout.partial;
  result.reduction = layout.reduction;
  return result;
}

/// Maps the dimensions of an answer to those of a tensor of this rank.
static void restoreOrder(Reshard &reshard, const DimOrder &order, size_t rank) {
  for (ReshardStep &step : reshard.steps) {
    for (int64_t *dim : {&step.dim, &step.concatDim})
      if (*dim >= 0)
        *dim = order[*dim];
    Layout layout(rank);
    if (!step.layout.blocks.empty())
      layout.blocks.assign(rank, 0);
    SmallVector<int64_t> localShape(rank, 1);
    for (auto [at, dim] : enumerate(order)) {
      layout.dims[dim] = std::move(step.layout.dims[at]);
      if (!layout.blocks.empty())
        layout.blocks[dim] = step.layout.blocks[at];
      localShape[dim] = step.localShape[at];
    }
    layout.partial = std::move(step.layout.partial);
    layout.reduction = step.layout.reduction;
    step.layout = std::move(layout);
    step.localShape = std::move(localShape);
  }
}

static Query queryOf(const Layout &from, const Layout &to,
                     ArrayRef<int64_t> shape, int64_t elementBytes,
                     const DimOrder &order) {
  Query query{inOrder(from, order), inOrder(to, order), {}, elementBytes};
  for (unsigned dim : order)
    query.shape.push_back(shape[dim]);
  return query;
}

static std::optional<Reshard> answer(const Query &query, const Mesh &mesh) {
  const auto &[from, to, shape, elementBytes] = query;
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
  // No common atoms on this axis: gather it first, cut it again afterwards.
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

std::optional<Reshard> dist::decomposeReshard(const Layout &from,
                                              const Layout &to,
                                              ArrayRef<int64_t> shape,
                                              int64_t elementBytes,
                                              const Mesh &mesh) {
  DimOrder order = orderDims(from, to, shape);
  auto result = answer(queryOf(from, to, shape, elementBytes, order), mesh);
  if (result)
    restoreOrder(*result, order, shape.size());
  return result;
}

//===----------------------------------------------------------------------===//
// ReshardCache
//===----------------------------------------------------------------------===//

struct ReshardCache::Table
    : std::unordered_map<Query, std::optional<Reshard>, QueryHash> {};

ReshardCache::ReshardCache(Mesh mesh)
    : mesh(std::move(mesh)), table(std::make_unique<Table>()) {}
ReshardCache::~ReshardCache() = default;

const Reshard *ReshardCache::find(const Layout &from, const Layout &to,
                                  ArrayRef<int64_t> shape,
                                  int64_t elementBytes) {
  DimOrder order = orderDims(from, to, shape);
  auto [it, added] =
      table->try_emplace(queryOf(from, to, shape, elementBytes, order));
  if (added)
    it->second = answer(it->first, mesh);
  return it->second ? &*it->second : nullptr;
}

std::optional<Reshard> ReshardCache::get(const Layout &from, const Layout &to,
                                         ArrayRef<int64_t> shape,
                                         int64_t elementBytes) {
  const Reshard *found = find(from, to, shape, elementBytes);
  if (!found)
    return std::nullopt;
  Reshard result = *found;
  restoreOrder(result, orderDims(from, to, shape), shape.size());
  return result;
}
