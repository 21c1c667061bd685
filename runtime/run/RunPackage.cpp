//===- RunPackage.cpp - open, feed, run, write ----------------------------===//
//
// The whole of kerf-run above the C ABI. Outputs, statistics and trace are
// written together after everything succeeded: no file appears on failure.
//
//===----------------------------------------------------------------------===//
#include "kerf/Format/StepScalars.h"
#include "kerf/rt/files.h"
#include "kerf/rt/inputs.h"
#include "kerf/rt/job.h"
#include "kerf/rt/printable.h"
#include "kerf/rt/run.h"
#include "kerf/rt/stop.h"

#include "../base/Seconds.h"
#include "../base/Types.h"
#include "AtomicFile.h"
#include "BadIndex.h"
#include "Convert.h"
#include "Figures.h"
#include "JobCommand.h"
#include "OpenSizes.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sys/stat.h>

using namespace kerf;
using namespace kerf::rt;

// A signal handler can only reach what is global.
static volatile std::sig_atomic_t interrupted = 0;

namespace {
/// Ctrl-C ends --repeat after the step that runs.
class Interruptible {
public:
  explicit Interruptible(bool takes) {
    interrupted = 0;
    if (takes)
      scope.emplace([](int) { interrupted = 1; }, StopScope::Takes());
  }
  bool isOver() const { return scope && interrupted; }

private:
  std::optional<StopScope> scope;
};

struct Output {
  std::string name;
  kerf_dtype_t dtype;
  std::vector<int64_t> shape;
  const void *data;
  size_t bytes;
  HostTensor cut; ///< whose data it is, if it is not the session's
};

class Runner : public JobCommand {
public:
  Runner(const RunOptions &options, JobScope &job, std::FILE *out,
         const Messages &err)
      : JobCommand(options.named(), job, err), options(options), out(out) {}

  void run();

private:
  /// What was right when the run began went wrong while it ran.
  [[noreturn]] void lost(const std::string &message) {
    throw Error(KERF_IO_ERROR, message);
  }
  /// Ends the command by the error of a step; the element that is an index out
  /// of range is named.
  [[noreturn]] void fail(kerf_status_t status);
  void checkFiles();
  void readInputs();
  void writeFiles();
  void printSummary();
  std::string take(char *json) {
    std::string text = json;
    kerf_string_free(json);
    return text;
  }
  kerf_tensor_info_t outputInfo(int32_t index) {
    kerf_tensor_info_t info;
    check(kerf_package_output(package.get(), index, &info));
    return info;
  }

  /// An output of the last step, with as many rows as the inputs had.
  Output output(int32_t index);
  void openProgram();
  void shareInputs();
  void countSamples(int64_t &samples, int64_t &tokens);
  /// With --repeat: the times of the steps, and the steps per second.
  std::string timesLine();
  /// Names in the folder of outputs.
  std::vector<std::string> outputFiles();

  const RunOptions &options;
  std::FILE *out;
  kerf_package_options_t packageOptions = {};
  /// `whole`, where the folder has programs for several sizes, is what was
  /// opened, and keeps `dims`; `package` is what runs.
  PackageHandle whole, package;
  std::vector<kerf_open_dim_t> dims;
  std::vector<int64_t> sizes;
  std::vector<double> stepSeconds;
  std::vector<HostTensor> inputs; // outlives the session, which borrows
  std::vector<std::vector<int64_t>> inputShapes; // as given
  std::vector<std::string> inputFiles;           // empty: of none
  SessionHandle session;
};

std::vector<int64_t> shapeOf(const kerf_tensor_info_t &info) {
  return {info.shape, info.shape + info.rank};
}

Output Runner::output(int32_t index) {
  kerf_tensor_info_t info = outputInfo(index);
  Output result = {info.name, info.dtype, shapeOf(info), nullptr, 0, {}};
  check(kerf_session_get_output(session.get(), index, &result.data,
                                &result.bytes));
  check(kerf_session_output_shape(session.get(), index, result.shape.data(),
                                  info.rank));
  std::vector<int64_t> shape = result.shape;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d].output_axes[index] >= 0) {
      int64_t &rows = shape[static_cast<size_t>(dims[d].output_axes[index])];
      rows = rows / programSize(dims[d], sizes[d]) * sizes[d];
    }
  if (shape == result.shape)
    return result;
  auto begin = static_cast<const char *>(result.data);
  result.cut = resized(
      {result.dtype, result.shape, {begin, begin + result.bytes}}, shape);
  result.shape = shape;
  result.data = result.cut.data.data();
  result.bytes = result.cut.data.size();
  return result;
}

