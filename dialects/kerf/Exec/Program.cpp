//===- Program.cpp - exec functions, kernels, parameters, stages ----------===//
//
// Assembly and verifiers of what stands at the top of a module. Labels C1...
// are those of the descriptions in ExecProgram.td.
//
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
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      Op::getFunctionTypeAttrName(result.name), build,
      Op::getArgAttrsAttrName(result.name),
      Op::getResAttrsAttrName(result.name));
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
  if (!getBody().hasOneBlock() || getBody().front().empty() ||
      !isa<YieldOp>(getBody().front().back()))
    return emitOpError("body must be one block that ends in exec.yield");
  Dialect *dialect = nullptr;
  for (Operation &op : getBody().front().without_terminator()) {
    if (!isMemoryEffectFree(&op) || op.getNumRegions() ||
        op.getDialect() == (*this)->getDialect() ||
        (dialect && op.getDialect() != dialect))
      return op.emitOpError("cannot stand in a kernel");
    dialect = op.getDialect();
  }
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
  if (!llvm::is_contained({"init", "prologue", "forward", "backward", "update"},
                          getPhase()))
    return emitOpError("phase is \"")
           << getPhase()
           << "\", expected init, prologue, forward, backward or update";
  if ((getPhase() == "init") != getDerived().has_value())
    return emitOpError("of phase ")
           << getPhase() << (getDerived() ? " has" : " lacks")
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

LogicalResult ParameterOp::verify() {
  if (!isBuffer(getType()))
    return emitOpError("type is ") << getType() << ", expected a buffer";
  // parameter C1
  int sources = 0;
  for (StringRef key : {"tensor", "splat", "derived"})
    sources += getEntry().contains(key);
  if (sources != 1)
    return emitOpError("has ")
           << sources << " of tensor, splat and derived, expected one";
  if (getEntry().contains("tensor") && !getSource())
    return emitOpError("names a tensor without a source");
  // parameter C2
  if (getEntry().contains("mutable") &&
      (getEntry().contains("derived") || getEntry().contains("library_only")))
    return emitOpError("is mutable and ")
           << (getEntry().contains("derived") ? "derived" : "library_only");
  return success();
}

LogicalResult StageOp::verify() {
  // stage C1
  int64_t count = getSlots().size();
  auto check = [&](Attribute attr) -> LogicalResult {
    auto slot = dyn_cast_or_null<IntegerAttr>(attr);
    if (!slot || slot.getInt() < 0 || slot.getInt() >= count)
      return emitOpError("names slot ") << attr << " of " << count;
    return success();
  };
  for (Attribute attr : getInstructions()) {
    auto instruction = dyn_cast<DictionaryAttr>(attr);
    if (!instruction)
      return emitOpError("instruction is ") << attr;
    for (StringRef key : {"slot", "zero"})
      if (Attribute slot = instruction.get(key))
        if (failed(check(slot)))
          return failure();
    if (auto slots = instruction.getAs<ArrayAttr>("slots"))
      for (Attribute slot : slots)
        if (failed(check(slot)))
          return failure();
  }
  return success();
}
