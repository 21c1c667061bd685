//===- Compilation.cpp - the phases over one module -----------------------===//
#include "kerf/Pipelines/Compilation.h"

#include "CollectiveSeconds.h"
#include "PlanDocument.h"
#include "PlanNotes.h"
#include "Timer.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Import/Passes.h"
#include "kerf/Import/Simplify.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Gpu.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"
#include "kerf/Package/Package.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/FailPass.h"
#include "kerf/Pipelines/Register.h"
#include "kerf/Pipelines/VerifyIR.h"
#include "kerf/Plan/Passes.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Support/ModelNode.h"
#include "kerf/Support/WrapLines.h"
#include "kerf/Support/WriteFile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace mlir;
using namespace kerf;

Compilation::Compilation(CompilationOptions options)
    : options(std::move(options)) {
  DialectRegistry registry;
  registerDialects(registry);
  context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  // Messages name the node; printing the whole op behind them does not help.
  context->printOpOnDiagnostic(false);
}

Compilation::~Compilation() = default;

exec::TargetAttr Compilation::target() const {
  return exec::TargetAttr::get(context.get(), options.cuda ? exec::Device::Cuda
                                                           : exec::Device::Cpu);
}

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

/// Dumps are read side by side with source code.
static constexpr size_t kDumpColumns = 120;

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
  // Written with everything that another phase reads, locations too, so that a
  // compilation can continue from the file.
  llvm::Error error = writeFile(path, [&](llvm::raw_ostream &stream) {
    std::string text;
    llvm::raw_string_ostream printed(text);
    OpPrintingFlags flags;
    flags.enableDebugInfo();
    module->print(printed, flags);
    writeWrapped(stream, text, kDumpColumns);
    stream << "\n";
  });
  if (error)
    return fail(Outcome::RunTimeFailure, llvm::toString(std::move(error)));
  return dumpPlan();
}

/// Writes plan.json into the folder of the IR dumps, if there is a plan.
Outcome Compilation::dumpPlan() {
  if (options.dumpDir.empty() || planJson.empty())
    return Outcome::Fine;
  llvm::SmallString<128> path(options.dumpDir);
  llvm::sys::path::append(path, "plan.json");
  if (llvm::Error error = writeFile(path, [&](llvm::raw_ostream &stream) {
        stream << planText(planJson);
      }))
    return fail(Outcome::RunTimeFailure, llvm::toString(std::move(error)));
  return Outcome::Fine;
}

Outcome Compilation::readModel() {
  Timer timer(*this, "import");
  // The message is about the model; MLIR's own diagnostics would repeat it.
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
  return Outcome::Fine;
}

Outcome Compilation::runImport() {
  if (Outcome outcome = readModel(); outcome != Outcome::Fine)
    return outcome;
  double seconds = times.back().second;
  times.pop_back();
  StateRun stateRun;
  auto build = [&](OpPassManager &passes) {
    if (options.simplify)
      passes.addPass(createSimplifyImport());
    if (options.state.automatic || !options.state.pairs.empty()) {
      // Masks are found in their simple form, and are another thing behind it.
      passes.addPass(createKeepStatePass(options.state, stateRun));
      if (options.simplify)
        passes.addPass(createSimplifyImport());
    }
    passes.addPass(createSampleRanges());
    if (options.fusedAttention) {
      RecogniseAttentionOptions attention;
      attention.wide = true; // it is rounded below, or in autodiff
      attention.training = options.training.has_value();
      passes.addPass(createRecogniseAttention(attention));
    }
    // The guarantees of import are checked before another pass relies on them.
    passes.addPass(createVerifyAfterImport());
    // Training rounds after it has built the loss, which stays wide.
    if (!options.training && options.precision != autodiff::Precision::F32)
      passes.addPass(autodiff::createLowerPrecision({options.precision}));
  };
  Outcome outcome = runPasses("import", build, [&]() -> std::optional<Outcome> {
    if (stateRun.message.empty())
      return std::nullopt;
    return failWith(
        stateRun.isRequest ? Outcome::WrongUsage : Outcome::ModelRefused,
        options.model + ": " + stateRun.message +
            (stateRun.note.empty() ? "" : "\nnote: ") + stateRun.note);
  });
  states = std::move(stateRun.states);
  times.back().second += seconds;
  if (outcome == Outcome::Fine && options.fusedAttention &&
      !module->walk([](nn::AttentionOp) { return WalkResult::interrupt(); })
           .wasInterrupted())
    report.notes.push_back("option fused-attention: the model has no attention "
                           "that is one call");
  // Lowering refuses them, too; here it is said before anything is planned.
  if (outcome == Outcome::Fine && !target().getRunsLoops()) {
    std::string node;
    module->walk([&](nn::LoopOp loop) { node = modelNode(loop.getLoc()); });
    if (!node.empty())
      return fail(Outcome::ModelRefused,
                  options.model + ":" + node +
                      ": a loop whose number of iterations is computed, or "
                      "large, runs on CPUs alone");
  }
  return outcome;
}

