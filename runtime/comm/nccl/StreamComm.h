//===- StreamComm.h - communication that is enqueued ------------*- C++ -*-===//
//
// A Comm whose calls put work on streams: start and wait are ordered by events,
// and only the end of a step is waited for by the host.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_NCCL_STREAMCOMM_H
#define KERF_RT_COMM_NCCL_STREAMCOMM_H

#include "../Comm.h"

namespace kerf::rt {

class StreamComm : public Comm {
public:
  /// `enqueued`: the calls of the step come now; else they are replayed and
  /// are counted as in the step before.
  virtual void beginStep(bool enqueued) = 0;
  /// The step that was enqueued does not run: it is not counted.
  virtual void abandonStep() = 0;
  /// Everything that was enqueued comes before what is put on the compute
  /// stream next.
  virtual void joinStreams() = 0;
  /// While the host waits for the step: looks for failures of the library, of
  /// other ranks, and for calls that take too long. Throws.
  virtual void poll() = 0;
  virtual void stepEnded() = 0;
  /// Every rank comes to the place called `name`, once, and gets what all say
  /// there, by rank. Throws if a rank does not come within `seconds`, or the
  /// deadline if that is more, and as soon as one has failed.
  virtual std::vector<std::string> gather(const std::string &name,
                                          const std::string &mine,
                                          double seconds = 0) = 0;
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_NCCL_STREAMCOMM_H
