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
#include "kerf/Support/WriteFile.h"

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

using Step = Outcome (Compilation::*)();
static constexpr std::pair<StringRef, Step> kPhases[] = {
    {"import", &Compilation::runImport},
    {"autodiff", &Compilation::runAutodiff},
    {"plan", &Compilation::runPlan},
    {"partition", &Compilation::runPartition},
    {"collectives", &Compilation::runCollectives},
    {"lower", &Compilation::runLower}};

std::vector<std::string> kerf::phaseNames(bool training) {
  std::vector<std::string> names;
  for (const auto &[name, step] : kPhases)
    if (training || name != "autodiff")
      names.push_back(name.str());
  return names;
}

std::string kerf::dumpName(size_t number, StringRef phase) {
  return ("0" + Twine(number) + "-" + phase + ".mlir").str();
}

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
  llvm::sys::path::append(path, dumpName(++dumps, phase));
  llvm::Error error = writeFile(path, [&](llvm::raw_ostream &stream) {
    OpPrintingFlags flags;
    flags.elideLargeElementsAttrs(16);
    module->print(stream, flags);
    stream << "\n";
  });
  if (error)
    return fail(Outcome::RunTimeFailure, llvm::toString(std::move(error)));
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
    passes.addPass(autodiff::createLowerPrecision({options.precision}));
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
  std::vector<std::string> all = report.notes;
  all.insert(all.end(), trainingNotes.begin(), trainingNotes.end());
  for (const auto *more : {&planningNotes, &packagingNotes})
    all.insert(all.end(), more->begin(), more->end());
  return all;
}

Outcome Compilation::readGivenPlan() {
  std::string message;
  if (failed(plan::applyPlanJson(module.get(), *options.givenPlan, options.plan,
                                 planned, message)))
    return fail(Outcome::WrongUsage, options.givenPlanPath + ": " + message);
  int64_t devices = dist::getMesh(module.get()).toMesh().numRanks();
  if (options.plan.devices != devices)
    return fail(Outcome::WrongUsage,
                options.givenPlanPath + ": its mesh is of " + Twine(devices) +
                    " devices, expected " + Twine(options.plan.devices) +
                    " (--devices)");
  planJson = givenDocument(report, options, planned, module.get());
  if (!planned.isPriced)
    planningNotes.push_back(options.givenPlanPath +
                            ": cuts an op in a way that planning does not look "
                            "at: its seconds are not predicted");
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
    for (std::string &note : planNotes(module.get()))
      planningNotes.push_back(std::move(note));
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

Outcome Compilation::runUntil(StringRef phase) {
  std::vector<std::pair<StringRef, Step>> phases;
  for (const auto &entry : kPhases)
    if (options.training || entry.first != "autodiff")
      phases.push_back(entry);
  std::string names;
  for (const auto &[name, run] : phases) {
    names += (names.empty() ? "" : ", ") + name.str();
    if (name != phase)
      continue;
    OwningOpRef<ModuleOp> unplanned;
    size_t timesBefore = 0;
    size_t dumpsBefore = 0;
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
    module.get()->setAttr(exec::TargetAttr::kName,
                          exec::TargetAttr::cuda(context.get()));
  Outcome outcome = runPasses(
      "lower", [](OpPassManager &passes) { buildLowerPipeline(passes); });
  if (outcome == Outcome::Fine)
    refineMemory();
  return outcome;
}

Outcome Compilation::runPackage(StringRef path) {
  Timer timer(*this, "package");
  bool isFile = false;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      lines.push_back("error: " + diagnostic.str());
    isFile |= isFileError(diagnostic);
    return success();
  });
  auto failed = [&](const char *what) {
    return lines.empty() ? fail(Outcome::Internal, what)
           : isFile      ? Outcome::RunTimeFailure
                         : Outcome::WrongUsage;
  };
  PackageContents contents;
  if (options.cuda) {
    GpuOptions gpu;
    gpu.ptxas = options.ptxas;
    gpu.dumpDir = options.kernelDumpDir;
    FailureOr<GpuProgram> kernels = compileGpuKernels(module.get(), gpu);
    if (mlir::failed(kernels))
      return failed("code generation for GPUs failed");
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
  if (mlir::failed(program))
    return failed("code generation failed");
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
  return failed("packaging failed");
}
