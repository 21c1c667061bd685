//===- tcp/TcpTransport.cpp - messages over one socket per pair -----------===//
//
// A rank connects to all lower ones and is connected to by all higher ones.
// Tag 0 is the control channel.
//
//===----------------------------------------------------------------------===//
#include "TcpTransport.h"

#include <algorithm>
#include <cstring>
#include <poll.h>
#include <random>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <thread>

using namespace kerf::rt;

namespace {
constexpr uint32_t frameMagic = 0x6b657266; // "kerf"

struct Hello {
  uint64_t job = 0;
  int64_t rank = -1;
};

Error closed() { return Error(KERF_RANK_FAILURE, "the connection was closed"); }
} // namespace

TcpTransport::TcpTransport(const JobEnvironment &environment, Store &store,
                           double seconds)
    : me(environment.rank), peers(static_cast<size_t>(environment.size)) {
  connectAll(environment, store, seconds);
}

void TcpTransport::connectAll(const JobEnvironment &env, Store &store,
                              double seconds) {
  Deadline deadline = deadlineAfter(seconds);
  Socket listener = listenOn("", 0);
  // Other hosts reach this one at the address from which it reaches the master;
  // KERF_ADDRESS overrides that.
  std::string address = env.masterAddress;
  if (const char *given = std::getenv("KERF_ADDRESS"); given && *given)
    address = given;
  else if (env.rank != 0)
    address =
        localAddress(connectTo(env.masterAddress, env.masterPort, deadline));
  if (env.rank == 0)
    store.set("tcp/job", std::to_string(std::random_device()()));
  std::vector<std::string> places =
      store.gather("tcp/address", env.rank, env.size,
                   cat(portOf(listener), " ", address), seconds);
  Hello mine{std::stoull(store.wait("tcp/job", seconds)), env.rank};

  for (int64_t r = 0; r < env.rank; ++r) {
    size_t space = places[r].find(' ');
    Socket socket = connectTo(places[r].substr(space + 1),
                              std::stoi(places[r].substr(0, space)), deadline);
    if (!socket.writeAll(&mine, sizeof(mine), deadline))
      throw closed();
    peers[r].socket = std::move(socket);
  }
  for (int64_t missing = env.size - 1 - env.rank; missing > 0;) {
    if (!listener.waitFor(false, deadline))
      throw Error(KERF_RANK_FAILURE,
                  cat(missing, " ranks did not connect to rank ", env.rank,
                      " within ", seconds, " s"));
    Socket socket = acceptFrom(listener);
    Hello hello;
    // An unknown connection has a second to identify itself.
    try {
      if (!socket || !socket.readAll(&hello, sizeof(hello),
                                     std::min(deadline, deadlineAfter(1))))
        continue;
    } catch (const Error &) {
      continue;
    }
    if (hello.job != mine.job || hello.rank <= env.rank ||
        hello.rank >= env.size || peers[hello.rank].socket)
      continue;
    peers[hello.rank].socket = std::move(socket);
    --missing;
  }
}

void TcpTransport::lose(Peer &peer) {
  peer.lost = true;
  peer.writing = false;
}

void TcpTransport::send(Request &request, int64_t to, uint32_t tag,
                        const void *data, size_t bytes) {
  Peer &peer = peers[to];
  request.pending = true;
  request.misfit = false;
  request.peer = to;
  request.tag = tag;
  request.data = const_cast<char *>(static_cast<const char *>(data));
  request.bytes = bytes;
  request.done = 0;
  peer.out.emplace_back();
  peer.out.back().header = {tag, frameMagic, bytes};
  peer.out.back().request = &request;
  write(peer);
}

void TcpTransport::sendControl(int64_t to, const std::string &message) {
  Peer &peer = peers[to];
  if (peer.lost)
    return;
  peer.out.emplace_back();
  peer.out.back().own = message;
  peer.out.back().header = {0, frameMagic, message.size()};
  write(peer);
}

void TcpTransport::write(Peer &peer) {
  while (!peer.out.empty() && !peer.lost) {
    Outgoing &o = peer.out.front();
    iovec parts[2];
    int count = 0;
    size_t headerLeft = sizeof(Header) - o.headerDone;
    if (headerLeft)
      parts[count++] = {reinterpret_cast<char *>(&o.header) + o.headerDone,
                        headerLeft};
    size_t &done = o.request ? o.request->done : o.ownDone;
    size_t left = (o.request ? o.request->bytes : o.own.size()) - done;
    if (left)
      parts[count++] = {(o.request ? o.request->data : o.own.data()) + done,
                        left};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    ssize_t n =
        ::sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR)
        continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK)
        lose(peer);
      break;
    }
    size_t sent = static_cast<size_t>(n), ofHeader = std::min(sent, headerLeft);
    o.headerDone += ofHeader;
    done += sent - ofHeader;
    if (sent < headerLeft + left)
      break;
    if (o.request)
      o.request->pending = false;
    peer.out.pop_front();
  }
  peer.writing = !peer.out.empty() && !peer.lost;
}

void TcpTransport::receive(Request &request, int64_t from, uint32_t tag,
                           void *data, size_t bytes) {
  Peer &peer = peers[from];
  request.pending = true;
  request.misfit = false;
  request.peer = from;
  request.tag = tag;
  request.data = static_cast<char *>(data);
  request.bytes = bytes;
  request.done = 0;
  auto kept = peer.unexpected.find(tag);
  if (kept != peer.unexpected.end() && !kept->second.empty()) {
    std::string &message = kept->second.front();
    request.misfit = message.size() != bytes;
    if (!request.misfit && bytes)
      std::memcpy(data, message.data(), bytes);
    request.pending = false;
    kept->second.pop_front();
    if (kept->second.empty())
      peer.unexpected.erase(kept);
    return;
  }
  peer.wanted[tag].push_back(&request);
}

