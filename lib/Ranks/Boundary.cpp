//===- Boundary.cpp - the program's function and its lists ----------------===//
//
// A part that is the whole tensor is not copied: the function reads the host's
// memory. What is sent stays readable up to the end of the list.
//
//===----------------------------------------------------------------------===//
#include "Boundary.h"

#include "Buffers.h"
#include "LocalOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ranks;

namespace {

/// What the lists of all stages have in common.
struct Boundary {
  func::FuncOp entry;
  SmallVector<RankedTensorType> inputs, outputs;
  SmallVector<dist::ShardingAttr> inputShardings, outputShardings;
  llvm::DenseMap<int64_t, int64_t> channels; ///< by number: entries
  Description &description;
  Calls &calls;

  Boundary(func::FuncOp entry, Description &description, Calls &calls)
      : entry(entry), description(description), calls(calls) {}

  LogicalResult read();
  FunctionType functionType();
};

LogicalResult Boundary::read() {
  auto add = [&](Type type, Attribute sharding, const char *what, unsigned i,
                 SmallVectorImpl<RankedTensorType> &types,
                 SmallVectorImpl<dist::ShardingAttr> &shardings) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding())
      return LogicalResult(entry.emitError(what)
                           << " " << i << " of @" << entry.getName() << " is "
                           << type
                           << ", expected a dense tensor of static shape");
    types.push_back(tensor);
    shardings.push_back(dyn_cast_or_null<dist::ShardingAttr>(sharding));
    return success();
  };
  for (auto [i, type] : llvm::enumerate(entry.getArgumentTypes()))
    if (failed(add(type, entry.getArgAttr(i, dist::kSharding), "argument", i,
                   inputs, inputShardings)))
      return failure();
  for (auto [i, type] : llvm::enumerate(entry.getResultTypes()))
    if (failed(add(type, entry.getResultAttr(i, dist::kSharding), "result", i,
                   outputs, outputShardings)))
      return failure();
  auto module = entry->getParentOfType<ModuleOp>();
  for (auto channel : module.getOps<dist::ChannelOp>()) {
    FailureOr<int64_t> index = description.addChannel(channel);
    if (failed(index))
      return failure();
    channels[channel.getNumber()] = *index;
  }
  return success();
}

FunctionType Boundary::functionType() {
  SmallVector<Type> types{LLVM::LLVMPointerType::get(entry.getContext())};
  for (const auto *list : {&inputs, &outputs})
    for (RankedTensorType type : *list)
      types.push_back(bufferType(type));
  return FunctionType::get(entry.getContext(), types, {});
}

/// The list of one stage as the body of a function.
class StageBody {
public:
  StageBody(Boundary &boundary, func::FuncOp function)
      : boundary(boundary), function(function), rank(function.getArgument(0)),
        builder(OpBuilder::atBlockEnd(&function.getBody().front())) {}

  LogicalResult run(dist::ScheduleOp schedule) {
    for (Operation &op : schedule.getBody().front())
      if (failed(lower(&op)))
        return failure();
    finishSends(schedule.getLoc());
    return success();
  }

private:
  LogicalResult lower(Operation *op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<dist::InputOp, dist::OutputOp, dist::RunOp, dist::SendOp,
              dist::RecvOp>([&](auto typed) { return lower(typed); })
        .Case<dist::ZeroOp>([&](auto zero) {
          slots.map(zero.getResult(),
                    createZeros(builder, op->getLoc(), typeOf(zero)));
          return success();
        })
        .Default([](Operation *other) {
          return other->emitOpError("has no form that calls the runtime");
        });
  }

