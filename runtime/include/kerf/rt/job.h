//===- job.h - processes as ranks, above the C ABI --------------*- C++ -*-===//
//
// What kerf-run, `kerf run` and `kerf train` share: joining the job that
// mpirun, torchrun or srun has started, handing things from rank 0 to all, one
// message and one exit code for all processes, and starting the processes of
// one host without any of these.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_JOB_H
#define KERF_RT_JOB_H

#include "kerf/rt/runtime.h"

#include <cstdio>
#include <functional>
#include <string>

namespace kerf::rt {

/// This process's part in a job; without one everything here does nothing.
class JobScope {
public:
  JobScope() = default;
  ~JobScope() { kerf_job_free(job); }
  JobScope(const JobScope &) = delete;
  JobScope &operator=(const JobScope &) = delete;

  /// Joins if the environment says that there is a job of several processes.
  /// The status is the caller's.
  kerf_status_t join(double timeoutSeconds, const kerf_signals_t *signals);
  explicit operator bool() const { return job != nullptr; }
  kerf_job_t *get() const { return job; }
  int32_t size() const { return kerf_job_size(job); }
  bool leads() const { return kerf_job_rank(job) == 0; }

  /// Rank 0's text on all.
  kerf_status_t share(std::string &text);
  /// The plain files of rank 0's folder on all, in `folder` of each, which
  /// exists. `program.so` and the like: no subfolders.
  kerf_status_t shareFolder(const std::string &folder);

  /// For a status that ends this process: tells the others, waits for its turn,
  /// prints, frees; gives the exit code. KERF_CLOSED is printed nowhere: rank 0
  /// has said why.
  int report(kerf_status_t status, const std::string &file, std::FILE *err);
  /// The same for what has no status.
  int fail(const std::string &message, std::FILE *err);
  /// The end of every process: all end with rank 0's code. `failed`: after
  /// report(), when nobody says goodbye any more.
  int leave(int code, std::FILE *err);

private:
  kerf_job_t *job = nullptr;
  bool failed = false;
};

/// Makes SIGTERM and SIGCONT write to what it gives, for JobScope::join; for
/// programs that do not handle SIGTERM themselves.
const kerf_signals_t *handleJobSignals(bool terminate = true);

/// Whether the environment says that this process is one of several.
bool insideJob();

/// Forks `count` processes of this host, ranks 0 to count - 1, that each join
/// the job and run `body`. What rank 0 prints is printed, of the others errors
/// alone. When one fails the others are given a moment to say why, then ended.
/// Gives the exit code of the first that failed; 5 for one that was killed.
/// The caller has no threads of its own that `body` needs.
int runProcesses(int32_t count, const std::function<int()> &body,
                 std::FILE *err);

} // namespace kerf::rt

#endif // KERF_RT_JOB_H
