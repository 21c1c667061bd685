//===- Inspect.cpp - facts about a model, as text and JSON ----------------===//
//
// Facts come from the report, which is filled even where the import fails;
// FLOPs from the OpCost interface of the imported module.
//
//===----------------------------------------------------------------------===//
#include "kerf/Format/Schemas.h"
#include "kerf/Import/Import.h"
#include "kerf/Interfaces/Bounded.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;
using namespace mlir;

static std::optional<SmallVector<RankedTensorType>>
tensorTypes(TypeRange types) {
  SmallVector<RankedTensorType> result;
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return std::nullopt;
    result.push_back(tensor);
  }
  return result;
}

ModuleCost kerf::costOfModule(ModuleOp module) {
  ModuleCost cost;
  module.walk([&](OpCostInterface op) {
    auto operands = tensorTypes(op->getOperandTypes());
    auto results = tensorTypes(op->getResultTypes());
    ++cost.opCounts[op->getName().getStringRef().str()];
    if (operands && results)
      cost.flops = llvm::SaturatingAdd(
          uint64_t(cost.flops), uint64_t(op.getFlops(*operands, *results)));
  });
  return cost;
}

namespace {
/// An output whose size the program computes: the dimensions that it computes,
/// and the shape with the maximum of each.
struct Largest {
  SmallVector<int64_t> dims, shape;
};
} // namespace

static llvm::StringMap<Largest> largestOutputs(ModuleOp module) {
  llvm::StringMap<Largest> result;
  auto main =
      module ? module.lookupSymbol<func::FuncOp>("main") : func::FuncOp();
  for (unsigned i = 0; main && i < main.getNumResults(); ++i) {
    auto bounded = main.getResultAttrOfType<ArrayAttr>(i, kBoundedAttr);
    auto name = main.getResultAttrOfType<StringAttr>(i, kNameAttr);
    if (!bounded || !name)
      continue;
    Largest &largest = result[name.getValue()];
    for (size_t at = 0; at < bounded.size(); at += 2)
      largest.dims.push_back(cast<IntegerAttr>(bounded[at]).getInt());
    auto type = cast<RankedTensorType>(main.getResultTypes()[i]);
    largest.shape.assign(type.getShape().begin(), type.getShape().end());
  }
  return result;
}

static void printValue(raw_ostream &stream, const ModelValue &value,
                       const Largest &largest = {}) {
  stream << "  " << value.name << ": " << value.elementType << "[";
  std::vector<ModelValue::Dim> dims = value.dims;
  dims.resize(std::max(dims.size(), largest.shape.size()));
  for (auto [dim, size] : llvm::enumerate(largest.shape))
    if (!value.hasShape || llvm::is_contained(largest.dims, int64_t(dim)))
      dims[dim] = {size, ""};
  for (auto [index, dim] : llvm::enumerate(dims)) {
    stream << (index ? ", " : "") << dim.symbol;
    if (llvm::is_contained(largest.dims, int64_t(index)))
      stream << "at most ";
    if (!dim.symbol.empty() && dim.size >= 0)
      stream << "=";
    if (dim.symbol.empty() || dim.size >= 0)
      stream << dim.size;
  }
  stream << (value.isRead ? "]\n" : "] (not read)\n");
}

static std::string scaled(double number, ArrayRef<const char *> units,
                          double step) {
  size_t unit = 0;
  for (; number >= step && unit + 1 < units.size(); number /= step)
    ++unit;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.4g", number) << units[unit];
  return text;
}

