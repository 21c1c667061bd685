//===- MemoryUnits.cpp - what is computed together, and when --------------===//
#include "MemoryUnits.h"

#include "llvm/ADT/STLExtras.h"

#include <queue>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// As lowering: larger kernels are not formed.
static constexpr size_t kMaxOps = 96;
static constexpr size_t kMaxReach = 20000;

static CostClass classOf(Operation *op) {
  auto costed = dyn_cast<OpCostInterface>(op);
  return costed ? costed.getCostClass() : CostClass::Elementwise;
}

bool MemoryUnits::isUpdate(Operation *op) {
  return isa<dist::AccumulateOp>(op) ||
         (op->getNumResults() > 0 &&
          llvm::all_of(op->getResults(), isWrittenInPlace));
}

bool MemoryUnits::isKernel(Operation *op) const {
  CostClass kind = classOf(op);
  auto found = unitOf.find(op);
  return (kind == CostClass::Elementwise || kind == CostClass::Row ||
          kind == CostClass::Gather) &&
         !isa<dist::AssignOp, dist::AccumulateOp>(op) &&
         !(found != unitOf.end() && units[found->second].isCall);
}

Operation *MemoryUnits::makerOf(Value value,
                                const UnitQuestions &questions) const {
  Operation *def = value.getDefiningOp();
  while (def && questions.isView(def) && def->getNumOperands() > 0)
    def = def->getOperand(0).getDefiningOp();
  return def;
}

/// What reads a value, views seen through. False where something else does than
/// an op of the function to which nothing has to be moved.
bool MemoryUnits::collectReaders(Operation *op, const UnitQuestions &questions,
                                 SmallVectorImpl<OpOperand *> &readers) const {
  for (OpOperand &use : op->getResult(0).getUses()) {
    Operation *user = use.getOwner();
    if (user->hasTrait<OpTrait::IsTerminator>() ||
        isa<dist::AssignOp, dist::AccumulateOp>(user) ||
        !questions.isHere(user) || questions.moves(use))
      return false;
    if (!questions.isView(user))
      readers.push_back(&use);
    else if (!collectReaders(user, questions, readers))
      return false;
  }
  return true;
}

uint32_t MemoryUnits::add(ArrayRef<Operation *> ops, bool isCall) {
  uint32_t id = units.size();
  units.push_back({SmallVector<Operation *>(ops), isCall, 0});
  for (Operation *op : ops)
    unitOf[op] = id;
  return id;
}

void MemoryUnits::formCall(Operation *anchor, const UnitQuestions &questions) {
  SmallVector<Operation *> chain = {anchor};
  while (chain.back()->getNumResults() == 1) {
    SmallVector<OpOperand *> readers;
    if (!collectReaders(chain.back(), questions, readers) ||
        readers.size() != 1)
      break;
    Operation *next = readers[0]->getOwner();
    if (classOf(next) != CostClass::Elementwise || isUpdate(next) ||
        next->getNumResults() != 1 || next->getNumOperands() > 2 ||
        unitOf.count(next) ||
        questions.elements(next->getResult(0)) !=
            questions.elements(readers[0]->get()))
      break;
    chain.push_back(next);
  }
  add(chain, /*isCall=*/true);
}

