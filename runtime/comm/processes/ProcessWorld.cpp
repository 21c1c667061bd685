//===- processes/ProcessWorld.cpp - ranks as processes --------------------===//
#include "ProcessWorld.h"

#include "ProcessComm.h"

using namespace kerf::rt;

ProcessWorld::ProcessWorld(std::shared_ptr<Job> given, const WorldSpec &s)
    : job(std::move(given)), spec(s) {
  int64_t ranks = spec.mesh.numRanks();
  if (ranks > job->size())
    throw Error(KERF_INVALID_ARGUMENT,
                cat("a mesh of ", ranks, " ranks in a job of ", job->size(),
                    " processes"));
  // In the same order everywhere, so that tags agree.
  std::vector<Group *> order;
  for (const CollectiveDesc &desc : spec.collectives) {
    checkCollective(desc, Mesh::sizeOf(desc.axes));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<int64_t> members = spec.mesh.group(rank, desc.axes);
      auto [it, added] = groups.insert({members, Group{members, 0}});
      if (added)
        order.push_back(&it->second);
    }
  }
  for (Group *group : order)
    group->tag = job->allocateTags(3 * KERF_MAX_STARTED);
  channelTags =
      job->allocateTags(2 * static_cast<uint32_t>(spec.channels.size()));
  job->setTable([this](const Notes &notes) { return table(notes); });
}

ProcessWorld::~ProcessWorld() { job->setTable({}); }

std::unique_ptr<Comm> ProcessWorld::join(int64_t rank) {
  if (rank != job->rank())
    throw Error(KERF_INTERNAL,
                cat("rank ", rank, " is not in process ", job->rank()));
  return std::make_unique<ProcessComm>(*this, rank);
}

const ProcessWorld::Group &ProcessWorld::groupOf(int64_t rank,
                                                 const AxisList &axes) const {
  return groups.at(spec.mesh.group(rank, axes));
}

std::vector<std::string> ProcessWorld::table(const Notes &notes) const {
  std::vector<std::string> lines;
  for (int64_t rank = 0; rank < spec.mesh.numRanks(); ++rank) {
    ProcessNote note;
    std::string line = cat("rank ", rank, ": ");
    if (notes[rank]) {
      note = *notes[rank];
    } else if (auto last = job->lastKnown(rank)) {
      note = last->first;
      line += cat("gives no answer, ",
                  static_cast<int64_t>(last->second * 10) / 10.0, " s ago: ");
    } else {
      lines.push_back(line + "gives no answer");
      continue;
    }
    auto known = [](int64_t i, size_t count) {
      return i >= 0 && i < static_cast<int64_t>(count);
    };
    line += cat(note.collectives, " collectives begun, last ");
    int64_t last = note.lastCollective, wait = note.wait;
    line += known(last, spec.collectives.size())
                ? kerf::rt::describe(spec.collectives[last], last)
                : "none";
    bool inCollective = note.state == ProcessNote::Arriving ||
                        note.state == ProcessNote::Finishing;
    if (inCollective && known(wait, spec.collectives.size()))
      line += wait == last
                  ? ", waiting in it"
                  : cat(", waiting in ",
                        kerf::rt::describe(spec.collectives[wait], wait));
    else if (note.state == ProcessNote::Sending)
      line += cat(", waiting for channel ", wait, " to be received");
    else if (note.state == ProcessNote::Receiving)
      line += cat(", waiting to receive on channel ", wait);
    else if (note.state == ProcessNote::Ending)
      line += ", waiting for others to end the step";
    else if (note.phase == ProcessNote::Resting)
      line += ", between steps";
    else if (note.phase == ProcessNote::Loading)
      line += ", loading";
    else
      line += ", not communicating";
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> ProcessWorld::lastCollectives() const {
  return table(job->inquire(1));
}

std::optional<Error> ProcessWorld::explain(Job::Reason reason) const {
  Notes notes = job->inquire(reason == Job::Reason::Signal ? 0.2 : 2);
  int64_t ranks = spec.mesh.numRanks();
  int64_t waiter = job->rank();
  auto waitsFor = [&](int64_t rank) {
    bool waits = notes[rank] && notes[rank]->state != ProcessNote::Working;
    int64_t missing = waits ? notes[rank]->missing : -1;
    return missing < ranks ? missing : -1;
  };
  if (waitsFor(waiter) < 0) { // it no longer waits
    if (reason != Job::Reason::Signal)
      return std::nullopt;
    return Error(KERF_RANK_FAILURE,
                 cat("rank ", waiter, " was ended ", job->describe(reason)));
  }
  int64_t missing = waitsFor(waiter);
  for (int64_t i = 0; i < ranks && waitsFor(missing) >= 0; ++i) {
    waiter = missing;
    missing = waitsFor(waiter);
  }
  const std::optional<ProcessNote> &note = notes[missing];
  if (reason == Job::Reason::Deadline && note &&
      note->phase != ProcessNote::Stepping)
    return std::nullopt;
  int64_t gone = job->lostRank();
  if (reason == Job::Reason::PeerLost && missing != gone) {
    double since = 0;
    job->lostRank(&since);
    if (since < 2)
      return std::nullopt; // the others will come to wait for it
  }

  const ProcessNote &wait = *notes[waiter];
  const char *now = "", *past = "";
  std::string what, node;
  switch (wait.state) {
  case ProcessNote::Arriving:
  case ProcessNote::Finishing: {
    const CollectiveDesc &desc = spec.collectives[wait.wait];
    bool arriving = wait.state == ProcessNote::Arriving;
    now = arriving ? "arrive at " : "finish ";
    past = arriving ? "arrived at " : "finished ";
    node = desc.node;
    what = kerf::rt::describe(desc, wait.wait);
    break;
  }
  case ProcessNote::Sending:
  case ProcessNote::Receiving:
    now = wait.state == ProcessNote::Receiving ? "send" : "receive";
    past = wait.state == ProcessNote::Receiving ? "sent" : "received";
    node = spec.channels[wait.wait].node;
    what = cat(" number ", wait.number, " on channel ", wait.wait,
               node.empty() ? "" : " at " + node);
    break;
  default:
    now = "end its step";
    past = "had ended its step";
  }
  std::string message;
  if (reason != Job::Reason::PeerLost)
    message = cat("rank ", missing, " did not ", now, what, " ",
                  job->describe(reason));
  else if (missing == gone)
    message = cat("rank ", missing, " ended before it ", past, what);
  else
    message = cat("rank ", gone, " ended while rank ", waiter,
                  " waited for rank ", missing, " to ", now, what);
  Error error(KERF_RANK_FAILURE, message, node, table(notes));
  error.blamed = reason == Job::Reason::PeerLost ? gone : missing;
  return error;
}
