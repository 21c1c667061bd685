//===- OrderGroups.cpp - groups in an order in which they can run ---------===//
//
// Groups run in program order where their dependences allow it. Where a group
// reads one that ends behind it in the program (since later ops were merged
// into that), the reader is either delayed until that group ran in program
// order, or that group is moved up. Which of the two needs less memory depends
// on the model, so both orders are computed and compared. In the better one
// groups then wait for their first reader, if that lowers the peak.
//
//===----------------------------------------------------------------------===//
#include "kerf/Fusion/Groups.h"

#include "llvm/ADT/SmallVectorExtras.h"

#include <limits>
#include <queue>

using namespace mlir;
using namespace kerf;

SmallVector<int64_t>
kerf::orderByPriority(ArrayRef<SmallVector<int64_t>> successors,
                      llvm::function_ref<int64_t(int64_t)> priority) {
  SmallVector<int64_t> waiting(successors.size(), 0);
  for (const SmallVector<int64_t> &list : successors)
    for (int64_t next : list)
      ++waiting[next];
  using Entry = std::pair<int64_t, int64_t>; // priority, number
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  auto enqueue = [&](int64_t number) {
    ready.push({priority(number), number});
  };
  for (size_t number = 0; number < successors.size(); ++number)
    if (!waiting[number])
      enqueue(static_cast<int64_t>(number));
  SmallVector<int64_t> ordered;
  while (!ready.empty()) {
    int64_t number = ready.top().second;
    ready.pop();
    ordered.push_back(number);
    for (int64_t next : successors[number])
      if (--waiting[next] == 0)
        enqueue(next);
  }
  return ordered;
}

namespace {
class GroupOrder {
public:
  GroupOrder(const FusionGroups &map, const FusionQuestions &questions)
      : map(map), questions(questions) {
    findProducers();
    findReads();
    findLeft();
    chainCommunication();
  }

  /// The order with the smallest peak of live bytes; where two have the same,
  /// since it lies elsewhere, the one that holds less on average.
  SmallVector<int64_t> order() {
    SmallVector<int64_t> best;
    std::optional<Held> least; // by the best, once it is asked for
    auto consider = [&](SmallVector<int64_t> next) {
      if (best.empty()) {
        best = std::move(next);
        return;
      }
      if (next == best) // as in a chain
        return;
      if (!least)
        least = heldBytes(best);
      if (Held held = heldBytes(next); held < *least) {
        best = std::move(next);
        least = held;
      }
    };
    for (bool late : {false, true}) {
      if (late && !placeGradients())
        break;
      SmallVector<int64_t> inTurn = orderByPosition();
      SmallVector<int64_t> early = orderByDemand();
      // By demand groups of a cycle have their turn, too: it must be noticed.
      if (inTurn.size() < early.size())
        return inTurn;
      // Waiting is for a lower peak alone: it moves groups from their turn.
      for (SmallVector<int64_t> *next : {&inTurn, &early}) {
        SmallVector<int64_t> waiting = orderByReaders(*next);
        bool lowers = waiting != *next &&
                      heldBytes(waiting).first < heldBytes(*next).first;
        consider(std::move(*next));
        if (lowers)
          consider(std::move(waiting));
      }
    }
    return best;
  }

private:
  /// Keeps the starts and waits of collectives in the planned order, so that no
  /// more collectives are under way than planned. A pair whose order fusion
  /// reversed is left out.
  void chainCommunication() {
    SmallVector<std::pair<int64_t, int64_t>> calls;
    for (auto [id, group] : llvm::enumerate(map.groups))
      if (!group.ops.empty() && questions.isCommunication(group.ops.front()))
        calls.push_back({positionOf(id), id});
    llvm::sort(calls);
    for (size_t i = 1; i < calls.size(); ++i)
      if (!dependsOn(calls[i - 1].second, calls[i].second))
        producersOf[calls[i].second].push_back(calls[i - 1].second);
  }

  /// Whether a group must run behind another.
  bool dependsOn(int64_t later, int64_t earlier) const {
    DenseSet<int64_t> seen = {later};
    SmallVector<int64_t> stack = {later};
    while (!stack.empty())
      for (int64_t producer : producersOf[stack.pop_back_val()]) {
        if (producer == earlier)
          return true;
        if (seen.insert(producer).second)
          stack.push_back(producer);
      }
    return false;
  }

