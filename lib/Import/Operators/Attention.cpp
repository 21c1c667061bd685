//===- Attention.cpp - attention and rotary embedding as operators --------===//
//
// softmax(scale q k^T + mask) v, with grouped heads, caches and causal masks,
// as matmuls and softmax: the same ops as from exporters that write attention
// out. Operator sets 23 and 24.
//
//===----------------------------------------------------------------------===//
#include "../Handlers.h"

#include <cmath>
#include <limits>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// [b, s, h d] -> [b, h, s, d]
static Value splitHeads(Node &node, Value x, int64_t heads) {
  ArrayRef<int64_t> s = shapeOf(x);
  if (s.size() != 3 || heads < 1 || s[2] % heads) {
    (void)node.error("q_num_heads and kv_num_heads must divide the hidden "
                     "size of inputs of rank 3");
    return {};
  }
  return node.transpose(node.reshape(x, {s[0], s[1], heads, s[2] / heads}),
                        {0, 2, 1, 3});
}

/// Adds position masks: query i (counted from `offset`) sees keys up to i.
static Value causalMask(Node &node, Type element, int64_t queries, int64_t keys,
                        int64_t offset) {
  Type i64 = node.ops.getI64Type();
  Value row = node.add(node.reshape(node.iota(queries, i64), {queries, 1}),
                       double(offset));
  Value sees = node.make<LessEqualOp>({node.iota(keys, i64), row});
  return node.select(
      sees, node.scalar(0, element),
      node.scalar(-std::numeric_limits<double>::infinity(), element));
}

static LogicalResult attention(Node &node) {
  if (failed(node.arity(3, 7, 4)))
    return failure();
  Value q = node.in(0), k = node.in(1), v = node.in(2), mask = node.in(3);
  bool flat = rankOf(q) == 3;
  int64_t queryHeads = node.integer("q_num_heads", 0);
  int64_t keyHeads = node.integer("kv_num_heads", 0);
  bool causal = node.integer("is_causal", 0);
  double softcap = node.real("softcap", 0);
  double scale = node.real("scale", 0);
  int64_t qkMode = node.integer("qk_matmul_output_mode", 0);
  (void)node.integer("softmax_precision", 1);
  if (node.failed)
    return failure();
  if (node.has(6))
    return node.unsupported("input nonpad_kv_seqlen of operator Attention",
                            "attn_mask is taken");
  if (flat) {
    q = splitHeads(node, q, queryHeads);
    k = splitHeads(node, k, keyHeads);
    v = splitHeads(node, v, keyHeads);
    if (!q || !k || !v)
      return failure();
  }
  if (rankOf(q) != 4 || rankOf(k) != 4 || rankOf(v) != 4)
    return node.error("inputs must all have rank 3 or all have rank 4");
  int64_t past = 0;
  if (node.has(4) != node.has(5))
    return node.error("past_key and past_value must come together");
  if (node.has(4)) {
    past = rankOf(node.in(4)) == 4 ? shapeOf(node.in(4))[2] : 0;
    k = node.concat({node.in(4), k}, 2);
    v = node.concat({node.in(5), v}, 2);
    if (!k || !v)
      return node.fail();
  }
  if ((node.outputs.size() > 1 && failed(node.set(1, k))) ||
      (node.outputs.size() > 2 && failed(node.set(2, v))))
    return failure();
  Integers qs(shapeOf(q)), ks(shapeOf(k)), vs(shapeOf(v));
  int64_t b = qs[0], heads = qs[1], s = qs[2], t = ks[2];
  if (ks[1] < 1 || heads % ks[1] || vs[1] != ks[1] || vs[2] != t ||
      qs[3] != ks[3] || ks[0] != b || vs[0] != b)
    return node.error("query, key and value do not fit each other");
  int64_t groups = heads / ks[1];
  if (scale == 0)
    scale = 1 / std::sqrt(double(qs[3]));
  Type element = elementOf(q);
  // Grouped heads: the group is a dimension of its own, keys broadcast.
  if (groups > 1) {
    q = node.reshape(q, {b, ks[1], groups, s, qs[3]});
    k = node.reshape(k, {b, ks[1], 1, t, ks[3]});
    v = node.reshape(v, {b, ks[1], 1, t, vs[3]});
  }
  Value scores = node.matmul(node.mul(q, scale), k, false, true);
  scores = node.reshape(scores, {b, heads, s, t});
  if (!scores)
    return node.fail();
  Value raw = scores;
  if (mask && elementOf(mask).isInteger(1))
    mask = node.select(
        mask, node.scalar(0, element),
        node.scalar(-std::numeric_limits<double>::infinity(), element));
  mask = mask ? node.cast(mask, element) : mask;
  // A mask that ends early hides the keys behind it.
  if (mask && rankOf(mask) > 0 && shapeOf(mask).back() < t &&
      shapeOf(mask).back() != 1) {
    Integers low(rankOf(mask), 0), high(rankOf(mask), 0);
    high.back() = t - shapeOf(mask).back();
    mask = node.make<PadOp>(
        {mask},
        {node.i64s("low", low), node.i64s("high", high),
         node.ops.getNamedAttr(
             "value", node.ops.getFloatAttr(
                          element, -std::numeric_limits<double>::infinity()))});
  }
  Value causalPart = causal ? causalMask(node, element, s, t, past) : Value();
  auto addMask = [&] {
    if (causalPart)
      scores = node.add(scores, causalPart);
    if (mask && scores)
      scores = node.add(scores, mask);
  };
  auto cap = [&] {
    if (softcap > 0)
      scores =
          node.mul(node.make<TanhOp>({node.mul(scores, 1 / softcap)}), softcap);
  };
  cap();
  Value capped = scores;
  addMask();
  Value masked = scores;
  if (!masked)
    return node.fail();
  Value weights = node.make<SoftmaxOp>({scores}, {node.i64("dim", 3)});
  // Rows whose positions are all masked give zero. That follows from the masks
  // and not from NaN in the scores, since NaN in q and k must stay NaN. With a
  // causal mask alone each query sees a key.
  if (mask && rankOf(mask) > 0) {
    Value hidden = causalPart ? node.add(causalPart, mask) : mask;
    Value seen = node.reduce(hidden, ReduceKind::Max, {rankOf(hidden) - 1},
                             /*keepDims=*/true);
    Value nothing =
        node.scalar(-std::numeric_limits<double>::infinity(), element);
    weights = node.select(node.make<EqualOp>({seen, nothing}),
                          node.scalar(0, element), weights);
  }
  if (node.outputs.size() > 3) {
    Value shown = qkMode == 0   ? raw
                  : qkMode == 1 ? capped
                  : qkMode == 2 ? masked
                                : weights;
    if (failed(node.set(3, shown)))
      return failure();
  }
  if (groups > 1)
    weights = node.reshape(weights, {b, ks[1], groups, s, t});
  Value y = node.reshape(node.matmul(weights, v), {b, heads, s, vs[3]});
  if (flat)
    y = node.reshape(node.transpose(y, {0, 2, 1, 3}), {b, s, heads * vs[3]});
  return node.set(y);
}

