//===- FunctionOrder.cpp - the groups of a function, in order -------------===//
#include "FunctionOrder.h"
#include "../Model/Terminator.h"

#include "kerf/Fusion/Casts.h"
#include "kerf/Fusion/ComputedTwice.h"
#include "kerf/Fusion/KeptValues.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {
/// Copies are the ops themselves, as ops of several groups.
class Copies : public TwiceQuestions {
public:
  Copies(FusionGroups &map, const FunctionAnswers &answers,
         const FunctionQuestions &function)
      : map(map), answers(answers), function(function) {}

  bool isCheap(Operation *op) const override {
    return isCheapByElement(op) && !isUpdate(op) &&
           answers.roleOf(op) == FusionQuestions::Role::Kernel;
  }
  bool isInline(Operation *op) const override {
    return movesOrCasts(op) || op->getNumOperands() == 0;
  }
  /// A norm's scale and shift are read with its statistics before
  /// (kerf-fold-batch-norm), which gives new vectors.
  bool isOverwritten(Value value) const override {
    Operation *def = value.getDefiningOp();
    auto source = dyn_cast_or_null<SourceOpInterface>(def);
    return source ? source.isMutable() && tensorType(value).getRank() > 1
                  : isa_and_nonnull<dist::AccumulateOp>(def);
  }
  bool staysInMemory(Value value) const override {
    Operation *def = value.getDefiningOp();
    return !def || isa<SourceOpInterface>(def) || function.isConstant(def);
  }
  Operation *makerOf(OpOperand &read) const override {
    return answers.makerOf(read);
  }
  Value memoryOf(Value value) const override { return answers.memoryOf(value); }
  bool isApart(OpOperand &read) const override { return answers.isApart(read); }
  /// Small constants are no memory.
  int64_t bytesOf(Value memory) const override {
    int64_t bytes = function.bytesRead(memory);
    auto source = memory.getDefiningOp<SourceOpInterface>();
    bool isInline = source && !source.isParameter() &&
                    (source.isUniform() || bytes <= kMaxInlineConstantBytes);
    return isInline ? 0 : bytes;
  }
  SmallVector<OpOperand *> readsOf(Value value) const override {
    SmallVector<OpOperand *> reads;
    if (Operation *def = value.getDefiningOp()) {
      reads = answers.readsOf(def);
      llvm::erase_if(reads, [&](OpOperand *read) {
        return answers.memoryOf(read->get()) != value;
      });
    } else {
      for (OpOperand &use : value.getUses())
        reads.push_back(&use);
    }
    return reads;
  }
  bool take(const ComputedTwice &twice) override {
    std::vector<SmallVector<Operation *>> all;
    for (int64_t reader : twice.readers) {
      SmallVector<Operation *> &ops = all.emplace_back(map.groups[reader].ops);
      for (Operation *op : twice.chain)
        if (!map.computes(reader, op))
          ops.push_back(op);
      llvm::sort(ops, [&](Operation *a, Operation *b) {
        return map.position.lookup(a) < map.position.lookup(b);
      });
      SmallVector<Operation *> borrowed(llvm::make_filter_range(
          ops, [&](Operation *op) { return map.find(op) != reader; }));
      if (ops.size() > kMaxKernelOps || !answers.canFuse(ops, borrowed))
        return false;
    }
    for (auto [reader, ops] : llvm::zip_equal(twice.readers, all)) {
      for (Operation *op : twice.chain)
        if (!map.computes(reader, op))
          map.copies[op].push_back(reader);
      map.groups[reader].ops = std::move(ops);
    }
    dropUnread(twice.home);
    return true;
  }

private:
  /// Whether a read needs the op where `home` computes it.
  bool isReadBy(int64_t home, Operation *op, OpOperand &read) const {
    SmallVector<int64_t, 2> readers = map.groupsOf(read.getOwner());
    return readers.empty() || answers.isApart(read) ||
           llvm::any_of(readers, [&](int64_t reader) {
             return reader == home || !map.computes(reader, op);
           });
  }

