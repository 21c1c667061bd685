//===- JobCommand.cpp - what commands on a package have in common ---------===//
#include "JobCommand.h"

#include "../base/Types.h"
#include "kerf/rt/run.h"

using namespace kerf::rt;

namespace {
struct Exit {
  int code;
};
} // namespace

void JobCommand::exitWith(int code) { throw Exit{code}; }

void JobCommand::check(kerf_status_t status) {
  if (status)
    exitWith(job.report(status, named, err));
}

void JobCommand::usage(const std::string &message) {
  if (job.leads()) // the others are ended by it
    say(err, "error: " + printable(message) + "\n");
  exitWith(2);
}

int kerf::rt::runInJob(const std::string &named, JobScope &job,
                       const Messages &err, const std::function<void()> &body) {
  int code = 0;
  try {
    body();
  } catch (const Exit &exit) {
    code = exit.code;
  } catch (...) {
    Error error = currentError();
    // Messages about files begin with them.
    bool isLocated = error.code == KERF_IO_ERROR;
    code = job.report(toStatus(error), isLocated ? "" : named, err);
  }
  return job.leave(code, err);
}

int kerf::rt::runProcessPerRank(const std::string &package,
                                const std::string &named, const Messages &err,
                                const std::function<int()> &each) {
  kerf_package_options_t open = {};
  open.struct_size = sizeof(open);
  open.skip_hashes = 1; // each process compares them
  kerf_package_t *raw = nullptr;
  if (kerf_status_t status = kerf_package_open(package.c_str(), &open, &raw))
    return reportStatus(status, named, err);
  int32_t ranks = kerf_package_num_ranks(raw);
  kerf_package_close(raw);
  return runProcesses(ranks, each, err);
}
