//===- Graph.cpp - inputs, nodes, calls and subgraphs ---------------------===//
//
// Names first: a name that is used before its definition, defined twice or
// never defined is an error that names the value. Then a backward pass finds
// the nodes that are needed, and these are imported in order. Functions may not
// call themselves, and the total expansion is bounded, since nested calls can
// grow exponentially.
//
//===----------------------------------------------------------------------===//
#include "../Forms.h"
#include "Handlers.h"

#include "../Importer.h"
#include "Names.h"
#include "Sequence.h"
#include "kerf/Format/ClosestName.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Support/DescribeType.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

static constexpr unsigned kMaxDepth = 32;

static std::string nodeName(const onnx::NodeProto &proto, const Scope &scope,
                            int index) {
  if (!proto.name().empty())
    return scope.prefix + proto.name();
  return scope.prefix + proto.op_type() + "_" + std::to_string(index);
}

static StringRef domainOf(const onnx::NodeProto &proto) {
  return proto.domain() == "ai.onnx" ? StringRef() : StringRef(proto.domain());
}

int64_t Importer::opsetOf(StringRef domain, const Scope &scope) const {
  for (const Scope *s = &scope; s; s = s->parent)
    if (!s->opsets.empty()) {
      auto found = s->opsets.find(domain);
      return found == s->opsets.end() ? 0 : found->second;
    }
  return 0;
}

const onnx::FunctionProto *
Importer::functionFor(const onnx::NodeProto &proto) const {
  auto found = functions.find(proto.domain() + "\n" + proto.op_type() + "\n" +
                              proto.overload());
  return found == functions.end() ? nullptr : found->second;
}

/// The static shape of an input (reporting unbound dimensions) or of another
/// value (none if it is not fully known).
std::optional<SmallVector<int64_t>>
Importer::bindShape(const onnx::ValueInfoProto &info, bool input) {
  const auto &tensor = info.type().tensor_type();
  if (!tensor.has_shape()) {
    if (input)
      usage(info.name(), "input has no shape; export the model with one");
    return std::nullopt;
  }
  SmallVector<int64_t> shape;
  bool known = true;
  for (int index = 0; index < tensor.shape().dim_size(); ++index) {
    const auto &dim = tensor.shape().dim(index);
    std::string symbol = dim.dim_param();
    if (symbol.empty() && !dim.has_dim_value())
      symbol = info.name() + "." + std::to_string(index);
    int64_t size = dim.dim_value();
    if (symbol.empty() && input && size < 0) {
      refuse(info.name(), "dimension " + Twine(index) + " is " + Twine(size) +
                              ", expected at least 0");
      return std::nullopt;
    }
    if (!symbol.empty()) {
      auto bound = options.dims.find(symbol);
      size = bound == options.dims.end() ? -1 : bound->second;
      if (size < 0) {
        known = false;
        if (input && !llvm::is_contained(report.unboundDims, symbol))
          report.unboundDims.push_back(symbol);
      }
    }
    shape.push_back(size);
  }
  if (!known)
    return std::nullopt;
  return shape;
}

ModelValue
kerf::onnx_import::describe(const onnx::ValueInfoProto &info,
                            const std::map<std::string, int64_t> &dims) {
  ModelValue value;
  value.name = info.name();
  const auto &tensor = info.type().tensor_type();
  value.elementType = info.type().has_tensor_type()
                          ? dataTypeName(tensor.elem_type())
                          : "not a tensor";
  value.hasShape = tensor.has_shape();
  for (const auto &dim : tensor.shape().dim()) {
    ModelValue::Dim described;
    described.symbol = dim.dim_param();
    if (dim.has_dim_value())
      described.size = dim.dim_value();
    else {
      if (described.symbol.empty())
        described.symbol =
            info.name() + "." + std::to_string(value.dims.size());
      if (auto bound = dims.find(described.symbol); bound != dims.end())
        described.size = bound->second;
    }
    value.dims.push_back(described);
  }
  return value;
}

/// What is said where a size is given and no input has an open one.
static std::string fixedSizes(const onnx::GraphProto &graph) {
  if (graph.input().empty())
    return "";
  ModelValue first = describe(graph.input(0), {});
  std::string text;
  for (const ModelValue::Dim &dim : first.dims)
    text += (text.empty() ? "" : ", ") + std::to_string(dim.size);
  return ", the file fixes all sizes: \"" + first.name + "\" is [" + text +
         "]; leave option dim away, or export the model again with the "
         "dimension open (torch.onnx.export: dynamic_axes, or dynamic_shapes "
         "with dynamo=True)";
}