bool isNarrow(kerf_dtype_t dtype) {
  return dtype == KERF_F16 || dtype == KERF_BF16;
}

/// The numbers of an output in another type, one that can represent all values
/// of the output's type.
template <typename T>
std::vector<T> converted(const Output &output, kerf_dtype_t type) {
  std::vector<T> values(output.bytes / kerf_dtype_size(output.dtype));
  exactConversion(output.dtype, type)(static_cast<const char *>(output.data),
                                      reinterpret_cast<char *>(values.data()),
                                      static_cast<int64_t>(values.size()));
  return values;
}

InputSpec specOf(const kerf_tensor_info_t &info) {
  return {info.name, info.dtype, shapeOf(info), {}};
}

void Runner::readInputs() {
  std::vector<InputSpec> specs;
  for (int32_t i = 0, n = kerf_package_num_inputs(package.get()); i < n; ++i) {
    kerf_tensor_info_t info;
    check(kerf_package_input(package.get(), i, &info));
    specs.push_back(specOf(info));
  }
  openSpecs(dims, specs);
  std::vector<std::optional<GivenInput>> given;
  std::vector<std::string> notes;
  std::string error;
  if (!matchInputs(options.inputs, specs, options.named(), given, error))
    usage(error);
  if (!findSizes(dims, options.dims, specs, given, sizes, notes, error))
    usage(error);
  if (!options.drawnBy.empty() &&
      std::all_of(given.begin(), given.end(),
                  [](const auto &input) { return input.has_value(); }))
    usage("option " + options.drawnBy +
          (given.empty() ? ": there is no input that could be drawn"
                         : ": every input is given, none is left to draw"));
  if (!options.drawsInputs)
    if (error = missingInputs(specs, given, options.inputs, options.named());
        !error.empty())
      usage(error);
  openProgram();
  if (!options.quiet)
    for (const std::string &note : notes)
      say(err, "note: " + printable(note) + "\n");
  bool learnsNothing = false;
  for (size_t i = 0; i < specs.size(); ++i) {
    kerf_tensor_info_t info;
    check(kerf_package_input(package.get(), static_cast<int32_t>(i), &info));
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d].input_axes[i] >= 0)
        specs[i].shape[static_cast<size_t>(dims[d].input_axes[i])] = sizes[d];
    inputShapes.push_back(specs[i].shape);
    inputFiles.push_back(given[i] ? given[i]->file : "");
    if (given[i]) {
      HostTensor &tensor =
          inputs.emplace_back(inputTensor(*given[i], specs[i]));
      if (tensor.shape != shapeOf(info))
        tensor = resized(tensor, shapeOf(info));
      continue;
    }
    HostTensor &tensor = inputs.emplace_back();
    tensor.dtype = info.dtype;
    tensor.shape = shapeOf(info);
    tensor.data.resize(info.bytes);
    if (fillTrainingScalar(info.name, info.dtype, options.seed,
                           tensor.data.data())) {
      learnsNothing |= std::strcmp(info.name, kLearningRateInput) == 0;
      continue;
    }
    fillRandom(info.name, options.seed, info.dtype,
               static_cast<int64_t>(info.bytes / kerf_dtype_size(info.dtype)),
               info.range_low, info.range_high, tensor.data.data());
  }
  if (learnsNothing && !options.quiet)
    say(err, "note: a training step, run with learning rate 0, so that no "
             "parameter changes; option input train.learning_rate=NUMBER is "
             "another one\n");
}

