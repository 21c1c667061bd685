//===- Compilation.cpp - the phases over one module -----------------------===//
#include "kerf/Pipelines/Compilation.h"

#include "CollectiveSeconds.h"
#include "PlanDocument.h"
#include "PlanNotes.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Import/Passes.h"
#include "kerf/Import/Simplify.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Gpu.h"
#include "kerf/Lower/Lower.h"
#include "kerf/Lower/Passes.h"
#include "kerf/Package/Package.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/FailPass.h"
#include "kerf/Pipelines/Register.h"

#include "kerf/Dist/Dist.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <set>

using namespace mlir;
using namespace kerf;

/// Adds the seconds of a phase to the list when it ends.
class Compilation::Timer {
public:
  Timer(Compilation &compilation, StringRef phase)
      : compilation(compilation), phase(phase.str()),
        start(std::chrono::steady_clock::now()) {}
  ~Timer() {
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    compilation.times.push_back({phase, seconds.count()});
  }

private:
  Compilation &compilation;
  std::string phase;
  std::chrono::steady_clock::time_point start;
};

Compilation::Compilation(CompilationOptions options)
    : options(std::move(options)) {
  DialectRegistry registry;
  registerDialects(registry);
  context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
}

Compilation::~Compilation() = default;

Outcome Compilation::fail(Outcome outcome, const Twine &reason) {
  lines.push_back(("error: " + reason).str());
  return outcome;
}

Outcome Compilation::dump(StringRef phase) {
  if (options.dumpDir.empty())
    return Outcome::Fine;
  if (std::error_code error =
          llvm::sys::fs::create_directories(options.dumpDir))
    return fail(Outcome::WrongUsage, options.dumpDir + ": " + error.message());
  llvm::SmallString<128> path(options.dumpDir);
  llvm::sys::path::append(path, "0" + Twine(++dumps) + "-" + phase + ".mlir");
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (error)
    return fail(Outcome::WrongUsage, path + ": " + error.message());
  OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(16);
  module->print(stream, flags);
  stream << "\n";
  return Outcome::Fine;
}

Outcome Compilation::runImport() {
  Timer timer(*this, "import");
  // The report speaks of the model; MLIR's own diagnostics would repeat it.
  std::string internal;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error &&
        internal.empty())
      internal = diagnostic.str();
    return success();
  });
  FailureOr<OwningOpRef<ModuleOp>> imported =
      importOnnx(*context, options.model, options.import, report);
  if (failed(imported)) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    report.print(stream);
    llvm::SmallVector<StringRef> split;
    StringRef(text).split(split, '\n', -1, /*KeepEmpty=*/false);
    for (StringRef line : split)
      lines.push_back(line.str());
    if (lines.empty())
      return fail(Outcome::Internal, options.model + ": " + internal);
    return static_cast<Outcome>(report.exitCode());
  }
  module = std::move(*imported);
  if (options.cuda && options.fusedAttention) {
    nn::AttentionForms forms;
    forms.wide = true; // it is rounded below, or in autodiff
    forms.training = options.training.has_value();
    forms.lowest = -6e4; // finite in f16 as well
    fuseAttention(module.get(), forms);
  }
  if (Outcome outcome = dump("import"); outcome != Outcome::Fine)
    return outcome;
  // What import promises is checked before anyone relies on it.
  PassManager passes(context.get());
  passes.addPass(createVerifyAfterImport());
  // Training rounds after it has built the loss, which stays wide.
  if (!options.training)
    passes.addPass(autodiff::createLowerPrecision(
        {autodiff::toString(options.precision).str()}));
  if (failed(passes.run(module.get())))
    return fail(Outcome::Internal, options.model + ": " + internal);
  return Outcome::Fine;
}

