//===- PartReads.cpp - which part of a tensor a node reads ----------------===//
#include "PartReads.h"

using namespace kerf;
using namespace kerf::onnx_import;

/// Bounds of slices are a few numbers; larger tensors are known by name.
static constexpr size_t kMaxBytes = 4096;

static bool isDefault(const onnx::NodeProto &node) {
  return node.domain().empty() || node.domain() == "ai.onnx";
}

/// Content and type of a small tensor; empty for another.
static std::string contentOf(onnx::TensorProto tensor) {
  if (tensor.ByteSizeLong() > kMaxBytes || tensor.external_data_size() > 0)
    return {};
  tensor.clear_name();
  tensor.clear_doc_string();
  return "tensor " + tensor.SerializeAsString();
}

PartReads::PartReads(const onnx::GraphProto &graph) {
  llvm::StringMap<size_t> known;
  auto number = [&](const std::string &name, const std::string &text) {
    numbers[name] = known.try_emplace(text, known.size()).first->second;
  };
  for (const onnx::TensorProto &tensor : graph.initializer()) {
    constants[tensor.name()] = true;
    if (std::string content = contentOf(tensor); !content.empty())
      number(tensor.name(), content);
  }
  for (const onnx::NodeProto &node : graph.node()) {
    bool hasBody = false, isLarge = false;
    std::string value;
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      hasBody |= attribute.has_g() || attribute.graphs_size() > 0;
      isLarge |= attribute.ByteSizeLong() > kMaxBytes;
      if (node.op_type() == "Constant" && attribute.has_t())
        value = contentOf(attribute.t());
    }
    if (node.op_type() == "Constant" && isDefault(node) &&
        node.output_size() == 1)
      constants[node.output(0)] = true;
    if (hasBody || isLarge)
      continue; // its results are themselves alone
    for (int i = 0; i < node.output_size(); ++i)
      number(node.output(i),
             value.empty() ? textOf(node, 0) + "#" + std::to_string(i) : value);
  }
}

std::string PartReads::numberOf(const std::string &name) const {
  auto found = numbers.find(name);
  return found == numbers.end() ? "\"" + name + "\""
                                : std::to_string(found->second);
}

std::string PartReads::textOf(const onnx::NodeProto &node, int first) const {
  std::string text = "node " + node.domain() + "." + node.op_type() + " ";
  for (const onnx::AttributeProto &attribute : node.attribute())
    text += attribute.SerializeAsString() + ";";
  for (int i = first; i < node.input_size(); ++i)
    text += " " + numberOf(node.input(i));
  return text;
}

std::optional<std::string> PartReads::partOf(const onnx::NodeProto &node,
                                             int input) const {
  if (input != 0 || !isDefault(node))
    return std::nullopt;
  // Rows that data choose are those of a table.
  bool isChoice =
      (node.op_type() == "Gather" || node.op_type() == "GatherND") &&
      node.input_size() > 1 && constants.count(node.input(1));
  if (node.op_type() != "Slice" && !isChoice)
    return std::nullopt;
  return textOf(node, 1);
}
