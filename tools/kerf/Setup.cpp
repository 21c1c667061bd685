//===- Setup.cpp - from options to a compilation --------------------------===//
#include "Setup.h"

#include "../SpellFlags.h"
#include "Commands.h"
#include "files/Cache.h"
#include "files/FileKinds.h"
#include "files/Files.h"
#include "options/GivenPlan.h"
#include "report/Report.h"

#include "kerf/Lower/Gpu.h"
#include "kerf/Plan/MeshText.h"
#include "kerf/rt/printable.h"
#include "kerf/rt/run.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace kerf;
using namespace kerf::tool;

static cost::Machine readMachine(const std::string &name, int64_t devices) {
  requireMachine(name);
  llvm::Expected<cost::Machine> machine = cost::loadMachine(name, devices);
  if (machine)
    return std::move(*machine);
  std::string message = "--machine: " + llvm::toString(machine.takeError());
  // A file that is right by itself has too few devices.
  llvm::Expected<cost::Machine> all = cost::loadMachine(name, 0);
  if (!all || !llvm::StringRef(name).ends_with(".json")) {
    llvm::consumeError(all.takeError());
    throw Failure{kUsage, message, {}};
  }
  throw Failure{
      kUsage,
      "--machine: " + name + " is of " + std::to_string(all->numDevices()) +
          (all->numDevices() == 1 ? " device" : " devices") +
          ", expected at least " + std::to_string(devices) +
          (all->cores > 0 ? ": kerf calibrate --devices=cpu:" +
                                std::to_string(devices) + " measures as many"
                          : ""),
      {}};
}

static std::pair<std::string, std::string>
splitAtEquals(const std::string &text, const std::string &flag, bool last) {
  size_t equals = last ? text.rfind("=[") : text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Failure{
        kUsage,
        flag + ": '" + text + "', expected " +
            (last ? "REGEX=[{axis},{}]" : "NAME=@FILE.npy or NAME=1,2,3"),
        {}};
  std::string value = text.substr(equals + 1);
  // Brackets that do not match are a slip that a search would not show.
  std::string open;
  bool matches = true;
  for (char c : last ? value : std::string()) {
    if (c == '[' || c == '{' || c == '(')
      open += c == '[' ? ']' : c == '{' ? '}' : ')';
    else if (c == ']' || c == '}' || c == ')') {
      matches &= !open.empty() && open.back() == c;
      if (!open.empty())
        open.pop_back();
    }
  }
  if (!matches || !open.empty())
    throw Failure{kUsage,
                  flag + ": '" + text +
                      "': brackets do not match, expected REGEX=[{axis},{}]",
                  {}};
  return {text.substr(0, equals), value};
}

template <typename T> static T parsed(llvm::Expected<T> result) {
  if (!result)
    throw Failure{kUsage, llvm::toString(result.takeError()), {}};
  return std::move(*result);
}

static void setPrecision(const Options &o, CompilationOptions &result) {
  using autodiff::Precision;
  result.precision = *autodiff::parsePrecision(o.precision);
  if (result.precision == Precision::TF32 && !result.cuda)
    throw Failure{kUsage,
                  std::string("--precision=tf32 is arithmetic of GPUs, "
                              "expected --devices=cuda:...") +
                      (o.plansAlone ? " or a --machine of GPUs" : "") +
                      " (CPUs: f32, bf16 or f16)",
                  {}};
  if (result.precision == Precision::TF32)
    result.plan.machine = cost::roundProducts(std::move(result.plan.machine));
  if (result.givenPlan || (result.resume && result.resume->plan))
    requireSame(o, result, "--precision", "precision",
                toString(result.precision));
}

std::vector<std::string>
kerf::tool::namesOf(const std::vector<std::string> &trainable) {
  std::vector<std::string> names;
  for (const std::string &text : trainable)
    names.push_back(text.substr(text.compare(0, 1, "+") == 0));
  return names;
}

