//===- Attributes.cpp - attributes and types of exec ----------------------===//
//
// Text and verifiers. Labels C1... are those of the descriptions in the .td
// files.
//
//===----------------------------------------------------------------------===//
#include "Assembly.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

#include "kerf/Exec/ExecEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "kerf/Exec/ExecTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kerf/Exec/ExecAttrs.cpp.inc"

void ExecDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kerf/Exec/ExecAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "kerf/Exec/ExecTypes.cpp.inc"
      >();
}

static bool anyBelow(ArrayRef<int64_t> values, int64_t limit) {
  return llvm::any_of(values, [&](int64_t value) { return value < limit; });
}

//===----------------------------------------------------------------------===//
// Weights and views
//===----------------------------------------------------------------------===//

Type WeightType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  if (parser.parseLess() ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(element) || parser.parseGreater())
    return {};
  return get(parser.getContext(), shape, element);
}

void WeightType::print(AsmPrinter &printer) const {
  printer << '<';
  for (int64_t size : getShape())
    printer << size << 'x';
  printer << getElementType() << '>';
}

LogicalResult ViewAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<int64_t> strides, int64_t offset) {
  // view C1
  if (anyBelow(strides, 0) || offset < 0)
    return emitError() << "view has a negative stride or offset";
  // view C2
  if (strides.empty() && offset == 0)
    return emitError() << "view has neither strides nor an offset";
  return success();
}

Attribute ViewAttr::parse(AsmParser &parser, Type) {
  ViewAttr view;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseView(parser, view) || parser.parseGreater())
    return {};
  if (!view)
    parser.emitError(loc, "expected strides or an offset");
  return view;
}

void ViewAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printView(printer, *this);
  printer << '>';
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

static constexpr StringLiteral windowKeys[] = {
    "in", "out", "kernel", "strides", "low", "high", "dilations"};

Attribute WindowAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> lists[7];
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess())
    return {};
  for (auto [key, list] : llvm::zip_equal(windowKeys, lists))
    if (parser.parseKeyword(key) || parseList(parser, list))
      return {};
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    ArrayRef(lists[0]), ArrayRef(lists[1]), ArrayRef(lists[2]),
                    ArrayRef(lists[3]), ArrayRef(lists[4]), ArrayRef(lists[5]),
                    ArrayRef(lists[6]));
}

void WindowAttr::print(AsmPrinter &printer) const {
  ArrayRef<int64_t> lists[] = {getIn(),  getOut(),  getKernel(),   getStrides(),
                               getLow(), getHigh(), getDilations()};
  printer << '<';
  for (auto [i, list] : llvm::enumerate(lists)) {
    printer << (i ? " " : "") << windowKeys[i] << ' ';
    printList(printer, list);
  }
  printer << '>';
}

LogicalResult WindowAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> in, ArrayRef<int64_t> out,
                                 ArrayRef<int64_t> kernel,
                                 ArrayRef<int64_t> strides,
                                 ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                                 ArrayRef<int64_t> dilations) {
  // window C1
  if (in.empty() || in.size() > 3)
    return emitError() << "window has " << in.size()
                       << " spatial dimensions, expected 1 to 3";
  for (ArrayRef<int64_t> list : {out, kernel, strides, low, high, dilations})
    if (list.size() != in.size())
      return emitError() << "window has a list of " << list.size()
                         << " entries, expected " << in.size();
  // window C2
  for (ArrayRef<int64_t> list : {in, out, low, high})
    if (anyBelow(list, 0))
      return emitError() << "window has a negative size or padding";
  for (ArrayRef<int64_t> list : {kernel, strides, dilations})
    if (anyBelow(list, 1))
      return emitError() << "window has a kernel, stride or dilation below 1";
  return success();
}

SmallVector<int64_t> WindowAttr::getExpectedOut() const {
  SmallVector<int64_t> out;
  for (size_t d = 0; d < getIn().size(); ++d) {
    int64_t room = getIn()[d] + getLow()[d] + getHigh()[d] -
                   ((getKernel()[d] - 1) * getDilations()[d] + 1);
    out.push_back(room < 0 ? 0 : room / getStrides()[d] + 1);
  }
  return out;
}

LogicalResult
AttentionSizesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                           int64_t batch, int64_t heads, int64_t keyHeads,
                           int64_t queries, int64_t keys, int64_t headSize,
                           int64_t valueSize) {
  // attention C1
  if (keyHeads < 1 || heads % keyHeads != 0)
    return emitError() << "key_heads is " << keyHeads
                       << ", expected a divisor of heads, " << heads;
  // attention C2
  if (keys < 1 || anyBelow({batch, heads, queries, headSize, valueSize}, 0))
    return emitError() << "attention has no keys or a negative size";
  return success();
}