  /// Ops of which every reader has a copy are not computed in their group.
  void dropUnread(int64_t home) {
    SmallVector<Operation *> kept;
    for (Operation *op : llvm::reverse(map.groups[home].ops)) {
      bool isRead = map.copies.lookup(op).empty() ||
                    llvm::any_of(answers.readsOf(op), [&](OpOperand *read) {
                      return isReadBy(home, op, *read);
                    });
      if (isRead) {
        kept.push_back(op);
        continue;
      }
      SmallVector<int64_t, 2> &others = map.copies[op];
      if (map.find(op) == home)
        map.groupOf[op] = others.pop_back_val();
      else
        llvm::erase(others, home);
    }
    map.groups[home].ops.assign(kept.rbegin(), kept.rend());
  }

  FusionGroups &map;
  const FunctionAnswers &answers;
  const FunctionQuestions &function;
};
} // namespace

static bool isShapeOp(Operation *op) {
  return movesOrCasts(op) && !isFloatCast(op);
}

/// Whether one call alone reads what the op moves, where it was computed: by
/// strides, which cannot join dimensions. Of several one may want a copy.
static bool isReadByStrides(Operation *op, const FusionQuestions &questions) {
  auto dimsOf = [](Operation *each) {
    SmallVector<int64_t> dims;
    llvm::copy_if(tensorType(each->getResult(0)).getShape(),
                  std::back_inserter(dims),
                  [](int64_t size) { return size != 1; });
    return dims;
  };
  if (!op->hasOneUse())
    return false;
  Operation *user = *op->user_begin();
  return questions.roleOf(user) == FusionQuestions::Role::Call ||
         (user->getNumOperands() == 1 && isShapeOp(user) &&
          dimsOf(user) == dimsOf(op) && isReadByStrides(user, questions));
}

/// What only moves elements does so in front of its first reader, or at the end
/// for another function (lowering's kerf-sink-shape-ops).
void FunctionOrder::placeShapeOps(Block &block,
                                  const FusionQuestions &questions) {
  for (FusionGroup &group : llvm::reverse(map.groups)) {
    if (group.ops.empty())
      continue;
    if (!group.isKernel) {
      auto computed = llvm::find_if_not(llvm::reverse(group.ops), isShapeOp);
      if (computed != group.ops.rend() &&
          isReadByStrides(group.ops.back(), questions))
        map.position[group.ops.back()] = map.position.lookup(*computed);
      continue;
    }
    if (!llvm::all_of(group.ops, isShapeOp))
      continue;
    int64_t first = map.position.lookup(block.getTerminator());
    for (Operation *op : group.ops)
      for (OpOperand *read : questions.readsOf(op))
        if (int64_t reader = map.find(read->getOwner());
            reader >= 0 && &map.groups[reader] != &group)
          first = std::min(first,
                           map.position.lookup(map.groups[reader].ops.back()));
    map.position[group.ops.back()] = first;
  }
}

/// Whether a call adds its result to a sum over micro-batches itself, which
/// makes it an update. Convolutions cannot.
static bool addsToSum(const FusionGroup &group, const FunctionAnswers &answers,
                      const FunctionQuestions &questions) {
  SmallVector<OpOperand *> reads = answers.readsOf(group.ops.back());
  return !group.isKernel && !reads.empty() &&
         llvm::all_of(reads,
                      [&](OpOperand *read) {
                        return isa<dist::AccumulateOp>(read->getOwner()) ||
                               questions.isSummed(read->get());
                      }) &&
         llvm::none_of(group.ops, [](Operation *op) {
           return costClassOf(op) == CostClass::Convolution;
         });
}

