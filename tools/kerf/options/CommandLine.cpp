//===- CommandLine.cpp - one command, from its arguments to its exit code -===//
//
//   kerf inspect | plan | compile | run | generate | train | verify  model.onnx
//   ... kerf report   plan.json | run.json kerf calibrate
//
// Errors are one line "error: FILE[:NODE]: reason" and notes on stderr, with
// the exit codes of docs/CommandLine.md. Nothing outlives a call: main() makes
// one, the tests' kerf-commands makes many in one process.
//
//===----------------------------------------------------------------------===//
#include "../../Completion.h"
#include "../../PackageRanks.h"
#include "../../ParseErrors.h"
#include "../../SpellFlags.h"
#include "../../Validators.h"
#include "../Commands.h"
#include "../Output.h"
#include "../Setup.h"
#include "../files/Cache.h"
#include "../files/Files.h"
#include "../report/Report.h"
#include "Sizes.h"

#include "kerf/Autodiff/Autodiff.h"
#include "kerf/Cost/Machine.h"
#include "kerf/Format/Schemas.h"
#include "kerf/rt/inputs.h"
#include "kerf/rt/printable.h"
#include "kerf/rt/versions.h"

#include "llvm/Config/llvm-config.h"

#include <algorithm>
#include <exception>

using namespace kerf;
using namespace kerf::tool;

int kerf::tool::printFailure(const Failure &failure) {
  if (!failure.message.empty())
    rt::say(stderr,
            "error: " + rt::printable(spellFlags(failure.message)) + "\n");
  for (const std::string &note : failure.notes)
    rt::say(stderr, (failure.message.empty() ? "" : "note: ") +
                        rt::printable(spellFlags(note)) + "\n");
  return failure.code;
}

/// Versions of Kerf, of its libraries, and of the file formats: what tells two
/// builds of one number apart.
static std::string versionText() {
  std::string formats, older;
  for (const Schema *schema : allSchemas) {
    if (schema->remedy.empty()) // what programs of others read
      continue;
    formats += (formats.empty() ? "" : " ") + schema->text();
    for (int number = schema->oldest; number > 0 && number < schema->version;
         ++number)
      older += (older.empty() ? "" : " ") + schema->text(number);
  }
  return "kerf " KERF_VERSION "\nLLVM " LLVM_VERSION_STRING "\n" +
         rt::cpuLibraryVersion() + "\n" + formats +
         (older.empty() ? "" : "\nreads as well " + older);
}

/// Options of compilation have no effect on a package: they are refused.
static void refuseForPackage(const CLI::App &command, const Options &options,
                             bool isRun) {
  std::vector<std::string> refused;
  for (const CLI::Option *option : command.get_options()) {
    const std::string &group = option->get_group();
    bool isForPackages = option->get_name() == "--seed" ||
                         (option->get_name() == "--dim" && isRun);
    if (option->count() > 0 && !isForPackages &&
        (group == "Model" || group == "Planning" ||
         group == "Code generation" || group == "Inspection"))
      refused.push_back(option->get_name());
  }
  if (!refused.empty())
    throw Failure{kUsage, compiledAlready(refused, options.model), {}};
}

/// The flags that make the plan, for who asks `kerf plan` for it again.
static std::vector<std::string> planFlagsOf(const CLI::App &command,
                                            const CLI::App &plan,
                                            const Options &options) {
  std::vector<std::string> flags;
  for (const CLI::Option *option : command.get_options()) {
    std::string name = option->get_name();
    const std::string &group = option->get_group();
    bool isFoundOut = name == "--dim" || name == "--cache-length" ||
                      name == "--devices" || name == "--machine" ||
                      (name == "--seed" && options.solver != "random");
    if (option->count() == 0 || option->get_positional() || isFoundOut ||
        (group != "Model" && group != "Planning" && group != "Training") ||
        !plan.get_option_no_throw(name))
      continue;
    if (option->get_items_expected_max() == 0)
      flags.push_back(name);
    else
      for (const std::string &value : option->results())
        flags.push_back(name + "=" + value);
  }
  return flags;
}

namespace {
/// --help without what is for tests alone.
class HelpFormatter : public CLI::Formatter {
  std::string
  make_group(std::string group, bool isPositional,
             std::vector<const CLI::Option *> options) const override {
    return group == kTestOnly
               ? ""
               : CLI::Formatter::make_group(group, isPositional, options);
  }
};
} // namespace

/// The names in a list such as "a, b or c".
static std::string wordsIn(std::string list) {
  for (llvm::StringRef between : {", ", " or "})
    for (size_t at; (at = list.find(between.str())) != std::string::npos;)
      list.replace(at, between.size(), " ");
  return list;
}