  /// The position of a group is that of its last op. A gradient's product does
  /// not wait for a cast that belongs to the update, unless it is placed there.
  int64_t positionOf(int64_t group) const {
    if (auto placed = placeOf.find(group); placed != placeOf.end())
      return placed->second;
    ArrayRef<Operation *> ops = map.groups[group].ops;
    if (!map.groups[group].isKernel && !questions.isOfUpdate(ops.front()))
      while (questions.isOfUpdate(ops.back()))
        ops = ops.drop_back();
    return map.position.lookup(ops.back());
  }

  /// Places products that only the update reads, and no other device, in front
  /// of that: a gradient may be larger than all that it is made of. Whether
  /// there are any.
  bool placeGradients() {
    for (auto [id, group] : llvm::enumerate(map.groups)) {
      if (group.isKernel || group.ops.empty() ||
          questions.isOfUpdate(group.ops.front()) ||
          questions.roleOf(group.ops.front()) == FusionQuestions::Role::None)
        continue;
      SmallVector<OpOperand *> reads = questions.readsOf(group.ops.back());
      if (reads.empty() || !llvm::all_of(reads, [&](OpOperand *read) {
            return questions.isOfUpdate(read->getOwner()) &&
                   !questions.isApart(*read);
          }))
        continue;
      int64_t first = std::numeric_limits<int64_t>::max();
      for (OpOperand *read : reads)
        first = std::min(first, map.position.lookup(read->getOwner()));
      placeOf[static_cast<int64_t>(id)] = first;
    }
    return !placeOf.empty();
  }

  /// Groups by the place of their last op in the program; a group that is read
  /// is computed immediately before its first reader.
  SmallVector<int64_t> orderByDemand() const {
    SmallVector<std::pair<int64_t, int64_t>> byPosition;
    for (auto [id, group] : llvm::enumerate(map.groups))
      if (!group.ops.empty())
        byPosition.push_back({positionOf(id), id});
    llvm::sort(byPosition);
    SmallVector<int64_t> ordered;
    DenseSet<int64_t> open, placed;
    for (auto [position, id] : byPosition) {
      SmallVector<int64_t> stack = {id};
      while (!stack.empty()) {
        int64_t top = stack.back();
        if (!placed.contains(top) && open.insert(top).second) {
          // Pushed in reverse, so that the first producer is on top of the
          // stack.
          for (int64_t producer : llvm::reverse(producersOf[top]))
            if (!placed.contains(producer))
              stack.push_back(producer);
          continue;
        }
        stack.pop_back();
        if (placed.insert(top).second)
          ordered.push_back(top);
      }
    }
    return ordered;
  }

  /// Groups by the place of their last op in the program; a group waits until
  /// all that it reads have run.
  SmallVector<int64_t> orderByPosition() const {
    SmallVector<SmallVector<int64_t>> successors(map.groups.size());
    for (auto [id, group] : llvm::enumerate(map.groups))
      if (!group.ops.empty())
        for (int64_t producer : producersOf[id])
          successors[producer].push_back(id);
    SmallVector<int64_t> ordered = orderByPriority(successors, [&](int64_t id) {
      return map.groups[id].ops.empty() ? -1 : positionOf(id);
    });
    llvm::erase_if(ordered,
                   [&](int64_t id) { return map.groups[id].ops.empty(); });
    return ordered;
  }

  /// A value, or a copy of one, by its number (FusionQuestions::Copy).
  using Memory = std::pair<Value, int64_t>;
  static constexpr int64_t kItself = -1;

  /// What an operand reads of others: a copy (else kItself), and the value that
  /// steps compute, if there is one.
  struct Read {
    int64_t copy;
    Value value;
  };

  void findReads() {
    readsOf.resize(map.groups.size());
    for (auto [id, group] : llvm::enumerate(map.groups))
      for (Operation *op : group.ops)
        for (OpOperand &operand : op->getOpOperands()) {
          FusionQuestions::Copy copy = questions.copyReadBy(operand);
          if (copy.number >= 0)
            copyBytes[copy.number] = copy.sizeBytes;
          Value memory = questions.memoryOf(operand.get());
          Operation *def = memory.getDefiningOp();
          int64_t maker = map.find(def);
          bool isComputed = maker >= 0 &&
                            !map.computes(static_cast<int64_t>(id), def) &&
                            !map.groups[maker].isAtLoad;
          if (copy.number >= 0 || isComputed)
            readsOf[id].push_back({copy.number, isComputed ? memory : Value()});
        }
  }