/// The training step; --accumulate is another word for --micro-batches.
static void setTraining(const Options &o, CompilationOptions &result) {
  autodiff::AutodiffOptions &t = result.training.emplace();
  result.import.trainingForms = ImportOptions::TrainingForms::Keep;
  result.import.smallWeights = true;
  result.import.scalarWeights = namesOf(o.trainable);
  result.import.untie = true;
  result.import.tied = o.tied;
  t.loss = parsed(autodiff::parseLoss(o.loss));
  t.optimizer = parsed(
      autodiff::parseOptimizer(o.optimizer.empty() ? "sgd" : o.optimizer));
  t.trainable = o.trainable;
  t.frozen = o.frozen;
  if (o.clipNorm > 0)
    t.clipNorm = o.clipNorm;
  t.skipNonFinite = o.onNan == "skip";
  t.precision = result.precision;
  if (!o.gradientDtype.empty())
    t.gradientDtype = autodiff::parsePrecision(o.gradientDtype);
  t.batchNorm = o.batchNorm == "frozen"  ? autodiff::BatchNormMode::Frozen
                : o.batchNorm == "local" ? autodiff::BatchNormMode::Local
                                         : autodiff::BatchNormMode::Sync;
  plan::PlanOptions &p = result.plan;
  if (o.accumulate > 1) {
    if (p.microBatches.value_or(o.accumulate) != o.accumulate)
      throw Failure{kUsage,
                    "--accumulate is " + std::to_string(o.accumulate) +
                        ", --micro-batches " + std::to_string(*p.microBatches) +
                        ", expected the same number",
                    {}};
    if (!p.microBatches)
      p.microBatchesOption = "accumulate";
    p.microBatches = o.accumulate;
  }
  t.microBatches = p.microBatches.value_or(1);
  for (const auto &[name, size] : p.mesh)
    if (name == "dp")
      t.dataParallel = size;
  if (result.givenPlan)
    takeFromPlan(*result.givenPlan, t);
  if (result.givenPlan)
    requireSame(o, result, "--gradient-dtype", "gradient_dtype",
                autodiff::gradientDtypeName(t));
  if (t.batchNorm == autodiff::BatchNormMode::Local && p.devices > 1 &&
      t.dataParallel == 1)
    throw Failure{kUsage,
                  "--batch-norm=local: statistics are those of a data-parallel "
                  "rank, which --mesh=dp=N must say",
                  {}};
}

/// Options of planning have no effect behind it, and are refused.
static const char *plannedBy(const Options &o) {
  return !o.mesh.empty()          ? "--mesh"
         : !o.shards.empty()      ? "--shard"
         : o.solver != "auto"     ? "--solver"
         : o.objective != "time"  ? "--objective"
         : !o.memoryLimit.empty() ? "--memory-limit"
         : o.deadline > 0         ? "--deadline"
         : o.microBatches > 0     ? "--micro-batches"
         : o.schedule != "auto"   ? "--schedule"
         : o.chunks > 0           ? "--chunks"
         : o.recompute != "auto"  ? "--recompute"
         : o.zero != "auto"       ? "--zero"
         : !o.batchDims.empty()   ? "--batch-dim"
         : o.train                ? "--train"
                                  : nullptr;
}

void kerf::tool::takeResumption(Options &o) {
  if (o.from.empty()) {
    if (llvm::StringRef(o.model).ends_with(".mlir"))
      throw Failure{kUsage,
                    o.model + ": is IR, not a model",
                    {"kerf compile --from=PHASE goes on from what was printed "
                     "after a phase"}};
    return;
  }
  if (o.from == "import" || o.from == "autodiff")
    return;
  if (const char *flag = plannedBy(o))
    throw Failure{kUsage,
                  std::string(flag) + ": the IR after " + o.from +
                      " is planned already",
                  {}};
  if (!o.planFile.empty())
    return;
  llvm::SmallString<128> beside(llvm::sys::path::parent_path(o.model));
  llvm::sys::path::append(beside, "plan.json");
  o.planFile = beside.str().str();
}