/// Rotates pairs of elements by angles whose cosine and sine are given.
static LogicalResult rotaryEmbedding(Node &node) {
  if (failed(node.arity(3, 4)))
    return failure();
  Value x = node.in(0), cos = node.in(1), sin = node.in(2);
  bool interleaved = node.integer("interleaved", 0);
  int64_t rotated = node.integer("rotary_embedding_dim", 0);
  int64_t heads = node.integer("num_heads", 0);
  Integers original(shapeOf(x));
  if (rankOf(x) == 3) {
    x = splitHeads(node, x, heads);
    if (!x)
      return failure();
  }
  if (rankOf(x) != 4)
    return node.error("input has rank " + Twine(rankOf(x)) +
                      ", expected 3 or 4");
  Integers s(shapeOf(x));
  if (rotated == 0)
    rotated = s[3];
  if (rotated < 2 || rotated > s[3] || rotated % 2)
    return node.error("rotary_embedding_dim is " + Twine(rotated) +
                      ", expected an even number up to " + Twine(s[3]));
  if (node.has(3)) {
    cos = node.gather(cos, node.in(3), 0);
    sin = node.gather(sin, node.in(3), 0);
  }
  if (!cos || !sin)
    return node.fail();
  // [b, s, r/2] -> [b, 1, s, r/2]
  Integers angles{s[0], 1, s[2], rotated / 2};
  for (Value *angle : {&cos, &sin}) {
    if (typeOf(*angle).getNumElements() != s[0] * s[2] * rotated / 2)
      return node.error("caches do not have the shape of the positions");
    *angle = node.reshape(*angle, angles);
  }
  Value rest =
      rotated < s[3] ? node.slice(x, 3, rotated, s[3] - rotated) : Value();
  x = node.slice(x, 3, 0, rotated);
  Value first, second;
  int64_t half = rotated / 2;
  if (interleaved) {
    first = node.slice(x, 3, 0, half, 2);
    second = node.slice(x, 3, 1, half, 2);
  } else {
    first = node.slice(x, 3, 0, half);
    second = node.slice(x, 3, half, half);
  }
  Value a = node.sub(node.mul(first, cos), node.mul(second, sin));
  Value b = node.add(node.mul(first, sin), node.mul(second, cos));
  if (!a || !b)
    return node.fail();
  Value y;
  if (interleaved) {
    Integers pairs{s[0], s[1], s[2], half, 1};
    y = node.reshape(
        node.concat({node.reshape(a, pairs), node.reshape(b, pairs)}, 4),
        {s[0], s[1], s[2], rotated});
  } else {
    y = node.concat({a, b}, 3);
  }
  if (rest)
    y = node.concat({y, rest}, 3);
  if (original.size() == 3)
    y = node.reshape(node.transpose(y, {0, 2, 1, 3}), original);
  return node.set(y);
}

void kerf::onnx_import::addAttention(HandlerTable &table) {
  table.add("Attention", 23, attention);
  table.add("RotaryEmbedding", 23, rotaryEmbedding);
}
