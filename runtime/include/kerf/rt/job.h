//===- job.h - processes as ranks, above the C ABI --------------*- C++ -*-===//
//
// Shared by kerf-run, `kerf run` and `kerf train`: joining the job that mpirun,
// torchrun or srun has started, sending data from rank 0 to all, one message
// and one exit code for all processes, and starting the processes of one host
// without any of these.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_JOB_H
#define KERF_RT_JOB_H

#include "kerf/rt/printable.h"
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
  /// Copies the plain files of rank 0's folder to `folder` of each rank, which
  /// must exist. No subfolders.
  kerf_status_t shareFolder(const std::string &folder);

  /// For a status that ends this process: tells the others, waits for its turn,
  /// prints, frees; returns the exit code. KERF_CLOSED is not printed: rank 0
  /// has printed the reason.
  int report(kerf_status_t status, const std::string &file,
             const Messages &err);
  /// The same for an error without a status.
  int fail(const std::string &message, const Messages &err);
  /// Ends every process with rank 0's code. `failed`: after report(), when no
  /// rank says goodbye.
  int leave(int code, const Messages &err);

private:
  kerf_job_t *job = nullptr;
  bool failed = false;
};

/// Installs handlers of SIGTERM and SIGCONT that write to the returned object,
/// for JobScope::join; for programs that do not handle SIGTERM themselves.
const kerf_signals_t *handleJobSignals(bool terminate = true);

/// Whether the environment says that this process is one of several.
bool insideJob();

/// Forks `count` processes of this host, ranks 0 to count - 1, that each join
/// the job and run `body`. Output of rank 0 is printed, of the others only
/// errors. When one fails, the others get a moment to report, then are ended.
/// Returns the exit code of the first that failed; 5 for one that was killed.
/// The caller must have no threads that `body` needs.
int runProcesses(int32_t count, const std::function<int()> &body,
                 const Messages &err);

} // namespace kerf::rt

#endif // KERF_RT_JOB_H
