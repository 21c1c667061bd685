//===- Accounting.cpp - the bytes of a partitioned program ----------------===//
//
// All ranks of a stage run the same functions, so a rank's bytes are those of
// its stage, and the busiest stage has the busiest rank. A record counts for a
// rank ceil(group total / N); if members send different amounts, and for a
// send, all that a rank holds.
//
//===----------------------------------------------------------------------===//
#include "kerf/Collectives/Accounting.h"

#include "kerf/Cost/Volume.h"
#include "kerf/Dist/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

std::string kerf::nodeName(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location inner : fused.getLocations())
      if (std::string name = nodeName(inner); !name.empty())
        return name;
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return nodeName(call.getCallee());
  return "";
}

namespace {

class Accountant {
public:
  explicit Accountant(ModuleOp module) : module(module) {}

  FailureOr<CommunicationReport> run() {
    MeshAttr attribute = getMesh(module);
    if (!attribute)
      return report;
    mesh = attribute.toMesh();
    if (auto axis = mesh.find(kStageAxis))
      numStages = mesh.axes[*axis].size;
    ranksPerStage = mesh.numRanks() / numStages;
    for (auto schedule : module.getOps<ScheduleOp>()) {
      schedule.walk([&](RunOp run) { ++runs[run.getCallee()]; });
      schedule.walk([&](SendOp send) { ++sends[send.getChannel()]; });
    }
    for (auto function : module.getOps<func::FuncOp>())
      if (failed(account(function)))
        return failure();
    for (auto channel : module.getOps<ChannelOp>())
      account(channel);
    sum();
    return std::move(report);
  }

private:
  LogicalResult account(func::FuncOp function) {
    PartAttr part = getPart(function);
    // Without schedules yet, each function runs once per micro-batch.
    auto counted = runs.find(function.getName());
    int64_t count = counted != runs.end() ? counted->second
                    : runs.empty()        ? mesh.numMicroBatches()
                                          : 0;
    auto result = function.walk([&](CollectiveOpInterface op) -> WalkResult {
      auto axes = toAxisList(op.getGroup(), mesh);
      if (!axes)
        return op->emitError() << llvm::toString(axes.takeError());
      CollectiveRecord record;
      record.groupSize = numShards(*axes);
      if (record.groupSize == 1 || count == 0)
        return success();
      record.kind = op.getKind();
      if (auto pack = op->getOperand(0).getDefiningOp<PackOp>())
        record.numTensors = static_cast<int64_t>(pack->getNumOperands());
      record.node = record.tensor = nodeName(op.getLoc());
      for (const AxisRef &ref : *axes)
        record.axes.push_back(dist::toString(ref, mesh));
      record.stage = part ? part.getStage() : 0;
      record.numGroups = ranksPerStage / record.groupSize;
      record.bufferBytes = op.getBufferBytes(record.groupSize);
      record.groupBytes = op.getGroupBytes(record.groupSize);
      record.bytesPerRank =
          isUneven(op.getKind())
              ? (record.groupBytes ? sizeBytes(op.getSourceType()) : 0)
              : cost::saturate(
                    cost::ceilDivide(record.groupBytes, record.groupSize));
      record.count = count;
      record.purpose = stringifyPurpose(op.getPurposeOrDefault()).str();
      // In a function of several phases ops have a phase of their own.
      if (std::optional<Phase> phase = op.getOwnPhase())
        record.phase = phaseName(*phase);
      else if (part)
        record.phase = phaseName(part.getPhase());
      report.collectives.push_back(std::move(record));
      return success();
    });
    return failure(result.wasInterrupted());
  }

  void account(ChannelOp channel) {
    CollectiveRecord record;
    record.node = record.tensor = nodeName(channel.getLoc());
    record.axes = {kStageAxis.str()};
    record.stage = channel.getFrom();
    record.groupSize = 2;
    record.numGroups = ranksPerStage;
    record.bufferBytes = record.groupBytes = record.bytesPerRank =
        sizeBytes(cast<RankedTensorType>(channel.getType()));
    if (auto purpose = channel.getPurpose())
      record.purpose = stringifyPurpose(*purpose).str();
    if (auto phase = channel.getPhase())
      record.phase = phaseName(*phase);
    record.count =
        sends.empty() ? mesh.numMicroBatches() : sends[channel.getNumber()];
    report.collectives.push_back(std::move(record));
  }

