//===- Layout.cpp - meshes and shardings as plain data --------------------===//
//
// Arithmetic on Layout.h. Linear in the number of axes, except for the check
// for overlaps, which is quadratic; there are rarely more than four axes.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Layout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace kerf;
using namespace kerf::dist;

static int64_t product(const Mesh &mesh, bool time) {
  int64_t result = 1;
  for (const MeshAxis &axis : mesh.axes)
    if (axis.isTime == time)
      result *= axis.size;
  return result;
}

std::string dist::checkMesh(const Mesh &mesh) {
  StringSet<> seen;
  int64_t points = 1;
  for (const MeshAxis &axis : mesh.axes) {
    if (axis.name.empty())
      return "mesh axis has no name";
    if (!seen.insert(axis.name).second)
      return "mesh axis \"" + axis.name + "\" is named twice";
    if (axis.size < 1)
      return "mesh axis \"" + axis.name + "\" has size " +
             std::to_string(axis.size) + ", expected at least 1";
    if (__builtin_mul_overflow(points, axis.size, &points))
      return "mesh is too large";
  }
  return "";
}

int64_t Mesh::numRanks() const { return product(*this, /*time=*/false); }
int64_t Mesh::numMicroBatches() const { return product(*this, /*time=*/true); }

std::optional<unsigned> Mesh::find(StringRef name) const {
  for (auto [index, axis] : enumerate(axes))
    if (axis.name == name)
      return index;
  return std::nullopt;
}

SmallVector<int64_t, 4> Mesh::coordinates(int64_t rank,
                                          int64_t microBatch) const {
  SmallVector<int64_t, 4> result(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    int64_t &rest = axes[i].isTime ? microBatch : rank;
    result[i] = rest % axes[i].size;
    rest /= axes[i].size;
  }
  return result;
}

AxisRef dist::wholeAxis(const Mesh &mesh, unsigned axis) {
  return {axis, 1, mesh.axes[axis].size};
}

int64_t dist::numShards(ArrayRef<AxisRef> axes) {
  int64_t result = 1;
  for (const AxisRef &ref : axes)
    result *= ref.size;
  return result;
}

int64_t dist::linearIndex(const Mesh &mesh, ArrayRef<AxisRef> axes,
                          ArrayRef<int64_t> coordinates) {
  int64_t result = 0;
  for (const AxisRef &ref : axes) {
    int64_t weight = mesh.axes[ref.axis].size / (ref.preSize * ref.size);
    result = result * ref.size + (coordinates[ref.axis] / weight) % ref.size;
  }
  return result;
}

bool dist::overlap(const AxisRef &a, const AxisRef &b) {
  if (a.axis != b.axis)
    return false;
  const AxisRef &first = a.preSize <= b.preSize ? a : b;
  const AxisRef &second = a.preSize <= b.preSize ? b : a;
  return second.preSize % (first.preSize * first.size) != 0;
}

void dist::mergeAdjacent(AxisList &axes) {
  AxisList merged;
  for (const AxisRef &ref : axes) {
    if (!merged.empty() && merged.back().axis == ref.axis &&
        merged.back().preSize * merged.back().size == ref.preSize)
      merged.back().size *= ref.size;
    else if (ref.size != 1)
      merged.push_back(ref);
  }
  axes = std::move(merged);
}

bool Layout::isReplicated() const {
  return partial.empty() &&
         all_of(dims, [](const AxisList &axes) { return axes.empty(); });
}

SmallVector<int64_t> Layout::localShape(ArrayRef<int64_t> globalShape) const {
  SmallVector<int64_t> shape(globalShape);
  assert(shape.size() == dims.size() && "layout of another rank");
  for (auto [dim, size] : enumerate(shape))
    size = localSize(dim, size);
  return shape;
}

void Layout::setBlock(size_t dim, int64_t size, int64_t block) {
  int64_t shards = numShards(dims[dim]);
  if (shards == 1 || block == dist::localSize(size, shards))
    block = 0;
  if (block && blocks.empty())
    blocks.resize(dims.size(), 0);
  if (blocks.empty())
    return;
  blocks[dim] = block;
  if (all_of(blocks, [](int64_t each) { return each == 0; }))
    blocks.clear();
}

