//===- NcclConnect.cpp - how GPU ranks find each other --------------------===//
//
// Ranks compare their identities through the store, make one communicator of
// all ranks and split it by lane. Every call of NCCL returns at once and is
// polled until it has succeeded, failed, or passed the deadline.
//
//===----------------------------------------------------------------------===//
#include "NcclCommImpl.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>
#include <unistd.h>

using namespace kerf::rt;

// Host name, GPU, package: by these ranks check that they fit together.
void NcclComm::compareRanks() {
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  std::string place = cat(host, "/", device.gpuOrdinal());
  // NCCL of different versions cannot talk to each other.
  std::string mine = cat(device.gpuName(), "\n", place, "\n", nccl->version,
                         "\n", world.getOptions().fingerprint, "\n",
                         device.reservedByNccl() && nccl->wantsWindows()
                             ? device.reserved().second
                             : 0);
  std::vector<std::string> all = world.store().gather(
      "cuda-ranks", rank, spec.mesh.numRanks(), mine, spec.deadlineSeconds);
  auto line = [](const std::string &text, int number) {
    std::istringstream in(text);
    std::string part;
    for (int i = 0; i <= number; ++i)
      std::getline(in, part);
    return part;
  };
  const char *share = std::getenv("KERF_SHARE_GPU");
  bool mayShare = share && std::string(share) == "1";
  for (const std::string &text : all)
    windowBytes.push_back(std::atoll(line(text, 4).c_str()));
  for (size_t r = 1; r < all.size(); ++r) {
    if (line(all[r], 3) != line(all[0], 3))
      throw Error(KERF_MISMATCH,
                  cat("ranks disagree on the package: rank 0 has ",
                      line(all[0], 3), ", rank ", r, " has ", line(all[r], 3)));
    if (line(all[r], 0) != line(all[0], 0))
      throw Error(KERF_UNSUPPORTED_HOST,
                  cat("mixed GPU models: rank 0 has ", line(all[0], 0),
                      ", rank ", r, " has ", line(all[r], 0),
                      "; a plan counts on equal GPUs"));
    if (line(all[r], 2) != line(all[0], 2))
      throw Error(KERF_UNSUPPORTED_HOST,
                  cat("NCCL differs: rank 0 has version ", line(all[0], 2),
                      ", rank ", r, " has ", line(all[r], 2)));
    for (size_t q = 0; q < r && !mayShare; ++q)
      if (line(all[r], 1) == line(all[q], 1))
        throw Error(KERF_UNSUPPORTED_HOST,
                    cat("ranks ", q, " and ", r, " both use GPU ",
                        line(all[r], 1),
                        "; KERF_SHARE_GPU=1 allows it for testing"));
  }
}

void NcclComm::settle(nccl::Comm comm, nccl::Result result,
                      const std::string &what) {
  result = outcome(comm, result, what);
  if (result != nccl::Success)
    fail(Error(KERF_RANK_FAILURE, cat(what, " of rank ", rank, " failed: ",
                                      nccl->describe(result, comm))));
}

