//===- NcclWorld.cpp - ranks on GPUs --------------------------------------===//
//
// Lanes: a set of axes cuts the ranks into groups, all of which are one split
// of the communicator of all ranks; channels of one lane cut them into pairs.
// Every rank walks the same list of lanes, since a split is a collective.
//
//===----------------------------------------------------------------------===//
#include "NcclWorldImpl.h"

#include "../../package/Package.h"
#include "../processes/Job.h"
#include "NcclComm.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <unistd.h>

using namespace kerf::rt;

namespace {
class MemoryStore : public Store {
public:
  explicit MemoryStore(std::function<bool()> failed)
      : failed(std::move(failed)) {}
  void set(const std::string &key, const std::string &value) override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      values[key] = value;
    }
    changed.notify_all();
  }
  std::optional<std::string> get(const std::string &key) override {
    std::lock_guard<std::mutex> lock(mutex);
    auto it = values.find(key);
    return it == values.end() ? std::nullopt
                              : std::optional<std::string>(it->second);
  }
  std::string wait(const std::string &key, double seconds,
                   const std::string &what) override {
    auto deadline = std::chrono::steady_clock::now() +
                    std::chrono::duration<double>(seconds);
    std::unique_lock<std::mutex> lock(mutex);
    while (std::chrono::steady_clock::now() < deadline) {
      auto it = values.find(key);
      if (it != values.end())
        return it->second;
      if (failed())
        throw Error(KERF_RANK_FAILURE, "another rank failed");
      changed.wait_for(lock, std::chrono::milliseconds(10));
    }
    throw Error(KERF_RANK_FAILURE,
                cat(what.empty() ? key : what, " was not there within ",
                    seconds, " s"));
  }

private:
  std::function<bool()> failed;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
};
} // namespace

std::shared_ptr<Store>
kerf::rt::makeMemoryStore(const std::function<bool()> &failed) {
  return std::make_shared<MemoryStore>(failed);
}

std::vector<int64_t> kerf::rt::channelLanes(const Manifest &m) {
  std::vector<int64_t> lanes(m.channels.size(), -1);
  auto order = [&](int64_t stage, Instruction::Op op, int64_t from,
                   int64_t to) {
    std::vector<std::pair<int64_t, int64_t>> list;
    for (const Instruction &in : m.stages[stage].instructions)
      if (in.op == op && m.channels[in.index].fromStage == from &&
          m.channels[in.index].toStage == to)
        list.push_back({in.index, in.microBatch});
    return list;
  };
  int64_t next = 0;
  std::map<std::pair<int64_t, int64_t>, int64_t> shared;
  for (size_t c = 0; c < lanes.size(); ++c) {
    int64_t from = m.channels[c].fromStage, to = m.channels[c].toStage;
    if (order(from, Instruction::Send, from, to) !=
        order(to, Instruction::Recv, from, to)) {
      lanes[c] = next++;
      continue;
    }
    auto [it, added] = shared.insert({{from, to}, next});
    next += added;
    lanes[c] = it->second;
  }
  return lanes;
}

NcclWorld::NcclWorld(const WorldSpec &worldSpec, NcclWorldOptions given)
    : spec(worldSpec), options(std::move(given)), local(!options.store),
      rows(worldSpec.mesh.numRanks()) {
  if (local)
    options.store = makeMemoryStore([this] { return failed(); });
  int64_t ranks = spec.mesh.numRanks();
  // Loads modules eagerly: loading one at its first launch may wait for kernels
  // of NCCL that wait for this rank. The driver reads the variable once, when
  // it starts; a world is made before threads exist that may read variables.
  if (ranks > 1)
    ::setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  std::map<std::vector<std::vector<int64_t>>, int64_t> known;
  for (const CollectiveDesc &desc : spec.collectives) {
    checkCollective(desc, Mesh::sizeOf(desc.axes));
    std::vector<NcclLane> groups(ranks);
    std::vector<std::vector<int64_t>> members;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      groups[rank].ranks = spec.mesh.group(rank, desc.axes);
      groups[rank].color = groups[rank].ranks[0];
      for (const AxisRef &axis : desc.axes)
        groups[rank].name += (groups[rank].name.empty() ? "" : "+") +
                             spec.mesh.axes[axis.axis].name;
      members.push_back(groups[rank].ranks);
    }
    if (members[0].size() == 1) {
      collectiveLanes.push_back(-1);
      continue;
    }
    auto [it, added] =
        known.insert({members, static_cast<int64_t>(laneGroups.size())});
    if (added)
      laneGroups.push_back(groups);
    collectiveLanes.push_back(it->second);
  }
  std::map<int64_t, int64_t> laneOf; // from options.lanes
  for (size_t c = 0; c < spec.channels.size(); ++c) {
    int64_t lane = c < options.lanes.size() ? options.lanes[c]
                                            : -1 - static_cast<int64_t>(c);
    auto [it, added] =
        laneOf.insert({lane, static_cast<int64_t>(laneGroups.size())});
    channelLane.push_back(it->second);
    if (!added)
      continue;
    const ChannelDesc &channel = spec.channels[c];
    std::vector<NcclLane> pairs(ranks);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      pairs[rank].channels = true;
      pairs[rank].name =
          cat("s", channel.fromStage, "to", channel.toStage, ".c", c);
      if (spec.mesh.stageOf(rank) != channel.fromStage)
        continue;
      int64_t peer = spec.mesh.withStage(rank, channel.toStage);
      for (int64_t r : {rank, peer}) {
        pairs[r].ranks = {rank, peer};
        pairs[r].color = rank;
        pairs[r].name = pairs[rank].name;
      }
    }
    laneGroups.push_back(pairs);
  }
}