  LogicalResult lower(dist::InputOp op) {
    auto index = static_cast<unsigned>(op.getIndex());
    if (index >= boundary.inputs.size())
      return op.emitOpError("is of input ")
             << index << ", but @" << boundary.entry.getName() << " has "
             << boundary.inputs.size();
    Location loc = op.getLoc();
    Value whole = function.getArgument(1 + index);
    RankedTensorType local = op.getType();
    if (local == boundary.inputs[index]) {
      Value &tensor = wholeInputs[index];
      if (!tensor) {
        OpBuilder first = OpBuilder::atBlockBegin(whole.getParentBlock());
        tensor = readTensor(first, loc, whole);
      }
      slots.map(op.getResult(), tensor);
      return success();
    }
    auto sharding = op->getAttrOfType<dist::ShardingAttr>(dist::kSharding);
    FailureOr<int64_t> part = boundary.description.addPart(
        op, boundary.inputs[index], local,
        sharding ? sharding : boundary.inputShardings[index]);
    if (failed(part))
      return failure();
    Value buffer = newBuffer(builder, loc, local);
    call(loc, "kerf_take_" + Twine(*part), "kerf_rank_take",
         {*part, static_cast<int64_t>(op.getMicroBatch())}, {whole, buffer});
    slots.map(op.getResult(), readTensor(builder, loc, buffer));
    return success();
  }

  LogicalResult lower(dist::OutputOp op) {
    auto index = static_cast<unsigned>(op.getIndex());
    if (index >= boundary.outputs.size())
      return op.emitOpError("is to output ")
             << index << ", but @" << boundary.entry.getName() << " has "
             << boundary.outputs.size();
    Location loc = op.getLoc();
    FailureOr<int64_t> part = boundary.description.addPart(
        op, boundary.outputs[index], op.getX().getType(),
        boundary.outputShardings[index]);
    if (failed(part))
      return failure();
    Value whole = function.getArgument(1 + boundary.inputs.size() + index);
    call(loc, "kerf_give_" + Twine(*part), "kerf_rank_give",
         {*part, static_cast<int64_t>(op.getMicroBatch())},
         {boundary.calls.readBuffer(builder, loc, slots.lookup(op.getX())),
          whole});
    return success();
  }

  LogicalResult lower(dist::RunOp op) {
    SmallVector<Value> operands{rank, number(op.getLoc(), op.getMicroBatch())};
    for (Value operand : op.getOperands())
      operands.push_back(slots.lookup(operand));
    auto run = func::CallOp::create(builder, op.getLoc(), op.getCallee(),
                                    op.getResultTypes(), operands);
    slots.map(op.getResults(), run.getResults());
    return success();
  }

  LogicalResult lower(dist::SendOp op) {
    FailureOr<int64_t> channel = channelOf(op);
    if (failed(channel))
      return failure();
    Value tensor = slots.lookup(op.getX());
    Value buffer = boundary.calls.readBuffer(builder, op.getLoc(), tensor);
    call(op.getLoc(), "kerf_send_" + Twine(*channel), "kerf_rank_send",
         {*channel, static_cast<int64_t>(op.getMicroBatch())}, buffer);
    sent[*channel].push_back({tensor, buffer});
    return success();
  }

  LogicalResult lower(dist::RecvOp op) {
    FailureOr<int64_t> channel = channelOf(op);
    if (failed(channel))
      return failure();
    Value buffer = newBuffer(builder, op.getLoc(), op.getType());
    call(op.getLoc(), "kerf_receive_" + Twine(*channel), "kerf_rank_receive",
         {*channel, static_cast<int64_t>(op.getMicroBatch())}, buffer);
    slots.map(op.getResult(), readTensor(builder, op.getLoc(), buffer));
    return success();
  }

  template <typename Op> FailureOr<int64_t> channelOf(Op op) {
    auto found = boundary.channels.find(op.getChannel());
    if (found == boundary.channels.end())
      return op.emitOpError("names channel ")
             << op.getChannel() << ", which the module does not have";
    return found->second;
  }

  void finishSends(Location loc) {
    for (auto &[channel, values] : sent) {
      SmallVector<Value> alive;
      for (auto [tensor, buffer] : values) {
        alive.push_back(buffer);
        // Read again: no op may have written into it meanwhile.
        alive.push_back(boundary.calls.readBuffer(builder, loc, tensor));
      }
      call(loc, "kerf_finish_" + Twine(channel), "kerf_rank_finish", channel,
           {}, alive);
    }
  }

