//===- Groups.cpp - assembly and verifier of exec.group -------------------===//
//
// Assembly and verifier of exec.group. Labels C1... are those of its
// description in ExecGroups.td.
//
//===----------------------------------------------------------------------===//
#include "Assembly.h"

using namespace mlir;
using namespace kerf::exec;

// exec.group 3 "/fc" phase forward at_load (%a = %x : type, ...) into(%e :
// type) attributes {...} { body }

ParseResult GroupOp::parse(OpAsmParser &parser, OperationState &result) {
  Properties &properties = result.getOrAddProperties<Properties>();
  IntegerAttr index;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> inputs, destinations;
  SmallVector<Type> inputTypes, destinationTypes;
  if (parseInt(parser, index) || parser.parseAttribute(properties.node))
    return failure();
  properties.index = index;
  if (succeeded(parser.parseOptionalKeyword("phase")) &&
      parser.parseCustomAttributeWithFallback(properties.phase))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("at_load")))
    properties.at_load = parser.getBuilder().getUnitAttr();
  auto parseInput = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    if (parser.parseArgument(argument) || parser.parseEqual() ||
        parser.parseOperand(inputs.emplace_back()) ||
        parser.parseColonType(argument.type))
      return failure();
    inputTypes.push_back(argument.type);
    return success();
  };
  auto parseDestination = [&]() -> ParseResult {
    return failure(parser.parseOperand(destinations.emplace_back()) ||
                   parser.parseColonType(destinationTypes.emplace_back()));
  };
  using Delimiter = AsmParser::Delimiter;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(Delimiter::Paren, parseInput) ||
      parser.parseKeyword("into") ||
      parser.parseCommaSeparatedList(Delimiter::Paren, parseDestination) ||
      parser.resolveOperands(inputs, inputTypes, loc, result.operands) ||
      parser.resolveOperands(destinations, destinationTypes, loc,
                             result.operands) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseRegion(*result.addRegion(), arguments))
    return failure();
  properties.operandSegmentSizes = {static_cast<int32_t>(inputs.size()),
                                    static_cast<int32_t>(destinations.size())};
  result.addTypes(destinationTypes);
  return success();
}

void GroupOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getIndexAttr().getInt() << ' ' << getNodeAttr();
  if (PhaseAttr phase = getPhaseAttr()) {
    printer << " phase";
    printer.printStrippedAttrOrType(phase);
  }
  if (getAtLoad())
    printer << " at_load";
  auto printed = [&](Value value, Value typed) {
    printer << value << " : " << typed.getType();
  };
  printer << " (";
  llvm::interleaveComma(llvm::zip_equal(getBody().getArguments(), getInputs()),
                        printer, [&](auto pair) {
                          printer.printRegionArgument(std::get<0>(pair), {},
                                                      /*omitType=*/true);
                          printer << " = ";
                          printed(std::get<1>(pair), std::get<1>(pair));
                        });
  printer << ") into(";
  llvm::interleaveComma(getDestinations(), printer,
                        [&](Value value) { printed(value, value); });
  printer << ')';
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {"operandSegmentSizes", getIndexAttrName(), getNodeAttrName(),
       getPhaseAttrName(), getAtLoadAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult kerf::exec::verifyKernelBody(Operation *op, Block &body) {
  Dialect *dialect = nullptr;
  if (body.empty() || !isa<YieldOp>(body.back()))
    return op->emitOpError("body must be one block that ends in exec.yield");
  for (Operation &inside : body)
    for (Value operand : inside.getOperands())
      if (operand.getParentBlock() != &body)
        return inside.emitOpError("reads what is no argument of its kernel");
  for (Operation &inside : body.without_terminator()) {
    if (!isMemoryEffectFree(&inside) || inside.getNumRegions() ||
        inside.getDialect() == op->getDialect() ||
        (dialect && inside.getDialect() != dialect))
      return inside.emitOpError("cannot stand in a kernel");
    dialect = inside.getDialect();
  }
  return success();
}

LogicalResult EmptyOp::verify() {
  int64_t destinations = 0;
  bool isJoined = llvm::any_of(getResult().getUsers(), llvm::IsaPred<JoinOp>);
  for (OpOperand &use : getResult().getUses()) {
    auto product = dyn_cast<MatmulOp>(use.getOwner());
    bool isView = use.getOwner()->getDialect() != (*this)->getDialect();
    if (isView && isJoined)
      continue;
    destinations += !product || use.getOperandNumber() ==
                                    product.getDestination().getOperandNumber();
  }
  if (destinations > 1) // empty C1
    return emitOpError("is the destination of several results");
  return success();
}

LogicalResult JoinOp::verify() {
  auto whole = cast<RankedTensorType>(getResult().getType());
  int64_t bytes = 0;
  for (Value part : getParts()) {
    auto type = cast<RankedTensorType>(part.getType());
    // join C1
    if (type.getElementType() != whole.getElementType())
      return emitOpError("joins ") << type << " into " << whole;
    bytes += sizeBytes(type);
  }
  // join C1
  if (bytes != sizeBytes(whole))
    return emitOpError("has parts of ")
           << bytes << " bytes, its result has " << sizeBytes(whole);
  return success();
}

LogicalResult GroupOp::verify() {
  // group C4
  if (getIndexAttr().getInt() < 0)
    return emitOpError("index is negative");
  // group C1
  if (failed(verifyKernelBody(*this, getBody().front())))
    return failure();
  // group C2
  if (getBody().getArgumentTypes() != getInputs().getTypes())
    return emitOpError("has arguments (")
           << getBody().getArgumentTypes() << ") for inputs ("
           << getInputs().getTypes() << ")";
  // group C5
  for (Value input : getInputs())
    if (auto source = input.getDefiningOp<SourceOpInterface>();
        source && getAtLoad() && source.isMutable())
      return emitOpError("runs at load and reads what steps change");
  // group C3
  auto yielded = getBody().front().getTerminator()->getOperandTypes();
  if (getResults().empty() || yielded != getResultTypes() ||
      getDestinations().getTypes() != getResultTypes())
    return emitOpError("yields (")
           << yielded << ") into (" << getDestinations().getTypes()
           << "), has results (" << getResultTypes() << ")";
  return success();
}
