//===- Stop.cpp - Ctrl-C ends what runs -----------------------------------===//
#include "kerf/rt/stop.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <unistd.h>

using namespace kerf::rt;

// A signal handler can only reach what is global.
static StopScope *volatile current = nullptr;

/// Nobody presses Ctrl-C twice in so short a time.
static constexpr int64_t kOneRequestMilliseconds = 200;

static int64_t milliseconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

bool StopRequests::isNew() {
  int64_t time = milliseconds();
  bool isSame = last >= 0 && time - last < kOneRequestMilliseconds;
  if (!isSame)
    last = time;
  return !isSame;
}

void StopRequests::settle() const {
  if (last < 0)
    return;
  int64_t left = last + kOneRequestMilliseconds - milliseconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(left));
}

void StopScope::handle(int signal, siginfo_t *info, void *) {
  StopScope *scope = current;
  if (!scope || !scope->requests.isNew())
    return;
  bool isHandedOn = info->si_code == SI_USER && info->si_pid == ::getppid();
  auto &count = isHandedOn ? scope->handedOn : scope->direct;
  count = count + 1;
  int direct = scope->direct, handedOn = scope->handedOn;
  if (std::max(direct, handedOn) == 1)
    return scope->told(signal);
  passOn(signal);
}

void StopScope::passOn(int signal) {
  StopScope *scope = current;
  ::sigaction(signal, signal == SIGINT ? &scope->oldInt : &scope->oldTerm,
              nullptr);
  current = scope->outer; // whose handler this may be as well
  ::raise(signal);        // comes once this handler is over
}

StopScope::StopScope(Told told, Takes takes)
    : told(told), termination(takes.termination), outer(current) {
  current = this;
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | (takes.restarts ? SA_RESTART : 0);
  ::sigaction(SIGINT, &action, &oldInt);
  if (oldInt.sa_handler == SIG_IGN && !takes.whatIsIgnored)
    ::sigaction(SIGINT, &oldInt, nullptr);
  if (termination)
    ::sigaction(SIGTERM, &action, &oldTerm);
}

StopScope::~StopScope() {
  requests.settle();
  ::sigaction(SIGINT, &oldInt, nullptr);
  if (termination)
    ::sigaction(SIGTERM, &oldTerm, nullptr);
  current = outer;
}

static const char *volatile noteText = "";
static volatile pid_t noteOwner = 0;

StopNote::StopNote(const char *text)
    : scope(
          [](int signal) {
            int saved = errno;
            auto write = [](const char *part) {
              [[maybe_unused]] auto count =
                  ::write(STDERR_FILENO, part, std::strlen(part));
            };
            // Processes that were forked off are ended as well.
            if (::getpid() == noteOwner) {
              if (::isatty(STDERR_FILENO)) // over a line of progress
                write("\r\033[K");
              write("note: ended by Ctrl-C");
              write(noteText);
              write("\n");
            }
            errno = saved;
            StopScope::passOn(signal);
          },
          StopScope::Takes()) {
  noteText = text;
  noteOwner = ::getpid();
}