/// --machine without --devices: all that it has. `cpu` has as many as asked
/// for.
static void takeMachine(Options &o) {
  if (o.devicesGiven || o.machine.empty() || o.machine == "cpu")
    return;
  o.devices = std::to_string(readMachine(o.machine, 0).numDevices());
  o.devicesGiven = o.devicesOfMachine = true;
}

/// More than --devices, whose number follows from the mesh where it is away.
static void refuseLargerMesh(const Options &o) {
  std::vector<std::pair<std::string, int64_t>> mesh;
  if (!plan::parseMeshText(o.mesh, mesh).empty())
    return;
  int64_t devices = parseDevices(o.devices).count, product = 1;
  for (const auto &[name, size] : mesh)
    product *= size < 1 || product > devices ? 1 : size;
  std::string wrong = plan::checkDegrees(mesh, devices);
  if (product > devices && !wrong.empty())
    throw Failure{kUsage,
                  spellFlags(wrong),
                  {"without --devices there are as many as the mesh has"}};
}

void kerf::tool::takeMesh(Options &o) {
  std::vector<std::pair<std::string, int64_t>> mesh;
  bool isOfCPU = o.machine.empty() || o.machine == "cpu";
  if (o.devicesGiven && isOfCPU && o.planFile.empty() && !o.mesh.empty())
    refuseLargerMesh(o);
  if (o.devicesGiven || !(o.machine.empty() || o.machine == "cpu") ||
      o.mesh.empty() || !o.planFile.empty() ||
      !plan::parseMeshText(o.mesh, mesh).empty())
    return; // what is wrong is said where the mesh is used
  constexpr int64_t kMost = 65536; // as of --devices
  int64_t product = 1;
  for (const auto &[name, size] : mesh) {
    if (size < 1 || size > kMost / product)
      return;
    product *= size;
  }
  o.devices = std::to_string(product);
}

void kerf::tool::noteOtherMachine(const Options &o, bool makesProgram) {
  bool isAsked = llvm::StringRef(o.devices).starts_with("cpu");
  if (o.quiet || o.machine.empty() || !(isAsked || makesProgram) ||
      parseDevices(o.devices).kind != "cpu" ||
      readMachine(o.machine, 0).cores > 0)
    return;
  llvm::errs() << "note: the plan is made for " << o.machine
               << " (--machine), and runs on ranks of a CPU (--devices="
               << o.devices << ")\n";
}

void kerf::tool::noteLimit(const Options &o) {
  if (o.quiet || o.memoryLimit.empty() || o.machine.empty())
    return;
  int64_t limit = parseBytes(o.memoryLimit, "--memory-limit"),
          has = readMachine(o.machine, 0).memoryBytesPerDevice;
  if (has > 0 && limit > has)
    llvm::errs() << "note: --memory-limit=" << o.memoryLimit
                 << " is more than a device of " << o.machine << " has ("
                 << formatBytesBeside(static_cast<double>(has),
                                      static_cast<double>(limit))
                 << "): the plan may not run there\n";
}

void kerf::tool::noteOneGpu(const Options &o) {
  Devices devices = parseDevices(o.devices);
  if (o.quiet || devices.kind != "cuda" || devices.count != 1 ||
      devices.ids[0] < 2)
    return;
  llvm::errs() << "note: --devices=" << o.devices
               << " is one GPU, the one of number " << devices.ids[0]
               << "; cuda:0-" << devices.ids[0] - 1 << " are " << devices.ids[0]
               << "\n";
}

