//===- tcp/Store.cpp - the key/value store of a job -----------------------===//
//
// Requests are (operation, lengths, key, value), answers (found, length,
// value). One thread serves all connections; a connection that does not start
// with the greeting, or exceeds the limits, is closed. Clients that wait for a
// key repeat the request, at intervals that grow to 20 ms.
//
//===----------------------------------------------------------------------===//
#include "../Rendezvous.h"
#include "Socket.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace kerf::rt;

namespace {
constexpr char greeting[8] = {'k', 'e', 'r', 'f', 's', 't', '0', '1'};
constexpr uint32_t maxKeyBytes = 1024, maxValueBytes = 16 << 20;

enum Operation : uint32_t { Set = 1, Get = 2 };
struct Request {
  uint32_t operation, keyBytes, valueBytes;
};
struct Answer {
  uint32_t found, valueBytes;
};

void checkKey(const std::string &key) {
  if (key.empty() || key.size() > maxKeyBytes)
    throw Error(
        KERF_INVALID_ARGUMENT,
        cat("a key of ", key.size(), " bytes, expected 1 to ", maxKeyBytes));
}
} // namespace

struct StoreServer::Impl {
  struct Client {
    Socket socket;
    std::string in, out;
    bool greeted = false;
  };

  Socket listener;
  int wake[2] = {-1, -1};
  std::thread thread;
  std::map<std::string, std::string> values;
  std::vector<Client> clients;

  void serve();
  /// False: the connection is to be closed.
  bool read(Client &client);
  bool answer(Client &client);
};

bool StoreServer::Impl::read(Client &client) {
  char buffer[16384];
  for (;;) {
    int64_t n = client.socket.readSome(buffer, sizeof(buffer));
    if (n < 0)
      return false;
    if (n == 0)
      return answer(client);
    client.in.append(buffer, static_cast<size_t>(n));
  }
}

bool StoreServer::Impl::answer(Client &client) {
  std::string &in = client.in;
  if (!client.greeted) {
    if (in.size() < sizeof(greeting))
      return true;
    if (std::memcmp(in.data(), greeting, sizeof(greeting)) != 0)
      return false;
    in.erase(0, sizeof(greeting));
    client.greeted = true;
  }
  while (in.size() >= sizeof(Request)) {
    Request request;
    std::memcpy(&request, in.data(), sizeof(request));
    if (request.keyBytes == 0 || request.keyBytes > maxKeyBytes ||
        request.valueBytes > maxValueBytes)
      return false;
    size_t whole = sizeof(request) + request.keyBytes + request.valueBytes;
    if (in.size() < whole)
      break;
    std::string key = in.substr(sizeof(request), request.keyBytes);
    Answer answer = {1, 0};
    std::string value;
    if (request.operation == Set) {
      values[key] =
          in.substr(sizeof(request) + request.keyBytes, request.valueBytes);
    } else if (auto it = values.find(key); it != values.end()) {
      value = it->second;
    } else {
      answer.found = 0;
    }
    answer.valueBytes = static_cast<uint32_t>(value.size());
    client.out.append(reinterpret_cast<char *>(&answer), sizeof(answer));
    client.out += value;
    in.erase(0, whole);
  }
  return true;
}

void StoreServer::Impl::serve() {
  for (;;) {
    std::vector<pollfd> entries = {{wake[0], POLLIN, 0},
                                   {listener.get(), POLLIN, 0}};
    for (const Client &client : clients)
      entries.push_back(
          {client.socket.get(),
           static_cast<short>(client.out.empty() ? POLLIN : POLLIN | POLLOUT),
           0});
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR)
      return;
    if (entries[0].revents)
      return;
    for (size_t i = clients.size(); i-- > 0;) {
      Client &client = clients[i];
      bool keep = !entries[i + 2].revents || read(client);
      if (keep && !client.out.empty()) {
        int64_t n =
            client.socket.writeSome(client.out.data(), client.out.size());
        keep = n >= 0;
        if (keep)
          client.out.erase(0, static_cast<size_t>(n));
      }
      if (!keep)
        clients.erase(clients.begin() + static_cast<ptrdiff_t>(i));
    }
    while (Socket socket = acceptFrom(listener)) {
      clients.emplace_back();
      clients.back().socket = std::move(socket);
    }
  }
}

StoreServer::StoreServer(const std::string &address, int port)
    : StoreServer(listenOn(address, port)) {}

StoreServer::StoreServer(Socket listener) : impl(std::make_unique<Impl>()) {
  impl->listener = std::move(listener);
  if (::pipe2(impl->wake, O_CLOEXEC) != 0)
    throw Error(KERF_IO_ERROR, cat("pipe: ", std::strerror(errno)));
  impl->thread = std::thread([this] { impl->serve(); });
}

StoreServer::~StoreServer() {
  char byte = 0;
  [[maybe_unused]] ssize_t n = ::write(impl->wake[1], &byte, 1);
  impl->thread.join();
  ::close(impl->wake[0]);
  ::close(impl->wake[1]);
}

int StoreServer::port() const { return portOf(impl->listener); }

