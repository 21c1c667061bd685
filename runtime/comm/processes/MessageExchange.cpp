//===- processes/MessageExchange.cpp - a collective in messages -----------===//
//
// The constructor prepares everything that depends on shapes; a call only posts
// and tests messages.
//
//===----------------------------------------------------------------------===//
#include "MessageExchange.h"

#include <algorithm>
#include <cstring>

using namespace kerf::rt;

// Of an all_reduce: long enough for bandwidth, short enough to overlap.
static constexpr int64_t segmentBytes = 1 << 20;

std::vector<char> StagingPool::take(size_t bytes) {
  // The smallest that is large enough, else the largest grows.
  auto better = [&](const std::vector<char> &a, const std::vector<char> &b) {
    bool fitsA = a.size() >= bytes, fitsB = b.size() >= bytes;
    return fitsA != fitsB ? fitsA
           : fitsA        ? a.size() < b.size()
                          : a.size() > b.size();
  };
  std::vector<char> buffer;
  auto it = std::min_element(free.begin(), free.end(), better);
  if (it != free.end()) {
    buffer = std::move(*it);
    free.erase(it);
  }
  if (buffer.size() < bytes)
    buffer.resize(bytes);
  return buffer;
}

void StagingPool::give(std::vector<char> buffer) {
  if (!buffer.empty())
    free.push_back(std::move(buffer));
}

MessageExchange::MessageExchange(const CollectiveDesc &d,
                                 std::vector<int64_t> ranks, int64_t pos,
                                 Transport &transport, StagingPool &staging)
    : desc(d), members(std::move(ranks)), position(pos),
      size(static_cast<int64_t>(members.size())),
      elementBytes(dtypeSize(desc.dtype)),
      bytes(numBytes(desc.srcShape, desc.dtype)),
      dstBytes(numBytes(desc.dstShape, desc.dtype)), link(transport),
      pool(staging), boxes(makePieces(desc, size, position)), theirs(size),
      signatureSends(size), signatureReceives(size), arrived(size), srcs(size) {
  if (desc.reduces())
    reduce = reduceFunction(desc.dtype, desc.reduction);
  padded = boxes.padded;
  Shape zero(desc.srcShape.size(), 0);
  auto stage = [&](Message &message) {
    message.offset = static_cast<int64_t>(stagingBytes);
    stagingBytes += static_cast<size_t>(ceilDiv(message.bytes, 64) * 64);
  };
  auto sendBox = [&](int64_t to, const Piece &piece) {
    Message m;
    m.peer = to;
    m.bytes = numBytes(piece.sizes, desc.dtype);
    int64_t offset = 0;
    m.direct =
        isContiguousBox(desc.srcShape, piece.srcStarts, piece.sizes, offset);
    m.copy = makeBoxCopy(desc.srcShape, piece.srcStarts, piece.sizes, zero,
                         piece.sizes, elementBytes);
    m.offset = offset * elementBytes;
    if (!m.direct)
      stage(m);
    sends.push_back(std::move(m));
  };
  switch (desc.kind) {
  case CollectiveKind::AllReduce: {
    ByteRange own = reduceShare(bytes, size, position);
    for (int64_t at = own.begin; at < own.end; at += segmentBytes)
      segments.push_back({at, std::min(at + segmentBytes, own.end), false});
    auto add = [&](std::vector<Message> &list, int64_t peer, int64_t begin,
                   int64_t end) -> Message & {
      list.emplace_back();
      list.back().peer = peer;
      list.back().direct = true;
      list.back().offset = begin;
      list.back().bytes = end - begin;
      return list.back();
    };
    for (int64_t p = 0; p < size; ++p) {
      if (p == position)
        continue;
      ByteRange other = reduceShare(bytes, size, p);
      for (int64_t at = other.begin; at < other.end; at += segmentBytes) {
        int64_t end = std::min(at + segmentBytes, other.end);
        add(sends, p, at, end);
        add(resultReceives, p, at, end);
      }
      for (const Segment &s : segments) {
        Message &m = add(receives, p, s.begin, s.end);
        m.direct = false;
        stage(m);
        add(resultSends, p, s.begin, s.end);
      }
    }
    moved = 0;
    for (auto *list : {&receives, &resultReceives})
      for (const Message &m : *list)
        moved += m.bytes;
    resultsPosted.resize(static_cast<size_t>(size));
    return;
  }
  case CollectiveKind::ReduceScatter:
    for (int64_t p = 0; p < size; ++p) {
      Pieces theirBoxes = makePieces(desc, size, p);
      if (p != position && !theirBoxes.list.empty())
        sendBox(p, theirBoxes.list[0]);
    }
    // One slot per member, this one included, and one for the sum.
    if (!boxes.list.empty()) {
      const Piece &piece = boxes.list[0];
      for (int64_t p = 0; p <= size; ++p) {
        Message m;
        m.peer = p;
        m.bytes = numBytes(piece.sizes, desc.dtype);
        stage(m);
        receives.push_back(std::move(m));
      }
      ownCopy = makeBoxCopy(desc.srcShape, piece.srcStarts, piece.sizes, zero,
                            piece.sizes, elementBytes);
      receives.back().copy =
          makeBoxCopy(piece.sizes, zero, desc.dstShape, piece.dstStarts,
                      piece.sizes, elementBytes);
    }
    break;
  default:
    for (int64_t p = 0; p < size; ++p)
      if (p != position)
        for (const Piece &piece : makePieces(desc, size, p).list)
          if (piece.from == position)
            sendBox(p, piece);
    for (const Piece &piece : boxes.list) {
      if (piece.from == position) {
        hasOwnCopy = true;
        ownCopy = makeBoxCopy(desc.srcShape, piece.srcStarts, desc.dstShape,
                              piece.dstStarts, piece.sizes, elementBytes);
        continue;
      }
      Message m;
      m.peer = piece.from;
      m.bytes = numBytes(piece.sizes, desc.dtype);
      int64_t offset = 0;
      m.direct =
          isContiguousBox(desc.dstShape, piece.dstStarts, piece.sizes, offset);
      m.copy = makeBoxCopy(piece.sizes, zero, desc.dstShape, piece.dstStarts,
                           piece.sizes, elementBytes);
      m.offset = offset * elementBytes;
      if (!m.direct)
        stage(m);
      receives.push_back(std::move(m));
    }
  }
  for (const Message &m : receives)
    if (m.peer < size && m.peer != position)
      moved += m.bytes;
}

