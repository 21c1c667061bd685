//===- Progress.cpp - a line while a command works ------------------------===//
#include "Progress.h"
#include "report/Report.h"

#include "kerf/rt/job.h"
#include "kerf/rt/printable.h"

#include "llvm/Support/FormatVariadic.h"

#include <atomic>
#include <cstdio>
#include <unistd.h>

using namespace kerf;
using namespace kerf::tool;

// A signal handler can only reach what is global.
static std::atomic<bool> searchStopped{false};

static const char *wordsFor(llvm::StringRef phase) {
  return phase == "import"    ? "importing"
         : phase == "plan"    ? "planning"
         : phase == "explain" ? "explaining"
         : phase == "package" ? "compiling"
                              : nullptr;
}

/// Seconds, on a terminal.
static constexpr double kShownAfter = 1;

double kerf::tool::secondsToNote(const Options &options) {
  return ::isatty(2) ? kShownAfter : options.noteAfter;
}

Progress::Progress(const Options &options, CompilationOptions &compile)
    : isVolume(options.objective == "volume"),
      hasDeadline(options.deadline > 0), row(rt::printable(options.row)),
      meanwhile(options.meanwhile), noteAfterSeconds(options.noteAfter) {
  // mpirun's signals are the job's.
  if (rt::insideJob() && !::isatty(2))
    return;
  compile.plan.stop = &searchStopped;
  compile.onPhase = [this](llvm::StringRef name) { enter(name.str()); };
  compile.plan.progress = [this](const plan::PlanProgress &now) {
    std::lock_guard<std::mutex> lock(mutex);
    // Other ways to train, or to keep the limit, are looked at from the start.
    if (search && (now.searched < search->searched ||
                   now.candidates < search->candidates))
      ++round;
    search = now;
  };
  start(options);
}

Progress::Progress(const Options &options)
    : isVolume(false), hasDeadline(false), noteAfterSeconds(options.noteAfter) {
  if (!rt::insideJob() || ::isatty(2))
    start(options);
}

void Progress::start(const Options &options) {
  if (options.quiet)
    return;
  if (::isatty(2))
    thread = std::thread([this] { show(); });
  else
    thread = std::thread([this] { note(); });
}

Progress::~Progress() {
  enter("");
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    isOver = true;
  }
  wake.notify_all();
  thread.join();
}

void Progress::finish() const {
  if (explainStopped)
    rt::say(stderr, "note: explaining was ended by Ctrl-C: some ways were not "
                    "looked at\n");
  if (stopped)
    rt::say(stderr, "note: the search was ended by Ctrl-C: this is the best "
                    "plan so far, and the bound is of what was looked at and "
                    "what was not\n");
}

void Progress::enter(const std::string &name) {
  std::lock_guard<std::mutex> lock(mutex);
  if (isShown)
    std::fputs("\r\033[K", stderr);
  isShown = false;
  if (interrupt && searchStopped)
    (phase == "explain" ? explainStopped : stopped) = true;
  interrupt.reset();
  if (name == "plan" || name == "explain") {
    // A search that was ended is not taken up where its plan does not fit.
    searchStopped = name == "plan" && stopped;
    interrupt = std::make_unique<rt::StopScope>(
        [](int) { searchStopped = true; }, rt::StopScope::Takes());
  }
  phase = name;
  started = std::chrono::steady_clock::now();
  // A plan that did not fit once it was laid out is searched again.
  if (name == "plan") {
    if (planBegan)
      ++numTooLarge;
    planBegan = started = planBegan.value_or(started);
  }
  search.reset();
  round = 1;
}

void Progress::rename(const std::string &name) {
  std::lock_guard<std::mutex> lock(mutex);
  phase = name;
}

std::string Progress::line(double seconds) const {
  const char *word = wordsFor(phase);
  std::string text = word ? word : phase;
  if (!row.empty())
    text += ", " + row;
  const bool mayNotFit = round > 1 || numTooLarge > 0;
  if (search && phase == "plan") {
    auto cost = [&](double value) {
      return isVolume ? formatBytes(value) : formatSeconds(value);
    };
    if (round > 1)
      text += llvm::formatv(", round {0}", round).str();
    text += llvm::formatv(", {0} of {1} meshes", search->searched,
                          search->candidates)
                .str();
    if (numTooLarge > 0)
      text +=
          llvm::formatv(", {0} laid out above the limit", numTooLarge).str();
    if (search->best) {
      text += ", best so far " + cost(*search->best);
      // Others that were predicted to fit did not.
      if (mayNotFit)
        text += " (predicted to fit)";
      if (double bound = search->lowerBound; bound > 0)
        text += ", gap " + gapText(1 - bound / *search->best);
    }
  }
  text += llvm::formatv(", {0:F0} s", seconds).str();
  if (phase == "plan")
    text += searchStopped ? "; ending"
            : search && search->best
                ? (mayNotFit ? "; Ctrl-C lays out the best so far"
                             : "; Ctrl-C takes the best so far")
                : "; Ctrl-C ends planning";
  return text;
}

void Progress::sayMeanwhile() {
  std::string lines = meanwhile ? meanwhile() : "";
  if (lines.empty())
    return;
  if (isShown)
    std::fputs("\r\033[K", stderr);
  isShown = false;
  rt::say(stderr, lines);
}

void Progress::show() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!isOver) {
    wake.wait_for(lock, std::chrono::milliseconds(200));
    double seconds = std::chrono::duration<double>(
                         std::chrono::steady_clock::now() - started)
                         .count();
    if (!isOver)
      sayMeanwhile();
    if (isOver || phase.empty() || seconds < kShownAfter)
      continue;
    std::fputs(("\r\033[K" + line(seconds)).c_str(), stderr);
    isShown = true;
  }
}

/// Where nothing can be drawn over, a line now and then, ever more seldom.
void Progress::note() {
  std::unique_lock<std::mutex> lock(mutex);
  // Planning goes on where it stopped when what it gave is laid out too large.
  double nextOfPlan = noteAfterSeconds, nextOfOther = noteAfterSeconds;
  while (!isOver) {
    wake.wait_for(lock, std::chrono::milliseconds(500));
    double seconds = std::chrono::duration<double>(
                         std::chrono::steady_clock::now() - started)
                         .count();
    double &next = phase == "plan" ? nextOfPlan : nextOfOther;
    if (seconds < noteAfterSeconds)
      next = noteAfterSeconds; // a phase that began just now
    if (!isOver)
      sayMeanwhile();
    if (isOver || phase.empty() || seconds < next)
      continue;
    const char *limit = phase == "plan" && !hasDeadline && !searchStopped
                            ? " (and --deadline=S in time)"
                            : "";
    std::fputs(("note: " + line(seconds) + limit + "\n").c_str(), stderr);
    next = 2 * seconds;
  }
}