  /// Calls `visit(id, memory)` with what each group reads of others that steps
  /// compute, in this order; with some of it several times. A value that is
  /// copied is read where the first reader of the copy runs.
  template <typename F>
  void forEachRead(ArrayRef<int64_t> ordered, F visit) const {
    DenseSet<int64_t> copies;
    for (int64_t id : ordered)
      for (const Read &read : readsOf[id]) {
        bool isMade = read.copy == kItself || copies.insert(read.copy).second;
        if (read.copy != kItself)
          visit(id, Memory(Value(), read.copy));
        if (isMade && read.value)
          visit(id, Memory(read.value, kItself));
      }
  }

  int64_t bytesOf(Memory memory) const {
    return memory.second == kItself ? questions.bytesOf(memory.first)
                                    : copyBytes.lookup(memory.second);
  }

  /// Finds the values that what no group is reads: they are held until the end.
  void findLeft() {
    for (const FusionGroup &group : map.groups)
      for (Operation *op : group.ops)
        for (OpOperand *read : questions.readsOf(op))
          if (map.groupsOf(read->getOwner()).empty())
            left.insert(questions.memoryOf(read->get()));
  }

  bool isLeft(Memory memory) const {
    return memory.second == kItself && left.contains(memory.first);
  }

  /// Whether it is communication, or something of it is sent elsewhere as soon
  /// as it is there.
  bool isSent(const FusionGroup &group) const {
    auto isSentFor = [&](OpOperand *read) {
      if (!questions.isApart(*read))
        return false;
      FusionQuestions::Copy copy = questions.copyReadBy(*read);
      return copy.number < 0 || copy.isMadeAtOnce ||
             questions.isOfUpdate(read->getOwner());
    };
    return questions.isCommunication(group.ops.front()) ||
           llvm::any_of(group.ops, [&](Operation *op) {
             return llvm::any_of(questions.readsOf(op), isSentFor);
           });
  }

  /// The order `ordered`, except that a group which gives more bytes than it
  /// frees runs immediately before its first reader; of several that wait for
  /// one reader that which gives most runs last. No reader is delayed.
  SmallVector<int64_t> orderByReaders(ArrayRef<int64_t> ordered) const {
    std::vector<SmallVector<int64_t>> readersOf(map.groups.size());
    DenseMap<Memory, SmallVector<int64_t>> readers;
    std::vector<SmallVector<Memory>> readBy(map.groups.size());
    for (int64_t id : ordered)
      for (int64_t producer : producersOf[id])
        readersOf[producer].push_back(id);
    forEachRead(ordered, [&](int64_t id, Memory memory) {
      readers[memory].push_back(id);
      readBy[id].push_back(memory);
    });
    SmallVector<int64_t> result(ordered);
    std::vector<int64_t> turnOf(map.groups.size());
    // What waits, for whom, and the bytes that it gives.
    DenseMap<int64_t, std::pair<int64_t, int64_t>> waiting;
    for (auto [turn, id] : llvm::enumerate(result))
      turnOf[id] = static_cast<int64_t>(turn);
    for (int64_t id : llvm::reverse(ordered)) {
      const FusionGroup &group = map.groups[id];
      if (readersOf[id].empty() || group.isAtLoad || isSent(group))
        continue;
      int64_t first = std::numeric_limits<int64_t>::max();
      for (int64_t reader : readersOf[id])
        first = std::min(first, turnOf[reader]);
      int64_t bytes = 0;
      for (Operation *op : group.ops)
        for (Value value : op->getResults())
          if (Memory own(value, kItself); readers.contains(own) || isLeft(own))
            bytes += bytesOf(own);
      // What would be held until then for this group alone.
      DenseSet<Memory> seen;
      for (Memory memory : readBy[id])
        if (seen.insert(memory).second && !isLeft(memory) &&
            llvm::none_of(readers[memory], [&](int64_t reader) {
              return reader != id && turnOf[reader] >= first;
            }))
          bytes -= bytesOf(memory);
      if (bytes <= 0)
        continue;
      waiting[id] = {result[first], bytes};
      int64_t &turn = turnOf[id];
      while (turn + 1 < first) {
        auto other = waiting.find(result[first - 1]);
        if (other == waiting.end() ||
            other->second.first != waiting[id].first ||
            other->second.second < bytes)
          break;
        --first;
      }
      for (; turn + 1 < first; ++turn) {
        std::swap(result[turn], result[turn + 1]);
        turnOf[result[turn]] = turn;
      }
    }
    return result;
  }

