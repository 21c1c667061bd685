//===- NcclProcesses.cpp - NCCL among processes, over a store -------------===//
//
// Each member posts what it sends under a key that names communicator, number
// and sender, and waits until the parts of the others are there; it reduces in
// order of member, so all get the bits that threads get. A member that dies
// posts nothing more: as with NCCL, the others wait until somebody aborts.
//
//===----------------------------------------------------------------------===//
#include "NcclState.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace recording;
using namespace kerf::rt;

namespace {
constexpr double seconds = 60;

std::string keyOf(const NcclCall &c, int member) {
  const NcclGroup &g = *c.comm->group;
  if (c.kind == NcclCall::Send || c.kind == NcclCall::Recv) {
    int from = c.kind == NcclCall::Send ? c.comm->rank : c.peer,
        to = c.kind == NcclCall::Send ? c.peer : c.comm->rank;
    return cat(g.name, "/s", from, ".", to, ".", c.number);
  }
  return cat(g.name, "/c", c.number, ".", member);
}

/// What must be equal on all members, in front of a part.
std::string headOf(const NcclCall &c) {
  bool pair = c.kind == NcclCall::Send || c.kind == NcclCall::Recv;
  return pair ? cat("pair ", c.count * bytesOf(c.type), "\n")
              : cat(kindName(c.kind), " ", c.count, " ", c.type, " ", c.op, " ",
                    c.peer, "\n");
}

/// The store is gone when the process that serves it is.
template <typename Fn> bool reach(NcclRank &rank, Fn work) {
  try {
    work();
    return true;
  } catch (const Error &) {
    rank.error = nccl::RemoteError;
    return false;
  }
}
} // namespace

bool recording::serveProcesses(char *id, size_t bytes, int number) {
  try {
    if (jobEnvironment().size == 1)
      return false;
  } catch (const Error &) {
    return false;
  }
  static auto *server = new StoreServer("127.0.0.1", 0);
  std::snprintf(id, bytes, "store %d %d", server->port(), number);
  return true;
}

NcclRank *recording::joinRemotely(const char *id, int size, int rank) {
  int port = 0, number = 0;
  if (std::sscanf(id, "store %d %d", &port, &number) != 2)
    return nullptr;
  NcclRank *made = nullptr;
  {
    std::lock_guard<std::mutex> lock(Engine::get().mutex);
    made = newRank();
  }
  made->rank = rank;
  made->group = std::make_shared<NcclGroup>();
  made->group->size = size;
  made->group->name = cat("g", number);
  made->error = nccl::InProgress;
  made->state = NcclRank::Joining;
  reach(*made, [&] {
    made->group->store = connectStore("127.0.0.1", port, seconds);
    made->group->store->set(cat(made->group->name, "/join", rank), "1");
  });
  return made;
}

NcclRank *recording::splitRemotely(NcclRank &parent, int color, int key) {
  NcclGroup &g = *parent.group;
  uint64_t number = parent.splits++;
  reach(parent, [&] {
    g.store->set(cat(g.name, "/split", number, ".", parent.rank),
                 cat(color, " ", key));
  });
  if (color < 0)
    return nullptr;
  auto *made = newRank();
  made->error = nccl::InProgress;
  made->state = NcclRank::Splitting;
  made->parent = parent.group;
  made->split = number;
  made->color = color;
  made->rank = parent.rank; // in the parent, until it is ready
  return made;
}

static void settleSplit(NcclRank &rank) {
  NcclGroup &g = *rank.parent;
  std::vector<std::pair<int, int>> members; // key, rank
  for (int i = 0; i < g.size; ++i) {
    auto text = g.store->get(cat(g.name, "/split", rank.split, ".", i));
    if (!text)
      return;
    int color = 0, key = 0;
    std::sscanf(text->c_str(), "%d %d", &color, &key);
    if (color == rank.color)
      members.push_back({key, i});
  }
  std::sort(members.begin(), members.end());
  auto group = std::make_shared<NcclGroup>();
  group->size = static_cast<int>(members.size());
  group->store = g.store;
  group->name = cat(g.name, ".", rank.split, ".", rank.color);
  for (size_t i = 0; i < members.size(); ++i)
    if (members[i].second == rank.rank) {
      rank.rank = static_cast<int>(i);
      break;
    }
  rank.group = group;
  rank.parent = nullptr;
  rank.state = NcclRank::Ready;
  rank.error = nccl::Success;
}

void recording::settleRemotely(NcclRank &rank) {
  if (rank.state == NcclRank::Splitting)
    reach(rank, [&] { settleSplit(rank); });
  if (rank.state != NcclRank::Joining || rank.error != nccl::InProgress)
    return;
  reach(rank, [&] {
    for (int i = 0; i < rank.group->size; ++i)
      if (!rank.group->store->get(cat(rank.group->name, "/join", i)))
        return;
    rank.state = NcclRank::Ready;
    rank.error = nccl::Success;
  });
}

bool recording::meetRemotely(NcclCall &c) {
  NcclGroup &g = *c.comm->group;
  NcclRank::Remote &mine = c.comm->remote[keyOf(c, c.comm->rank)];
  bool complete = true;
  bool reached = reach(*c.comm, [&] {
    auto size = static_cast<size_t>(g.size);
    bool receives = c.kind == NcclCall::Recv;
    if (!mine.posted && !receives) {
      size_t bytes = c.count * bytesOf(c.type) *
                     (c.kind == NcclCall::ReduceScatter ? size : 1);
      bool silent = c.kind == NcclCall::Broadcast && c.comm->rank != c.peer;
      g.store->set(keyOf(c, c.comm->rank),
                   headOf(c) + std::string(static_cast<const char *>(c.src),
                                           silent ? 0 : bytes));
      mine.posted = true;
    }
    if (c.kind == NcclCall::Send)
      return;
    mine.parts.resize(receives ? 1 : size);
    for (size_t i = 0; i < mine.parts.size(); ++i) {
      if (!mine.parts[i].empty())
        continue;
      auto part = g.store->get(keyOf(c, static_cast<int>(i)));
      if (part)
        mine.parts[i] = *part;
      else
        complete = false;
    }
  });
  return reached && complete;
}

void recording::exchangeRemotely(NcclCall &c) {
  if (c.kind == NcclCall::Send)
    return;
  std::string head = headOf(c), key = keyOf(c, c.comm->rank);
  std::vector<std::string> parts = std::move(c.comm->remote[key].parts);
  c.comm->remote.erase(key);
  for (const std::string &part : parts)
    if (part.compare(0, head.size(), head) != 0) {
      NcclCall other = c;
      return disagree(c, other);
    }
  size_t bytes = c.count * bytesOf(c.type);
  if (c.kind == NcclCall::Recv) {
    std::memcpy(c.dst, parts[0].data() + head.size(), bytes);
    return;
  }
  size_t size = parts.size();
  std::vector<char> scratch(bytes * (c.kind == NcclCall::AllGather ? size : 1));
  std::vector<NcclCall> members(size, c);
  std::vector<const NcclCall *> calls;
  std::vector<std::vector<char>> sources(size); // aligned, unlike the parts
  for (size_t i = 0; i < size; ++i) {
    sources[i].assign(parts[i].begin() + static_cast<long>(head.size()),
                      parts[i].end());
    members[i].src = sources[i].data();
    if (static_cast<int>(i) != c.comm->rank)
      members[i].dst = scratch.data();
    calls.push_back(&members[i]);
  }
  runCollective(calls);
}
