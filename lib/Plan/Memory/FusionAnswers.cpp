//===- FusionAnswers.cpp - planning's answers about kernels ---------------===//
#include "FusionAnswers.h"
#include "../Model/Terminator.h"
#include "../Recompute/Blocks.h"

#include "kerf/Fusion/Casts.h"
#include "kerf/Fusion/KeptValues.h"
#include "kerf/Fusion/Reductions.h"
#include "kerf/Fusion/StoredNarrow.h"

#include "mlir/Interfaces/CallInterfaces.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Ops of its own block are computed by itself.
static bool isLoop(Operation *op) {
  return op->hasTrait<OpTrait::IsIsolatedFromAbove>();
}

CostClass kerf::plan::costClassOf(Operation *op) {
  auto costed = dyn_cast<OpCostInterface>(op);
  return costed && !isa<CallOpInterface>(op) && !isLoop(op)
             ? costed.getCostClass()
             : CostClass::Elementwise;
}

LibraryWork kerf::plan::libraryWorkOf(Operation *op) {
  auto costed = dyn_cast<OpCostInterface>(op);
  return costed ? costed.getLibraryWork() : LibraryWork::None;
}

/// Whether the op adds its two operands.
static bool addsOperands(Operation *op) {
  auto ruled = dyn_cast<ShardingRuleInterface>(op);
  return ruled && op->getNumOperands() == 2 &&
         llvm::any_of(
             ruled.getShardingRule().linearGroups,
             [](ArrayRef<unsigned> group) { return group.size() == 2; });
}

bool kerf::plan::isUpdate(Operation *op) {
  return isa<dist::AccumulateOp>(op) ||
         (op->getNumResults() > 0 &&
          llvm::all_of(op->getResults(), isWrittenInPlace));
}

bool kerf::plan::readsElsewhere(Operation *op) {
  CostClass kind = costClassOf(op);
  if (kind == CostClass::Matmul || kind == CostClass::Convolution)
    return true;
  if (kind != CostClass::Row || op->getNumResults() != 1)
    return false;
  auto from = tensorType(op->getOperand(0));
  auto to = tensorType(op->getResult(0));
  return from.getRank() == to.getRank() && from.getShape() != to.getShape();
}

DenseSet<Operation *> kerf::plan::findConstants(const Graph &graph,
                                                const Solution &solution,
                                                func::FuncOp function) {
  return findConstants(function, [&](OpOperand &operand) {
    return graph.operandLayout(solution, operand) !=
           graph.resultLayout(solution, operand.get());
  });
}

DenseSet<Operation *>
kerf::plan::findConstants(func::FuncOp function,
                          llvm::function_ref<bool(OpOperand &)> moves) {
  auto isConstant = [&](Operation *op) {
    if (auto source = dyn_cast<SourceOpInterface>(op))
      return !source.isMutable();
    LibraryWork work = libraryWorkOf(op);
    return isa<OpCostInterface>(op) && !isLoop(op) &&
           (work == LibraryWork::Product || !isLibraryCall(work)) &&
           llvm::none_of(op->getOpOperands(), moves);
  };
  auto isShapeOp = [](Operation *op) {
    return !isa<SourceOpInterface>(op) && op->getNumOperands() == 1 &&
           movesOrCasts(op) &&
           getElementTypeOrSelf(op->getOperand(0)) ==
               getElementTypeOrSelf(op->getResult(0));
  };
  return findAtLoad(function.getBody().front(), isConstant, isShapeOp);
}

namespace {
/// Of the functions of one number that calls compute nothing more is known than
/// that some call does.
class Narrow : public NarrowQuestions {
public:
  explicit Narrow(llvm::function_ref<bool(OpOperand &)> moves) : moves(moves) {}

