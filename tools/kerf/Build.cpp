//===- Build.cpp - inspect, plan, compile ---------------------------------===//
#include "../SpellFlags.h"
#include "Commands.h"
#include "Output.h"
#include "Progress.h"
#include "Setup.h"
#include "options/Sizes.h"
#include "report/Explain.h"
#include "report/PlanReport.h"
#include "report/Report.h"
#include "report/Trained.h"

#include "kerf/rt/printable.h"
#include "kerf/rt/stop.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>

using namespace kerf;
using namespace kerf::tool;

CompilationOptions kerf::tool::shapesAlone(const Options &options) {
  CompilationOptions result = compilationOptions(options);
  result.import.allowAbsentData = true;
  return result;
}

/// Sizes that are open are facts, not faults.
static void requireFaultless(ImportReport report) {
  llvm::erase_if(report.issues, [](const ImportIssue &issue) {
    return issue.kind == ImportIssue::Kind::OpenSize;
  });
  if (report.exitCode() == 0)
    return;
  std::string text;
  llvm::raw_string_ostream stream(text);
  report.print(stream);
  Failure failure{report.exitCode(), "", {}};
  for (llvm::StringRef line : llvm::split(llvm::StringRef(text).trim(), '\n'))
    failure.notes.push_back(spellFlags(line.str()));
  throw failure;
}

/// Parameters, and which inputs steer shapes, do not depend on the sizes that
/// are open: any will do for which the model can be imported.
static void lookWithSizes(const Options &options,
                          ImportOptions::TrainingForms forms,
                          ImportReport &report) {
  bool isOpen = !report.issues.empty();
  for (const ImportIssue &issue : report.issues)
    isOpen &= issue.kind == ImportIssue::Kind::OpenSize;
  if (!isOpen)
    return;
  for (int64_t size : {8, 256}) {
    Options bound = options;
    for (const std::string &dim : report.unboundDims)
      bound.dims.push_back(dim + "=" + std::to_string(size));
    CompilationOptions compile = shapesAlone(bound);
    compile.import.trainingForms = forms;
    Compilation compilation(std::move(compile));
    bool isFine = compilation.runImport() == Outcome::Fine;
    const ImportReport &counted = compilation.getImportReport();
    if (report.steeringInputs.empty())
      report.steeringInputs = counted.steeringInputs;
    // What is no operator of Kerf's is none of any size.
    if (!isFine && !counted.unsupported.empty()) {
      report.unsupported = counted.unsupported;
      return;
    }
    if (!isFine)
      continue;
    report.numParameters = counted.numParameters;
    report.parameterElements = counted.parameterElements;
    report.parameterBytes = counted.parameterBytes;
    report.bufferElements = counted.bufferElements;
    report.numbers = counted.numbers;
    report.bounds = counted.bounds;
    return;
  }
}

namespace {
/// A model that was imported to be looked at.
struct Look {
  Look(const Options &options, CompilationOptions compile) {
    auto forms = compile.import.trainingForms;
    progress = std::make_unique<Progress>(options, compile);
    compilation = std::make_unique<Compilation>(std::move(compile));
    outcome = compilation->runImport();
    report = compilation->getImportReport();
    lookWithSizes(options, forms, report);
  }
  std::unique_ptr<Progress> progress; ///< outlives the compilation
  std::unique_ptr<Compilation> compilation;
  Outcome outcome = Outcome::Fine;
  ImportReport report;
};
} // namespace

int kerf::tool::inspect(const Options &options) {
  auto look = std::make_unique<Look>(options, shapesAlone(options));
  bool isOfTraining = false;
  if (!look->report.unsupported.empty() && !options.asInference) {
    // What may be trained as it is may be looked at so. There is one line of
    // progress at a time.
    look->progress.reset();
    CompilationOptions compile = shapesAlone(options);
    compile.import.trainingForms = ImportOptions::TrainingForms::Keep;
    auto trained = std::make_unique<Look>(options, std::move(compile));
    isOfTraining = trained->report.unsupported.empty() &&
                   (trained->outcome == Outcome::Fine ||
                    !trained->report.unboundDims.empty());
    if (isOfTraining)
      look = std::move(trained);
  }
  Compilation &compilation = *look->compilation;
  const ImportReport &report = look->report;
  Outcome outcome = look->outcome;
  // The report has facts even if the model is refused.
  bool readable = outcome == Outcome::Fine || !report.inputs.empty() ||
                  !report.operatorCounts.empty();
  if (readable) {
    if (options.json) {
      printInspectionJson(llvm::outs(), report, compilation.getModule());
    } else {
      std::string text;
      llvm::raw_string_ostream stream(text);
      printInspection(stream, report, compilation.getModule());
      PrintableStream(llvm::outs()) << spellFlags(text);
    }
  }
  llvm::outs().flush();
  if (isOfTraining && !options.quiet)
    rt::say(stderr, "note: the model was exported in training form, and is "
                    "counted as training has it: kerf train takes it so; to "
                    "run it, --as-inference takes it as what it is in "
                    "inference\n");
  if (!report.quietDropout.empty() && !options.quiet)
    rt::say(stderr, rt::noteLine("in training, " + report.quietDropout));
  if (report.unboundDims.empty())
    require(compilation, outcome);
  requireFaultless(report);
  return kFine;
}

bool kerf::tool::stopAfter(Compilation &compilation, const Options &options) {
  if (options.stopAfter.empty())
    return false;
  require(compilation, compilation.runUntil(options.stopAfter));
  std::string text;
  llvm::raw_string_ostream stream(text);
  compilation.getModule().print(stream);
  stream << "\n";
  if (!options.output.empty())
    writeFile(options.output, text);
  else
    llvm::outs() << text;
  llvm::outs().flush();
  return true;
}