std::string Store::wait(const std::string &key, double seconds,
                        const std::string &what) {
  Deadline deadline = deadlineAfter(seconds);
  for (int pause = 1;; pause = std::min(2 * pause, 20)) {
    if (std::optional<std::string> value = get(key))
      return *value;
    if (secondsUntil(deadline) <= 0)
      throw Error(KERF_RANK_FAILURE,
                  cat(what.empty() ? "\"" + key + "\"" : what,
                      " was not there within ", seconds, " s"));
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  }
}

std::vector<std::string> Store::gather(const std::string &name, int64_t rank,
                                       int64_t size, const std::string &value,
                                       double seconds) {
  auto keyOf = [&](int64_t r) { return cat(name, "/", r); };
  set(keyOf(rank), value);
  Deadline deadline = deadlineAfter(seconds);
  std::vector<std::string> values(static_cast<size_t>(size));
  std::vector<int64_t> missing;
  for (int64_t r = 0; r < size; ++r)
    missing.push_back(r);
  for (int pause = 1;; pause = std::min(2 * pause, 20)) {
    std::vector<int64_t> still;
    for (int64_t r : missing) {
      std::optional<std::string> found = get(keyOf(r));
      if (found)
        values[static_cast<size_t>(r)] = *found;
      else
        still.push_back(r);
    }
    missing = std::move(still);
    if (missing.empty())
      return values;
    if (secondsUntil(deadline) <= 0)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  }
  std::string list;
  for (int64_t r : missing)
    list += (list.empty() ? "" : ", ") + std::to_string(r);
  throw Error(KERF_RANK_FAILURE,
              cat(missing.size() == 1 ? "rank " : "ranks ", list,
                  " did not join the ", size, " ranks of the job within ",
                  seconds, " s"));
}

namespace {
class StoreClient : public Store {
public:
  StoreClient(const std::string &address, int port, double seconds)
      : place(cat(address, ":", port)), seconds(seconds) {
    Deadline deadline = deadlineAfter(seconds);
    try {
      socket = connectTo(address, port, deadline);
    } catch (const Error &error) {
      throw Error(KERF_RANK_FAILURE,
                  cat("rank 0 did not open the rendezvous within ", seconds,
                      " s: ", error.message));
    }
    check(socket.writeAll(greeting, sizeof(greeting), deadline));
  }

  void set(const std::string &key, const std::string &value) override {
    if (value.size() > maxValueBytes)
      throw Error(KERF_INVALID_ARGUMENT,
                  cat("a value of ", value.size(), " bytes, expected at most ",
                      maxValueBytes));
    ask(Set, key, value);
  }
  std::optional<std::string> get(const std::string &key) override {
    return ask(Get, key, "");
  }

private:
  void check(bool inTime) const {
    if (!inTime)
      throw Error(KERF_RANK_FAILURE,
                  cat("the rendezvous at ", place, " did not answer within ",
                      seconds, " s"));
  }
  std::optional<std::string> ask(Operation operation, const std::string &key,
                                 const std::string &value) {
    checkKey(key);
    std::lock_guard<std::mutex> lock(mutex);
    Deadline deadline = deadlineAfter(seconds);
    Request request = {operation, static_cast<uint32_t>(key.size()),
                       static_cast<uint32_t>(value.size())};
    std::string message(reinterpret_cast<char *>(&request), sizeof(request));
    message += key;
    message += value;
    Answer answer;
    std::string found;
    try {
      check(socket.writeAll(message.data(), message.size(), deadline));
      check(socket.readAll(&answer, sizeof(answer), deadline));
      if (answer.valueBytes > maxValueBytes)
        throw Error(KERF_IO_ERROR, "an answer that is no store's");
      found.resize(answer.valueBytes);
      check(socket.readAll(found.data(), found.size(), deadline));
    } catch (Error &error) {
      if (error.code == KERF_IO_ERROR)
        throw Error(KERF_RANK_FAILURE, cat("rank 0's rendezvous at ", place,
                                           " has gone: ", error.message));
      throw;
    }
    if (!answer.found)
      return std::nullopt;
    return found;
  }

  std::string place;
  double seconds;
  std::mutex mutex;
  Socket socket;
};

/// Rank 0's: it serves as long as it lives.
class JobStore : public Store {
public:
  JobStore(const JobEnvironment &env, double seconds) {
    bool local =
        env.masterAddress == "localhost" || env.masterAddress == "127.0.0.1";
    if (env.rank == 0 && !env.storeServed)
      server = std::make_unique<StoreServer>(local ? "127.0.0.1" : "",
                                             env.masterPort);
    client = connectStore(env.masterAddress, env.masterPort, seconds);
  }
  void set(const std::string &key, const std::string &value) override {
    client->set(key, value);
  }
  std::optional<std::string> get(const std::string &key) override {
    return client->get(key);
  }

private:
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<Store> client;
};
} // namespace

std::unique_ptr<Store> kerf::rt::connectStore(const std::string &address,
                                              int port, double seconds) {
  return std::make_unique<StoreClient>(address, port, seconds);
}

std::unique_ptr<Store> kerf::rt::openJobStore(const JobEnvironment &environment,
                                              double seconds) {
  return std::make_unique<JobStore>(environment, seconds);
}
