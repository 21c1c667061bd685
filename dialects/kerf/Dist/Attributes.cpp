//===- Attributes.cpp - meshes and shardings in the IR --------------------===//
//
// Text and plain-data forms of the attributes. The attributes name axes, the
// plain data (Layout.h) number them; a mesh joins the two.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

template <typename... Parts>
static llvm::Error makeError(const Parts &...parts) {
  std::string text;
  llvm::raw_string_ostream os(text);
  (os << ... << parts);
  return llvm::createStringError(text);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static ParseResult parseReductionKind(AsmParser &parser, ReductionKind &kind) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  auto value = symbolizeReductionKind(word);
  if (!value)
    return parser.emitError(loc, "unknown reduction '")
           << word << "', expected sum, max, min or prod";
  kind = *value;
  return success();
}

Attribute CollectiveKindAttr::parse(AsmParser &parser, Type) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&word) || parser.parseGreater())
    return {};
  auto kind = parseCollectiveKind(word);
  if (!kind) {
    parser.emitError(loc, "unknown collective '") << word << "'";
    return {};
  }
  return get(parser.getContext(), *kind);
}

void CollectiveKindAttr::print(AsmPrinter &printer) const {
  printer << '<' << StringRef(collectiveName(getValue())) << '>';
}

Attribute ReductionAttr::parse(AsmParser &parser, Type) {
  ReductionKind kind;
  if (parseReductionKind(parser, kind))
    return {};
  return get(parser.getContext(), kind);
}
void ReductionAttr::print(AsmPrinter &printer) const {
  printer << ' ' << stringifyReductionKind(getValue());
}

Attribute AxisAttr::parse(AsmParser &parser, Type) {
  std::string name;
  int64_t preSize = 1, size = 0;
  if (parser.parseString(&name))
    return {};
  if (succeeded(parser.parseOptionalColon()) &&
      (parser.parseLParen() || parser.parseInteger(preSize) ||
       parser.parseRParen() || parser.parseInteger(size)))
    return {};
  return get(parser.getContext(), name, preSize, size);
}
static void printAxis(AsmPrinter &printer, AxisAttr axis) {
  printer << '"' << axis.getName() << '"';
  if (!axis.isWhole())
    printer << ":(" << axis.getPreSize() << ")" << axis.getSize();
}
void AxisAttr::print(AsmPrinter &printer) const {
  printer << ' ';
  printAxis(printer, *this);
}

static FailureOr<AxesAttr> parseAxes(AsmParser &parser,
                                     AsmParser::Delimiter delimiter) {
  SmallVector<AxisAttr> axes;
  if (parser.parseCommaSeparatedList(delimiter, [&]() -> ParseResult {
        auto axis = dyn_cast_or_null<AxisAttr>(AxisAttr::parse(parser, {}));
        if (!axis)
          return failure();
        axes.push_back(axis);
        return success();
      }))
    return failure();
  return AxesAttr::get(parser.getContext(), axes);
}
static void printAxes(AsmPrinter &printer, AxesAttr axes, char open,
                      char close) {
  printer << open;
  llvm::interleaveComma(axes.getAxes(), printer,
                        [&](AxisAttr axis) { printAxis(printer, axis); });
  printer << close;
}

Attribute AxesAttr::parse(AsmParser &parser, Type) {
  auto axes = parseAxes(parser, AsmParser::Delimiter::Square);
  return failed(axes) ? Attribute() : Attribute(*axes);
}
void AxesAttr::print(AsmPrinter &printer) const {
  printAxes(printer, *this, '[', ']');
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(sizes.emplace_back()))
      return failure();
    names.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis))
    return {};
  size_t inSpace = names.size();
  if (succeeded(parser.parseOptionalKeyword("time")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis))
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    names, sizes, static_cast<int64_t>(names.size() - inSpace));
}
void MeshAttr::print(AsmPrinter &printer) const {
  size_t inSpace = getNames().size() - getNumTimeAxes();
  auto print = [&](size_t begin, size_t end) {
    printer << '[';
    for (size_t i = begin; i < end; ++i)
      printer << (i == begin ? "\"" : ", \"") << getNames()[i].getValue()
              << "\"=" << getSizes()[i];
    printer << ']';
  };
  print(0, inSpace);
  if (getNumTimeAxes()) {
    printer << " time ";
    print(inSpace, getNames().size());
  }
}
LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> names,
                               ArrayRef<int64_t> sizes, int64_t numTimeAxes) {
  // mesh C1, C2
  Mesh mesh;
  for (auto [name, size] : llvm::zip_equal(names, sizes))
    mesh.axes.push_back({name.getValue().str(), size, false});
  if (std::string wrong = checkMesh(mesh); !wrong.empty())
    return emitError() << wrong;
  return success();
}

