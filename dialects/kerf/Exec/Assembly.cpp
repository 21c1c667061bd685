//===- Assembly.cpp - pieces of text of exec ops --------------------------===//
//
// See Assembly.h.
//
//===----------------------------------------------------------------------===//
#include "Assembly.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

ParseResult kerf::exec::parseList(AsmParser &parser,
                                  SmallVectorImpl<int64_t> &values) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(values.emplace_back());
  });
}

void kerf::exec::printList(AsmPrinter &printer, ArrayRef<int64_t> values) {
  printer << '[';
  llvm::interleaveComma(values, printer);
  printer << ']';
}

ParseResult kerf::exec::parseView(AsmParser &parser, ViewAttr &view) {
  SmallVector<int64_t> strides;
  int64_t offset = 0;
  SMLoc loc = parser.getCurrentLocation();
  bool given = false;
  if (succeeded(parser.parseOptionalKeyword("strides"))) {
    given = true;
    if (parseList(parser, strides))
      return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("offset"))) {
    given = true;
    if (parser.parseInteger(offset))
      return failure();
  }
  if (!given)
    return success();
  view = ViewAttr::getChecked([&] { return parser.emitError(loc); },
                              parser.getContext(), ArrayRef(strides), offset);
  return success(view != nullptr);
}

void kerf::exec::printView(AsmPrinter &printer, ViewAttr view) {
  if (!view)
    return;
  if (!view.getStrides().empty()) {
    printer << " strides ";
    printList(printer, view.getStrides());
  }
  if (view.getOffset() != 0)
    printer << " offset " << view.getOffset();
}

ParseResult kerf::exec::parseKind(AsmParser &parser, PostOpKind &kind,
                                  FloatAttr &alpha, FloatAttr &beta) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  auto known = symbolizePostOpKind(word);
  if (!known)
    return parser.emitError(loc, "unknown step of an epilogue '")
           << word << "'";
  kind = *known;
  if (kind != PostOpKind::Linear)
    return success();
  double numbers[2];
  if (parser.parseLParen() || parser.parseFloat(numbers[0]) ||
      parser.parseComma() || parser.parseFloat(numbers[1]) ||
      parser.parseRParen())
    return failure();
  alpha = parser.getBuilder().getF64FloatAttr(numbers[0]);
  beta = parser.getBuilder().getF64FloatAttr(numbers[1]);
  return success();
}

void kerf::exec::printKind(AsmPrinter &printer, PostOpAttr postOp) {
  printer << stringifyPostOpKind(postOp.getKind());
  if (!postOp.getAlpha())
    return;
  printer << '(';
  printer.printAttributeWithoutType(postOp.getAlpha());
  printer << ", ";
  printer.printAttributeWithoutType(postOp.getBeta());
  printer << ')';
}

ParseResult kerf::exec::parseInt(OpAsmParser &parser, IntegerAttr &value) {
  int64_t number;
  if (parser.parseInteger(number))
    return failure();
  value = parser.getBuilder().getI64IntegerAttr(number);
  return success();
}

void kerf::exec::printInt(OpAsmPrinter &printer, Operation *,
                          IntegerAttr value) {
  printer << value.getInt();
}

ParseResult kerf::exec::parseReal(OpAsmParser &parser, FloatAttr &value) {
  double number;
  if (parser.parseFloat(number))
    return failure();
  value = parser.getBuilder().getF64FloatAttr(number);
  return success();
}

ParseResult kerf::exec::parseKind(OpAsmParser &parser,
                                  dist::CollectiveKindAttr &kind,
                                  dist::ReductionAttr &reduction) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  auto known = parseCollectiveKind(word);
  if (!known)
    return parser.emitError(loc, "unknown collective '") << word << "'";
  kind = dist::CollectiveKindAttr::get(parser.getContext(), *known);
  if (succeeded(
          parser.parseOptionalKeyword(&word, {"sum", "max", "min", "prod"})))
    reduction = dist::ReductionAttr::get(parser.getContext(),
                                         *symbolizeReductionKind(word));
  return success();
}

void kerf::exec::printKind(OpAsmPrinter &printer, Operation *,
                           dist::CollectiveKindAttr kind,
                           dist::ReductionAttr reduction) {
  printer << StringRef(collectiveName(kind.getValue()));
  if (reduction)
    printer << ' ' << stringifyReductionKind(reduction.getValue());
}

void kerf::exec::printReal(OpAsmPrinter &printer, Operation *,
                           FloatAttr value) {
  printer.printAttributeWithoutType(value);
}

ParseResult kerf::exec::parseRole(OpAsmParser &parser,
                                  UnresolvedOperand &operand, Type &type,
                                  ViewAttr &view) {
  return failure(parser.parseLParen() || parser.parseOperand(operand) ||
                 parser.parseColonType(type) || parseView(parser, view) ||
                 parser.parseRParen());
}

ParseResult kerf::exec::parseRole(OpAsmParser &parser,
                                  std::optional<UnresolvedOperand> &operand,
                                  Type &type, ViewAttr &view) {
  return parseRole(parser, operand.emplace(), type, view);
}

void kerf::exec::printRole(OpAsmPrinter &printer, Operation *, Value operand,
                           Type type, ViewAttr view) {
  printer << '(' << operand << " : " << type;
  printView(printer, view);
  printer << ')';
}

ParseResult kerf::exec::parseDense(OpAsmParser &parser,
                                   UnresolvedOperand &operand, Type &type) {
  return failure(parser.parseLParen() || parser.parseOperand(operand) ||
                 parser.parseColonType(type) || parser.parseRParen());
}

ParseResult kerf::exec::parseDense(OpAsmParser &parser,
                                   std::optional<UnresolvedOperand> &operand,
                                   Type &type) {
  return parseDense(parser, operand.emplace(), type);
}

void kerf::exec::printDense(OpAsmPrinter &printer, Operation *op, Value operand,
                            Type type) {
  printRole(printer, op, operand, type, ViewAttr());
}

ParseResult
kerf::exec::parseEpilogue(OpAsmParser &parser, ArrayAttr &postOps,
                          SmallVectorImpl<UnresolvedOperand> &operands,
                          SmallVectorImpl<Type> &types) {
  SmallVector<Attribute> list;
  auto parseStep = [&]() -> ParseResult {
    PostOpKind kind;
    FloatAttr alpha, beta;
    ViewAttr view;
    SMLoc loc = parser.getCurrentLocation();
    if (parseKind(parser, kind, alpha, beta) ||
        (takesOperand(kind) && parseRole(parser, operands.emplace_back(),
                                         types.emplace_back(), view)))
      return failure();
    list.push_back(PostOpAttr::getChecked([&] { return parser.emitError(loc); },
                                          parser.getContext(), kind, alpha,
                                          beta, view));
    return success(list.back() != nullptr);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseStep))
    return failure();
  postOps = parser.getBuilder().getArrayAttr(list);
  return success();
}

void kerf::exec::printEpilogue(OpAsmPrinter &printer, Operation *op,
                               ArrayAttr postOps, OperandRange operands,
                               TypeRange) {
  printer << '[';
  size_t used = 0;
  llvm::interleaveComma(epilogueOf(postOps), printer, [&](PostOpAttr postOp) {
    printKind(printer, postOp);
    if (postOp.hasOperand() && used < operands.size()) {
      Value operand = operands[used++];
      printRole(printer, op, operand, operand.getType(), postOp.getView());
    }
  });
  printer << ']';
}