  ProductKind kindOf(Operation *op) const override {
    if (libraryWorkOf(op) != LibraryWork::Product)
      return ProductKind::None;
    if (costClassOf(op) == CostClass::Matmul)
      return ProductKind::Matmul;
    return isBackward(op) ? ProductKind::InputGradient
                          : ProductKind::Convolution;
  }
  bool isCast(Operation *op) const override {
    return isFloatCast(op) && !moves(op->getOpOperand(0));
  }
  bool isSum(Operation *op) const override {
    return libraryWorkOf(op) == LibraryWork::Epilogue && addsOperands(op);
  }
  bool isActivation(Operation *op, ProductKind) const override {
    return libraryWorkOf(op) == LibraryWork::Epilogue &&
           op->getNumOperands() == 1 && !movesOrCasts(op);
  }
  bool isMove(Operation *op) const override {
    return movesOrCasts(op) || isa<dist::DistDialect>(op->getDialect());
  }
  Value activationGradient(Value) const override { return {}; }
  bool readsAnyType(OpOperand &read) const override {
    Operation *op = read.getOwner();
    return isa<OpCostInterface>(op) && !isTerminator(op) &&
           !isa<dist::DistDialect>(op->getDialect()) &&
           dist::getPhase(op) != dist::Phase::Update && !moves(read);
  }

private:
  llvm::function_ref<bool(OpOperand &)> moves;
};
} // namespace

DenseSet<Value>
kerf::plan::findStoredNarrow(func::FuncOp function,
                             llvm::function_ref<bool(OpOperand &)> moves) {
  Narrow questions(moves);
  DenseSet<Value> ends;
  for (Operation &op : function.getBody().front())
    if (StoredNarrow stored = kerf::findStoredNarrow(&op, questions);
        stored.end)
      ends.insert(stored.isProduct ? op.getResult(0) : stored.end);
  return ends;
}

namespace {
class Answers : public FusionQuestions {
public:
  Answers(Block &block, const FunctionQuestions &function);

  Role roleOf(Operation *op) const override {
    if (isa<SourceOpInterface>(op) || isTerminator(op) ||
        !function.isHere(op) || function.views.contains(op) ||
        function.isConstant(op))
      return Role::None;
    // Of a call, or an op without costs, nothing is known.
    if (isa<CallOpInterface>(op) || isLoop(op) ||
        (!isa<OpCostInterface>(op) &&
         !isa_and_nonnull<dist::DistDialect>(op->getDialect())))
      return Role::Alone;
    return isLibraryCall(libraryWorkOf(op)) ? Role::Call : Role::Kernel;
  }

  bool isOfUpdate(Operation *op) const override {
    return dist::getPhase(op) == dist::Phase::Update;
  }

  bool mayJoin(Operation *op) const override {
    return !isa<dist::AssignOp>(op);
  }

  /// A library call can take in a bias, an addend and functions of one number;
  /// computations on parameters alone (a folded normalization) go into its
  /// operands. It may store more than 16 bits of a product, but it does not
  /// round a value that it has computed.
  bool takesIn(Operation *anchor, OpOperand &read) const override {
    Operation *next = read.getOwner();
    if (function.endsCall(memoryOf(read.get())))
      return false;
    auto bitsOf = [](Value value) {
      return getElementTypeOrSelf(value).getIntOrFloatBitWidth();
    };
    unsigned before = bitsOf(memoryOf(read.get()));
    unsigned after = bitsOf(next->getResult(0));
    if (after < before || (after > before && makerOf(read) != anchor) ||
        roleOf(next) != Role::Kernel || !mayJoin(next) || isUpdate(next) ||
        function.isKept(read.get()))
      return false;
    if (isFloatCast(next))
      return true;
    if (libraryWorkOf(anchor) == LibraryWork::Sum)
      return addsTo(read);
    if (libraryWorkOf(anchor) != LibraryWork::Product ||
        function.elements(next->getResult(0)) != function.elements(read.get()))
      return false;
    if (next->getNumOperands() == 1 && movesOrCasts(next))
      return storesMoved(anchor, next);
    return libraryWorkOf(next) == LibraryWork::Epilogue &&
           llvm::all_of(next->getOpOperands(),
                        [&](OpOperand &operand) {
                          return &operand == &read || isAddend(operand);
                        }) &&
           !isSumBehind(anchor, next);
  }

