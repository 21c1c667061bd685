//===- Assembly.cpp - how nn ops are written ------------------------------===//
#include "Assembly.h"

#include "kerf/NN/NN.h"

#include <charconv>
#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// Parses `(T, U) -> V`, or a single type, which is stored in `single`.
static ParseResult parseTypeOrFunction(OpAsmParser &parser,
                                       ArrayRef<Type *> operands, Type &result,
                                       Type &single) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(single))
    return failure();
  auto function = dyn_cast<FunctionType>(single);
  if (!function)
    return success();
  single = {};
  if (function.getNumInputs() != operands.size() ||
      function.getNumResults() != 1)
    return parser.emitError(loc, "expected the types of ")
           << operands.size() << " operands and one result";
  for (auto [type, given] : llvm::zip_equal(operands, function.getInputs()))
    *type = given;
  result = function.getResult(0);
  return success();
}

static ParseResult parseOneType(OpAsmParser &parser, ArrayRef<Type *> operands,
                                Type &result) {
  Type single;
  if (parseTypeOrFunction(parser, operands, result, single))
    return failure();
  if (!single)
    return success();
  for (Type *type : operands)
    *type = single;
  result = single;
  return success();
}

static void printOneType(OpAsmPrinter &printer, ArrayRef<Type> operands,
                         Type result) {
  if (llvm::all_of(operands, [&](Type type) { return type == result; }))
    printer << result;
  else
    printer.printFunctionalType(operands, ArrayRef<Type>(result));
}

ParseResult nn::parseTypes(OpAsmParser &parser, Type &x, Type &result) {
  return parseOneType(parser, {&x}, result);
}
ParseResult nn::parseTypes(OpAsmParser &parser, Type &lhs, Type &rhs,
                           Type &result) {
  return parseOneType(parser, {&lhs, &rhs}, result);
}
void nn::printTypes(OpAsmPrinter &printer, Operation *, Type x, Type result) {
  printOneType(printer, x, result);
}
void nn::printTypes(OpAsmPrinter &printer, Operation *, Type lhs, Type rhs,
                    Type result) {
  printOneType(printer, {lhs, rhs}, result);
}

static ParseResult parseRow(OpAsmParser &parser, ArrayRef<Type *> operands,
                            Type &result) {
  Type single, vector;
  if (parseTypeOrFunction(parser, operands, result, single))
    return failure();
  if (!single)
    return success();
  if (parser.parseComma() || parser.parseType(vector))
    return failure();
  *operands.front() = result = single;
  for (Type *type : operands.drop_front())
    *type = vector;
  return success();
}

static void printRow(OpAsmPrinter &printer, ArrayRef<Type> operands,
                     Type result) {
  if (operands.front() == result && llvm::all_equal(operands.drop_front()))
    printer << result << ", " << operands.back();
  else
    printer.printFunctionalType(operands, ArrayRef<Type>(result));
}

ParseResult nn::parseRowTypes(OpAsmParser &parser, Type &x, Type &scale,
                              Type &result) {
  return parseRow(parser, {&x, &scale}, result);
}
ParseResult nn::parseRowTypes(OpAsmParser &parser, Type &x, Type &scale,
                              Type &bias, Type &result) {
  return parseRow(parser, {&x, &scale, &bias}, result);
}
ParseResult nn::parseRowTypes(OpAsmParser &parser, Type &x, Type &scale,
                              Type &bias, Type &mean, Type &variance,
                              Type &result) {
  return parseRow(parser, {&x, &scale, &bias, &mean, &variance}, result);
}
void nn::printRowTypes(OpAsmPrinter &printer, Operation *, Type x, Type scale,
                       Type result) {
  printRow(printer, {x, scale}, result);
}
void nn::printRowTypes(OpAsmPrinter &printer, Operation *, Type x, Type scale,
                       Type bias, Type result) {
  printRow(printer, {x, scale, bias}, result);
}
void nn::printRowTypes(OpAsmPrinter &printer, Operation *, Type x, Type scale,
                       Type bias, Type mean, Type variance, Type result) {
  printRow(printer, {x, scale, bias, mean, variance}, result);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

ParseResult nn::parseReal(OpAsmParser &parser, FloatAttr &value) {
  return parser.parseAttribute(value, parser.getBuilder().getF64Type());
}

ParseResult nn::parseSingle(OpAsmParser &parser, FloatAttr &value) {
  if (parseReal(parser, value))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("f64")))
    return success();
  auto single = static_cast<float>(value.getValueAsDouble());
  value = parser.getBuilder().getF64FloatAttr(single);
  return success();
}