void Runner::fail(kerf_status_t status) {
  std::string failure = kerf_status_message(status);
  std::optional<int64_t> index = badIndexOf(failure);
  int code = job.report(status, named, err);
  std::map<int, std::vector<std::string>> notes; // by how likely they are
  // Only the rank that has read the files knows them.
  for (size_t i = 0; index && i < inputFiles.size(); ++i) {
    kerf_tensor_info_t info;
    check(kerf_package_input(package.get(), static_cast<int32_t>(i), &info));
    std::optional<int64_t> place = placeOfIndex(
        inputs[i].data.data(), inputs[i].data.size(), info.dtype, *index);
    if (!place)
      continue;
    std::string at;
    for (int32_t d = info.rank; d-- > 0; *place /= info.shape[d])
      at = std::to_string(*place % info.shape[d]) +
           (at.empty() ? "" : ", " + at);
    std::string file = inputFiles[i].empty() ? "" : inputFiles[i] + ": ";
    notes[suspicionOf(failure, info)].push_back(
        "note: " +
        printable(cat(file, "input \"", info.name, "\" has it",
                      at.empty() ? "" : " at [" + at + "]")) +
        "\n");
  }
  if (!notes.empty())
    for (const std::string &note : notes.rbegin()->second)
      say(err, note);
  exitWith(code);
}

/// Goes on with the program for the sizes that rank 0 has found.
void Runner::openProgram() {
  if (dims.empty())
    return;
  sizes.resize(dims.size());
  if (job)
    check(kerf_job_broadcast(job.get(), sizes.data(),
                             sizes.size() * sizeof(int64_t)));
  kerf_package_t *program = nullptr;
  check(kerf_package_open_sizes(package.get(), sizes.data(), &packageOptions,
                                &program));
  whole = std::move(package);
  package.reset(program);
}

/// Rank 0's inputs for all: files and numbers are read there alone.
void Runner::shareInputs() {
  if (!job)
    return;
  inputs.resize(kerf_package_num_inputs(package.get()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    kerf_tensor_info_t info;
    check(kerf_package_input(package.get(), static_cast<int32_t>(i), &info));
    inputs[i].data.resize(info.bytes);
    check(kerf_job_broadcast(job.get(), inputs[i].data.data(), info.bytes));
  }
}

std::vector<std::string> Runner::outputFiles() {
  std::vector<std::string> names;
  for (int32_t i = 0, n = kerf_package_num_outputs(package.get()); i < n; ++i)
    names.push_back(outputInfo(i).name);
  return outputFileNames(names);
}

void Runner::checkFiles() {
  UsedFiles files;
  files.reads("the package", options.package);
  for (const std::string &text : options.inputs)
    files.reads("option input", inputFile(text));
  files.writes("option stats", options.statsFile, "run.json");
  files.writes("option trace", options.traceFile, "trace.json");
  files.fills("option output-dir", options.outputDir, outputFiles());
  if (std::string wrong = files.check(); !wrong.empty())
    usage(wrong);
}

void Runner::writeFiles() {
  FileSet files;
  std::string error;
  auto add = [&](const std::string &path, const std::string &content) {
    if (!files.add(path, content, error))
      lost(error);
  };
  if (!options.outputDir.empty()) {
    if (::mkdir(options.outputDir.c_str(), 0777) != 0 && errno != EEXIST)
      lost(cat(options.outputDir,
               ": cannot create: ", whyFailed(options.outputDir, errno)));
    std::vector<std::string> names = outputFiles();
    for (int32_t i = 0, n = static_cast<int32_t>(names.size()); i < n; ++i) {
      Output given = output(i);
      std::string content;
      if (options.widenOutputs && isNarrow(given.dtype)) {
        std::vector<float> wide = converted<float>(given, KERF_F32);
        formatNpy(KERF_F32, given.shape, wide.data(),
                  wide.size() * sizeof(float), content);
      } else {
        formatNpy(given.dtype, given.shape, given.data, given.bytes, content);
      }
      add(options.outputDir + "/" + names[i], content);
    }
  }
  char *json = nullptr;
  if (!options.statsFile.empty()) {
    check(kerf_session_statistics(session.get(), &json));
    add(options.statsFile, take(json) + "\n");
  }
  if (!options.traceFile.empty()) {
    check(kerf_session_trace(session.get(), &json));
    add(options.traceFile, take(json) + "\n");
  }
  if (!files.commit(error))
    lost(error);
}

/// "1 of 8 is NaN, min -1, max 3, mean 0.5": of those that are numbers.
static std::string rangeText(const std::vector<double> &values) {
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  size_t numbers = 0;
  for (double value : values) {
    if (std::isnan(value))
      continue;
    ++numbers;
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
  }
  if (numbers == 0)
    return "all NaN";
  if (std::isnan(sum)) // of both infinities; its sign says nothing
    sum = std::numeric_limits<double>::quiet_NaN();
  size_t others = values.size() - numbers;
  return (others == 0 ? ""
                      : cat(others, " of ", values.size(),
                            others == 1 ? " is NaN, " : " are NaN, ")) +
         cat("min ", low, ", max ", high, ", mean ",
             sum / static_cast<double>(numbers));
}

void Runner::printSummary() {
  char *json = nullptr;
  if (options.json) {
    check(kerf_session_statistics(session.get(), &json));
    std::fprintf(out, "%s\n", take(json).c_str());
    return;
  }
  if (options.quiet)
    return;
  for (int32_t i = 0, n = kerf_package_num_outputs(package.get()); i < n; ++i) {
    Output given = output(i);
    std::string line = cat(given.name, ": ", kerf_dtype_name(given.dtype), " ",
                           shapeString(given.shape));
    if ((given.dtype == KERF_F32 || given.dtype == KERF_F64 ||
         isNarrow(given.dtype)) &&
        given.bytes != 0) {
      line += ", " + rangeText(converted<double>(given, KERF_F64));
    }
    say(out, printable(line) + "\n");
  }
  if (options.repeat > 1)
    say(out, timesLine() + "\n");
}

/// The samples of a step: the size that all inputs begin with; 0 if they do
/// not. Tokens: those of an input that is called so, a row per sample.
void Runner::countSamples(int64_t &samples, int64_t &tokens) {
  samples = tokens = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<int64_t> &shape = inputShapes[i];
    if (shape.empty())
      continue;
    if (samples != 0 && shape[0] != samples) {
      samples = tokens = 0;
      return;
    }
    samples = shape[0];
    kerf_tensor_info_t info;
    check(kerf_package_input(package.get(), static_cast<int32_t>(i), &info));
    if (shape.size() == 2 && isInteger(inputs[i].dtype) &&
        namesTokens(info.name))
      tokens = std::max(tokens, shape[0] * shape[1]);
  }
}

