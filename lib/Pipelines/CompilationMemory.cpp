//===- CompilationMemory.cpp - laid-out memory and the limit --------------===//
//
// Planning predicts what a device holds; lowering knows. plan.json says what
// was laid out, and instead of a plan that turns out to need more than the
// limit the next best is lowered.
//
//===----------------------------------------------------------------------===//
#include "MemoryOverTime.h"
#include "Timer.h"

#include "kerf/Dist/Entry.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Passes.h"
#include "kerf/Pipelines/Compilation.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Support/Units.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include <map>
#include <utility>

using namespace mlir;
using namespace kerf;

std::optional<int64_t> Compilation::memoryLimit() const {
  if (options.givenPlan || (options.resume && options.resume->plan))
    return std::nullopt;
  if (options.plan.memoryLimitBytes)
    return options.plan.memoryLimitBytes;
  int64_t bytes = options.plan.machine.memoryBytesPerDevice;
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

static int64_t bytesOf(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    if (auto tensor = dyn_cast<RankedTensorType>(type);
        tensor && tensor.hasStaticShape() &&
        tensor.getElementType().isIntOrFloat())
      bytes += tensor.getNumElements() *
               llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
  return bytes;
}

/// Inputs and outputs of a step, whole, as who asks for it holds them. Training
/// reads the next batch while a step runs on one.
static int64_t bytesOfEnds(ModuleOp module, bool isTraining) {
  auto main = dist::findEntry(module);
  return main ? (isTraining ? 2 : 1) * bytesOf(main.getArgumentTypes()) +
                    bytesOf(main.getResultTypes())
              : 0;
}

/// Ranks on CPUs share the memory of their host with the program that gives
/// inputs and takes outputs: what it holds is not there for them.
Outcome Compilation::leaveRoom() {
  cost::Machine &machine = options.plan.machine;
  if (options.plan.memoryLimitBytes || options.machineMemoryPerDevice ||
      machine.cores == 0 || machine.memoryBytesPerDevice == 0)
    return Outcome::Fine;
  const int64_t devices = std::max<int64_t>(machine.devicesPerNode, 1);
  const int64_t memory = machine.memoryBytesPerDevice * devices;
  int64_t held = bytesOfEnds(module.get(), hasAutodiff()) + options.callerBytes;
  // The program itself: its code, the compiler, what libraries keep.
  const int64_t own = std::min<int64_t>(256 << 20, memory / 32);
  if (held >= memory - own)
    return failWith(
        Outcome::NoPlan,
        options.model + ": the inputs and outputs of a step" +
            (options.callerBytes > 0 ? " and the data that are kept in memory"
                                     : "") +
            " are " + formatBytesBeside(double(held), double(memory)) +
            ", the machine has " +
            formatBytesBeside(double(memory), double(held)) +
            " of memory\nnote: ranks on CPUs share the machine's memory with "
            "them: smaller sizes take less, option memory-limit says what "
            "ranks may take all the same");
  if (options.callerBytesOf)
    held += std::min(options.callerBytesOf(module.get()),
                     (memory - own - held) / 2);
  options.machineMemoryPerDevice = machine.memoryBytesPerDevice;
  machine.memoryBytesPerDevice =
      std::max<int64_t>((memory - own - held) / devices, 1);
  return Outcome::Fine;
}

int64_t Compilation::laidOutPeak() const {
  int64_t max = 0;
  const llvm::json::Object *memory = planJson.getObject("memory");
  if (const auto *devices = memory ? memory->getArray("per_device") : nullptr)
    for (const llvm::json::Value &device : *devices)
      max = std::max(max, device.getAsObject()->getInteger("peak").value_or(0));
  return max;
}

Outcome Compilation::planWithout(int64_t laidOutBytes) {
  Timer timer(*this, "plan");
  module = planning->getModule().clone();
  if (options.beforePlan)
    options.beforePlan(module.get());
  std::string message;
  auto next = planning->runWithout(laidOutBytes, module.get(), message);
  if (failed(next))
    return failWith(options.plan.stop && *options.plan.stop
                        ? Outcome::Interrupted
                        : Outcome::NoPlan,
                    options.model + ": " + message);
  options.plan.rejectedBytes.push_back(laidOutBytes);
  notePlanning();
  takePlanned(std::move(*next));
  if (llvm::json::Object *memory = planJson.getObject("memory"))
    (*memory)["rejected"] =
        static_cast<int64_t>(options.plan.rejectedBytes.size());
  if (options.afterPlan)
    options.afterPlan(module.get());
  return dump("plan");
}

void Compilation::notePlanning() {
  // It knows the machine, and not what the caller holds of its memory.
  std::optional<int64_t> given = options.plan.memoryLimitBytes;
  options.plan.memoryLimitBytes =
      options.machineMemoryPerDevice ? memoryLimit() : given;
  plan::PlanRun unused;
  PassManager passes(context.get(), ModuleOp::getOperationName());
  addPlanning(passes, unused);
  pipelines.back().second = textOf(passes);
  options.plan.memoryLimitBytes = given;
}

Outcome Compilation::obeyLimit(size_t timesBefore, size_t dumpsBefore) {
  const int64_t limit = *memoryLimit();
  std::map<std::string, double> spent; // on what did not keep the limit
  while (laidOutPeak() > limit) {
    for (size_t i = timesBefore; i < times.size(); ++i)
      spent[times[i].first] += times[i].second;
    times.resize(timesBefore);
    dumps = dumpsBefore;
    while (pipelines.back().first != "plan")
      pipelines.pop_back();
    Outcome outcome = planWithout(laidOutPeak());
    for (auto step : {&Compilation::runPartition, &Compilation::runCollectives,
                      &Compilation::runLower})
      if (outcome == Outcome::Fine)
        outcome = (this->*step)();
    if (outcome != Outcome::Fine)
      return outcome;
  }
  for (size_t i = timesBefore; i < times.size(); ++i)
    times[i].second += std::exchange(spent[times[i].first], 0);
  return Outcome::Fine;
}

/// Parameters that steps read or write. Others are freed at load, once the
/// parameters derived from them have been computed.
static llvm::DenseSet<int64_t> parametersOfSteps(ModuleOp module) {
  llvm::DenseSet<int64_t> used;
  for (auto function : module.getOps<exec::FuncOp>())
    if (function.getPhase() != exec::Phase::Init)
      function.walk([&](Operation *op) {
        if (auto parameter = dyn_cast<exec::ParamOp>(op))
          used.insert(parameter.getIndex());
        if (auto weight = dyn_cast<exec::WeightOp>(op))
          used.insert(weight.getIndex());
      });
  return used;
}

/// Bytes of the parameters that the ranks of a stage hold.
static int64_t parameterBytes(ModuleOp module, int64_t stage,
                              const llvm::DenseSet<int64_t> &used) {
  int64_t bytes = 0;
  for (auto parameter : module.getOps<exec::ParameterOp>()) {
    auto stages = parameter.getStages();
    if (used.contains(parameter.getIndex()) &&
        (!stages || llvm::is_contained(*stages, stage)))
      bytes += exec::sizeBytes(cast<MemRefType>(parameter.getType()));
  }
  return bytes;
}

/// Replaces predicted bytes in the plan by those laid out, now that arenas are
/// known.
void Compilation::refineMemory() {
  llvm::json::Object *memory = planJson.getObject("memory");
  llvm::json::Array *devices =
      memory ? memory->getArray("per_device") : nullptr;
  if (!devices)
    return;
  llvm::DenseSet<int64_t> used = parametersOfSteps(module.get());
  for (auto stage : module->getOps<exec::StageOp>()) {
    auto number = static_cast<size_t>(stage.getIndex());
    if (number >= devices->size() || !stage.getArena())
      continue;
    llvm::json::Object *entry = (*devices)[number].getAsObject();
    if (!entry)
      continue;
    auto bytes = [&](StringRef key) {
      return entry->getInteger(key).value_or(0);
    };
    auto arena = static_cast<int64_t>(*stage.getArena());
    int64_t gradients = std::min(bytes("gradients"), arena);
    int64_t stored = parameterBytes(module.get(), stage.getIndex(), used);
    int64_t optimizer = std::min(bytes("optimizer"), stored);
    if (entry->get("peak") && !entry->get("predicted"))
      (*entry)["predicted"] = llvm::json::Object{
          {"parameters", bytes("parameters")},
          {"optimizer", bytes("optimizer")},
          {"arena", bytes("gradients") + bytes("activations")},
          {"peak", bytes("peak")}};
    (*entry)["parameters"] = stored - optimizer;
    (*entry)["optimizer"] = optimizer;
    (*entry)["gradients"] = gradients;
    (*entry)["activations"] = arena - gradients;
    (*entry)["peak"] = stored + bytes("workspace") + arena;
    (*entry)["over_time"] = memoryOverTime(stage);
  }
}

Outcome Compilation::runLower() {
  Outcome outcome = runPasses("lower", [&](OpPassManager &passes) {
    buildLowerPipeline(passes, target().getDevice());
  });
  if (outcome != Outcome::Fine)
    return outcome;
  refineMemory();
  return dumpPlan();
}
