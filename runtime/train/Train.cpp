//===- Train.cpp - training a package as a whole --------------------------===//
//
// What comes after the last step, and how failures are reported.
//
//===----------------------------------------------------------------------===//
#include "Checkpoints.h"
#include "TrainedModel.h"
#include "Trainer.h"

#include "../run/Figures.h"

#include "kerf/Format/Schemas.h"
#include "kerf/rt/files.h"
#include "kerf/rt/run.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>

using namespace kerf::rt;
using nlohmann::ordered_json;

std::string Trainer::takeJson(kerf_status_t (*get)(kerf_session_t *, char **)) {
  char *json = nullptr;
  checkStatus(get(session, &json));
  std::string text = json;
  kerf_string_free(json);
  return text;
}

std::string Trainer::trace() {
  ordered_json json = ordered_json::parse(takeJson(kerf_session_trace));
  auto start = json["startNanoseconds"].get<int64_t>();
  int32_t lane = kerf_package_num_ranks(package);
  ordered_json &events = json["traceEvents"];
  events.push_back({{"name", "thread_name"},
                    {"ph", "M"},
                    {"pid", 0},
                    {"tid", lane},
                    {"args", {{"name", "loop"}}}});
  auto add = [&](const char *name, int64_t begin, int64_t end) {
    events.push_back({{"name", name},
                      {"cat", "loop"},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", lane},
                      {"ts", static_cast<double>(begin - start) * 1e-3},
                      {"dur", static_cast<double>(end - begin) * 1e-3}});
  };
  add("1 read mini-batch", readBegin, readEnd);
  add("2-6 step", readEnd, runEnd);
  return json.dump();
}

void Trainer::writeMeasurements() {
  FileSet files;
  std::string error;
  bool ran = state.step > firstStep;
  if (!options.stats.empty() && ran &&
      !files.add(options.stats, takeJson(kerf_session_statistics) + "\n",
                 error))
    throw Error(KERF_IO_ERROR, error);
  if (!options.trace.empty() && ran &&
      !files.add(options.trace, trace() + "\n", error))
    throw Error(KERF_IO_ERROR, error);
  if (!files.commit(error))
    throw Error(KERF_IO_ERROR, error);
}

static ordered_json real(double value) {
  if (std::isfinite(value))
    return value;
  return nullptr;
}

/// The sign of a NaN says nothing.
static std::string sizeText(int64_t bytes) {
  constexpr const char *units[] = {"B", "KiB", "MiB", "GiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s",
                unit == 0 || value >= 100 ? 0
                : value < 10              ? 2
                                          : 1,
                value, units[unit]);
  return text;
}

static std::string sixDigits(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return std::isnan(value) ? "nan" : text;
}

void Trainer::printSummary() {
  int64_t done = state.step - firstStep;
  int64_t skipped = state.step - state.updates;
  double seconds = progress->secondsPerStep();
  if (options.json) {
    ordered_json json = {
        {"schema", kerf::trainSchema.text()},
        {"steps", state.step},
        {"first_step", firstStep + 1},
        {"skipped", skipped},
        {"first_loss", real(firstLoss)},
        {"last_loss", real(lastLoss)},
        {"samples", state.samples},
        {"batch_size", state.batch},
        {"ranks", kerf_package_num_ranks(package)},
        {"mesh",
         ordered_json::parse(takeJson(kerf_session_statistics)).at("mesh")},
        {"seconds_per_step", real(seconds)},
        {"read_seconds", real(readSeconds)},
        {"bytes_per_rank", std::max<int64_t>(0, bytesPerRank)}};
    if (lastMetrics) {
      json["eval_loss"] = real(lastMetrics->loss());
      json["eval_samples"] = lastMetrics->samples;
      if (lastMetrics->hasAccuracy)
        json["eval_accuracy"] = real(lastMetrics->accuracy());
    }
    std::fprintf(out, "%s\n", json.dump(1).c_str());
    return;
  }
  if (options.quiet)
    return;
  if (done == 0) {
    std::fprintf(out, "trained: all of %lld steps were done before\n",
                 static_cast<long long>(state.step));
    return;
  }
  std::string first = sixDigits(firstLoss);
  if (firstLossStep > firstStep + 1)
    first += cat(" (of step ", firstLossStep, ", the first with a finite one)");
  std::fprintf(out,
               "trained %lld %s: loss %s -> %s, %s ms per step%s, %s sent "
               "per rank and step%s\n",
               static_cast<long long>(done), done == 1 ? "step" : "steps",
               first.c_str(), sixDigits(lastLoss).c_str(),
               threeDigits(seconds * 1e3).c_str(),
               done > 1 ? " (mean without the first)" : "",
               sizeText(bytesPerRank).c_str(),
               skipped ? cat(", ", skipped, skipped == 1 ? " step" : " steps",
                             " skipped (loss or gradients not finite)")
                             .c_str()
                       : "");
}

