//===- Layout.cpp - meshes and shardings as plain data --------------------===//
//
// Arithmetic on Layout.h. All of it is linear in the number of axes but the
// check for overlaps, which is quadratic; there are rarely more than four.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Layout.h"

#include "llvm/ADT/STLExtras.h"

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
  for (auto [size, axes] : zip_equal(shape, dims))
    size = localSize(size, numShards(axes));
  return shape;
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
         (partial.empty() || reduction == other.reduction);
}

hash_code dist::hash_value(const Layout &layout) {
  hash_code result = llvm::hash_value(layout.dims.size());
  for (const AxisList &axes : layout.dims)
    result = hash_combine(result, axes.size(),
                          hash_combine_range(axes.begin(), axes.end()));
  if (layout.isPartial())
    result = hash_combine(result, static_cast<int>(layout.reduction));
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
  AxisList all;
  for (const AxisList &axes : layout.dims)
    all.append(axes);
  all.append(layout.partial);
  return checkAxes(all, mesh);
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
  for (auto [index, axes] : enumerate(layout.dims))
    result += (index ? ", " : "") + toString(axes, mesh);
  if (layout.isPartial())
    result += (layout.dims.empty() ? "partial " : ", partial ") +
              stringifyReductionKind(layout.reduction).str() + " " +
              toString(layout.partial, mesh);
  return result + ">";
}