Outcome Compilation::runAutodiff() {
  if (!options.training)
    return Outcome::Fine;
  autodiff::AutodiffFailure failure;
  FailureOr<autodiff::AutodiffResult> result = mlir::failure();
  for (const UntiedCopy &copy : report.untied)
    options.training->copies[copy.name] = copy.original;
  {
    Timer timer(*this, "autodiff");
    result = autodiff::differentiate(module.get(), *options.training, failure);
  }
  if (failed(result)) {
    for (const std::string &line : failure.lines)
      lines.push_back(StringRef(line).starts_with("note: ") ? line
                      : failure.isRequest
                          ? "error: " + line
                          : "error: " + options.model + ":" + line);
    return failure.isRequest ? Outcome::WrongUsage : Outcome::ModelRefused;
  }
  trained = std::move(*result);
  trainingNotes = trained.notes;
  noteUntied();
  noteNumbers();
  // Partition takes the attribute away; traces want to know it of every kernel.
  module->walk([&](Operation *op) {
    if (Attribute phase = op->getAttr(dist::kPhase))
      op->setLoc(FusedLoc::get(op->getContext(), {op->getLoc()}, phase));
  });
  Outcome outcome = runPasses("autodiff", [](OpPassManager &passes) {
    passes.addPass(autodiff::createVerifyAfterAutodiff());
  });
  double checked = times.back().second;
  times.pop_back();
  times.back().second += checked;
  return outcome;
}

/// Exporters store equal tensors once; what of them is trained has come apart.
void Compilation::noteUntied() {
  constexpr size_t kMost = 4;
  std::set<std::string> names;
  for (const autodiff::TrainedParameter &parameter : trained.trained)
    names.insert(parameter.name);
  llvm::MapVector<llvm::StringRef, int> counts;
  for (const UntiedCopy &copy : report.untied)
    if (names.count(copy.name) || names.count(copy.original))
      counts.try_emplace(copy.original, 1).first->second += 1;
  if (counts.empty())
    return;
  std::vector<std::string> texts;
  for (const auto &[name, count] : counts)
    if (texts.size() < kMost)
      texts.push_back(("\"" + name + "\" (" + Twine(count) + " nodes)").str());
  trainingNotes.push_back(
      "stored once and read by several nodes, trained for each by itself: " +
      llvm::join(texts, ", ") +
      (counts.size() > kMost
           ? " and " + std::to_string(counts.size() - kMost) + " more"
           : "") +
      "; --tied=NAME trains one as one");
}

/// Numbers without dimensions are constants to import; some may be learned.
void Compilation::noteNumbers() {
  std::vector<std::string> names;
  for (const std::string &name : report.numbers)
    if (!autodiff::isNamedAsConstant(name))
      names.push_back("\"" + name + "\"");
  if (!names.empty())
    trainingNotes.push_back("numbers without dimensions are not trained: " +
                            llvm::join(names, ", ") +
                            "; --trainable=+NAME trains one");
}

std::vector<std::string> Compilation::getNotes() const {
  std::vector<std::string> all = trainingNotes;
  for (const auto *more : {&planningNotes, &packagingNotes})
    all.insert(all.end(), more->begin(), more->end());
  return all;
}

Outcome Compilation::readGivenPlan() {
  std::string message;
  if (failed(plan::applyPlanJson(module.get(), *options.givenPlan, message)))
    return fail(Outcome::WrongUsage, options.givenPlanPath + ": " + message);
  planJson = *options.givenPlan->getAsObject();
  // One device is what is asked for when nothing is.
  int64_t devices = planJson.getInteger("devices").value_or(1);
  if (options.plan.devices > 1 && options.plan.devices != devices)
    return fail(Outcome::WrongUsage,
                options.givenPlanPath + ": plan is for " + Twine(devices) +
                    " devices, expected " + Twine(options.plan.devices) +
                    " (--devices)");
  return Outcome::Fine;
}

Outcome Compilation::runPlan() {
  Timer timer(*this, "plan");
  if (options.beforePlan)
    options.beforePlan(module.get());
  if (Outcome outcome = makePlan(); outcome != Outcome::Fine)
    return outcome;
  if (options.afterPlan)
    options.afterPlan(module.get());
  return dump("plan");
}