void kerf::printInspection(raw_ostream &stream, const ImportReport &report,
                           ModuleOp module) {
  stream << "model " << report.file;
  if (!report.graphName.empty())
    stream << " (" << report.graphName << ")";
  stream << "\n";
  if (!report.producer.empty())
    stream << "written by " << report.producer << "\n";
  stream << "format version " << report.irVersion << ", operator sets ";
  bool first = true;
  for (const auto &[domain, version] : report.opsets) {
    stream << (first ? "" : ", ") << (domain.empty() ? "ai.onnx" : domain)
           << " " << version;
    first = false;
  }
  stream << "\ninputs\n";
  for (const ModelValue &value : report.inputs)
    printValue(stream, value);
  stream << "outputs\n";
  llvm::StringMap<Largest> largest = largestOutputs(module);
  for (const ModelValue &value : report.outputs)
    printValue(stream, value, largest.lookup(value.name));
  if (!report.unboundDims.empty() || !report.steeringInputs.empty())
    stream << "not bound\n";
  for (const std::string &dim : report.unboundDims)
    stream << "  " << dim << " (option dim " << dim << "=SIZE)\n";
  for (const std::string &input : report.steeringInputs)
    stream << "  " << input << ", which steers a shape (option constant "
           << input << "=@FILE.npy or option constant " << input << "=1,2,3)\n";
  // Only an imported module tells which constants are parameters.
  bool isOpen = !report.unboundDims.empty();
  StringRef open =
      report.steeringInputs.empty() ? "these dimensions are" : "these are";
  if (isOpen && report.numParameters == 0)
    stream << "parameters are counted once " << open << " bound\n";
  else if (module || report.numParameters > 0) {
    stream << "parameters " << report.numParameters
           << (report.numParameters == 1 ? " tensor, " : " tensors, ")
           << report.parameterElements
           << (report.parameterElements == 1 ? " element, " : " elements, ")
           << scaled(double(report.parameterBytes),
                     {" B", " KiB", " MiB", " GiB"}, 1024)
           << " (floats that the file stores";
    if (report.bufferElements > 0)
      stream << "; " << report.bufferElements
             << (report.bufferElements == 1 ? " element is a buffer's"
                                            : " elements are buffers'")
             << ", as the exporter says";
    if (size_t count =
            report.numbers.size() + report.bounds.size() + report.ratios.size())
      stream << "; " << count
             << (count == 1 ? " number without dimensions is a "
                              "constant"
                            : " numbers without dimensions are "
                              "constants");
    stream << ")\n";
  }
  if (module) {
    ModuleCost cost = costOfModule(module);
    stream << "FLOPs " << cost.flops;
    if (cost.flops >= 1000)
      stream << " ("
             << scaled(double(cost.flops),
                       {"", " kFLOP", " MFLOP", " GFLOP", " TFLOP"}, 1000)
             << ")";
    stream << "\n";
  } else if (isOpen) {
    stream << "FLOPs are counted once " << open << " bound\n";
  }
  stream << "operators\n";
  for (const auto &[name, count] : report.operatorCounts)
    stream << "  " << name << " " << count << "\n";
  if (!report.unsupported.empty()) {
    stream << "unsupported\n";
    for (const UnsupportedItem &item : report.unsupported) {
      stream << "  " << item.what << ": ";
      llvm::interleaveComma(item.nodes, stream);
      stream << "\n";
    }
  }
}

static llvm::json::Array
valuesJson(const std::vector<ModelValue> &values,
           const llvm::StringMap<Largest> &largest = {}) {
  llvm::json::Array result;
  for (const ModelValue &value : values) {
    llvm::json::Array dims;
    Largest bounded = largest.lookup(value.name);
    for (auto [index, dim] : llvm::enumerate(value.dims)) {
      if (llvm::is_contained(bounded.dims, int64_t(index)))
        dims.push_back(bounded.shape[index]);
      else if (dim.size >= 0)
        dims.push_back(dim.size);
      else
        dims.push_back(dim.symbol);
    }
    if (!value.hasShape)
      dims = llvm::json::Array(bounded.shape);
    llvm::json::Object object{{"name", value.name},
                              {"type", value.elementType},
                              {"shape", std::move(dims)}};
    llvm::json::Object symbols;
    for (auto [index, dim] : llvm::enumerate(value.dims))
      if (!dim.symbol.empty())
        symbols[std::to_string(index)] = dim.symbol;
    if (!symbols.empty())
      object["symbols"] = std::move(symbols);
    if (!value.isRead)
      object["read"] = false;
    if (!bounded.dims.empty()) // these sizes are the most that they can be
      object["bounded"] = llvm::json::Array(bounded.dims);
    result.push_back(std::move(object));
  }
  return result;
}

void kerf::printInspectionJson(raw_ostream &stream, const ImportReport &report,
                               ModuleOp module) {
  llvm::json::Object opsets, operators;
  for (const auto &[domain, version] : report.opsets)
    opsets[domain.empty() ? "ai.onnx" : domain] = version;
  for (const auto &[name, count] : report.operatorCounts)
    operators[name] = count;
  llvm::json::Array unsupported;
  for (const UnsupportedItem &item : report.unsupported)
    unsupported.push_back(llvm::json::Object{
        {"what", item.what}, {"nodes", llvm::json::Array(item.nodes)}});
  llvm::json::Object object{
      {"schema", inspectSchema.text()},
      {"file", report.file},
      {"graph", report.graphName},
      {"producer", report.producer},
      {"ir_version", report.irVersion},
      {"opsets", std::move(opsets)},
      {"inputs", valuesJson(report.inputs)},
      {"outputs", valuesJson(report.outputs, largestOutputs(module))},
      {"unbound_dims", llvm::json::Array(report.unboundDims)},
      {"parameters", llvm::json::Object{{"tensors", report.numParameters},
                                        {"elements", report.parameterElements},
                                        {"bytes", report.parameterBytes}}},
      {"operators", std::move(operators)},
      {"unsupported", std::move(unsupported)}};
  if (module) {
    ModuleCost cost = costOfModule(module);
    llvm::json::Object counts;
    for (const auto &[name, count] : cost.opCounts)
      counts[name] = count;
    object["flops"] = cost.flops;
    object["ops"] = std::move(counts);
  }
  stream << llvm::formatv("{0:2}", llvm::json::Value(std::move(object)))
         << "\n";
}