Outcome Compilation::runAutodiff() {
  if (!options.training)
    return Outcome::Fine;
  if (auto main = dist::findEntry(module.get()))
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      if (auto name = main.getResultAttrOfType<StringAttr>(i, kNameAttr))
        outputs.push_back(name.getValue().str());
  autodiff::AutodiffRun run;
  Outcome outcome = runPasses(
      "autodiff",
      [&](OpPassManager &passes) {
        passes.addPass(autodiff::createAutodiffPass(*options.training, run));
        passes.addPass(autodiff::createVerifyAfterAutodiff());
      },
      [&]() -> std::optional<Outcome> {
        const autodiff::AutodiffFailure &why = run.failure;
        for (const auto &message : why.messages)
          lines.push_back((message.isNote  ? "note: "
                           : why.isRequest ? "error: "
                                           : "error: " + options.model + ":") +
                          message.text);
        if (run.result || why.messages.empty())
          return std::nullopt;
        return why.isRequest ? Outcome::WrongUsage : Outcome::ModelRefused;
      });
  if (outcome != Outcome::Fine)
    return outcome;
  trained = std::move(*run.result);
  trainingNotes = trained.notes;
  noteUntied();
  noteNumbers();
  noteFolded();
  noteLeftOut();
  return Outcome::Fine;
}

/// Inputs that nothing reads are no arguments of a step.
static void keepNamesOfArguments(llvm::StringMap<int64_t> &dims,
                                 ModuleOp module) {
  std::set<StringRef> names;
  if (func::FuncOp main = dist::findEntry(module))
    for (unsigned index = 0; index < main.getNumArguments(); ++index)
      if (auto name = main.getArgAttrOfType<StringAttr>(index, kNameAttr))
        names.insert(name.getValue());
  for (auto it = dims.begin(); it != dims.end();) {
    auto entry = it++;
    if (names.count(entry->getKey()) == 0)
      dims.erase(entry);
  }
}

Outcome Compilation::runPlan() {
  exec::TargetAttr target = this->target();
  options.plan.memoryBound = target.getMemoryBound();
  options.plan.fixedEpilogue =
      target.getEpilogue() == exec::EpilogueForm::Fixed;
  options.plan.sumsByBlock = target.getSumsByBlock();
  keepNamesOfArguments(options.plan.batchDims, module.get());
  if (Outcome outcome = leaveRoom(); outcome != Outcome::Fine)
    return outcome;
  if (options.beforePlan)
    options.beforePlan(module.get());
  Outcome outcome = options.givenPlan ? takePlan() : makePlan();
  if (outcome != Outcome::Fine)
    return outcome;
  if (options.afterPlan)
    options.afterPlan(module.get());
  return dump("plan");
}

Outcome Compilation::takePlan() {
  plan::PlanRun run;
  Outcome outcome = runPasses(
      "plan",
      [&](OpPassManager &passes) {
        passes.addPass(
            plan::createApplyPlanPass(*options.givenPlan, options.givenPlanPath,
                                      options.plan, options.machine, run));
      },
      [&]() -> std::optional<Outcome> {
        if (run.message.empty())
          return std::nullopt;
        return fail(Outcome::WrongUsage,
                    options.givenPlanPath + ": " + run.message);
      });
  if (outcome != Outcome::Fine)
    return outcome;
  planned = std::move(*run.result);
  int64_t devices = dist::getMesh(module.get()).toMesh().numRanks();
  if (options.plan.devices != devices)
    return fail(Outcome::WrongUsage,
                options.givenPlanPath + ": its mesh is of " + Twine(devices) +
                    " devices, expected " + Twine(options.plan.devices) +
                    " (option devices)");
  planJson = givenDocument(options, planned, module.get());
  if (!planned.isPriced)
    planningNotes.push_back(options.givenPlanPath +
                            ": cuts an op in a way that planning does not look "
                            "at: its seconds are not predicted");
  for (std::string &note : planNotes(module.get()))
    planningNotes.push_back(std::move(note));
  return Outcome::Fine;
}

