//===- RandomBlock.cpp - see RandomBlock.h --------------------------------===//
#include "RandomBlock.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

using Role = FusionQuestions::Role;

RandomBlock::RandomBlock(unsigned seed, bool fusesAll) {
  std::mt19937 random(seed);
  auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  bool planning = seed % 2;
  auto isParameter = [&](Operation *op) {
    return op->getNumOperands() == 0 && answers.roleOf(op) == Role::None;
  };
  int64_t count = 3 + random() % 24;
  SmallVector<Operation *> made;
  DenseMap<Operation *, int64_t> weights;
  for (int64_t i = 0; i < count; ++i) {
    SmallVector<Operation *> makers;
    if (!made.empty())
      for (unsigned k = random() % 4; k > 0; --k) {
        // Mostly of what was made last.
        size_t back = chance(70) ? random() % 4 : random() % made.size();
        makers.push_back(
            made[made.size() - 1 - std::min(back, made.size() - 1)]);
      }
    Operation *op = graph.addReader(makers);
    made.push_back(op);
    answers.bytes[op] = 1 + random() % 100;
    weights[op] = 1 + random() % 3;
    if (makers.empty()) {
      if (chance(60))
        answers.roles[op] = Role::None; // a parameter
      continue;
    }
    if (llvm::all_of(makers, [&](Operation *maker) {
          return answers.isAtLoad(maker) || isParameter(maker);
        }))
      answers.atLoad.insert(op);
    if (planning && makers.size() == 1 && chance(15)) {
      answers.addView(op);
      continue;
    }
    if (planning && chance(20)) {
      answers.roles[op] = Role::Call;
    } else if (chance(15)) {
      answers.roles[op] = Role::Alone;
      if (chance(60))
        answers.communication.insert(op);
    } else {
      if (!planning && chance(25))
        answers.followers.insert(op);
      else if (!fusesAll && chance(8))
        answers.single.insert(op);
      if (planning && chance(50))
        answers.taken.insert(op);
    }
    for (OpOperand &operand : op->getOpOperands())
      if (planning && chance(6))
        answers.apart.insert({op, operand.getOperandNumber()});
  }
  SmallVector<Operation *> unread;
  for (Operation *op : made)
    if (op->use_empty())
      unread.push_back(op);
  end = graph.addReader(unread, 0);
  answers.roles[end] = Role::None;
  // A kernel has at most two ops that follow its last.
  answers.refusal = [this](Answers::Ops ops) {
    return llvm::count_if(ops,
                          [&](Operation *op) {
                            return answers.followers.contains(op);
                          }) > 2
               ? std::string("too many followers")
               : std::string();
  };
  if (!fusesAll)
    answers.fuse = [weights](Answers::Ops ops) {
      int64_t sum = 0;
      for (Operation *op : ops)
        sum += weights.lookup(op);
      return sum <= 9;
    };
}

std::vector<std::set<int64_t>>
kerf::test::readGroups(const FusionGroups &groups,
                       const FusionQuestions &questions) {
  std::vector<std::set<int64_t>> reads(groups.groups.size());
  for (auto [id, group] : llvm::enumerate(groups.groups))
    for (Operation *op : group.ops)
      for (OpOperand &operand : op->getOpOperands()) {
        int64_t maker = groups.find(questions.makerOf(operand));
        if (maker >= 0 && maker != static_cast<int64_t>(id))
          reads[id].insert(maker);
      }
  return reads;
}

std::vector<std::set<int64_t>>
kerf::test::closure(const std::vector<std::set<int64_t>> &before) {
  std::vector<std::set<int64_t>> all = before;
  for (bool grows = true; grows;) {
    grows = false;
    for (std::set<int64_t> &reached : all)
      for (int64_t number : std::set<int64_t>(reached))
        for (int64_t further : all[number])
          grows |= reached.insert(further).second;
  }
  return all;
}