  /// Whether a call that adds in place gives `next` its other operand: the
  /// product is what it adds to.
  bool isSumBehind(Operation *anchor, Operation *next) const {
    return llvm::any_of(next->getOpOperands(), [&](OpOperand &operand) {
      Operation *maker = makerOf(operand);
      return maker && maker != anchor &&
             libraryWorkOf(maker) == LibraryWork::Sum && addsTo(operand);
    });
  }

  /// Whether `read`, alone, is added to another value of its type.
  bool addsTo(OpOperand &read) const {
    Operation *next = read.getOwner();
    return addsOperands(next) && read.get().hasOneUse() &&
           next->getOperand(0) != next->getOperand(1) &&
           next->getOperand(0).getType() == next->getOperand(1).getType();
  }

  /// Whether a product can write its result where `move` (a transpose, reshape
  /// or slice behind it) would: a matrix product writes rows in any order, and
  /// parts of rows if a product reads them; a convolution writes whole images.
  bool storesMoved(Operation *anchor, Operation *move) const {
    if (costClassOf(anchor) == CostClass::Convolution)
      return false;
    auto rowOf = [](Operation *op) {
      return tensorType(op->getResult(0)).getShape().back();
    };
    return rowOf(move) == rowOf(anchor) ||
           llvm::any_of(readsOf(move), [&](OpOperand *read) {
             return roleOf(read->getOwner()) == Role::Call;
           });
  }

  /// Whether a library reads it element by element, or one for each column.
  bool isAddend(OpOperand &operand) const {
    Operation *maker = makerOf(operand);
    if (maker && function.isConstant(maker))
      return true;
    auto own = tensorType(operand.get());
    auto whole = tensorType(operand.getOwner()->getResult(0));
    return own.getNumElements() == whole.getNumElements() ||
           own.getNumElements() == 1 ||
           (whole.getRank() > 0 &&
            own.getNumElements() == whole.getShape().back());
  }

  bool canFuse(ArrayRef<Operation *> ops) const override;
  int64_t numPartsOf(Operation *op) const {
    auto found = ordered.find(op);
    return found == ordered.end() ? 1 : found->second.numParts;
  }

  Operation *makerOf(OpOperand &read) const override {
    return memoryOf(read.get()).getDefiningOp();
  }

  /// Behind views.
  SmallVector<OpOperand *> readsOf(Operation *op) const override {
    SmallVector<OpOperand *> reads;
    collectReads(op, reads);
    return reads;
  }

  bool isApart(OpOperand &read) const override {
    if (isAssignTarget(read))
      return false;
    for (OpOperand *operand = &read; operand;) {
      if (function.moves(*operand))
        return true;
      Operation *def = operand->get().getDefiningOp();
      operand = def ? function.views.seenBy(def) : nullptr;
    }
    return false;
  }

  Value memoryOf(Value value) const override {
    return function.views.rootOf(value);
  }

  int64_t bytesOf(Value memory) const override {
    return function.bytes(memory);
  }

private:
  /// Of the memory that the op makes, or sees.
  void collectReads(Operation *op, SmallVectorImpl<OpOperand *> &reads) const {
    for (OpOperand &use : op->getUses()) {
      Operation *user = use.getOwner();
      if (!function.views.contains(user)) {
        reads.push_back(&use);
        for (Operation *undoing : function.views.undoing(user))
          collectReads(undoing, reads);
      } else if (use.getOperandNumber() == 0 &&
                 memoryOf(user->getResult(0)) == memoryOf(use.get())) {
        collectReads(user, reads);
      }
    }
  }

  /// An op whose loops cannot have any order.
  struct Ordered {
    bool readsElsewhere;
    int64_t numParts; ///< into which lowering cuts a sum; 1: none
  };

  const FunctionQuestions &function;
  /// Of the ops of rows, and those that read elsewhere. Asked for every op of
  /// each group that might be.
  DenseMap<Operation *, Ordered> ordered;
  bool hasParts = false; ///< whether some sum is cut into parts
};
} // namespace

