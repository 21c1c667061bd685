//===- tcp/Socket.cpp - sockets that never block --------------------------===//
#include "Socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace kerf::rt;

Deadline kerf::rt::deadlineAfter(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(std::min(seconds, 1e9)));
}

double kerf::rt::secondsUntil(Deadline deadline) {
  return std::chrono::duration<double>(deadline -
                                       std::chrono::steady_clock::now())
      .count();
}

static int millisecondsUntil(Deadline deadline) {
  double left = secondsUntil(deadline) * 1000;
  return left <= 0 ? 0 : static_cast<int>(std::min(left + 1, 1e6));
}

Socket &Socket::operator=(Socket &&other) noexcept {
  if (this != &other) {
    close();
    fd = other.fd;
    other.fd = -1;
  }
  return *this;
}

void Socket::close() {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

bool Socket::waitFor(bool write, Deadline deadline) const {
  pollfd entry = {fd, static_cast<short>(write ? POLLOUT : POLLIN), 0};
  for (;;) {
    int ready = ::poll(&entry, 1, millisecondsUntil(deadline));
    if (ready > 0)
      return true;
    if (ready == 0 && secondsUntil(deadline) <= 0)
      return false;
    if (ready < 0 && errno != EINTR)
      throw Error(KERF_IO_ERROR, cat("poll: ", std::strerror(errno)));
  }
}

int64_t Socket::writeSome(const void *data, size_t bytes) const {
  for (;;) {
    ssize_t n = ::send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0)
      return n;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      return 0;
    if (errno != EINTR)
      return -1;
  }
}

int64_t Socket::readSome(void *data, size_t bytes) const {
  if (bytes == 0)
    return 0;
  for (;;) {
    ssize_t n = ::recv(fd, data, bytes, MSG_DONTWAIT);
    if (n > 0)
      return n;
    if (n == 0)
      return -1;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      return 0;
    if (errno != EINTR)
      return -1;
  }
}

bool Socket::writeAll(const void *data, size_t bytes, Deadline deadline) const {
  auto from = static_cast<const char *>(data);
  while (bytes != 0) {
    int64_t n = writeSome(from, bytes);
    if (n < 0)
      throw Error(KERF_IO_ERROR, "the connection was closed");
    from += n;
    bytes -= static_cast<size_t>(n);
    if (bytes != 0 && n == 0 && !waitFor(true, deadline))
      return false;
  }
  return true;
}

bool Socket::readAll(void *data, size_t bytes, Deadline deadline) const {
  auto to = static_cast<char *>(data);
  while (bytes != 0) {
    int64_t n = readSome(to, bytes);
    if (n < 0)
      throw Error(KERF_IO_ERROR, "the connection was closed");
    to += n;
    bytes -= static_cast<size_t>(n);
    if (bytes != 0 && n == 0 && !waitFor(false, deadline))
      return false;
  }
  return true;
}

namespace {
using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo *)>;

AddressList resolve(const std::string &address, int port, bool passive,
                    std::string &error) {
  addrinfo hints = {};
  hints.ai_family = address.empty() ? AF_INET : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo *list = nullptr;
  int status = ::getaddrinfo(address.empty() ? nullptr : address.c_str(),
                             std::to_string(port).c_str(), &hints, &list);
  if (status != 0) {
    error = cat(address, ": ", ::gai_strerror(status));
    list = nullptr;
  }
  return AddressList(list, [](addrinfo *l) {
    if (l)
      ::freeaddrinfo(l);
  });
}

void setOption(int fd, int level, int option) {
  int on = 1;
  ::setsockopt(fd, level, option, &on, sizeof(on));
}
} // namespace

Socket kerf::rt::listenOn(const std::string &address, int port) {
  std::string error;
  AddressList list = resolve(address, port, true, error);
  for (addrinfo *a = list.get(); a; a = a->ai_next) {
    Socket socket(
        ::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket)
      continue;
    setOption(socket.get(), SOL_SOCKET, SO_REUSEADDR);
    if (::bind(socket.get(), a->ai_addr, a->ai_addrlen) == 0 &&
        ::listen(socket.get(), 1024) == 0)
      return socket;
    error = std::strerror(errno);
  }
  throw Error(KERF_IO_ERROR,
              cat("cannot listen on ", address.empty() ? "port" : address,
                  address.empty() ? " " : ":", port, ": ", error));
}

int kerf::rt::portOf(const Socket &listener) {
  sockaddr_storage storage = {};
  socklen_t length = sizeof(storage);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr *>(&storage),
                &length);
  if (storage.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<sockaddr_in6 *>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in *>(&storage)->sin_port);
}

std::string kerf::rt::localAddress(const Socket &connection) {
  sockaddr_storage storage = {};
  socklen_t length = sizeof(storage);
  char text[INET6_ADDRSTRLEN] = "";
  ::getsockname(connection.get(), reinterpret_cast<sockaddr *>(&storage),
                &length);
  if (storage.ss_family == AF_INET6)
    ::inet_ntop(AF_INET6,
                &reinterpret_cast<sockaddr_in6 *>(&storage)->sin6_addr, text,
                sizeof(text));
  else
    ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in *>(&storage)->sin_addr,
                text, sizeof(text));
  return text;
}

Socket kerf::rt::acceptFrom(const Socket &listener) {
  Socket socket(::accept4(listener.get(), nullptr, nullptr,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket)
    setOption(socket.get(), IPPROTO_TCP, TCP_NODELAY);
  return socket;
}

Socket kerf::rt::connectTo(const std::string &address, int port,
                           Deadline deadline) {
  std::string error = "no attempt was made";
  for (int attempt = 0;; ++attempt) {
    AddressList list = resolve(address, port, false, error);
    for (addrinfo *a = list.get(); a; a = a->ai_next) {
      Socket socket(::socket(a->ai_family,
                             SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      if (!socket)
        continue;
      int status = ::connect(socket.get(), a->ai_addr, a->ai_addrlen);
      if (status != 0 && errno == EINPROGRESS &&
          socket.waitFor(true, std::min(deadline, deadlineAfter(3)))) {
        socklen_t length = sizeof(status);
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &status, &length);
        errno = status;
      }
      if (status == 0) {
        setOption(socket.get(), IPPROTO_TCP, TCP_NODELAY);
        return socket;
      }
      error = std::strerror(errno);
    }
    if (secondsUntil(deadline) <= 0)
      throw Error(KERF_RANK_FAILURE,
                  cat("cannot connect to ", address, ":", port, ": ", error));
    std::this_thread::sleep_for(
        std::chrono::milliseconds(attempt < 20 ? 10 : 100));
  }
}