bool Importer::importInputs(const onnx::GraphProto &graph, Scope &scope) {
  size_t issuesBefore = report.issues.size();
  Block &block = function.getBody().front();
  for (const auto &output : graph.output())
    report.outputs.push_back(describe(output, options.dims));
  std::vector<std::string> known;
  for (const auto &input : graph.input())
    for (const ModelValue::Dim &dim : describe(input, options.dims).dims)
      if (!dim.symbol.empty() && !llvm::is_contained(known, dim.symbol))
        known.push_back(dim.symbol);
  bool isMisnamed = false;
  for (const auto &[name, size] : options.dims) {
    if (size < 0)
      usage("", "option dim: \"" + name + "\" has size " + Twine(size) +
                    ", expected at least 0");
    if (llvm::is_contained(known, name))
      continue;
    isMisnamed = true;
    std::string close = closestName(name, known);
    usage("", "option dim: no input has a dimension \"" + name + "\"" +
                  (!close.empty()  ? ", did you mean \"" + close + "\"?"
                   : known.empty() ? fixedSizes(graph)
                                   : ", expected " + llvm::join(known, ", ")));
  }
  llvm::StringSet<> read = namesRead(graph);
  SmallVector<const onnx::ValueInfoProto *> arguments;
  for (const auto &input : graph.input()) {
    if (initializers.count(input.name())) {
      declared[input.name()] = &input;
      continue;
    }
    report.inputs.push_back(describe(input, options.dims));
    report.inputs.back().isRead = read.contains(input.name());
    Location loc = NameLoc::get(ops.getStringAttr(input.name()));
    if (scope.values.count(input.name())) {
      refuse(input.name(), "name is defined twice");
      continue;
    }
    if (auto constant = constants.find(input.name());
        constant != constants.end()) {
      scope.values[input.name()] =
          nn::ConstantOp::create(ops, loc, constant->second).getResult();
      continue;
    }
    scope.values[input.name()] = Value();
    if (!input.type().has_tensor_type()) {
      unsupported("input that is not a tensor", input.name(),
                  "tensors are taken, each an input of its own");
      continue;
    }
    int32_t dataType = input.type().tensor_type().elem_type();
    Type element = elementType(&context, dataType);
    auto shape = bindShape(input, /*input=*/true);
    if (!element) {
      unsupported("type " + dataTypeName(dataType), input.name(), kTypesTaken);
      continue;
    }
    if (!shape)
      continue;
    if (!tensorBytes(*shape, element)) {
      const char *tooLarge = "input is larger than 2^47 bytes";
      if (options.dims.empty())
        refuse(input.name(), tooLarge);
      else
        usage(input.name(), tooLarge);
      continue;
    }
    scope.values[input.name()] =
        block.addArgument(RankedTensorType::get(*shape, element), loc);
    arguments.push_back(&input);
  }
  // A size with a wrong name is why there is none with the right one.
  if (!report.unboundDims.empty() && !isMisnamed) {
    std::string flags;
    for (const std::string &symbol : report.unboundDims)
      flags += " option dim " + symbol + "=SIZE";
    report.issues.push_back(
        {ImportIssue::Kind::OpenSize, "",
         "symbolic dimensions are not bound: bind them with" + flags,
         notesOnOpenSizes(graph), ""});
  }
  function.setType(FunctionType::get(&context, block.getArgumentTypes(), {}));

  findBatch(arguments);
  return report.issues.size() == issuesBefore;
}

/// Compares a declared shape with the one that its node gives. A difference is
/// a damaged file or a mistake, with one exception: onnx.shape_inference gives
/// pools with ceil_mode (`isRounded`) one window more than the specification,
/// and wrong shapes to all nodes behind them. Such shapes are noted and
/// ignored.
void Importer::checkDeclared(const onnx::ValueInfoProto &info, Value value,
                             bool isRounded) {
  if (!value || !info.type().has_tensor_type())
    return;
  if (isSequence(value))
    return refuse(info.name(),
                  "declared as a tensor, but its node gives a sequence");
  int32_t dataType = info.type().tensor_type().elem_type();
  Type element = elementType(&context, dataType);
  if (dataType != 0 && element != elementOf(value)) {
    refuse(info.name(), "declared as " + dataTypeName(dataType) +
                            ", but its node gives " +
                            describeType(value.getType()));
    return;
  }
  auto shape = bindShape(info, /*input=*/false);
  // What is computed is at most what the value has room for.
  if (shape && shape->size() == shapeOf(value).size())
    for (const Bound &bound : bounds.of(value))
      if ((*shape)[bound.dim] <= shapeOf(value)[bound.dim])
        (*shape)[bound.dim] = shapeOf(value)[bound.dim];
  if (!shape || ArrayRef<int64_t>(*shape) == shapeOf(value) ||
      llvm::any_of(*shape, [](int64_t size) { return size < 0; }))
    return;
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "declared shape [";
  llvm::interleaveComma(*shape, stream);
  stream << "] contradicts [";
  llvm::interleaveComma(shapeOf(value), stream);
  stream << "], which its node gives";
  if ((isRounded || isAnnotationWrong) &&
      shape->size() == shapeOf(value).size()) {
    if (!isAnnotationWrong)
      report.notes.push_back(info.name() + ": " + text +
                             " by the specification's formula for ceil_mode; "
                             "shapes that are declared behind it are not read");
    isAnnotationWrong = true;
    return;
  }
  refuse(info.name(), text);
}

