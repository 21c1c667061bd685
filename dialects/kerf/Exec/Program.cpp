//===- Program.cpp - exec functions, kernels, parameters, stages ----------===//
//
// Assembly and verifiers of ops at the top of a module and of the instructions
// of stages. Labels C1... are those of the descriptions in ExecProgram.td and
// ExecStages.td.
//===----------------------------------------------------------------------===//
#include "kerf/Exec/Exec.h"

#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace kerf::exec;

template <typename Op>
static ParseResult parseFunction(OpAsmParser &parser, OperationState &result) {
  auto build = [](Builder &builder, ArrayRef<Type> arguments,
                  ArrayRef<Type> results, function_interface_impl::VariadicFlag,
                  std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  SMLoc loc = parser.getCurrentLocation();
  if (function_interface_impl::parseFunctionOp(
          parser, result, /*allowVariadic=*/false,
          Op::getFunctionTypeAttrName(result.name), build,
          Op::getArgAttrsAttrName(result.name),
          Op::getResAttrsAttrName(result.name)))
    return failure();
  // An attribute of the wrong kind would be dropped.
  return Op::verifyInherentAttrs(result.name, result.attributes, [&] {
    return parser.emitError(loc) << "'" << result.name << "' op ";
  });
}

template <typename Op> static void printFunction(OpAsmPrinter &printer, Op op) {
  function_interface_impl::printFunctionOp(
      printer, op, /*isVariadic=*/false, op.getFunctionTypeAttrName(),
      op.getArgAttrsAttrName(), op.getResAttrsAttrName());
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<KernelOp>(parser, result);
}
void KernelOp::print(OpAsmPrinter &printer) { printFunction(printer, *this); }

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<FuncOp>(parser, result);
}
void FuncOp::print(OpAsmPrinter &printer) { printFunction(printer, *this); }