/// Shortest digits from which `number` is read again, with a point: MLIR's
/// floats have one.
template <typename Number>
static void printDigits(OpAsmPrinter &printer, Number number) {
  char text[32];
  char *end = std::to_chars(text, std::end(text), number).ptr;
  StringRef digits(text, end - text);
  size_t exponent = std::min(digits.find('e'), digits.size());
  printer << digits.take_front(exponent);
  if (!digits.take_front(exponent).contains('.'))
    printer << ".0";
  printer << digits.drop_front(exponent);
}

void nn::printReal(OpAsmPrinter &printer, Operation *, FloatAttr value) {
  double number = value.getValueAsDouble();
  if (!std::isfinite(number))
    return printer.printAttributeWithoutType(value);
  printDigits(printer, number);
}

void nn::printSingle(OpAsmPrinter &printer, Operation *op, FloatAttr value) {
  double number = value.getValueAsDouble();
  auto single = static_cast<float>(number);
  if (std::isfinite(number) && static_cast<double>(single) == number)
    return printDigits(printer, single);
  printReal(printer, op, value);
  if (std::isfinite(number))
    printer << " f64";
}

ParseResult nn::parseBorders(OpAsmParser &parser, DenseI64ArrayAttr &low,
                             DenseI64ArrayAttr &high) {
  SmallVector<int64_t> before, after;
  auto parseBorder = [&]() -> ParseResult {
    if (parser.parseInteger(before.emplace_back()))
      return failure();
    after.push_back(before.back());
    return succeeded(parser.parseOptionalColon())
               ? parser.parseInteger(after.back())
               : ParseResult(success());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseBorder))
    return failure();
  low = parser.getBuilder().getDenseI64ArrayAttr(before);
  high = parser.getBuilder().getDenseI64ArrayAttr(after);
  return success();
}

void nn::printBorders(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr low,
                      DenseI64ArrayAttr high) {
  printer << '[';
  llvm::interleaveComma(llvm::zip(low.asArrayRef(), high.asArrayRef()), printer,
                        [&](auto border) {
                          auto [before, after] = border;
                          printer << before;
                          if (after != before)
                            printer << ':' << after;
                        });
  printer << ']';
}

/// `3x3`; `[-1, 0]` where a size is negative or there is none.
static ParseResult parseSizes(OpAsmParser &parser, DenseI64ArrayAttr &sizes) {
  SmallVector<int64_t> list;
  if (succeeded(parser.parseOptionalLSquare())) {
    if (parser.parseCommaSeparatedList(
            [&] { return parser.parseInteger(list.emplace_back()); }) ||
        parser.parseRSquare())
      return failure();
  } else if (parser.parseDimensionList(list, /*allowDynamic=*/false,
                                       /*withTrailingX=*/false)) {
    return failure();
  }
  sizes = parser.getBuilder().getDenseI64ArrayAttr(list);
  return success();
}

static void printSizes(OpAsmPrinter &printer, ArrayRef<int64_t> sizes) {
  if (llvm::any_of(sizes, [](int64_t size) { return size < 0; })) {
    printer << '[' << sizes << ']';
    return;
  }
  llvm::interleave(sizes, printer, "x");
}

static bool allAre(int64_t value, ArrayRef<int64_t> list) {
  return llvm::all_of(list, [=](int64_t entry) { return entry == value; });
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

ParseResult nn::parseWindow(OpAsmParser &parser, DenseI64ArrayAttr &kernel,
                            DenseI64ArrayAttr &strides, DenseI64ArrayAttr &low,
                            DenseI64ArrayAttr &high,
                            DenseI64ArrayAttr &dilations) {
  if (parser.parseKeyword("kernel") || parseSizes(parser, kernel))
    return failure();
  auto all = [&](int64_t value) {
    return parser.getBuilder().getDenseI64ArrayAttr(
        SmallVector<int64_t>(kernel.size(), value));
  };
  strides = dilations = all(1);
  low = high = all(0);
  if (succeeded(parser.parseOptionalKeyword("strides")) &&
      parseSizes(parser, strides))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("pad"))) {
    if (parseSizes(parser, low))
      return failure();
    high = low;
  } else if (succeeded(parser.parseOptionalKeyword("low"))) {
    if (parseSizes(parser, low) || parser.parseKeyword("high") ||
        parseSizes(parser, high))
      return failure();
  }
  if (succeeded(parser.parseOptionalKeyword("dilations")))
    return parseSizes(parser, dilations);
  return success();
}

