//===- Import.cpp - from a file to a module -------------------------------===//
//
// Map and parse the file, bind what the user gave, import the nodes, declare
// inputs and outputs, simplify. Every step reports its errors and continues
// where it can.
//
//===----------------------------------------------------------------------===//
#include "File/Npy.h"
#include "File/Wire.h"
#include "Forms.h"
#include "Graph/Handlers.h"
#include "Graph/Names.h"
#include "Graph/Sequence.h"
#include "Importer.h"
#include "QuietDropout.h"
#include "RandomMasks.h"
#include "Weights/Join.h"
#include "Weights/Kinds.h"
#include "Weights/OwnReads.h"
#include "Weights/Untie.h"

#include "kerf/Interfaces/Bounded.h"
#include "kerf/Support/NamePattern.h"
#include "kerf/Support/Preconditions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

#include <google/protobuf/io/coded_stream.h>

#include <set>

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

Importer::Importer(MLIRContext &context, const ImportOptions &options,
                   ImportReport &report)
    : ops(&context), context(context), options(options), report(report) {}

void Importer::refuse(StringRef node, const Twine &message, StringRef cause) {
  report.issues.push_back(
      {ImportIssue::Kind::Refused, node.str(), message.str(), {}, cause.str()});
}
void Importer::usage(StringRef node, const Twine &message, StringRef cause) {
  report.issues.push_back(
      {ImportIssue::Kind::Usage, node.str(), message.str(), {}, cause.str()});
}
void Importer::usageOfSizes(StringRef node, const Twine &message) {
  usage(node, message);
  report.issues.back().isOfSizes = true;
}
void Importer::unsupported(const std::string &what, StringRef node,
                           StringRef form) {
  auto [entry, isNew] =
      unsupportedIndex.try_emplace(what, report.unsupported.size());
  if (isNew)
    report.unsupported.push_back({what, {}, form.str()});
  report.unsupported[entry->second].nodes.push_back(node.str());
}

Block *Importer::startBody() {
  bodies.push_back(std::make_unique<Region>(function));
  return &bodies.back()->emplaceBlock();
}

bool Importer::attempt(llvm::function_ref<LogicalResult()> import) {
  ImportReport before = report;
  auto knownUnsupported = unsupportedIndex;
  int64_t nodesBefore = nodesImported;
  auto numErrors = [&] {
    size_t errors = report.issues.size();
    for (const auto &entry : report.unsupported)
      errors += entry.nodes.size();
    return errors;
  };
  size_t errors = numErrors();
  if (succeeded(import()) && numErrors() == errors)
    return true;
  report = std::move(before);
  unsupportedIndex = std::move(knownUnsupported);
  nodesImported = nodesBefore;
  return false;
}

bool Importer::storesIntegers(StringRef name) const {
  if (constants.contains(name))
    return true;
  auto stored = initializers.find(name);
  return stored != initializers.end() &&
         (stored->second->data_type() == onnx::TensorProto::INT32 ||
          stored->second->data_type() == onnx::TensorProto::INT64);
}

std::string Importer::boundSizes() const {
  std::string text;
  for (const auto &[name, size] : options.dims)
    text += (text.empty() ? "" : ", ") + name + "=" + std::to_string(size);
  return text;
}

/// What is wrong with many tensors is one mistake, whatever their sizes and
/// files are.
static std::string causeOf(StringRef error) {
  if (size_t reason = error.rfind("\": ");
      error.starts_with("external data \"") && reason != StringRef::npos)
    error = error.substr(reason + 3);
  error = error.take_front(error.find(" for shape "));
  std::string cause;
  llvm::copy_if(error, std::back_inserter(cause),
                [](char c) { return !llvm::isDigit(c); });
  return cause;
}

Value Importer::literal(const onnx::TensorProto &tensor, StringRef name,
                        StringRef node, bool isWeight) {
  std::string error;
  ModelFiles::Fault fault;
  auto data = files().read(&context, tensor, error, fault);
  if (!data) {
    if (fault == ModelFiles::Fault::UnsupportedType)
      unsupported("type " + dataTypeName(tensor.data_type()), node,
                  kTypesTaken);
    else if (fault == ModelFiles::Fault::NoFile)
      usage(node, error, causeOf(error));
    else
      refuse(node, error, causeOf(error));
    return {};
  }
  Location loc = NameLoc::get(StringAttr::get(&context, name));
  if (data->isPacked)
    return unpacked(*data, name, loc);
  bool isFloat = isComputedFloat(data->type.getElementType());
  int64_t count = data->type.getNumElements();
  if (data->file < 0 || count < 1 || (count == 1 && !(isFloat && isWeight)) ||
      (!isFloat && !data->isAbsent && data->sizeBytes <= kMaxConstantBytes)) {
    auto constant = nn::ConstantOp::create(ops, loc, toElements(*data));
    if (isFloat && count > 1)
      constant.setName(name);
    return constant.getResult();
  }
  nn::WeightOp weight = weightAt(*data, data->type, name, loc);
  // Masks and tables are small; large matrices are not searched.
  constexpr int64_t kMaxReadBytes = 1 << 20;
  if (isFloat && data->sizeBytes <= kMaxReadBytes && holdsInfinity(*data))
    weight.setInfinite(true);
  return weight.getResult();
}