/// Every name that the node reads, its subgraphs included.
template <typename Visit>
static void forEachRead(const onnx::NodeProto &proto, Visit visit) {
  for (const std::string &input : proto.input())
    if (!input.empty())
      visit(input);
  for (const auto &attribute : proto.attribute()) {
    auto inGraph = [&](const onnx::GraphProto &graph) {
      for (const auto &node : graph.node())
        forEachRead(node, visit);
      for (const auto &output : graph.output())
        visit(output.name());
    };
    if (attribute.has_g())
      inGraph(attribute.g());
    for (const auto &graph : attribute.graphs())
      inGraph(graph);
  }
}

bool Importer::checkNames(const Nodes &nodes, const Scope &scope) {
  llvm::StringMap<int> definedBy;
  bool fine = true;
  for (int index = 0; index < nodes.size(); ++index)
    if (nodes[index].output_size() == 0) {
      refuse(nodeName(nodes[index], scope, index),
             nodes[index].op_type() + " has no outputs");
      fine = false;
    }
  for (int index = 0; index < nodes.size(); ++index)
    for (const std::string &output : nodes[index].output()) {
      if (output.empty())
        continue;
      bool isInitializer = callStack.empty() && initializers.count(output);
      if (!definedBy.try_emplace(output, index).second ||
          scope.values.count(output) || isInitializer) {
        refuse(nodeName(nodes[index], scope, index),
               "value \"" + output + "\" is defined twice" +
                   (isInitializer
                        ? ": an initializer has that name, too (exporters name "
                          "results after their op: call the buffer or "
                          "parameter otherwise)"
                        : ""));
        fine = false;
      }
    }
  if (!fine)
    return false; // an order would be of one of the two
  for (int index = 0; index < nodes.size(); ++index)
    for (const std::string &input : nodes[index].input()) {
      if (input.empty())
        continue;
      auto by = definedBy.find(input);
      std::string name = nodeName(nodes[index], scope, index);
      if (by == definedBy.end()) {
        if (scope.lookup(input) || scope.isAbsent(input) ||
            (callStack.empty() && initializers.count(input)))
          continue;
        refuse(name, "value \"" + input + "\" is not defined");
        fine = false;
      } else if (by->second >= index) {
        refuse(name, "value \"" + input + "\" is used before \"" +
                         nodeName(nodes[by->second], scope, by->second) +
                         "\" defines it: the graph has a cycle or is not "
                         "sorted");
        fine = false;
      }
    }
  return fine;
}

void Importer::importNodes(const Nodes &nodes, Scope &scope,
                           ArrayRef<StringRef> results) {
  // Initializers of the main graph are entered below, after their uses are
  // known; names are checked against all of them.
  if (!checkNames(nodes, scope))
    return;
  llvm::StringSet<> needed;
  for (StringRef result : results)
    needed.insert(result);
  std::vector<bool> wanted(nodes.size(), false);
  for (int index = nodes.size() - 1; index >= 0; --index) {
    for (const std::string &output : nodes[index].output())
      wanted[index] = wanted[index] || needed.contains(output);
    if (wanted[index])
      forEachRead(nodes[index], [&](const std::string &name) {
        needed.insert(name);
        used.insert(name);
      });
  }
  if (!scope.parent && callStack.empty())
    importInitializers(model.graph(), scope);
  for (int index = 0; index < nodes.size(); ++index) {
    if (!wanted[index])
      continue;
    if (++nodesImported > kMaxNodes) {
      if (nodesImported == kMaxNodes + 1)
        refuseSize(scope.prefix);
      return;
    }
    importNode(nodes[index], scope, nodeName(nodes[index], scope, index));
  }
}

