//===- Reshard.cpp - from one layout to another in few bytes --------------===//
//
// ReshardSearch finds the steps. Two layouts that cut an axis in incompatible
// ways (12 as 3 x 4 and as 4 x 3) have no common atoms: such an axis is first
// gathered, then cut again.
//
//===----------------------------------------------------------------------===//
#include "ReshardSearch.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;
using namespace kerf;
using namespace kerf::dist;

struct ReshardWays::Table : StringMap<std::optional<ReshardWay>> {};

ReshardWays::ReshardWays() : table(std::make_unique<Table>()) {}
ReshardWays::~ReshardWays() = default;

std::optional<Reshard> ReshardWays::find(const Layout &from, const Layout &to,
                                         ArrayRef<int64_t> shape,
                                         int64_t elementBytes,
                                         const Mesh &mesh) {
  if (to.isPartial() && from.isPartial() && to.reduction != from.reduction)
    return std::nullopt;
  if (from == to)
    return Reshard();
  unsigned conflict = 0;
  if (auto atoms = commonAtoms(from, to, mesh, conflict)) {
    NormalForm form(from, to, shape, mesh, *atoms);
    if (form.fits()) {
      auto [known, isNew] = table->try_emplace(form.query.key());
      if (isNew)
        known->second = ReshardSearch(form.query).run(form.query.from);
      if (!known->second)
        return std::nullopt;
      return form.describe(*known->second, elementBytes);
    }
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
  auto first = find(from, middle, shape, elementBytes, mesh);
  auto second = find(middle, to, shape, elementBytes, mesh);
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
  return ReshardWays().find(from, to, shape, elementBytes, mesh);
}
