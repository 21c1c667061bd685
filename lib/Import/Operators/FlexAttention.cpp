//===- FlexAttention.cpp - attention with functions of its own ------------===//
//
// Domain ai.onnx.preview: subgraphs change the scores before the softmax and
// the weights behind it. They are imported where they stand.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "../Importer.h"

#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// `x` as the subgraph of this attribute gives it, or itself without one; null
/// after reporting.
static Value modified(Node &node, StringRef attribute, Value x) {
  if (!x || !node.hasAttribute(attribute))
    return x;
  const onnx::GraphProto *graph = node.graph(attribute);
  if (!graph)
    return {};
  if (graph->input_size() != 1 || graph->output_size() != 1)
    return (void)node.error(attribute + " has " + Twine(graph->input_size()) +
                            " inputs and " + Twine(graph->output_size()) +
                            " outputs, expected one of each"),
           Value();
  SmallVector<Value> results;
  std::string prefix = node.name + "/" + attribute.str() + "/";
  if (failed(node.importer.importSubgraph(*graph, node.scope, prefix, {x},
                                          results)))
    return {};
  if (results.front() && results.front().getType() != x.getType())
    return (void)node.error(attribute + " changes the shape or type"), Value();
  if (!results.front())
    node.failed = true; // said at the node of the subgraph
  return results.front();
}

static LogicalResult flexAttention(Node &node) {
  if (failed(node.arity(3, 3)))
    return failure();
  Value q = node.in(0), k = node.in(1), v = node.in(2);
  if (rankOf(q) != 4 || rankOf(k) != 4 || rankOf(v) != 4)
    return node.error("query, key and value must have rank 4");
  Integers qs(shapeOf(q)), ks(shapeOf(k)), vs(shapeOf(v));
  int64_t b = qs[0], heads = qs[1], s = qs[2], t = ks[2];
  if (ks[1] < 1 || heads % ks[1] || vs[1] != ks[1] || vs[2] != t ||
      ks[3] != qs[3] || ks[0] != b || vs[0] != b)
    return node.error("query, key and value do not fit each other");
  Type element = elementOf(q);
  if (!isComputedFloat(element) || elementOf(k) != element ||
      elementOf(v) != element)
    return node.error("query, key and value must be floats of one type");
  Type precise = element.isF64() ? element : node.ops.getF32Type();
  if (int64_t type = node.integer("softmax_precision", 0))
    precise = elementType(node.context, type);
  if (!precise || !isComputedFloat(precise))
    return node.error("softmax_precision is no type of floats");
  double scale = node.real("scale", 1 / std::sqrt(double(qs[3])));
  int64_t groups = heads / ks[1];
  // Grouped heads: the group is a dimension of its own, keys broadcast.
  q = node.reshape(q, {b, ks[1], groups, s, qs[3]});
  k = node.reshape(k, {b, ks[1], 1, t, ks[3]});
  v = node.reshape(v, {b, ks[1], 1, t, vs[3]});
  Value scores = node.matmul(node.mul(q, scale), k, false, true);
  scores = node.cast(node.reshape(scores, {b, heads, s, t}), precise);
  scores = modified(node, "score_mod", scores);
  if (!scores)
    return node.failed ? failure() : node.fail();
  Value weights = node.make<SoftmaxOp>({scores}, {node.i64("dim", 3)});
  weights = modified(node, "prob_mod", weights);
  if (!weights)
    return node.failed ? failure() : node.fail();
  weights = node.reshape(weights, {b, ks[1], groups, s, t});
  Value y = node.matmul(weights, node.cast(v, precise));
  return node.set(
      node.cast(node.reshape(y, {b, heads, s, vs[3]}), elementOf(v)));
}

void kerf::onnx_import::addFlexAttention(HandlerTable &table) {
  table.add("FlexAttention", 1, flexAttention);
}
