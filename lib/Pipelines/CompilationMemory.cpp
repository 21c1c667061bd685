//===- CompilationMemory.cpp - laid-out memory and the limit --------------===//
//
// Planning predicts the bytes of a device; lowering determines them. plan.json
// reports the bytes laid out, and a plan that needs more than the limit is made
// again for less.
//
//===----------------------------------------------------------------------===//
#include "kerf/Exec/Exec.h"
#include "kerf/Pipelines/Compilation.h"

#include <chrono>

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

int64_t Compilation::laidOutPeak() const {
  int64_t max = 0;
  const llvm::json::Object *memory = planJson.getObject("memory");
  if (const auto *devices = memory ? memory->getArray("per_device") : nullptr)
    for (const llvm::json::Value &device : *devices)
      max = std::max(max, device.getAsObject()->getInteger("peak").value_or(0));
  return max;
}

Outcome Compilation::obeyLimit(ModuleOp unplanned, size_t timesBefore,
                               size_t dumpsBefore) {
  constexpr int kTries = 8;
  constexpr double kMaxSeconds = 60;
  const std::optional<int64_t> asked = options.plan.memoryLimitBytes;
  // What --deadline gave to the first search is gone for the others.
  const double deadline = options.plan.deadlineSeconds;
  double spent = 0;
  auto addPlanning = [&] {
    for (const auto &[phase, seconds] : ArrayRef(times).drop_front(timesBefore))
      spent += phase == "plan" ? seconds : 0;
  };
  addPlanning();
  const int64_t limit = *memoryLimit(), first = laidOutPeak();
  auto begin = std::chrono::steady_clock::now();
  auto isLate = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin)
               .count() > kMaxSeconds;
  };
  // Bisection: planned for `max`, the layout exceeds the limit; for `min` there
  // is no plan.
  int64_t max = limit, min = 0, peak = first;
  Outcome outcome = Outcome::Fine;
  options.plan.findReasons = false;
  int tries = 0;
  for (; outcome != Outcome::Fine || peak > limit; ++tries) {
    if (tries == kTries || max - min < 2 || (tries > 1 && isLate())) {
      options.plan.memoryLimitBytes = asked;
      options.plan.deadlineSeconds = deadline;
      return fail(Outcome::NoPlan,
                  options.model +
                      ": no plan fits in memory: what was planned "
                      "for " +
                      Twine(limit) + " bytes per device needs " + Twine(first) +
                      " when it is laid out, and nothing smaller was found");
    }
    int64_t tried = min + (max - min) / 2;
    if (min == 0)
      tried = static_cast<int64_t>(0.99 * static_cast<double>(max) *
                                   static_cast<double>(limit) /
                                   static_cast<double>(peak));
    options.plan.memoryLimitBytes = tried;
    if (deadline > 0)
      options.plan.deadlineSeconds = std::max(deadline - spent, 0.01);
    module = unplanned.clone();
    times.resize(timesBefore);
    dumps = dumpsBefore;
    outcome = Outcome::Fine;
    for (auto step : {&Compilation::runPlan, &Compilation::runPartition,
                      &Compilation::runCollectives, &Compilation::runLower})
      if (outcome == Outcome::Fine)
        outcome = (this->*step)();
    addPlanning();
    if (outcome == Outcome::NoPlan) {
      lines.clear();
      min = tried;
      continue;
    }
    if (outcome != Outcome::Fine)
      break;
    peak = laidOutPeak();
    max = tried;
  }
  options.plan.memoryLimitBytes = asked;
  options.plan.deadlineSeconds = deadline;
  if (llvm::json::Object *memory = planJson.getObject("memory")) {
    (*memory)["limit"] = limit;
    if (tries > 0)
      (*memory)["replanned"] = tries;
  }
  return outcome;
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
  }
}
