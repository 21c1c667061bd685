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
  bool isMove(Operation *op) const override {
    return movesOrCasts(op) || isa<dist::DistDialect>(op->getDialect());
  }
  bool readsAnyType(OpOperand &read) const override {
    Operation *op = read.getOwner();
    return isa<OpCostInterface>(op) && !isTerminator(op) &&
           !isa<dist::DistDialect>(op->getDialect()) &&
           dist::getPhase(op) != dist::Phase::Update && !moves(read);
  }
  bool isRounded(OpOperand &read) const override {
    return rounded.contains(&read);
  }

  DenseSet<OpOperand *> rounded; ///< addends of what was found

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
        stored.end) {
      ends.insert(stored.isProduct ? op.getResult(0) : stored.end);
      questions.rounded.insert_range(stored.addends);
    }
  return ends;
}

FusionQuestions::Role FunctionAnswers::roleOf(Operation *op) const {
  if (isa<SourceOpInterface>(op) || isTerminator(op) || !function.isHere(op) ||
      function.views.contains(op) || function.isConstant(op))
    return Role::None;
  // Of a call, or an op without costs, nothing is known.
  if (isa<CallOpInterface>(op) || isLoop(op) ||
      (!isa<OpCostInterface>(op) &&
       !isa_and_nonnull<dist::DistDialect>(op->getDialect())) ||
      joins.contains(op))
    return Role::Alone;
  return isLibraryCall(libraryWorkOf(op)) ? Role::Call : Role::Kernel;
}

bool FunctionAnswers::isOfUpdate(Operation *op) const {
  return dist::getPhase(op) == dist::Phase::Update;
}

bool FunctionAnswers::mayJoin(Operation *op) const {
  return !isa<dist::AssignOp>(op);
}

bool FunctionAnswers::takesIn(ArrayRef<Operation *> ops,
                              OpOperand &read) const {
  Operation *anchor = ops.front(), *next = read.getOwner();
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
      function.elements(next->getResult(0)) != function.elementsRead(read))
    return false;
  if (next->getNumOperands() == 1 && movesOrCasts(next))
    return storesMoved(anchor, next);
  return hasStep(ops, read) && !isSumBehind(anchor, next);
}

bool FunctionAnswers::hasStep(ArrayRef<Operation *> ops,
                              OpOperand &read) const {
  Operation *next = read.getOwner();
  EpilogueStep step = epilogueStepOf(next);
  StepOperand operand = stepOperandOf(next, read.get());
  if (step == EpilogueStep::None || operand == StepOperand::Other)
    return false;
  FixedEpilogue epilogue(costClassOf(ops.front()) == CostClass::Matmul);
  ChainEpilogue chain;
  for (auto [before, op] : llvm::zip(ops, ops.drop_front()))
    if (EpilogueStep own = epilogueStepOf(op); own != EpilogueStep::None) {
      StepOperand other = stepOperandOf(op, before->getResult(0));
      function.hasFixedEpilogue ? epilogue.add(own, other) : chain.add(other);
    }
  return function.hasFixedEpilogue
             ? epilogue.takes(step, operand)
             : step != EpilogueStep::GeluTanhGradient && chain.takes(operand);
}

StepOperand FunctionAnswers::stepOperandOf(Operation *op, Value self) const {
  auto whole = tensorType(op->getResult(0));
  StepOperand found = StepOperand::None;
  for (OpOperand &operand : op->getOpOperands()) {
    if (memoryOf(operand.get()) == memoryOf(self))
      continue;
    auto own = tensorType(operand.get());
    auto source = memoryOf(operand.get()).getDefiningOp<SourceOpInterface>();
    if (source && source.isUniform())
      found = StepOperand::Number;
    else if (own.getNumElements() == whole.getNumElements())
      found = StepOperand::Whole;
    else if (whole.getRank() > 0 &&
             own.getNumElements() == whole.getShape().back())
      found = StepOperand::PerColumn;
    else
      return StepOperand::Other;
  }
  return found;
}

bool FunctionAnswers::isSumBehind(Operation *anchor, Operation *next) const {
  return llvm::any_of(next->getOpOperands(), [&](OpOperand &operand) {
    Operation *maker = makerOf(operand);
    return maker && maker != anchor &&
           libraryWorkOf(maker) == LibraryWork::Sum && addsTo(operand);
  });
}

bool FunctionAnswers::addsTo(OpOperand &read) const {
  Operation *next = read.getOwner();
  return epilogueStepOf(next) == EpilogueStep::Add && read.get().hasOneUse() &&
         next->getOperand(0) != next->getOperand(1) &&
         next->getOperand(0).getType() == next->getOperand(1).getType();
}

bool FunctionAnswers::storesMoved(Operation *anchor, Operation *move) const {
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

bool FunctionAnswers::canFuse(ArrayRef<Operation *> ops) const {
  return canFuse(ops, {});
}

int64_t FunctionAnswers::numPartsOf(Operation *op) const {
  auto found = ordered.find(op);
  return found == ordered.end() ? 1 : found->second.numParts;
}

Operation *FunctionAnswers::makerOf(OpOperand &read) const {
  return memoryOf(read.get()).getDefiningOp();
}

SmallVector<OpOperand *> FunctionAnswers::readsOf(Operation *op) const {
  SmallVector<OpOperand *> reads;
  collectReads(op, reads);
  return reads;
}

bool FunctionAnswers::isApart(OpOperand &read) const {
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

Value FunctionAnswers::memoryOf(Value value) const {
  return function.views.rootOf(value);
}

int64_t FunctionAnswers::bytesOf(Value memory) const {
  return function.bytes(memory);
}

void FunctionAnswers::collectReads(Operation *op,
                                   SmallVectorImpl<OpOperand *> &reads) const {
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

/// Into how many parts lowering cuts a sum (Reductions.h); 1: none.
static int64_t countParts(Operation *sum, const FunctionQuestions &function) {
  if (costClassOf(sum) != CostClass::Row || sum->getNumResults() != 1)
    return 1;
  int64_t columns = function.elements(sum->getResult(0));
  if (columns == 0)
    return 1;
  int64_t parts =
      numPartsOfSum(function.elementsRead(sum->getOpOperand(0)) / columns,
                    columns, function.sumsByBlock);
  return parts > 1 && foldsLeadingDims(sum) ? parts : 1;
}

FunctionAnswers::FunctionAnswers(Block &block,
                                 const FunctionQuestions &function)
    : function(function) {
  for (Operation &op : block)
    if (!isLibraryCall(libraryWorkOf(&op)) &&
        (costClassOf(&op) == CostClass::Row || readsElsewhere(&op)))
      ordered[&op] = {readsElsewhere(&op), countParts(&op, function)};
  hasParts = llvm::any_of(
      ordered, [](const auto &entry) { return entry.second.numParts > 1; });
  findJoins(block);
}

/// Whether one loop nest can write all results of these ops that others read:
/// the results have as many elements as the rows together, or one per row.
bool FunctionAnswers::canFuse(ArrayRef<Operation *> ops,
                              ArrayRef<Operation *> copies) const {
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
    int64_t read = function.elementsRead(op->getOpOperand(0));
    for (Value result : op->getResults())
      if (!addRows(read, own->second.numParts * function.elements(result)))
        return false;
  }
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      if (llvm::is_contained(copies, op))
        continue;
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