nccl::Result NcclComm::outcome(nccl::Comm comm, nccl::Result result,
                               const std::string &what) {
  Time begin = Clock::now();
  // What makes communicators and windows answers Success before it has ended,
  // and leaves its result empty until the communicator was asked.
  if (result == nccl::Success)
    result = nccl::InProgress;
  while (result == nccl::InProgress) {
    if (world.failed()) {
      abortAll();
      throw world.failure();
    }
    if (secondsSince(begin) > spec.deadlineSeconds)
      fail(Error(KERF_RANK_FAILURE,
                 cat(what, " of rank ", rank, " did not end within ",
                     spec.deadlineSeconds, " s"),
                 "", world.lastCollectives()));
    nccl::Result state = nccl::Success;
    nccl::Result asked = nccl->commGetAsyncError(comm, &state);
    result = asked == nccl::Success ? state : asked;
    if (result == nccl::InProgress)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return result;
}

// Registers memory with NCCL: as a symmetric window if all members of the lane
// have as much memory with the same layout; else each member for itself. Both
// only make NCCL faster: if it refuses, the lane works without. Making a window
// is a collective call, so members agree on whether it exists.
void NcclComm::registerMemory(Lane &lane, size_t number) {
  auto [memory, bytes] = device.reserved();
  if (bytes == 0)
    return;
  auto size = static_cast<size_t>(bytes);
  const std::vector<int64_t> &members = lane.desc->ranks;
  bool symmetric = !lane.desc->channels;
  for (int64_t member : members)
    symmetric &= windowBytes[member] != 0 &&
                 windowBytes[member] == windowBytes[members[0]];
  if (symmetric) {
    nccl::Result result =
        outcome(lane.comm,
                nccl->windowRegister(lane.comm, memory, size, &lane.window,
                                     nccl::WindowSymmetric),
                "ncclCommWindowRegister");
    bool mine = result == nccl::Success;
    bool all = true;
    for (const std::string &text : world.store().gather(
             cat("window-", number, "-", lane.desc->color), lane.position,
             static_cast<int64_t>(members.size()), mine ? "1" : "0",
             spec.deadlineSeconds))
      all &= text == "1";
    if (all)
      return;
    if (mine)
      nccl->windowDeregister(lane.comm, lane.window);
    lane.window = nullptr;
  }
  if (nccl->commRegister &&
      nccl->commRegister(lane.comm, memory, size, &lane.registered) !=
          nccl::Success)
    lane.registered = nullptr;
}

void NcclComm::deregisterMemory(Lane &lane) {
  if (lane.window)
    nccl->windowDeregister(lane.comm, lane.window);
  if (lane.registered && nccl->commDeregister)
    nccl->commDeregister(lane.comm, lane.registered);
}

void NcclComm::initialize() {
  nccl::UniqueId id;
  int64_t ranks = spec.mesh.numRanks();
  if (rank == 0) {
    nccl::Result result = nccl->getUniqueId(&id);
    if (result != nccl::Success)
      fail(Error(KERF_RANK_FAILURE,
                 cat("ncclGetUniqueId failed: ", nccl->describe(result))));
    world.store().set("nccl-id", std::string(id.internal, sizeof(id)));
  } else {
    std::string bytes = world.store().wait("nccl-id", spec.deadlineSeconds,
                                           "NCCL's id from rank 0");
    if (bytes.size() != sizeof(id))
      fail(Error(KERF_RANK_FAILURE, "NCCL's id has another size"));
    std::copy(bytes.begin(), bytes.end(), id.internal);
  }
  nccl::Config config = nccl::nonBlocking();
  nccl::Result result = nccl->commInitRankConfig(
      &whole, static_cast<int>(ranks), id, static_cast<int>(rank), &config);
  settle(whole, result, "ncclCommInitRankConfig");
}

void NcclComm::split(nccl::Comm &comm, int64_t color, int64_t key,
                     const std::string &what) {
  nccl::Config config = nccl::nonBlocking();
  nccl::Result result = nccl->commSplit(whole, static_cast<int>(color),
                                        static_cast<int>(key), &comm, &config);
  // `comm` is empty until the whole communicator is ready again.
  settle(whole, result, cat("ncclCommSplit for ", what));
  if (color >= 0)
    settle(comm, result, cat("ncclCommSplit for ", what));
}

void NcclComm::connect() {
  nccl = &Nccl::get();
  compareRanks();
  initialize();
  const char *given = std::getenv("KERF_NCCL_REGISTER");
  bool registers = !(given && *given == '0');
  for (size_t i = 0; i < lanes.size(); ++i) {
    Lane &lane = lanes[i];
    lane.desc = &world.lanes()[i][rank];
    const std::vector<int64_t> &members = lane.desc->ranks;
    bool mine = lane.desc->color >= 0;
    if (mine)
      lane.position =
          std::find(members.begin(), members.end(), rank) - members.begin();
    split(lane.comm, mine ? lane.desc->color : nccl::SplitNoColor,
          lane.position, lane.desc->name);
    if (!mine)
      lane.comm = nullptr;
    else if (registers)
      registerMemory(lane, i);
  }
}

// A few bytes of each kind of call that the lane will make.
nccl::Result NcclComm::firstCalls(const Lane &lane, size_t number,
                                  char *memory) {
  nccl::Result first = nccl::Success;
  auto add = [&](nccl::Result result) {
    if (first == nccl::Success && result != nccl::InProgress)
      first = result;
  };
  int64_t size = static_cast<int64_t>(lane.desc->ranks.size());
  if (lane.desc->channels) {
    add(lane.position == 0
            ? nccl->send(memory, 1, nccl::Uint8, 1, lane.comm, lane.stream)
            : nccl->recv(memory, 1, nccl::Uint8, 0, lane.comm, lane.stream));
    return first;
  }
  std::set<NcclCall> calls;
  for (size_t i = 0; i < spec.collectives.size(); ++i)
    if (world.laneOfCollective(static_cast<int64_t>(i)) ==
        static_cast<int64_t>(number))
      calls.insert(ncclCallOf(spec.collectives[i].kind));
  const char *from = memory;
  for (NcclCall call : calls) {
    char *to = memory += 4 * size;
    if (call == NcclCall::AllReduce)
      add(nccl->allReduce(from, to, 1, nccl::Float32, nccl::Sum, lane.comm,
                          lane.stream));
    else if (call == NcclCall::ReduceScatter)
      add(nccl->reduceScatter(from, to, 1, nccl::Float32, nccl::Sum, lane.comm,
                              lane.stream));
    else if (call == NcclCall::AllGather)
      add(nccl->allGather(from, to, 1, nccl::Uint8, lane.comm, lane.stream));
    else if (call == NcclCall::Broadcast)
      add(nccl->broadcast(from, to, 1, nccl::Uint8, 0, lane.comm, lane.stream));
    else
      for (int64_t i = 0; i < size; ++i) {
        auto peer = static_cast<int>(i);
        add(nccl->send(from + i, 1, nccl::Uint8, peer, lane.comm, lane.stream));
        add(nccl->recv(to + i, 1, nccl::Uint8, peer, lane.comm, lane.stream));
      }
  }
  return first;
}

// NCCL connects members at their first call, and the host waits for the others
// in that call. During a step, where stages reach their lanes in different
// orders, they could wait for each other for ever: so all connect here, in the
// order of lanes.
void NcclComm::exchangeFirst() {
  int64_t max = 0;
  for (const Lane &lane : lanes)
    if (lane.comm)
      max = std::max(max, static_cast<int64_t>(lane.desc->ranks.size()));
  constexpr int64_t places = 6; // source, and five results
  exchanged = device.allocateTemporary(4 * places * max, "the first exchange");
  cuda.check(cuda.streamSynchronize(device.computeStream()),
             "the first exchange"); // it is zero now
  // Allocating may wait for kernels of peers: synchronise, so that all have
  // theirs.
  gather("connected", "", spec.deadlineSeconds);
  for (size_t i = 0; i < lanes.size(); ++i) {
    Lane &lane = lanes[i];
    if (!lane.comm)
      continue;
    std::string what = cat("the first exchange over ", lane.desc->name);
    nccl::Result result = nccl->groupStart();
    if (result == nccl::Success)
      result = firstCalls(lane, i, static_cast<char *>(exchanged->data));
    nccl::Result ended = nccl->groupEnd();
    settle(lane.comm, result == nccl::Success ? ended : result, what);
    cuda.check(cuda.eventRecord(lane.join, lane.stream), "cuEventRecord");
    Time begin = Clock::now();
    cu::Result state;
    while ((state = cuda.eventQuery(lane.join)) == cu::ErrorNotReady) {
      settle(lane.comm, nccl::Success, what); // sees what failed meanwhile
      if (secondsSince(begin) > spec.deadlineSeconds)
        fail(Error(KERF_RANK_FAILURE,
                   cat(what, " of rank ", rank, " did not end within ",
                       spec.deadlineSeconds, " s")));
    }
    cuda.check(state, what);
  }
}