nn::WeightOp Importer::weightAt(const TensorData &data, RankedTensorType type,
                                StringRef name, Location loc) {
  // Weights come first in the function.
  OpBuilder::InsertionGuard guard(ops);
  if (lastWeight)
    ops.setInsertionPointAfter(lastWeight);
  else
    ops.setInsertionPointToStart(&function.getBody().front());
  auto weight = nn::WeightOp::create(
      ops, loc, type, ops.getStringAttr(name), ops.getI64IntegerAttr(data.file),
      ops.getI64IntegerAttr(int64_t(data.offset)),
      ops.getI64IntegerAttr(data.sizeBytes), TypeAttr::get(type),
      DenseI64ArrayAttr());
  lastWeight = weight;
  return weight;
}

/// A large tensor of 2 or 4 bits stays in its file: its bytes are a weight, of
/// which each part is taken; the parts of a byte are neighbours. Rows of whole
/// bytes keep their dimensions, so that they can be cut.
Value Importer::unpacked(const TensorData &data, StringRef name, Location loc) {
  GraphBuilder b(ops, files(), bounds);
  b.loc = loc;
  Type element = data.type.getElementType();
  int64_t each = elementsPerByte(element), count = data.type.getNumElements();
  unsigned width = element.getIntOrFloatBitWidth();
  SmallVector<int64_t> shape(data.type.getShape());
  bool hasWholeRows = !shape.empty() && shape.back() % each == 0;
  SmallVector<int64_t> bytes{data.sizeBytes};
  if (hasWholeRows) {
    bytes = shape;
    bytes.back() /= each;
  }
  Type byte = IntegerType::get(&context, 8, IntegerType::Unsigned);
  Type code = IntegerType::get(&context, width, IntegerType::Unsigned);
  Value packed =
      weightAt(data, RankedTensorType::get(bytes, byte), name, loc).getResult();
  SmallVector<int64_t> apart(bytes);
  apart.push_back(1);
  SmallVector<Value> parts;
  for (int64_t part = 0; part < each; ++part) {
    Value low = packed;
    if (part)
      low = b.make<nn::ShiftRightOp>(
          {low, b.scalar(double(part * int64_t(width)), byte)});
    parts.push_back(b.reshape(b.cast(low, code), apart));
  }
  Value codes = b.concat(parts, int64_t(bytes.size()));
  if (!hasWholeRows)
    codes = b.slice(b.reshape(codes, {data.sizeBytes * each}), 0, 0, count);
  codes = b.reshape(codes, shape);
  return element == code ? codes
                         : b.makeTyped(nn::BitcastOp::getOperationName(),
                                       data.type, {codes});
}

/// Puts facts about the model into the report; refuses what is invalid in every
/// operator set and format.
bool Importer::checkModel() {
  report.irVersion = model.ir_version();
  report.producer = model.producer_name();
  if (!model.producer_version().empty())
    report.producer += " " + model.producer_version();
  report.graphName = model.graph().name();
  bool fine = true;
  auto wrong = [&](const Twine &message) {
    refuse("", message);
    fine = false;
  };
  // Many other files can be read as fields that nobody knows.
  if (!model.has_graph() ||
      (model.ir_version() == 0 && model.graph().node().empty() &&
       model.graph().output().empty()))
    wrong("file holds no graph, not an ONNX model");
  else if (model.ir_version() < 1 || model.ir_version() > kNewestIR)
    wrong("format version (ir_version) is " + Twine(model.ir_version()) +
          ", expected from 1 to " + Twine(kNewestIR));
  if (!fine)
    return false;
  for (const auto &opset : model.opset_import()) {
    std::string domain = opset.domain() == "ai.onnx" ? "" : opset.domain();
    report.opsets[domain] = opset.version();
  }
  if (report.opsets.empty() && model.ir_version() < 3)
    report.opsets[""] = 1;
  for (auto &[domain, version] : report.opsets)
    if (domain.empty() && (version < 1 || version > kNewestOpset))
      wrong("operator set is " + Twine(version) + ", expected from 1 to " +
            Twine(kNewestOpset));
  for (const auto &function : model.functions())
    functions[function.domain() + "\n" + function.name() + "\n" +
              function.overload()] = &function;
  return fine;
}

