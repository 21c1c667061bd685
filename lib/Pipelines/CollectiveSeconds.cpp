//===- CollectiveSeconds.cpp - predicted times of collectives -------------===//
#include "CollectiveSeconds.h"

#include "kerf/Cost/Buckets.h"
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

/// The ranks of a collective or of a transfer; none if they are not known.
static std::optional<cost::GroupPlacement>
placementOf(const CollectiveRecord &record, const dist::Mesh &mesh,
            const cost::Machine &machine) {
  SmallVector<int64_t> strides, sizes;
  for (const std::string &axis : record.axes) {
    int64_t stride = 1, size = 1;
    if (!readAxis(axis, mesh, stride, size))
      return std::nullopt;
    strides.push_back(stride);
    sizes.push_back(size);
  }
  if (!record.kind)
    return cost::placePair(machine, mesh.numRanks(),
                           strides.empty() ? 1 : strides[0]);
  return cost::placeStrided(machine, mesh.numRanks(), strides, sizes);
}

void kerf::addSeconds(CommunicationReport &report, ModuleOp module,
                      const cost::Machine &machine) {
  dist::MeshAttr attribute = dist::getMesh(module);
  if (!attribute)
    return;
  dist::Mesh mesh = attribute.toMesh();
  for (CollectiveRecord &record : report.collectives) {
    auto group = placementOf(record, mesh, machine);
    if (!group)
      continue;
    record.seconds =
        record.kind ? cost::collectiveSeconds(machine, *record.kind,
                                              record.bufferBytes, *group)
                    : cost::sendSeconds(machine, record.bufferBytes, *group);
  }
}

CollectivesOptions kerf::collectivesOptions(ModuleOp module,
                                            const cost::Machine &machine) {
  CollectivesOptions options;
  FailureOr<CommunicationReport> report = accountCommunication(module);
  dist::MeshAttr attribute = dist::getMesh(module);
  if (failed(report) || !attribute)
    return options;
  bool sumsGradients =
      llvm::any_of(report->collectives, [](const CollectiveRecord &record) {
        return record.kind && record.purpose == "gradient";
      });
  if (!sumsGradients)
    return options;
  dist::Mesh mesh = attribute.toMesh();
  int64_t numStages = 1;
  if (std::optional<unsigned> axis = mesh.find(dist::kStageAxis))
    numStages = mesh.axes[*axis].size;
  cost::BucketRule rule =
      cost::bucketRule(machine, mesh.numRanks(), mesh.numRanks() / numStages);
  options.gradientBytes = rule.gradientBytes;
  options.packedBytes = rule.packedBytes;
  return options;
}