Outcome Compilation::makePlan() {
  if (options.givenPlan) {
    if (Outcome outcome = readGivenPlan(); outcome != Outcome::Fine)
      return outcome;
    planningNotes = planNotes(module.get());
    return Outcome::Fine;
  }
  plan::PlanError error;
  std::string message;
  FailureOr<plan::PlanResult> result =
      plan::planModule(module.get(), options.plan, error, message);
  if (failed(result)) {
    llvm::SmallVector<StringRef> split;
    StringRef(message).split(split, '\n', -1, /*KeepEmpty=*/false);
    bool isRequest = error == plan::PlanError::BadRequest;
    lines.push_back(
        ("error: " + (isRequest ? "" : options.model + ": ") + split[0]).str());
    for (StringRef line : llvm::drop_begin(split))
      lines.push_back(line.str());
    return isRequest ? Outcome::WrongUsage : Outcome::NoPlan;
  }
  planned = std::move(*result);
  planningNotes = planNotes(module.get());
  planJson = planDocument(report, options, planned, module.get());
  return Outcome::Fine;
}

Outcome
Compilation::runPasses(StringRef phase,
                       llvm::function_ref<void(OpPassManager &)> build) {
  Timer timer(*this, phase);
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return success();
    // What MLIR says of the reproducer is said below, shorter.
    if (StringRef(diagnostic.str()).starts_with("Failures have been detected"))
      return success();
    std::string node;
    if (auto name = diagnostic.getLocation()->findInstanceOf<NameLoc>())
      node = ":" + name.getName().str();
    lines.push_back("error: " + options.model + node + ": " + diagnostic.str());
    for (Diagnostic &note : diagnostic.getNotes())
      lines.push_back("note: " + note.str());
    return success();
  });
  PassManager passes(context.get());
  build(passes);
  if (options.failPhase == phase)
    passes.addPass(createFailPass());
  // A pass that fails on a plan of ours is our bug: keep what replays it. A
  // plan that the user wrote can be wrong.
  llvm::SmallString<128> reproducer;
  bool ours = !options.givenPlan;
  if (ours && !llvm::sys::fs::createTemporaryFile("kerf-reproducer", "mlir",
                                                  reproducer))
    passes.enableCrashReproducerGeneration(reproducer);
  LogicalResult result = passes.run(module.get());
  if (succeeded(result)) {
    if (!reproducer.empty())
      llvm::sys::fs::remove(reproducer);
    return dump(phase);
  }
  if (lines.empty())
    lines.push_back("error: " + options.model + ": " + phase.str() + " failed");
  if (!reproducer.empty())
    lines.push_back("note: this is a bug of kerf; replay it with kerf-opt "
                    "--run-reproducer " +
                    reproducer.str().str());
  return ours ? Outcome::Internal : Outcome::WrongUsage;
}

Outcome Compilation::runPartition() {
  return runPasses("partition", [](OpPassManager &passes) {
    buildPartitionPipeline(passes);
  });
}

Outcome Compilation::runCollectives() {
  CollectivesOptions collectives =
      collectivesOptions(module.get(), options.plan.machine);
  Outcome outcome = runPasses("collectives", [&](OpPassManager &passes) {
    buildCollectivesPipeline(passes, collectives);
  });
  if (outcome != Outcome::Fine)
    return outcome;
  FailureOr<CommunicationReport> communication =
      accountCommunication(module.get());
  if (failed(communication))
    return fail(Outcome::Internal,
                options.model + ": collectives cannot be accounted for");
  addSeconds(*communication, module.get(), options.plan.machine);
  planJson["communication"] = toJson(*communication);
  return Outcome::Fine;
}