bool Importer::bindConstants() {
  bool fine = true;
  for (const auto &[name, text] : options.constants) {
    auto input = llvm::find_if(
        model.graph().input(),
        [&wanted = name](const auto &input) { return input.name() == wanted; });
    if (input == model.graph().input().end()) {
      std::vector<std::string> inputs;
      for (const auto &each : model.graph().input())
        inputs.push_back(each.name());
      usage("", "option constant " + name + ": " + noInputOf(inputs, name));
      fine = false;
      continue;
    }
    const auto &tensor = input->type().tensor_type();
    Type element = elementType(&context, tensor.elem_type());
    if (!element)
      continue; // reported with the input
    std::string error;
    DenseElementsAttr value = parseConstant(
        &context, text, element,
        !tensor.has_shape() || tensor.shape().dim_size() == 0, error);
    if (value)
      error = misfitOf(value, text, describe(*input, options.dims));
    if (error.empty())
      constants[name] = value;
    else
      usage("", "option constant " + name + ": " + error), fine = false;
  }
  return fine;
}

void Importer::importInitializers(const onnx::GraphProto &graph, Scope &scope) {
  llvm::StringSet<> ratios = ratiosOfDropout(graph);
  for (const auto &tensor : graph.initializer()) {
    if (scope.values.count(tensor.name())) {
      refuse(tensor.name(), "name is defined twice");
      continue;
    }
    if (!used.contains(tensor.name()))
      continue;
    auto known = declared.find(tensor.name());
    StringRef kind = known != declared.end() ? kindOf(*known->second) : "";
    bool isLearned = isParameterKind(kind);
    bool isWeight = options.smallWeights &&
                    (tensor.dims_size() > 0 || isLearned ||
                     llvm::is_contained(options.scalarWeights, tensor.name()));
    Value value = literal(tensor, tensor.name(), tensor.name(), isWeight);
    scope.values[tensor.name()] = value;
    if (value && isComputedFloat(elementOf(value)) && !isWeight && !isLearned &&
        tensor.dims_size() == 0)
      (ratios.contains(tensor.name()) ? report.ratios
       : isOfLearnedSize(value)       ? report.numbers
                                      : report.bounds)
          .push_back(tensor.name());
    if (value && isComputedFloat(elementOf(value)) &&
        (tensor.dims_size() > 0 || isLearned ||
         value.getDefiningOp<nn::WeightOp>())) {
      ++report.numParameters;
      report.parameterElements += typeOf(value).getNumElements();
      report.parameterBytes += *tensorBytes(shapeOf(value), elementOf(value));
      if (isBufferKind(kind))
        report.bufferElements += typeOf(value).getNumElements();
      report.parameterShapes[tensor.name()] = shapeOf(value).vec();
    }
    if (auto info = declared.find(tensor.name()); info != declared.end())
      checkDeclared(*info->second, value, /*isRounded=*/false);
  }
  for (const auto &sparse : graph.sparse_initializer())
    if (used.contains(sparse.values().name())) {
      unsupported("sparse initializer", sparse.values().name(),
                  "dense ones are taken");
      scope.values[sparse.values().name()] = Value();
    }
}

/// Adds a result for each length of the others; gives for each of these its
/// dimensions with the numbers of their lengths (kerf.bounded).
SmallVector<SmallVector<int64_t>>
Importer::addLengths(SmallVectorImpl<Value> &results,
                     SmallVectorImpl<std::string> &names) {
  size_t count = results.size();
  SmallVector<SmallVector<int64_t>> pairs(count);
  for (size_t index = 0; index < count; ++index)
    for (const Bound &bound : bounds.of(results[index])) {
      auto known = std::find_if(
          results.begin() + int64_t(count), results.end(),
          [&](Value each) { return areSameNumber(each, bound.length); });
      pairs[index].push_back(bound.dim);
      pairs[index].push_back(known - results.begin());
      if (known != results.end())
        continue;
      std::string name = names[index] + ".length";
      while (llvm::is_contained(names, name))
        name += "_";
      results.push_back(bound.length);
      names.push_back(name);
    }
  return pairs;
}