void Importer::defineOutputs(const onnx::NodeProto &proto,
                             ArrayRef<Value> values, Scope &scope) {
  bool isRounded = llvm::any_of(proto.attribute(), [](const auto &attribute) {
    return attribute.name() == "ceil_mode" && attribute.i() != 0;
  });
  for (int index = 0; index < proto.output_size(); ++index) {
    const std::string &name = proto.output(index);
    if (name.empty())
      continue;
    Value value = size_t(index) < values.size() ? values[index] : Value();
    scope.values[name] = value;
    if (!scope.parent && callStack.empty())
      if (auto info = declared.find(name); info != declared.end())
        checkDeclared(*info->second, value, isRounded);
  }
}

void Importer::importNode(const onnx::NodeProto &proto, Scope &scope,
                          StringRef name) {
  if (const onnx::FunctionProto *called = functionFor(proto))
    return importCall(proto, *called, scope, name);
  if (!scope.parent && callStack.empty())
    for (const std::string &output : proto.output())
      if (!output.empty())
        report.nodeOfOutput.try_emplace(output, name.str());
  StringRef domain = domainOf(proto);
  ++report.operatorCounts[(domain.empty() ? "" : domain.str() + ".") +
                          proto.op_type()];
  int64_t opset = opsetOf(domain, scope), first = 0;
  Handler handler = handlers(domain).find(proto.op_type(), opset, first);
  if (!handler) {
    std::string what = "operator " + proto.op_type();
    what += " (" + (domain.empty() ? "" : "domain " + domain.str() + ", ") +
            "operator set " + std::to_string(opset) +
            (first > opset ? ", known from " + std::to_string(first) : "") +
            ")";
    unsupported(what, name,
                domain.empty() && !first ? formInstead(proto.op_type())
                                         : StringRef());
    return defineOutputs(proto, {}, scope);
  }
  Node node(*this, proto, scope, name.str(), opset);
  node.loc = NameLoc::get(ops.getStringAttr(name));
  bool skipped = false;
  for (const std::string &input : proto.input()) {
    node.inputs.push_back({});
    if (input.empty() || scope.isAbsent(input))
      continue;
    auto value = scope.lookup(input);
    if (value)
      node.inputs.back() = *value;
    skipped |= !value || !*value;
  }
  // Absent inputs at the end are dropped.
  while (!node.inputs.empty() && !node.inputs.back() && !skipped)
    node.inputs.pop_back();
  if (skipped)
    return defineOutputs(proto, {}, scope);
  if (!handlers(domain).takesSequences(proto.op_type()))
    for (auto [index, input] : llvm::enumerate(node.inputs))
      if (isSequence(input))
        (void)node.error("input " + Twine(index) + " of " + proto.op_type() +
                         " is a sequence, expected a tensor");
  if (!takesBounded(domain, proto.op_type()))
    for (Value input : node.inputs)
      if (input && bounds.has(input)) {
        (void)node.unsupported(
            "operator " + proto.op_type() +
                " of a tensor whose size is known only when the program runs",
            "operators that go element by element, move, multiply or reduce "
            "are taken (docs/Import.md)");
        break;
      }
  size_t issues = report.issues.size();
  bool fine = !node.failed && succeeded(handler(node)) && !node.failed;
  if (fine)
    node.checkAttributes();
  else if (report.issues.size() == issues && !node.failed)
    (void)node.fail();
  defineOutputs(proto, node.failed || !fine ? ArrayRef<Value>() : node.outputs,
                scope);
}

