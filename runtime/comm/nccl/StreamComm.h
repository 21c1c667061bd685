//===- StreamComm.h - communication that is enqueued ------------*- C++ -*-===//
//
// A Comm whose calls enqueue work on streams: start and wait are ordered by
// events, and the host waits only at the end of a step.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_NCCL_STREAMCOMM_H
#define KERF_RT_COMM_NCCL_STREAMCOMM_H

#include "../Comm.h"

namespace kerf::rt {

class StreamComm : public Comm {
public:
  /// `enqueued`: this step's calls follow; else they are replayed, and count as
  /// in the step before.
  virtual void beginStep(bool enqueued) = 0;
  /// The enqueued step will not run: it does not count.
  virtual void abandonStep() = 0;
  /// Everything that was enqueued comes before what is put on the compute
  /// stream next.
  virtual void joinStreams() = 0;
  /// While the host waits for the step: looks for failures of the library, of
  /// other ranks, and for calls that take too long. Throws.
  virtual void poll() = 0;
  virtual void stepEnded() = 0;
  /// A barrier called `name`, used once: every rank contributes a text and gets
  /// those of all ranks, by rank. Throws if a rank does not come within
  /// `seconds`, or the deadline if that is longer, and as soon as one has
  /// failed.
  virtual std::vector<std::string> gather(const std::string &name,
                                          const std::string &mine,
                                          double seconds = 0) = 0;
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_NCCL_STREAMCOMM_H
