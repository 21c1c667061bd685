//===- Ops.cpp - mesh, reshard, mask, index, schedule ---------------------===//
//
// Verifiers of everything that is not a collective, and the two custom pieces
// of assembly: an integer without a type, and "T" or "T -> U".
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/ShardingRule.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

static ParseResult parseInt(OpAsmParser &parser, IntegerAttr &value) {
  int64_t number;
  if (parser.parseInteger(number))
    return failure();
  value = parser.getBuilder().getI64IntegerAttr(number);
  return success();
}
static void printInt(OpAsmPrinter &printer, Operation *, IntegerAttr value) {
  printer << value.getInt();
}

static ParseResult parseSameOrFunctional(OpAsmParser &parser, Type &operand,
                                         Type &result) {
  if (parser.parseType(operand))
    return failure();
  if (failed(parser.parseOptionalArrow())) {
    result = operand;
    return success();
  }
  return parser.parseType(result);
}
static void printSameOrFunctional(OpAsmPrinter &printer, Operation *,
                                  Type operand, Type result) {
  printer << operand;
  if (operand != result)
    printer << " -> " << result;
}

#include "kerf/Dist/DistEnums.cpp.inc"

#define GET_OP_CLASSES
#include "kerf/Dist/DistOps.cpp.inc"

LogicalResult MeshOp::verify() {
  auto module = dyn_cast_or_null<ModuleOp>((*this)->getParentOp());
  if (!module)
    return success();
  auto first = *module.getOps<MeshOp>().begin();
  if (first != *this) { // mesh C3
    auto diag = emitOpError("is the second mesh of the module, expected one");
    diag.attachNote(first.getLoc()) << "the other one";
    return diag;
  }
  return success();
}

static LogicalResult checkLocal(ReshardOp op, ShardingAttr sharding,
                                RankedTensorType local, RankedTensorType global,
                                const Mesh &mesh, StringRef what,
                                Layout &layout) {
  auto plain = sharding.toLayout(mesh);
  if (!plain)
    return op.emitOpError() << toString(plain.takeError());
  if (static_cast<int64_t>(plain->dims.size()) != global.getRank())
    return op.emitOpError("sharding has ")
           << plain->dims.size() << " dimensions, expected " << global.getRank()
           << " for " << global;
  layout = std::move(*plain);
  if (std::string text = checkBlocks(layout, global.getShape()); !text.empty())
    return op.emitOpError() << what << ": " << text;
  if (local && localType(global, layout) != local)
    return op.emitOpError() << what << " is " << local << ", expected "
                            << localType(global, layout) << " for "
                            << toString(layout, mesh) << " of " << global;
  return success();
}

LogicalResult ReshardOp::verify() {
  MeshAttr attribute = getMesh(*this);
  if (!attribute)
    return emitOpError("needs a dist.mesh in its module");
  Mesh mesh = attribute.toMesh();
  Layout from, to;
  if (!getFrom()) {
    // reshard C2
    if (getX().getType() != getType() || getGlobal())
      return emitOpError("without 'from' has operand ")
             << getX().getType() << " and result " << getType()
             << ", expected one global type";
    return checkLocal(*this, getTo(), {}, cast<RankedTensorType>(getType()),
                      mesh, "result", to);
  }
  // reshard C1
  auto global = getGlobal() ? dyn_cast<RankedTensorType>(*getGlobal())
                            : RankedTensorType();
  if (!global)
    return emitOpError("with 'from' needs the global tensor type after 'of'");
  if (failed(checkLocal(*this, *getFrom(),
                        cast<RankedTensorType>(getX().getType()), global, mesh,
                        "operand", from)) ||
      failed(checkLocal(*this, getTo(), cast<RankedTensorType>(getType()),
                        global, mesh, "result", to)))
    return failure();
  // reshard C3
  for (const AxisRef &ref : to.partial)
    if (llvm::none_of(from.partial, [&](const AxisRef &other) {
          return overlap(ref, other);
        }))
      return emitOpError("result is partial over \"")
             << dist::toString(ref, mesh) << "\" but the operand is not";
  return success();
}

/// Position axes resolve; gives the number of parts.
static FailureOr<int64_t> verifyPositions(Operation *op, AxesAttr axes) {
  MeshAttr mesh = getMesh(op);
  if (!mesh)
    return op->emitOpError("needs a dist.mesh in its module");
  auto list = toAxisList(axes, mesh.toMesh());
  if (!list)
    return op->emitOpError() << toString(list.takeError());
  return numShards(*list);
}

LogicalResult MaskOp::verify() {
  auto parts = verifyPositions(*this, getAxes());
  if (failed(parts))
    return failure();
  auto type = cast<RankedTensorType>(getX().getType());
  // mask C1
  if (static_cast<int64_t>(getDim()) >= type.getRank())
    return emitOpError("dim is ")
           << getDim() << ", expected less than rank " << type.getRank();
  // mask C2
  int64_t part = type.getDimSize(getDim()), size = getSize();
  int64_t min = localSize(size, *parts);
  if (part < min || (part > min && part >= size))
    return emitOpError("dimension ")
           << getDim() << " is " << part << ", expected "
           << (part < min ? "at least " : "less than ")
           << (part < min ? min : size) << " for " << size << " in " << *parts
           << " parts";
  // mask C3
  if (getFill().getType() != type.getElementType())
    return emitOpError("fill is ")
           << getFill().getType() << ", expected " << type.getElementType();
  return success();
}

