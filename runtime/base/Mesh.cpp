//===- Mesh.cpp - ranks, coordinates, groups and parts --------------------===//
//
// Plain mixed-radix arithmetic; groups are found by looking at every rank,
// which is O(ranks) per group and done at load only.
//
//===----------------------------------------------------------------------===//
#include "Mesh.h"

#include <algorithm>

using namespace kerf::rt;

int64_t Mesh::numRanks() const {
  int64_t count = 1;
  for (const Axis &axis : axes)
    count = mulChecked(count, axis.size);
  return count;
}

static int64_t axisStride(const Mesh &mesh, int axis) {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < mesh.axes.size(); ++i)
    stride *= mesh.axes[i].size;
  return stride;
}

int64_t Mesh::coordinate(int64_t rank, int axis) const {
  return rank / axisStride(*this, axis) % axes[axis].size;
}

int64_t Mesh::withStage(int64_t rank, int64_t stage) const {
  return rank + (stage - stageOf(rank)) * axisStride(*this, stageAxis);
}

int64_t Mesh::sizeOf(const AxisList &list) {
  int64_t size = 1;
  for (const AxisRef &ref : list)
    size = mulChecked(size, ref.size);
  return size;
}

int64_t Mesh::position(int64_t rank, const AxisList &list,
                       int64_t microBatch) const {
  int64_t index = 0;
  for (const AxisRef &ref : list) {
    int64_t c =
        ref.axis == timeAxisIndex ? microBatch : coordinate(rank, ref.axis);
    index = index * ref.size + c / ref.weight % ref.size;
  }
  return index;
}

std::vector<int64_t> Mesh::group(int64_t rank, const AxisList &list) const {
  // A rank's number without the digits of the list.
  auto residue = [&](int64_t r) {
    int64_t rest = r;
    for (const AxisRef &ref : list)
      rest -= coordinate(r, ref.axis) / ref.weight % ref.size * ref.weight *
              axisStride(*this, ref.axis);
    return rest;
  };
  auto overlap = [] {
    return Error(KERF_BAD_PACKAGE, "axes of a group overlap");
  };
  const int64_t size = sizeOf(list), n = numRanks();
  if (size > n) // before memory for them is allocated
    throw overlap();
  std::vector<int64_t> members(size, -1);
  int64_t found = 0;
  for (int64_t r = 0; r < n; ++r)
    if (residue(r) == residue(rank)) {
      int64_t &member = members[position(r, list)];
      if (member >= 0)
        break;
      member = r;
      ++found;
    }
  if (found != static_cast<int64_t>(members.size()))
    throw overlap();
  return members;
}

Shape kerf::rt::localShape(const Sharding &sharding, const Shape &global) {
  Shape local = global;
  for (size_t d = 0; d < local.size(); ++d)
    local[d] = sharding[d].block
                   ? sharding[d].block
                   : ceilDiv(global[d], Mesh::sizeOf(sharding[d].axes));
  return local;
}

Part kerf::rt::partOf(const Mesh &mesh, const Sharding &sharding,
                      const Shape &global, int64_t rank, int64_t microBatch) {
  Part part;
  Shape local = localShape(sharding, global);
  for (size_t d = 0; d < global.size(); ++d) {
    int64_t index = mesh.position(rank, sharding[d].axes, microBatch);
    int64_t start = std::min(index * local[d], global[d]);
    part.starts.push_back(start);
    part.sizes.push_back(std::min(local[d], global[d] - start));
  }
  return part;
}