  static std::string phaseName(Phase phase) {
    switch (phase) {
    case Phase::Forward:
      return "forward";
    case Phase::BackwardInput:
    case Phase::BackwardWeight:
      return "backward";
    case Phase::Update:
      return "update";
    case Phase::Prologue:
      return "prologue";
    }
    llvm_unreachable("bad Phase");
  }

  void sum() {
    // Shares are exact in 1/ranksPerStage of a byte and rounded up once, so the
    // sum does not depend on which collectives share a buffer.
    auto shareOf = [&](const CollectiveRecord &record) {
      bool whole = !record.kind || isUneven(*record.kind);
      cost::Int128 each =
          whole ? cost::Int128(record.bytesPerRank) * ranksPerStage
                : cost::Int128(record.groupBytes) *
                      (ranksPerStage / record.groupSize);
      return each * record.count;
    };
    auto roundUp = [&](cost::Int128 share) {
      return cost::saturate(cost::ceilDivide(share, ranksPerStage));
    };
    std::vector<cost::Int128> perStage(numStages, 0);
    cost::Int128 total = 0;
    for (const CollectiveRecord &record : report.collectives) {
      perStage[record.stage] += shareOf(record);
      total +=
          cost::Int128(record.groupBytes) * record.numGroups * record.count;
    }
    auto busiest = std::max_element(perStage.begin(), perStage.end());
    report.bytesPerRank = roundUp(*busiest);
    report.totalBytes = cost::saturate(total);
    std::map<std::string, cost::Int128> byAxis, byPurpose;
    for (const CollectiveRecord &record : report.collectives) {
      if (record.stage != busiest - perStage.begin())
        continue;
      std::string axes;
      for (const std::string &axis : record.axes)
        axes += (axes.empty() ? "" : "+") + axis;
      byAxis[axes] += shareOf(record);
      byPurpose[record.purpose] += shareOf(record);
    }
    for (const auto &[axes, share] : byAxis)
      report.byAxis[axes] = roundUp(share);
    for (const auto &[purpose, share] : byPurpose)
      report.byPurpose[purpose] = roundUp(share);
  }

  ModuleOp module;
  Mesh mesh;
  int64_t numStages = 1, ranksPerStage = 1;
  llvm::StringMap<int64_t> runs;
  std::map<uint64_t, int64_t> sends;
  CommunicationReport report;
};

} // namespace

FailureOr<CommunicationReport> kerf::accountCommunication(ModuleOp module) {
  return Accountant(module).run();
}

llvm::json::Object kerf::toJson(const CommunicationReport &report) {
  using llvm::json::Array;
  using llvm::json::Object;
  auto shares = [](const std::map<std::string, int64_t> &map) {
    Object object;
    for (const auto &[key, bytes] : map)
      object[key] = bytes;
    return object;
  };
  Array collectives;
  for (const CollectiveRecord &record : report.collectives) {
    StringRef formula =
        record.kind ? cost::volumeFormula(cost::VolumeModel::Ring, *record.kind)
                    : "S";
    collectives.push_back(Object{{"op", record.op()},
                                 {"node", record.node},
                                 {"tensor", record.tensor},
                                 {"tensors", record.numTensors},
                                 {"axes", Array(record.axes)},
                                 {"stage", record.stage},
                                 {"group_size", record.groupSize},
                                 {"groups", record.numGroups},
                                 {"buffer_bytes", record.bufferBytes},
                                 {"group_bytes", record.groupBytes},
                                 {"bytes_per_rank", record.bytesPerRank},
                                 {"count", record.count},
                                 {"formula", formula},
                                 {"phase", record.phase},
                                 {"purpose", record.purpose},
                                 {"seconds", record.seconds}});
  }
  return Object{{"bytes_per_rank", report.bytesPerRank},
                {"total_bytes", report.totalBytes},
                {"by_axis", shares(report.byAxis)},
                {"by_purpose", shares(report.byPurpose)},
                {"collectives", std::move(collectives)}};
}
