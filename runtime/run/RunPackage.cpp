//===- RunPackage.cpp - open, feed, run, write ----------------------------===//
//
// The whole of kerf-run above the C ABI. Outputs, statistics and trace are
// written together after everything succeeded: no file appears on failure.
//
//===----------------------------------------------------------------------===//
#include "kerf/rt/files.h"
#include "kerf/rt/job.h"
#include "kerf/rt/printable.h"
#include "kerf/rt/run.h"

#include "../base/Types.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/stat.h>

using namespace kerf::rt;

namespace {
/// Ends the run with an exit code; the message was printed.
struct Exit {
  int code;
};

struct PackageCloser {
  void operator()(kerf_package_t *p) const { kerf_package_close(p); }
};
struct SessionCloser {
  void operator()(kerf_session_t *s) const { kerf_session_destroy(s); }
};

class Runner {
public:
  Runner(const RunOptions &options, JobScope &job, std::FILE *out,
         std::FILE *err)
      : options(options), job(job), out(out), err(err) {}

  void run();

private:
  void check(kerf_status_t status) {
    if (status)
      throw Exit{job.report(status, options.package, err)};
  }
  [[noreturn]] void usage(const std::string &message) {
    if (job.leads()) // the others are ended by it
      say(err, "error: " + printable(message) + "\n");
    throw Exit{2};
  }
  /// What was right when the run began went wrong while it ran.
  [[noreturn]] void lost(const std::string &message) {
    throw Error(KERF_IO_ERROR, message);
  }
  void checkFiles();
  void readInputs();
  HostTensor parseInput(const kerf_tensor_info_t &info,
                        const std::string &value);
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

  void shareInputs();
  /// Names in the folder of outputs.
  std::vector<std::string> outputFiles();

  const RunOptions &options;
  JobScope &job;
  std::FILE *out, *err;
  std::unique_ptr<kerf_package_t, PackageCloser> package;
  std::vector<HostTensor> inputs; // outlives the session, which borrows
  std::unique_ptr<kerf_session_t, SessionCloser> session;
};

std::vector<int64_t> shapeOf(const kerf_tensor_info_t &info) {
  return {info.shape, info.shape + info.rank};
}

void fillNumber(const kerf_tensor_info_t &info, double value,
                HostTensor &tensor) {
  size_t count = info.bytes / kerf_dtype_size(info.dtype);
  auto fill = [&](auto number) {
    for (size_t i = 0; i < count; ++i)
      std::memcpy(tensor.data.data() + i * sizeof(number), &number,
                  sizeof(number));
  };
  auto integer = static_cast<int64_t>(value);
  switch (info.dtype) {
  case KERF_F32:
    return fill(static_cast<float>(value));
  case KERF_F64:
    return fill(value);
  case KERF_F16:
    return fill(static_cast<_Float16>(value));
  case KERF_BF16: {
    float f = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return fill(
        static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16));
  }
  case KERF_BOOL:
    return fill(static_cast<uint8_t>(value != 0));
  case KERF_I8:
  case KERF_U8:
    return fill(static_cast<uint8_t>(integer));
  case KERF_I16:
  case KERF_U16:
    return fill(static_cast<uint16_t>(integer));
  case KERF_I32:
  case KERF_U32:
    return fill(static_cast<uint32_t>(integer));
  case KERF_I64:
  case KERF_U64:
    return fill(static_cast<uint64_t>(integer));
  }
}

