//===- SplitStages.cpp - a step as functions of its stages ----------------===//
//
// Ops are moved into the function of their stage (StageFunctions.h). A value
// that another stage uses is sent on a channel, one per (value, receiving
// stage), directly from its producer, even across several stages. A value that
// a later function of its own stage uses (also of another chunk) is kept in a
// slot, unless ops without arithmetic can make it again (KeptValues.h). Sources
// are cloned into each function that uses them instead; a source that several
// stages use is assigned in all of them (tied weights). Linear in the ops and
// their operands, except for the cut of KeptValues.h.
//
//===----------------------------------------------------------------------===//
#include "StageFunctions.h"

#include "kerf/Dist/Entry.h"
#include "kerf/Dist/MovePurpose.h"
#include "kerf/Fusion/KeptValues.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Interfaces/Bounded.h"
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

#include <map>

namespace kerf {
#define GEN_PASS_DEF_SPLITSTAGES
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

bool isSource(Value value) {
  return isa_and_nonnull<SourceOpInterface>(value.getDefiningOp());
}

/// Where a result of a function goes.
struct ResultUses {
  SmallVector<int64_t> outputs, channels, kept;
};

/// A function that is being built.
struct FunctionEnds {
  SmallVector<Operation *> ops;
  llvm::MapVector<Value, NamedAttrList> arguments;
  llvm::MapVector<Value, ResultUses> results;
  /// Values that earlier functions of the stage make and this one uses.
  llvm::SetVector<Value> needed;
  /// Sums over micro-batches that are made here.
  SmallVector<AccumulateOp> sums;
};

class Splitter {
public:
  Splitter(func::FuncOp main, const Mesh &mesh)
      : main(main), mesh(mesh), context(main.getContext()), steps(main, mesh),
        builder(context) {}

  void run() {
    collectOps();
    collectUses();
    collectOutputs();
    for (auto &[which, ends] : functions)
      keepWhatIsNeeded(which, ends);
    builder.setInsertionPointAfter(main);
    for (auto &[which, ends] : functions)
      build(which, ends);
    main.eraseBody();
    main.setPrivate();
  }

private:
  //===--------------------------------------------------------------------===//
  // Which function computes what
  //===--------------------------------------------------------------------===//

  void collectOps() {
    if (steps.isOneFunction())
      (void)functions[StageFunction{0, StageFunction::Forward, 0}];
    else
      for (int64_t stage = 0; stage < steps.numStages(); ++stage)
        for (int64_t chunk = 0; chunk < steps.numChunks(); ++chunk)
          (void)
              functions[StageFunction{stage, StageFunction::Forward, 0, chunk}];
    for (Operation &op : main.getBody().front().without_terminator()) {
      if (isSource(&op))
        continue;
      FunctionEnds &ends = functions[steps.functionOf(&op)];
      ends.ops.push_back(&op);
      if (auto accumulate = dyn_cast<AccumulateOp>(op);
          accumulate && steps.isSum(accumulate))
        ends.sums.push_back(accumulate);
    }
  }

  static bool isSource(Operation *op) { return isa<SourceOpInterface>(op); }
  static bool isSource(Value value) { return ::isSource(value); }

  /// Whether the value is made in `which` and can be used there. A sum over
  /// micro-batches is complete only in the update.
  bool isLocal(Value value, const StageFunction &which) const {
    return steps.functionOf(value.getDefiningOp()) == which &&
           steps.senderOf(value) == which;
  }

  //===--------------------------------------------------------------------===//
  // What functions take
  //===--------------------------------------------------------------------===//

  void collectUses() {
    // Stage by stage, so that channels are numbered by their receivers. The map
    // may grow: an update may exist only to send a sum.
    SmallVector<StageFunction> all;
    for (auto &[which, ends] : functions)
      all.push_back(which);
    for (const StageFunction &which : all)
      for (Operation *op : functions[which].ops)
        for (Value operand : op->getOperands())
          use(operand, which);
  }

  void use(Value value, const StageFunction &which) {
    if (isSource(value))
      return;
    FunctionEnds &ends = functions[which];
    if (auto argument = dyn_cast<BlockArgument>(value))
      return takeInput(argument, which, ends);
    if (isLocal(value, which))
      return;
    if (steps.functionOf(value.getDefiningOp()).stage != which.stage)
      return receive(value, which, ends);
    ends.needed.insert(value);
  }

