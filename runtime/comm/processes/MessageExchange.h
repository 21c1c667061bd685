//===- processes/MessageExchange.h - a collective in messages ---*- C++ -*-===//
//
// Members first exchange the signatures of their calls; when all have arrived
// and agree, data is sent directly to its destination. So nothing is written
// before it is known to fit, and no sender runs ahead of its receivers.
//
// all_reduce: position i owns the i-th range. It receives that range from every
// other member, sums in the order of positions (with the same loops as thread
// ranks, hence the same bits), and sends the sum to all, in segments, so that
// sums and messages overlap. In place, a range is received once it has been
// sent.
// reduce_scatter: each position gets its box of all others and sums.
// Everything else: one message per pair of positions that have one.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_PROCESSES_MESSAGEEXCHANGE_H
#define KERF_RT_COMM_PROCESSES_MESSAGEEXCHANGE_H

#include "../../base/Boxes.h"
#include "../Pieces.h"
#include "../Transport.h"
#include "../threads/Reduce.h"

#include <memory>

namespace kerf::rt {

/// The signature of a call; all members of a group must send the same.
struct Signature {
  int64_t index = -1;    ///< entry of the manifest
  uint64_t sequence = 0; ///< number of the call in this group
  uint64_t hash = 0;     ///< of all calls of this member in this group so far
  int32_t kind = 0, reduction = 0, dtype = 0, reserved = 0;
  int64_t count = 0; ///< elements of src
};

/// Memory for messages that cannot be received in place; kept from step to
/// step.
class StagingPool {
public:
  std::vector<char> take(size_t bytes);
  void give(std::vector<char> buffer);

private:
  std::vector<std::vector<char>> free;
};

class MessageExchange {
public:
  /// `members`: ranks by position.
  MessageExchange(const CollectiveDesc &desc, std::vector<int64_t> members,
                  int64_t position, Transport &transport, StagingPool &pool);
  ~MessageExchange();

  /// Posts the signature. `tag`: of signatures; data and results have tag +
  /// `tagStep` and + 2 `tagStep`.
  void start(const Signature &mine, uint32_t tag, uint32_t tagStep,
             const void *src, void *dst);
  enum State { Idle, Arriving, Agreed, Moving, Done };
  /// Advances without waiting. Stops at Agreed, where the caller compares
  /// signatures and calls move().
  State advance();
  void move();
  State state() const { return current; }
  void finish() { current = Idle; }
  /// Cancels all messages under way.
  void cancel();

  const std::vector<Signature> &signatures() const { return theirs; }
  /// The lowest position that has not arrived or whose data is missing; -1:
  /// none.
  int64_t missing() const;
  /// Bytes that came from other members, and planned padding, of one call.
  int64_t movedBytes() const { return moved; }
  int64_t paddedBytes() const { return padded; }

private:
  /// One message to or from a position.
  struct Message {
    int64_t peer;
    Request request;
    BoxCopy copy; ///< between src or dst and `staging`; direct if contiguous
    bool direct = false;
    int64_t offset = 0, bytes = 0; ///< direct: in src or dst; else in staging
    bool done = false;
  };
  void moveBoxes();
  bool advanceBoxes();
  void moveSums();
  bool advanceSums();
  void moveReduce();
  bool advanceReduce();
  bool testAll(std::vector<Message> &messages);
  void post(Message &message, bool send, uint32_t tag, char *base);

  const CollectiveDesc &desc;
  std::vector<int64_t> members;
  int64_t position, size, elementBytes, bytes, dstBytes;
  Transport &link;
  StagingPool &pool;
  Pieces boxes;
  BoxCopy ownCopy;
  bool hasOwnCopy = false;
  ReduceFn reduce = nullptr;
  std::vector<Message> sends, receives;
  // all_reduce: results; by segment of the own range: sums that are still open.
  std::vector<Message> resultSends, resultReceives;
  struct Segment {
    int64_t begin, end;
    bool summed;
  };
  std::vector<Segment> segments;
  std::vector<bool> resultsPosted; ///< by position

  State current = Idle;
  uint32_t tag = 0, tagStep = 0;
  const char *src = nullptr;
  char *dst = nullptr;
  std::vector<char> staging;
  size_t stagingBytes = 0;
  Signature mine;
  std::vector<Signature> theirs;
  std::vector<Request> signatureSends, signatureReceives;
  std::vector<bool> arrived;
  int64_t moved = 0, padded = 0;
  std::vector<const void *> srcs;
};

} // namespace kerf::rt

#endif // KERF_RT_COMM_PROCESSES_MESSAGEEXCHANGE_H
