//===- Nccl.cpp - NCCL among threads, over the engine ---------------------===//
//
// A communicator joins members of this process. The k-th collective of each
// member belongs together, as do the k-th send and the k-th receive of a pair;
// an operation runs when everything that belongs to it, and to that, could run.
// Reductions are those of the thread ranks, in order of member: the same bits.
//
//===----------------------------------------------------------------------===//
#include "NcclState.h"

#include "comm/threads/Reduce.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <set>

using namespace recording;
using namespace kerf::rt;

namespace {
using Lock = std::unique_lock<std::mutex>;
Engine &engine() { return Engine::get(); }

std::map<std::string, std::shared_ptr<NcclGroup>> &groupsById() {
  static auto *made = new std::map<std::string, std::shared_ptr<NcclGroup>>;
  return *made;
}
/// A split that not all have joined.
struct Split {
  struct Member {
    int color, key, rank;
    NcclRank *result;
  };
  std::vector<Member> members;
};
std::map<std::pair<NcclGroup *, uint64_t>, Split> &splits() {
  static auto *made = new std::map<std::pair<NcclGroup *, uint64_t>, Split>;
  return *made;
}

/// Calls between ncclGroupStart and ncclGroupEnd of a thread.
struct Pending {
  cu::Stream stream;
  NcclCall call;
};
thread_local int depth = 0, callsOfGroup = 0;
thread_local std::vector<Pending> pending;

void putCalls(cu::Stream stream, const std::vector<NcclCall> &calls) {
  auto work = std::make_shared<Work>();
  work->what = "nccl";
  for (const NcclCall &c : calls) {
    work->what += std::string(" ") + kindName(c.kind) + " " +
                  std::to_string(c.count * bytesOf(c.type));
    if (c.kind == NcclCall::Send || c.kind == NcclCall::Recv)
      work->what += (c.kind == NcclCall::Send ? " to " : " from ") +
                    std::to_string(c.peer);
    size_t n = static_cast<size_t>(c.comm->group->size);
    size_t in = c.count * (c.kind == NcclCall::ReduceScatter ? n : 1),
           out = c.count * (c.kind == NcclCall::AllGather ? n : 1);
    auto add = [&](const void *begin, size_t count, bool writes) {
      auto at = reinterpret_cast<uintptr_t>(begin);
      work->ranges.push_back(
          {at, at + count * bytesOf(c.type), !writes, writes});
    };
    if (c.kind != NcclCall::Recv &&
        !(c.kind == NcclCall::Broadcast && c.comm->rank != c.peer))
      add(c.src, in, false);
    if (c.kind != NcclCall::Send)
      add(c.dst, out, true);
  }
  work->calls = calls;
  engine().enqueue(*reinterpret_cast<recording::Stream *>(stream), work);
}

int put(cu::Stream stream, NcclCall call) {
  Lock lock(engine().mutex);
  if (depth > 0)
    ++callsOfGroup;
  if (call.comm->aborted || call.comm->destroyed)
    engine().problem("a call of a communicator that is gone");
  if (call.comm->error != nccl::Success)
    return call.comm->error;
  if (static_cast<int64_t>(call.count) == engine().settings.refuseCount)
    return nccl::InvalidArgument;
  if (depth > 0)
    pending.push_back({stream, call});
  else
    putCalls(stream, {call});
  return nccl::Success;
}

/// The operations of the other ends of a call; false: not all are there.
bool partners(const NcclCall &c, std::vector<OperationRef> &found) {
  NcclGroup &g = *c.comm->group;
  auto take = [&](const auto &map, const auto &key) {
    auto it = map.find(key);
    if (it == map.end())
      return false;
    found.push_back(it->second);
    return true;
  };
  int me = c.comm->rank;
  if (c.kind == NcclCall::Send)
    return take(g.receives, std::make_tuple(me, c.peer, c.number));
  if (c.kind == NcclCall::Recv)
    return take(g.sends, std::make_tuple(c.peer, me, c.number));
  for (int i = 0; i < g.size; ++i)
    if (!take(g.collectives, std::make_pair(c.number, i)))
      return false;
  return true;
}

const NcclCall *find(const Operation &op, NcclCall::Kind kind, int rank,
                     int peer, uint64_t number, const NcclGroup *group) {
  for (const NcclCall &c : op.calls)
    if (c.kind == kind && c.comm->rank == rank && c.number == number &&
        c.comm->group.get() == group && (peer < 0 || c.peer == peer))
      return &c;
  return nullptr;
}

} // namespace