static void printWindow(OpAsmPrinter &printer, ArrayRef<int64_t> kernel,
                        ArrayRef<int64_t> strides, ArrayRef<int64_t> low,
                        ArrayRef<int64_t> high, ArrayRef<int64_t> dilations) {
  auto list = [&](StringRef name, ArrayRef<int64_t> sizes) {
    printer << ' ' << name << ' ';
    printSizes(printer, sizes);
  };
  printer << "kernel ";
  printSizes(printer, kernel);
  if (!allAre(1, strides))
    list("strides", strides);
  if (low != high) {
    list("low", low);
    list("high", high);
  } else if (!allAre(0, low)) {
    list("pad", low);
  }
  if (!allAre(1, dilations))
    list("dilations", dilations);
}

void nn::printWindow(OpAsmPrinter &printer, Operation *,
                     DenseI64ArrayAttr kernel, DenseI64ArrayAttr strides,
                     DenseI64ArrayAttr low, DenseI64ArrayAttr high,
                     DenseI64ArrayAttr dilations) {
  ::printWindow(printer, kernel, strides, low, high, dilations);
}

//===----------------------------------------------------------------------===//
// Convolutions and their gradients
//===----------------------------------------------------------------------===//

/// The type of the weights, OIHW, that a convolution of `image` to `made` has;
/// null if the types or `groups` do not fit.
static RankedTensorType weightsType(Type image, Type made, int64_t groups,
                                    ArrayRef<int64_t> kernel) {
  auto from = dyn_cast<RankedTensorType>(image);
  auto to = dyn_cast<RankedTensorType>(made);
  if (!from || !to || !from.getRank() || !to.getRank() || groups < 1)
    return {};
  SmallVector<int64_t> shape{to.getShape().back(),
                             from.getShape().back() / groups};
  llvm::append_range(shape, kernel);
  return from.clone(shape);
}

/// Of the three types of a convolution two are printed; the third follows:
/// `image -> made` of conv, `made -> image` of conv_input_gradient, `image,
/// made` of conv_weight_gradient.
enum class Convolution { Forward, InputGradient, WeightGradient };

static constexpr StringLiteral kConvAttributes[] = {"strides", "low", "high",
                                                    "dilations", "groups"};

static ParseResult parseConvolution(OpAsmParser &parser, OperationState &state,
                                    Convolution kind) {
  OpAsmParser::UnresolvedOperand first, second;
  DenseI64ArrayAttr kernel, strides, low, high, dilations;
  int64_t groups = 1;
  if (parser.parseOperand(first) || parser.parseComma() ||
      parser.parseOperand(second) ||
      parseWindow(parser, kernel, strides, low, high, dilations))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("groups")) &&
      parser.parseInteger(groups))
    return failure();
  Builder &builder = parser.getBuilder();
  for (auto [name, value] :
       llvm::zip_equal(kConvAttributes,
                       ArrayRef<Attribute>{strides, low, high, dilations,
                                           builder.getI64IntegerAttr(groups)}))
    state.addAttribute(name, value);
  if (parser.parseOptionalAttrDict(state.attributes) || parser.parseColon())
    return failure();

  SMLoc loc = parser.getCurrentLocation();
  Type lhs, rhs, result, single, other;
  if (parseTypeOrFunction(parser, {&lhs, &rhs}, result, single))
    return failure();
  bool isWeightGradient = kind == Convolution::WeightGradient;
  if (single) {
    if ((isWeightGradient ? parser.parseComma() : parser.parseArrow()) ||
        parser.parseType(other))
      return failure();
    bool fromMade = kind == Convolution::InputGradient;
    Type weights = weightsType(fromMade ? other : single,
                               fromMade ? single : other, groups, kernel);
    if (!weights)
      return parser.emitError(loc, "expected tensors with channels");
    lhs = single;
    rhs = isWeightGradient ? other : weights;
    result = isWeightGradient ? weights : other;
  } else if (auto weights =
                 dyn_cast<RankedTensorType>(isWeightGradient ? result : rhs);
             weights && weights.getRank() > 2 &&
             weights.getShape().drop_front(2) != ArrayRef<int64_t>(kernel)) {
    return parser.emitError(loc, "weights ")
           << weights << " do not have the kernel that is given";
  }
  state.addTypes(result);
  return failure(parser.resolveOperand(first, lhs, state.operands) ||
                 parser.resolveOperand(second, rhs, state.operands));
}