std::optional<int64_t> Compilation::memoryLimit() const {
  if (options.givenPlan)
    return std::nullopt;
  if (options.plan.memoryLimitBytes)
    return options.plan.memoryLimitBytes;
  int64_t bytes = options.plan.machine.memoryBytesPerDevice;
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

int64_t Compilation::laidOutPeak() const {
  int64_t most = 0;
  const llvm::json::Object *memory = planJson.getObject("memory");
  if (const auto *devices = memory ? memory->getArray("per_device") : nullptr)
    for (const llvm::json::Value &device : *devices)
      most =
          std::max(most, device.getAsObject()->getInteger("peak").value_or(0));
  return most;
}

Outcome Compilation::obeyLimit(ModuleOp unplanned, size_t timesBefore,
                               int dumpsBefore) {
  constexpr int kTries = 8;
  constexpr double kMostSeconds = 60;
  const std::optional<int64_t> asked = options.plan.memoryLimitBytes;
  const int64_t limit = *memoryLimit(), first = laidOutPeak();
  auto begin = std::chrono::steady_clock::now();
  auto isLate = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin)
               .count() > kMostSeconds;
  };
  // Planned for `most` more than the limit was laid out, for `least` there is
  // no plan.
  int64_t most = limit, least = 0, peak = first;
  Outcome outcome = Outcome::Fine;
  options.plan.findReasons = false;
  for (int tries = 0; outcome != Outcome::Fine || peak > limit; ++tries) {
    if (tries == kTries || most - least < 2 || (tries > 1 && isLate())) {
      options.plan.memoryLimitBytes = asked;
      return fail(Outcome::NoPlan,
                  options.model +
                      ": no plan fits in memory: what was planned "
                      "for " +
                      Twine(limit) + " bytes per device needs " + Twine(first) +
                      " when it is laid out, and nothing smaller was found");
    }
    int64_t tried = least + (most - least) / 2;
    if (least == 0)
      tried = static_cast<int64_t>(0.99 * static_cast<double>(most) *
                                   static_cast<double>(limit) /
                                   static_cast<double>(peak));
    options.plan.memoryLimitBytes = tried;
    module = unplanned.clone();
    times.resize(timesBefore);
    dumps = dumpsBefore;
    outcome = Outcome::Fine;
    for (auto step : {&Compilation::runPlan, &Compilation::runPartition,
                      &Compilation::runCollectives, &Compilation::runLower})
      if (outcome == Outcome::Fine)
        outcome = (this->*step)();
    if (outcome == Outcome::NoPlan) {
      lines.clear();
      least = tried;
      continue;
    }
    if (outcome != Outcome::Fine)
      break;
    peak = laidOutPeak();
    most = tried;
  }
  options.plan.memoryLimitBytes = asked;
  if (llvm::json::Object *memory = planJson.getObject("memory"))
    (*memory)["limit"] = limit;
  return outcome;
}

Outcome Compilation::runUntil(StringRef phase) {
  std::vector<std::pair<StringRef, Outcome (Compilation::*)()>> phases = {
      {"import", &Compilation::runImport},
      {"autodiff", &Compilation::runAutodiff},
      {"plan", &Compilation::runPlan},
      {"partition", &Compilation::runPartition},
      {"collectives", &Compilation::runCollectives},
      {"lower", &Compilation::runLower}};
  if (!options.training)
    phases.erase(phases.begin() + 1);
  std::string names;
  for (const auto &[name, run] : phases) {
    names += (names.empty() ? "" : ", ") + name.str();
    if (name != phase)
      continue;
    OwningOpRef<ModuleOp> unplanned;
    size_t timesBefore = 0;
    int dumpsBefore = 0;
    for (const auto &[each, step] : phases) {
      if (each == "plan" && phase == "lower" && memoryLimit()) {
        unplanned = module->clone();
        timesBefore = times.size();
        dumpsBefore = dumps;
      }
      if (Outcome outcome = (this->*step)(); outcome != Outcome::Fine)
        return outcome;
      if (each == phase)
        break;
    }
    return unplanned ? obeyLimit(*unplanned, timesBefore, dumpsBefore)
                     : Outcome::Fine;
  }
  return fail(Outcome::WrongUsage, "--stop-after: no phase '" + phase +
                                       "', expected one of " + names);
}
Outcome Compilation::runLower() {
  if (options.cuda)
    module.get()->setAttr(kGpuAttr, UnitAttr::get(context.get()));
  Outcome outcome = runPasses(
      "lower", [](OpPassManager &passes) { buildLowerPipeline(passes); });
  if (outcome == Outcome::Fine)
    refineMemory();
  return outcome;
}