std::unique_ptr<Comm> NcclWorld::join(int64_t rank) {
  throw Error(KERF_INTERNAL, cat("rank ", rank, " has no GPU"));
}

std::unique_ptr<Comm> NcclWorld::joinOn(int64_t rank, Device &device) {
  return makeNcclComm(*this, rank, device);
}

void NcclWorld::fail(const Error &error) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!first)
      first = error;
  }
  aborted.store(true);
  if (options.job)
    options.job->fail(error);
}

bool NcclWorld::failed() const {
  return aborted.load() || (options.job && options.job->failed());
}

Error NcclWorld::failure() const {
  if (options.job && options.job->failed())
    return options.job->failure();
  std::lock_guard<std::mutex> lock(mutex);
  return first ? *first : Error(KERF_INTERNAL, "no failure");
}

std::vector<std::string> NcclWorld::lastCollectives() const {
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    const RankRow &row = rows[rank];
    if (!local && row.calls.load() == 0)
      continue; // of another process
    std::string line = cat("rank ", rank, ": step ", row.step.load(), ", ",
                           row.calls.load(), " calls enqueued, last ");
    int64_t last = row.last.load(), channel = row.lastChannel.load();
    if (last >= 0)
      line += describe(spec.collectives[last], last);
    else if (channel >= 0)
      line += cat("channel ", channel);
    else
      line += "none";
    lines.push_back(line + (row.enqueued.load() ? ", step enqueued" : ""));
  }
  return lines;
}

std::unique_ptr<World> kerf::rt::makeNcclWorld(const WorldSpec &spec,
                                               NcclWorldOptions options) {
  return std::make_unique<NcclWorld>(spec, std::move(options));
}

std::string kerf::rt::packageFingerprint(const Package &package) {
  std::string text = package.manifest.name;
  for (const FileEntry &file : package.manifest.files)
    text += " " + file.path + ":" + file.xxh3;
  return text;
}

// The job's own store, or under mpirun one that rank 0 serves now.
static std::shared_ptr<Store> storeOf(const std::shared_ptr<Job> &job) {
  if (Store *own = job->store())
    return std::shared_ptr<Store>(job, own);
  struct Served {
    std::unique_ptr<StoreServer> server;
    std::unique_ptr<Store> client;
  };
  auto served = std::make_shared<Served>();
  char place[272] = "";
  if (job->leads()) {
    served->server = std::make_unique<StoreServer>("", 0);
    char host[256] = "";
    ::gethostname(host, sizeof(host) - 1);
    std::snprintf(place, sizeof(place), "%s %d", host, served->server->port());
  }
  job->broadcast(place, sizeof(place));
  std::istringstream in(place);
  std::string host;
  int port = 0;
  in >> host >> port;
  served->client = connectStore(job->leads() ? "127.0.0.1" : host, port,
                                job->deadlineSeconds());
  return std::shared_ptr<Store>(served, served->client.get());
}

std::unique_ptr<World> kerf::rt::makeWorld(const Package &package,
                                           const WorldSpec &spec,
                                           std::shared_ptr<Job> job) {
  if (!package.manifest.cuda.used)
    return makeThreadWorld(spec);
  NcclWorldOptions options;
  if (job)
    options.store = storeOf(job);
  options.job = std::move(job);
  options.fingerprint = packageFingerprint(package);
  options.lanes = channelLanes(package.manifest);
  return makeNcclWorld(spec, std::move(options));
}