/// What the values of flags begin with that take more than a list of words.
static FirstWords firstWords() {
  std::string machines;
  for (const auto &[name, text] : cost::machinePresetNames()) {
    llvm::StringRef gpu = name;
    bool anyNumber = gpu.consume_back("-D");
    if (!anyNumber && (gpu.contains("-N") || gpu.contains("DxN")))
      continue;
    for (llvm::StringRef end : {"-1", "-4", "-8"}) {
      machines += (machines.empty() ? "" : " ") + gpu.str();
      if (!anyNumber)
        break;
      machines += end;
    }
  }
  return {{"--machine", machines},
          {"--loss", wordsIn(autodiff::lossNames())},
          {"--optimizer", wordsIn(autodiff::optimizerNames())}};
}

/// --help shows "[VALUE]" behind an option that has a value by itself, unless
/// its text speaks of the default; 0 and an empty text stand for "not given".
static void showDefaults(CLI::App &command) {
  for (CLI::Option *option :
       command.get_options([](CLI::Option *) { return true; })) {
    std::string value = option->get_default_str();
    if (value == "0" || value == "[]" || value == "{}" ||
        option->get_expected_max() == 0 ||
        option->get_description().find("default") != std::string::npos)
      option->default_str("");
  }
}

/// An option that may be given several times has one value each time, which may
/// begin and end with brackets ([uv].weight=[{tp},{}]) and is then no list.
static void takeValuesAsTheyAre(CLI::App &command) {
  for (CLI::Option *option :
       command.get_options([](CLI::Option *) { return true; }))
    if (option->get_allow_extra_args())
      option->allow_extra_args(false);
}

namespace {

constexpr const char *kSeedOfInputs =
    "Seed of the inputs that are drawn, and of --solver=random";
constexpr const char *kEither =
    "ONNX model (model.onnx), or a package (NAME.kerf)";

/// All commands with their flags, and the one that was asked for.
class CommandLine {
public:
  CommandLine();
  /// The exit code; every error is said.
  int answer(int argc, const char *const *argv);

private:
  CLI::App *add(const char *name, const char *text,
                int (*function)(const Options &), Prints prints);
  CLI::Option *addStep(CLI::App &sub);
  void addInspect();
  void addPlan();
  void addCompile();
  void addRun();
  void addGenerate();
  void addTrain();
  void addVerify();
  void addCalibrate();
  void addReport();
  void addComparison(CLI::App &sub, CLI::Option *trained);

  int perform(int argc, const char *const *argv);
  void takeFlags();
  int explain(const CLI::ParseError &error, int argc, const char *const *argv);

  Options options;
  int (*command)(const Options &) = nullptr;
  CLI::App app{
      "Kerf cuts an ONNX model over devices where that costs the least "
      "communication, and runs it."};
};

} // namespace

CommandLine::CommandLine() {
  app.name("kerf");
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>()); // of all commands
  app.set_version_flag("--version", versionText);
  addCompletion(app, kTestOnly, firstWords());
  addInspect();
  addPlan();
  addCompile();
  addRun();
  addGenerate();
  addTrain();
  addVerify();
  addCalibrate();
  addReport();
  for (CLI::App *each : app.get_subcommands({})) {
    showDefaults(*each);
    takeValuesAsTheyAre(*each);
  }
}

CLI::App *CommandLine::add(const char *name, const char *text,
                           int (*function)(const Options &), Prints prints) {
  CLI::App *sub = app.add_subcommand(name, text);
  sub->option_defaults()->always_capture_default();
  sub->callback([this, function] { command = function; });
  addPrinting(*sub, options, prints);
  return sub;
}

/// --train and what says how: of commands that are about a model otherwise.
CLI::Option *CommandLine::addStep(CLI::App &sub) {
  const char *group = "Training";
  CLI::Option *train =
      sub.add_flag("--train", options.train,
                   "Of a training step instead of the model alone")
          ->group(group);
  addTraining(sub, options);
  train->excludes(sub.get_option("--as-inference"));
  // What would change nothing is refused, not ignored.
  for (CLI::Option *option : sub.get_options([&](const CLI::Option *each) {
         return each->get_group() == group && each != train;
       }))
    option->needs(train);
  return train;
}

void CommandLine::addInspect() {
  CLI::App *sub = add("inspect", "What a model holds and what it needs",
                      inspect, Prints::Json);
  addModel(*sub, options);
  addForms(*sub, options);
}

