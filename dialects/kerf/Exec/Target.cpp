//===- Target.cpp - the properties of devices -----------------------------===//
#include "kerf/Exec/Exec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

LogicalResult TargetAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Device, bool, bool, int64_t rowBytes,
                                 EpilogueForm, bool, bool, bool, bool) {
  if (rowBytes < 1 || !llvm::isPowerOf2_64(rowBytes))
    return emitError() << "row_bytes is " << rowBytes
                       << ", expected a power of two";
  return success();
}

TargetAttr TargetAttr::get(MLIRContext *context, Device device) {
  bool cuda = device == Device::Cuda;
  return get(context, device, /*half_products=*/cuda, /*memory_bound=*/cuda,
             /*row_bytes=*/cuda ? 16 : 1,
             cuda ? EpilogueForm::Fixed : EpilogueForm::Chain,
             /*gradient_epilogues=*/cuda, /*batches_updates=*/cuda,
             /*sums_by_block=*/cuda, /*runs_loops=*/!cuda);
}

namespace {
/// The parameters of a target, to be read by name.
struct Abilities {
  Abilities(TargetAttr target)
      : rowBytes(target.getRowBytes()), epilogue(target.getEpilogue()),
        flags{{"half_products", target.getHalfProducts()},
              {"memory_bound", target.getMemoryBound()},
              {"gradient_epilogues", target.getGradientEpilogues()},
              {"batches_updates", target.getBatchesUpdates()},
              {"sums_by_block", target.getSumsByBlock()},
              {"runs_loops", target.getRunsLoops()}} {}

  ParseResult parse(AsmParser &parser) {
    StringRef name, word;
    SMLoc where = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    if (name == "row_bytes")
      return parser.parseInteger(rowBytes);
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    if (name == "epilogue") {
      auto form = symbolizeEpilogueForm(word);
      if (!form)
        return parser.emitError(at, "expected chain or fixed");
      epilogue = *form;
      return success();
    }
    auto flag =
        llvm::find_if(flags, [&](auto &each) { return each.first == name; });
    if (flag == std::end(flags))
      return parser.emitError(where)
             << "a target says nothing of '" << name << "'";
    if (word != "true" && word != "false")
      return parser.emitError(at, "expected true or false");
    flag->second = word == "true";
    return success();
  }

  int64_t rowBytes;
  EpilogueForm epilogue;
  std::pair<StringRef, bool> flags[6]; ///< in the order of the parameters
};
} // namespace

Attribute TargetAttr::parse(AsmParser &parser, Type) {
  StringRef word;
  if (parser.parseLess())
    return {};
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return {};
  auto device = symbolizeDevice(word);
  if (!device) {
    parser.emitError(at) << "unknown device '" << word << "'";
    return {};
  }
  Abilities is(get(parser.getContext(), *device));
  while (succeeded(parser.parseOptionalComma()))
    if (is.parse(parser))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<TargetAttr>(
      parser.getContext(), *device, is.flags[0].second, is.flags[1].second,
      is.rowBytes, is.epilogue, is.flags[2].second, is.flags[3].second,
      is.flags[4].second, is.flags[5].second);
}

void TargetAttr::print(AsmPrinter &printer) const {
  Abilities is(*this), usual(get(getContext(), getDevice()));
  printer << '<' << stringifyDevice(getDevice());
  for (auto [flag, expected] : llvm::zip_equal(is.flags, usual.flags))
    if (flag.second != expected.second)
      printer << ", " << flag.first << " = "
              << (flag.second ? "true" : "false");
  if (is.rowBytes != usual.rowBytes)
    printer << ", row_bytes = " << is.rowBytes;
  if (is.epilogue != usual.epilogue)
    printer << ", epilogue = " << stringifyEpilogueForm(is.epilogue);
  printer << '>';
}

TargetAttr TargetAttr::of(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto target = op->getAttrOfType<TargetAttr>(kName))
      return target;
    else if (!op->getParentOp())
      return get(op->getContext(), Device::Cpu);
  return {};
}

dist::MeshAttr kerf::exec::getMesh(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module ? module->getAttrOfType<dist::MeshAttr>(kMesh)
                : dist::MeshAttr();
}