HostTensor Runner::parseInput(const kerf_tensor_info_t &info,
                              const std::string &value) {
  HostTensor tensor;
  std::vector<int64_t> shape = shapeOf(info);
  if (!value.empty() && value[0] == '@') {
    std::string error;
    if (!readNpy(value.substr(1), tensor, error))
      usage(error);
    if (tensor.dtype != info.dtype || tensor.shape != shape)
      usage(cat(value.substr(1), ": is ", kerf_dtype_name(tensor.dtype), " ",
                shapeString(tensor.shape), ", input \"", info.name,
                "\" expects ", kerf_dtype_name(info.dtype), " ",
                shapeString(shape)));
    return tensor;
  }
  char *end = nullptr;
  double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end)
    usage(cat("input \"", info.name, "\": '", value,
              "' is neither @FILE.npy nor a number"));
  bool isFloat = info.dtype == KERF_F32 || info.dtype == KERF_F64 ||
                 info.dtype == KERF_F16 || info.dtype == KERF_BF16;
  if (!isFloat && !(std::abs(number) < 9e18))
    usage(cat("input \"", info.name, "\": '", value,
              "' is not a number of type ", kerf_dtype_name(info.dtype)));
  tensor.dtype = info.dtype;
  tensor.shape = shape;
  tensor.data.resize(info.bytes);
  fillNumber(info, number, tensor);
  return tensor;
}

void Runner::readInputs() {
  int32_t count = kerf_package_num_inputs(package.get());
  std::vector<bool> given(count);
  inputs.resize(count);
  std::vector<kerf_tensor_info_t> infos(count);
  std::string names;
  for (int32_t i = 0; i < count; ++i) {
    check(kerf_package_input(package.get(), i, &infos[i]));
    names += cat(i ? ", " : "", infos[i].name);
  }
  for (const std::string &text : options.inputs) {
    size_t eq = text.find('=');
    std::string name = text.substr(0, eq);
    auto it = std::find_if(
        infos.begin(), infos.end(),
        [&](const kerf_tensor_info_t &info) { return name == info.name; });
    if (eq == std::string::npos)
      usage(cat("--input '", text, "': expected NAME=@FILE.npy"));
    if (it == infos.end())
      usage(cat(options.package, ": no input \"", name,
                "\", there are: ", names));
    size_t index = static_cast<size_t>(it - infos.begin());
    if (given[index])
      usage(cat("input \"", name, "\" is given twice"));
    given[index] = true;
    inputs[index] = parseInput(*it, text.substr(eq + 1));
  }
  for (int32_t i = 0; i < count; ++i)
    if (!given[i]) {
      if (!options.hasSeed)
        usage(cat(options.package, ": input \"", infos[i].name, "\" (",
                  kerf_dtype_name(infos[i].dtype), " ",
                  shapeString(shapeOf(infos[i])), ") is missing: give --input ",
                  infos[i].name, "=@FILE.npy, or --seed=S for random inputs"));
      inputs[i].dtype = infos[i].dtype;
      inputs[i].shape = shapeOf(infos[i]);
      inputs[i].data.resize(infos[i].bytes);
      fillRandom(infos[i].name, options.seed, infos[i].dtype,
                 static_cast<int64_t>(infos[i].bytes /
                                      kerf_dtype_size(infos[i].dtype)),
                 infos[i].range_low, infos[i].range_high,
                 inputs[i].data.data());
    }
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
    if (size_t at = text.find("=@"); at != std::string::npos)
      files.reads("--input", text.substr(at + 2));
  files.writes("--stats", options.statsFile);
  files.writes("--trace", options.traceFile);
  files.fills("--output-dir", options.outputDir, outputFiles());
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
      lost(cat(options.outputDir, ": cannot create: ", std::strerror(errno)));
    std::vector<std::string> names = outputFiles();
    for (int32_t i = 0, n = static_cast<int32_t>(names.size()); i < n; ++i) {
      kerf_tensor_info_t info = outputInfo(i);
      const void *data;
      size_t bytes;
      check(kerf_session_get_output(session.get(), i, &data, &bytes));
      std::string content;
      formatNpy(info.dtype, shapeOf(info), data, bytes, content);
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
    kerf_tensor_info_t info = outputInfo(i);
    const void *data;
    size_t bytes;
    check(kerf_session_get_output(session.get(), i, &data, &bytes));
    std::string line = cat(info.name, ": ", kerf_dtype_name(info.dtype), " ",
                           shapeString(shapeOf(info)));
    if (info.dtype == KERF_F32 && bytes != 0) {
      const float *values = static_cast<const float *>(data);
      double low = values[0], high = values[0], sum = 0;
      size_t count = bytes / sizeof(float);
      for (size_t j = 0; j < count; ++j) {
        low = std::min<double>(low, values[j]);
        high = std::max<double>(high, values[j]);
        sum += values[j];
      }
      line += cat(", min ", low, ", max ", high, ", mean ",
                  sum / static_cast<double>(count));
    }
    say(out, printable(line) + "\n");
  }
}