  void call(Location loc, const Twine &name, StringRef callee,
            ArrayRef<int64_t> numbers, ValueRange buffers,
            ValueRange alive = {}) {
    SmallVector<Value> values;
    for (int64_t each : numbers)
      values.push_back(number(loc, each));
    boundary.calls.call(builder, loc, name.str(), callee, rank, values, buffers,
                        alive);
  }
  Value number(Location loc, int64_t value) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getI64IntegerAttr(value));
  }

  Boundary &boundary;
  func::FuncOp function;
  Value rank;
  OpBuilder builder;
  IRMapping slots;
  llvm::DenseMap<unsigned, Value> wholeInputs;
  llvm::MapVector<int64_t, SmallVector<std::pair<Value, Value>>> sent;
};

/// Lets each rank run the function of its stage.
void dispatch(func::FuncOp entry, const dist::Mesh &mesh, Calls &calls,
              ArrayRef<std::pair<int64_t, func::FuncOp>> stages) {
  Location loc = entry.getLoc();
  OpBuilder builder = OpBuilder::atBlockEnd(&entry.getBody().front());
  RankPosition position(mesh, calls, {entry.getArgument(0), Value()});
  Value stage = arith::IndexCastOp::create(
      builder, loc, builder.getIndexType(),
      position.over(builder, loc,
                    dist::wholeAxis(mesh, *mesh.find(dist::kStageAxis))));
  SmallVector<int64_t> cases;
  for (const auto &[number, function] : stages)
    cases.push_back(number);
  auto choice = scf::IndexSwitchOp::create(builder, loc, TypeRange(), stage,
                                           cases, cases.size());
  for (auto [region, numbered] :
       llvm::zip_equal(choice.getCaseRegions(), stages)) {
    OpBuilder inner = OpBuilder::atBlockBegin(&region.emplaceBlock());
    func::CallOp::create(inner, loc, numbered.second, entry.getArguments());
    scf::YieldOp::create(inner, loc);
  }
  OpBuilder other =
      OpBuilder::atBlockBegin(&choice.getDefaultRegion().emplaceBlock());
  scf::YieldOp::create(other, loc);
}

} // namespace

LogicalResult kerf::ranks::defineEntry(func::FuncOp entry,
                                       Description &description, Calls &calls) {
  Boundary boundary(entry, description, calls);
  if (failed(boundary.read()))
    return failure();
  auto module = entry->getParentOfType<ModuleOp>();
  SmallVector<dist::ScheduleOp> schedules(module.getOps<dist::ScheduleOp>());
  FunctionType type = boundary.functionType();
  entry.setArgAttrsAttr(nullptr);
  entry.setResAttrsAttr(nullptr);
  entry.setType(type);
  entry.setPublic();
  entry->setAttr(LLVM::LLVMDialect::getEmitCWrapperAttrName(),
                 UnitAttr::get(entry.getContext()));
  entry.addEntryBlock();

  SmallVector<std::pair<int64_t, func::FuncOp>> stages;
  for (dist::ScheduleOp schedule : schedules) {
    func::FuncOp function = entry;
    if (schedules.size() > 1) {
      std::string name =
          (entry.getName() + "_stage" + Twine(schedule.getStage())).str();
      function = func::FuncOp::create(schedule.getLoc(), name, type);
      function.setPrivate();
      calls.symbols.insert(function);
      function.addEntryBlock();
      stages.push_back({schedule.getStage(), function});
    }
    if (failed(StageBody(boundary, function).run(schedule)))
      return failure();
    OpBuilder end = OpBuilder::atBlockEnd(&function.getBody().front());
    if (function != entry)
      func::ReturnOp::create(end, schedule.getLoc());
    schedule.erase();
  }
  if (!stages.empty())
    dispatch(entry, description.mesh, calls, stages);
  OpBuilder end = OpBuilder::atBlockEnd(&entry.getBody().front());
  func::ReturnOp::create(end, entry.getLoc());
  for (auto channel :
       llvm::make_early_inc_range(module.getOps<dist::ChannelOp>()))
    channel.erase();
  return success();
}
