//===- Attention.cpp - attention and rotary embedding as operators --------===//
//
// softmax(scale q k^T + mask) v, with grouped heads, caches, causal masks and
// windows. Operator sets 23 to 25 (AttentionParts.h).
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "AttentionParts.h"
#include "Indexing.h"

#include <cmath>
#include <limits>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// [b, s, h d] -> [b, h, s, d]
Value kerf::onnx_import::splitHeads(Node &node, Value x, int64_t heads) {
  if (!x)
    return {};
  ArrayRef<int64_t> s = shapeOf(x);
  if (s.size() != 3 || heads < 1 || s[2] % heads) {
    (void)node.error("the numbers of heads must divide the hidden size of "
                     "inputs of rank 3");
    return {};
  }
  return node.transpose(node.reshape(x, {s[0], s[1], heads, s[2] / heads}),
                        {0, 2, 1, 3});
}

Value kerf::onnx_import::joinHeads(Node &node, Value x) {
  if (!x)
    return {};
  Integers s(shapeOf(x));
  return node.reshape(node.transpose(x, {0, 2, 1, 3}),
                      {s[0], s[2], s[1] * s[3]});
}

static Value hiddenNumber(Node &node, Type element) {
  return node.scalar(-std::numeric_limits<double>::infinity(), element);
}

/// Which keys a query sees by its position and the samples' lengths: booleans
/// that broadcast to [b, h, s, t], null where it sees all.
static Value seenByPosition(Node &node, const AttentionForm &form, int64_t s,
                            int64_t t) {
  Type i64 = node.ops.getI64Type();
  Value sees, keys = node.iota(t, i64);
  auto also = [&](Value condition) {
    sees = sees ? node.make<AndOp>({sees, condition}) : condition;
  };
  auto ofSample = [&](Value vector) {
    return node.reshape(vector, {shapeOf(vector)[0], 1, 1, 1});
  };
  int64_t right = form.causal ? 0 : form.right;
  if (right >= 0 || form.left >= 0) {
    Value position = node.reshape(node.iota(s, i64), {s, 1});
    position = form.pastOf ? node.add(ofSample(form.pastOf), position)
                           : node.add(position, double(form.past));
    if (right >= 0)
      also(node.make<LessEqualOp>({keys, node.add(position, double(right))}));
    if (form.left >= 0)
      also(node.make<LessEqualOp>(
          {node.add(position, -double(form.left)), keys}));
  }
  if (form.lengths)
    also(node.make<LessOp>({keys, ofSample(form.lengths)}));
  return sees;
}

/// What `mask` adds to scores of t keys, of this type.
static Value asAddend(Node &node, Value mask, Type element, int64_t t) {
  if (!mask)
    return {};
  if (elementOf(mask).isInteger(1))
    mask =
        node.select(mask, node.scalar(0, element), hiddenNumber(node, element));
  mask = node.cast(mask, element);
  if (!mask || rankOf(mask) == 0 || shapeOf(mask).back() >= t ||
      shapeOf(mask).back() == 1)
    return mask;
  Integers low(rankOf(mask), 0), high(rankOf(mask), 0);
  high.back() = t - shapeOf(mask).back();
  return node.make<PadOp>(
      {mask},
      {node.i64s("low", low), node.i64s("high", high),
       node.ops.getNamedAttr(
           "value", node.ops.getFloatAttr(
                        element, -std::numeric_limits<double>::infinity()))});
}

