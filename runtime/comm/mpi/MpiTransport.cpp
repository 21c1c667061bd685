//===- mpi/MpiTransport.cpp - messages over Open MPI ----------------------===//
//
// MPI counts in int: a message of more than 1 GiB is several. Every call here
// returns at once; errors come back as codes.
//
//===----------------------------------------------------------------------===//
#include "MpiTransport.h"

#include "MpiAbi.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <sched.h>
#include <thread>

using namespace kerf::rt;
using namespace kerf::rt::mpi;

namespace {
constexpr size_t maxBytes = size_t(1) << 30; ///< of one MPI message

/// Runs MPI_Init_thread and MPI_Finalize. Outlives its user if MPI never
/// returns.
struct Starter {
  Table mpi;
  std::mutex mutex;
  std::condition_variable changed;
  bool initialized = false, finalize = false, finalized = false;
  int status = success, provided = 0;

  static void run(const std::shared_ptr<Starter> &self) {
    int provided = 0;
    int status =
        self->mpi.Init_thread(nullptr, nullptr, threadSerialized, &provided);
    std::unique_lock<std::mutex> lock(self->mutex);
    self->status = status;
    self->provided = provided;
    self->initialized = true;
    self->changed.notify_all();
    self->changed.wait(lock, [&] { return self->finalize; });
    lock.unlock();
    self->mpi.Finalize();
    lock.lock();
    self->finalized = true;
    self->changed.notify_all();
  }
  bool waitFor(const bool &flag, double seconds) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, std::chrono::duration<double>(seconds),
                            [&] { return flag; });
  }
};

class MpiTransport : public Transport {
public:
  MpiTransport(const JobEnvironment &env, double seconds);
  ~MpiTransport() override;

  const char *name() const override { return "mpi"; }
  void send(Request &request, int64_t to, uint32_t tag, const void *data,
            size_t bytes) override;
  void receive(Request &request, int64_t from, uint32_t tag, void *data,
               size_t bytes) override;
  bool test(Request &request) override;
  void cancel(Request &request) override;
  void progress() override;
  void sendControl(int64_t to, const std::string &message) override;
  void rest(int round) override;
  void finish(double seconds) override;

private:
  struct Sending { // a control message that is on its way
    std::string message;
    MpiRequest request;
  };
  void check(int code, const char *what);
  void begin(Request &request, int64_t peer, uint32_t tag, const void *data,
             size_t bytes);
  void postControl();

  std::shared_ptr<Starter> starter;
  Table mpi;
  Comm comm = nullptr;
  uint32_t tagLimit = 32767;
  std::vector<char> controlBuffer;
  MpiRequest controlRequest = nullptr;
  std::list<Sending> sending;
};
} // namespace

MpiTransport::MpiTransport(const JobEnvironment &env, double seconds)
    : starter(std::make_shared<Starter>()), controlBuffer(maxControlBytes) {
  // Open MPI looks at the machine with hwloc, whose plug-in for displays asks
  // the ports of X servers and waits for ever where another program has one.
  ::setenv("HWLOC_COMPONENTS", "-gl", 0);
  starter->mpi = mpi = openLibrary();
  int already = 0;
  mpi.Initialized(&already);
  if (already)
    throw Error(KERF_INVALID_ARGUMENT, "MPI is in use in this process already");
  std::thread(Starter::run, starter).detach();
  if (!starter->waitFor(starter->initialized, seconds))
    throw Error(KERF_RANK_FAILURE,
                cat("MPI did not start on rank ", env.rank, " within ", seconds,
                    " s: not all of the ", env.size, " ranks came"));
  check(starter->status, "MPI_Init_thread");
  if (starter->provided < threadSerialized)
    throw Error(KERF_UNSUPPORTED_HOST,
                "Open MPI was built without support for threads");
  int rank = -1, size = -1;
  check(mpi.Comm_rank(mpi.commWorld, &rank), "MPI_Comm_rank");
  check(mpi.Comm_size(mpi.commWorld, &size), "MPI_Comm_size");
  if (rank != env.rank || size != env.size)
    throw Error(KERF_RANK_FAILURE,
                cat("MPI says rank ", rank, " of ", size, ", mpirun said rank ",
                    env.rank, " of ", env.size));
  check(mpi.Comm_set_errhandler(mpi.commWorld, mpi.errorsReturn),
        "MPI_Comm_set_errhandler");
  MpiRequest request = mpi.requestNull;
  check(mpi.Comm_idup(mpi.commWorld, &comm, &request), "MPI_Comm_idup");
  auto begin = std::chrono::steady_clock::now();
  for (int done = 0, round = 0; !done; rest(round++)) {
    check(mpi.Test(&request, &done, nullptr), "MPI_Comm_idup");
    if (!done &&
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
                .count() > seconds)
      throw Error(KERF_RANK_FAILURE,
                  cat("not all of the ", env.size,
                      " ranks came to MPI_Comm_idup within ", seconds, " s"));
  }
  check(mpi.Comm_set_errhandler(comm, mpi.errorsReturn),
        "MPI_Comm_set_errhandler");
  int *limit = nullptr, found = 0;
  check(mpi.Comm_get_attr(mpi.commWorld, tagUpperBound, &limit, &found),
        "MPI_Comm_get_attr");
  if (found && limit)
    tagLimit = static_cast<uint32_t>(*limit);
  postControl();
}

