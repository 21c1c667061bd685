//===- GraphReads.cpp - who reads the values of a graph -------------------===//
#include "GraphReads.h"

#include <cstring>

using namespace kerf;
using namespace kerf::onnx_import;

/// Names that are defined in the graph, or read by something other than an
/// input of the graph's own nodes.
static void collectNames(const onnx::GraphProto &graph,
                         llvm::StringSet<> &defined,
                         llvm::StringSet<> &readElsewhere, bool isOuter) {
  for (const auto &value : graph.input())
    defined.insert(value.name());
  for (const auto &tensor : graph.initializer())
    defined.insert(tensor.name());
  for (const auto &value : graph.output())
    readElsewhere.insert(value.name());
  for (const auto &node : graph.node()) {
    for (const std::string &name : node.output())
      defined.insert(name);
    if (!isOuter)
      for (const std::string &name : node.input())
        readElsewhere.insert(name);
    for (const auto &attribute : node.attribute()) {
      if (attribute.has_g())
        collectNames(attribute.g(), defined, readElsewhere, false);
      for (const auto &each : attribute.graphs())
        collectNames(each, defined, readElsewhere, false);
    }
  }
}

/// Whether a node reads of an input what it holds, and not its type or shape
/// alone.
static bool readsElements(const onnx::NodeProto &node, int input) {
  const std::string &op = node.op_type();
  if (op == "CastLike")
    return input == 0;
  return op != "Shape" && op != "Size" && op != "EyeLike" &&
         op != "RandomNormalLike" && op != "RandomUniformLike";
}

GraphReads::GraphReads(const onnx::GraphProto &graph) {
  collectNames(graph, defined, elsewhere, true);
  for (int n = 0; n < graph.node_size(); ++n)
    for (int i = 0; i < graph.node(n).input_size(); ++i)
      if (readsElements(graph.node(n), i))
        here[graph.node(n).input(i)].push_back({n, i});
}

bool kerf::onnx_import::isUniform(const TensorData &data) {
  int64_t count = data.type.getNumElements();
  if (count < 1 || data.bytes.empty())
    return false;
  size_t width = data.bytes.size() / static_cast<size_t>(count);
  return std::memcmp(data.bytes.data(), data.bytes.data() + width,
                     data.bytes.size() - width) == 0;
}
