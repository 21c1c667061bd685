//===- ColocationGroups.cpp - what stays in one stage ---------------------===//
//
// `sentFrom(end)` goes from the last group before `end` to the first, and adds
// up what the groups of a stage [begin, end) send. A value is sent if one of
// its users lies outside of the stage: whatever `begin` is, if a user is at or
// after `end`; otherwise only if the first user lies before `begin`.
//
//===----------------------------------------------------------------------===//
#include "ColocationGroups.h"
#include "Terminator.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/AnyOp.h"

#include <numeric>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Merges groups that must be in one stage, with all groups between them, since
/// stages are contiguous: the maker and the users of a value that is no tensor,
/// which cannot be sent; in inference, the first reader of a state and its
/// writer.
static std::vector<SmallVector<Operation *>>
joinWhatCannotBeSent(std::vector<SmallVector<Operation *>> groups) {
  DenseMap<Operation *, size_t> groupOf;
  for (auto [number, ops] : llvm::enumerate(groups))
    for (Operation *op : ops)
      groupOf[op] = number;
  std::vector<size_t> last(groups.size());
  std::iota(last.begin(), last.end(), size_t(0));
  for (auto [number, ops] : llvm::enumerate(groups)) {
    for (Operation *op : ops)
      if (auto assign = dyn_cast<dist::AssignOp>(op);
          assign && dist::getPhase(op) == dist::Phase::Forward)
        for (Operation *user : assign.getSource().getUsers()) {
          size_t reads = groupOf.at(user);
          size_t &end = last[std::min(reads, number)];
          end = std::max({end, reads, number});
        }
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (!canBeCut(result.getType()))
          for (Operation *user : result.getUsers())
            if (auto found = groupOf.find(user); found != groupOf.end())
              last[number] = std::max(last[number], found->second);
  }
  std::vector<SmallVector<Operation *>> joined;
  size_t end = 0;
  for (auto [number, ops] : llvm::enumerate(groups)) {
    if (number < end)
      joined.back().append(ops);
    else
      joined.push_back(std::move(ops));
    end = std::max(end, last[number] + 1);
  }
  return joined;
}

std::vector<SmallVector<Operation *>>
kerf::plan::colocationGroupsOf(func::FuncOp function) {
  std::map<int64_t, SmallVector<Operation *>> byNumber;
  int64_t next = 0;
  for (Operation &op : function.getBody().front()) {
    if (isa<SourceOpInterface>(op) || isTerminator(&op))
      continue;
    std::optional<int64_t> number = dist::getColocation(&op);
    // Without numbers: program order.
    byNumber[number ? *number : next++].push_back(&op);
  }
  std::vector<SmallVector<Operation *>> groups;
  for (auto &entry : byNumber)
    groups.push_back(std::move(entry.second));
  return joinWhatCannotBeSent(std::move(groups));
}

bool kerf::plan::isWorkWaived(const PlanOptions &options) {
  int64_t asked = 1;
  for (const auto &axis : options.mesh)
    asked *= axis.second;
  return options.anyShareOfWork ||
         (!options.mesh.empty() && asked == options.devices);
}

int64_t kerf::plan::wholeFlops(Operation *op) {
  auto costed = dyn_cast<OpCostInterface>(op);
  if (!costed)
    return 0;
  auto typesOf = [](auto values) {
    SmallVector<RankedTensorType> types;
    for (Value value : values)
      types.push_back(tensorType(value));
    return types;
  };
  return costed.getFlops(typesOf(op->getOperands()), typesOf(op->getResults()));
}

std::vector<double> Crossings::sentFrom(size_t end) const {
  std::vector<double> sent(end, 0), inside(end, 0);
  double now = 0;
  for (size_t begin = end; begin-- > 0;) {
    for (const Crossing &crossing : byMaker[begin]) {
      if (crossing.last >= end) {
        now += crossing.bytes;
      } else if (crossing.first < begin) {
        now += crossing.bytes;
        inside[crossing.first] += crossing.bytes;
      }
    }
    now -= inside[begin];
    sent[begin] = now;
  }
  return sent;
}
