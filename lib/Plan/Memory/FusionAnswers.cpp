//===- FusionAnswers.cpp - planning's answers about kernels ---------------===//
#include "FusionAnswers.h"

#include "kerf/Fusion/KeptValues.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

CostClass kerf::plan::costClassOf(Operation *op) {
  auto costed = dyn_cast<OpCostInterface>(op);
  return costed ? costed.getCostClass() : CostClass::Elementwise;
}

bool kerf::plan::isUpdate(Operation *op) {
  return isa<dist::AccumulateOp>(op) ||
         (op->getNumResults() > 0 &&
          llvm::all_of(op->getResults(), isWrittenInPlace));
}

DenseSet<Operation *> kerf::plan::findConstants(const Graph &graph,
                                                const Solution &solution,
                                                func::FuncOp function) {
  auto isConstant = [&](Operation *op) {
    if (auto source = dyn_cast<SourceOpInterface>(op))
      return !source.isMutable();
    return isa<OpCostInterface>(op) &&
           llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
             return graph.operandLayout(solution, operand) ==
                    graph.resultLayout(solution, operand.get());
           });
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
class Answers : public FusionQuestions {
public:
  explicit Answers(const FunctionQuestions &function) : function(function) {}

  Role roleOf(Operation *op) const override {
    if (isa<SourceOpInterface>(op) || op->hasTrait<OpTrait::IsTerminator>() ||
        !function.isHere(op) || function.isView(op) || function.isConstant(op))
      return Role::None;
    CostClass kind = costClassOf(op);
    return kind == CostClass::Matmul || kind == CostClass::Convolution
               ? Role::Call
               : Role::Kernel;
  }

  bool mayJoin(Operation *op) const override {
    return !isa<dist::AssignOp>(op) && !isUpdate(op);
  }

  /// A library call can take in a bias, an addend and functions of one number;
  /// computations on parameters alone (a folded normalization) go into its
  /// operands. It may store more than 16 bits of a product, but it does not
  /// round a value that it has computed.
  bool takesIn(Operation *anchor, OpOperand &read) const override {
    Operation *next = read.getOwner();
    auto bitsOf = [](Value value) {
      return getElementTypeOrSelf(value).getIntOrFloatBitWidth();
    };
    unsigned before = bitsOf(read.get()), after = bitsOf(next->getResult(0));
    if (after < before || (after > before && makerOf(read) != anchor))
      return false;
    auto isVariable = [&](OpOperand &operand) {
      Operation *maker = makerOf(operand);
      return !maker || !function.isConstant(maker);
    };
    return roleOf(next) == Role::Kernel &&
           costClassOf(next) == CostClass::Elementwise && mayJoin(next) &&
           llvm::count_if(next->getOpOperands(), isVariable) <= 2 &&
           function.elements(next->getResult(0)) ==
               function.elements(read.get());
  }

  bool canFuse(ArrayRef<Operation *> ops) const override;

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
    for (OpOperand *operand = &read;;) {
      if (function.moves(*operand))
        return true;
      Operation *def = operand->get().getDefiningOp();
      if (!def || !function.isView(def))
        return false;
      operand = &def->getOpOperand(0);
    }
  }

  Value memoryOf(Value value) const override {
    while (Operation *def = value.getDefiningOp()) {
      if (!function.isView(def))
        break;
      value = def->getOperand(0);
    }
    return value;
  }

  int64_t bytesOf(Value memory) const override {
    return function.bytes(memory);
  }

private:
  void collectReads(Operation *op, SmallVectorImpl<OpOperand *> &reads) const {
    for (OpOperand &use : op->getUses())
      if (use.getOperandNumber() == 0 && function.isView(use.getOwner()))
        collectReads(use.getOwner(), reads);
      else
        reads.push_back(&use);
  }

  const FunctionQuestions &function;
};
} // namespace

/// Whether the op reads elements several times, in windows (a pool): its
/// operand must then lie in memory.
static bool readsWindows(Operation *op) {
  if (costClassOf(op) != CostClass::Row || op->getNumResults() != 1)
    return false;
  auto from = cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  return from.getRank() == to.getRank() && from.getShape() != to.getShape();
}

/// Whether one loop nest can write all results of these ops that others read:
/// the results have as many elements as the rows together, or one per row.
bool Answers::canFuse(ArrayRef<Operation *> ops) const {
  DenseSet<Operation *> inside(ops.begin(), ops.end());
  int64_t whole = 0, rows = 0;
  for (Operation *op : ops) {
    if (costClassOf(op) != CostClass::Row)
      continue;
    if (readsWindows(op)) {
      for (OpOperand &operand : op->getOpOperands())
        if (inside.contains(makerOf(operand)))
          return false;
      continue;
    }
    int64_t read = function.elements(op->getOperand(0));
    if (whole && whole != read)
      return false;
    whole = read;
    for (Value result : op->getResults()) {
      int64_t made = function.elements(result);
      if (made == whole)
        continue;
      if (rows && rows != made)
        return false;
      rows = made;
    }
  }
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      bool isRead = llvm::any_of(result.getUsers(), [&](Operation *user) {
        return !inside.contains(user);
      });
      if (!isRead)
        continue;
      int64_t made = function.elements(result);
      if (!whole)
        whole = made;
      if (made != whole && (!rows || made != rows))
        return false;
    }
  return true;
}

void FunctionOrder::form(Block &block, const FunctionQuestions &questions) {
  Answers answers(questions);
  FailureOr<FusionGroups> formed = formFusionGroups(block, answers);
  assert(succeeded(formed) && "planning refuses no op");
  map = std::move(*formed);
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
  for (auto [place, group] : llvm::enumerate(first))
    for (Operation *op : map.groups[group].ops) {
      if (isUpdate(op))
        urgent.set(place);
      for (OpOperand &operand : op->getOpOperands()) {
        // A group that waits for other devices keeps its place in the program.
        if (answers.isApart(operand))
          urgent.reset(place);
        if (!isAssignTarget(operand))
          addEdge(findPlace(answers.makerOf(operand)), place);
      }
      for (Operation *user : op->getUsers())
        if (auto assign = dyn_cast<dist::AssignOp>(user))
          for (OpOperand *read :
               answers.readsOf(assign.getSource().getDefiningOp()))
            if (!isAssignTarget(*read) && questions.isHere(read->getOwner()))
              addEdge(findPlace(read->getOwner()), place);
    }
  SmallVector<int64_t> ordered = orderByPriority(
      successors, [&](int64_t place) { return urgent[place] ? -1 : place; });
  times.assign(map.groups.size(), 0);
  // A cycle is broken by a copy in lowering: groups on it keep their places
  // here.
  for (auto [place, group] : llvm::enumerate(first))
    times[group] = static_cast<int64_t>(place) + 1;
  if (ordered.size() == first.size())
    for (auto [time, place] : llvm::enumerate(ordered))
      times[first[place]] = static_cast<int64_t>(time) + 1;
}

int64_t FunctionOrder::timeOf(Operation *op) const {
  int64_t group = map.find(op);
  return group < 0 ? map.position.lookup(op) : times[group];
}
