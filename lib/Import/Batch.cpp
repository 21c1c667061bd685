//===- Batch.cpp - which dimension of an input counts samples -------------===//
//
// ONNX does not say it. What the user says stands; then a dimension that the
// exporter was told to call a batch, wherever it is (recurrent networks and
// attention have the sequence first); then leading dimensions whose size is
// open; then leading dimensions if all inputs have one size there. Where
// leading dimensions differ, those of samples have the size with which all
// outputs begin.
//
//===----------------------------------------------------------------------===//
#include "Graph/Names.h"
#include "Importer.h"
#include "kerf/Interfaces/Bounded.h"
#include "kerf/Interfaces/KerfDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallSet.h"

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

bool kerf::namesBatch(StringRef symbol) {
  return symbol.contains_insensitive("batch") ||
         symbol.equals_insensitive("bs") || symbol.equals_insensitive("bsz");
}

namespace {
using Info = onnx::ValueInfoProto;

const onnx::TensorShapeProto &shapeOfInfo(const Info &info) {
  return info.type().tensor_type().shape();
}

/// The first dimension that is called a batch; -1 if none is.
int64_t namedBatch(const Info &info) {
  for (auto [number, dim] : llvm::enumerate(shapeOfInfo(info).dim()))
    if (namesBatch(dim.dim_param()))
      return int64_t(number);
  return -1;
}

bool hasOpenLeading(const Info &info) {
  return shapeOfInfo(info).dim_size() &&
         !shapeOfInfo(info).dim(0).has_dim_value();
}
} // namespace

/// Where the user says what the batch is, its size is that of all inputs, or a
/// multiple: rows of several samples each.
void Importer::requireOneBatch() {
  auto sizeOf = [&](unsigned i) -> int64_t {
    auto dim = function.getArgAttrOfType<IntegerAttr>(i, kBatchDimAttr);
    Value argument = function.getArgument(i);
    return dim && dim.getInt() < rankOf(argument)
               ? shapeOf(argument)[dim.getInt()]
               : 0;
  };
  auto nameOf = [&](unsigned i) {
    return function.getArgAttrOfType<StringAttr>(i, kNameAttr).getValue();
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto given = options.batchDims.find(nameOf(i).str());
    int64_t size = sizeOf(i);
    if (given == options.batchDims.end() || size == 0)
      continue;
    for (unsigned j = 0; j < function.getNumArguments(); ++j)
      if (int64_t other = sizeOf(j);
          other > 0 && size % other != 0 && other % size != 0)
        return usage(nameOf(i), "option batch-dim says dimension " +
                                    Twine(given->second) + ", of size " +
                                    Twine(size) +
                                    ", but the batch of input \"" + nameOf(j) +
                                    "\" has size " + Twine(other));
  }
}

void Importer::findBatch(ArrayRef<const Info *> arguments) {
  // What the user says of one input tells nothing about the others.
  bool isNamed = false, isOpen = false;
  llvm::SmallSet<int64_t, 4> sizes;
  for (auto [index, input] : llvm::enumerate(arguments)) {
    if (options.batchDims.count(input->name()))
      continue;
    isNamed |= namedBatch(*input) > 0;
    isOpen |= hasOpenLeading(*input);
    if (shapeOfInfo(*input).dim_size())
      sizes.insert(shapeOf(function.getArgument(index))[0]);
  }

  for (auto [index, input] : llvm::enumerate(arguments)) {
    auto number = unsigned(index);
    function.setArgAttr(number, kNameAttr, ops.getStringAttr(input->name()));
    int64_t batch = -1;
    if (auto given = options.batchDims.find(input->name());
        given != options.batchDims.end()) {
      batch = given->second;
      int64_t rank = rankOf(function.getArgument(number));
      if (batch >= rank || batch < -1)
        usage(input->name(), "option batch-dim is " + Twine(batch) +
                                 ", expected less than rank " + Twine(rank));
    } else if (isNamed) {
      batch = namedBatch(*input);
    } else if (shapeOfInfo(*input).dim_size() &&
               (isOpen ? hasOpenLeading(*input) : sizes.size() == 1)) {
      batch = 0;
    }
    if (batch >= 0)
      function.setArgAttr(number, kBatchDimAttr, ops.getI64IntegerAttr(batch));
  }
  requireOneBatch();
  std::vector<std::string> inputs; // whether or not their sizes are known
  for (const ModelValue &input : report.inputs)
    inputs.push_back(input.name);
  for (const auto &[name, dim] : options.batchDims)
    if (!llvm::is_contained(inputs, name))
      usage(name, "option batch-dim: " + noInputOf(inputs, name));
}

/// The size with which all outputs begin; none if there are several.
static std::optional<int64_t> leadingSizeOfResults(func::FuncOp function) {
  std::optional<int64_t> size;
  Operation *end = function.getBody().front().getTerminator();
  for (OpOperand &result : end->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(result.get().getType());
    if (!type || type.getRank() == 0 ||
        function.getResultAttr(result.getOperandNumber(), kBoundedAttr))
      continue;
    if (size && *size != type.getDimSize(0))
      return std::nullopt;
    size = type.getDimSize(0);
  }
  return size;
}

void Importer::settleBatch() {
  if (!options.batchDims.empty())
    return;
  SmallVector<unsigned> told, leading;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto dim = function.getArgAttrOfType<IntegerAttr>(i, kBatchDimAttr);
    if (dim && dim.getInt() > 0)
      return;
    if (dim)
      told.push_back(i);
    if (rankOf(function.getArgument(i)) > 0)
      leading.push_back(i);
  }
  auto sizeOf = [&](unsigned i) { return shapeOf(function.getArgument(i))[0]; };
  ArrayRef<unsigned> candidates = told.empty() ? leading : told;
  auto size = leadingSizeOfResults(function);
  auto isOfSamples = [&](unsigned i) { return sizeOf(i) == size; };
  if (!size || llvm::all_of(candidates, isOfSamples) ||
      llvm::none_of(candidates, isOfSamples))
    return;
  for (unsigned i : candidates)
    if (isOfSamples(i))
      function.setArgAttr(i, kBatchDimAttr, ops.getI64IntegerAttr(0));
    else
      function.removeArgAttr(i, kBatchDimAttr);
}
