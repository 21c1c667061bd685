//===- JobCommand.h - what commands on a package have in common -*- C++ -*-===//
//
// A command runs in one process, or in each process of a job, of which the
// first speaks. Errors end it with an exit code, on all of them.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_RUN_JOBCOMMAND_H
#define KERF_RUNTIME_RUN_JOBCOMMAND_H

#include "kerf/rt/job.h"
#include "kerf/rt/runtime.h"

#include <functional>
#include <memory>
#include <string>

namespace kerf::rt {

struct PackageCloser {
  void operator()(kerf_package_t *p) const { kerf_package_close(p); }
};
struct SessionCloser {
  void operator()(kerf_session_t *s) const { kerf_session_destroy(s); }
};
using PackageHandle = std::unique_ptr<kerf_package_t, PackageCloser>;
using SessionHandle = std::unique_ptr<kerf_session_t, SessionCloser>;

class JobCommand {
public:
  /// `named`: what messages call the package.
  JobCommand(std::string named, JobScope &job, const Messages &err)
      : named(std::move(named)), job(job), err(err) {}

protected:
  /// Ends the command if there is an error; `status` is freed.
  void check(kerf_status_t status);
  /// Ends the command with a message, as the request is at fault.
  [[noreturn]] void usage(const std::string &message);
  /// Ends the command; the message was printed.
  [[noreturn]] void exitWith(int code);

  std::string named;
  JobScope &job;
  Messages err;
};

/// Runs `body`, which makes and runs a command and may throw Error, and leaves
/// the job. The exit code. The command must be gone when `body` returns: a
/// session that ends answers what rank 0 still asks (statistics), which a rank
/// that waits for the end of the job does not.
int runInJob(const std::string &named, JobScope &job, const Messages &err,
             const std::function<void()> &body);

/// Runs `each` in a process of this host for each rank of a package. The exit
/// code.
int runProcessPerRank(const std::string &package, const std::string &named,
                      const Messages &err, const std::function<int()> &each);

} // namespace kerf::rt

#endif // KERF_RUNTIME_RUN_JOBCOMMAND_H