/// Into how many parts lowering cuts a sum (Reductions.h); 1: none.
static int64_t countParts(Operation *sum, const FunctionQuestions &function) {
  if (costClassOf(sum) != CostClass::Row || sum->getNumResults() != 1)
    return 1;
  int64_t columns = function.elements(sum->getResult(0));
  if (columns == 0)
    return 1;
  int64_t parts = numPartsForTasks(
      function.elements(sum->getOperand(0)) / columns, columns);
  return parts > 1 && foldsLeadingDims(sum) ? parts : 1;
}

Answers::Answers(Block &block, const FunctionQuestions &function)
    : function(function) {
  for (Operation &op : block)
    if (!isLibraryCall(libraryWorkOf(&op)) &&
        (costClassOf(&op) == CostClass::Row || readsElsewhere(&op)))
      ordered[&op] = {readsElsewhere(&op), countParts(&op, function)};
  hasParts = llvm::any_of(
      ordered, [](const auto &entry) { return entry.second.numParts > 1; });
}

/// Whether one loop nest can write all results of these ops that others read:
/// the results have as many elements as the rows together, or one per row.
bool Answers::canFuse(ArrayRef<Operation *> ops) const {
  llvm::SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
  int64_t whole = 0, rows = 0;
  // Whether rows of `read` elements in all, of which each gives one of `made`,
  // are those of the ops before.
  auto addRows = [&](int64_t read, int64_t made) {
    if ((whole && whole != read) || (rows && made != read && rows != made))
      return false;
    whole = read;
    if (made != read)
      rows = made;
    return true;
  };
  for (Operation *op : ops) {
    // A sum of parts is added up by the first kernel that reads it, unless that
    // is larger.
    for (OpOperand &operand : op->getOpOperands()) {
      if (!hasParts)
        break;
      Operation *maker = makerOf(operand);
      int64_t parts = maker ? numPartsOf(maker) : 1;
      if (parts == 1)
        continue;
      int64_t sums = function.elements(maker->getResult(0));
      if (inside.contains(maker) ||
          (function.elements(op->getResult(0)) <= sums &&
           !addRows(parts * sums, sums)))
        return false;
    }
    auto own = ordered.find(op);
    if (own == ordered.end())
      continue;
    if (own->second.readsElsewhere) {
      for (OpOperand &operand : op->getOpOperands())
        if (inside.contains(makerOf(operand)))
          return false;
      continue;
    }
    int64_t read = function.elements(op->getOperand(0));
    for (Value result : op->getResults())
      if (!addRows(read, own->second.numParts * function.elements(result)))
        return false;
  }
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      bool isRead = llvm::any_of(readsOf(op), [&](OpOperand *read) {
        return memoryOf(read->get()) == result &&
               !inside.contains(read->getOwner());
      });
      if (!isRead)
        continue;
      int64_t made = numPartsOf(op) * function.elements(result);
      if (!whole)
        whole = made;
      if (made != whole && (!rows || made != rows))
        return false;
    }
  return true;
}

/// What only moves elements does so in front of its first reader, or at the end
/// for another function (lowering's kerf-sink-shape-ops).
void FunctionOrder::placeShapeOps(Block &block,
                                  const FusionQuestions &questions) {
  auto isShapeOp = [](Operation *op) {
    return movesOrCasts(op) && !isFloatCast(op);
  };
  for (FusionGroup &group : llvm::reverse(map.groups)) {
    if (group.ops.empty() || !llvm::all_of(group.ops, isShapeOp))
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

void FunctionOrder::form(Block &block, const FunctionQuestions &questions) {
  Answers answers(block, questions);
  FailureOr<FusionGroups> formed = formFusionGroups(block, answers);
  assert(succeeded(formed) && "planning refuses no op");
  map = std::move(*formed);
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
        if (!isAssignTarget(operand))
          addEdge(findPlace(answers.makerOf(operand)), place);
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

int64_t FunctionOrder::timeOf(Operation *op) const {
  int64_t group = map.find(op);
  return group < 0 ? map.position.lookup(op) : times[group];
}