/// Declares results, and finishes the function.
bool Importer::finish(const onnx::GraphProto &graph, Scope &scope) {
  SmallVector<Value> results;
  SmallVector<std::string> names;
  for (const auto &output : graph.output()) {
    auto value = scope.lookup(output.name());
    if (!value) {
      // What a node would define that was refused is no cause of its own.
      if (llvm::none_of(graph.node(), [&](const onnx::NodeProto &node) {
            return llvm::is_contained(node.output(), output.name());
          }))
        refuse(output.name(), "output is not defined by any node");
      continue;
    }
    if (isSequence(*value)) {
      // Its elements, each an output of its own.
      for (auto [index, element] : llvm::enumerate(elementsOf(*value))) {
        results.push_back(element);
        names.push_back(output.name() + "." + std::to_string(index));
      }
      if (elementsOf(*value).empty())
        unsupported("an output that is a sequence without elements",
                    output.name(), "");
    } else if (*value) {
      checkDeclared(output, *value, /*isRounded=*/false);
      results.push_back(*value);
      names.push_back(output.name());
    }
  }
  std::set<StringRef> different;
  for (StringRef name : names)
    if (!different.insert(name).second)
      refuse(name, "two outputs have this name; elements of a sequence NAME "
                   "are outputs NAME.0, NAME.1, ...");
  if (graph.output().empty())
    refuse("", "graph has no output");
  if (!report.issues.empty() || !report.unsupported.empty())
    return false;
  if (results.size() < size_t(graph.output_size())) {
    report.issues.push_back({ImportIssue::Kind::Internal,
                             "",
                             "an output was lost without an error",
                             {},
                             ""});
    return false;
  }
  for (auto sequence : llvm::make_early_inc_range(
           function.getBody().getOps<UnrealizedConversionCastOp>()))
    sequence.erase(); // only handlers read them
  SmallVector<SmallVector<int64_t>> pairs = addLengths(results, names);
  ops.setInsertionPointToEnd(&function.getBody().front());
  func::ReturnOp::create(ops, function.getLoc(), results);
  function.setType(
      FunctionType::get(&context, function.getBody().front().getArgumentTypes(),
                        ValueRange(results).getTypes()));
  for (auto [index, name] : llvm::enumerate(names))
    function.setResultAttr(unsigned(index), kNameAttr, ops.getStringAttr(name));
  for (auto [index, list] : llvm::enumerate(pairs))
    if (!list.empty())
      function.setResultAttr(unsigned(index), kBoundedAttr,
                             ops.getI64ArrayAttr(list));
  for (size_t index = pairs.size(); index < results.size(); ++index)
    function.setResultAttr(unsigned(index), kLengthAttr, ops.getUnitAttr());
  SmallVector<Attribute> paths;
  for (const std::string &path : files().paths())
    paths.push_back(ops.getStringAttr(path));
  (*module)->setAttr(kFilesAttr, ops.getArrayAttr(paths));
  noteKinds(graph);
  return true;
}

/// 'tensor<2x3xf32>' as f32[2, 3]: users know shapes, not MLIR's types.
static std::string readable(StringRef message) {
  std::string result;
  while (true) {
    auto [before, rest] = message.split("'tensor<");
    result += before.str();
    if (rest.empty())
      return result;
    auto [type, after] = rest.split(">'");
    SmallVector<StringRef> parts;
    type.split(parts, 'x');
    result += parts.pop_back_val().str() + "[" + llvm::join(parts, ", ") + "]";
    message = after;
  }
}

/// What a file is that is no ONNX model, by how it begins; empty if unknown.
static StringRef otherFormat(ArrayRef<uint8_t> bytes) {
  StringRef text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (text.starts_with("PK\x03\x04"))
    return "a zip archive, as torch.save and numpy.savez write "
           "(torch.onnx.export writes ONNX)";
  if (text.starts_with("\x93NUMPY"))
    return "an array of NumPy";
  if (text.starts_with("\x7f"
                       "ELF"))
    return "a program or a library";
  if (text.starts_with("\x89HDF"))
    return "HDF5";
  if (text.size() > 8 && text[8] == '{' && text[7] == 0)
    return "safetensors, weights without a graph";
  StringRef head = text.take_front(256);
  if (!head.empty() && llvm::all_of(head, [](char c) {
        return llvm::isPrint(c) || llvm::isSpace(c);
      }))
    return "text";
  return "";
}

