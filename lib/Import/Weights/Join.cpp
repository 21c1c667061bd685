//===- Join.cpp - a parameter that an exporter stored twice ---------------===//
#include "Join.h"
#include "../Graph/GraphReads.h"
#include "OwnReads.h"

#include "kerf/NN/NN.h"

#include <map>
#include <set>
#include <tuple>

using namespace kerf;
using namespace kerf::onnx_import;

namespace {

/// What nodes say of a matrix that they read.
struct Origin {
  std::string op;
  int input = 0;
  std::string parameters; ///< of the call, and the call itself

  auto key() const { return std::tie(op, input, parameters); }
  bool operator<(const Origin &other) const { return key() < other.key(); }
  bool operator==(const Origin &other) const { return key() == other.key(); }
};

} // namespace

/// None: the file does not say it, or its readers differ, or it has a name of
/// its own in the model.
static std::optional<Origin> originOf(const std::string &name,
                                      llvm::ArrayRef<GraphReads::Read> readers,
                                      const onnx::GraphProto &graph) {
  std::optional<Origin> origin;
  for (const GraphReads::Read &read : readers) {
    const onnx::NodeProto &node = graph.node(read.node);
    Origin own{node.op_type(), read.input, parametersOf(callOf(node))};
    if (own.parameters.empty() || isOwnRead(node, name) ||
        (origin && !(*origin == own)))
      return std::nullopt;
    origin = std::move(own);
  }
  return origin;
}

std::vector<JoinedRead>
kerf::onnx_import::joinFolded(onnx::ModelProto &model, ModelFiles &files,
                              mlir::MLIRContext &context) {
  std::vector<JoinedRead> joined;
  onnx::GraphProto &graph = *model.mutable_graph();
  // Before version 4 every initializer is an input of the graph as well.
  if (model.ir_version() < 4)
    return joined;
  GraphReads reads(graph);
  std::map<Origin, std::vector<TensorData>> known;
  std::set<std::string> gone;
  for (const onnx::TensorProto &tensor : graph.initializer()) {
    auto readers = reads.here.find(tensor.name());
    if (tensor.dims_size() < 2 || readers == reads.here.end() ||
        reads.elsewhere.contains(tensor.name()))
      continue;
    auto origin = originOf(tensor.name(), readers->second, graph);
    if (!origin)
      continue;
    std::string unread;
    ModelFiles::Fault fault;
    auto data = files.read(&context, tensor, unread, fault);
    // Equal elements may be those of another part of the parameter.
    if (!data || data->file < 0 || data->bytes.empty() ||
        !isComputedFloat(data->type.getElementType()) || isUniform(*data))
      continue;
    std::vector<TensorData> &alike = known[*origin];
    auto first = llvm::find_if(alike, [&](const TensorData &other) {
      return other.type == data->type && other.bytes == data->bytes;
    });
    if (first == alike.end()) {
      alike.push_back(std::move(*data));
      continue;
    }
    for (const GraphReads::Read &read : readers->second) {
      graph.mutable_node(read.node)->set_input(read.input, first->name);
      joined.push_back({first->name, tensor.name(), read.node, read.input});
    }
    gone.insert(tensor.name());
  }
  auto *stored = graph.mutable_initializer();
  stored->erase(std::remove_if(stored->begin(), stored->end(),
                               [&](const onnx::TensorProto &tensor) {
                                 return gone.count(tensor.name()) != 0;
                               }),
                stored->end());
  return joined;
}