MpiTransport::~MpiTransport() = default; // MPI keeps open requests

void MpiTransport::check(int code, const char *what) {
  if (code == success)
    return;
  char text[maxErrorString] = "";
  int length = 0;
  mpi.Error_string(code, text, &length);
  throw Error(KERF_RANK_FAILURE, cat(what, " failed: ", text));
}

void MpiTransport::postControl() {
  check(mpi.Irecv(controlBuffer.data(), static_cast<int>(controlBuffer.size()),
                  mpi.byte, anySource, 0, comm, &controlRequest),
        "MPI_Irecv");
}

void MpiTransport::begin(Request &request, int64_t peer, uint32_t tag,
                         const void *data, size_t bytes) {
  request.pending = true;
  request.misfit = false;
  request.peer = peer;
  request.tag = tag % (tagLimit - 1) + 1; // 0 is the control channel's
  request.data = const_cast<char *>(static_cast<const char *>(data));
  request.bytes = bytes;
  request.done = 0;
  size_t parts = std::max<size_t>(1, (bytes + maxBytes - 1) / maxBytes);
  request.handles.assign(parts, mpi.requestNull);
}

void MpiTransport::send(Request &request, int64_t to, uint32_t tag,
                        const void *data, size_t bytes) {
  begin(request, to, tag, data, bytes);
  for (size_t i = 0; i < request.handles.size(); ++i)
    check(mpi.Isend(request.data + i * maxBytes,
                    static_cast<int>(std::min(maxBytes, bytes - i * maxBytes)),
                    mpi.byte, static_cast<int>(to),
                    static_cast<int>(request.tag), comm, &request.handles[i]),
          "MPI_Isend");
}

void MpiTransport::receive(Request &request, int64_t from, uint32_t tag,
                           void *data, size_t bytes) {
  begin(request, from, tag, data, bytes);
  for (size_t i = 0; i < request.handles.size(); ++i)
    check(mpi.Irecv(request.data + i * maxBytes,
                    static_cast<int>(std::min(maxBytes, bytes - i * maxBytes)),
                    mpi.byte, static_cast<int>(from),
                    static_cast<int>(request.tag), comm, &request.handles[i]),
          "MPI_Irecv");
}

bool MpiTransport::test(Request &request) {
  if (!request.pending)
    return true;
  for (MpiRequest &handle : request.handles) {
    if (handle == mpi.requestNull)
      continue;
    int done = 0;
    Status status = {};
    check(mpi.Test(&handle, &done, &status), "a message between ranks");
    if (!done)
      return false;
    handle = mpi.requestNull;
  }
  request.pending = false;
  return true;
}

void MpiTransport::cancel(Request &request) {
  for (MpiRequest &handle : request.handles)
    if (request.pending && handle != mpi.requestNull) {
      mpi.Cancel(&handle);
      mpi.Request_free(&handle);
    }
  request.pending = false;
}

void MpiTransport::progress() {
  for (auto it = sending.begin(); it != sending.end();) {
    int done = 0;
    check(mpi.Test(&it->request, &done, nullptr), "a control message");
    it = done ? sending.erase(it) : std::next(it);
  }
  for (;;) {
    int done = 0, bytes = 0;
    Status status = {};
    check(mpi.Test(&controlRequest, &done, &status), "a control message");
    if (!done)
      return;
    check(mpi.Get_count(&status, mpi.byte, &bytes), "MPI_Get_count");
    control.emplace_back(
        status.source,
        std::string(controlBuffer.data(), static_cast<size_t>(bytes)));
    postControl();
  }
}

void MpiTransport::sendControl(int64_t to, const std::string &message) {
  sending.push_back({message, mpi.requestNull});
  Sending &s = sending.back();
  check(mpi.Isend(s.message.data(), static_cast<int>(s.message.size()),
                  mpi.byte, static_cast<int>(to), 0, comm, &s.request),
        "MPI_Isend");
}

void MpiTransport::rest(int round) {
  if (round < 50)
    ::sched_yield();
  else
    std::this_thread::sleep_for(
        std::chrono::microseconds(round < 1000 ? 20 : 200));
}

void MpiTransport::finish(double seconds) {
  if (controlRequest && controlRequest != mpi.requestNull) {
    mpi.Cancel(&controlRequest);
    mpi.Request_free(&controlRequest);
    controlRequest = mpi.requestNull;
  }
  {
    std::lock_guard<std::mutex> lock(starter->mutex);
    starter->finalize = true;
  }
  starter->changed.notify_all();
  if (!starter->waitFor(starter->finalized, seconds))
    throw Error(KERF_RANK_FAILURE,
                cat("MPI did not end within ", seconds, " s"));
}

std::unique_ptr<Transport>
kerf::rt::makeMpiTransport(const JobEnvironment &environment, double seconds) {
  return std::make_unique<MpiTransport>(environment, seconds);
}