bool TcpTransport::test(Request &request) {
  if (request.misfit) {
    request.misfit = false;
    throw Error(KERF_MISMATCH,
                cat("rank ", request.peer,
                    " sent a message of another size than the ", request.bytes,
                    " bytes that rank ", me, " expects"));
  }
  return !request.pending;
}

void TcpTransport::cancel(Request &request) {
  if (!request.pending)
    return;
  Peer &peer = peers[request.peer];
  auto &wanted = peer.wanted[request.tag];
  wanted.erase(std::remove(wanted.begin(), wanted.end(), &request),
               wanted.end());
  if (peer.in.request == &request) {
    peer.in.request = nullptr;
    peer.in.drop = true;
    peer.in.keptDone = request.done;
  }
  for (Outgoing &o : peer.out)
    if (o.request == &request) {
      // The rest of the frame must still be sent to keep the stream in step.
      o.own.assign(request.data, request.bytes);
      o.ownDone = request.done;
      o.request = nullptr;
    }
  request.pending = false;
}

/// The header has arrived: find the destination of the bytes.
void TcpTransport::begin(Peer &peer) {
  Incoming &in = peer.in;
  if (in.header.tag != 0) {
    auto it = peer.wanted.find(in.header.tag);
    if (it != peer.wanted.end() && !it->second.empty()) {
      in.request = it->second.front();
      it->second.pop_front();
      if (it->second.empty())
        peer.wanted.erase(it);
      in.request->misfit = in.request->bytes != in.header.bytes;
      if (in.request->misfit) {
        in.request->pending = false;
        in.request = nullptr;
        in.drop = true;
      }
      return;
    }
  }
  in.kept.resize(in.header.bytes);
}

void TcpTransport::complete(int64_t rank) {
  Peer &peer = peers[rank];
  Incoming &in = peer.in;
  if (in.request)
    in.request->pending = false;
  else if (in.header.tag == 0)
    control.emplace_back(rank, std::move(in.kept));
  else if (!in.drop) {
    // A receive may have been posted while the bytes arrived.
    auto it = peer.wanted.find(in.header.tag);
    if (it != peer.wanted.end() && !it->second.empty()) {
      Request &request = *it->second.front();
      it->second.pop_front();
      if (it->second.empty())
        peer.wanted.erase(it);
      request.misfit = request.bytes != in.kept.size();
      if (!request.misfit && request.bytes)
        std::memcpy(request.data, in.kept.data(), request.bytes);
      request.pending = false;
    } else {
      peer.unexpected[in.header.tag].push_back(std::move(in.kept));
    }
  }
  in = Incoming();
}

void TcpTransport::read(int64_t rank) {
  Peer &peer = peers[rank];
  char scratch[4096];
  while (!peer.lost) {
    Incoming &in = peer.in;
    char *to;
    size_t left;
    if (in.headerDone < sizeof(Header)) {
      to = reinterpret_cast<char *>(&in.header) + in.headerDone;
      left = sizeof(Header) - in.headerDone;
    } else if (in.request) {
      to = in.request->data + in.request->done;
      left = in.request->bytes - in.request->done;
    } else if (in.drop) {
      to = scratch;
      left = std::min<size_t>(sizeof(scratch), in.header.bytes - in.keptDone);
    } else {
      to = in.kept.data() + in.keptDone;
      left = in.kept.size() - in.keptDone;
    }
    int64_t n = left ? peer.socket.readSome(to, left) : 0;
    if (n < 0)
      return lose(peer);
    if (n == 0 && left)
      return;
    size_t got = static_cast<size_t>(n);
    if (in.headerDone < sizeof(Header)) {
      in.headerDone += got;
      if (in.headerDone < sizeof(Header))
        continue;
      if (in.header.magic != frameMagic ||
          in.header.bytes > (uint64_t(1) << 46) ||
          (in.header.tag == 0 && in.header.bytes > maxControlBytes))
        return lose(peer); // no peer of ours
      begin(peer);
    } else {
      (in.request ? in.request->done : in.keptDone) += got;
    }
    size_t done = in.request ? in.request->done : in.keptDone;
    if (done == in.header.bytes)
      complete(rank);
  }
}

void TcpTransport::progress() {
  for (int64_t r = 0; r < static_cast<int64_t>(peers.size()); ++r)
    if (r != me && !peers[r].lost) {
      write(peers[r]);
      read(r);
    }
}

void TcpTransport::rest(int round) {
  if (round < 20) {
    ::sched_yield();
    return;
  }
  std::vector<pollfd> entries;
  for (const Peer &peer : peers)
    if (peer.socket && !peer.lost)
      entries.push_back(
          {peer.socket.get(),
           static_cast<short>(peer.writing ? POLLIN | POLLOUT : POLLIN), 0});
  ::poll(entries.data(), entries.size(), 1);
}

void TcpTransport::finish(double seconds) {
  Deadline deadline = deadlineAfter(seconds);
  auto open = [&](const Peer &peer) {
    return peer.socket && !peer.lost && !peer.out.empty();
  };
  while (std::any_of(peers.begin(), peers.end(), open)) {
    progress();
    if (secondsUntil(deadline) <= 0)
      throw Error(
          KERF_RANK_FAILURE,
          cat("the last messages did not leave within ", seconds, " s"));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