std::vector<NcclRank *> &recording::allRanks() {
  static auto *made = new std::vector<NcclRank *>;
  return *made;
}

NcclRank *recording::newRank() {
  allRanks().push_back(new NcclRank); // kept: operations name it
  return allRanks().back();
}

// Whoever launches makes kernels that wait for their peers, and instantiating
// and uploading may wait for kernels: all members must have done it before.
void recording::checkFirstLaunch(const Graph &graph) {
  std::set<const NcclGroup *> groups;
  for (const Graph::Node &node : graph.nodes)
    for (const NcclCall &call : node.work->calls)
      if (groups.insert(call.comm->group.get()).second)
        for (const NcclRank *member : call.comm->group->members)
          if (member && !member->aborted &&
              !engine().isCaptured(*member, /*uploaded=*/true))
            engine().problem("a graph is launched before that of member " +
                             std::to_string(member->rank) + " was uploaded");
}

size_t recording::bytesOf(int type) {
  switch (type) {
  case nccl::Int8:
  case nccl::Uint8:
    return 1;
  case nccl::Float16:
  case nccl::Bfloat16:
    return 2;
  case nccl::Int32:
  case nccl::Uint32:
  case nccl::Float32:
    return 4;
  default:
    return 8;
  }
}

namespace {
kerf_dtype_t dtypeOf(int type) {
  for (int d = KERF_F32; d <= KERF_U64; ++d) {
    auto dtype = static_cast<kerf_dtype_t>(d);
    if (dtype != KERF_I16 && dtype != KERF_U16 && ncclTypeOf(dtype) == type)
      return dtype;
  }
  return KERF_U8;
}

Reduction reductionOf(int op) {
  for (Reduction r :
       {Reduction::Sum, Reduction::Max, Reduction::Min, Reduction::Prod})
    if (ncclReductionOf(r) == op)
      return r;
  return Reduction::Sum;
}

} // namespace

const char *recording::kindName(NcclCall::Kind kind) {
  static constexpr const char *names[] = {"all_reduce", "reduce_scatter",
                                          "all_gather", "broadcast",
                                          "send",       "recv"};
  return names[kind];
}

void recording::disagree(const NcclCall &a, const NcclCall &b) {
  a.comm->error = b.comm->error = nccl::InvalidUsage;
  engine().problem(std::string("members of a communicator disagree: ") +
                   kindName(a.kind) + " of " + std::to_string(a.count) +
                   " against " + kindName(b.kind) + " of " +
                   std::to_string(b.count));
}

void recording::runCollective(const std::vector<const NcclCall *> &calls) {
  const NcclCall &c = *calls[0];
  size_t n = calls.size(), bytes = c.count * bytesOf(c.type);
  for (const NcclCall *other : calls)
    if (other->kind != c.kind || other->count != c.count ||
        other->type != c.type || other->op != c.op || other->peer != c.peer)
      return disagree(c, *other);
  std::vector<const void *> srcs;
  for (const NcclCall *call : calls)
    srcs.push_back(call->src);
  switch (c.kind) {
  case NcclCall::AllReduce: {
    std::vector<char> sum(bytes);
    void *result = sum.data();
    reduceFunction(dtypeOf(c.type), reductionOf(c.op))(
        srcs.data(), static_cast<int64_t>(n), &result, 1,
        static_cast<int64_t>(c.count));
    for (const NcclCall *call : calls)
      std::memcpy(call->dst, sum.data(), bytes);
    return;
  }
  case NcclCall::ReduceScatter: {
    std::vector<std::vector<char>> results;
    for (size_t i = 0; i < n; ++i) {
      results.emplace_back(bytes);
      std::vector<const void *> parts;
      for (const void *src : srcs)
        parts.push_back(static_cast<const char *>(src) + i * bytes);
      void *result = results.back().data();
      reduceFunction(dtypeOf(c.type), reductionOf(c.op))(
          parts.data(), static_cast<int64_t>(n), &result, 1,
          static_cast<int64_t>(c.count));
    }
    for (size_t i = 0; i < n; ++i)
      std::memcpy(calls[i]->dst, results[i].data(), bytes);
    return;
  }
  case NcclCall::AllGather: {
    std::vector<char> all;
    for (const void *src : srcs)
      all.insert(all.end(), static_cast<const char *>(src),
                 static_cast<const char *>(src) + bytes);
    for (const NcclCall *call : calls)
      std::memcpy(call->dst, all.data(), all.size());
    return;
  }
  default: { // broadcast
    std::vector<char> data(static_cast<const char *>(srcs[c.peer]),
                           static_cast<const char *>(srcs[c.peer]) + bytes);
    for (const NcclCall *call : calls)
      std::memcpy(call->dst, data.data(), bytes);
  }
  }
}