void logLine(void *user, kerf_log_level_t level, const char *line) {
  say(static_cast<std::FILE *>(user),
      (level == KERF_LOG_WARNING ? "warning: " : "") + printable(line) + "\n");
}

void Runner::run() {
  preferShortSpins();
  if (options.repeat < 1)
    usage("--repeat must be at least 1");
  kerf_package_options_t packageOptions = {};
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
    packageOptions.log_user = sessionOptions.log_user = err;
  }
  kerf_package_t *rawPackage = nullptr;
  check(
      kerf_package_open(options.package.c_str(), &packageOptions, &rawPackage));
  package.reset(rawPackage);
  if (job && kerf_package_num_ranks(rawPackage) != job.size())
    usage(cat(options.package, ": has ", kerf_package_num_ranks(rawPackage),
              " ranks, the job has ", job.size(), " processes"));
  if (job.leads()) {
    checkFiles();
    readInputs();
  }
  shareInputs();
  sessionOptions.job = job.get();
  kerf_session_t *rawSession = nullptr;
  check(kerf_session_create(rawPackage, &sessionOptions, &rawSession));
  session.reset(rawSession);
  for (size_t i = 0; i < inputs.size(); ++i)
    check(kerf_session_set_input(rawSession, static_cast<int32_t>(i),
                                 inputs[i].data.data(), inputs[i].data.size()));
  for (int32_t i = 0; i < options.repeat; ++i)
    check(kerf_session_run(rawSession));
  if (job.leads()) {
    writeFiles();
    printSummary();
  }
}
} // namespace

void kerf::rt::preferShortSpins() {
  if (!std::getenv("OMP_WAIT_POLICY") && !std::getenv("GOMP_SPINCOUNT"))
    ::setenv("GOMP_SPINCOUNT", "2000", 0);
}

int kerf::rt::reportStatus(kerf_status_t status, const std::string &file,
                           std::FILE *err) {
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
                         std::FILE *out, std::FILE *err) {
  int code = 0;
  try {
    Runner(options, job, out, err).run();
  } catch (const Exit &exit) {
    code = exit.code;
  } catch (...) {
    Error error = currentError();
    // Messages about files begin with them.
    bool isLocated = error.code == KERF_IO_ERROR;
    code = job.report(toStatus(error), isLocated ? "" : options.package, err);
  }
  return job.leave(code, err);
}

int kerf::rt::runPackage(const RunOptions &options, std::FILE *out,
                         std::FILE *err) {
  JobScope job;
  kerf_status_t status = job.join(options.timeoutSeconds, options.signals);
  if (status)
    return reportStatus(status, options.package, err);
  return runPackage(options, job, out, err);
}

int kerf::rt::runPackageInProcesses(const RunOptions &options, std::FILE *out,
                                    std::FILE *err) {
  kerf_package_options_t open = {};
  open.struct_size = sizeof(open);
  open.skip_hashes = 1; // each process compares them
  kerf_package_t *package = nullptr;
  if (kerf_status_t status =
          kerf_package_open(options.package.c_str(), &open, &package))
    return reportStatus(status, options.package, err);
  int32_t ranks = kerf_package_num_ranks(package);
  kerf_package_close(package);
  return runProcesses(
      ranks, [&] { return runPackage(options, out, err); }, err);
}
