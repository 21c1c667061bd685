//===- StageMemory.h - the memory of one stage ------------------*- C++ -*-===//
//
// See Memory.cpp (parameters, and what functions leave for later ones),
// Values.cpp (where a value lies, and for how long), Moves.cpp (what
// collectives read and write) and Peak.cpp (the most that is live at one
// instant).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MEMORY_STAGEMEMORY_H
#define KERF_LIB_PLAN_MEMORY_STAGEMEMORY_H

#include "FunctionOrder.h"
#include "StageRuns.h"

#include "kerf/Fusion/Arena.h"

#include "llvm/ADT/MapVector.h"

#include <map>

namespace kerf::plan {

/// Every buffer starts where a cache line does.
inline constexpr int64_t kAlignment = 64;

inline int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Of an element that a call stores in 16 bits.
inline constexpr int64_t kNarrowBytes = 2;

/// Instants between two groups.
inline constexpr int64_t kTicks = 16;

struct Buffer {
  int64_t begin, end, bytes; ///< [begin, end)
  bool isGradient;
};

/// A value that one function of the stage leaves for later ones.
struct Kept {
  StageFunction which = 0; ///< the last that reads it
  int64_t bytes = 0;       ///< fewer than the value's if it is rounded before
};

class StageMemory {
public:
  StageMemory(const Graph &graph, const Solution &solution,
              mlir::func::FuncOp function, const StageMap &map, int64_t stage,
              const llvm::DenseSet<mlir::Operation *> &constants,
              const llvm::DenseMap<mlir::Value, int64_t> &partsOfSums)
      : graph(graph), batch(graph.getBatch()), solution(solution),
        function(function), map(map), stage(stage), constants(constants),
        partsOfSums(partsOfSums), functions{map.chunks},
        isWhole(map.stages == 1 && map.microBatches == 1),
        orders(functions.count()), arrivals(functions.count()),
        buffers(functions.count()) {}

  PlanResult::Memory run();

private:
  class Questions;

  /// A value in another layout than the one that it is held in: made in a
  /// function for the first use that wants it, held until the last.
  struct Move {
    int64_t bytes;
    StageFunction which;
    /// The last function that reads it; behind its own it is in a slot.
    StageFunction readIn;
    /// Made once, before the first micro-batch, and the same for all.
    bool isOfStep;
    /// Of a copy whose padding is filled, in its layout: the op that makes the
    /// value. Its kernel writes the copy, too.
    mlir::Operation *filledBy = nullptr;
    /// When the first and the last use read it, and when it is made.
    int64_t first = std::numeric_limits<int64_t>::max(), last = -1, made = 0;
  };

  /// Who reads a value, and when, which decides where it lies.
  struct ValueUses {
    mlir::Value value;
    mlir::Operation *def = nullptr; ///< null: an input
    int64_t bytes = 0;              ///< that it takes where it lies
    bool isMadeHere = false;        ///< by an op of this stage, no source
    bool isReceived = false;        ///< made by an op of another stage
    bool isGradient = false;        ///< of a micro-batch, summed over these
    bool isUsedHere = false;
    /// By others than ops that are computed together with the maker.
    bool isRead = false;
    bool isOutput = false; ///< of the step
    bool isSummedInChunks = false;
    /// By function: whether it makes or reads the value, the instants at which
    /// it does so first and last, and whether a library call reads it there.
    llvm::SmallVector<bool, 4> used, isCalled;
    llvm::SmallVector<int64_t, 4> first, last;
    /// The first and the last part of the update that reads it.
    int64_t firstLevel = std::numeric_limits<int64_t>::max(), lastLevel = 0;
    /// By stage that is sent the value: the first function that reads it.
    std::map<int64_t, StageFunction> receivers;

    void note(StageFunction which, int64_t time);
  };

