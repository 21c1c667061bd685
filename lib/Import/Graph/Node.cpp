//===- Node.cpp - attributes, inputs and errors of a node -----------------===//
//
// Attributes carry a type; a wrong one is an error that names it. An attribute
// that a handler never read is unsupported, and is reported too.
//
//===----------------------------------------------------------------------===//
#include "Node.h"
#include "../Importer.h"

#include "kerf/Interfaces/KerfDialect.h"

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

using Proto = onnx::AttributeProto;

Node::Node(Importer &importer, const onnx::NodeProto &proto, const Scope &scope,
           std::string name, int64_t opset)
    : GraphBuilder(importer.ops, importer.files(), importer.bounds),
      importer(importer), proto(proto), scope(scope), name(std::move(name)),
      opset(opset) {
  outputs.resize(proto.output_size());
}

bool Node::wants(size_t index) const {
  return int(index) < proto.output_size() &&
         !proto.output(int(index)).empty() &&
         importer.isUsed(proto.output(int(index)));
}

Value Node::parameter(size_t index) {
  return asParameter(in(index), int(index) < proto.input_size()
                                    ? StringRef(proto.input(int(index)))
                                    : StringRef());
}

LogicalResult Node::arity(size_t min, size_t max, size_t maxOutputs) {
  if (inputs.size() > max || inputs.size() < min)
    return error(proto.op_type() + " has " + Twine(inputs.size()) +
                 " inputs, expected " +
                 (min == max ? Twine(min) : Twine(min) + " to " + Twine(max)));
  for (size_t i = 0; i < min; ++i)
    if (!inputs[i])
      return error(proto.op_type() + ": input " + Twine(i) + " is absent");
  if (outputs.size() > maxOutputs)
    return error(proto.op_type() + " has " + Twine(outputs.size()) +
                 " outputs, expected at most " + Twine(maxOutputs));
  return success();
}

static const char *attributeTypeName(int type) {
  static constexpr const char *names[] = {
      "undefined",      "float",      "int",        "string",
      "tensor",         "graph",      "floats",     "ints",
      "strings",        "tensors",    "graphs",     "sparse_tensor",
      "sparse_tensors", "type_proto", "type_protos"};
  return type >= 0 && size_t(type) < std::size(names) ? names[type] : "unknown";
}

/// The attribute's type; for old files that leave it undefined, the type of the
/// field that is set.
static Proto::AttributeType typeOfAttribute(const Proto &attribute) {
  if (attribute.type() != Proto::UNDEFINED)
    return attribute.type();
  if (attribute.has_f())
    return Proto::FLOAT;
  if (attribute.has_i())
    return Proto::INT;
  if (attribute.has_s())
    return Proto::STRING;
  if (attribute.has_t())
    return Proto::TENSOR;
  if (attribute.has_g())
    return Proto::GRAPH;
  if (attribute.floats_size())
    return Proto::FLOATS;
  if (attribute.ints_size())
    return Proto::INTS;
  return Proto::UNDEFINED;
}

const Proto *Node::find(StringRef name, Proto::AttributeType type) {
  asked.insert(name);
  for (const Proto &given : proto.attribute()) {
    if (given.name() != name)
      continue;
    const Proto *attribute = &given;
    if (!given.ref_attr_name().empty()) {
      attribute = nullptr;
      for (const Scope *s = &scope; s && !attribute; s = s->parent)
        attribute = s->attributes.lookup(given.ref_attr_name());
      if (!attribute)
        return nullptr;
    }
    Proto::AttributeType found = typeOfAttribute(*attribute);
    // An empty list has no type in some files.
    if (found == Proto::UNDEFINED &&
        (type == Proto::INTS || type == Proto::FLOATS))
      return attribute;
    if (found != type) {
      (void)error("attribute \"" + name + "\" has type " +
                  attributeTypeName(found) + ", expected " +
                  attributeTypeName(type));
      return nullptr;
    }
    return attribute;
  }
  return nullptr;
}

