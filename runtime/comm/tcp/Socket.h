//===- tcp/Socket.h - sockets that never block ------------------*- C++ -*-===//
//
// Every descriptor is non-blocking and closed by its owner; waits use poll()
// with a deadline. Small messages are sent at once (TCP_NODELAY).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_TCP_SOCKET_H
#define KERF_RT_COMM_TCP_SOCKET_H

#include "../../base/Error.h"

#include <chrono>
#include <cstdint>

namespace kerf::rt {

using Deadline = std::chrono::steady_clock::time_point;
Deadline deadlineAfter(double seconds);
double secondsUntil(Deadline deadline);

/// Owns a descriptor.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : fd(descriptor) {}
  Socket(Socket &&other) noexcept : fd(other.fd) { other.fd = -1; }
  Socket &operator=(Socket &&other) noexcept;
  ~Socket() { close(); }
  void close();
  int get() const { return fd; }
  explicit operator bool() const { return fd >= 0; }

  /// Waits until it can be read (or written); false at the deadline.
  bool waitFor(bool write, Deadline deadline) const;
  /// All bytes, or false at the deadline; throws KERF_IO_ERROR when the other
  /// side is gone.
  bool writeAll(const void *data, size_t bytes, Deadline deadline) const;
  bool readAll(void *data, size_t bytes, Deadline deadline) const;
  /// As many bytes as there are room or data for right now; -1: the other side
  /// is gone.
  int64_t writeSome(const void *data, size_t bytes) const;
  int64_t readSome(void *data, size_t bytes) const;

private:
  int fd = -1;
};

/// Listens; `address` empty: on all interfaces; port 0: any. Throws
/// KERF_IO_ERROR naming both.
Socket listenOn(const std::string &address, int port);
int portOf(const Socket &listener);
/// A connection that waits at the listener; an empty socket if there is none.
Socket acceptFrom(const Socket &listener);
/// Tries again until the deadline: the other side may not listen yet. Throws
/// KERF_RANK_FAILURE with the last reason.
Socket connectTo(const std::string &address, int port, Deadline deadline);
/// This host's address as the other side of a connection sees it.
std::string localAddress(const Socket &connection);

} // namespace kerf::rt

#endif // KERF_RT_COMM_TCP_SOCKET_H