  void takeInput(BlockArgument argument, const StageFunction &which,
                 FunctionEnds &ends) {
    auto [it, added] = ends.arguments.insert({argument, {}});
    if (!added)
      return;
    NamedAttrList &attributes = it->second;
    if (auto all = main.getArgAttrDict(argument.getArgNumber()))
      attributes.append(all.getValue());
    setFrom(attributes, From::Input, argument.getArgNumber());
    // A function that runs once per step reads all micro-batches.
    if (which.runsOncePerStep())
      attributes.set(kSharding,
                     toAttr(withoutTime(getLayout(argument, mesh), mesh)));
  }

  void receive(Value value, const StageFunction &which, FunctionEnds &ends) {
    auto [number, isNew] = channels.insert({{value, which.stage}, numChannels});
    if (isNew) {
      ++numChannels;
      StageFunction sender = steps.senderOf(value);
      builder.setInsertionPoint(main);
      ChannelOp::create(builder, value.getLoc(), number->second, sender.stage,
                        which.stage, value.getType(),
                        purposeOf(value, which.stage),
                        sender.kind == StageFunction::Forward
                            ? PhaseAttr()
                            : PhaseAttr::get(context, steps.phaseOf(sender)));
      FunctionEnds &from = functions[sender];
      from.results[value].channels.push_back(number->second);
      if (!isLocal(value, sender))
        from.needed.insert(value);
    }
    auto [it, added] = ends.arguments.insert({value, {}});
    if (!added)
      return;
    it->second.set(kSharding, getSharding(value));
    setFrom(it->second, From::Recv, number->second);
  }

  /// The purpose of the producer; else `parameter` for new values of
  /// parameters, else what a user states. Activation is the default.
  PurposeAttr purposeOf(Value value, int64_t stage) {
    Operation *producer = value.getDefiningOp();
    SmallVector<Operation *> users;
    for (Operation *user : value.getUsers())
      if (!user->hasTrait<OpTrait::IsTerminator>() && getStage(user) == stage)
        users.push_back(user);
    if (!users.empty() &&
        llvm::all_of(users, [](Operation *op) { return isa<AssignOp>(op); }))
      return PurposeAttr::get(context, Purpose::Parameter);
    if (PurposeAttr purpose = getPurpose(producer))
      return purpose;
    for (Operation *user : users)
      if (PurposeAttr purpose = purposeOfOperands(user))
        return purpose;
    if (getPhase(producer) == Phase::BackwardWeight)
      return PurposeAttr::get(context, Purpose::Gradient);
    return PurposeAttr();
  }

  void collectOutputs() {
    Operation *terminator = main.getBody().front().getTerminator();
    for (OpOperand &use : terminator->getOpOperands()) {
      Value value = use.get();
      StageFunction which = {0, StageFunction::Forward, 0};
      if (value.getDefiningOp() && !isSource(value)) {
        which = steps.senderOf(value);
        if (!isLocal(value, which))
          functions[which].needed.insert(value);
      } else {
        this->use(value, which);
      }
      functions[which].results[value].outputs.push_back(use.getOperandNumber());
    }
  }

  //===--------------------------------------------------------------------===//
  // What functions leave for each other
  //===--------------------------------------------------------------------===//

  /// Ops that only move elements, or change their type.
  bool canRepeat(Value value, const StageFunction &user) {
    Operation *op = value.getDefiningOp();
    if (op->getNumResults() != 1 || steps.functionOf(op).stage != user.stage)
      return false;
    // The update may already have assigned the source that the op reads.
    if (user.kind == StageFunction::Update)
      for (Value operand : op->getOperands())
        if (auto source = operand.getDefiningOp<SourceOpInterface>();
            source && source.isMutable())
          return false;
    if (auto accumulate = dyn_cast<AccumulateOp>(op))
      return !steps.isSum(accumulate);
    // Micro-batches read their part of an input, the update reads all of it.
    if (steps.functionOf(op).runsOncePerStep() != user.runsOncePerStep())
      for (Value operand : op->getOperands())
        if (isa<BlockArgument>(operand) ||
            (user.runsOncePerStep() && steps.varies(operand)))
          return false;
    if (!canBeCut(value.getType()))
      return isMemoryEffectFree(op);
    auto type = cast<RankedTensorType>(value.getType());
    if (auto reshard = dyn_cast<ReshardOp>(op)) {
      Layout from = getLayout(reshard.getX(), mesh);
      auto way = decomposeReshard(from, getLayout(value, mesh), type.getShape(),
                                  elementBytes(type.getElementType()), mesh);
      return way && llvm::all_of(way->steps, [](const ReshardStep &step) {
               return step.isLocal();
             });
    }
    return movesOrCasts(op);
  }