std::string Runner::timesLine() {
  std::vector<double> sorted = stepSeconds;
  std::sort(sorted.begin(), sorted.end());
  size_t middle = sorted.size() / 2;
  double median = sorted.size() % 2 ? sorted[middle]
                                    : (sorted[middle - 1] + sorted[middle]) / 2;
  auto shown = [](double seconds) {
    char text[64];
    std::snprintf(text, sizeof(text),
                  seconds < 1e-3 ? "%.0f us"
                  : seconds < 1  ? "%.2f ms"
                                 : "%.2f s",
                  seconds < 1e-3 ? seconds * 1e6
                  : seconds < 1  ? seconds * 1e3
                                 : seconds);
    return std::string(text);
  };
  std::string line = cat(sorted.size(), " steps: median ", shown(median),
                         ", least ", shown(sorted.front()));
  int64_t samples, tokens;
  countSamples(samples, tokens);
  auto rate = [&](int64_t count, const char *what) {
    if (count > 0)
      line += cat("; ", threeDigits(double(count) / median), " ", what, "/s");
  };
  rate(samples, "samples");
  rate(tokens, "tokens");
  return line;
}

void logLine(void *user, kerf_log_level_t level, const char *line) {
  say(static_cast<std::FILE *>(user),
      (level == KERF_LOG_WARNING ? "warning: " : "") + printable(line) + "\n");
}