/// None where all are 0.
static ArrayRef<int64_t> withoutZeros(ArrayRef<int64_t> blocks) {
  bool any = llvm::any_of(blocks, [](int64_t block) { return block != 0; });
  return any ? blocks : ArrayRef<int64_t>();
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<AxesAttr> dims;
  SmallVector<int64_t> blocks;
  AxesAttr partial = AxesAttr::get(parser.getContext(), {});
  ReductionKind kind = ReductionKind::Sum;
  auto parseEntry = [&]() -> ParseResult {
    bool isPartial = succeeded(parser.parseOptionalKeyword("partial"));
    if (isPartial && parseReductionKind(parser, kind))
      return failure();
    auto axes = parseAxes(parser, AsmParser::Delimiter::Braces);
    if (failed(axes))
      return failure();
    if (!partial.getAxes().empty())
      return parser.emitError(parser.getCurrentLocation(),
                              "the partial axes must come last");
    if (isPartial) {
      partial = *axes;
      return success();
    }
    dims.push_back(*axes);
    int64_t &block = blocks.emplace_back(0);
    SMLoc loc = parser.getCurrentLocation();
    if (failed(parser.parseOptionalColon()))
      return success();
    if (parser.parseInteger(block))
      return failure();
    if (block < 1)
      return parser.emitError(loc, "blocks of ")
             << block << ", expected at least 1";
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseEntry))
    return {};
  return get(parser.getContext(), dims, partial, kind, withoutZeros(blocks));
}
void ShardingAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleaveComma(llvm::enumerate(getDims()), printer, [&](auto entry) {
    printAxes(printer, entry.value(), '{', '}');
    if (int64_t block = getBlock(entry.index()))
      printer << ':' << block;
  });
  if (isPartial()) {
    printer << (getDims().empty() ? "" : ", ") << "partial "
            << stringifyReductionKind(getReduction()) << ' ';
    printAxes(printer, getPartial(), '{', '}');
  }
  printer << '>';
}

//===----------------------------------------------------------------------===//
// Plain data
//===----------------------------------------------------------------------===//

Mesh MeshAttr::toMesh() const {
  Mesh mesh;
  size_t inSpace = getNames().size() - getNumTimeAxes();
  for (auto [index, name] : llvm::enumerate(getNames()))
    mesh.axes.push_back(
        {name.getValue().str(), getSizes()[index], index >= inSpace});
  return mesh;
}

MeshAttr MeshAttr::get(MLIRContext *context, const Mesh &mesh) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  int64_t numTimeAxes = 0;
  for (const MeshAxis &axis : mesh.axes) {
    names.push_back(StringAttr::get(context, axis.name));
    sizes.push_back(axis.size);
    numTimeAxes += axis.isTime;
  }
  return get(context, names, sizes, numTimeAxes);
}

llvm::Expected<AxisList> dist::toAxisList(AxesAttr axes, const Mesh &mesh) {
  AxisList result;
  for (AxisAttr axis : axes.getAxes()) {
    auto number = mesh.find(axis.getName());
    if (!number)
      return makeError("axis \"", axis.getName(), "\" is not in the mesh");
    if (axis.isWhole())
      result.push_back(wholeAxis(mesh, *number));
    else
      result.push_back({*number, axis.getPreSize(), axis.getSize()});
  }
  if (std::string text = checkAxes(result, mesh); !text.empty())
    return makeError(text);
  return result;
}

AxesAttr dist::toAxesAttr(MLIRContext *context, ArrayRef<AxisRef> axes,
                          const Mesh &mesh) {
  SmallVector<AxisAttr> result;
  for (const AxisRef &ref : axes) {
    bool whole = ref == wholeAxis(mesh, ref.axis);
    result.push_back(AxisAttr::get(context, mesh.axes[ref.axis].name,
                                   whole ? 1 : ref.preSize,
                                   whole ? 0 : ref.size));
  }
  return AxesAttr::get(context, result);
}

ShardingAttr ShardingAttr::get(MLIRContext *context, MeshAttr meshAttr,
                               const Layout &layout) {
  Mesh mesh = meshAttr.toMesh();
  Layout canonical = layout;
  canonical.canonicalize();
  SmallVector<AxesAttr> dims;
  for (const AxisList &axes : canonical.dims)
    dims.push_back(toAxesAttr(context, axes, mesh));
  return get(context, dims, toAxesAttr(context, canonical.partial, mesh),
             canonical.reduction, canonical.blocks);
}

llvm::Expected<Layout> ShardingAttr::toLayout(const Mesh &mesh) const {
  Layout layout;
  for (AxesAttr axes : getDims()) {
    auto list = toAxisList(axes, mesh);
    if (!list)
      return list.takeError();
    layout.dims.push_back(std::move(*list));
  }
  layout.blocks.assign(getBlocks().begin(), getBlocks().end());
  auto partial = toAxisList(getPartial(), mesh);
  if (!partial)
    return partial.takeError();
  layout.partial = std::move(*partial);
  layout.reduction = getReduction();
  // Each list alone is fine; now no axis twice among them (sharding C2).
  std::string text = checkLayout(layout, mesh, layout.dims.size());
  if (!text.empty())
    return makeError(text);
  layout.canonicalize();
  return layout;
}

#define GET_ATTRDEF_CLASSES
#include "kerf/Dist/DistAttrs.cpp.inc"

void DistDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kerf/Dist/DistAttrs.cpp.inc"
      >();
}
