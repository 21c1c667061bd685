//===- Progress.h - a line while a command works ----------------*- C++ -*-===//
//
// Who waits wants to know for what. A phase that takes longer than a second
// shows a line on a terminal: the phase, of planning how many meshes were
// looked at, the best plan so far and the gap to what is proven. It is wiped
// when the phase ends, so nothing of it stays among the results. While a plan
// is searched, Ctrl-C ends the search with the best one so far, if there is
// one; a second one, and one in any other phase, ends the command.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_PROGRESS_H
#define KERF_TOOLS_PROGRESS_H

#include "Options.h"

#include "kerf/Pipelines/Compilation.h"
#include "kerf/rt/stop.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace kerf::tool {

/// The seconds after which work that is not done yet is reported.
double secondsToNote(const Options &options);

/// Lives as long as the compilation whose options it was attached to, if any;
/// there is one at a time. On a terminal it shows a line that it wipes,
/// elsewhere a phase that takes long is noted. SIGINT is taken with or without
/// a terminal, but in a job, whose signals are others'.
class Progress {
public:
  Progress(const Options &options, CompilationOptions &compile);
  /// Of phases that are no compilation's: those that are entered.
  explicit Progress(const Options &options);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// A phase begins, under this name or the word for it; empty: none is left.
  void enter(const std::string &phase);
  /// The phase goes on, under another name.
  void rename(const std::string &phase);
  /// Says that Ctrl-C has ended the search, if it has.
  void finish() const;
  /// Whether it has.
  bool wasStopped() const { return stopped; }

private:
  void start(const Options &options);
  void show();
  void note();
  std::string line(double seconds) const;
  /// Prints what else is known by now.
  void sayMeanwhile();

  bool isVolume, hasDeadline;
  std::string row;                        ///< of --what-if
  std::function<std::string()> meanwhile; ///< rows of it that are known
  double noteAfterSeconds;
  std::unique_ptr<rt::StopScope> interrupt;     ///< while a plan is searched
  bool stopped = false, explainStopped = false; ///< by Ctrl-C
  mutable std::mutex mutex;
  std::condition_variable wake;
  std::string phase;
  std::chrono::steady_clock::time_point started;
  /// When the first plan was begun, and how many took too much memory since.
  std::optional<std::chrono::steady_clock::time_point> planBegan;
  int64_t numTooLarge = 0;
  std::optional<plan::PlanProgress> search;
  int64_t round = 1; ///< of the search, which may begin again
  bool isShown = false, isOver = false;
  std::thread thread;
};

} // namespace kerf::tool

#endif // KERF_TOOLS_PROGRESS_H