void FunctionOrder::form(Block &block, const FunctionQuestions &questions) {
  FunctionAnswers answers(block, questions);
  FailureOr<FusionGroups> formed = formFusionGroups(block, answers);
  assert(succeeded(formed) && "planning refuses no op");
  map = std::move(*formed);
  places = answers.getPlaces();
  for (auto [part, whole] : places)
    parts[whole].push_back(part);
  if (questions.computesTwice) {
    Copies twice(map, answers, questions);
    computeTwice(map, twice);
  }
  placeShapeOps(block, answers);
  SmallVector<int64_t> first = orderOf(map, answers);
  DenseMap<int64_t, int64_t> placeOf;
  for (auto [place, group] : llvm::enumerate(first))
    placeOf[group] = static_cast<int64_t>(place);
  auto findPlace = [&](Operation *op) -> int64_t {
    int64_t group = map.find(op);
    return group < 0 ? -1 : placeOf.lookup(group);
  };
  // The order of lowering: updates run as soon as they can, behind all other
  // readers of the old value.
  std::vector<SmallVector<int64_t>> successors(first.size());
  llvm::BitVector urgent(first.size());
  auto addEdge = [&](int64_t from, int64_t to) {
    if (from >= 0 && to >= 0 && from != to)
      successors[from].push_back(to);
  };
  std::vector<std::pair<int64_t, int64_t>> overwrites; ///< reader, writer
  for (auto [place, group] : llvm::enumerate(first)) {
    bool waits = false;
    if (addsToSum(map.groups[group], answers, questions))
      urgent.set(place);
    for (Operation *op : map.groups[group].ops) {
      // Sums over devices in the update start as soon as their operand is
      // there (kerf-overlap-collectives).
      bool starts = answers.isOfUpdate(op) &&
                    llvm::any_of(answers.readsOf(op), [&](OpOperand *read) {
                      return answers.isApart(*read);
                    });
      if (isUpdate(op) || starts)
        urgent.set(place);
      for (OpOperand &operand : op->getOpOperands()) {
        waits |= answers.isApart(operand);
        Operation *maker = answers.makerOf(operand);
        if (!isAssignTarget(operand) && !map.computes(group, maker))
          addEdge(findPlace(maker), place);
      }
      for (Operation *user : op->getUsers())
        if (auto assign = dyn_cast<dist::AssignOp>(user))
          for (OpOperand *read :
               answers.readsOf(assign.getSource().getDefiningOp()))
            if (!isAssignTarget(*read) && questions.isHere(read->getOwner()))
              overwrites.push_back({findPlace(read->getOwner()), place});
    }
    // A group that waits for other devices keeps its place in the program.
    if (waits)
      urgent.reset(place);
  }
  auto order = [&] {
    return orderByPriority(
        successors, [&](int64_t place) { return urgent[place] ? -1 : place; });
  };
  // If the reader depends on the writer, writing over what it reads would be a
  // cycle, and it reads a copy. Few functions have such a pair, so reachability
  // is only computed for pairs that may be one.
  auto reaches = [&](int64_t from, int64_t to) {
    llvm::BitVector seen(first.size());
    SmallVector<int64_t> stack = {from};
    while (!stack.empty())
      for (int64_t next : successors[stack.pop_back_val()])
        if (next == to)
          return true;
        else if (!seen.test(next)) {
          seen.set(next);
          stack.push_back(next);
        }
    return false;
  };
  std::vector<SmallVector<int64_t>> alone = successors;
  for (auto [reader, writer] : overwrites)
    addEdge(reader, writer);
  SmallVector<int64_t> ordered = order();
  if (ordered.size() != first.size()) {
    successors = std::move(alone);
    for (auto [reader, writer] : overwrites)
      if (reader >= 0 && reader != writer && !reaches(writer, reader))
        addEdge(reader, writer);
    ordered = order();
  }
  times.assign(map.groups.size(), 0);
  assert(ordered.size() == first.size() && "groups form no cycle");
  for (auto [time, place] : llvm::enumerate(ordered))
    times[first[place]] = static_cast<int64_t>(time) + 1;
}

SmallVector<int64_t, 2> FunctionOrder::readTimesOf(Operation *maker,
                                                   Operation *reader) const {
  if (map.find(reader) < 0)
    return {timeOf(reader)};
  SmallVector<int64_t, 2> found;
  for (int64_t group : map.groupsOf(reader))
    if (!map.computes(group, maker))
      found.push_back(times[group]);
  return found;
}

int64_t FunctionOrder::timeOf(Operation *op) const {
  int64_t group = map.find(op);
  return group < 0 ? map.position.lookup(op) : times[group];
}
