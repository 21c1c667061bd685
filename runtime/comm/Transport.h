//===- Transport.h - messages between processes -----------------*- C++ -*-===//
//
// What collectives between processes need: messages that start at once and are
// polled, delivered in order for equal (from, to, tag), and short control
// messages from any sender. No call waits. Implemented by MPI and TCP.
//
// Not thread-safe: Job serializes all calls but rest().
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_COMM_TRANSPORT_H
#define KERF_RUNTIME_COMM_TRANSPORT_H

#include "../base/Error.h"

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace kerf::rt {

/// A message under way. It and its memory must stay in place until test()
/// returns true, or cancel().
struct Request {
  bool pending = false;
  bool misfit = false; ///< a message of another size came
  int64_t peer = -1;
  uint32_t tag = 0;
  char *data = nullptr;
  size_t bytes = 0, done = 0;
  std::vector<void *> handles; ///< of the library below
};

class Transport {
public:
  static constexpr size_t maxControlBytes = 8192;

  virtual ~Transport() = default;
  virtual const char *name() const = 0;

  virtual void send(Request &request, int64_t to, uint32_t tag,
                    const void *data, size_t bytes) = 0;
  /// The message must have exactly `bytes` bytes.
  virtual void receive(Request &request, int64_t from, uint32_t tag, void *data,
                       size_t bytes) = 0;
  /// True when the message is complete (or was never started). Throws
  /// KERF_MISMATCH for a message of another size, KERF_RANK_FAILURE when the
  /// library fails.
  virtual bool test(Request &request) = 0;
  /// Forgets a request whose peer is not expected any more.
  virtual void cancel(Request &request) = 0;
  /// Advances messages as far as possible without waiting.
  virtual void progress() = 0;

  /// At most maxControlBytes; copied. To itself is not allowed.
  virtual void sendControl(int64_t to, const std::string &message) = 0;
  /// Takes the oldest control message that has arrived; false if there is none.
  bool receiveControl(int64_t &from, std::string &message) {
    if (control.empty())
      return false;
    from = control.front().first;
    message = std::move(control.front().second);
    control.pop_front();
    return true;
  }

  /// Whether the connection to a rank has ended.
  virtual bool isLost(int64_t rank) const { return false; }
  /// A pause in a polling loop, longer in later rounds; ends early when a
  /// message may have arrived. The only call that needs no lock.
  virtual void rest(int round) = 0;
  /// Ends the connections after all ranks have said goodbye. Throws
  /// KERF_RANK_FAILURE when that takes longer than `seconds`.
  virtual void finish(double seconds) = 0;

protected:
  /// Control messages that have arrived: sender and content, oldest first.
  std::deque<std::pair<int64_t, std::string>> control;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_COMM_TRANSPORT_H