void Importer::importCall(const onnx::NodeProto &proto,
                          const onnx::FunctionProto &called, Scope &scope,
                          StringRef name) {
  if (llvm::is_contained(callStack, &called) || callStack.size() >= kMaxDepth) {
    refuse(name, "function \"" + called.name() +
                     "\" calls itself or is nested deeper than " +
                     Twine(kMaxDepth));
    return defineOutputs(proto, {}, scope);
  }
  if (proto.input_size() > called.input_size() ||
      proto.output_size() > called.output_size()) {
    refuse(name, "call has " + Twine(proto.input_size()) + " inputs and " +
                     Twine(proto.output_size()) + " outputs, expected " +
                     Twine(called.input_size()) + " and " +
                     Twine(called.output_size()));
    return defineOutputs(proto, {}, scope);
  }
  Scope inner;
  inner.prefix = name.str() + "/";
  for (const auto &opset : called.opset_import())
    inner.opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] =
        opset.version();
  if (inner.opsets.empty())
    inner.opsets = scope.opsets;
  // A call within a function passes its caller's attributes on.
  for (const auto &attribute : called.attribute_proto())
    inner.attributes[attribute.name()] = &attribute;
  for (const auto &attribute : proto.attribute()) {
    const onnx::AttributeProto *given = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      given = nullptr;
      for (const Scope *s = &scope; s && !given; s = s->parent)
        given = s->attributes.lookup(attribute.ref_attr_name());
    }
    if (given)
      inner.attributes[attribute.name()] = given;
  }
  for (int index = 0; index < called.input_size(); ++index) {
    std::string actual =
        index < proto.input_size() ? proto.input(index) : std::string();
    // An absent optional input reads as an empty name inside too.
    if (actual.empty() || scope.isAbsent(actual)) {
      inner.absent.insert(called.input(index));
      continue;
    }
    inner.values[called.input(index)] = scope.lookup(actual).value_or(Value());
  }
  SmallVector<StringRef> results;
  for (const std::string &output : called.output()) {
    results.push_back(output);
    used.insert(output);
  }
  callStack.push_back(&called);
  importNodes(called.node(), inner, results);
  callStack.pop_back();
  if (proto.output_size() > called.output_size())
    refuse(name, "has " + Twine(proto.output_size()) + " outputs, function " +
                     called.name() + " gives " + Twine(called.output_size()));
  // A null value stands for a node whose error was reported; a name that no
  // node defines is missing altogether.
  SmallVector<Value> values;
  for (int index = 0; index < called.output_size(); ++index) {
    const std::string &output = called.output(index);
    auto value = inner.lookup(output);
    bool isWanted = index < proto.output_size() && !proto.output(index).empty();
    if (!value && isWanted && nodesImported <= kMaxNodes)
      refuse(name, "output \"" + output + "\" of function " + called.name() +
                       " is not defined by any of its nodes");
    values.push_back(value.value_or(Value()));
  }
  defineOutputs(proto, values, scope);
}

LogicalResult Importer::importSubgraph(const onnx::GraphProto &graph,
                                       const Scope &parent, StringRef prefix,
                                       ArrayRef<Value> arguments,
                                       SmallVectorImpl<Value> &results) {
  if (++depth > kMaxDepth) {
    refuse(prefix, "subgraphs are nested deeper than " + Twine(kMaxDepth));
    --depth;
    return failure();
  }
  Scope inner;
  inner.parent = &parent;
  inner.prefix = prefix.str();
  for (auto [input, value] : llvm::zip(graph.input(), arguments))
    inner.values[input.name()] = value;
  for (const auto &tensor : graph.initializer())
    inner.values[tensor.name()] =
        literal(tensor, tensor.name(), prefix.str() + tensor.name());
  SmallVector<StringRef> names;
  for (const auto &output : graph.output()) {
    names.push_back(output.name());
    used.insert(output.name());
  }
  importNodes(graph.node(), inner, names);
  for (StringRef name : names) {
    auto value = inner.lookup(name);
    if (!value && !initializers.count(name) && nodesImported <= kMaxNodes)
      refuse(prefix, "subgraph output \"" + name + "\" is not defined");
    results.push_back(value.value_or(Value()));
  }
  --depth;
  return success();
}

/// Without shapes nothing can be imported, but unsupported operators can be
/// listed.
void Importer::surveyOperators(const Nodes &nodes, const Scope &scope,
                               unsigned level) {
  if (level > kMaxDepth)
    return;
  for (int index = 0; index < nodes.size(); ++index) {
    const auto &proto = nodes[index];
    if (++nodesImported > kMaxNodes)
      return;
    std::string name = nodeName(proto, scope, index);
    if (const onnx::FunctionProto *called = functionFor(proto)) {
      Scope inner;
      inner.prefix = name + "/";
      for (const auto &opset : called->opset_import())
        inner.opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] =
            opset.version();
      surveyOperators(called->node(), inner, level + 1);
      continue;
    }
    StringRef domain = domainOf(proto);
    ++report.operatorCounts[(domain.empty() ? "" : domain.str() + ".") +
                            proto.op_type()];
    int64_t opset = opsetOf(domain, scope), first = 0;
    if (!handlers(domain).find(proto.op_type(), opset, first))
      unsupported("operator " + proto.op_type() + " (" +
                      (domain.empty() ? "" : "domain " + domain.str() + ", ") +
                      "operator set " + std::to_string(opset) + ")",
                  name,
                  domain.empty() && !first ? formInstead(proto.op_type())
                                           : StringRef());
  }
}