bool Node::hasAttribute(StringRef name) {
  for (const Proto &given : proto.attribute())
    if (given.name() == name) {
      if (given.ref_attr_name().empty())
        return true;
      for (const Scope *s = &scope; s; s = s->parent)
        if (s->attributes.count(given.ref_attr_name()))
          return true;
    }
  return false;
}

void Node::requireAttribute(StringRef name) {
  if (!hasAttribute(name))
    (void)error("attribute \"" + name + "\" is missing");
}

int64_t Node::integer(StringRef name, int64_t otherwise) {
  const Proto *attribute = find(name, Proto::INT);
  return attribute ? attribute->i() : otherwise;
}
double Node::real(StringRef name, double otherwise) {
  const Proto *attribute = find(name, Proto::FLOAT);
  return attribute ? double(attribute->f()) : otherwise;
}
std::string Node::text(StringRef name, StringRef otherwise) {
  const Proto *attribute = find(name, Proto::STRING);
  return attribute ? attribute->s() : otherwise.str();
}
std::optional<SmallVector<int64_t>> Node::integerList(StringRef name) {
  const Proto *attribute = find(name, Proto::INTS);
  if (!attribute)
    return std::nullopt;
  return SmallVector<int64_t>(attribute->ints().begin(),
                              attribute->ints().end());
}
std::optional<SmallVector<double>> Node::realList(StringRef name) {
  const Proto *attribute = find(name, Proto::FLOATS);
  if (!attribute)
    return std::nullopt;
  return SmallVector<double>(attribute->floats().begin(),
                             attribute->floats().end());
}
std::optional<SmallVector<std::string>> Node::textList(StringRef name) {
  const Proto *attribute = find(name, Proto::STRINGS);
  if (!attribute)
    return std::nullopt;
  return SmallVector<std::string>(attribute->strings().begin(),
                                  attribute->strings().end());
}
const onnx::TensorProto *Node::tensor(StringRef name) {
  const Proto *attribute = find(name, Proto::TENSOR);
  return attribute ? &attribute->t() : nullptr;
}
const onnx::GraphProto *Node::graph(StringRef name) {
  const Proto *attribute = find(name, Proto::GRAPH);
  return attribute ? &attribute->g() : nullptr;
}

void Node::reportNotConstant(size_t index) {
  (void)unsupportedComputed(
      in(index),
      "operator " + proto.op_type() + " with a computed input " + Twine(index) +
          " that steers a shape",
      "it is taken where it is a constant, or follows from constants and "
      "shapes");
}

SmallVector<BlockArgument> kerf::onnx_import::steeringInputs(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return {argument};
  SmallVector<BlockArgument> inputs;
  SetVector<Value> reached;
  reached.insert(value);
  for (size_t next = 0; next < reached.size(); ++next) {
    Value each = reached[next];
    if (auto argument = dyn_cast<BlockArgument>(each)) {
      if (!typeOf(each).getElementType().isInteger() || rankOf(each) > 1)
        return {};
      inputs.push_back(argument);
      continue;
    }
    Operation *op = each.getDefiningOp();
    auto source = dyn_cast<SourceOpInterface>(op);
    if (source && source.isParameter())
      return {};
    reached.insert_range(op->getOperands());
  }
  return inputs;
}

LogicalResult Node::unsupportedComputed(Value value, const Twine &what,
                                        StringRef form) {
  SmallVector<BlockArgument> inputs = steeringInputs(value);
  if (inputs.empty())
    return unsupported(what, form);
  auto function =
      llvm::cast<func::FuncOp>(inputs.front().getOwner()->getParentOp());
  auto name = function.getArgAttrOfType<StringAttr>(
      inputs.front().getArgNumber(), kNameAttr);
  importer.noteSteering(name.getValue());
  return wrongUsage("input \"" + name.getValue() +
                    "\" steers a shape and must be known: bind it with "
                    "option constant " +
                    name.getValue() + "=@FILE.npy or option constant " +
                    name.getValue() + "=1,2,3");
}