MessageExchange::~MessageExchange() { cancel(); }

void MessageExchange::cancel() {
  for (auto *list : {&signatureSends, &signatureReceives})
    for (Request &request : *list)
      link.cancel(request);
  for (auto *list : {&sends, &receives, &resultSends, &resultReceives})
    for (Message &message : *list)
      link.cancel(message.request);
  current = Idle;
}

void MessageExchange::start(const Signature &signature, uint32_t firstTag,
                            uint32_t step, const void *source,
                            void *destination) {
  mine = signature;
  tag = firstTag;
  tagStep = step;
  src = static_cast<const char *>(source);
  dst = static_cast<char *>(destination);
  theirs[position] = mine;
  for (int64_t p = 0; p < size; ++p) {
    arrived[p] = p == position;
    if (p == position)
      continue;
    link.receive(signatureReceives[p], members[p], tag, &theirs[p],
                 sizeof(Signature));
    link.send(signatureSends[p], members[p], tag, &mine, sizeof(mine));
  }
  current = Arriving;
}

MessageExchange::State MessageExchange::advance() {
  if (current == Arriving) {
    bool all = true;
    for (int64_t p = 0; p < size; ++p) {
      if (!arrived[p])
        arrived[p] = link.test(signatureReceives[p]);
      all = all && arrived[p];
    }
    if (all)
      current = Agreed;
  }
  if (current == Moving) {
    bool over = desc.kind == CollectiveKind::AllReduce       ? advanceReduce()
                : desc.kind == CollectiveKind::ReduceScatter ? advanceSums()
                                                             : advanceBoxes();
    for (Request &request : signatureSends)
      over = link.test(request) && over;
    if (over) {
      pool.give(std::move(staging));
      staging = {};
      current = Done;
    }
  }
  return current;
}

void MessageExchange::move() {
  current = Moving;
  if (stagingBytes != 0 || (src == dst && !sends.empty()))
    staging = pool.take(stagingBytes + static_cast<size_t>(bytes) *
                                           (src == dst && !desc.reduces()));
  for (auto *list : {&sends, &receives, &resultSends, &resultReceives})
    for (Message &message : *list)
      message.done = false;
  if (desc.kind == CollectiveKind::AllReduce)
    moveReduce();
  else if (desc.kind == CollectiveKind::ReduceScatter)
    moveSums();
  else
    moveBoxes();
}

void MessageExchange::post(Message &m, bool send, uint32_t messageTag,
                           char *base) {
  if (send)
    link.send(m.request, members[m.peer], messageTag, base + m.offset,
              static_cast<size_t>(m.bytes));
  else
    link.receive(m.request, members[m.peer], messageTag, base + m.offset,
                 static_cast<size_t>(m.bytes));
}

bool MessageExchange::testAll(std::vector<Message> &messages) {
  bool all = true;
  for (Message &m : messages) {
    m.done = m.done || link.test(m.request);
    all = all && m.done;
  }
  return all;
}