  StageFunction functionOf(mlir::Operation *op) const;
  std::optional<StageFunction> joinedWithUpdate();
  bool isHere(mlir::Operation *op) const {
    return map.placeOf(op) % map.stages == stage;
  }
  int64_t chunkOf(mlir::Operation *op) const {
    return map.placeOf(op) / map.stages;
  }
  CostClass classOf(mlir::Operation *op) const;
  /// The bytes that a value takes where it lies.
  int64_t heldBytes(mlir::Value value) const {
    int64_t bytes = graph.sharedBytes(solution, value);
    return endsCall.contains(value) &&
                   elementBytes(tensorType(value)) > kNarrowBytes
               ? bytes / elementBytes(tensorType(value)) * kNarrowBytes
               : bytes;
  }
  /// Whether the op rounds to 16 bits what a call has stored so: it computes
  /// nothing.
  bool roundsStored(mlir::Operation *op,
                    llvm::function_ref<bool(mlir::OpOperand &)> isLeft) const;
  bool isView(mlir::Operation *op) const { return views.contains(op); }
  bool isConstant(mlir::Operation *op) const { return constants.contains(op); }
  mlir::Value rootOf(mlir::Value value) const { return views.rootOf(value); }
  bool moves(mlir::OpOperand &use) const;
  bool readsAsMade(mlir::OpOperand &use) const;
  bool isSliced(mlir::OpOperand &use) const;
  /// Whether a view shows a value as it was made, which others share gathered.
  bool isAsMade(mlir::Value view) const;
  /// The last instant at which a value is read as it was made; -1: it is not.
  int64_t lastAsMade(mlir::Value value) const;
  const FunctionOrder &orderOf(mlir::Operation *op) const {
    return orders[functionOf(op)];
  }
  /// What is gathered for an op is so in the instants before.
  int64_t timeOf(mlir::Operation *op) const {
    return kTicks * orderOf(op).timeOf(op);
  }
  int64_t gatheredBytes(LayoutId from, LayoutId to, mlir::Value value) const;
  bool isGathered(mlir::Value value) const;
  bool isSharedByMoving(mlir::Value value) const;
  int64_t gatheredFor(mlir::OpOperand &use) const;
  int64_t filledFor(mlir::OpOperand &use) const;
  /// The copy that a use in this function reads, if a collective of the
  /// function makes one.
  FusionQuestions::Copy copyReadBy(mlir::OpOperand &use,
                                   StageFunction which) const;
  std::pair<int64_t, int64_t> readTimes(mlir::Operation *op) const;
  /// When the value itself, which `maker` has made, is read for a use.
  llvm::SmallVector<int64_t> readTimesOf(mlir::Operation *maker,
                                         mlir::OpOperand &use) const;
  /// Whether a use reads what another function has brought to its layout.
  bool isMadeBefore(mlir::OpOperand &use) const {
    auto move = moveOf.find(&use);
    return move != moveOf.end() &&
           moved[move->second].which != functionOf(use.getOwner());
  }
  /// When the value is made.
  int64_t makeTime(mlir::Operation *def) const;
  llvm::SmallVector<int64_t> copyTimes(mlir::Operation *op) const;
  /// Whether a view shows what a collective gives.
  bool isBehindMove(mlir::Value view) const;
  bool isAddedInPlace(mlir::Value value, mlir::Operation *user) const;
  /// Whether the use adds partial sums in another chunk of the stage: they
  /// are summed over micro-batches first, each in its chunk.
  bool isSummedInChunks(mlir::OpOperand &use) const {
    return map.chunks > 1 && map.microBatches > 1 &&
           partsOfSums.contains(use.get()) &&
           chunkOf(use.getOwner()) != chunkOf(use.get().getDefiningOp());
  }
  bool readsInOrder(mlir::Operation *def, mlir::Value input) const;
  mlir::Value overwritten(mlir::Operation *def, int64_t time,
                          int64_t bytes) const;
  void addAll();
  void listRuns();
  void listLevels();
  /// The part of the update that an op is in: behind so many crossings of
  /// stages by values of updates (lib/Partition/StageFunctions.h).
  int64_t levelOf(mlir::Operation *op) const { return levels.lookup(op); }
  /// When a run works, or a part of the update.
  int64_t timeOfRun(int64_t run, int64_t level) const {
    bool isUpdate = runs.all()[run].which == functions.update();
    return StageRuns::timeOf(run) + (isUpdate ? level : 0);
  }
  void listArrivals();
  int64_t arrivalOf(mlir::Value value, int64_t run) const;
  void findViews();
  void formGroups();
  void listMoves();
  void timeMoves();
  bool isFilledByMaker(const Move &move) const;
  StageFunction functionOfMove(mlir::OpOperand &use) const;
  void chooseKept();
  StageFunction receivingFunction(mlir::Operation *user,
                                  mlir::Operation *def) const;
  void addSource(mlir::Operation *op);
  void addConstant(mlir::Operation *op);
  void addWidened(mlir::Value value, mlir::OpOperand &use);
  void addValue(mlir::Value value);
  void addSentState(mlir::Value value);
  ValueUses usesOf(mlir::Value value);
  void addParts(ValueUses &uses);
  void noteSent(ValueUses &uses, mlir::Operation *user) const;
  void noteUse(ValueUses &uses, mlir::OpOperand &use);
  bool isStored(const ValueUses &uses) const;
  bool addSum(const ValueUses &uses);
  std::pair<int64_t, int64_t> readRuns(const ValueUses &uses,
                                       int64_t each) const;
  void addInput(const ValueUses &uses);
  void addSlots(const ValueUses &uses);
  void addScratch(const ValueUses &uses, StageFunction which);
  void addMoves();
  void addBuckets();
  void addLoops();
  void addSlot(int64_t bytes, int64_t first, int64_t last);
  int64_t gradientsAtPeak(llvm::ArrayRef<Buffer> list) const;
  void scratch(StageFunction which, int64_t begin, int64_t end, int64_t bytes,
               bool isGradient = false) {
    buffers[which].push_back({begin, end, aligned(bytes), isGradient});
  }