FailureOr<OwningOpRef<ModuleOp>> Importer::run(StringRef path) {
  report.file = path.str();
  std::string error;
  modelFiles = ModelFiles::open(path, options.allowAbsentData, error);
  if (!modelFiles) {
    refuse("", "cannot open: " + error);
    return failure();
  }
  auto skeleton = readSkeleton(files().modelBytes(), error);
  if (!skeleton) {
    StringRef other = otherFormat(files().modelBytes());
    if (!other.empty())
      error = ("is no ONNX model but " + other).str();
    refuse("", error);
    return failure();
  }
  if (!model.ParseFromString(*skeleton)) {
    refuse("", "file is not an ONNX model: fields have wrong types");
    return failure();
  }
  skeleton.reset();
  // An optional tensor as an input is one that is given.
  for (onnx::ValueInfoProto &input : *model.mutable_graph()->mutable_input())
    if (input.type().optional_type().elem_type().has_tensor_type()) {
      onnx::TypeProto held = input.type().optional_type().elem_type();
      *input.mutable_type() = std::move(held);
    }
  makeNamesPrintable(model);
  if (!checkModel())
    return failure();
  recogniseMasks(model, files(), context);
  report.quietDropout = describeQuietDropout(model, files(), context);
  if (!report.quietDropout.empty() &&
      options.trainingForms == ImportOptions::TrainingForms::Keep)
    note(report.quietDropout);

  if (options.untie) {
    report.leftOut = leftOut(model.graph());
    report.joined = joinFolded(model, files(), context);
    std::string error;
    report.untied = untie(model, files(), context, options.tied, error);
    if (!error.empty()) {
      usage("", error);
      return failure();
    }
  }

  // Diagnostics of type inference belong to the node that is being imported.
  std::string diagnosed;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    std::string node;
    if (auto name = dyn_cast<NameLoc>(diagnostic.getLocation()))
      node = name.getName().str();
    if (!report.issues.empty() && report.issues.back().node == node)
      return success();
    std::string message = diagnostic.str();
    if (StringRef(message).starts_with("'nn."))
      message = message.substr(message.find("' op ") + 5);
    refuse(node, readable(message));
    return success();
  });

  const onnx::GraphProto &graph = model.graph();
  Scope scope;
  for (const auto &[domain, version] : report.opsets)
    scope.opsets[domain] = version;
  std::optional<StringRef> name;
  if (!graph.name().empty())
    name = graph.name();
  module = ModuleOp::create(FileLineColLoc::get(&context, path, 0, 0), name);
  if (!options.without.empty())
    module->getOperation()->setAttr(kWithoutAttr,
                                    StringAttr::get(&context, options.without));
  ops.setInsertionPointToStart(module->getBody());
  function = func::FuncOp::create(ops, module->getLoc(), "main",
                                  ops.getFunctionType({}, {}));
  ops.setInsertionPointToStart(function.addEntryBlock());

  for (const auto &tensor : graph.initializer())
    initializers[tensor.name()] = &tensor;
  for (const auto &info : graph.value_info())
    declared[info.name()] = &info;
  SmallVector<StringRef> results;
  for (const auto &output : graph.output()) {
    results.push_back(output.name());
    used.insert(output.name());
  }
  bool bound = bindConstants();
  bound &= importInputs(graph, scope);
  if (!bound) {
    (void)checkNames(graph.node(), scope); // no size mends these
    surveyOperators(graph.node(), scope, 0);
    return failure();
  }
  importNodes(graph.node(), scope, results);
  if (!finish(graph, scope))
    return failure();
  settleBatch();
  if (failed(verify(*module)))
    return failure();
  markCopies(*module, report.untied);
  if (options.formsAreAsked && numAsInference == 0) {
    usage("", "option as-inference: no node of the model is in training mode");
    return failure();
  }
  if (numAsInference > 0)
    report.notes.push_back(
        "taken as in inference: " + std::to_string(numAsInference) +
        (numAsInference == 1 ? " node" : " nodes") +
        " in training mode (Dropout passes on what it gets, "
        "BatchNormalization uses its running statistics)");
  if (!meansOfNothing.empty())
    note(noteOnMeansOfNothing(meansOfNothing.getArrayRef()));
  if (numBatchStatistics > 0)
    report.notes.push_back(
        std::to_string(numBatchStatistics) +
        (numBatchStatistics == 1 ? " node" : " nodes") +
        " BatchNormalization in training mode: by the statistics of the batch "
        "(option as-inference: by the running statistics)");
  return std::move(module);
}

FailureOr<OwningOpRef<ModuleOp>> kerf::importOnnx(MLIRContext &context,
                                                  StringRef path,
                                                  const ImportOptions &options,
                                                  ImportReport &report) {
  context.loadDialect<nn::NNDialect, func::FuncDialect>();
  Importer importer(context, options, report);
  auto imported = importer.run(path);
  if (failed(imported) && !importer.isTooLarge())
    noteFixedSizes(context, path, options, report);
  return imported;
}