void recording::numberCalls(const OperationRef &op) {
  for (NcclCall &c : op->calls) {
    NcclGroup &g = *c.comm->group;
    if (g.store) {
      c.number = c.kind == NcclCall::Send   ? c.comm->nextSend[c.peer]++
                 : c.kind == NcclCall::Recv ? c.comm->nextReceive[c.peer]++
                                            : c.comm->nextCollective++;
      continue;
    }
    if (c.kind == NcclCall::Send) {
      c.number = c.comm->nextSend[c.peer]++;
      g.sends[{c.comm->rank, c.peer, c.number}] = op;
    } else if (c.kind == NcclCall::Recv) {
      c.number = c.comm->nextReceive[c.peer]++;
      g.receives[{c.peer, c.comm->rank, c.number}] = op;
    } else {
      c.number = c.comm->nextCollective++;
      g.collectives[{c.number, c.comm->rank}] = op;
    }
  }
}

void recording::resetNccl() {
  groupsById().clear();
  splits().clear();
  allRanks().clear();
}

bool Engine::collect(const OperationRef &first,
                     std::vector<OperationRef> &all) {
  all = {first};
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i]->pending != 0 || all[i]->done)
      return false;
    for (NcclCall &c : all[i]->calls) {
      if (c.comm->group->aborted) {
        all = {first};
        first->cancelled = true;
        return true;
      }
      if (c.comm->error != nccl::Success)
        return false;
      if (c.comm->group->store) {
        if (!meetRemotely(c))
          return false;
        continue;
      }
      std::vector<OperationRef> others;
      if (!partners(c, others))
        return false;
      for (const OperationRef &other : others)
        if (std::find(all.begin(), all.end(), other) == all.end())
          all.push_back(other);
    }
  }
  return true;
}