void Runner::run() {
  preferShortSpins();
  std::optional<StopNote> early;
  if (job.leads())
    early.emplace(", before the first step was over: nothing is written");
  if (options.repeat < 1)
    usage("option repeat must be at least 1");
  packageOptions.struct_size = sizeof(packageOptions);
  packageOptions.skip_hashes = options.skipHashes;
  kerf_session_options_t sessionOptions = {};
  sessionOptions.struct_size = sizeof(sessionOptions);
  sessionOptions.threads = options.threads;
  sessionOptions.deadline_seconds = options.timeoutSeconds;
  sessionOptions.trace = !options.traceFile.empty();
  sessionOptions.inject =
      options.inject.empty() ? nullptr : options.inject.c_str();
  if (options.verbose) {
    packageOptions.log = sessionOptions.log = logLine;
    packageOptions.log_user = sessionOptions.log_user = err.file;
  }
  kerf_package_t *rawPackage = nullptr;
  check(
      kerf_package_open(options.package.c_str(), &packageOptions, &rawPackage));
  package.reset(rawPackage);
  dims = openDimsOf(rawPackage);
  if (job && kerf_package_num_ranks(rawPackage) != job.size())
    usage(cat(options.named(), ": has ", kerf_package_num_ranks(rawPackage),
              " ranks, the job has ", job.size(), " processes"));
  if (job.leads()) {
    checkFiles();
    readInputs();
  } else {
    openProgram();
  }
  shareInputs();
  sessionOptions.job = job.get();
  kerf_session_t *rawSession = nullptr;
  check(kerf_session_create(package.get(), &sessionOptions, &rawSession));
  session.reset(rawSession);
  for (size_t i = 0; i < inputs.size(); ++i)
    check(kerf_session_set_input(rawSession, static_cast<int32_t>(i),
                                 inputs[i].data.data(), inputs[i].data.size()));
  bool ended = false;
  {
    // Processes would have to agree on the last step: a signal ends them.
    if (options.repeat > 1 && !job)
      early.reset();
    Interruptible loop(options.repeat > 1 && !job);
    for (int32_t i = 0; i < options.repeat && !(ended = loop.isOver()); ++i) {
      SteadyClock::time_point start = SteadyClock::now();
      if (kerf_status_t status = kerf_session_run(rawSession))
        fail(status);
      stepSeconds.push_back(secondsSince(start));
      early.reset();
    }
  }
  if (stepSeconds.empty()) {
    say(err, "note: ended by Ctrl-C, before the first step: nothing is "
             "written\n");
    exitWith(130);
  }
  if (job.leads()) {
    if (!options.inject.empty())
      usage(unmetFault(options.inject));
    writeFiles();
    printSummary();
  }
  if (ended) {
    say(err, cat("note: ended by Ctrl-C after ", stepSeconds.size(), " of ",
                 options.repeat, " steps\n"));
    exitWith(130);
  }
}
} // namespace

std::string kerf::rt::unmetFault(const std::string &inject) {
  return cat("option inject=", inject,
             " has had no effect: the run ended before "
             "that rank started so many collectives (both count from 0)");
}

void kerf::rt::preferShortSpins() {
  if (!std::getenv("OMP_WAIT_POLICY") && !std::getenv("GOMP_SPINCOUNT"))
    ::setenv("GOMP_SPINCOUNT", "2000", 0);
}

int kerf::rt::reportStatus(kerf_status_t status, const std::string &file,
                           const Messages &err) {
  if (!status)
    return 0;
  std::string node = kerf_status_node(status);
  std::string place = file + (node.empty() ? "" : ":") + node;
  say(err, "error: " +
               printable(cat(place, place.empty() ? "" : ": ",
                             kerf_status_message(status))) +
               "\n");
  for (int32_t i = 0; i < kerf_status_num_notes(status); ++i)
    say(err, "note: " + printable(kerf_status_note(status, i)) + "\n");
  int code = kerf_status_exit_code(status);
  kerf_status_free(status);
  return code;
}

int kerf::rt::runPackage(const RunOptions &options, JobScope &job,
                         std::FILE *out, const Messages &err) {
  return runInJob(options.named(), job, err,
                  [&] { Runner(options, job, out, err).run(); });
}

int kerf::rt::runPackage(const RunOptions &options, std::FILE *out,
                         const Messages &err) {
  JobScope job;
  kerf_status_t status = job.join(options.timeoutSeconds, options.signals);
  if (status)
    return reportStatus(status, options.named(), err);
  return runPackage(options, job, out, err);
}

int kerf::rt::runPackageInProcesses(const RunOptions &options, std::FILE *out,
                                    const Messages &err) {
  return runProcessPerRank(options.package, options.named(), err,
                           [&] { return runPackage(options, out, err); });
}