void Compilation::addPlanning(OpPassManager &passes, plan::PlanRun &run) const {
  if (options.recomputeEvery > 0)
    passes.addPass(plan::createRecompute({options.recomputeEvery}));
  passes.addPass(plan::createPlanPass(options.plan, options.machine, run));
}

Outcome Compilation::makePlan() {
  plan::PlanRun run;
  run.mayGoOn = mayGoOn || !options.explain.empty();
  if (!options.explain.empty())
    if (std::string wrong = plan::checkExplained(module.get(), explainedName());
        !wrong.empty()) {
      std::string asked = plan::checkExplained(module.get(), options.explain);
      if (asked != wrong)
        asked += "\nnote: node '" + explainedName() + "', which computes '" +
                 options.explain + "', was taken apart or is not needed";
      return failWith(Outcome::WrongUsage, asked + noteOnOutput());
    }
  Outcome outcome = runPasses(
      "plan", [&](OpPassManager &passes) { addPlanning(passes, run); },
      [&]() -> std::optional<Outcome> {
        if (run.error == plan::PlanError::None)
          return std::nullopt;
        noteOtherName(run.message);
        if (run.error == plan::PlanError::BadRequest)
          // What is wrong is an option by itself, or one for this model.
          return failWith(Outcome::WrongUsage,
                          StringRef(run.message).starts_with("option ")
                              ? run.message
                              : options.model + ": " + run.message);
        return failWith(run.error == plan::PlanError::Stopped
                            ? Outcome::Interrupted
                            : Outcome::NoPlan,
                        options.model + ": " + run.message);
      });
  if (outcome != Outcome::Fine)
    return outcome;
  notePlanning();
  planning = std::move(run.planning);
  takePlanned(std::move(*run.result));
  if (options.recomputeEvery > 0 && planned.recomputed.empty())
    planningNotes.push_back(
        "option recompute: the forward pass has no blocks of which the "
        "backward pass reads more than what goes in and out");
  if (options.plan.schedule && planned.stages.size() <= 1)
    planningNotes.push_back("option schedule: the best plan has no stages to "
                            "order (option mesh=pp=P asks for P)");
  return Outcome::Fine;
}

std::string Compilation::explainedName() const {
  // What the model computes has the names of nodes.
  auto node = report.nodeOfOutput.find(options.explain);
  return node == report.nodeOfOutput.end() ||
                 plan::checkExplained(planning ? planning->getModule()
                                               : module.get(),
                                      options.explain)
                     .empty()
             ? options.explain
             : node->second;
}

Outcome Compilation::runExplain() {
  if (options.explain.empty())
    return Outcome::Fine;
  Timer timer(*this, "explain");
  std::string message;
  FailureOr<plan::Explanation> found =
      planning->explain(explainedName(), message);
  if (failed(found))
    return failWith(Outcome::WrongUsage, message);
  explanation = std::move(*found);
  return Outcome::Fine;
}

void Compilation::takePlanned(plan::PlanResult result) {
  planned = std::move(result);
  planningNotes = planNotes(module.get());
  if (planned.isCutShort)
    planningNotes.insert(planningNotes.begin(),
                         "the search was ended by option deadline: this is the "
                         "best plan so far, and the bound is of what was "
                         "looked at and what was not");
  planJson = planDocument(options, planned, module.get());
}

Outcome Compilation::failWith(Outcome outcome, const Twine &message) {
  std::string text = message.str();
  llvm::SmallVector<StringRef> split;
  StringRef(text).split(split, '\n', -1, /*KeepEmpty=*/false);
  lines.push_back(("error: " + split[0]).str());
  for (StringRef line : llvm::drop_begin(split))
    lines.push_back(line.str());
  return outcome;
}

std::string Compilation::textOf(PassManager &passes) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  passes.printAsTextualPipeline(stream);
  return text;
}

