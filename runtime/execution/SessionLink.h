//===- SessionLink.h - one session over the processes of a job --*- C++ -*-===//
//
// Rank 0 leads: only it is called by the user (run, gather a parameter, end),
// and the others wait for its requests between steps, however long that takes.
// After a step they send it their parts of the outputs and their counts, and it
// sends back outputs that all need: those of a few bytes, such as a loss.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_EXECUTION_SESSIONLINK_H
#define KERF_RUNTIME_EXECUTION_SESSIONLINK_H

#include "../base/Boxes.h"
#include "../comm/processes/Job.h"
#include "../package/Package.h"
#include "RankReport.h"

namespace kerf::rt {

class SessionLink {
public:
  enum Kind : int32_t { Step, GetParameter, SetParameter, Report, Share, End };
  struct Command {
    int32_t kind = End, flag = 0;
    int64_t index = 0;
  };
  /// Every rank has the outputs that are no larger than this.
  static constexpr int64_t smallBytes = 4096;

  SessionLink(std::shared_ptr<Job> job, std::shared_ptr<const Package> package);
  ~SessionLink();

  bool leads() const { return job->leads(); }
  int64_t rank() const { return job->rank(); }
  Job &getJob() const { return *job; }

  /// All have loaded the same package, or this throws.
  void agree();
  /// Rank 0: sends the next command to all others.
  void command(const Command &command);
  /// Other ranks: wait for the next command.
  Command next();

  /// All: puts together the global outputs on rank 0, from the parts that each
  /// has in its own copy.
  void gatherOutputs(const std::vector<char *> &outputs);
  /// All: small outputs from rank 0.
  void shareSmall(const std::vector<char *> &outputs);

  /// Rank 0: a rank's part of a parameter, in its local shape.
  void receivePart(int64_t rank, int64_t index, char *data);
  void sendPart(int64_t to, int64_t index, const char *data);

private:
  struct Part { ///< of an output
    int64_t output;
    BoxCopy copy; ///< between the global tensor and a packed box
    int64_t bytes;
    bool direct; ///< the box is one run of the global tensor
  };
  std::vector<Part> partsOf(int64_t rank) const;
  void transfer(Request &request, bool send, int64_t peer, uint32_t tag,
                void *data, int64_t bytes, const char *what);

  std::shared_ptr<Job> job;
  std::shared_ptr<const Package> package;
  uint32_t tags;
  Command outgoing, incoming;
  std::vector<Request> requests;
  std::vector<std::vector<Part>> outputParts; ///< by rank
  std::vector<char> staging;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_EXECUTION_SESSIONLINK_H