void kerf::tool::takeDevices(Options &o) {
  if (o.planFile.empty()) {
    takeMachine(o);
    return takeMesh(o);
  }
  const llvm::json::Value plan = o.from.empty() ? readPlan(o) : readPlanOfIR(o);
  const llvm::json::Object *root = plan.getAsObject();
  const llvm::json::Object *mesh = root ? root->getObject("mesh") : nullptr;
  int64_t devices = 1;
  for (const auto &[name, value] : mesh ? *mesh : llvm::json::Object()) {
    int64_t size = value.getAsInteger().value_or(0);
    if (size < 1 || size > 65536 || devices * size > 65536)
      return; // reported when the plan is read
    devices *= size;
  }
  if (!mesh)
    return;
  if (!o.devicesGiven)
    o.devices = std::to_string(devices);
  else if (parseDevices(o.devices).count != devices)
    throw Failure{kUsage,
                  o.planFile + ": its mesh of " + meshText(mesh) + " is for " +
                      std::to_string(devices) +
                      (devices == 1 ? " device" : " devices") +
                      ", --devices=" + o.devices + " are " +
                      std::to_string(parseDevices(o.devices).count),
                  {}};
}

/// What is compiled runs on the devices that --devices names. A plan is a plan
/// for the machine: a number of devices is one of GPUs where that has GPUs.
static bool isForGpus(const Options &o, const cost::Machine &machine) {
  if (parseDevices(o.devices).kind == "cuda")
    return true;
  return o.plansAlone && machine.cores == 0 &&
         !llvm::StringRef(o.devices).starts_with("cpu");
}

/// --dim, --constant and --batch-dim, each of which may be given several times.
static void setBindings(const Options &o, CompilationOptions &result) {
  for (const std::string &text : o.dims) {
    auto [name, size] = parseBinding(text, "--dim");
    if (size < 1)
      throw Failure{kUsage,
                    "--dim: \"" + name + "\" has size " + std::to_string(size) +
                        ", expected at least 1",
                    {}};
    auto [known, added] = result.import.dims.try_emplace(name, size);
    if (!added && known->second != size)
      throw Failure{kUsage,
                    "--dim: \"" + name + "\" is both " +
                        std::to_string(known->second) + " and " +
                        std::to_string(size),
                    {}};
  }
  for (const std::string &text : o.constants) {
    auto [name, value] = splitAtEquals(text, "--constant", false);
    result.import.constants[name] = value;
  }
  for (const std::string &text : o.batchDims) {
    auto [name, dim] = parseBinding(text, "--batch-dim");
    result.import.batchDims[name] = dim;
    result.plan.batchDims[name] = dim;
  }
}

/// The machine of --machine, or what is usual for --devices.
static void setMachine(const Options &o, CompilationOptions &result) {
  plan::PlanOptions &p = result.plan;
  p.devices = parseDevices(o.devices).count;
  result.machine = !o.machine.empty()                       ? o.machine
                   : parseDevices(o.devices).kind == "cuda" ? "h100-8"
                                                            : "cpu";
  p.machine = readMachine(result.machine, p.devices);
  if (parseDevices(o.devices).kind == "cuda" && p.machine.cores > 0)
    throw Failure{kUsage,
                  "--machine=" + result.machine +
                      " describes ranks that share the cores of a CPU, "
                      "--devices=" +
                      o.devices + " asks for GPUs",
                  {}};
}

