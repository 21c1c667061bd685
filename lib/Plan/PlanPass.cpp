//===- PlanPass.cpp - planning as a pass ----------------------------------===//
#include "kerf/Plan/Passes.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Plan/Plan.h"

namespace kerf::plan {
#define GEN_PASS_DEF_PLANPASS
#include "kerf/Plan/Passes.h.inc"
} // namespace kerf::plan

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {

struct PlanPass : plan::impl::PlanPassBase<PlanPass> {
  using PlanPassBase::PlanPassBase;

  LogicalResult readOptions(PlanOptions &o) {
    o.devices = devices;
    o.objective = objective;
    o.volumeModel = costModel;
    o.solver = solver;
    o.seed = seed;
    if (schedule != "auto") {
      o.schedule = cost::parseScheduleKind(schedule);
      if (!o.schedule)
        return getOperation().emitError("schedule: '")
               << schedule << "', expected auto, gpipe or 1f1b";
    }
    if (devices < 1)
      return getOperation().emitError("devices: ")
             << int64_t(devices) << ", expected at least 1";
    for (auto [name, value] :
         {std::pair("memory-limit", int64_t(memoryLimit)),
          std::pair("micro-batches", int64_t(microBatches))})
      if (value < 0)
        return getOperation().emitError(name)
               << ": " << value << ", expected at least 0";
    if (memoryLimit > 0)
      o.memoryLimitBytes = memoryLimit;
    if (microBatches > 0)
      o.microBatches = microBatches;
    SmallVector<StringRef> axes;
    StringRef(mesh).split(axes, ',', -1, /*KeepEmpty=*/false);
    for (StringRef axis : axes) {
      auto [name, text] = axis.split('=');
      int64_t size = 0;
      if (text.getAsInteger(10, size) || size < 1)
        return getOperation().emitError("mesh: '")
               << axis << "', expected NAME=SIZE";
      o.mesh.push_back({name.str(), size});
    }
    for (const std::string &hint : shard) {
      auto [pattern, sharding] = StringRef(hint).rsplit('=');
      o.hints.push_back({pattern.str(), sharding.str()});
    }
    cost::HostInfo host;
    llvm::Expected<cost::Machine> preset =
        cost::machinePreset(machine, devices, host);
    if (!preset)
      return getOperation().emitError("machine: ")
             << llvm::toString(preset.takeError());
    o.machine = std::move(*preset);
    return success();
  }

  void runOnOperation() override {
    PlanOptions options;
    PlanError error;
    std::string message;
    if (failed(readOptions(options)))
      return signalPassFailure();
    if (succeeded(planModule(getOperation(), options, error, message)))
      return;
    SmallVector<StringRef> lines;
    StringRef(message).split(lines, '\n');
    InFlightDiagnostic diagnostic = getOperation().emitError(lines[0]);
    for (StringRef line : llvm::drop_begin(lines)) {
      line.consume_front("note: ");
      diagnostic.attachNote() << line;
    }
    signalPassFailure();
  }
};

} // namespace
