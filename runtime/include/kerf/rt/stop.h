/* stop.h - Ctrl-C ends what runs, a second one ends it at once. */
#ifndef KERF_RT_STOP_H
#define KERF_RT_STOP_H

#include <atomic>
#include <csignal>
#include <cstdint>

namespace kerf::rt {

/// Tells a request to stop from what is sent again for the same one: `timeout`
/// and others signal a process and its group, some microseconds apart.
class StopRequests {
public:
  /// Called in a signal handler: whether it is another request.
  bool isNew();
  /// Waits until no signal belongs to the last request any more, so that what
  /// it ends can be over sooner than the request. Not for a signal handler.
  void settle() const;

private:
  std::atomic<int64_t> last = -1; ///< milliseconds
};

/// While a scope lives, the first SIGINT (and SIGTERM) calls its function; a
/// second one has the effect that it had before the scope. A launcher of
/// processes hands on the signal that a terminal has sent to all of them
/// anyway, so a signal of the parent counts as the same request, not as a
/// second one. Of nested scopes the inner is called, and lives until its
/// request is settled.
class StopScope {
public:
  /// Called in a signal handler, with the signal.
  using Told = void (*)(int signal);
  struct Takes {
    bool termination = false;   ///< SIGTERM, too
    bool whatIsIgnored = false; ///< SIGINT of a shell's job in the background
    bool restarts = true;       ///< calls that it interrupts
  };
  StopScope(Told told, Takes takes);
  ~StopScope();
  /// Of one that is told: the signal has the effect that it had before.
  static void passOn(int signal);
  StopScope(const StopScope &) = delete;
  StopScope &operator=(const StopScope &) = delete;

private:
  static void handle(int signal, siginfo_t *info, void *);

  Told told;
  bool termination;
  StopRequests requests;
  volatile std::sig_atomic_t direct = 0, handedOn = 0;
  struct sigaction oldInt = {}, oldTerm = {};
  StopScope *outer;
};

/// While one lives, SIGINT ends the process as it would have, and is noted on
/// stderr before: "note: ended by Ctrl-C" and what is given here. There is one
/// at a time.
class StopNote {
public:
  /// `text`: of static storage.
  explicit StopNote(const char *text);

private:
  StopScope scope;
};

} // namespace kerf::rt

#endif // KERF_RT_STOP_H