/// What is asked of the plan, and how it is searched.
static void setSearch(const Options &o, plan::PlanOptions &p,
                      CompilationOptions &result) {
  if (std::string wrong = plan::parseMeshText(o.mesh, p.mesh); !wrong.empty())
    throw Failure{kUsage, spellFlags(wrong), {}};
  for (const std::string &text : o.shards) {
    auto [pattern, sharding] = splitAtEquals(text, "--shard", true);
    p.hints.push_back({pattern, sharding});
  }
  p.objective =
      o.objective == "volume" ? plan::Objective::Volume : plan::Objective::Time;
  p.volumeModel = *cost::parseVolumeModel(o.costModel);
  p.solver = o.solver == "random"        ? plan::SolverKind::Random
             : o.solver == "brute-force" ? plan::SolverKind::BruteForce
                                         : plan::SolverKind::Auto;
  p.seed = o.seed;
  p.deadlineSeconds = o.deadline;
  if (!o.memoryLimit.empty())
    p.memoryLimitBytes = parseBytes(o.memoryLimit, "--memory-limit");
  if (p.memoryLimitBytes == 0)
    throw Failure{kUsage,
                  "--memory-limit: '" + o.memoryLimit +
                      "', expected more than 0",
                  {}};
  if (o.microBatches > 0)
    p.microBatches = o.microBatches;
  if (o.train && o.recompute == "auto")
    p.searchRecomputation = true;
  else if (o.train && o.recompute != "none")
    result.recomputeEvery = o.recompute == "all" ? 1 : std::stoll(o.recompute);
  p.searchZero = o.train && o.zero == "auto";
  if (o.train && !p.searchZero)
    p.zero = *plan::parseZero(o.zero);
  if (o.schedule != "auto")
    p.schedule = cost::parseScheduleKind(o.schedule);
  if (o.chunks > 0 && o.planFile.empty() && o.schedule != "interleaved")
    throw Failure{kUsage, "--chunks is of --schedule=interleaved", {}};
  if (o.chunks > 0)
    p.chunks = o.chunks;
}

/// --from and --plan: what was decided before.
static void setGiven(const Options &o, CompilationOptions &result) {
  bool isPlanned =
      !o.from.empty() && o.from != "import" && o.from != "autodiff";
  if (!o.from.empty()) {
    result.resume.emplace();
    result.resume->phase = o.from;
  }
  if (isPlanned) {
    result.resume->plan = readPlanOfIR(o);
    result.givenPlanPath = o.planFile;
  } else if (!o.planFile.empty()) {
    result.givenPlan = readPlan(o);
    result.givenPlanPath = o.planFile;
    requireSchedule(*result.givenPlan, o);
  }
}

/// What code is generated for, and where it is kept.
static void setCode(const Options &o, CompilationOptions &result) {
  result.targetCpu = !o.targetCpu.empty() ? o.targetCpu
                     : result.cuda        ? "x86-64-v2"
                                          : "host";
  result.objectCache = kernelCache(o);
  result.hostKernels = o.hostKernels;
  if (o.fusedAttention && o.precision != "bf16" && o.precision != "f16")
    throw Failure{kUsage,
                  "--fused-attention needs --precision=bf16 or f16",
                  {"no library has attention of f32 as one call"}};
  if (o.fusedAttention && !o.from.empty())
    throw Failure{kUsage,
                  "--fused-attention: what is attention was decided in import",
                  {}};
  result.fusedAttention = o.fusedAttention;
  result.kernelDumpDir = o.kernelDumpDir;
  if (result.cuda) {
    std::string message;
    result.ptxas = findPtxas(o.ptxas, message);
    if (!message.empty())
      throw Failure{kUsage, "--ptxas: " + message, {}};
  }
}

CompilationOptions kerf::tool::compilationOptions(const Options &o) {
  CompilationOptions result;
  result.model = o.model;
  setBindings(o, result);
  setMachine(o, result);
  setSearch(o, result.plan, result);
  setGiven(o, result);
  result.cuda = isForGpus(o, result.plan.machine);
  setPrecision(o, result);
  if (o.train)
    setTraining(o, result);
  setCode(o, result);
  result.dumpDir = o.dumpDir;
  result.state = stateOptions(o);
  if (o.train && !o.states.empty())
    throw Failure{kUsage, "--state: training keeps its own state", {}};
  result.import.without = o.without;
  if (o.asInference) {
    result.import.trainingForms = ImportOptions::TrainingForms::AsInference;
    result.import.formsAreAsked = true;
  }
  result.failPhase = o.failPhase;
  result.explain = o.explain;
  return result;
}

void kerf::tool::require(const Compilation &compilation, Outcome outcome) {
  if (outcome == Outcome::Fine)
    return;
  Failure failure{static_cast<int>(outcome), "", compilation.messages()};
  throw failure;
}

