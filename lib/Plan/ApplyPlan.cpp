//===- ApplyPlan.cpp - a plan from a file, as a pass ----------------------===//
#include "kerf/Plan/Passes.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Plan/Plan.h"
#include "kerf/Support/Json.h"

#include "llvm/Support/MemoryBuffer.h"

namespace kerf::plan {
#define GEN_PASS_DEF_APPLYPLAN
#include "kerf/Plan/Passes.h.inc"
} // namespace kerf::plan

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {

struct ApplyPlan : plan::impl::ApplyPlanBase<ApplyPlan> {
  using ApplyPlanBase::ApplyPlanBase;
  ApplyPlan(llvm::json::Value json, StringRef path, const PlanOptions &o,
            StringRef machineName, PlanRun &run)
      : given(o), json(std::move(json)), run(&run) {
    plan = path.str();
    devices = o.devices;
    machine = machineName.str();
  }

  LogicalResult readOptions() {
    if (devices < 1)
      return emitError(getOperation().getLoc(), "devices: ")
             << int64_t(devices) << ", expected at least 1";
    given.devices = devices;
    llvm::Expected<cost::Machine> loaded = cost::loadMachine(machine, devices);
    if (!loaded)
      return emitError(getOperation().getLoc(), "machine: ")
             << llvm::toString(loaded.takeError());
    given.machine = std::move(*loaded);
    auto buffer = llvm::MemoryBuffer::getFile(plan);
    if (!buffer)
      return emitError(getOperation().getLoc(), "plan: ")
             << plan << ": " << buffer.getError().message();
    llvm::Expected<llvm::json::Value> parsed =
        parseJson((*buffer)->getBuffer());
    if (!parsed)
      return emitError(getOperation().getLoc(), "plan: ")
             << plan << ": " << llvm::toString(parsed.takeError());
    json = std::move(*parsed);
    return success();
  }

  void runOnOperation() override {
    PlanRun own;
    PlanRun &result = run ? *run : own;
    result.result.reset(); // of the run before
    result.message.clear();
    if (!run && failed(readOptions()))
      return signalPassFailure();
    PlanResult planned;
    if (succeeded(applyPlanJson(getOperation(), *json, given, planned,
                                result.message))) {
      result.result = std::move(planned);
      return;
    }
    if (!result.message.empty())
      emitError(getOperation().getLoc(), "plan: ")
          << plan << ": " << result.message;
    signalPassFailure();
  }

  PlanOptions given;
  std::optional<llvm::json::Value> json;
  PlanRun *run = nullptr;
};

} // namespace

std::unique_ptr<Pass>
kerf::plan::createApplyPlanPass(llvm::json::Value plan, StringRef path,
                                const PlanOptions &options, StringRef machine,
                                PlanRun &run) {
  return std::make_unique<ApplyPlan>(std::move(plan), path, options, machine,
                                     run);
}