void Layout::canonicalize() {
  for (AxisList &axes : dims)
    mergeAdjacent(axes);
  sort(partial);
  mergeAdjacent(partial);
  if (partial.empty())
    reduction = ReductionKind::Sum;
}

bool Layout::operator==(const Layout &other) const {
  return dims == other.dims && partial == other.partial &&
         blocks == other.blocks &&
         (partial.empty() || reduction == other.reduction);
}

hash_code dist::hash_value(const Layout &layout) {
  hash_code result = llvm::hash_value(layout.dims.size());
  for (const AxisList &axes : layout.dims)
    result = hash_combine(result, axes.size(),
                          hash_combine_range(axes.begin(), axes.end()));
  if (layout.isPartial())
    result = hash_combine(result, static_cast<int>(layout.reduction));
  if (!layout.blocks.empty())
    result = hash_combine(
        result, hash_combine_range(layout.blocks.begin(), layout.blocks.end()));
  return hash_combine(
      result, hash_combine_range(layout.partial.begin(), layout.partial.end()));
}

std::string dist::checkAxes(ArrayRef<AxisRef> axes, const Mesh &mesh) {
  for (auto [index, ref] : enumerate(axes)) {
    if (ref.axis >= mesh.axes.size())
      return "axis number " + std::to_string(ref.axis) + " is not in the mesh";
    const MeshAxis &axis = mesh.axes[ref.axis];
    if (ref.preSize < 1 || ref.size < 1 || axis.size % ref.preSize != 0 ||
        (axis.size / ref.preSize) % ref.size != 0)
      return "sub-axis " + toString(ref, mesh) + " does not divide axis \"" +
             axis.name + "\" of size " + std::to_string(axis.size);
    for (const AxisRef &other : axes.take_front(index))
      if (overlap(ref, other))
        return "axis " + toString(ref, mesh) + " is used twice";
  }
  return "";
}

std::string dist::checkLayout(const Layout &layout, const Mesh &mesh,
                              size_t rank) {
  if (layout.dims.size() != rank)
    return "sharding has " + std::to_string(layout.dims.size()) +
           " dimensions, expected " + std::to_string(rank);
  for (size_t dim = 0; dim < rank; ++dim)
    if (layout.block(dim) && numShards(layout.dims[dim]) == 1)
      return "dimension " + std::to_string(dim) + " has blocks of " +
             std::to_string(layout.block(dim)) + " but is not cut";
  AxisList all;
  for (const AxisList &axes : layout.dims)
    all.append(axes);
  all.append(layout.partial);
  return checkAxes(all, mesh);
}

std::string dist::checkBlocks(const Layout &layout, ArrayRef<int64_t> shape) {
  for (auto [dim, size] : enumerate(shape)) {
    int64_t block = layout.block(dim), shards = numShards(layout.dims[dim]);
    if (block && (block <= localSize(size, shards) || block >= size))
      return "dimension " + std::to_string(dim) + " of " +
             std::to_string(size) + " in " + std::to_string(shards) +
             " parts has blocks of " + std::to_string(block) +
             ", expected more than " + std::to_string(localSize(size, shards)) +
             ", which needs no mention, and less than " + std::to_string(size);
  }
  return "";
}

std::string dist::toString(const AxisRef &ref, const Mesh &mesh) {
  const MeshAxis &axis = mesh.axes[ref.axis];
  if (ref.preSize == 1 && ref.size == axis.size)
    return axis.name;
  return axis.name + ":(" + std::to_string(ref.preSize) + ")" +
         std::to_string(ref.size);
}

std::string dist::toString(ArrayRef<AxisRef> axes, const Mesh &mesh) {
  std::string result = "{";
  for (auto [index, ref] : enumerate(axes))
    result += (index ? ", " : "") + toString(ref, mesh);
  return result + "}";
}

std::string dist::toString(const Layout &layout, const Mesh &mesh) {
  std::string result = "<";
  for (auto [index, axes] : enumerate(layout.dims)) {
    result += (index ? ", " : "") + toString(axes, mesh);
    if (int64_t block = layout.block(index))
      result += ":" + std::to_string(block);
  }
  if (layout.isPartial())
    result += (layout.dims.empty() ? "partial " : ", partial ") +
              stringifyReductionKind(layout.reduction).str() + " " +
              toString(layout.partial, mesh);
  return result + ">";
}
