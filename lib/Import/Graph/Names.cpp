//===- Names.cpp - names that can be printed ------------------------------===//
#include "Names.h"

#include "kerf/Format/ClosestName.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Unicode.h"

using namespace kerf;
using namespace kerf::onnx_import;

std::string kerf::onnx_import::printable(llvm::StringRef text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string result;
  const auto *at = reinterpret_cast<const llvm::UTF8 *>(text.begin());
  const auto *end = reinterpret_cast<const llvm::UTF8 *>(text.end());
  while (at < end) {
    const llvm::UTF8 *next = at;
    llvm::UTF32 character = 0;
    bool stays = llvm::convertUTF8Sequence(&next, end, &character,
                                           llvm::strictConversion) ==
                     llvm::conversionOK &&
                 llvm::sys::unicode::isPrintable(static_cast<int>(character));
    if (next == at) // no character begins here
      ++next;
    for (; at < next; ++at)
      if (stays)
        result += static_cast<char>(*at);
      else
        result += {'\\', 'x', digits[*at >> 4], digits[*at & 15]};
  }
  return result;
}

static bool isPlain(llvm::StringRef text) {
  return llvm::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

namespace {
/// Makes all names of a model printable; recursion is bounded by the reader.
struct Walk {
  void name(std::string *text) {
    if (!isPlain(*text))
      *text = printable(*text);
  }
  template <typename Strings> void names(Strings *list) {
    for (std::string &text : *list)
      name(&text);
  }

  void tensor(onnx::TensorProto &tensor) {
    if (tensor.has_name())
      name(tensor.mutable_name());
  }
  void sparse(onnx::SparseTensorProto &tensors) {
    if (tensors.has_values())
      tensor(*tensors.mutable_values());
    if (tensors.has_indices())
      tensor(*tensors.mutable_indices());
  }
  void value(onnx::ValueInfoProto &info) {
    if (info.has_name())
      name(info.mutable_name());
    if (!info.type().tensor_type().has_shape())
      return;
    for (auto &dim : *info.mutable_type()
                          ->mutable_tensor_type()
                          ->mutable_shape()
                          ->mutable_dim())
      if (dim.has_dim_param())
        name(dim.mutable_dim_param());
  }
  void attribute(onnx::AttributeProto &attribute) {
    if (attribute.has_name())
      name(attribute.mutable_name());
    if (attribute.has_ref_attr_name())
      name(attribute.mutable_ref_attr_name());
    if (attribute.has_t())
      tensor(*attribute.mutable_t());
    if (attribute.has_sparse_tensor())
      sparse(*attribute.mutable_sparse_tensor());
    if (attribute.has_g())
      graph(*attribute.mutable_g());
    for (auto &each : *attribute.mutable_tensors())
      tensor(each);
    for (auto &each : *attribute.mutable_sparse_tensors())
      sparse(each);
    for (auto &each : *attribute.mutable_graphs())
      graph(each);
  }
  void node(onnx::NodeProto &node) {
    if (node.has_name())
      name(node.mutable_name());
    if (node.has_op_type())
      name(node.mutable_op_type());
    if (node.has_domain())
      name(node.mutable_domain());
    if (node.has_overload())
      name(node.mutable_overload());
    names(node.mutable_input());
    names(node.mutable_output());
    for (auto &each : *node.mutable_attribute())
      attribute(each);
  }
  void graph(onnx::GraphProto &graph) {
    if (graph.has_name())
      name(graph.mutable_name());
    for (auto &each : *graph.mutable_node())
      node(each);
    for (auto &each : *graph.mutable_initializer())
      tensor(each);
    for (auto &each : *graph.mutable_sparse_initializer())
      sparse(each);
    for (auto *list : {graph.mutable_input(), graph.mutable_output(),
                       graph.mutable_value_info()})
      for (auto &each : *list)
        value(each);
  }
  template <typename Opsets> void opsets(Opsets *list) {
    for (auto &each : *list)
      if (each.has_domain())
        name(each.mutable_domain());
  }
  void function(onnx::FunctionProto &function) {
    if (function.has_name())
      name(function.mutable_name());
    if (function.has_domain())
      name(function.mutable_domain());
    if (function.has_overload())
      name(function.mutable_overload());
    names(function.mutable_input());
    names(function.mutable_output());
    names(function.mutable_attribute());
    for (auto &each : *function.mutable_attribute_proto())
      attribute(each);
    for (auto &each : *function.mutable_node())
      node(each);
    for (auto &each : *function.mutable_value_info())
      value(each);
    opsets(function.mutable_opset_import());
  }
};
} // namespace

std::string kerf::onnx_import::noInputOf(llvm::ArrayRef<std::string> inputs,
                                         const std::string &name) {
  std::string close = closestInput(name, inputs);
  return "model has no input of this name, " +
         (close.empty() ? "it has " + llvm::join(inputs, ", ")
                        : "did you mean \"" + close + "\"?");
}

void kerf::onnx_import::makeNamesPrintable(onnx::ModelProto &model) {
  Walk walk;
  if (model.has_producer_name())
    walk.name(model.mutable_producer_name());
  if (model.has_producer_version())
    walk.name(model.mutable_producer_version());
  if (model.has_graph())
    walk.graph(*model.mutable_graph());
  for (auto &each : *model.mutable_functions())
    walk.function(each);
  walk.opsets(model.mutable_opset_import());
}

/// All that nodes of a graph inside a node read, whoever computes it.
static void addReads(const onnx::GraphProto &graph, llvm::StringSet<> &names) {
  for (const auto &value : graph.output())
    names.insert(value.name());
  for (const auto &node : graph.node()) {
    for (const std::string &name : node.input())
      names.insert(name);
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        addReads(attribute.g(), names);
  }
}

llvm::StringSet<> kerf::onnx_import::namesRead(const onnx::GraphProto &graph) {
  llvm::StringSet<> names;
  for (const auto &value : graph.output())
    names.insert(value.name());
  // Nodes stand behind what they read.
  for (int n = graph.node_size() - 1; n >= 0; --n) {
    const onnx::NodeProto &node = graph.node(n);
    if (llvm::none_of(node.output(), [&](const std::string &name) {
          return names.contains(name);
        }))
      continue;
    for (const std::string &name : node.input())
      names.insert(name);
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        addReads(attribute.g(), names);
  }
  return names;
}
