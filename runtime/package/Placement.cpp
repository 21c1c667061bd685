//===- Placement.cpp - where tensors lie, and what moves them -------------===//
#include "Placement.h"

#include "kerf/rt/program.h"

using namespace kerf::rt;

namespace {
constexpr int64_t maxRanks = 4096;
constexpr int64_t maxDims = 12;
// No number of ranks has more factors than this.
constexpr size_t maxAxes = 64;

Mesh::Axis parseMeshAxis(const JsonReader &in) {
  return {in["name"].string(), in["size"].integer(1, 1 << 20)};
}

AxisRef parseAxisRef(const JsonReader &in, const Mesh &mesh, bool allowTime) {
  std::string name = in["axis"].string();
  AxisRef ref;
  int64_t full = 0;
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].name == name) {
      ref.axis = static_cast<int>(i);
      full = mesh.axes[i].size;
    }
  if (mesh.hasTimeAxis && mesh.timeAxis.name == name) {
    if (!allowTime)
      in.fail("the time axis \"" + name + "\" cannot stand here");
    ref.axis = Mesh::timeAxisIndex;
    full = mesh.timeAxis.size;
  }
  if (full == 0)
    in.fail("\"" + name + "\" is not an axis of the mesh");
  int64_t preSize = in.integerOr("pre_size", 1, full, 1);
  ref.size = in.integerOr("size", 1, full, full / preSize);
  if (full % (preSize * ref.size) != 0)
    in.fail(cat("sub-axis (", preSize, ")", ref.size,
                " does not divide axis \"", name, "\" of size ", full));
  ref.weight = full / (preSize * ref.size);
  return ref;
}

// Blocks of a dimension, where they are larger than ceil(size / n).
int64_t parseBlock(const JsonReader &in, const AxisList &axes, int64_t size) {
  int64_t block = in.size64(), min = ceilDiv(size, Mesh::sizeOf(axes));
  if (block == 0)
    return 0;
  for (const AxisRef &ref : axes)
    if (ref.axis == Mesh::timeAxisIndex)
      in.fail("the dimension is cut in time");
  if (block <= min || block >= size)
    in.fail(cat("is ", block, ", expected more than ", min, " and less than ",
                size, ", or 0"));
  return block;
}
} // namespace

Shape kerf::rt::parseShape(const JsonReader &in, kerf_dtype_t dtype) {
  Shape shape = in.shape();
  if (static_cast<int64_t>(shape.size()) > maxDims)
    in.fail(cat("has ", shape.size(), " dimensions, at most ", maxDims));
  in.located([&] { return numBytes(shape, dtype); });
  return shape;
}

Mesh kerf::rt::parseMesh(const JsonReader &in) {
  Mesh mesh;
  mesh.axes = in.list<Mesh::Axis>("axes", parseMeshAxis);
  if (mesh.axes.size() > maxAxes)
    in.fail(cat("has ", mesh.axes.size(), " axes, at most ", maxAxes));
  if (in.has("time_axis")) {
    mesh.hasTimeAxis = true;
    mesh.timeAxis = parseMeshAxis(in["time_axis"]);
  }
  std::string stage = in.stringOr("stage_axis", "");
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const std::string &name = mesh.axes[i].name;
    for (size_t j = 0; j < i; ++j)
      if (mesh.axes[j].name == name)
        in.fail("axis \"" + name + "\" is there twice");
    if (mesh.hasTimeAxis && mesh.timeAxis.name == name)
      in.fail("time axis \"" + name + "\" is also a mesh axis");
    if (name == stage)
      mesh.stageAxis = static_cast<int>(i);
  }
  if (!stage.empty() && mesh.stageAxis < 0)
    in.fail("stage axis \"" + stage + "\" is not an axis of the mesh");
  if (in.located([&] { return mesh.numRanks(); }) > maxRanks)
    in.fail(cat("has more than ", maxRanks, " ranks"));
  return mesh;
}

AxisList kerf::rt::parseAxes(const JsonReader &in, const Mesh &mesh,
                             bool allowTime) {
  AxisList list;
  if (in.size() > maxAxes)
    in.fail(cat("has ", in.size(), " axes, at most ", maxAxes));
  for (size_t i = 0, n = in.size(); i < n; ++i)
    list.push_back(parseAxisRef(in[i], mesh, allowTime));
  AxisList spatial;
  for (const AxisRef &ref : list)
    if (ref.axis != Mesh::timeAxisIndex)
      spatial.push_back(ref);
  in.located([&] { return mesh.group(0, spatial); });
  return list;
}