std::optional<SmallVector<int64_t>> Node::constantIntegers(size_t index) {
  if (!has(index))
    return std::nullopt;
  auto values = integerElements(in(index));
  if (!values)
    reportNotConstant(index);
  return values;
}

std::optional<SmallVector<float>> Node::constantFloats(size_t index) {
  if (!has(index))
    return std::nullopt;
  DenseElementsAttr given = elements(in(index));
  if (!given || !isa<FloatType>(given.getElementType())) {
    reportNotConstant(index);
    return std::nullopt;
  }
  SmallVector<float> result;
  for (APFloat value : given.getValues<APFloat>()) {
    bool lost;
    value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
    result.push_back(value.convertToFloat());
  }
  return result;
}

DenseElementsAttr Node::constantElements(size_t index) {
  DenseElementsAttr given = elements(in(index));
  if (!given)
    reportNotConstant(index);
  return given;
}

std::optional<double> Node::constantReal(size_t index) {
  if (!has(index))
    return std::nullopt;
  auto value = scalarElement(in(index));
  if (!value)
    (void)unsupportedComputed(in(index),
                              "operator " + proto.op_type() +
                                  " with a computed input " + Twine(index),
                              "it is taken where it is a constant");
  return value;
}

Attribute Node::constantNumber(size_t index, Type element) {
  if (DenseElementsAttr attr = elements(in(index));
      attr && attr.getNumElements() == 1 && attr.getElementType() == element)
    return *attr.value_begin<Attribute>();
  auto value = constantReal(index);
  return value ? number(*value, element) : Attribute();
}

std::optional<int64_t> Node::axisWithin(int64_t axis, int64_t rank,
                                        bool endAllowed) {
  int64_t limit = rank + (endAllowed ? 1 : 0);
  if (axis >= -rank && axis < limit)
    return axis < 0 ? axis + rank : axis;
  (void)error("axis is " + Twine(axis) + ", expected from " + Twine(-rank) +
              " to " + Twine(limit - 1));
  return std::nullopt;
}

std::optional<SmallVector<int64_t>> Node::axesWithin(ArrayRef<int64_t> axes,
                                                     int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t axis : axes) {
    auto within = axisWithin(axis, rank);
    if (!within)
      return std::nullopt;
    if (llvm::is_contained(result, *within)) {
      (void)error("axis " + Twine(axis) + " is given twice");
      return std::nullopt;
    }
    result.push_back(*within);
  }
  llvm::sort(result);
  return result;
}

LogicalResult Node::error(const Twine &message) {
  if (!failed)
    importer.refuse(name, message);
  failed = true;
  return failure();
}

LogicalResult Node::outside(const Twine &message) {
  bool isStored = llvm::any_of(proto.input(), [&](const std::string &input) {
    return importer.storesIntegers(input);
  });
  std::string sizes = isStored ? "" : importer.boundSizes();
  if (sizes.empty())
    return error(message);
  if (!failed)
    importer.usageOfSizes(name, message + ", with the sizes " + sizes);
  failed = true;
  return failure();
}

LogicalResult Node::wrongUsage(const Twine &message) {
  if (!failed)
    importer.usage(name, message);
  failed = true;
  return failure();
}

LogicalResult Node::fail() {
  if (!failed && !importer.hasIssueAt(name))
    importer.refuse(name, "node could not be imported");
  failed = true;
  return failure();
}

LogicalResult Node::unsupported(const Twine &what, StringRef form) {
  if (!failed)
    importer.unsupported(what.str(), name, form);
  failed = true;
  return failure();
}

LogicalResult Node::set(size_t index, Value value) {
  if (!value)
    return failed ? failure() : fail();
  if (index < outputs.size())
    outputs[index] = value;
  return success();
}

void Node::checkAttributes() {
  for (const Proto &attribute : proto.attribute())
    if (!asked.count(attribute.name())) {
      (void)unsupported("attribute \"" + attribute.name() + "\" of operator " +
                        proto.op_type());
      return;
    }
}