void Engine::exchange(const std::vector<OperationRef> &all) {
  std::set<std::pair<NcclGroup *, uint64_t>> finished;
  for (const OperationRef &op : all) {
    if (op->cancelled)
      continue;
    for (NcclCall &c : op->calls) {
      NcclGroup *g = c.comm->group.get();
      if (g->store) {
        exchangeRemotely(c);
        continue;
      }
      if (c.kind == NcclCall::Recv)
        continue;
      if (c.kind == NcclCall::Send) {
        auto to = std::make_tuple(c.comm->rank, c.peer, c.number);
        const NcclCall *other = find(*g->receives[to], NcclCall::Recv, c.peer,
                                     c.comm->rank, c.number, g);
        size_t bytes = c.count * bytesOf(c.type);
        if (!other || other->count * bytesOf(other->type) != bytes)
          disagree(c, other ? *other : c);
        else
          std::memcpy(other->dst, c.src, bytes);
        g->sends.erase(to);
        g->receives.erase(to);
        continue;
      }
      if (!finished.insert({g, c.number}).second)
        continue;
      std::vector<const NcclCall *> calls;
      for (int i = 0; i < g->size; ++i) {
        const Operation &member = *g->collectives[{c.number, i}];
        for (const NcclCall &call : member.calls)
          if (call.comm->group.get() == g && call.comm->rank == i &&
              call.number == c.number && call.kind != NcclCall::Send &&
              call.kind != NcclCall::Recv)
            calls.push_back(&call);
      }
      runCollective(calls);
      for (int i = 0; i < g->size; ++i)
        g->collectives.erase({c.number, i});
    }
  }
}

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int ncclGetVersion(int *version) {
  *version = engine().settings.ncclVersion;
  return nccl::Success;
}
EXPORT const char *ncclGetErrorString(int result) {
  static constexpr const char *texts[] = {
      "no error",
      "unhandled cuda error",
      "unhandled system error",
      "internal error",
      "invalid argument",
      "invalid usage",
      "remote process exited or there was a network error",
      "in progress"};
  return result >= 0 && result < 8 ? texts[result] : "unknown result code";
}
EXPORT int ncclGetUniqueId(nccl::UniqueId *id) {
  static std::atomic<int> next{0};
  std::memset(id, 0, sizeof(*id));
  if (serveProcesses(id->internal, sizeof(id->internal), next))
    return nccl::Success;
  std::snprintf(id->internal, sizeof(id->internal), "recording %d", next++);
  return nccl::Success;
}
EXPORT int ncclCommInitRankConfig(nccl::Comm *comm, int size, nccl::UniqueId id,
                                  int rank, nccl::Config *config) {
  if (config->size != sizeof(nccl::Config) || config->magic != 0xcafebeef ||
      config->blocking != 0 || config->trafficClass != INT_MIN)
    return nccl::InvalidArgument;
  if (NcclRank *remote = joinRemotely(id.internal, size, rank)) {
    *comm = handle(remote);
    return nccl::InProgress;
  }
  Lock lock(engine().mutex);
  auto &group = groupsById()[id.internal];
  if (!group) {
    group = std::make_shared<NcclGroup>();
    group->size = size;
    group->members.resize(static_cast<size_t>(size));
  }
  if (rank < 0 || rank >= size || group->size != size || group->members[rank])
    return nccl::InvalidArgument;
  auto *made = newRank();
  made->group = group;
  made->rank = rank;
  group->members[rank] = made;
  ++group->joined;
  *comm = handle(made);
  return group->joined == size ? nccl::Success : nccl::InProgress;
}
// As NCCL does it for communicators that do not block: it answers that all is
// well, and there is no handle until the parent has been asked and is ready.
EXPORT int ncclCommSplit(nccl::Comm comm, int color, int key,
                         nccl::Comm *result, nccl::Config *) {
  Lock lock(engine().mutex);
  NcclRank *parent = of(comm);
  NcclGroup *g = parent->group.get();
  if (parent->childHandle)
    return nccl::InvalidUsage;
  *result = nullptr;
  parent->childHandle = result;
  if (g->store) {
    parent->child = splitRemotely(*parent, color, key);
    return nccl::Success;
  }
  auto id = std::make_pair(g, parent->splits++);
  NcclRank *made = nullptr;
  if (color >= 0) {
    made = newRank();
    made->error = nccl::InProgress;
  }
  parent->child = made;
  Split &split = splits()[id];
  split.members.push_back({color, key, parent->rank, made});
  if (static_cast<int>(split.members.size()) < g->size)
    return nccl::Success;
  std::map<int, std::vector<Split::Member>> colors;
  for (const Split::Member &m : split.members)
    if (m.color >= 0)
      colors[m.color].push_back(m);
  for (auto &[c, members] : colors) {
    std::sort(members.begin(), members.end(), [](auto &a, auto &b) {
      return std::tie(a.key, a.rank) < std::tie(b.key, b.rank);
    });
    auto group = std::make_shared<NcclGroup>();
    group->size = group->joined = static_cast<int>(members.size());
    for (size_t i = 0; i < members.size(); ++i) {
      members[i].result->group = group;
      members[i].result->rank = static_cast<int>(i);
      members[i].result->error = nccl::Success;
      group->members.push_back(members[i].result);
    }
  }
  splits().erase(id);
  return nccl::Success;
}
EXPORT int ncclCommDestroy(nccl::Comm comm) {
  Lock lock(engine().mutex);
  if (of(comm)->windows)
    engine().problem("a communicator is destroyed before its window");
  if (engine().isCaptured(*of(comm)))
    engine().problem("a communicator is destroyed before the graph that has "
                     "captured its calls");
  of(comm)->destroyed = true;
  return nccl::Success; // operations may still name it
}
// It comes back when no graph that may be running holds the communicator, and a
// graph runs until the kernels of all its communicators are told to stop.
EXPORT int ncclCommAbort(nccl::Comm comm) {
  Lock lock(engine().mutex);
  NcclRank &rank = *of(comm);
  if (engine().isCaptured(rank))
    engine().problem("a communicator is aborted before the graph that has "
                     "captured its calls is destroyed");
  if (callsOfGroup > 0)
    engine().problem("a communicator is aborted inside a group of calls");
  if (rank.aborted || rank.destroyed)
    engine().problem("a communicator is aborted that is gone");
  rank.aborted = true;
  if (rank.group)
    rank.group->aborted = true;
  engine().changed.notify_all();
  auto others = [&] {
    for (const NcclRank *other : allRanks())
      if (other->owner == rank.owner && !other->aborted && !other->destroyed)
        return false;
    return true;
  };
  if (depth == 0 &&
      !engine().changed.wait_for(lock, std::chrono::seconds(1), others))
    engine().problem("communicators of a rank are aborted one by one");
  if (depth > 0 && engine().settings.ncclVersion < 22200)
    engine().problem("this NCCL aborts no groups of communicators");
  return nccl::Success;
}
EXPORT int ncclCommGetAsyncError(nccl::Comm comm, int *error) {
  if (!comm)
    return nccl::InvalidArgument;
  Lock lock(engine().mutex);
  NcclRank *rank = of(comm);
  settleRemotely(*rank);
  *error = rank->error;
  if (rank->childHandle && *error == nccl::Success) {
    if (rank->child)
      settleRemotely(*rank->child);
    if (rank->child && rank->child->error == nccl::InProgress) {
      *error = nccl::InProgress;
    } else {
      *rank->childHandle = handle(rank->child);
      rank->childHandle = nullptr;
    }
  }
  if (rank->group && !rank->group->store &&
      rank->group->joined < rank->group->size)
    *error = nccl::InProgress;
  if (rank->group && rank->nextCollective > 1 && // not the first exchange
      engine().settings.ncclErrorRank == rank->rank)
    *error = nccl::RemoteError;
  return nccl::Success;
}
EXPORT int ncclCommRegister(nccl::Comm, void *memory, size_t bytes,
                            void **result) {
  Lock lock(engine().mutex);
  auto at = reinterpret_cast<uintptr_t>(memory);
  auto it = engine().blocks.upper_bound(at);
  if (it == engine().blocks.begin() || (--it)->second < at + bytes)
    return nccl::InvalidArgument;
  *result = memory;
  return nccl::Success;
}
EXPORT int ncclCommDeregister(nccl::Comm, void *) { return nccl::Success; }
EXPORT int ncclGroupStart() {
  ++depth;
  return nccl::Success;
}
EXPORT int ncclGroupEnd() {
  if (--depth > 0)
    return nccl::Success;
  callsOfGroup = 0;
  Lock lock(engine().mutex);
  // One operation per communicator, as one launch of NCCL.
  while (!pending.empty()) {
    Pending first = pending.front();
    std::vector<NcclCall> calls;
    for (auto it = pending.begin(); it != pending.end();)
      if (it->call.comm == first.call.comm) {
        calls.push_back(it->call);
        it = pending.erase(it);
      } else {
        ++it;
      }
    putCalls(first.stream, calls);
  }
  return nccl::Success;
}
EXPORT int ncclAllReduce(const void *src, void *dst, size_t count, int type,
                         int op, nccl::Comm comm, cu::Stream stream) {
  return put(stream,
             {NcclCall::AllReduce, of(comm), src, dst, count, type, op, 0, 0});
}
EXPORT int ncclReduceScatter(const void *src, void *dst, size_t count, int type,
                             int op, nccl::Comm comm, cu::Stream stream) {
  return put(stream, {NcclCall::ReduceScatter, of(comm), src, dst, count, type,
                      op, 0, 0});
}
EXPORT int ncclAllGather(const void *src, void *dst, size_t count, int type,
                         nccl::Comm comm, cu::Stream stream) {
  return put(stream,
             {NcclCall::AllGather, of(comm), src, dst, count, type, 0, 0, 0});
}
EXPORT int ncclBroadcast(const void *src, void *dst, size_t count, int type,
                         int root, nccl::Comm comm, cu::Stream stream) {
  return put(stream, {NcclCall::Broadcast, of(comm), src, dst, count, type, 0,
                      root, 0});
}
EXPORT int ncclSend(const void *src, size_t count, int type, int peer,
                    nccl::Comm comm, cu::Stream stream) {
  return put(stream,
             {NcclCall::Send, of(comm), src, nullptr, count, type, 0, peer, 0});
}
EXPORT int ncclRecv(void *dst, size_t count, int type, int peer,
                    nccl::Comm comm, cu::Stream stream) {
  return put(stream,
             {NcclCall::Recv, of(comm), nullptr, dst, count, type, 0, peer, 0});
}
