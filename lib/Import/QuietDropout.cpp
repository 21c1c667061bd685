//===- QuietDropout.cpp - dropout that training would miss ----------------===//
//
// Problem: PyTorch's exporters write the dropout of
// scaled_dot_product_attention as a node without training mode, which passes on
// what it gets, and their optimizer takes such a node out. A model that was
// exported to train with dropout trains without that part of it.
//
// Idea: their inference exports have no Dropout at all, so one of theirs with a
// ratio and no training mode was meant to drop; so was one beside others that
// are in training mode. Where the node is gone, the call stands with the nodes
// that are left of it, and its fifth argument is the ratio.
//
//===----------------------------------------------------------------------===//
#include "QuietDropout.h"

#include "Weights/OwnReads.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::onnx_import;

namespace {
class Search {
public:
  Search(ModelFiles &files, MLIRContext &context)
      : files(files), context(context) {}

  /// Nodes, and those of graphs within.
  template <typename Nodes> void visit(const Nodes &nodes) {
    // Constants first: bodies may stand in front of what they read.
    for (const auto &node : nodes)
      if (node.op_type() == "Constant" && node.output_size() == 1)
        for (const auto &attribute : node.attribute())
          if (attribute.name() == "value_float")
            numbers[node.output(0)] = attribute.f();
          else if (attribute.name() == "value")
            note(node.output(0), attribute.t());
    for (const auto &node : nodes) {
      visitNode(node);
      for (const auto &attribute : node.attribute()) {
        visitGraph(attribute.g());
        for (const auto &body : attribute.graphs())
          visitGraph(body);
      }
    }
  }

  void visitGraph(const onnx::GraphProto &graph) {
    for (const auto &tensor : graph.initializer())
      note(tensor.name(), tensor);
    visit(graph.node());
  }

  std::string describe(bool isOfPyTorch) const {
    std::map<double, int64_t> places = ownPlaces;
    for (const auto &call : calls)
      if (!dropping.contains(call.first()))
        ++places[call.second];
    if (places.empty() || (!isOfPyTorch && !isInTraining))
      return "";
    std::string text;
    llvm::raw_string_ostream stream(text);
    int64_t count = 0;
    stream << "Dropout of ratio ";
    for (auto [number, entry] : llvm::enumerate(places)) {
      stream << (number == 0                   ? ""
                 : number + 1 == places.size() ? " and "
                                               : ", ")
             << llvm::format("%.4g", entry.first);
      count += entry.second;
    }
    stream << " in " << count << (count == 1 ? " place" : " places")
           << " drops nothing, it is not in training mode";
    stream << (isOfPyTorch
                   ? ": PyTorch's exporter leaves that out of "
                     "scaled_dot_product_attention's dropout; attention of "
                     "F.softmax and nn.Dropout keeps it (docs/Train.md)"
                   : " as others of the model are");
    return text;
  }

private:
  void note(const std::string &name, const onnx::TensorProto &tensor) {
    // Larger ones are read by nothing here.
    if (llvm::any_of(tensor.dims(), [](int64_t size) { return size != 1; }) ||
        (tensor.data_type() != onnx::TensorProto::FLOAT &&
         tensor.data_type() != onnx::TensorProto::BOOL))
      return;
    std::string error;
    ModelFiles::Fault fault;
    auto data = files.read(&context, tensor, error, fault);
    if (!data || data->isPacked || data->type.getNumElements() != 1)
      return;
    DenseElementsAttr element = toElements(*data);
    numbers[name] = data->type.getElementType().isF32()
                        ? *element.getValues<float>().begin()
                        : float(*element.getValues<bool>().begin());
  }

  std::optional<double> numberOf(const std::string &name) const {
    auto found = numbers.find(name);
    return found == numbers.end() ? std::nullopt
                                  : std::optional<double>(found->second);
  }

  void visitNode(const onnx::NodeProto &node) {
    StringRef call = callOf(node);
    if (double ratio = ratioOfAttention(call); ratio > 0)
      calls[call] = float(ratio);
    if (node.op_type() == "BatchNormalization")
      for (const auto &attribute : node.attribute())
        isInTraining |= attribute.name() == "training_mode" && attribute.i();
    if (node.op_type() != "Dropout" || !node.domain().empty())
      return;
    auto ratio = node.input_size() > 1 && !node.input(1).empty()
                     ? numberOf(node.input(1))
                     : std::optional<double>(0.5);
    if (!ratio || !(*ratio > 0))
      return;
    if (node.input_size() > 2 && !node.input(2).empty()) {
      // One that says no is one that was asked for.
      if (numberOf(node.input(2)) != 0.0) {
        isInTraining = true;
        dropping.insert(call);
      }
    } else if (!calls.count(call)) {
      ++ownPlaces[*ratio];
    }
  }

  /// The ratio in "...scaled_dot_product_attention.default](args = (%q, %k, %v,
  /// None, 0.1), kwargs = {})"; 0: it is another call, or has none.
  static double ratioOfAttention(StringRef call) {
    StringRef name = ".scaled_dot_product_attention.default](args = (";
    size_t at = call.find(name);
    double ratio = 0;
    if (at == StringRef::npos)
      return 0;
    auto [listed, named] = call.substr(at + name.size()).split("), kwargs = {");
    SmallVector<StringRef> arguments;
    listed.split(arguments, ", ");
    StringRef text = arguments.size() > 4 ? arguments[4] : "";
    if (auto [before, after] = named.split("dropout_p: "); text.empty())
      text = after.take_until([](char c) { return c == ',' || c == '}'; });
    return text.getAsDouble(ratio) ? 0 : ratio;
  }

  ModelFiles &files;
  MLIRContext &context;
  llvm::StringMap<double> numbers;
  /// Attention's calls with a ratio, and calls whose Dropout is in training
  /// mode.
  llvm::StringMap<double> calls;
  llvm::StringSet<> dropping;
  /// Dropout without training mode, of no such call: how many by ratio.
  std::map<double, int64_t> ownPlaces;
  bool isInTraining = false;
};
} // namespace

std::string kerf::onnx_import::describeQuietDropout(
    const onnx::ModelProto &model, ModelFiles &files, MLIRContext &context) {
  // Before, no input says whether it is training.
  constexpr int64_t kMinOpset = 12;
  bool isLate = llvm::any_of(model.opset_import(), [](const auto &opset) {
    return (opset.domain().empty() || opset.domain() == "ai.onnx") &&
           opset.version() >= kMinOpset;
  });
  if (!isLate)
    return "";
  Search search(files, context);
  search.visitGraph(model.graph());
  for (const auto &function : model.functions())
    search.visit(function.node());
  return search.describe(model.producer_name() == "pytorch");
}