FailureOr<AttentionValues> kerf::onnx_import::attend(Node &node,
                                                     AttentionForm form) {
  Value q = form.q, k = form.k, v = form.v;
  if (!q || !k || !v)
    return node.fail();
  Integers qs(shapeOf(q)), ks(shapeOf(k)), vs(shapeOf(v));
  if (qs.size() != 4 || ks.size() != 4 || vs.size() != 4)
    return node.error("query, key and value must have rank 4 by heads");
  int64_t b = qs[0], heads = qs[1], s = qs[2], t = ks[2];
  if (ks[1] < 1 || heads % ks[1] || vs[1] != ks[1] || vs[2] != t ||
      qs[3] != ks[3] || ks[0] != b || vs[0] != b)
    return node.error("query, key and value do not fit each other");
  int64_t groups = heads / ks[1];
  if (form.scale == 0)
    form.scale = 1 / std::sqrt(double(qs[3]));
  Type element = elementOf(q);
  // Grouped heads: the group is a dimension of its own, keys broadcast.
  if (groups > 1) {
    q = node.reshape(q, {b, ks[1], groups, s, qs[3]});
    k = node.reshape(k, {b, ks[1], 1, t, ks[3]});
    v = node.reshape(v, {b, ks[1], 1, t, vs[3]});
  }
  AttentionValues values;
  values.raw = node.reshape(
      node.matmul(node.mul(q, form.scale), k, false, true), {b, heads, s, t});
  values.capped = values.raw;
  if (form.softcap > 0)
    values.capped =
        node.mul(node.make<TanhOp>({node.mul(values.raw, 1 / form.softcap)}),
                 form.softcap);
  Value mask = asAddend(node, form.mask, element, t);
  Value sees = seenByPosition(node, form, s, t);
  Value byPosition = sees ? node.select(sees, node.scalar(0, element),
                                        hiddenNumber(node, element))
                          : Value();
  if (node.failed || !values.capped || (form.mask && !mask) ||
      (sees && !byPosition))
    return node.fail();
  values.masked = values.capped;
  for (Value addend : {byPosition, mask})
    if (addend && values.masked)
      values.masked = node.add(values.masked, addend);
  if (!values.masked)
    return node.fail();
  if (shapeOf(values.masked) != ArrayRef<int64_t>({b, heads, s, t}))
    return node.error("the mask does not broadcast to the scores");
  values.weights = node.make<SoftmaxOp>({values.masked}, {node.i64("dim", 3)});
  // Rows whose positions are all hidden give zero. That follows from the masks
  // and not from NaN in the scores, since NaN in q and k must stay NaN. A
  // causal mask alone hides no query's own key.
  bool mayHideAll = form.lengths || form.pastOf ||
                    (form.left >= 0 && form.past + s > t) ||
                    (mask && rankOf(mask) > 0);
  if (mayHideAll) {
    Value hidden = !byPosition ? mask
                   : mask      ? node.add(byPosition, mask)
                               : byPosition;
    Value seen = node.reduce(hidden, ReduceKind::Max, {rankOf(hidden) - 1},
                             /*keepDims=*/true);
    values.weights =
        node.select(node.make<EqualOp>({seen, hiddenNumber(node, element)}),
                    node.scalar(0, element), values.weights);
  }
  Value weights = values.weights;
  if (groups > 1)
    weights = node.reshape(weights, {b, ks[1], groups, s, t});
  values.y = node.reshape(node.matmul(weights, v), {b, heads, s, vs[3]});
  if (!values.y)
    return node.fail();
  return values;
}

/// Whether a window's bound is -1 or a number of keys; reports otherwise.
static bool isBound(Node &node, StringRef name, int64_t bound) {
  if (bound >= -1)
    return true;
  (void)node.error(name + " is " + Twine(bound) + ", expected at least -1");
  return false;
}

static LogicalResult attention(Node &node) {
  if (failed(node.arity(3, 7, 4)))
    return failure();
  AttentionForm form;
  form.q = node.in(0), form.k = node.in(1), form.v = node.in(2);
  form.mask = node.in(3);
  bool flat = rankOf(form.q) == 3;
  int64_t queryHeads = node.integer("q_num_heads", 0);
  int64_t keyHeads = node.integer("kv_num_heads", 0);
  form.causal = node.integer("is_causal", 0);
  form.softcap = node.real("softcap", 0);
  form.scale = node.real("scale", 0);
  if (node.opset >= 25) {
    form.left = node.integer("left_window_size", -1);
    form.right = node.integer("right_window_size", -1);
  }
  int64_t qkMode = node.integer("qk_matmul_output_mode", 0);
  (void)node.integer("softmax_precision", 1);
  if (node.failed || !isBound(node, "left_window_size", form.left) ||
      !isBound(node, "right_window_size", form.right))
    return failure();
  if (flat) {
    form.q = splitHeads(node, form.q, queryHeads);
    form.k = splitHeads(node, form.k, keyHeads);
    form.v = splitHeads(node, form.v, keyHeads);
    if (!form.q || !form.k || !form.v)
      return failure();
  }
  if (rankOf(form.q) != 4 || rankOf(form.k) != 4 || rankOf(form.v) != 4)
    return node.error("inputs must all have rank 3 or all have rank 4");
  if (node.has(4) != node.has(5))
    return node.error("past_key and past_value must come together");
  if (node.has(4)) {
    if (node.has(6))
      return node.error("nonpad_kv_seqlen is for a cache that is one input, "
                        "and cannot come with past_key");
    form.past = rankOf(node.in(4)) == 4 ? shapeOf(node.in(4))[2] : 0;
    form.k = node.concat({node.in(4), form.k}, 2);
    form.v = node.concat({node.in(5), form.v}, 2);
    if (!form.k || !form.v)
      return node.fail();
  }
  if (node.has(6)) {
    form.lengths = wideIndices(node, node.in(6));
    if (!form.lengths)
      return failure();
    if (shapeOf(form.lengths) != shapeOf(form.q).take_front(1))
      return node.error("nonpad_kv_seqlen must be a vector of " +
                        Twine(shapeOf(form.q)[0]) + " elements");
    // The queries are the last of what is there.
    form.pastOf = node.add(form.lengths, -double(shapeOf(form.q)[2]));
  }
  if ((node.outputs.size() > 1 && failed(node.set(1, form.k))) ||
      (node.outputs.size() > 2 && failed(node.set(2, form.v))))
    return failure();
  auto values = attend(node, form);
  if (failed(values))
    return failure();
  if (node.outputs.size() > 3) {
    Value shown = qkMode == 0   ? values->raw
                  : qkMode == 1 ? values->capped
                  : qkMode == 2 ? values->masked
                                : values->weights;
    if (failed(node.set(3, shown)))
      return failure();
  }
  return node.set(flat ? joinHeads(node, values->y) : values->y);
}