  const Graph &graph;
  const BatchAnalysis &batch;
  const Solution &solution;
  mlir::func::FuncOp function;
  const StageMap &map;
  int64_t stage;
  const llvm::DenseSet<mlir::Operation *> &constants;      ///< and sources
  const llvm::DenseMap<mlir::Value, int64_t> &partsOfSums; ///< StageBytes.h
  llvm::DenseSet<mlir::Value> endsCall; ///< what calls store in 16 bits
  const StageFunctions functions;
  bool isWhole;                        ///< all is one function
  std::optional<StageFunction> joined; ///< one function with the update
  Views views;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>>
      aliases;                       ///< of roots
  std::vector<FunctionOrder> orders; ///< by function
  StageRuns runs;
  /// Inputs and received values of each function, in their order.
  std::vector<llvm::DenseMap<mlir::Value, int64_t>> arrivals;
  llvm::DenseMap<mlir::Operation *, int64_t> levels; ///< of ops of updates
  std::vector<Move> moved;
  llvm::DenseMap<mlir::OpOperand *, size_t> moveOf;
  /// Numbers of values that their uses share gathered, behind those of moves.
  llvm::DenseMap<mlir::Value, size_t> gatheredNumbers;
  /// Roots of values in slots, and the last function of the stage that reads
  /// them.
  llvm::DenseMap<mlir::Value, Kept> kept;
  llvm::DenseSet<mlir::Value> inSlots;       ///< written over what was kept
  mutable llvm::DenseSet<mlir::Value> given; ///< written over
  std::vector<std::vector<Buffer>> buffers;  ///< by function
  std::vector<ArenaBuffer> slots;            ///< live at times of StageRuns
  PlanResult::Memory memory;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MEMORY_STAGEMEMORY_H