  /// The largest sum of bytes of values that are live at the same time, of
  /// those that steps compute, and the sum of these over time.
  using Held = std::pair<int64_t, double>;
  Held heldBytes(ArrayRef<int64_t> ordered) const {
    DenseMap<int64_t, int64_t> timeOf;
    for (auto [time, id] : llvm::enumerate(ordered))
      timeOf[id] = static_cast<int64_t>(time);
    // For each value, when its last reader runs.
    DenseMap<Memory, int64_t> last;
    std::vector<SmallVector<Memory>> readBy(map.groups.size());
    forEachRead(ordered, [&](int64_t id, Memory memory) {
      last[memory] = timeOf.lookup(id);
      readBy[id].push_back(memory);
    });
    for (int64_t id : ordered)
      for (Operation *op : map.groups[id].ops)
        for (Value result : op->getResults())
          if (Memory own(result, kItself);
              !map.groups[id].isAtLoad && isLeft(own))
            last[own] = std::numeric_limits<int64_t>::max();
    int64_t now = 0, max = 0;
    double total = 0;
    DenseSet<Memory> live;
    for (auto [time, id] : llvm::enumerate(ordered)) {
      SmallVector<int64_t> freed;
      for (Memory memory : readBy[id])
        if (memory.second != kItself && live.insert(memory).second)
          now += bytesOf(memory);
      for (Memory memory : readBy[id])
        if (last.lookup(memory) == static_cast<int64_t>(time) &&
            live.erase(memory))
          freed.push_back(bytesOf(memory));
      int64_t after = now - llvm::sum_of(freed);
      for (Operation *op : map.groups[id].ops)
        for (Value result : op->getResults())
          if (Memory own(result, kItself);
              last.contains(own) && live.insert(own).second) {
            int64_t bytes = bytesOf(own);
            after += bytes;
            // Kernels write over what nobody else reads.
            auto *over = map.groups[id].isKernel ? llvm::find(freed, bytes)
                                                 : freed.end();
            if (over == freed.end())
              now += bytes;
            else
              freed.erase(over);
          }
      max = std::max(max, now);
      total += static_cast<double>(now);
      now = after;
    }
    return {max, total};
  }

  /// For each group the groups that it reads, by their place in the program.
  void findProducers() {
    producersOf.resize(map.groups.size());
    for (auto [id, group] : llvm::enumerate(map.groups)) {
      SmallVector<std::pair<int64_t, int64_t>> producers;
      for (Operation *op : group.ops)
        for (OpOperand &operand : op->getOpOperands()) {
          Operation *def = questions.makerOf(operand);
          int64_t maker = map.find(def);
          if (maker >= 0 && !map.computes(static_cast<int64_t>(id), def))
            producers.push_back({positionOf(maker), maker});
        }
      llvm::sort(producers);
      producers.erase(llvm::unique(producers), producers.end());
      producersOf[id] = llvm::map_to_vector(
          producers, [](auto entry) { return entry.second; });
    }
  }

  const FusionGroups &map;
  const FusionQuestions &questions;
  std::vector<SmallVector<int64_t>> producersOf;
  std::vector<SmallVector<Read>> readsOf; ///< by group
  DenseMap<int64_t, int64_t> copyBytes;   ///< by number
  DenseSet<Value> left;                   ///< held until the end
  DenseMap<int64_t, int64_t> placeOf; ///< of gradients in front of the update
};
} // namespace

SmallVector<int64_t> kerf::orderOf(const FusionGroups &map,
                                   const FusionQuestions &questions) {
  return GroupOrder(map, questions).order();
}