void CommandLine::addPlan() {
  CLI::App *sub = add("plan", "Decide how to cut a model, and say why",
                      tool::plan, Prints::VerboseAndJson);
  addModel(*sub, options);
  addForms(*sub, options);
  addState(*sub, options);
  addPlanning(*sub, options);
  addPhases(*sub, options);
  addQuestions(*sub, options);
  addStep(*sub);
  sub->add_option("-o,--output", options.output,
                  "Write plan.json here, with --stop-after the IR");
}

void CommandLine::addCompile() {
  CLI::App *sub = add("compile", "Write a package that kerf-run runs", compile,
                      Prints::Text);
  addModel(*sub, options);
  addForms(*sub, options);
  addState(*sub, options);
  addPrompt(*sub, options);
  addPlanning(*sub, options);
  addPhases(*sub, options);
  addResuming(*sub, options);
  addCompiling(*sub, options);
  addStep(*sub);
  sub->add_option("-o,--output", options.output,
                  "The package, a folder (NAME.kerf, though any name "
                  "does); with --stop-after the IR");
}

void CommandLine::addRun() {
  CLI::App *sub =
      add("run", "Run a model or a package", run, Prints::VerboseAndJson);
  addModel(*sub, options);
  sub->get_option("model")->description(kEither);
  addForms(*sub, options);
  addState(*sub, options);
  addPlanning(*sub, options);
  addCompiling(*sub, options);
  addInputs(*sub, options);
  addRunning(*sub, options);
  sub->get_option("--seed")->description(kSeedOfInputs);
  addRanks(*sub, options);
}

void CommandLine::addGenerate() {
  CLI::App *sub =
      add("generate", "Generate tokens by a decoder, or its package", generate,
          Prints::Json);
  addModel(*sub, options);
  sub->get_option("model")->description(kEither);
  addForms(*sub, options);
  addState(*sub, options);
  addPrompt(*sub, options);
  addPlanning(*sub, options);
  addCompiling(*sub, options);
  addGenerating(*sub, options);
  sub->get_option("--seed")->description(
      "Seed of the ids that are drawn, and of --solver=random");
  addRanks(*sub, options);
}

void CommandLine::addTrain() {
  CLI::App *sub = add("train", "Train a model over ranks of this machine",
                      train, Prints::VerboseAndJson);
  addModel(*sub, options);
  addTraining(*sub, options);
  addLoop(*sub, options);
  addPlanning(*sub, options);
  addCompiling(*sub, options);
  sub->get_option("--seed")->description(
      "Seed of the order of samples, of what the model draws, and of "
      "--solver=random");
  addRanks(*sub, options);
  sub->add_option("--stats", options.stats, "Write run.json")->group("Files");
  sub->add_option("--trace", options.trace,
                  "Write a Chrome trace of the last step")
      ->group("Files");
}

void CommandLine::addVerify() {
  CLI::App *sub =
      add("verify", "Hold the program against an independent reference", verify,
          Prints::VerboseAndJson);
  addModel(*sub, options);
  addForms(*sub, options);
  addPlanning(*sub, options);
  addCompiling(*sub, options);
  addInputs(*sub, options);
  addThreads(*sub, options);
  sub->get_option("--seed")->description(kSeedOfInputs);
  addComparison(*sub, addStep(*sub));
}

/// What `kerf verify` compares, and with what tolerance.
void CommandLine::addComparison(CLI::App &sub, CLI::Option *trained) {
  sub.add_option("--steps", options.steps, "Steps of training to compare")
      ->check(atLeast(1))
      ->needs(trained)
      ->group("Comparison");
  CLI::Option *reference =
      sub.add_option("--reference", options.reference,
                     "What it is held against: interpreted, unfused, compiled "
                     "(on one device), or auto (by size)")
          ->check(CLI::IsMember({"auto", "interpreted", "unfused", "compiled"}))
          ->group("Comparison");
  sub.add_option("--reference-seconds", options.referenceSeconds,
                 "Seconds that --reference=auto may take; beyond it some "
                 "samples of the batch are compared")
      ->check(positiveAndFinite())
      ->each(
          [this](const std::string &) { options.referenceSecondsGiven = true; })
      ->group("Comparison");
  sub.add_option("--expected", options.expected,
                 "Outputs of others to hold it against: a folder of NAME.npy")
      ->excludes(reference)
      ->group("Comparison");
  sub.add_option("--damage", options.damage,
                 "Make the value of this node wrong")
      ->group(kTestOnly);
  sub.add_option("--rtol", options.rtol,
                 "Relative tolerance of floats (default: 1e-3)")
      ->check(CLI::NonNegativeNumber)
      ->group("Comparison");
  sub.add_option("--atol", options.atol,
                 "Absolute tolerance of floats (default: 1e-5; after 16-bit "
                 "types a share of the largest value)")
      ->check(CLI::NonNegativeNumber)
      ->group("Comparison");
}