template <typename Op>
static void printConvolution(OpAsmPrinter &printer, Op op, Convolution kind) {
  Type lhs = op->getOperand(0).getType(), rhs = op->getOperand(1).getType();
  Type result = op->getResult(0).getType();
  bool isWeightGradient = kind == Convolution::WeightGradient;
  bool fromMade = kind == Convolution::InputGradient;
  auto weights = cast<RankedTensorType>(isWeightGradient ? result : rhs);
  Type other = isWeightGradient ? rhs : result;
  ArrayRef<int64_t> kernel = weights.getShape().drop_front(2);
  auto groups = static_cast<int64_t>(op.getGroups());

  printer << ' ' << op->getOperand(0) << ", " << op->getOperand(1) << ' ';
  printWindow(printer, kernel, op.getStrides(), op.getLow(), op.getHigh(),
              op.getDilations());
  if (groups != 1)
    printer << " groups " << groups;
  SmallVector<StringRef> written(std::begin(kConvAttributes),
                                 std::end(kConvAttributes));
  printer.printOptionalAttrDict(op->getAttrs(), written);
  printer << " : ";
  if (weights == weightsType(fromMade ? other : lhs, fromMade ? lhs : other,
                             groups, kernel))
    printer << lhs << (isWeightGradient ? ", " : " -> ") << other;
  else
    printer.printFunctionalType(op);
}

ParseResult ConvOp::parse(OpAsmParser &parser, OperationState &state) {
  return parseConvolution(parser, state, Convolution::Forward);
}
void ConvOp::print(OpAsmPrinter &printer) {
  printConvolution(printer, *this, Convolution::Forward);
}
ParseResult ConvInputGradientOp::parse(OpAsmParser &parser,
                                       OperationState &state) {
  return parseConvolution(parser, state, Convolution::InputGradient);
}
void ConvInputGradientOp::print(OpAsmPrinter &printer) {
  printConvolution(printer, *this, Convolution::InputGradient);
}
ParseResult ConvWeightGradientOp::parse(OpAsmParser &parser,
                                        OperationState &state) {
  return parseConvolution(parser, state, Convolution::WeightGradient);
}
void ConvWeightGradientOp::print(OpAsmPrinter &printer) {
  printConvolution(printer, *this, Convolution::WeightGradient);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

ParseResult nn::parseAttentionTypes(OpAsmParser &parser, Type &q, Type &k,
                                    Type &v, Type &result, Type &stats,
                                    Type &dy, Type &bias) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(q) || parser.parseComma() || parser.parseType(k) ||
      parser.parseComma() || parser.parseType(v))
    return failure();
  if (succeeded(parser.parseOptionalComma()) && parser.parseType(bias))
    return failure();
  auto queries = dyn_cast<RankedTensorType>(q);
  auto values = dyn_cast<RankedTensorType>(v);
  if (!queries || !values || !queries.getRank() || !values.getRank())
    return parser.emitError(loc, "expected tensors");
  SmallVector<int64_t> shape(queries.getShape().drop_back());
  Type wide = queries.getElementType().isF64()
                  ? Type(parser.getBuilder().getF64Type())
                  : Type(parser.getBuilder().getF32Type());
  stats = RankedTensorType::get(shape, wide);
  shape.push_back(values.getShape().back());
  result = dy = queries.clone(shape);
  return success();
}

void nn::printAttentionTypes(OpAsmPrinter &printer, Operation *, Type q, Type k,
                             Type v, Type, Type, Type, Type bias) {
  printer << q << ", " << k << ", " << v;
  if (bias)
    printer << ", " << bias;
}

//===----------------------------------------------------------------------===//
// Steps of optimizers
//===----------------------------------------------------------------------===//

