//===- processes/ProcessWorld.h - ranks as processes ------------*- C++ -*-===//
//
// A World over the messages of a Job: this process has one of its ranks. Where
// thread ranks read each other's notes, processes are asked when a deadline has
// passed.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_PROCESSES_PROCESSWORLD_H
#define KERF_RT_COMM_PROCESSES_PROCESSWORLD_H

#include "../Comm.h"
#include "Job.h"

#include <map>

namespace kerf::rt {

class ProcessWorld : public World {
public:
  /// The mesh has as many ranks as the job, or fewer. All processes of the job
  /// make the same worlds in the same order.
  ProcessWorld(std::shared_ptr<Job> job, const WorldSpec &spec);

  ~ProcessWorld() override;

  std::unique_ptr<Comm> join(int64_t rank) override;
  void fail(const Error &error) override { job->fail(error); }
  bool failed() const override { return job->failed(); }
  Error failure() const override { return job->failure(); }
  std::vector<std::string> lastCollectives() const override;
  void release() override { released.store(true); }

  Job &getJob() const { return *job; }
  const WorldSpec &getSpec() const { return spec; }
  bool isReleased() const { return released.load(); }

  /// The members of a rank's group over some axes, and its first tag: three
  /// for each collective that may be under way (signature, data, result).
  struct Group {
    std::vector<int64_t> ranks;
    uint32_t tag = 0;
  };
  const Group &groupOf(int64_t rank, const AxisList &axes) const;
  /// The tag of a channel's headers; the tag of its data is one more.
  uint32_t channelTag(int64_t channel) const {
    return channelTags + 2 * static_cast<uint32_t>(channel);
  }

  /// Why this rank's wait does not end, after asking all others; nothing if it
  /// should keep waiting, for a rank that rests between steps or loads.
  std::optional<Error> explain(Job::Reason reason) const;

private:
  std::vector<std::string> table(const Notes &notes) const;

  std::shared_ptr<Job> job;
  WorldSpec spec;
  std::map<std::vector<int64_t>, Group> groups;
  uint32_t channelTags = 0;
  std::atomic<bool> released{false};
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_PROCESSES_PROCESSWORLD_H