Outcome
Compilation::runPasses(StringRef phase,
                       llvm::function_ref<void(OpPassManager &)> build,
                       llvm::function_ref<std::optional<Outcome>()> refuse) {
  Timer timer(*this, phase);
  std::vector<std::string> diagnosed;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return success();
    // A shorter message about the reproducer follows below.
    if (StringRef(diagnostic.str()).starts_with("Failures have been detected"))
      return success();
    std::string node;
    if (auto name = diagnostic.getLocation()->findInstanceOf<NameLoc>())
      node = ":" + name.getName().str();
    diagnosed.push_back("error: " + options.model + node + ": " +
                        diagnostic.str());
    for (Diagnostic &note : diagnostic.getNotes())
      diagnosed.push_back("note: " + note.str());
    return success();
  });
  PassManager passes(context.get(), ModuleOp::getOperationName());
  passes.enableVerifier(false); // once, behind all of them
  build(passes);
  if (options.failPhase == phase)
    passes.addPass(createFailPass());
  pipelines.push_back({phase.str(), textOf(passes)});
  passes.addPass(createVerifyIR());
  // A pass that fails on a plan of ours has a bug: keep a reproducer. Plans and
  // IR written by the user can be wrong. No reproducer is kept for passes that
  // may refuse their input, since it would need a copy of the module.
  llvm::SmallString<128> reproducer;
  bool ours = !options.givenPlan && !options.resume;
  // The file is made where it is needed: a signal leaves none.
  if (ours && !refuse &&
      !llvm::sys::fs::getPotentiallyUniqueTempFileName("kerf-reproducer",
                                                       "mlir", reproducer))
    passes.enableCrashReproducerGeneration(reproducer);
  LogicalResult result = passes.run(module.get());
  if (succeeded(result))
    return phase == "plan" ? Outcome::Fine : dump(phase);
  if (refuse)
    if (std::optional<Outcome> refused = refuse())
      return *refused;
  constexpr size_t kMax = 8; // enough to show a fault that is everywhere
  for (size_t i = 0; i < std::min(kMax, diagnosed.size()); ++i)
    lines.push_back(diagnosed[i]);
  if (diagnosed.size() > kMax)
    lines.push_back("note: and " + std::to_string(diagnosed.size() - kMax) +
                    " more");
  if (diagnosed.empty())
    lines.push_back("error: " + options.model + ": " + phase.str() + " failed");
  if (options.resume && options.resume->phase == phase)
    lines.push_back("note: this is not what " + phase.str() +
                    " gives: edited, or printed after another phase?");
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
  noteSent(planJson);
  return Outcome::Fine;
}

bool Compilation::hasAutodiff() const {
  return options.training ||
         (options.resume && options.resume->phase == "autodiff");
}

Outcome Compilation::runUntil(StringRef phase) {
  std::vector<std::pair<StringRef, Step>> phases;
  for (const auto &entry : kPhases)
    if (hasAutodiff() || entry.first != "autodiff")
      phases.push_back(entry);
  if (options.resume) {
    auto last = llvm::find_if(phases, [&](const auto &entry) {
      return entry.first == options.resume->phase;
    });
    assert(last != phases.end() && "options name no phase");
    phases.erase(phases.begin(), last);
    phases.front().second = &Compilation::runResume;
  }
  std::string names;
  for (const auto &[name, run] : phases) {
    names += (names.empty() ? "" : ", ") + name.str();
    if (name != phase)
      continue;
    mayGoOn = phase == "lower" && memoryLimit();
    size_t timesBefore = 0;
    size_t dumpsBefore = 0;
    for (const auto &[each, step] : phases) {
      if (each == "plan") {
        timesBefore = times.size();
        dumpsBefore = dumps;
      }
      if (Outcome outcome = (this->*step)(); outcome != Outcome::Fine)
        return outcome;
      if (each == phase)
        break;
    }
    if (Outcome outcome = planning && memoryLimit()
                              ? obeyLimit(timesBefore, dumpsBefore)
                              : Outcome::Fine;
        outcome != Outcome::Fine)
      return outcome;
    return planning && phase == "lower" ? runExplain() : Outcome::Fine;
  }
  return fail(Outcome::WrongUsage, "option stop-after: no phase '" + phase +
                                       "', expected one of " + names);
}
