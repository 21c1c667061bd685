//===- JoinUpdates.cpp - the last backward pass and its update
//-------------===//
//
// Problem: gradients are completed one by one while the last micro-batch's
// backward pass runs, but they are summed over devices in the update, another
// function, so no computation would overlap these sums.
//
// Idea: the last of the runs per micro-batch and the first update become one
// function, @stageN_backward_update0, in which the collectives phase starts
// each sum right behind its gradient. Only if neither function sends anything
// to another stage, since such a send would be delayed. In a backward pass only
// the first stage sends nothing, and it ends last: the sums of the other stages
// overlap its work.
//
// Invariant: the computed values and the order in which they are added stay.
//
//===----------------------------------------------------------------------===//
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace kerf {
#define GEN_PASS_DEF_JOINUPDATES
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

class Joiner {
public:
  Joiner(RunOp last, func::FuncOp backward, RunOp update, func::FuncOp updating)
      : last(last), update(update), backward(backward), updating(updating) {}

  void join() {
    OpBuilder builder(update);
    collectArguments();
    collectResults();
    func::FuncOp joined = build();
    auto run = RunOp::create(builder, last.getLoc(), joined.getResultTypes(),
                             joined.getName(), operands, last.getMicroBatch());
    // Outputs of the last run follow it.
    Operation *behind = run;
    for (Operation *op = last->getNextNode(), *next; op != run; op = next) {
      next = op->getNextNode();
      if (isa<OutputOp>(op)) {
        op->moveAfter(behind);
        behind = op;
      }
    }
    for (auto [i, result] : llvm::enumerate(results))
      result.first.replaceAllUsesWith(run.getResult(i));
    update.erase();
    last.erase();
  }

private:
  static bool accumulates(func::FuncOp function, unsigned argument) {
    return bool(numberFrom(function, argument, From::Accumulator));
  }

  void collectArguments() {
    llvm::append_range(operands, last.getOperands());
    for (unsigned i = 0; i < backward.getNumArguments(); ++i)
      attributes.push_back(backward.getArgAttrDict(i));
    for (auto [i, operand] : llvm::enumerate(update.getOperands())) {
      if (auto made = dyn_cast<OpResult>(operand);
          made && made.getOwner() == last) {
        givenByResult[i] = made.getResultNumber();
        continue;
      }
      unsigned same = 0;
      while (same < operands.size() &&
             (operands[same] != operand || (same < backward.getNumArguments() &&
                                            accumulates(backward, same))))
        ++same;
      givenByArgument[i] = same;
      if (same < operands.size())
        continue;
      operands.push_back(operand);
      attributes.push_back(updating.getArgAttrDict(i));
    }
  }

  /// Collects the results of the last run that others read, and the sums, which
  /// are in slots of their own.
  void collectResults() {
    llvm::SmallDenseSet<int64_t> sums;
    for (unsigned i = 0; i < backward.getNumArguments(); ++i)
      if (auto sum = numberFrom(backward, i, From::Accumulator))
        sums.insert(*sum);
    for (OpResult result : last->getResults()) {
      bool read = llvm::any_of(result.getUsers(),
                               [&](Operation *user) { return user != update; });
      if (!read && !sums.contains(result.getResultNumber()))
        continue;
      numberOf[result.getResultNumber()] = results.size();
      results.push_back(
          {result, backward.getResultAttrDict(result.getResultNumber())});
    }
    for (OpResult result : update->getResults())
      results.push_back(
          {result, updating.getResultAttrDict(result.getResultNumber())});
  }

  func::FuncOp build() {
    SmallVector<Type> argumentTypes, resultTypes;
    for (Value operand : operands)
      argumentTypes.push_back(operand.getType());
    for (auto &[result, attributes] : results)
      resultTypes.push_back(result.getType());
    OpBuilder builder(updating->getContext());
    builder.setInsertionPointAfter(updating);
    StringRef name = updating.getName();
    auto joined = func::FuncOp::create(
        builder, backward.getLoc(),
        (backward.getName() + name.substr(name.find('_'))).str(),
        builder.getFunctionType(argumentTypes, resultTypes));
    joined->setDiscardableAttrs(backward->getDiscardableAttrDictionary());
    for (auto [i, given] : llvm::enumerate(attributes)) {
      NamedAttrList list(given);
      if (auto from = dyn_cast_or_null<FromAttr>(list.get(kFrom));
          from && from.getKind() == From::Accumulator)
        list.set(kFrom, FromAttr::get(joined.getContext(), From::Accumulator,
                                      numberOf.lookup(from.getNumber())));
      attributes[i] = list.getDictionary(joined.getContext());
    }
    joined.setAllArgAttrs(attributes);
    joined.setAllResultAttrs(llvm::to_vector(llvm::make_second_range(results)));

    Block *block = joined.addEntryBlock();
    auto body = OpBuilder::atBlockEnd(block);
    IRMapping mapping;
    for (unsigned i = 0; i < backward.getNumArguments(); ++i)
      mapping.map(backward.getArgument(i), block->getArgument(i));
    Operation *given = cloneBody(backward, mapping, body);
    for (auto [i, number] : givenByResult)
      mapping.map(updating.getArgument(i),
                  mapping.lookup(given->getOperand(number)));
    for (auto [i, number] : givenByArgument)
      mapping.map(updating.getArgument(i), block->getArgument(number));
    Operation *updated = cloneBody(updating, mapping, body);
    SmallVector<Value> returned;
    for (auto &[result, attributes] : results)
      returned.push_back(
          mapping.lookup((result.getOwner() == last ? given : updated)
                             ->getOperand(result.getResultNumber())));
    func::ReturnOp::create(body, joined.getLoc(), returned);
    return joined;
  }

  /// Returns the terminator, which is not cloned.
  static Operation *cloneBody(func::FuncOp function, IRMapping &mapping,
                              OpBuilder &body) {
    Block &block = function.getBody().front();
    for (Operation &op : block.without_terminator())
      body.clone(op, mapping);
    return block.getTerminator();
  }

  RunOp last, update;
  func::FuncOp backward, updating;
  SmallVector<Value> operands;
  SmallVector<DictionaryAttr> attributes;
  SmallVector<std::pair<OpResult, DictionaryAttr>> results;
  /// Where an argument of the update comes from.
  llvm::SmallDenseMap<unsigned, unsigned> givenByResult, givenByArgument;
  llvm::SmallDenseMap<int64_t, int64_t> numberOf; ///< of a result that stays
};

/// Whether the update sums gradients over devices.
bool sumsGradients(func::FuncOp update) {
  return llvm::any_of(update.getBody().front().getOps<CollectiveOpInterface>(),
                      [](CollectiveOpInterface collective) {
                        return collective.getPurposeOrDefault() ==
                               Purpose::Gradient;
                      });
}

bool sends(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (!sendsOf(function, i).empty())
      return true;
  return false;
}

void joinUpdate(ScheduleOp schedule, SymbolTable &symbols) {
  RunOp last, update;
  for (auto run : schedule.getBody().front().getOps<RunOp>()) {
    auto function = symbols.lookup<func::FuncOp>(run.getCallee());
    if (getPhase(function) == Phase::Update) {
      update = run;
      break;
    }
    last = getPhase(function) == Phase::Prologue ? RunOp() : run;
  }
  if (!last || !update)
    return;
  auto backward = symbols.lookup<func::FuncOp>(last.getCallee()),
       updating = symbols.lookup<func::FuncOp>(update.getCallee());
  if (!sumsGradients(updating) || sends(backward) || sends(updating))
    return;
  for (Operation *op = last->getNextNode(); op != update;
       op = op->getNextNode())
    if (!isa<InputOp, OutputOp>(op))
      return;
  Joiner(last, backward, update, updating).join();
}

struct JoinUpdates : kerf::impl::JoinUpdatesBase<JoinUpdates> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    for (auto schedule : module.getOps<ScheduleOp>())
      joinUpdate(schedule, symbols);
    llvm::SmallDenseSet<StringRef> used;
    module.walk([&](RunOp run) { used.insert(run.getCallee()); });
    for (auto function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (getPart(function) && !function.isExternal() &&
          !used.contains(function.getName()))
        function.erase();
  }
};

} // namespace
