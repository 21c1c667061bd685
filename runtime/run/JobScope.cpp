//===- JobScope.cpp - processes as ranks, above the C ABI -----------------===//
#include "kerf/rt/job.h"

#include "../comm/Rendezvous.h"
#include "kerf/rt/run.h"

#include <algorithm>
#include <csignal>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace kerf::rt;

// Global, since a signal handler has no other access.
static kerf_signals_t jobSignals;

const kerf_signals_t *kerf::rt::handleJobSignals(bool terminate) {
  struct sigaction action = {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int) { jobSignals.resumed = jobSignals.resumed + 1; };
  ::sigaction(SIGCONT, &action, nullptr);
  action.sa_handler = [](int number) { jobSignals.terminate = number; };
  if (terminate)
    ::sigaction(SIGTERM, &action, nullptr);
  return &jobSignals;
}

bool kerf::rt::insideJob() {
  try {
    return jobEnvironment().size > 1;
  } catch (const Error &) {
    return true; // joining reports the error
  }
}

kerf_status_t JobScope::join(double timeoutSeconds,
                             const kerf_signals_t *signals) {
  kerf_job_options_t options = {};
  options.struct_size = sizeof(options);
  options.deadline_seconds = timeoutSeconds;
  options.signals = signals;
  return kerf_job_join(&options, &job);
}

kerf_status_t JobScope::share(std::string &text) {
  if (!job)
    return nullptr;
  uint64_t bytes = text.size();
  if (kerf_status_t status = kerf_job_broadcast(job, &bytes, sizeof(bytes)))
    return status;
  text.resize(bytes);
  return kerf_job_broadcast(job, text.data(), bytes);
}

namespace {
std::vector<std::string> filesIn(const std::string &folder) {
  std::vector<std::string> names;
  if (DIR *dir = ::opendir(folder.c_str())) {
    while (dirent *entry = ::readdir(dir))
      if (entry->d_name[0] != '.')
        names.push_back(entry->d_name);
    ::closedir(dir);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string readAll(const std::string &path) {
  std::string text;
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file)
    throw Error(KERF_IO_ERROR, path + ": cannot open");
  char buffer[65536];
  while (size_t n = std::fread(buffer, 1, sizeof(buffer), file))
    text.append(buffer, n);
  std::fclose(file);
  return text;
}
} // namespace

kerf_status_t JobScope::shareFolder(const std::string &folder) {
  if (!job)
    return nullptr;
  kerf_status_t status = nullptr;
  auto check = [&](kerf_status_t given) {
    status = given;
    return given != nullptr;
  };
  kerf_status_t thrown = guard([&] {
    std::string list;
    if (leads())
      for (const std::string &name : filesIn(folder))
        list += name + "\n";
    if (check(share(list)))
      return;
    for (size_t at = 0; at < list.size();) {
      size_t end = list.find('\n', at);
      std::string path = folder + "/" + list.substr(at, end - at), content;
      at = end + 1;
      if (leads())
        content = readAll(path);
      if (check(share(content)))
        return;
      std::string error;
      FileSet files;
      if (!leads() &&
          (!files.add(path, content, error) || !files.commit(error)))
        throw Error(KERF_IO_ERROR, error);
    }
  });
  return status ? status : thrown;
}

int JobScope::report(kerf_status_t status, const std::string &file,
                     const Messages &err) {
  if (!status)
    return 0;
  if (!job)
    return reportStatus(status, file, err);
  if (kerf_status_code(status) == KERF_CLOSED) {
    kerf_status_free(status);
    return 0; // leave() gets rank 0's
  }
  failed = true;
  kerf_job_fail(job, status);
  int code = kerf_job_await_report(job);
  if (code >= 0) {
    kerf_status_free(status);
    return code;
  }
  return reportStatus(status, file, err);
}

int JobScope::fail(const std::string &message, const Messages &err) {
  return report(toStatus(Error(KERF_IO_ERROR, message)), "", err);
}

int JobScope::leave(int code, const Messages &err) {
  if (!job || failed)
    return code;
  int32_t all = code;
  kerf_status_t status = kerf_job_leave(job, &all);
  if (!status)
    return all;
  // Rank 0 has said why already if its code is one.
  if (code != 0) {
    kerf_status_free(status);
    return code;
  }
  return report(status, "job", err);
}
