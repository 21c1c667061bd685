//===- Program.cpp - a partitioned program as one function ----------------===//
//
// Partitioning gives a function per stage and a list of instructions that runs
// it (docs/Partition.md). `shard` has one function, which all devices run. With
// one stage that the list runs once both say the same: the list's inputs are
// the arguments, its outputs the results.
//
//===----------------------------------------------------------------------===//
#include "Bridge.h"

#include "kerf/Dist/Entry.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

/// What the schedule of a stage does, if it runs one function once.
struct SingleRun {
  RunOp run;
  /// Numbers of the program's inputs that are the operands, and of its outputs
  /// with the results that they are, in order of the instructions.
  SmallVector<int64_t> inputs;
  SmallVector<std::pair<int64_t, unsigned>> outputs;
};

} // namespace

static FailureOr<SingleRun> readSchedule(ScheduleOp schedule) {
  SingleRun single;
  DenseMap<Value, int64_t> numbers;
  for (Operation &op : schedule.getBody().front()) {
    if (auto input = dyn_cast<InputOp>(op)) {
      numbers[input.getResult()] = input.getIndex();
    } else if (auto run = dyn_cast<RunOp>(op)) {
      if (single.run) {
        InFlightDiagnostic error = op.emitError(
            "is a second run of a stage, expected one that shard's single "
            "function can be");
        error.attachNote(single.run.getLoc()) << "the first one";
        return error;
      }
      single.run = run;
      for (Value operand : run.getOperands())
        single.inputs.push_back(numbers.at(operand));
    } else if (auto output = dyn_cast<OutputOp>(op)) {
      auto result = dyn_cast<OpResult>(output.getX());
      if (!result || result.getOwner() != single.run.getOperation())
        return op.emitError("hands out what no run gives");
      single.outputs.emplace_back(output.getIndex(), result.getResultNumber());
    } else {
      return op.emitError("has no place in a single function, which is all "
                          "that shard has");
    }
  }
  if (!single.run)
    return schedule.emitError("runs nothing");
  return single;
}

static RankedTensorType localOf(Type type, Attribute sharding,
                                const Mesh &mesh) {
  return localType(cast<RankedTensorType>(type),
                   llvm::cantFail(cast<ShardingAttr>(sharding).toLayout(mesh)));
}

/// Whether the boundary has what the schedule reads and hands out.
static LogicalResult check(func::FuncOp entry, func::FuncOp part,
                           const SingleRun &single) {
  auto wrong = [&](const Twine &what) { return entry.emitError() << what; };
  if (!entry.isExternal() || part.isExternal())
    return wrong("is not the declaration that partition leaves of a program");
  auto isSharded = [](Type type, Attribute sharding) {
    return isa<RankedTensorType>(type) &&
           isa_and_nonnull<ShardingAttr>(sharding);
  };
  for (auto [index, type] : llvm::enumerate(entry.getArgumentTypes()))
    if (!isSharded(type, entry.getArgAttr(index, kSharding)))
      return wrong("argument " + Twine(index) + " has no sharding");
  for (auto [index, type] : llvm::enumerate(entry.getResultTypes()))
    if (!isSharded(type, entry.getResultAttr(index, kSharding)))
      return wrong("result " + Twine(index) + " has no sharding");
  if (single.inputs.size() != part.getNumArguments())
    return wrong("the schedule passes " + Twine(single.inputs.size()) +
                 " inputs to a function of " + Twine(part.getNumArguments()));
  for (int64_t input : single.inputs)
    if (input < 0 || input >= static_cast<int64_t>(entry.getNumArguments()))
      return wrong("the schedule reads input " + Twine(input) + " of " +
                   Twine(entry.getNumArguments()));
  for (auto [output, result] : single.outputs)
    if (static_cast<int64_t>(output) < 0 ||
        static_cast<int64_t>(output) >=
            static_cast<int64_t>(entry.getNumResults()) ||
        static_cast<int64_t>(result) >=
            static_cast<int64_t>(part.getNumResults()))
      return wrong("the schedule hands out output " + Twine(output) + " of " +
                   Twine(entry.getNumResults()));
  return success();
}

/// The body of `part` becomes that of `entry`, whose types become local.
static LogicalResult fill(func::FuncOp entry, func::FuncOp part,
                          const SingleRun &single, const Mesh &mesh) {
  MLIRContext *context = entry.getContext();
  SmallVector<Type> arguments, results;
  for (auto [index, type] : llvm::enumerate(entry.getArgumentTypes()))
    arguments.push_back(
        localOf(type, entry.getArgAttr(index, kSharding), mesh));
  for (auto [index, type] : llvm::enumerate(entry.getResultTypes()))
    results.push_back(
        localOf(type, entry.getResultAttr(index, kSharding), mesh));
  entry.setType(FunctionType::get(context, arguments, results));
  entry.getBody().takeBody(part.getBody());
  Block &block = entry.getBody().front();
  // The part has an argument for each input that it reads.
  unsigned numRead = block.getNumArguments();
  for (Type type : arguments)
    block.addArgument(type, entry.getLoc());
  for (unsigned i = 0; i < numRead; ++i)
    block.getArgument(i).replaceAllUsesWith(
        block.getArgument(numRead + single.inputs[i]));
  block.eraseArguments(0, numRead);
  Operation *end = block.getTerminator();
  SmallVector<Value> values(results.size());
  for (auto [output, result] : single.outputs)
    values[output] = end->getOperand(result);
  if (llvm::is_contained(values, Value()))
    return entry.emitError("has a result that the schedule does not hand out");
  end->setOperands(values);
  for (unsigned i = 0; i < arguments.size(); ++i)
    entry.removeArgAttr(i, kSharding);
  for (unsigned i = 0; i < results.size(); ++i)
    entry.removeResultAttr(i, StringAttr::get(context, kSharding));
  return success();
}

LogicalResult bridge::joinProgram(ModuleOp module) {
  SmallVector<ScheduleOp> schedules(module.getOps<ScheduleOp>());
  if (schedules.empty())
    return success();
  if (schedules.size() > 1)
    return schedules[1].emitError("is a second stage, which shard does not "
                                  "have");
  auto single = readSchedule(schedules.front());
  if (failed(single))
    return failure();
  SymbolTable symbols(module);
  auto part = symbols.lookup<func::FuncOp>(single->run.getCallee());
  if (!part)
    return schedules.front().emitError("runs a function that is not there");
  func::FuncOp entry = findEntryOrEmit(module);
  if (!entry)
    return failure();
  if (failed(check(entry, part, *single)) ||
      failed(fill(entry, part, *single, getMesh(module).toMesh())))
    return failure();
  entry.setVisibility(part.getVisibility());
  entry->moveBefore(part);
  symbols.erase(part);
  schedules.front().erase();
  return success();
}
