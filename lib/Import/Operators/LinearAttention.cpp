//===- LinearAttention.cpp - attention with a state instead of a cache ----===//
//
// A state of keys times values, [d, e] for each head, is what a token reads and
// writes (operator set 27):
//   S <- exp(decay) S;  v <- beta (v - k S);  S <- S + k^T v;  y = scale q S
// where the rule leaves out the first step, the second, or both. Tokens are
// unrolled, as in recurrent cells; the state is in 32 bits.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "AttentionParts.h"

#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// Token `at` of [b, h, t, d], as [b, h, 1, d].
static Value tokenOf(Node &node, Value x, int64_t at) {
  return x ? node.slice(x, 2, at, 1) : x;
}

/// [b, t, h n] as [b, h, t, n] in 32 bits.
static Value byHeads(Node &node, Value x, int64_t heads) {
  Value split = splitHeads(node, x, heads);
  return split ? node.cast(split, node.ops.getF32Type()) : split;
}

static LogicalResult linearAttention(Node &node) {
  if (failed(node.arity(3, 6, 2)))
    return failure();
  int64_t heads = node.integer("q_num_heads", 0);
  int64_t keyHeads = node.integer("kv_num_heads", 0);
  double scale = node.real("scale", 0);
  std::string rule = node.text("update_rule", "gated_delta");
  (void)node.integer("chunk_size", 0); // how others compute it
  bool isGated = rule == "gated" || rule == "gated_delta";
  bool hasDelta = rule == "delta" || rule == "gated_delta";
  if (!isGated && !hasDelta && rule != "linear")
    return node.error("update_rule is \"" + rule +
                      "\", expected linear, gated, delta or gated_delta");
  if (heads < 1 || keyHeads < 1 || heads % keyHeads)
    return node.error("q_num_heads is " + Twine(heads) +
                      ", expected a multiple of kv_num_heads, " +
                      Twine(keyHeads));
  if (isGated != node.has(4) || hasDelta != node.has(5))
    return node.error("update_rule \"" + rule + "\" " +
                      (isGated ? "needs" : "has no") + " decay and " +
                      (hasDelta ? "needs" : "has no") + " beta");
  for (size_t index : {0, 1, 2, 4, 5})
    if (node.has(index) && rankOf(node.in(index)) != 3)
      return node.error("input " + Twine(index) + " has rank " +
                        Twine(rankOf(node.in(index))) + ", expected 3");
  Type element = elementOf(node.in(0)), f32 = node.ops.getF32Type();
  Value q = byHeads(node, node.in(0), heads);
  Value k = byHeads(node, node.in(1), keyHeads);
  Value v = byHeads(node, node.in(2), keyHeads);
  if (!q || !k || !v)
    return node.fail();
  int64_t b = shapeOf(q)[0], tokens = shapeOf(q)[2], d = shapeOf(q)[3];
  int64_t e = shapeOf(v)[3], group = heads / keyHeads;
  if (shapeOf(k) != ArrayRef<int64_t>({b, keyHeads, tokens, d}) ||
      shapeOf(v) != ArrayRef<int64_t>({b, keyHeads, tokens, e}))
    return node.error("query, key and value do not fit each other");
  constexpr int64_t kMaxTokens = 4096;
  if (tokens < 1 || tokens > kMaxTokens)
    return node.unsupported("a sequence of " + Twine(tokens) +
                                " tokens of operator LinearAttention",
                            "1 to 4096 are taken");
  Value decay, beta;
  if (isGated) {
    int64_t last = shapeOf(node.in(4))[2];
    if (last != keyHeads && last != keyHeads * d)
      return node.error("decay has " + Twine(last) + " columns, expected " +
                        Twine(keyHeads) + " or " + Twine(keyHeads * d));
    decay = node.make<ExpOp>({byHeads(node, node.in(4), keyHeads)});
  }
  if (hasDelta) {
    int64_t last = shapeOf(node.in(5))[2];
    if (last != keyHeads && last != 1)
      return node.error("beta has " + Twine(last) + " columns, expected " +
                        Twine(keyHeads) + " or 1");
    beta = byHeads(node, node.in(5), last);
  }
  Integers stateShape{b, keyHeads, d, e};
  Value state =
      node.has(3) ? node.cast(node.in(3), f32) : node.splat(stateShape, 0, f32);
  if (!state || (isGated && !decay) || (hasDelta && !beta))
    return node.fail();
  if (shapeOf(state) != ArrayRef<int64_t>(stateShape))
    return node.error("past_state must be [batch, kv_num_heads, key size, "
                      "value size]");
  // Heads that share a state read it together.
  q = node.reshape(q, {b, keyHeads, group, tokens, d});
  if (scale == 0)
    scale = 1 / std::sqrt(double(d));
  q = node.mul(q, scale);
  SmallVector<Value> outputs;
  for (int64_t at = 0; at < tokens; ++at) {
    Value key = tokenOf(node, k, at), value = tokenOf(node, v, at);
    if (isGated) // [b, h, 1, n] scales rows of the state
      state = node.mul(state,
                       node.transpose(tokenOf(node, decay, at), {0, 1, 3, 2}));
    if (hasDelta)
      value = node.mul(node.sub(value, node.matmul(key, state)),
                       tokenOf(node, beta, at));
    state = node.add(state, node.matmul(key, value, /*transposeLhs=*/true));
    if (!state)
      return node.fail();
    Value read = node.reshape(node.slice(q, 3, at, 1), {b, keyHeads, group, d});
    outputs.push_back(
        node.reshape(node.matmul(read, state), {b, 1, heads * e}));
    if (!outputs.back())
      return node.fail();
  }
  Type kept = node.has(3) ? elementOf(node.in(3)) : element;
  if (node.wants(1) && failed(node.set(1, node.cast(state, kept))))
    return failure();
  Value y = tokens == 1 ? outputs[0] : node.concat(outputs, 1);
  return node.set(node.cast(y, element));
}

void kerf::onnx_import::addLinearAttention(HandlerTable &table) {
  table.add("LinearAttention", 27, linearAttention);
}
