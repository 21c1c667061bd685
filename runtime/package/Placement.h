//===- Placement.h - where tensors lie, and what moves them -----*- C++ -*-===//
//
// The entries that a package and the description of a program that another
// compiler has lowered (ranks/Program.h) have in common: the mesh, how tensors
// are cut, collectives and channels. Each function parses and checks one entry,
// and throws KERF_BAD_PACKAGE naming it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_PACKAGE_PLACEMENT_H
#define KERF_RUNTIME_PACKAGE_PLACEMENT_H

#include "../comm/Comm.h"
#include "JsonReader.h"

namespace kerf::rt {

Shape parseShape(const JsonReader &in, kerf_dtype_t dtype);
Mesh parseMesh(const JsonReader &in);
/// `allowTime`: the axis of micro-batches may be among them.
AxisList parseAxes(const JsonReader &in, const Mesh &mesh, bool allowTime);
/// `in` has "sharding" and perhaps "blocks".
Sharding parseSharding(const JsonReader &in, const Mesh &mesh,
                       const Shape &global, bool allowTime);
CollectiveDesc parseCollective(const JsonReader &in, const Mesh &mesh);
ChannelDesc parseChannel(const JsonReader &in, const Mesh &mesh);

/// global_shape, sharding, blocks and local_shape, which follows from them.
template <typename T>
void parsePlacement(const JsonReader &in, const Mesh &mesh, bool allowTime,
                    T &out) {
  out.dtype = in["dtype"].dtype();
  out.globalShape = parseShape(in["global_shape"], out.dtype);
  out.sharding = parseSharding(in, mesh, out.globalShape, allowTime);
  out.localShape =
      in.located([&] { return localShape(out.sharding, out.globalShape); });
  if (in.has("local_shape") && in["local_shape"].shape() != out.localShape)
    in["local_shape"].fail(cat("is ", shapeString(in["local_shape"].shape()),
                               ", the sharding gives ",
                               shapeString(out.localShape)));
}

} // namespace kerf::rt

#endif // KERF_RUNTIME_PACKAGE_PLACEMENT_H
