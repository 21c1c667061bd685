//===- Processes.cpp - the processes of a job on this host ----------------===//
//
// The launcher serves the rendezvous itself, on a port of its own choice, and
// hands it on in torchrun's variables. Children die with it. It watches them:
// the first that fails decides the exit code, and the others get a moment to
// notice, to name the rank and the operation, before they are killed.
//
//===----------------------------------------------------------------------===//
#include "../comm/Rendezvous.h"
#include "../comm/tcp/Socket.h"
#include "kerf/rt/job.h"
#include "kerf/rt/printable.h"
#include "kerf/rt/stop.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace kerf::rt;

namespace {
// Global, since a signal handler has no other access.
volatile std::sig_atomic_t launcherSignal = 0, launcherSignals = 0;
StopRequests launcherRequests;

struct Child {
  pid_t pid = -1;
  bool running = true;
};

[[noreturn]] void runChild(int32_t rank, int32_t count, int port,
                           const std::function<int()> &body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto set = [](const char *name, const std::string &value) {
    ::setenv(name, value.c_str(), 1);
  };
  set("KERF_LAUNCHER", "torchrun");
  set("KERF_STORE", "served");
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(count));
  set("LOCAL_WORLD_SIZE", std::to_string(count));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(port));
  ::unsetenv("KERF_PORT");
  if (rank != 0) {
    int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 0);
    ::dup2(null, 1);
    ::close(null);
  }
  int code = body();
  std::fflush(nullptr);
  std::_Exit(code);
}

class Launcher {
public:
  Launcher(std::vector<Child> started, const Messages &stream)
      : children(std::move(started)), err(stream) {}
  int watch();

private:
  void reap();
  void ended(size_t rank, int status);
  void killAll(int signal) {
    for (Child &child : children)
      if (child.running)
        ::kill(child.pid, signal);
  }

  std::vector<Child> children;
  Messages err;
  size_t running = 0;
  int code = 0;       ///< of the first that failed by itself
  std::string killed; ///< says which was killed, and how
  bool failing = false;
  Deadline patience;
};

void Launcher::ended(size_t rank, int status) {
  children[rank].running = false;
  --running;
  double seconds = 0;
  if (WIFSIGNALED(status)) {
    if (killed.empty())
      killed = cat("rank ", rank, " was ended by signal ", WTERMSIG(status),
                   " (", ::strsignal(WTERMSIG(status)), ")");
    seconds = 3; // the others notice, ask each other, and say so
  } else if (WEXITSTATUS(status) != 0) {
    if (code == 0)
      code = WEXITSTATUS(status);
    seconds = 0.5;
  } else {
    return;
  }
  Deadline until = deadlineAfter(seconds);
  patience = failing ? std::min(patience, until) : until;
  failing = true;
}

void Launcher::reap() {
  for (size_t rank = 0; rank < children.size(); ++rank) {
    int status = 0;
    if (children[rank].running &&
        ::waitpid(children[rank].pid, &status, WNOHANG) == children[rank].pid)
      ended(rank, status);
  }
}

int Launcher::watch() {
  running = children.size();
  int forwarded = 0, handedOn = 0;
  bool killing = false;
  while (running != 0) {
    reap();
    // A terminal sends SIGINT to all by itself, too: StopScope knows.
    for (; handedOn < launcherSignals; ++handedOn) {
      forwarded = launcherSignal;
      killAll(forwarded);
    }
    if (failing && !killing && secondsUntil(patience) <= 0) {
      killing = true;
      killAll(SIGKILL);
      while (running != 0) { // not their failure
        for (Child &child : children)
          if (child.running && ::waitpid(child.pid, nullptr, 0) == child.pid) {
            child.running = false;
            --running;
          }
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // A second signal ends at once whom it finds; the others fail for want of
  // them.
  if (forwarded && (code == 0 || handedOn > 1) && !killed.empty())
    return 128 + forwarded;
  if (!killed.empty())
    say(err, (code ? "note: " : "error: ") + printable(killed) + "\n");
  return code ? code : killed.empty() ? 0 : 5;
}
} // namespace

int kerf::rt::runProcesses(int32_t count, const std::function<int()> &body,
                           const Messages &err) {
  kerf_status_t failure = nullptr;
  int code = 5;
  failure = guard([&] {
    Socket listener = listenOn("127.0.0.1", 0);
    int port = portOf(listener);
    std::fflush(nullptr);
    std::vector<Child> children;
    for (int32_t rank = 0; rank < count; ++rank) {
      pid_t pid = ::fork();
      if (pid == 0) {
        listener.close();
        runChild(rank, count, port, body);
      }
      if (pid < 0) {
        std::string reason = std::strerror(errno);
        for (Child &child : children)
          ::kill(child.pid, SIGKILL);
        throw Error(KERF_IO_ERROR, cat("cannot start process ", rank, " of ",
                                       count, ": ", reason));
      }
      children.push_back({pid, true});
    }
    struct sigaction action = {}, oldInt, oldTerm;
    action.sa_handler = [](int number) {
      launcherSignal = number;
      launcherSignals = launcherSignals + launcherRequests.isNew();
    };
    launcherSignals = 0;
    ::sigaction(SIGINT, &action, &oldInt);
    ::sigaction(SIGTERM, &action, &oldTerm);
    StoreServer server(std::move(listener));
    code = Launcher(std::move(children), err).watch();
    launcherRequests.settle();
    ::sigaction(SIGINT, &oldInt, nullptr);
    ::sigaction(SIGTERM, &oldTerm, nullptr);
  });
  if (!failure)
    return code;
  say(err, "error: " + printable(kerf_status_message(failure)) + "\n");
  code = kerf_status_exit_code(failure);
  kerf_status_free(failure);
  return code;
}
