//===- RandomMasks.cpp - dropout that exporters take apart ----------------===//
//
// Problem: PyTorch's exporter writes a Dropout in place, those of whole
// channels and stochastic depth as numbers that are drawn: RandomUniformLike,
// Less than p, a cast, divided by p. As random numbers of ONNX they are the
// same in every run, and drawn in inference as well.
//
// Idea: that is what Dropout of ones gives with the ratio 1 - p, so that is
// what is imported: a node in training mode, which draws others in each step,
// passes on what it gets in inference, and is refused where neither is asked
// for.
//
//===----------------------------------------------------------------------===//
#include "RandomMasks.h"

#include "Importer.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::onnx_import;

namespace {
class Masks {
public:
  Masks(onnx::GraphProto &graph, ModelFiles &files, MLIRContext &context)
      : graph(graph), files(files), context(context) {
    for (auto &node : *graph.mutable_node()) {
      for (const std::string &output : node.output())
        makers[output] = &node;
      for (const std::string &input : node.input())
        readers[input].push_back(&node);
      for (const auto &attribute : node.attribute()) {
        noteBody(attribute.g());
        for (const auto &body : attribute.graphs())
          noteBody(body);
      }
    }
    for (const auto &output : graph.output())
      readElsewhere.insert(output.name());
    for (const auto &tensor : graph.initializer())
      initializers[tensor.name()] = &tensor;
  }

  void run() {
    for (auto &node : *graph.mutable_node())
      if (node.op_type() == "RandomUniformLike" && node.domain().empty() &&
          isUnit(node))
        rewrite(node);
  }

private:
  /// What the body of a loop or a branch reads keeps its name.
  void noteBody(const onnx::GraphProto &body) {
    for (const auto &output : body.output())
      readElsewhere.insert(output.name());
    for (const auto &node : body.node()) {
      for (const std::string &input : node.input())
        readElsewhere.insert(input);
      for (const auto &attribute : node.attribute()) {
        noteBody(attribute.g());
        for (const auto &inner : attribute.graphs())
          noteBody(inner);
      }
    }
  }

  /// Evenly spread over [0, 1), without a seed.
  static bool isUnit(const onnx::NodeProto &node) {
    for (const auto &attribute : node.attribute()) {
      bool isUsual = (attribute.name() == "low" && attribute.f() == 0) ||
                     (attribute.name() == "high" && attribute.f() == 1) ||
                     (attribute.name() == "dtype" &&
                      attribute.i() == onnx::TensorProto::FLOAT);
      if (!isUsual)
        return false;
    }
    return node.input_size() == 1 && node.output_size() == 1;
  }

  /// The only node that reads a value; null: there are several, or none.
  onnx::NodeProto *readerOf(const std::string &name) const {
    auto found = readers.find(name);
    return found == readers.end() || found->second.size() != 1 ||
                   readElsewhere.contains(name)
               ? nullptr
               : found->second.front();
  }

  std::optional<double> numberIn(const onnx::TensorProto &tensor) const {
    std::string error;
    ModelFiles::Fault fault;
    auto data = files.read(&context, tensor, error, fault);
    if (!data || data->isPacked || !data->type.getElementType().isF32() ||
        data->type.getNumElements() != 1)
      return std::nullopt;
    return *toElements(*data).getValues<float>().begin();
  }

  /// A float constant, behind casts.
  std::optional<double> numberOf(std::string name) const {
    for (int depth = 0; depth < 4; ++depth) {
      if (auto stored = initializers.find(name); stored != initializers.end())
        return numberIn(*stored->second);
      auto maker = makers.find(name);
      if (maker == makers.end())
        return std::nullopt;
      const onnx::NodeProto &node = *maker->second;
      if (node.op_type() == "Constant" && node.attribute_size() == 1) {
        const auto &attribute = node.attribute(0);
        if (attribute.name() == "value_float")
          return attribute.f();
        return attribute.name() == "value" ? numberIn(attribute.t())
                                           : std::nullopt;
      }
      if ((node.op_type() != "Cast" && node.op_type() != "CastLike" &&
           node.op_type() != "Identity") ||
          node.input_size() < 1)
        return std::nullopt;
      name = node.input(0);
    }
    return std::nullopt;
  }

