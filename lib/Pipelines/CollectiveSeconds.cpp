//===- CollectiveSeconds.cpp - predicted time of what is sent -------------===//
#include "CollectiveSeconds.h"

#include "kerf/Cost/Time.h"
#include "kerf/Dist/Dist.h"

using namespace mlir;
using namespace kerf;

/// "tp" or "x:(1)2" as stride and size among the ranks of the mesh.
static bool readAxis(StringRef text, const dist::Mesh &mesh, int64_t &stride,
                     int64_t &size) {
  auto [name, digits] = text.split(':');
  name = name.trim('"');
  std::optional<unsigned> axis = mesh.find(name);
  if (!axis)
    return false;
  int64_t pre = 1;
  size = mesh.axes[*axis].size;
  if (!digits.empty() &&
      (!digits.consume_front("(") || digits.consumeInteger(10, pre) ||
       !digits.consume_front(")") || digits.consumeInteger(10, size)))
    return false;
  stride = mesh.axes[*axis].size / (pre * size);
  for (size_t inner = *axis + 1; inner < mesh.axes.size(); ++inner)
    if (!mesh.axes[inner].isTime)
      stride *= mesh.axes[inner].size;
  return true;
}

void kerf::addSeconds(CommunicationReport &report, ModuleOp module,
                      const cost::Machine &machine) {
  auto meshes = module.getOps<dist::MeshOp>();
  if (meshes.empty())
    return;
  dist::Mesh mesh = (*meshes.begin()).getMesh().toMesh();
  for (CollectiveRecord &record : report.collectives) {
    std::optional<cost::Collective> kind = cost::parseCollective(record.op);
    SmallVector<int64_t> strides, sizes;
    bool known = kind.has_value();
    for (const std::string &axis : record.axes) {
      int64_t stride = 1, size = 1;
      known &= readAxis(axis, mesh, stride, size);
      strides.push_back(stride);
      sizes.push_back(size);
    }
    if (!known)
      continue;
    cost::GroupPlacement group =
        *kind == cost::Collective::Send
            ? cost::placePair(machine, mesh.numRanks(),
                              strides.empty() ? 1 : strides[0])
            : cost::placeStrided(machine, mesh.numRanks(), strides, sizes);
    record.seconds =
        cost::collectiveSeconds(machine, *kind, record.bufferBytes, group);
  }
}
