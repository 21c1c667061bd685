//===- Execute.cpp - run --------------------------------------------------===//
//
// A model is compiled into a temporary package whose weights stay in the model
// file; a package is run as it is. In a job rank 0 compiles and sends the
// package to the others, so that all run the same bytes.
//
//===----------------------------------------------------------------------===//
#include "../SpellFlags.h"
#include "Commands.h"
#include "Progress.h"
#include "Setup.h"
#include "machine/Calibrate.h"
#include "report/PlanReport.h"
#include "report/Report.h"

#include "kerf/Plan/MeshText.h"
#include "kerf/rt/inputs.h"
#include "kerf/rt/run.h"
#include "kerf/rt/stop.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace kerf;
using namespace kerf::tool;

/// One word of a shell's command line.
static std::string shellWord(const std::string &text) {
  auto isPlain = [](unsigned char c) {
    return llvm::isAlnum(char(c)) || llvm::StringRef("_-./:=,@%+").contains(c);
  };
  if (!text.empty() && llvm::all_of(text, isPlain))
    return text;
  std::string word = "'";
  for (char c : text)
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// The command that shows the plan that was just made, as a shell takes it:
/// with the sizes that --input has told and the machine that was measured. None
/// where that cannot be said: the machine's file is not kept, a name cannot be
/// printed as it is.
static std::string planCommand(const Options &options,
                               const std::string &folder) {
  if (!options.machine.empty() && !folder.empty() &&
      llvm::StringRef(options.machine).starts_with(folder))
    return "";
  std::string text = "kerf plan " + shellWord(options.model);
  if (options.train)
    text += " --train";
  auto add = [&](const std::string &flag) { text += " " + shellWord(flag); };
  for (const std::string &dim :
       options.cacheLength ? options.givenDims : options.dims)
    add("--dim=" + dim);
  if (options.cacheLength)
    add("--cache-length=" + std::to_string(options.cacheLength));
  if (options.planFile.empty()) {
    add("--devices=" + options.devices);
    if (!options.machine.empty())
      add("--machine=" + options.machine);
  }
  for (const std::string &flag : options.planFlags)
    add(flag);
  return rt::printable(text) == text ? text : "";
}

std::string kerf::tool::runsAs(const Options &options,
                               const Compilation &compilation,
                               const std::string &folder, bool wasStopped) {
  Devices devices = parseDevices(options.devices);
  if (devices.count < 2)
    return "";
  // Another search would not stop where this one was told to.
  std::string again =
      wasStopped || options.deadline > 0 ? "" : planCommand(options, folder);
  const llvm::json::Object &plan = compilation.getPlanJson();
  // With micro-batches, ZeRO and what is computed again.
  const llvm::json::Array *plans = plan.getArray("runners_up");
  bool wasSearched = plans && !plans->empty();
  std::string cut = wasSearched ? candidateText(*plans->front().getAsObject())
                                : meshText(plan.getObject("mesh"));
  if (auto parts = int64_t(numberAt(&plan, {"schedule", "micro_batches"}));
      !wasSearched && parts > 1)
    cut += ", " + plural(parts, "micro-batch", "micro-batches");
  if (auto zero = int64_t(numberAt(&plan, {"zero"})); !wasSearched && zero > 0)
    cut += ", ZeRO " + std::to_string(zero);
  // A row of candidates names what the search has found, not what was asked.
  const llvm::json::Array *blocks = plan.getArray("recompute");
  if (blocks && !blocks->empty() && cut.find("again") == std::string::npos)
    cut += ", " + plural(int64_t(blocks->size()), "block") + " computed again";
  return "runs on " + std::to_string(devices.count) +
         (devices.kind == "cpu" ? " ranks of this CPU as " : " GPUs as ") +
         cut + (again.empty() ? "" : "; " + again + " shows this plan");
}

/// The files of flags that give inputs, each once.
static std::set<std::string> filesOf(const std::vector<std::string> &inputs) {
  std::set<std::string> files;
  for (const std::string &flag : inputs)
    files.insert(rt::inputFile(flag));
  return files;
}

void kerf::tool::compileInto(const std::string &package,
                             const std::string &folder, Options &options,
                             bool alone) {
  CompilationOptions compile = compilationOptions(options);
  if (alone && wantsHostMachine(options)) { // the flags were fine
    if (std::string wrong =
            plan::checkDegrees(compile.plan.mesh, compile.plan.devices);
        !wrong.empty())
      throw Failure{kUsage, spellFlags(wrong), {}};
    takeHostMachine(options, folder);
    compile = compilationOptions(options);
  }
  compile.weightsInPlace = true;
  for (const std::string &file : filesOf(options.inputs))
    compile.callerBytes += rt::unpackedBytes(file);
  Progress progress(options, compile);
  Compilation compilation(std::move(compile));
  require(compilation, compilation.runUntil("lower"));
  options.weightsInPlace = true;
  auto prompt = compilePrompt(options, compilation);
  std::vector<Compilation::Further> further;
  if (prompt)
    further.emplace_back("prompt", prompt.get());
  require(compilation, packageInto(compilation, package, further));
  progress.finish();
  printNotes(compilation, options);
  std::string text =
      runsAs(options, compilation, folder, progress.wasStopped());
  if (!options.quiet && !text.empty())
    rt::say(stderr, "note: " + text + "\n");
}

static int runInJob(Options &options, rt::JobScope &job) {
  giveIdleInputs(options);
  if (job.leads()) {
    takeState(options);
    takeInputs(options, /*all=*/true);
  }
  rt::RunOptions run;
  std::optional<TemporaryFolder> folder;
  if (isPackage(options.model)) {
    run.package = options.model;
  } else {
    std::optional<rt::StopNote> early; // until the run takes signals
    openTemporary(folder, early, !job);
    run.package = folder->file("run.kerf");
    run.model = options.model;
    run.skipHashes = true; // written a moment ago
    if (job.leads())
      compileInto(run.package, folder->file(""), options, !job);
    else
      llvm::sys::fs::create_directory(run.package);
    requireStatus(job.shareFolder(run.package));
  }
  run.inputs = options.inputs;
  if (isPackage(options.model)) // a model has been compiled for them
    run.dims = options.dims;
  run.drawsInputs = options.seedGiven || options.randomInputs;
  run.drawnBy = drawnBy(options);
  run.seed = options.seed;
  run.widenOutputs = options.outputType == "f32";
  run.outputDir = options.outputDir;
  run.statsFile = options.stats;
  run.traceFile = options.trace;
  run.inject = options.inject;
  run.repeat = static_cast<int32_t>(options.repeat);
  run.threads = static_cast<int32_t>(options.threads);
  run.timeoutSeconds = options.timeout;
  run.json = options.json;
  run.quiet = options.quiet;
  run.verbose = options.verbose;
  if (startsProcesses(options, job))
    return rt::runPackageInProcesses(run, stdout, onStderr());
  return rt::runPackage(run, job, stdout, onStderr());
}

int kerf::tool::run(const Options &given) {
  return withJob(given, /*takesPackages=*/true, /*handlesTermination=*/false,
                 runInJob);
}
