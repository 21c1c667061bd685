//===- PlanPass.cpp - planning as a pass ----------------------------------===//
#include "kerf/Plan/MeshText.h"
#include "kerf/Plan/Passes.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Plan/Plan.h"

#include "llvm/Support/FormatVariadic.h"

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
  PlanPass(const PlanOptions &o, StringRef machineName, PlanRun &run)
      : given(o), run(&run) {
    devices = o.devices;
    mesh = pairsText(o.mesh);
    machine = machineName.str();
    objective = o.objective;
    costModel = o.volumeModel;
    solver = o.solver;
    seed = o.seed;
    memoryLimit = o.memoryLimitBytes.value_or(0);
    deadline = o.deadlineSeconds;
    rejected = o.rejectedBytes;
    microBatches = o.microBatches.value_or(0);
    if (o.schedule)
      schedule = cost::toString(*o.schedule).str();
    chunks = o.chunks.value_or(0);
    if (o.searchRecomputation)
      recompute = "auto";
    zero = o.searchZero ? "auto" : toString(o.zero).str();
    for (const ShardHint &hint : o.hints)
      shard.push_back(hint.pattern + "=" + hint.sharding);
    std::vector<std::pair<std::string, int64_t>> dims;
    for (const auto &entry : o.batchDims)
      dims.push_back({entry.getKey().str(), entry.getValue()});
    llvm::sort(dims);
    for (const auto &[name, dim] : dims)
      batchDims.push_back(name + "=" + std::to_string(dim));
  }

  static std::string
  pairsText(ArrayRef<std::pair<std::string, int64_t>> pairs) {
    std::string text;
    for (const auto &[name, size] : pairs)
      text += (text.empty() ? "" : ",") + name + "=" + std::to_string(size);
    return text;
  }

  LogicalResult readOptions(PlanOptions &o) {
    o.devices = devices;
    o.objective = objective;
    o.volumeModel = costModel;
    o.solver = solver;
    o.seed = seed;
    if (schedule != "auto") {
      o.schedule = cost::parseScheduleKind(schedule);
      if (!o.schedule)
        return wrong() << "schedule: '" << schedule
                       << "', expected auto, gpipe, 1f1b or interleaved";
    }
    if (chunks > 0)
      o.chunks = chunks;
    if (recompute != "none" && recompute != "auto")
      return wrong() << "recompute: '" << recompute
                     << "', expected none or auto";
    o.searchRecomputation = recompute == "auto";
    o.searchZero = zero == "auto";
    std::optional<Zero> kind =
        parseZero(o.searchZero ? std::string("none") : std::string(zero));
    if (!kind)
      return wrong() << "zero: '" << zero
                     << "', expected none, 1, 2, 3 or auto";
    o.zero = *kind;
    if (devices < 1)
      return wrong() << "devices: " << int64_t(devices)
                     << ", expected at least 1";
    for (auto [name, value] :
         {std::pair("memory-limit", int64_t(memoryLimit)),
          std::pair("micro-batches", int64_t(microBatches)),
          std::pair("chunks", int64_t(chunks))})
      if (value < 0)
        return wrong() << name << ": " << value << ", expected at least 0";
    if (memoryLimit > 0)
      o.memoryLimitBytes = memoryLimit;
    if (microBatches > 0)
      o.microBatches = microBatches;
    if (std::string why = parseMeshText(mesh, o.mesh); !why.empty())
      return wrong() << why;
    for (const std::string &hint : shard) {
      auto [pattern, sharding] = StringRef(hint).rsplit('=');
      o.hints.push_back({pattern.str(), sharding.str()});
    }
    for (const std::string &entry : batchDims) {
      auto [name, text] = StringRef(entry).rsplit('=');
      if (text.getAsInteger(10, o.batchDims[name]))
        return wrong() << "batch-dim: '" << entry << "', expected NAME=DIM";
    }
    if (!(deadline >= 0))
      return wrong() << "deadline: "
                     << llvm::formatv("{0}", double(deadline)).str()
                     << ", expected at least 0";
    o.deadlineSeconds = deadline;
    for (int64_t bytes : rejected)
      if (bytes < 1)
        return wrong() << "rejected: " << bytes << ", expected at least 1";
    o.rejectedBytes.assign(rejected.begin(), rejected.end());
    llvm::Expected<cost::Machine> loaded = cost::loadMachine(machine, devices);
    if (!loaded)
      return wrong() << "machine: " << llvm::toString(loaded.takeError());
    o.machine = std::move(*loaded);
    return success();
  }

  void runOnOperation() override {
    PlanOptions options;
    PlanRun own;
    PlanRun &result = run ? *run : own;
    result.result.reset(); // of the run before
    result.error = PlanError::None;
    result.message.clear();
    auto meshes = getOperation().getOps<dist::MeshOp>();
    if (!meshes.empty()) {
      (*meshes.begin())
          .emitError("the module has a mesh already, but planning chooses one: "
                     "kerf-propagate keeps what is there");
      return signalPassFailure();
    }
    if (given)
      options = *given;
    else if (failed(readOptions(options)))
      return signalPassFailure();
    FailureOr<PlanResult> found = plan(options, result);
    if (succeeded(found)) {
      result.result = std::move(*found);
      return;
    }
    signalPassFailure();
    if (result.message.empty())
      return;
    SmallVector<StringRef> lines;
    StringRef(result.message).split(lines, '\n');
    InFlightDiagnostic diagnostic = wrong() << lines[0];
    for (StringRef line : llvm::drop_begin(lines)) {
      line.consume_front("note: ");
      diagnostic.attachNote() << line;
    }
  }

  /// An error about the whole module, which is not printed with it.
  InFlightDiagnostic wrong() { return emitError(getOperation().getLoc()); }

  FailureOr<PlanResult> plan(const PlanOptions &options, PlanRun &result) {
    if (!result.mayGoOn)
      return planModule(getOperation(), options, result.error, result.message);
    result.planning = std::make_unique<Planning>(
        OwningOpRef<ModuleOp>(getOperation().clone()), options);
    return result.planning->run(getOperation(), result.error, result.message);
  }

  std::optional<PlanOptions> given;
  PlanRun *run = nullptr;
};

} // namespace

std::unique_ptr<Pass> kerf::plan::createPlanPass(const PlanOptions &options,
                                                 StringRef machine,
                                                 PlanRun &run) {
  return std::make_unique<PlanPass>(options, machine, run);
}