static void require(const std::string &wrong) {
  if (!wrong.empty())
    throw Error(KERF_INVALID_ARGUMENT, wrong);
}

/// The files of the run, for the check that no file is both read and written or
/// written twice, and that all can be written.
static UsedFiles filesOf(const TrainOptions &options) {
  UsedFiles files;
  files.reads("option data", options.data);
  files.reads("option eval-data", options.evalData);
  files.reads("the model", options.model);
  for (size_t i = 1; i < options.modelFiles.size(); ++i)
    files.reads("the model's external data", options.modelFiles[i]);
  files.writes("option output", options.output);
  files.writes("option save-safetensors", options.safetensors);
  files.writes("option log", options.log);
  files.writes("option trace", options.trace);
  files.writes("option stats", options.stats);
  keepCheckpoints(files, options.checkpointDir);
  return files;
}

std::string kerf::rt::checkTrainOptions(const TrainOptions &given,
                                        bool writes) {
  TrainOptions options = given;
  if (!writes)
    options.output = options.safetensors = options.log = options.trace =
        options.stats = options.checkpointDir = options.evalData = "";
  if (!writes)
    options.resume = options.checkpointEvery = 0;
  try {
    UsedFiles files = filesOf(options);
    require(files.check());
    if (!options.output.empty() && !options.modelFiles.empty()) {
      std::vector<std::string> places = placesOf(options);
      for (size_t i = 1; i < places.size(); ++i)
        files.writes("the external data of option output", places[i]);
      // Their folders may be missing: the writer makes them.
      require(files.checkDistinct());
    }
    if (options.resume && options.checkpointDir.empty())
      return "option resume needs option checkpoint-dir";
    if (options.checkpointEvery > 0 && options.checkpointDir.empty())
      return "option checkpoint-every needs option checkpoint-dir";
    if (!options.checkpointDir.empty() && !options.resume &&
        hasCheckpoints(options.checkpointDir))
      return holdsCheckpoints(options.checkpointDir);
    openData(options.data, options.sequenceLength);
    if (!options.evalData.empty())
      openData(options.evalData, options.sequenceLength);
    return "";
  } catch (...) {
    return currentError().message;
  }
}

/// One line with the file it is about in front, unless the message has one.
static int report(const Error &error, const TrainOptions &options,
                  JobScope &job, const Messages &err) {
  bool isLocated =
      error.code == KERF_INVALID_ARGUMENT || error.code == KERF_IO_ERROR;
  return job.report(toStatus(error), isLocated ? "" : options.model, err);
}

int kerf::rt::trainPackage(const TrainOptions &options, JobScope &job,
                           std::FILE *out, const Messages &err) {
  std::string wrong = checkTrainOptions(options, job.leads());
  int code = 0;
  preferShortSpins();
  bool isReady = false;
  try {
    if (!wrong.empty())
      throw Error(KERF_INVALID_ARGUMENT, wrong);
    Trainer(options, job, out, err, isReady).run();
  } catch (const TrainExit &exit) {
    code = exit.code;
  } catch (...) {
    code = report(currentError(), options, job, err);
    if (!isReady && !options.quiet && job.leads())
      for (const std::string &text : options.hints)
        say(err, noteLine(text));
  }
  return job.leave(code, err);
}

int kerf::rt::trainPackage(const TrainOptions &options, std::FILE *out,
                           const Messages &err) {
  JobScope job;
  if (kerf_status_t status = job.join(options.timeoutSeconds, nullptr))
    return reportStatus(status, options.model, err);
  return trainPackage(options, job, out, err);
}