  void rewrite(onnx::NodeProto &drawn) {
    const std::string numbers = drawn.output(0);
    // p is cast to their type, which is that of what they are like.
    SmallVector<onnx::NodeProto *, 1> ofType;
    llvm::erase_if(readers[numbers], [&](onnx::NodeProto *reader) {
      bool isType = reader->op_type() == "CastLike" &&
                    reader->input_size() == 2 && reader->input(0) != numbers;
      if (isType)
        ofType.push_back(reader);
      return isType;
    });
    // What is damaged is refused behind this.
    auto hasResult = [](const onnx::NodeProto *node) {
      return node && node->output_size() == 1;
    };
    onnx::NodeProto *less = readerOf(numbers);
    if (!hasResult(less) || less->op_type() != "Less" ||
        less->input_size() != 2 || less->input(0) != numbers)
      return;
    std::optional<double> kept = numberOf(less->input(1));
    onnx::NodeProto *cast = readerOf(less->output(0));
    if (!kept || !(*kept > 0 && *kept <= 1) || !hasResult(cast) ||
        (cast->op_type() != "Cast" && cast->op_type() != "CastLike") ||
        cast->input(0) != less->output(0))
      return;
    onnx::NodeProto *divided = readerOf(cast->output(0));
    if (!hasResult(divided) || divided->op_type() != "Div" ||
        divided->input_size() != 2 || divided->input(0) != cast->output(0))
      return;
    std::optional<double> by = numberOf(divided->input(1));
    if (!by || std::fabs(*by - *kept) > 1e-5 * *kept)
      return;
    for (onnx::NodeProto *node : ofType)
      node->set_input(1, drawn.input(0));
    const std::string name = numbers + ".dropout";
    onnx::TensorProto &ratio = *graph.add_initializer();
    ratio.set_name(name + ".ratio");
    ratio.set_data_type(onnx::TensorProto::FLOAT);
    ratio.add_float_data(static_cast<float>(1 - *kept));
    onnx::TensorProto &mode = *graph.add_initializer();
    mode.set_name(name + ".training_mode");
    mode.set_data_type(onnx::TensorProto::BOOL);
    mode.add_int32_data(1);
    // Each node takes the place of another, so that their numbers stay.
    auto become = [](onnx::NodeProto &node, const char *type,
                     std::initializer_list<std::string> inputs,
                     const std::string &output) {
      node.set_op_type(type);
      node.clear_attribute();
      node.clear_input();
      for (const std::string &input : inputs)
        node.add_input(input);
      node.clear_output();
      node.add_output(output);
    };
    const onnx::NodeProto like = *cast;
    const std::string result = divided->output(0), ownName = drawn.name();
    become(*divided, like.op_type().c_str(), {name + ".mask"}, result);
    for (int i = 1; i < like.input_size(); ++i)
      divided->add_input(like.input(i));
    *divided->mutable_attribute() = like.attribute();
    become(*cast, "Dropout", {name + ".ones", ratio.name(), mode.name()},
           name + ".mask");
    cast->set_name(ownName);
    become(*less, "ConstantOfShape", {name + ".shape"}, name + ".ones");
    onnx::AttributeProto &value = *less->add_attribute();
    value.set_name("value");
    value.set_type(onnx::AttributeProto::TENSOR);
    value.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
    value.mutable_t()->add_dims(1);
    value.mutable_t()->add_float_data(1);
    less->set_name(ownName + ".ones");
    become(drawn, "Shape", {drawn.input(0)}, name + ".shape");
    drawn.set_name(ownName + ".shape");
  }

  onnx::GraphProto &graph;
  ModelFiles &files;
  MLIRContext &context;
  llvm::StringMap<onnx::NodeProto *> makers;
  llvm::StringMap<SmallVector<onnx::NodeProto *, 1>> readers;
  llvm::StringMap<const onnx::TensorProto *> initializers;
  llvm::StringSet<> readElsewhere;
};
} // namespace

void kerf::onnx_import::recogniseMasks(onnx::ModelProto &model,
                                       ModelFiles &files,
                                       MLIRContext &context) {
  // Dropout takes its ratio as an input.
  constexpr int64_t kMinOpset = 13;
  for (const auto &opset : model.opset_import())
    if ((opset.domain().empty() || opset.domain() == "ai.onnx") &&
        opset.version() >= kMinOpset)
      Masks(*model.mutable_graph(), files, context).run();
}

/// Counts the reads of each name in nodes and their bodies, and those of them
/// that say how much Dropout drops.
static void countReads(const onnx::GraphProto &graph,
                       llvm::StringMap<std::pair<int, int>> &counts) {
  for (const auto &node : graph.node()) {
    for (const auto &[number, input] : llvm::enumerate(node.input())) {
      auto &[all, ratios] = counts[input];
      ++all;
      ratios += number == 1 && node.op_type() == "Dropout";
    }
    for (const auto &attribute : node.attribute()) {
      countReads(attribute.g(), counts);
      for (const auto &body : attribute.graphs())
        countReads(body, counts);
    }
  }
  for (const auto &output : graph.output())
    ++counts[output.name()].first;
}

llvm::StringSet<>
kerf::onnx_import::ratiosOfDropout(const onnx::GraphProto &graph) {
  llvm::StringMap<std::pair<int, int>> counts;
  countReads(graph, counts);
  llvm::StringSet<> ratios;
  for (const auto &entry : counts)
    if (auto [all, ofDropout] = entry.second; all > 0 && all == ofDropout)
      ratios.insert(entry.first());
  return ratios;
}