/// Whether one loop nest can write all that others read of these ops.
bool MemoryUnits::fits(ArrayRef<Operation *> ops,
                       const UnitQuestions &questions) const {
  if (ops.size() > kMaxOps)
    return false;
  DenseSet<Operation *> inside(ops.begin(), ops.end());
  int64_t whole = 0, rows = 0;
  for (Operation *op : ops) {
    if (classOf(op) != CostClass::Row)
      continue;
    int64_t read = questions.elements(op->getOperand(0));
    if (whole && whole != read)
      return false;
    whole = read;
    for (Value result : op->getResults()) {
      int64_t made = questions.elements(result);
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
      int64_t made = questions.elements(result);
      if (!whole)
        whole = made;
      if (made != whole && (!rows || made != rows))
        return false;
    }
  return true;
}

/// Whether a path leads from one unit to another through a third. No path leads
/// back from behind the last op of `to`.
bool MemoryUnits::hasDetour(uint32_t from, uint32_t to) const {
  int64_t last = 0;
  for (Operation *op : units[to].ops)
    last = std::max(last, position.lookup(op));
  DenseSet<uint32_t> seen = {from};
  DenseSet<Operation *> seenOps;
  SmallVector<Operation *> stack;
  for (Operation *op : units[from].ops)
    for (Operation *user : op->getUsers()) {
      auto it = unitOf.find(user);
      bool direct =
          it != unitOf.end() && (it->second == to || it->second == from);
      if (!direct && position.lookup(user) <= last &&
          seenOps.insert(user).second)
        stack.push_back(user);
    }
  while (!stack.empty()) {
    if (seenOps.size() > kMaxReach)
      return true;
    Operation *op = stack.pop_back_val();
    auto push = [&](Operation *of) {
      for (Operation *user : of->getUsers())
        if (position.lookup(user) <= last && seenOps.insert(user).second)
          stack.push_back(user);
    };
    auto it = unitOf.find(op);
    if (it == unitOf.end()) { // a view, or none yet
      push(op);
      continue;
    }
    if (it->second == to)
      return true;
    if (seen.insert(it->second).second)
      for (Operation *member : units[it->second].ops)
        push(member);
  }
  return false;
}

void MemoryUnits::formKernel(Operation *op, const UnitQuestions &questions) {
  uint32_t id = add({op}, /*isCall=*/false);
  if (!isKernel(op) || isUpdate(op))
    return;
  SmallVector<uint32_t> producers;
  for (OpOperand &operand : op->getOpOperands()) {
    // What is seen through a view is moved where the view is read.
    bool moved = questions.moves(operand);
    Value value = operand.get();
    for (Operation *def = value.getDefiningOp();
         def && questions.isView(def) && def->getNumOperands() > 0;
         def = value.getDefiningOp()) {
      moved |= questions.moves(def->getOpOperand(0));
      value = def->getOperand(0);
    }
    Operation *def = value.getDefiningOp();
    auto it = unitOf.find(def);
    if (moved || !def || it == unitOf.end() || it->second == id ||
        !isKernel(def) || isUpdate(def) || def->getNumResults() != 1)
      continue;
    producers.push_back(it->second);
  }
  auto last = [&](uint32_t unit) {
    int64_t max = 0;
    for (Operation *member : units[unit].ops)
      max = std::max(max, position.lookup(member));
    return max;
  };
  llvm::sort(producers, [&](uint32_t a, uint32_t b) {
    return std::pair(last(a), a) > std::pair(last(b), b);
  });
  producers.erase(llvm::unique(producers), producers.end());
  for (uint32_t producer : producers) {
    SmallVector<Operation *> merged = units[producer].ops;
    merged.append(units[id].ops);
    if (!fits(merged, questions) || hasDetour(producer, id))
      continue;
    for (Operation *member : units[producer].ops)
      unitOf[member] = id;
    units[id].ops = std::move(merged);
    units[producer].ops.clear();
  }
}

void MemoryUnits::order(const UnitQuestions &questions) {
  std::vector<SmallVector<uint32_t>> successors(units.size());
  std::vector<int64_t> waiting(units.size(), 0), priority(units.size(), 0);
  for (uint32_t id = 0; id < units.size(); ++id) {
    DenseSet<uint32_t> before;
    bool urgent = false;
    for (Operation *op : units[id].ops) {
      priority[id] = std::max(priority[id], position.lookup(op));
      urgent |= isUpdate(op);
      for (OpOperand &operand : op->getOpOperands()) {
        urgent &= !questions.moves(operand);
        Operation *def = makerOf(operand.get(), questions);
        auto it = unitOf.find(def);
        if (def && it != unitOf.end() && it->second != id &&
            before.insert(it->second).second) {
          successors[it->second].push_back(id);
          ++waiting[id];
        }
      }
    }
    if (urgent)
      priority[id] = -1;
  }
  using Entry = std::pair<int64_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  for (uint32_t id = 0; id < units.size(); ++id)
    if (!units[id].ops.empty() && !waiting[id])
      ready.push({priority[id], id});
  int64_t time = 0;
  while (!ready.empty()) {
    uint32_t id = ready.top().second;
    ready.pop();
    units[id].time = ++time;
    for (uint32_t next : successors[id])
      if (--waiting[next] == 0)
        ready.push({priority[next], next});
  }
}

void MemoryUnits::form(Block &block, const UnitQuestions &questions) {
  int64_t count = 0;
  for (Operation &op : block)
    position[&op] = ++count;
  auto belongs = [&](Operation &op) {
    return !isa<SourceOpInterface>(op) && !questions.isView(&op) &&
           !op.hasTrait<OpTrait::IsTerminator>() && questions.isHere(&op);
  };
  for (Operation &op : block) {
    CostClass kind = classOf(&op);
    if (belongs(op) &&
        (kind == CostClass::Matmul || kind == CostClass::Convolution))
      formCall(&op, questions);
  }
  for (Operation &op : block)
    if (belongs(op) && !unitOf.count(&op))
      formKernel(&op, questions);
  order(questions);
}

int64_t MemoryUnits::timeOf(Operation *op) const {
  auto found = unitOf.find(op);
  return found == unitOf.end() ? position.lookup(op)
                               : units[found->second].time;
}