/// Prints the parameters that a training step changes; with -v every name.
static void printTrained(llvm::raw_ostream &out,
                         const autodiff::AutodiffResult &training,
                         bool verbose) {
  int64_t elements = 0;
  for (const autodiff::TrainedParameter &parameter : training.trained) {
    int64_t size = 1;
    for (int64_t dim : parameter.shape)
      size *= dim;
    elements += size;
  }
  out << "\ntrained   " << parameterCount(training) << " of "
      << elementsText(elements) << "\n";
  if (verbose)
    for (const autodiff::TrainedParameter &parameter : training.trained) {
      out << "  " << parameter.name << " [";
      llvm::interleaveComma(parameter.shape, out);
      out << "]" << (parameter.decayed ? ", decayed" : "") << "\n";
    }
  llvm::MapVector<autodiff::KeptWhy, std::vector<std::string>> kept;
  for (const autodiff::KeptParameter &parameter : training.kept)
    kept[parameter.why].push_back(parameter.name);
  for (const auto &[why, names] : kept) {
    size_t max = verbose ? names.size() : 4;
    out << "kept      " << names.size() << ", " << autodiff::describe(why)
        << ": ";
    llvm::interleaveComma(llvm::ArrayRef(names).take_front(max), out);
    out << (names.size() > max ? ", ...\n" : "\n");
  }
}

/// --print-pipeline: phase and passes, a line each.
static void printPipelines(llvm::raw_ostream &out,
                           const Compilation &compilation,
                           const Options &options) {
  if (options.printPipeline)
    for (const auto &[phase, passes] : compilation.getPipelines())
      out << llvm::left_justify(phase, 12) << passes << "\n";
}

/// The plan, and of a model that is not trained how many parameters its file
/// stores.
static llvm::json::Object planOf(const Compilation &compilation) {
  llvm::json::Object plan = compilation.getPlanJson();
  int64_t stored = compilation.getImportReport().parameterElements;
  if (stored > 0 && !compilation.getPlan().isTraining)
    (*plan.getObject("model"))["stored_parameters"] = stored;
  return plan;
}

int kerf::tool::plan(const Options &options) {
  if (!options.whatIf.empty())
    return planWhatIf(options);
  bool isExplained = !options.explain.empty();
  if (isExplained && options.solver == "random")
    throw Failure{kUsage,
                  "--explain: --solver=random takes any plan, of which none is "
                  "the best of its kind",
                  {}};
  std::optional<rt::StopNote> early(", before there was a plan");
  CompilationOptions compile = shapesAlone(options);
  Progress progress(options, compile);
  Compilation compilation(std::move(compile));
  if (stopAfter(compilation, options))
    return kFine;
  // Partitioned as well, so that the output shows what is executed.
  require(compilation, compilation.runUntil("lower"));
  early.reset();
  const llvm::json::Object document = planOf(compilation);
  std::string json =
      llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object(document)))
          .str();
  if (!options.output.empty())
    writeFile(options.output, json);
  progress.finish();
  printNotes(compilation, options);
  PrintableStream out(llvm::outs());
  if (!options.json)
    printPipelines(out, compilation, options);
  if (isExplained && options.json)
    printExplanationJson(llvm::outs(), compilation);
  else if (isExplained && !options.quiet)
    printExplanation(out, compilation, options.verbose);
  else if (options.json)
    llvm::outs() << json;
  else if (!options.quiet)
    printPlan(out, document, options.verbose);
  if (options.train && !isExplained && !options.json && !options.quiet)
    printTrained(out, compilation.getTraining(), options.verbose);
  llvm::outs().flush();
  return kFine;
}

int kerf::tool::compile(const Options &options) {
  bool isShown = options.output.empty() && options.printPipeline;
  if (options.output.empty() && options.stopAfter.empty() && !isShown)
    throw Failure{kUsage, "--output is missing, expected as -o NAME.kerf", {}};
  std::optional<rt::StopNote> early(", before the package was written");
  CompilationOptions compile = compilationOptions(options);
  Progress progress(options, compile);
  Compilation compilation(std::move(compile));
  if (stopAfter(compilation, options))
    return kFine;
  require(compilation, compilation.runUntil("lower"));
  PrintableStream out(llvm::outs());
  if (isShown) { // no package is asked for
    progress.finish();
    printPipelines(out, compilation, options);
    if (!options.quiet)
      printNotes(compilation, options);
    return kFine;
  }
  if (options.promptTokens > 0)
    progress.enter("compiling the program of prompts");
  auto prompt = compilePrompt(options, compilation);
  if (!options.openSizes.empty())
    progress.enter("compiling for other sizes");
  OtherSizes others = compileOtherSizes(options);
  std::vector<Compilation::Further> further;
  if (prompt)
    further.emplace_back("prompt", prompt.get());
  for (auto &[name, program] : others.programs)
    further.emplace_back(name, program.get());
  TemporaryFolder objects;
  require(compilation, packageWith(objects, compilation, options.output,
                                   further, others.json));
  early.reset();
  progress.finish();
  printPipelines(out, compilation, options);
  if (options.quiet)
    return kFine;
  printNotes(compilation, options);
  for (const std::string &note : others.notes)
    rt::say(stderr, "note: " + rt::printable(note) + "\n");
  out << options.output << ":";
  const char *separator = " ";
  for (const auto &[phase, seconds] : compilation.getTimes()) {
    out << separator << phase << " " << formatSeconds(seconds);
    separator = ", ";
  }
  out << "\n";
  return kFine;
}