Value kerf::onnx_import::rotatePairs(Node &node, Value x, Value cos, Value sin,
                                     int64_t rotated, bool interleaved) {
  if (!x || !cos || !sin)
    return {};
  Integers s(shapeOf(x));
  if (rotated < 2 || rotated > s[3] || rotated % 2) {
    (void)node.error("rotary_embedding_dim is " + Twine(rotated) +
                     ", expected an even number up to " + Twine(s[3]));
    return {};
  }
  // [b, s, r/2] -> [b, 1, s, r/2]
  int64_t half = rotated / 2;
  for (Value *angle : {&cos, &sin}) {
    int64_t count = typeOf(*angle).getNumElements();
    if (count != s[0] * s[2] * half && count != s[2] * half) {
      (void)node.error("caches do not have the shape of the positions");
      return {};
    }
    *angle =
        node.reshape(*angle, {count == s[2] * half ? 1 : s[0], 1, s[2], half});
  }
  Value rest =
      rotated < s[3] ? node.slice(x, 3, rotated, s[3] - rotated) : Value();
  x = node.slice(x, 3, 0, rotated);
  int64_t stride = interleaved ? 2 : 1;
  Value first = node.slice(x, 3, 0, half, stride);
  Value second = node.slice(x, 3, interleaved ? 1 : half, half, stride);
  Value a = node.sub(node.mul(first, cos), node.mul(second, sin));
  Value b = node.add(node.mul(first, sin), node.mul(second, cos));
  if (!a || !b)
    return {};
  Value y;
  if (interleaved) {
    Integers pairs{s[0], s[1], s[2], half, 1};
    y = node.reshape(
        node.concat({node.reshape(a, pairs), node.reshape(b, pairs)}, 4),
        {s[0], s[1], s[2], rotated});
  } else {
    y = node.concat({a, b}, 3);
  }
  return rest ? node.concat({y, rest}, 3) : y;
}

static LogicalResult rotaryEmbedding(Node &node) {
  if (failed(node.arity(3, 4)))
    return failure();
  Value x = node.in(0), cos = node.in(1), sin = node.in(2);
  bool interleaved = node.integer("interleaved", 0);
  int64_t rotated = node.integer("rotary_embedding_dim", 0);
  int64_t heads = node.integer("num_heads", 0);
  bool flat = rankOf(x) == 3;
  if (flat && !(x = splitHeads(node, x, heads)))
    return failure();
  if (rankOf(x) != 4)
    return node.error("input has rank " + Twine(rankOf(x)) +
                      ", expected 3 or 4");
  if (node.has(3)) {
    cos = node.gather(cos, node.in(3), 0);
    sin = node.gather(sin, node.in(3), 0);
  }
  Value y = rotatePairs(node, x, cos, sin,
                        rotated == 0 ? shapeOf(x)[3] : rotated, interleaved);
  if (!y)
    return node.fail();
  return node.set(flat ? joinHeads(node, y) : y);
}

void kerf::onnx_import::addAttention(HandlerTable &table) {
  table.add("Attention", 23, attention);
  table.add("RotaryEmbedding", 23, rotaryEmbedding);
}