ParseResult nn::parseUpdate(OpAsmParser &parser, OperationState &state,
                            ArrayRef<StringRef> numbers, size_t numScalars) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(operands))
    return failure();
  if (operands.size() < numScalars + 2)
    return parser.emitError(loc, "expected a parameter, its gradient and ")
           << numScalars << " scalars";
  for (StringRef name : numbers) {
    FloatAttr value;
    if (parser.parseKeyword(name) || parseReal(parser, value))
      return failure();
    state.addAttribute(name, value);
  }
  Type type;
  if (parser.parseOptionalAttrDict(state.attributes) ||
      parser.parseColonType(type))
    return failure();
  if (auto function = dyn_cast<FunctionType>(type)) {
    state.addTypes(function.getResults());
    return parser.resolveOperands(operands, function.getInputs(), loc,
                                  state.operands);
  }
  size_t numTensors = operands.size() - numScalars;
  SmallVector<Type> types(numTensors, type);
  types.append(numScalars,
               RankedTensorType::get({}, parser.getBuilder().getF32Type()));
  state.addTypes(SmallVector<Type>(numTensors - 1, type));
  return parser.resolveOperands(operands, types, loc, state.operands);
}

void nn::printUpdate(OpAsmPrinter &printer, Operation *op,
                     ArrayRef<StringRef> numbers, size_t numScalars) {
  printer << ' ' << op->getOperands();
  for (StringRef name : numbers) {
    printer << ' ' << name << ' ';
    printReal(printer, op, op->getAttrOfType<FloatAttr>(name));
  }
  printer.printOptionalAttrDict(op->getAttrs(), numbers);
  printer << " : ";
  Type type = op->getOperand(0).getType();
  size_t numTensors = op->getNumOperands() - numScalars;
  if (op->getNumResults() + 1 == numTensors)
    printer << type;
  else
    printer.printFunctionalType(op);
}

//===----------------------------------------------------------------------===//
// Slices and views
//===----------------------------------------------------------------------===//

static ParseResult parseList(OpAsmParser &parser, DenseI64ArrayAttr &list) {
  list =
      dyn_cast_or_null<DenseI64ArrayAttr>(DenseI64ArrayAttr::parse(parser, {}));
  return success(bool(list));
}

ParseResult nn::parseSliceStarts(OpAsmParser &parser, DenseI64ArrayAttr &starts,
                                 DenseI64ArrayAttr &strides) {
  if (parseList(parser, starts))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("strides")))
    return parseList(parser, strides);
  strides = parser.getBuilder().getDenseI64ArrayAttr(
      SmallVector<int64_t>(starts.size(), 1));
  return success();
}

void nn::printSliceStarts(OpAsmPrinter &printer, Operation *,
                          DenseI64ArrayAttr starts, DenseI64ArrayAttr strides) {
  starts.print(printer);
  if (strides.size() == starts.size() && allAre(1, strides))
    return;
  printer << " strides ";
  strides.print(printer);
}

ParseResult nn::parseSliceTypes(OpAsmParser &parser, DenseI64ArrayAttr &sizes,
                                Type &x, Type &result) {
  FunctionType function;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(function))
    return failure();
  auto type = function.getNumInputs() == 1 && function.getNumResults() == 1
                  ? dyn_cast<RankedTensorType>(function.getResult(0))
                  : RankedTensorType();
  if (!type)
    return parser.emitError(loc, "expected one operand and one tensor");
  sizes = parser.getBuilder().getDenseI64ArrayAttr(type.getShape());
  x = function.getInput(0);
  result = type;
  return success();
}

void nn::printSliceTypes(OpAsmPrinter &printer, Operation *, DenseI64ArrayAttr,
                         Type x, Type result) {
  printer.printFunctionalType(ArrayRef<Type>(x), ArrayRef<Type>(result));
}

ParseResult nn::parseStoredType(OpAsmParser &parser, Type &result,
                                TypeAttr &stored, DenseI64ArrayAttr &starts,
                                IntegerAttr &length) {
  SMLoc loc = parser.getCurrentLocation();
  Type type;
  if (parser.parseType(result))
    return failure();
  type = result;
  if (succeeded(parser.parseOptionalKeyword("of")) && parser.parseType(type))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("from")) &&
      parseList(parser, starts))
    return failure();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() ||
      !tensor.getElementType().isIntOrFloat())
    return parser.emitError(loc, "expected a static tensor of numbers, got ")
           << type;
  stored = TypeAttr::get(type);
  length = parser.getBuilder().getI64IntegerAttr(sizeInBytes(tensor));
  return success();
}

void nn::printStoredType(OpAsmPrinter &printer, Operation *, Type result,
                         TypeAttr stored, DenseI64ArrayAttr starts,
                         IntegerAttr) {
  printer << result;
  if (stored.getValue() != result)
    printer << " of " << stored.getValue();
  if (starts) {
    printer << " from ";
    starts.print(printer);
  }
}