//===----------------------------------------------------------------------===//
// Epilogues and what else a product could do
//===----------------------------------------------------------------------===//

bool kerf::exec::takesOperand(PostOpKind kind) {
  switch (kind) {
  case PostOpKind::Add:
  case PostOpKind::Sub:
  case PostOpKind::Mul:
  case PostOpKind::Div:
  case PostOpKind::GeluTanhGradient:
    return true;
  default:
    return false;
  }
}

SmallVector<PostOpAttr> kerf::exec::epilogueOf(ArrayAttr postOps) {
  if (!postOps)
    return {};
  return llvm::to_vector(postOps.getAsRange<PostOpAttr>());
}

Attribute PostOpAttr::parse(AsmParser &parser, Type) {
  PostOpKind kind;
  FloatAttr alpha, beta;
  ViewAttr view;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parseKind(parser, kind, alpha, beta) ||
      parseView(parser, view) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    kind, alpha, beta, view);
}

void PostOpAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printKind(printer, *this);
  printView(printer, getView());
  printer << '>';
}

LogicalResult PostOpAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 PostOpKind kind, FloatAttr alpha,
                                 FloatAttr beta, ViewAttr view) {
  // post_op C1
  bool linear = kind == PostOpKind::Linear;
  if (linear != static_cast<bool>(alpha) || linear != static_cast<bool>(beta))
    return emitError() << stringifyPostOpKind(kind)
                       << (linear ? " lacks" : " has") << " numbers";
  // post_op C2
  if (view && !takesOperand(kind))
    return emitError() << stringifyPostOpKind(kind)
                       << " has a view but no second tensor";
  return success();
}

LogicalResult
BiasGradientAttr::verify(function_ref<InFlightDiagnostic()> emitError, Side,
                         int64_t rows, int64_t) {
  // bias_gradient C1
  if (rows < 1)
    return emitError() << "bias_gradient has " << rows
                       << " rows, expected at least 1";
  return success();
}

//===----------------------------------------------------------------------===//
// Code for GPUs
//===----------------------------------------------------------------------===//

Attribute GpuKernelAttr::parse(AsmParser &parser, Type) {
  std::string entry;
  SmallVector<int64_t> grid, block, bytes, arguments;
  int64_t reads = 0;
  GpuBatchAttr batch;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseString(&entry) ||
      parser.parseKeyword("grid") || parseList(parser, grid) ||
      parser.parseKeyword("block") || parseList(parser, block) ||
      parser.parseKeyword("bytes") || parseList(parser, bytes) ||
      parser.parseKeyword("reads") || parser.parseInteger(reads))
    return {};
  if (succeeded(parser.parseOptionalKeyword("arguments")) &&
      parseList(parser, arguments))
    return {};
  bool fails = succeeded(parser.parseOptionalKeyword("fails"));
  if (succeeded(parser.parseOptionalKeyword("batch")) &&
      parser.parseCustomAttributeWithFallback(batch))
    return {};
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    StringRef(entry), ArrayRef(grid), ArrayRef(block),
                    ArrayRef(bytes), reads, ArrayRef(arguments), fails, batch);
}

void GpuKernelAttr::print(AsmPrinter &printer) const {
  printer << "<\"" << getEntry() << "\" grid ";
  printList(printer, getGrid());
  printer << " block ";
  printList(printer, getBlock());
  printer << " bytes ";
  printList(printer, getBytes());
  printer << " reads " << getReads();
  if (!getArguments().empty()) {
    printer << " arguments ";
    printList(printer, getArguments());
  }
  if (getFails())
    printer << " fails";
  if (getBatch()) {
    printer << " batch ";
    printer.printStrippedAttrOrType(getBatch());
  }
  printer << '>';
}

LogicalResult
GpuKernelAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef,
                      ArrayRef<int64_t> grid, ArrayRef<int64_t> block,
                      ArrayRef<int64_t> bytes, int64_t reads, ArrayRef<int64_t>,
                      bool, GpuBatchAttr) {
  // gpu_kernel C1
  if (grid.size() != 3 || block.size() != 3)
    return emitError() << "grid and block have " << grid.size() << " and "
                       << block.size() << " dimensions, expected 3";
  // gpu_kernel C2
  if (reads < 0 || reads > static_cast<int64_t>(bytes.size()))
    return emitError() << "reads is " << reads << " of " << bytes.size()
                       << " buffers";
  return success();
}
