//===- ReshardCosts.cpp - costs of moving values --------------------------===//
#include "ReshardCosts.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

int64_t kerf::plan::byteScaleOf(func::FuncOp function,
                                const MeshCandidate &candidate) {
  int64_t common = 0;
  auto visit = [&](Value value) {
    if (canBeCut(value.getType()) &&
        !getElementTypeOrSelf(value).isInteger(1)) // never summed
      common = std::gcd(common, elementBytes(tensorType(value)));
  };
  llvm::for_each(function.getArguments(), visit);
  for (Operation &op : function.getBody().front())
    llvm::for_each(op.getResults(), visit);
  int64_t devices = candidate.devicesPerStage();
  return devices / std::gcd(devices, 2 * std::max<int64_t>(common, 1));
}

cost::GroupPlacement
ReshardCosts::place(llvm::ArrayRef<dist::AxisRef> axes) const {
  SmallVector<int64_t> strides, sizes;
  for (const dist::AxisRef &ref : axes) {
    int64_t stride = 1;
    for (size_t inner = ref.axis + 1; inner < candidate.mesh.axes.size();
         ++inner)
      if (!candidate.mesh.axes[inner].isTime)
        stride *= candidate.mesh.axes[inner].size;
    int64_t axisSize = candidate.mesh.axes[ref.axis].size;
    strides.push_back(stride * (axisSize / (ref.preSize * ref.size)));
    sizes.push_back(ref.size);
  }
  return cost::placeStrided(machine, candidate.mesh.numRanks(), strides, sizes);
}

double ReshardCosts::secondsOf(const dist::ReshardStep &step, bool isGradient) {
  cost::GroupPlacement group = place(step.axes);
  if (!isGradient || !buckets.joins(*step.kind, step.bufferBytes))
    return cost::collectiveSeconds(machine, *step.kind, step.bufferBytes,
                                   group);
  auto [rate, isNew] = bucketRates.try_emplace(
      {group.size, group.ranksPerNode, group.numNodes, group.groupsPerNode}, 0);
  if (isNew)
    rate->second = cost::bucketSecondsPerByte(machine, buckets, group);
  return static_cast<double>(step.bufferBytes) * rate->second;
}

MoveCost ReshardCosts::compute(LayoutId from, LayoutId to,
                               RankedTensorType type, bool isGradient) {
  MoveCost result;
  countWork(effort, WorkPiece::Move);
  std::optional<dist::Reshard> reshard =
      ways.find(layouts[from], layouts[to], type.getShape(), elementBytes(type),
                candidate.mesh);
  if (!reshard)
    return result;
  result.possible = true;
  cost::Int128 perRank = 0, total = 0;
  for (const dist::ReshardStep &step : reshard->steps) {
    int64_t localBytes = elementBytes(type);
    for (int64_t size : step.localShape)
      localBytes *= size;
    if (step.isLocal()) {
      result.localSeconds += cost::computeSeconds(
          machine, cost::ComputeClass::Elementwise, 0, 2 * localBytes);
      continue;
    }
    CollectiveKind kind = *step.kind;
    result.seconds += secondsOf(step, isGradient);
    cost::Int128 group = step.groupBytes;
    if (model != cost::VolumeModel::Ring)
      group =
          cost::collectiveVolume(model, kind, step.bufferBytes, step.groupSize)
              .totalBytes;
    // Members of an uneven collective (with a root, or pairs) send different
    // amounts: the busiest one sends all that it holds.
    perRank += isUneven(kind)
                   ? cost::Int128(group > 0 ? localBytes : 0) * byteScale
                   : cost::ceilDivide(group * byteScale, step.groupSize);
    total += group * (candidate.devicesPerStage() / step.groupSize);
  }
  result.scaledBytes = cost::saturate(perRank);
  result.totalBytes = cost::saturate(total);
  return result;
}

const MoveCost &ReshardCosts::get(LayoutId from, LayoutId to,
                                  RankedTensorType type, bool isGradient) {
  auto [it, isNew] = costs.try_emplace(
      {from, to, type.getAsOpaquePointer(), isGradient}, MoveCost());
  if (isNew && !(ends && ends()))
    it->second = compute(from, to, type, isGradient);
  return it->second;
}