LogicalResult ShardIndexOp::verify() {
  if (cast<RankedTensorType>(getType()).getRank() != 0)
    return emitOpError("result is ") << getType() << ", expected tensor<i64>";
  return success(
      succeeded(verifyPositions(*this, getAxes()))); // shard_index C1
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

static ChannelOp findChannel(Operation *op, uint64_t number) {
  if (auto module = op->getParentOfType<ModuleOp>())
    for (auto channel : module.getOps<ChannelOp>())
      if (channel.getNumber() == number)
        return channel;
  return {};
}

static LogicalResult verifyTransfer(Operation *op, uint64_t number, Type type,
                                    bool sends, uint64_t stage) {
  ChannelOp channel = findChannel(op, number);
  if (!channel)
    return op->emitOpError("channel ") << number << " does not exist";
  uint64_t end = sends ? channel.getFrom() : channel.getTo();
  if (end != stage)
    return op->emitOpError("channel ")
           << number << (sends ? " leaves stage " : " enters stage ") << end
           << ", expected " << stage;
  if (channel.getType() != type)
    return op->emitOpError("moves ")
           << type << ", expected " << channel.getType() << " of channel "
           << number;
  return success();
}

LogicalResult ScheduleOp::verify() {
  for (Operation &op : getBody().front()) {
    // schedule C1
    if (!isa<InputOp, OutputOp, RunOp, SendOp, RecvOp, ZeroOp>(op)) {
      auto diag = emitOpError("holds an op that is no instruction");
      diag.attachNote(op.getLoc()) << "this one";
      return diag;
    }
    if (auto send = dyn_cast<SendOp>(op)) // send C1
      if (failed(verifyTransfer(&op, send.getChannel(), send.getX().getType(),
                                true, getStage())))
        return failure();
    if (auto recv = dyn_cast<RecvOp>(op)) // recv C1
      if (failed(verifyTransfer(&op, recv.getChannel(), recv.getType(), false,
                                getStage())))
        return failure();
  }
  if (auto module = (*this)->getParentOfType<ModuleOp>())
    for (auto other : module.getOps<ScheduleOp>()) { // schedule C2
      if (other == *this)
        break;
      if (other.getStage() == getStage())
        return emitOpError("is the second one of stage ") << getStage();
    }
  return success();
}

LogicalResult RunOp::verify() {
  auto function = dyn_cast_or_null<FunctionOpInterface>(
      SymbolTable::lookupNearestSymbolFrom((*this)->getParentOp(),
                                           getCalleeAttr()));
  // run C1
  if (!function)
    return emitOpError("runs ") << getCalleeAttr() << ", which does not exist";
  if (!llvm::equal(function.getArgumentTypes(), getOperandTypes()) ||
      !llvm::equal(function.getResultTypes(), getResultTypes()))
    return emitOpError("has types ")
           << FunctionType::get(getContext(), getOperandTypes(),
                                getResultTypes())
           << ", expected those of " << getCalleeAttr();
  return success();
}

LogicalResult ChannelOp::verify() {
  int64_t stages = 1;
  if (MeshAttr mesh = getMesh(*this))
    for (auto [name, size] : llvm::zip(mesh.getNames(), mesh.getSizes()))
      if (name.getValue() == kStageAxis)
        stages = size;
  // channel C1
  for (uint64_t stage : {getFrom(), getTo()})
    if (static_cast<int64_t>(stage) >= stages)
      return emitOpError("joins stage ")
             << stage << ", expected less than " << stages;
  if (getFrom() == getTo())
    return emitOpError("joins stage ") << getFrom() << " to itself";
  if (auto module = (*this)->getParentOfType<ModuleOp>())
    for (auto other : module.getOps<ChannelOp>()) { // channel C2
      if (other == *this)
        break;
      if (other.getNumber() == getNumber())
        return emitOpError("is the second one of number ") << getNumber();
    }
  return success();
}

// On global shapes both ops return their operand.
Interval ReshardOp::getInterval(unsigned, ArrayRef<Interval> x) { return x[0]; }
Interval AccumulateOp::getInterval(unsigned, ArrayRef<Interval> x) {
  return getInto() ? Interval::all() : x[0];
}

LogicalResult AccumulateOp::verify() {
  // accumulate C1
  if (getInto() && getInto().getType() != getX().getType())
    return emitOpError("into is ")
           << getInto().getType() << ", expected " << getX().getType();
  return success();
}

LogicalResult AssignOp::verify() {
  // assign C1
  auto source = getSource().getDefiningOp<SourceOpInterface>();
  if (!source || !source.isParameter() || !source.isMutable())
    return emitOpError("assigns to what is no mutable parameter");
  // assign C2
  for (Operation *user : getSource().getUsers())
    if (auto other = dyn_cast<AssignOp>(user);
        other && other != *this && other.getSource() == getSource() &&
        other->getBlock() == (*this)->getBlock() &&
        findStage(other) == findStage(*this)) {
      auto diag = emitOpError("assigns ")
                  << source.getSourceName() << " a second time";
      diag.attachNote(other.getLoc()) << "the other one";
      return diag;
    }
  // assign C3
  ArrayRef<ShardingAttr> stored = getResultShardings(source);
  if (!stored.empty())
    for (ShardingAttr sharding : getOperandShardings(*this))
      if (sharding != stored.front())
        return emitOpError("has ")
               << sharding << ", expected the source's " << stored.front();
  return success();
}