/// The one axis with rules of its own that a name is nearly; others are names
/// like any.
static std::string meantAxis(llvm::StringRef name) {
  std::string meant;
  for (const char *known : {"dp", "tp", "pp"}) {
    unsigned edits = name.edit_distance(known);
    if (edits == 0 || (edits == 1 && !meant.empty()))
      return "";
    if (edits == 1 && name.size() > 1)
      meant = known;
  }
  return meant;
}

std::vector<std::string> kerf::tool::notesOf(const Compilation &compilation,
                                             const Options &o) {
  std::vector<std::string> notes;
  if (o.train && o.optimizer.empty())
    notes.push_back("--optimizer is not given: the step is that of sgd, which "
                    "keeps no state");
  std::vector<std::pair<std::string, int64_t>> mesh;
  if (plan::parseMeshText(o.mesh, mesh).empty())
    for (const auto &[axis, size] : mesh)
      if (std::string meant = meantAxis(axis); !meant.empty())
        notes.push_back("--mesh: axis '" + axis +
                        "' may cut anything, did you mean '" + meant + "'?");
  for (const std::string &note : compilation.getNotes())
    notes.push_back(spellFlags(note));
  return notes;
}

void kerf::tool::printNotes(const Compilation &compilation, const Options &o) {
  if (!o.quiet)
    for (const std::string &note : notesOf(compilation, o))
      rt::say(stderr, rt::noteLine(note));
}

bool kerf::tool::isPackage(const std::string &path) {
  return llvm::sys::fs::is_directory(path);
}

void kerf::tool::writeFile(const std::string &path,
                           const std::string &content) {
  rt::FileSet files;
  std::string error;
  if (!files.add(path, content, error) || !files.commit(error))
    throw Failure{kRunTime, error, {}};
}

/// In a job every device is a process.
static void fitDevices(Options &options, int32_t size) {
  if (!options.devicesGiven)
    options.devices = std::to_string(size);
  int64_t count = parseDevices(options.devices).count;
  if (count != size)
    throw Failure{kUsage,
                  "--devices=" + options.devices + " needs " +
                      std::to_string(count) + " processes, the job has " +
                      std::to_string(size),
                  {}};
}

/// The processes are there.
static void refuseProcesses(const Options &options) {
  if (options.ranks == "processes")
    throw Failure{kUsage,
                  "--ranks=processes: this process is one of a job that mpirun "
                  "or the like has started",
                  {}};
}

int kerf::tool::withJob(
    const Options &given, bool takesPackages, bool handlesTermination,
    const std::function<int(Options &, rt::JobScope &)> &body) {
  Options options = given;
  rt::JobScope job;
  const kerf_signals_t *signals =
      rt::insideJob() ? rt::handleJobSignals(!handlesTermination) : nullptr;
  if (kerf_status_t status = job.join(options.timeout, signals))
    return rt::reportStatus(status, options.model, onStderr());
  try {
    if (!job || job.leads()) {
      requireModel(options.model, takesPackages);
      takeDevices(options);
      noteOtherMachine(options, /*makesProgram=*/true);
      noteLimit(options);
      checkFiles(options, OutputKind::Model, !isPackage(options.model));
    }
    if (job)
      refuseProcesses(options);
    if (job && !isPackage(options.model))
      fitDevices(options, job.size());
    return body(options, job);
  } catch (const Failure &failure) {
    if (!job)
      throw;
    if (!job.leads())
      return job.fail(failure.message, onStderr());
    return job.leave(printFailure(failure), stderr);
  }
}

void kerf::tool::requireStatus(kerf_status_t status) {
  if (!status)
    return;
  Failure failure{
      kerf_status_exit_code(status), kerf_status_message(status), {}};
  kerf_status_free(status);
  throw failure;
}

bool kerf::tool::startsProcesses(const Options &options,
                                 const rt::JobScope &job) {
  if (options.ranks != "auto" || job || isPackage(options.model))
    return options.ranks == "processes" && !job;
  Devices devices = parseDevices(options.devices);
  return devices.kind == "cuda" && devices.count > 1;
}
