//===- Progress.cpp - the log of a training run ---------------------------===//
#include "Progress.h"

#include "../run/AtomicFile.h"

#include "kerf/rt/printable.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace kerf::rt;
using nlohmann::ordered_json;

static double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The lines of an earlier part of the run that are still valid.
static std::string keptLines(const std::string &path, int64_t stepsDone) {
  std::string kept, line;
  std::ifstream in(path);
  while (stepsDone > 0 && std::getline(in, line)) {
    auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step") &&
        json["step"].is_number_integer() &&
        json["step"].get<int64_t>() <= stepsDone)
      kept += line + "\n";
  }
  return kept;
}

/// A log is of one run at a time: of lines of two in turn none could be told
/// from the other's. Holds until the file is closed.
static void lockLog(int file, const std::string &path) {
  struct stat info;
  bool isFile = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  if (isFile && ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(KERF_INVALID_ARGUMENT,
                path + ": another run that goes on writes its log there: give "
                       "this one another file");
}

Progress::Progress(const std::string &log, int64_t stepsDone, int64_t steps,
                   int64_t samples, int64_t tokens, std::FILE *terminal,
                   std::FILE *warnings)
    : path(log), terminal(terminal), warnings(warnings), steps(steps),
      samples(samples), tokens(tokens) {
  if (path.empty())
    return;
  if (std::FILE *before = std::fopen(path.c_str(), "re")) {
    std::unique_ptr<std::FILE, int (*)(std::FILE *)> open(before, std::fclose);
    lockLog(fileno(before), path);
  }
  std::string kept = keptLines(path, stepsDone);
  if (!kept.empty()) { // by renaming: a crash must not lose the old log
    AtomicFile file(path);
    file.write(kept.data(), kept.size());
    file.commit();
  }
  this->log = std::fopen(path.c_str(), kept.empty() ? "w" : "a");
  if (!this->log)
    throw Error(KERF_INVALID_ARGUMENT,
                path + ": cannot write: " + whyFailed(path, errno));
  lockLog(fileno(this->log), path);
  std::setvbuf(this->log, nullptr, _IONBF, 0);
  wholeBytes = static_cast<int64_t>(kept.size());
}

Progress::~Progress() {
  clear();
  if (log)
    std::fclose(log);
}

void Progress::clear() {
  if (shown)
    std::fputs("\r\033[K", terminal);
  shown = false;
}

void Progress::writeLog(const std::string &line) {
  if (!log)
    return;
  std::string whole = line + "\n";
  // Unbuffered: text that could not be written must not be written later.
  if (std::fwrite(whole.data(), 1, whole.size(), log) == whole.size()) {
    wholeBytes += static_cast<int64_t>(whole.size());
    return;
  }
  int reason = errno;
  std::clearerr(log);
  if (::ftruncate(fileno(log), static_cast<off_t>(wholeBytes)) == 0)
    std::fseek(log, 0, SEEK_END);
  if (std::exchange(warned, true))
    return;
  clear();
  say(warnings, cat("warning: ", printable(path),
                    ": cannot write: ", std::strerror(reason),
                    "; lines are missing, the run goes on\n"));
}

/// Nine digits hold every float.
static ordered_json real(double value) {
  if (!std::isfinite(value))
    return nullptr;
  char text[40];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return std::strtod(text, nullptr);
}

double Progress::secondsPerStep() const {
  return measured > 1 ? measuredSeconds / static_cast<double>(measured - 1)
                      : firstSeconds;
}

void Progress::step(const StepReport &report) {
  ordered_json line = {{"step", report.step},
                       {"loss", real(report.loss)},
                       {"learning_rate", report.learningRate},
                       {"seconds", real(report.seconds)},
                       {"bytes_per_rank", report.bytesPerRank}};
  if (report.gradientNorm)
    line["gradient_norm"] = real(*report.gradientNorm);
  if (report.lossScale)
    line["loss_scale"] = *report.lossScale;
  if (report.skipped)
    line["skipped"] = true;
  writeLog(line.dump());
  (measured++ ? measuredSeconds : firstSeconds) += report.seconds;
  if (!terminal || (now() - lastShown < 0.1 && report.step != steps))
    return;
  lastShown = now();
  double seconds = secondsPerStep();
  double rate = static_cast<double>(tokens ? tokens : samples) / seconds;
  int64_t left = static_cast<int64_t>(
      std::ceil(seconds * static_cast<double>(steps - report.step)));
  std::fprintf(terminal,
               "\r\033[Kstep %lld/%lld  loss %#.5g  %.*f %s/s  %.1f KiB/step  "
               "%02lld:%02lld:%02lld left",
               static_cast<long long>(report.step),
               static_cast<long long>(steps), report.loss, rate < 100 ? 1 : 0,
               rate, tokens ? "tokens" : "samples",
               static_cast<double>(report.bytesPerRank) / 1024,
               static_cast<long long>(left / 3600),
               static_cast<long long>(left / 60 % 60),
               static_cast<long long>(left % 60));
  std::fflush(terminal);
  shown = true;
}

void Progress::evaluation(int64_t step, const Metrics &metrics) {
  ordered_json line = {{"step", step},
                       {"eval_loss", real(metrics.loss())},
                       {"eval_samples", metrics.samples}};
  if (metrics.hasAccuracy)
    line["eval_accuracy"] = real(metrics.accuracy());
  writeLog(line.dump());
}