  /// More than any tensor, but sums of it do not overflow.
  static constexpr int64_t kTooMuch = int64_t(1) << 50;

  int64_t bytesOf(Value value) {
    return sizeBytes(localType(cast<RankedTensorType>(value.getType()),
                               getLayout(value, mesh)));
  }

  /// The slot of `value` among what its stage keeps, or -1.
  int64_t findKept(Value value, int64_t stage) {
    auto found = kept.find({value, stage});
    return found == kept.end() ? -1 : found->second;
  }

  void keepWhatIsNeeded(const StageFunction &which, FunctionEnds &ends) {
    if (ends.needed.empty())
      return;
    auto isReceived = [&](Value value) {
      return channels.count({value, which.stage}) > 0;
    };
    auto isFree = [&](Value value) {
      return isSource(value) || isa<BlockArgument>(value) ||
             ends.arguments.count(value);
    };
    auto canRepeatHere = [&](Value value) {
      return !isReceived(value) && canRepeat(value, which);
    };
    auto bytes = [&](Value value) -> int64_t {
      if (!canBeCut(value.getType()))
        return kTooMuch; // slots are tensors
      if (auto accumulate = value.getDefiningOp<AccumulateOp>();
          accumulate && !steps.isSum(accumulate))
        return kTooMuch; // equal to its operand, which is kept instead
      return findKept(value, which.stage) >= 0 ? 0 : bytesOf(value);
    };
    KeptProblem problem{SmallVector<Value>(ends.needed.getArrayRef()), isFree,
                        canRepeatHere, bytes};
    for (Value value : chooseKeptValues(problem)) {
      if (isReceived(value)) {
        receive(value, which, ends);
        continue;
      }
      int64_t number = findKept(value, which.stage);
      if (number < 0) {
        number = numKept[which.stage]++;
        kept[{value, which.stage}] = number;
        functions[steps.functionOf(value.getDefiningOp())]
            .results[value]
            .kept.push_back(number);
      }
      NamedAttrList &attributes = ends.arguments[value];
      attributes.set(kSharding, getSharding(value));
      setFrom(attributes, From::Kept, number);
    }
    // Inputs of the ops that are repeated.
    SmallVector<Value> work(ends.needed.getArrayRef());
    llvm::DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      if (isSource(value) || ends.arguments.count(value) ||
          !seen.insert(value).second)
        continue;
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        takeInput(argument, which, ends);
        continue;
      }
      llvm::append_range(work, value.getDefiningOp()->getOperands());
    }
  }

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  void setFrom(NamedAttrList &attributes, From kind, int64_t number) {
    attributes.set(kFrom, FromAttr::get(context, kind, number));
  }

  ShardingAttr toAttr(const Layout &layout) {
    return ShardingAttr::get(context, MeshAttr::get(context, mesh), layout);
  }

  void build(const StageFunction &which, FunctionEnds &ends) {
    SmallVector<Type> argumentTypes, resultTypes;
    for (auto &[value, attributes] : ends.arguments)
      argumentTypes.push_back(value.getType());
    for (AccumulateOp sum : ends.sums) {
      (void)ends.results[sum.getResult()];
      argumentTypes.push_back(sum.getType());
    }
    for (auto &[value, uses] : ends.results)
      resultTypes.push_back(value.getType());
    auto function = func::FuncOp::create(
        builder, main.getLoc(),
        freeSymbol(main->getParentOfType<ModuleOp>(), steps.nameOf(which)),
        builder.getFunctionType(argumentTypes, resultTypes));
    setPart(function, which.stage, steps.phaseOf(which), which.chunk);
    Block *block = function.addEntryBlock();
    IRMapping mapping;
    SmallVector<DictionaryAttr> argumentAttrs, resultAttrs;
    for (auto [index, entry] : llvm::enumerate(ends.arguments)) {
      mapping.map(entry.first, block->getArgument(index));
      argumentAttrs.push_back(entry.second.getDictionary(context));
    }
    for (auto &[value, uses] : ends.results)
      resultAttrs.push_back(resultAttributes(value, uses));
    llvm::DenseMap<Operation *, Value> sumSoFar;
    for (auto [index, sum] : llvm::enumerate(ends.sums)) {
      int64_t argument = ends.arguments.size() + index;
      NamedAttrList attributes;
      attributes.set(kSharding, getSharding(sum.getResult()));
      setFrom(attributes, From::Accumulator,
              std::distance(ends.results.begin(),
                            ends.results.find(sum.getResult())));
      argumentAttrs.push_back(attributes.getDictionary(context));
      sumSoFar[sum] = block->getArgument(argument);
    }
    function.setAllArgAttrs(argumentAttrs);
    function.setAllResultAttrs(resultAttrs);

    auto body = OpBuilder::atBlockEnd(block);
    for (Operation *op : ends.ops) {
      for (Value operand : op->getOperands())
        materialize(operand, mapping, body);
      if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
        if (Value sum = sumSoFar.lookup(op)) {
          auto added = cast<AccumulateOp>(body.clone(*op, mapping));
          added.getIntoMutable().assign(sum);
          // The operands' shardings no longer apply; only types matter from
          // here on.
          setOperandShardings(added, {});
        } else {
          mapping.map(accumulate.getResult(),
                      mapping.lookup(accumulate.getX()));
        }
        continue;
      }
      if (functions.size() > 1)
        body.clone(*op, mapping);
      else
        move(op, mapping, body);
    }
    SmallVector<Value> results;
    for (auto &[value, uses] : ends.results) {
      materialize(value, mapping, body);
      results.push_back(mapping.lookup(value));
    }
    func::ReturnOp::create(body, main.getLoc(), results);
    builder.setInsertionPointAfter(function);
  }

  DictionaryAttr resultAttributes(Value value, const ResultUses &uses) {
    NamedAttrList attributes;
    if (!uses.outputs.empty())
      if (auto all = main.getResultAttrDict(uses.outputs.front()))
        attributes.append(all.getValue());
    // These count results of the whole program.
    attributes.erase(kBoundedAttr);
    attributes.erase(kLengthAttr);
    if (!uses.outputs.empty() || !uses.channels.empty() || !uses.kept.empty())
      attributes.set(
          kTo, ToAttr::get(context, uses.outputs, uses.channels, uses.kept));
    attributes.set(kSharding, getSharding(value));
    return attributes.getDictionary(context);
  }

  /// An op that no other function repeats needs no copy.
  static void move(Operation *op, IRMapping &mapping, OpBuilder &body) {
    for (OpOperand &operand : op->getOpOperands())
      operand.set(mapping.lookup(operand.get()));
    op->moveBefore(body.getBlock(), body.getInsertionPoint());
    mapping.map(op->getResults(), op->getResults());
  }

  /// Makes a value in `body` that it lacks: a source, or a value to be
  /// repeated.
  void materialize(Value value, IRMapping &mapping, OpBuilder &body) {
    if (mapping.contains(value))
      return;
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      materialize(operand, mapping, body);
    if (auto accumulate = dyn_cast<AccumulateOp>(op))
      mapping.map(value, mapping.lookup(accumulate.getX()));
    else
      body.clone(*op, mapping);
  }

  func::FuncOp main;
  const Mesh &mesh;
  MLIRContext *context;
  StageFunctions steps;
  OpBuilder builder;
  std::map<StageFunction, FunctionEnds> functions;
  llvm::DenseMap<std::pair<Value, int64_t>, int64_t> channels, kept;
  llvm::DenseMap<int64_t, int64_t> numKept;
  int64_t numChannels = 0;
};

struct SplitStages : kerf::impl::SplitStagesBase<SplitStages> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto main = dist::findEntry(module);
    if (!main || main.isExternal())
      return;
    Mesh mesh = getMesh(module).toMesh();
    Splitter(main, mesh).run();
  }
};

} // namespace