/// Parameters that steps read or write. Others are gone once what is derived
/// from them has been computed.
static llvm::DenseSet<int64_t> parametersOfSteps(ModuleOp module) {
  llvm::DenseSet<int64_t> used;
  for (auto function : module.getOps<exec::FuncOp>())
    if (function.getPhase() != "init")
      function.walk([&](Operation *op) {
        if (auto parameter = dyn_cast<exec::ParamOp>(op))
          used.insert(parameter.getIndex());
        op->getAttrDictionary().walk([&](DictionaryAttr entry) {
          if (auto index = entry.getAs<IntegerAttr>("param"))
            used.insert(index.getInt());
        });
      });
  return used;
}

/// Bytes of the parameters that the ranks of a stage hold.
static int64_t parameterBytes(ModuleOp module, int64_t stage,
                              const llvm::DenseSet<int64_t> &used) {
  int64_t bytes = 0;
  for (auto parameter : module.getOps<exec::ParameterOp>()) {
    auto stages = parameter.getEntry().getAs<ArrayAttr>("stages");
    if (used.contains(parameter.getIndex()) &&
        (!stages || llvm::any_of(stages, [&](Attribute each) {
          return cast<IntegerAttr>(each).getInt() == stage;
        })))
      bytes += exec::sizeBytes(cast<MemRefType>(parameter.getType()));
  }
  return bytes;
}

/// The plan says what was laid out: now arenas are known, where planning could
/// only predict.
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
    (*entry)["predicted"] =
        llvm::json::Object{{"parameters", bytes("parameters")},
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

Outcome Compilation::runPackage(StringRef path) {
  Timer timer(*this, "package");
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      lines.push_back("error: " + diagnostic.str());
    return success();
  });
  PackageContents contents;
  if (options.cuda) {
    GpuOptions gpu;
    gpu.ptxas = options.ptxas;
    gpu.dumpDir = options.kernelDumpDir;
    FailureOr<GpuProgram> kernels = compileGpuKernels(module.get(), gpu);
    if (failed(kernels))
      return lines.empty()
                 ? fail(Outcome::Internal, "code generation for GPUs failed")
                 : Outcome::WrongUsage;
    packagingNotes = std::move(kernels->notes);
    CudaContents &cuda = contents.cuda.emplace();
    cuda.ptx = std::move(kernels->ptx);
    cuda.ptxVersion = kPtxVersion;
    cuda.ptxArch = kPtxArch;
    cuda.hostKernels = options.hostKernels;
    contents.precision = autodiff::toString(options.precision).str();
    for (Cubin &cubin : kernels->cubins)
      cuda.cubins.push_back({cubin.arch, std::move(cubin.bytes)});
  }
  CodegenOptions codegen;
  codegen.cpu = options.targetCpu;
  codegen.kernels = !options.cuda || options.hostKernels;
  FailureOr<Program> program = compileProgram(module.get(), codegen);
  if (failed(program))
    return lines.empty() ? fail(Outcome::Internal, "code generation failed")
                         : Outcome::WrongUsage;
  contents.name = report.graphName;
  contents.cpu = program->target.cpu;
  contents.features = program->target.features;
  contents.sharedObject = std::move(program->sharedObject);
  llvm::raw_string_ostream(contents.plan) << llvm::formatv(
      "{0:2}\n", llvm::json::Value(llvm::json::Object(planJson)));
  if (const llvm::json::Object *memory = planJson.getObject("memory"))
    if (const llvm::json::Array *devices = memory->getArray("per_device"))
      for (const llvm::json::Value &device : *devices)
        contents.plannedBytes.push_back(
            device.getAsObject()
                ? device.getAsObject()->getInteger("peak").value_or(0)
                : 0);
  contents.weightsInPlace = options.weightsInPlace;
  if (succeeded(writePackage(module.get(), contents, path)))
    return Outcome::Fine;
  return lines.empty() ? fail(Outcome::Internal, "packaging failed")
                       : Outcome::WrongUsage;
}