Sharding kerf::rt::parseSharding(const JsonReader &in, const Mesh &mesh,
                                 const Shape &global, bool allowTime) {
  JsonReader dims = in["sharding"];
  size_t rank = global.size();
  if (dims.size() != rank)
    dims.fail(cat("has ", dims.size(), " dimensions, the tensor has ", rank));
  Sharding sharding;
  AxisList all;
  for (size_t d = 0; d < rank; ++d) {
    sharding.push_back({parseAxes(dims[d], mesh, allowTime)});
    for (const AxisRef &ref : sharding.back().axes)
      if (ref.axis != Mesh::timeAxisIndex)
        all.push_back(ref);
  }
  dims.located([&] { return mesh.group(0, all); });
  if (in.has("blocks")) {
    JsonReader blocks = in["blocks"];
    if (blocks.size() != rank)
      blocks.fail(
          cat("has ", blocks.size(), " dimensions, the tensor has ", rank));
    for (size_t d = 0; d < rank; ++d)
      sharding[d].block = parseBlock(blocks[d], sharding[d].axes, global[d]);
  }
  return sharding;
}

CollectiveDesc kerf::rt::parseCollective(const JsonReader &in,
                                         const Mesh &mesh) {
  CollectiveDesc c;
  if (auto kind = kerf::parseCollectiveKind(in["kind"].string()))
    c.kind = *kind;
  else
    in["kind"].fail("unknown collective \"" + in["kind"].string() + "\"");
  c.dtype = in["dtype"].dtype();
  c.axes = parseAxes(in["axes"], mesh, /*allowTime=*/false);
  c.srcShape = parseShape(in["src_shape"], c.dtype);
  c.dstShape = parseShape(in["dst_shape"], c.dtype);
  if (c.reduces() && !parseReduction(in["reduction"].string(), c.reduction))
    in["reduction"].fail("unknown reduction \"" + in["reduction"].string() +
                         "\"");
  if (hasOneDim(c.kind))
    c.dim = in["dim"].integer(0, maxDims);
  if (hasTwoDims(c.kind)) {
    c.dim = in["split_dim"].integer(0, maxDims);
    c.concatDim = in["concat_dim"].integer(0, maxDims);
    c.concatPart = in.integerOr("concat_part", 0, JsonReader::maxInteger, 0);
  }
  c.part = in.integerOr("part", 0, JsonReader::maxInteger, 0);
  if (hasRoot(c.kind))
    c.root = in["root"].integer(0, maxRanks);
  if (hasPairs(c.kind))
    c.pairs =
        in.list<std::pair<int64_t, int64_t>>("pairs", [](const JsonReader &p) {
          if (p.size() != 2)
            p.fail("expected [from, to]");
          return std::make_pair(p[size_t(0)].integer(0, maxRanks),
                                p[size_t(1)].integer(0, maxRanks));
        });
  c.plannedGroupBytes = in["group_bytes"].size64();
  c.tensor = in.stringOr("tensor", "");
  c.node = in.stringOr("node", "");
  c.purpose = in.stringOr("purpose", "activation");
  c.phase = in.stringOr("phase", "forward");
  in.located([&] { checkCollective(c, Mesh::sizeOf(c.axes)); });
  return c;
}

ChannelDesc kerf::rt::parseChannel(const JsonReader &in, const Mesh &mesh) {
  ChannelDesc c;
  c.fromStage = in["from_stage"].integer(0, mesh.numStages() - 1);
  c.toStage = in["to_stage"].integer(0, mesh.numStages() - 1);
  if (c.fromStage == c.toStage)
    in.fail("joins a stage with itself");
  c.dtype = in["dtype"].dtype();
  c.shape = parseShape(in["shape"], c.dtype);
  c.plannedBytes = in["bytes"].size64();
  c.tensor = in.stringOr("tensor", "");
  c.node = in.stringOr("node", "");
  c.purpose = in.stringOr("purpose", "activation");
  c.phase = in.stringOr("phase", "forward");
  return c;
}