void CommandLine::addCalibrate() {
  CLI::App *sub =
      add("calibrate", "Measure the ranks of this host; write a machine file",
          calibrate, Prints::Text);
  sub->add_option("--devices", options.devices, "Ranks: cpu:4");
  sub->add_option("--threads", options.threads, "Threads of each rank")
      ->check(atLeast(1));
  sub->add_option("-o,--output", options.output,
                  "Write machine.json here instead of stdout");
}

void CommandLine::addReport() {
  CLI::App *sub =
      add("report", "Show plan.json or run.json, or lay two side by side",
          report, Prints::Verbose);
  sub->add_option("document", options.document, "plan.json or run.json")
      ->required();
  CLI::Option *html =
      sub->add_option("--html", options.html, "Write a page for a browser");
  sub->add_option("--diff", options.otherDocument,
                  "Compare with this plan.json or run.json")
      ->excludes(html);
}

/// Looks for files, takes devices and sizes of what they say, and says what
/// flags leave out: for commands that plan in this process.
void CommandLine::takeFlags() {
  if (!options.model.empty())
    requireModel(options.model, /*takesPackages=*/false);
  takeResumption(options);
  takeDevices(options);
  noteOtherMachine(options, /*makesProgram=*/command == compile);
  noteLimit(options);
  noteOneGpu(options);
  checkFiles(options,
             command == compile      ? OutputKind::Package
             : command == tool::plan ? OutputKind::Plan
             : command == calibrate  ? OutputKind::Machine
                                     : OutputKind::Other,
             command == compile || command == verify || command == calibrate);
  takeState(options);
  takeInputs(options, /*all=*/false);
}

/// Reads the flags, runs the command, and says whether its output was written.
int CommandLine::perform(int argc, const char *const *argv) {
  parse(app, argc, argv);
  options.inputs = rt::eachInput(options.inputs);
  if ((command == run || command == generate) && isPackage(options.model))
    refuseForPackage(*app.get_subcommands().front(), options, command == run);
  if (command == run || command == generate || command == train)
    options.planFlags = planFlagsOf(*app.get_subcommands().front(),
                                    *app.get_subcommand("plan"), options);
  options.plansAlone = command == tool::plan;
  takeMesh(options);
  refuseIdle(options, command);
  takeSizes(options, /*takesSizes=*/command == compile);
  // In a job that is for the process that writes: see withJob().
  if (command != run && command != generate && command != train)
    takeFlags();
  int code = command(options);
  bool isWritten = finishOutput();
  pruneObjectCache(kernelCache(options));
  return isWritten ? code : std::max<int>(code, kRunTime);
}

/// --help and --version, or what is wrong with the flags.
int CommandLine::explain(const CLI::ParseError &error, int argc,
                         const char *const *argv) {
  auto isFirst = [&](CLI::App *sub) { return sub->get_name() == argv[1]; };
  bool hasCommand = argc > 1 && !app.get_subcommands(isFirst).empty();
  bool isUnknown = argc > 1 && *argv[1] && argv[1][0] != '-' && !hasCommand;
  if (error.get_exit_code() == 0 && !isUnknown)
    return app.exit(error); // --help, --version
  std::string message = isUnknown  ? unknownCommand(app, argv[1])
                        : argc < 2 ? missingCommand(app)
                                   : describeParseError(app, error, argc, argv);
  std::string reads;
  if (hasCommand && argv[1] == std::string("report") &&
      !dynamic_cast<const CLI::ExcludesError *>(&error))
    reads = std::string("\nnote: ") + kReportReads;
  rt::say(stderr, "error: " + rt::printable(message) + reads +
                      "\nnote: see kerf" + (hasCommand ? " " : "") +
                      (hasCommand ? argv[1] : "") + " --help\n");
  return kUsage;
}

int CommandLine::answer(int argc, const char *const *argv) {
  try {
    return perform(argc, argv);
  } catch (const CLI::ParseError &error) {
    return explain(error, argc, argv);
  } catch (Failure &failure) {
    failure.message = asTyped(spellFlags(failure.message), app, argc, argv);
    return printFailure(failure);
  } catch (const std::exception &error) {
    rt::say(stderr, "error: " + rt::printable(error.what()) + "\n");
    return kInternal;
  }
}

int kerf::tool::runCommandLine(int argc, const char *const *argv) {
  // "kerf help" and "kerf help plan", as many programs have it.
  if (argc > 1 && argv[1] == std::string("help")) {
    const char *const asked[] = {argv[0], argc > 2 ? argv[2] : "--help",
                                 "--help"};
    return runCommandLine(argc > 2 ? 3 : 2, asked);
  }
  return CommandLine().answer(argc, argv);
}
