//===- Target.cpp - the properties of devices -----------------------------===//
#include "kerf/Exec/Exec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

LogicalResult TargetAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Device device, bool, bool, int64_t rowBytes,
                                 EpilogueForm, bool, bool, bool, bool,
                                 int64_t vectorBytes, int64_t heldBytes,
                                 int64_t processors, int64_t blockThreads,
                                 int64_t sharedBytes) {
  if (rowBytes < 1 || !llvm::isPowerOf2_64(rowBytes))
    return emitError() << "row_bytes is " << rowBytes
                       << ", expected a power of two";
  // A CPU's registers have 16 to 64 bytes; a GPU's loads at most 16.
  bool isCuda = device == Device::Cuda;
  int64_t low = isCuda ? 4 : 16, high = isCuda ? 16 : 64;
  if ((isCuda || vectorBytes != 0) &&
      (vectorBytes < low || vectorBytes > high ||
       !llvm::isPowerOf2_64(vectorBytes)))
    return emitError() << "vector_bytes is " << vectorBytes
                       << ", expected a power of two from " << low << " to "
                       << high << (isCuda ? "" : ", or 0");
  if (isCuda && (blockThreads < 256 || blockThreads > 1024 ||
                 !llvm::isPowerOf2_64(blockThreads)))
    return emitError() << "block_threads is " << blockThreads
                       << ", expected a power of two from 256 to 1024";
  if (isCuda && processors < 1)
    return emitError() << "processors is " << processors
                       << ", expected at least 1";
  for (auto [name, bytes] :
       {std::pair("held_bytes", heldBytes), {"shared_bytes", sharedBytes}})
    if (bytes < 0)
      return emitError() << name << " is " << bytes << ", expected at least 0";
  return success();
}

TargetAttr TargetAttr::get(MLIRContext *context, Device device) {
  bool cuda = device == Device::Cuda;
  return get(context, device, /*half_products=*/cuda, /*memory_bound=*/cuda,
             /*row_bytes=*/cuda ? 16 : 1,
             cuda ? EpilogueForm::Fixed : EpilogueForm::Chain,
             /*gradient_epilogues=*/cuda, /*batches_updates=*/cuda,
             /*sums_by_block=*/cuda, /*runs_loops=*/!cuda,
             /*vector_bytes=*/cuda ? 16 : 0,
             /*held_bytes=*/32 << 20, /*processors=*/cuda ? 132 : 0,
             /*block_threads=*/cuda ? 1024 : 0,
             /*shared_bytes=*/cuda ? 48 << 10 : 0);
}

namespace {
/// The parameters of a target, to be read by name.
struct Abilities {
  Abilities(TargetAttr target)
      : epilogue(target.getEpilogue()),
        flags{{"half_products", target.getHalfProducts()},
              {"memory_bound", target.getMemoryBound()},
              {"gradient_epilogues", target.getGradientEpilogues()},
              {"batches_updates", target.getBatchesUpdates()},
              {"sums_by_block", target.getSumsByBlock()},
              {"runs_loops", target.getRunsLoops()}},
        numbers{{"row_bytes", target.getRowBytes()},
                {"vector_bytes", target.getVectorBytes()},
                {"held_bytes", target.getHeldBytes()},
                {"processors", target.getProcessors()},
                {"block_threads", target.getBlockThreads()},
                {"shared_bytes", target.getSharedBytes()}} {}

  ParseResult parse(AsmParser &parser) {
    StringRef name, word;
    SMLoc where = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    auto called = [&](auto &each) { return each.first == name; };
    if (auto *number = llvm::find_if(numbers, called);
        number != std::end(numbers))
      return parser.parseInteger(number->second);
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
    auto *flag = llvm::find_if(flags, called);
    if (flag == std::end(flags))
      return parser.emitError(where)
             << "a target says nothing of '" << name << "'";
    if (word != "true" && word != "false")
      return parser.emitError(at, "expected true or false");
    flag->second = word == "true";
    return success();
  }

  EpilogueForm epilogue;
  std::pair<StringRef, bool> flags[6];      ///< in the order of the parameters
  std::pair<StringRef, int64_t> numbers[6]; ///< likewise
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
  auto flag = [&](size_t i) { return is.flags[i].second; };
  auto number = [&](size_t i) { return is.numbers[i].second; };
  return parser.getChecked<TargetAttr>(
      parser.getContext(), *device, flag(0), flag(1), number(0), is.epilogue,
      flag(2), flag(3), flag(4), flag(5), number(1), number(2), number(3),
      number(4), number(5));
}

void TargetAttr::print(AsmPrinter &printer) const {
  Abilities is(*this), usual(get(getContext(), getDevice()));
  printer << '<' << stringifyDevice(getDevice());
  for (auto [flag, expected] : llvm::zip_equal(is.flags, usual.flags))
    if (flag.second != expected.second)
      printer << ", " << flag.first << " = "
              << (flag.second ? "true" : "false");
  for (auto [number, expected] : llvm::zip_equal(is.numbers, usual.numbers))
    if (number.second != expected.second)
      printer << ", " << number.first << " = " << number.second;
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

TargetAttr TargetAttr::of(Operation *op, Device device) {
  TargetAttr target = of(op);
  return target.getDevice() == device ? target : get(op->getContext(), device);
}

dist::MeshAttr kerf::exec::getMesh(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module ? module->getAttrOfType<dist::MeshAttr>(kMesh)
                : dist::MeshAttr();
}