LogicalResult KernelOp::verify() {
  // kernel C1
  for (Type type :
       llvm::concat<const Type>(getArgumentTypes(), getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return emitOpError("has ") << type << ", expected static tensors";
  }
  // kernel C4
  if (getResultTypes().empty())
    return emitOpError("has no result");
  // kernel C5
  if (getCount().has_value() != getGrain().has_value())
    return emitOpError("has one of count and grain, expected both or none");
  if (getGrain() && (static_cast<int64_t>(*getGrain()) <= 0 ||
                     static_cast<int64_t>(*getCount()) < 0))
    return emitOpError("count is ")
           << static_cast<int64_t>(*getCount()) << " and grain "
           << static_cast<int64_t>(*getGrain());
  // kernel C2
  if (!getBody().hasOneBlock())
    return emitOpError("body must be one block that ends in exec.yield");
  if (failed(verifyKernelBody(*this, getBody().front())))
    return failure();
  // kernel C3
  Operation *yield = getYield();
  if (yield->getOperandTypes() != getResultTypes())
    return yield->emitOpError("yields (")
           << yield->getOperandTypes() << "), the kernel gives ("
           << getResultTypes() << ")";
  return success();
}

static bool isBuffer(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref && memref.hasStaticShape() && memref.getLayout().isIdentity();
}

LogicalResult FuncOp::verify() {
  // func C1
  for (Type type : getArgumentTypes())
    if (!isBuffer(type))
      return emitOpError("argument is ") << type << ", expected a buffer";
  if (!getResultTypes().empty())
    return emitOpError("has results, expected none");
  // func C2
  if (static_cast<int64_t>(getNumInputs()) < 0 ||
      static_cast<int64_t>(getNumInputs()) >
          static_cast<int64_t>(getArgumentTypes().size()))
    return emitOpError("num_inputs is ") << static_cast<int64_t>(getNumInputs())
                                         << " of " << getArgumentTypes().size();
  // func C4
  if ((getPhase() == Phase::Init) != getDerived().has_value())
    return emitOpError("of phase ")
           << stringifyPhase(getPhase()) << (getDerived() ? " has" : " lacks")
           << " derived parameters";
  if (getDerived() && (getDerived()->size() != getArgumentTypes().size() ||
                       static_cast<int64_t>(getNumInputs()) != 0))
    return emitOpError("writes ")
           << getArgumentTypes().size() - static_cast<int64_t>(getNumInputs())
           << " buffers, derives " << getDerived()->size() << " parameters";
  // func C3
  if (getScratch())
    for (ArenaOp arena : getBody().getOps<ArenaOp>()) {
      if (!arena.getOffset())
        return arena.emitOpError("has no offset in a planned function");
      int64_t end = *arena.getOffset() + sizeBytes(arena.getResult().getType());
      if (end > static_cast<int64_t>(*getScratch()))
        return arena.emitOpError("ends at ")
               << end << ", beyond the scratch of " << *getScratch();
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Parameters, inputs and outputs
//===----------------------------------------------------------------------===//

LogicalResult
FileRangeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t file, int64_t offset, int64_t length,
                      RankedTensorType stored) {
  // file_range C1
  if (file < 0 || offset < 0 || length != sizeBytes(stored))
    return emitError() << length << " bytes at " << offset << " of file "
                       << file << " do not hold " << stored;
  return success();
}

RankedTensorType ParameterOp::getGlobalType() {
  if (getGlobal())
    return cast<RankedTensorType>(*getGlobal());
  auto local = cast<MemRefType>(getType());
  return RankedTensorType::get(local.getShape(), local.getElementType());
}

LogicalResult ParameterOp::verify() {
  auto type = cast<MemRefType>(getType());
  // parameter C1
  if (getIsMutable() && (isDerived() || getLibraryOnly()))
    return emitOpError("is mutable and ")
           << (isDerived() ? "derived" : "library_only");
  if (getLibraryOnly() && getInitOnly())
    return emitOpError("is library_only and init_only");
  // parameter C2
  if (isDerived() && (getGlobal() || getStarts() || getSharding() ||
                      !getStages() || getStages()->size() != 1))
    return emitOpError("is derived, and not of one stage alone");
  // parameter C3
  if (!isa<FileRangeAttr, DerivedAttr, ElementsAttr>(getSource())) {
    auto number = dyn_cast<TypedAttr>(getSource());
    if (!number || number.getType() != type.getElementType())
      return emitOpError("comes from ")
             << getSource() << ", expected a range of a file, a literal, "
             << "a number of " << type.getElementType()
             << " or an init function";
  }
  // parameter C4
  RankedTensorType global = getGlobalType();
  auto rank = static_cast<size_t>(global.getRank());
  if (global.getElementType() != type.getElementType() ||
      (getStarts() && getStarts()->size() != rank) ||
      (getSharding() && getSharding()->getDims().size() != rank))
    return emitOpError("is ") << type << " of " << global
                              << " cut by other starts or another sharding";
  return success();
}

template <typename Op> static LogicalResult verifyBoundary(Op op) {
  auto global = cast<RankedTensorType>(op.getGlobal()),
       local = cast<RankedTensorType>(op.getLocal());
  // model_input C1, model_output C1
  if (global.getElementType() != local.getElementType() ||
      global.getRank() != local.getRank() ||
      (op.getSharding() &&
       static_cast<int64_t>(op.getSharding()->getDims().size()) !=
           global.getRank()))
    return op.emitOpError("part ")
           << local << " does not fit " << global << " and its sharding";
  return success();
}

LogicalResult ModelInputOp::verify() { return verifyBoundary(*this); }

LogicalResult ModelOutputOp::verify() { return verifyBoundary(*this); }

LogicalResult ChannelOp::verify() {
  // channel C1
  if (getFrom() == getTo())
    return emitOpError("leads from stage ") << getFrom() << " to itself";
  return success();
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

LogicalResult StageOp::verify() {
  for (Operation &op : getBody().front()) {
    // stage C1
    if (!isa<SlotOp, InputOp, OutputOp, RunOp, ZeroOp, SendOp, RecvOp>(op))
      return op.emitOpError("cannot stand in a stage");
    auto slot = dyn_cast<SlotOp>(op);
    if (!slot || !getArena())
      continue;
    // stage C2
    if (!slot.getOffset())
      return slot.emitOpError("has no offset in a planned stage");
    int64_t end = static_cast<int64_t>(*slot.getOffset()) +
                  sizeBytes(slot.getResult().getType());
    if (end > static_cast<int64_t>(*getArena()))
      return slot.emitOpError("ends at ")
             << end << ", beyond the arena of " << *getArena();
  }
  return success();
}

LogicalResult SlotOp::verify() {
  // slot C1
  if (getOffset() && (static_cast<int64_t>(*getOffset()) < 0 ||
                      *getOffset() % bufferAlignment != 0))
    return emitOpError("offset is ")
           << static_cast<int64_t>(*getOffset())
           << ", expected a non-negative multiple of " << bufferAlignment;
  return success();
}

LogicalResult InputOp::verify() {
  // input C1
  if (getSharding() && static_cast<int64_t>(getSharding()->getDims().size()) !=
                           getSlot().getType().getRank())
    return emitOpError("is cut by a sharding of ")
           << getSharding()->getDims().size() << " dimensions into "
           << getSlot().getType();
  return success();
}

LogicalResult RunOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // run C1
  auto function =
      symbols.lookupNearestSymbolFrom<FuncOp>(*this, getCalleeAttr());
  if (!function)
    return emitOpError("names ") << getCalleeAttr() << ", which is no function";
  if (getSlots().getTypes() != function.getArgumentTypes())
    return emitOpError("hands slots (")
           << getSlots().getTypes() << ") to a function of ("
           << function.getArgumentTypes() << ")";
  return success();
}
