//===- tcp/TcpTransport.h - messages over one socket per pair ---*- C++ -*-===//
//
// A message is a header (tag, size) and its bytes. Bytes are read directly into
// the memory of the receive that waits for them, or kept until one does.
// Senders never run far ahead: collectives send after all members have arrived,
// channels limit open sends.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_TCP_TCPTRANSPORT_H
#define KERF_RT_COMM_TCP_TCPTRANSPORT_H

#include "../Rendezvous.h"
#include "../Transport.h"
#include "Socket.h"

#include <atomic>
#include <deque>
#include <map>

namespace kerf::rt {

class TcpTransport : public Transport {
public:
  /// Connects all pairs; addresses are exchanged through the store. Throws
  /// KERF_RANK_FAILURE naming the ranks that did not come.
  TcpTransport(const JobEnvironment &environment, Store &store, double seconds);

  const char *name() const override { return "tcp"; }
  void send(Request &request, int64_t to, uint32_t tag, const void *data,
            size_t bytes) override;
  void receive(Request &request, int64_t from, uint32_t tag, void *data,
               size_t bytes) override;
  bool test(Request &request) override;
  void cancel(Request &request) override;
  void progress() override;
  void sendControl(int64_t to, const std::string &message) override;
  bool isLost(int64_t rank) const override { return peers[rank].lost; }
  void rest(int round) override;
  void finish(double seconds) override;

private:
  struct Header {
    uint32_t tag = 0, magic = 0;
    uint64_t bytes = 0;
  };
  /// A message that goes out: a header, then the request's or its own bytes.
  struct Outgoing {
    Header header;
    size_t headerDone = 0;
    Request *request = nullptr;
    std::string own;
    size_t ownDone = 0;
  };
  struct Incoming {
    Header header;
    size_t headerDone = 0;
    Request *request = nullptr; ///< where it goes; null: kept or dropped
    bool drop = false;
    std::string kept;
    size_t keptDone = 0;
  };
  struct Peer {
    Socket socket;
    std::atomic<bool> lost{false};
    std::deque<Outgoing> out;
    std::atomic<bool> writing{false};
    Incoming in;
    std::map<uint32_t, std::deque<Request *>> wanted;
    std::map<uint32_t, std::deque<std::string>> unexpected;
  };

  void connectAll(const JobEnvironment &env, Store &store, double seconds);
  void write(Peer &peer);
  void read(int64_t rank);
  void begin(Peer &peer);
  void complete(int64_t rank);
  void lose(Peer &peer);

  int64_t me;
  std::vector<Peer> peers;
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_TCP_TCPTRANSPORT_H