void MessageExchange::moveBoxes() {
  // In place, a message must not overwrite data that is still to be sent: the
  // data is sent from a copy.
  char *from = const_cast<char *>(src);
  bool inPlace = src == dst;
  if (inPlace && !sends.empty()) {
    from = staging.data() + stagingBytes;
    std::memcpy(from, src, static_cast<size_t>(bytes));
  }
  for (Message &m : sends)
    if (!m.direct)
      m.copy.run(from, staging.data() + m.offset);
  if (boxes.zeroFirst)
    std::memset(dst, 0, static_cast<size_t>(dstBytes));
  if (hasOwnCopy && !inPlace)
    ownCopy.run(src, dst);
  for (Message &m : receives)
    post(m, false, tag + tagStep, m.direct ? dst : staging.data());
  for (Message &m : sends)
    post(m, true, tag + tagStep, m.direct ? from : staging.data());
}

bool MessageExchange::advanceBoxes() {
  bool all = true;
  for (Message &m : receives) {
    if (!m.done && link.test(m.request)) {
      m.done = true;
      if (!m.direct)
        m.copy.run(staging.data() + m.offset, dst);
    }
    all = all && m.done;
  }
  return testAll(sends) && all;
}

void MessageExchange::moveSums() {
  if (boxes.zeroFirst)
    std::memset(dst, 0, static_cast<size_t>(dstBytes));
  for (Message &m : receives) {
    if (m.peer == position)
      ownCopy.run(src, staging.data() + m.offset);
    if (m.peer == position || m.peer == size)
      m.done = true;
    else
      post(m, false, tag + tagStep, staging.data());
  }
  for (Message &m : sends) {
    if (!m.direct)
      m.copy.run(src, staging.data() + m.offset);
    post(m, true, tag + tagStep,
         m.direct ? const_cast<char *>(src) : staging.data());
  }
}

bool MessageExchange::advanceSums() {
  if (!testAll(receives) || !testAll(sends))
    return false;
  if (receives.empty())
    return true;
  for (int64_t p = 0; p < size; ++p)
    srcs[p] = staging.data() + receives[p].offset;
  const Message &sum = receives.back();
  void *to = staging.data() + sum.offset;
  reduce(srcs.data(), size, &to, 1, sum.bytes / elementBytes);
  sum.copy.run(to, dst);
  return true;
}

void MessageExchange::moveReduce() {
  for (Segment &segment : segments)
    segment.summed = false;
  std::fill(resultsPosted.begin(), resultsPosted.end(), false);
  for (Message &m : receives)
    post(m, false, tag + tagStep, staging.data());
  for (Message &m : sends)
    post(m, true, tag + tagStep, const_cast<char *>(src));
}

bool MessageExchange::advanceReduce() {
  bool all = testAll(sends) && testAll(receives);
  // A result may overwrite data that has been sent.
  for (int64_t p = 0; p < size; ++p) {
    if (p == position || resultsPosted[p])
      continue;
    bool sent = src != dst ||
                std::all_of(sends.begin(), sends.end(), [&](const Message &m) {
                  return m.peer != p || m.done;
                });
    if (!sent) {
      all = false;
      continue;
    }
    resultsPosted[p] = true;
    for (Message &m : resultReceives)
      if (m.peer == p)
        post(m, false, tag + 2 * tagStep, dst);
  }
  for (size_t s = 0; s < segments.size(); ++s) {
    Segment &segment = segments[s];
    if (segment.summed)
      continue;
    // Receives and result sends are by position, then segment.
    bool here = true;
    size_t slot = 0;
    for (int64_t p = 0; p < size; ++p) {
      if (p == position) {
        srcs[p] = src + segment.begin;
        continue;
      }
      Message &m = receives[slot++ * segments.size() + s];
      m.done = m.done || link.test(m.request);
      here = here && m.done;
      srcs[p] = staging.data() + m.offset;
    }
    if (!here) {
      all = false;
      continue;
    }
    void *to = dst + segment.begin;
    reduce(srcs.data(), size, &to, 1,
           (segment.end - segment.begin) / elementBytes);
    segment.summed = true;
    for (size_t i = 0; i < slot; ++i)
      post(resultSends[i * segments.size() + s], true, tag + 2 * tagStep, dst);
  }
  for (const Segment &segment : segments)
    if (!segment.summed)
      return false;
  bool results = true;
  for (int64_t p = 0; p < size; ++p)
    results = results && (p == position || resultsPosted[p]);
  return results && testAll(resultReceives) && testAll(resultSends) && all;
}

int64_t MessageExchange::missing() const {
  if (current == Arriving) {
    for (int64_t p = 0; p < size; ++p)
      if (!arrived[p])
        return p;
    return -1;
  }
  for (auto *list : {&receives, &resultReceives, &sends, &resultSends})
    for (const Message &m : *list)
      if (m.peer != position && m.peer < size && !m.done)
        return m.peer;
  return -1;
}
