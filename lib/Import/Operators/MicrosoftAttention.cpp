//===- MicrosoftAttention.cpp - com.microsoft: attention ------------------===//
//
// Attention as ONNX Runtime's optimizer and its generation tool write it, in
// floats: with the projections (Attention), without (MultiHeadAttention), and
// with grouped heads, a cache and rotary embedding (GroupQueryAttention). What
// is hidden by a mask of numbers 0 and 1 gets mask_filter_value added, so a row
// whose keys are all hidden is a softmax over all of them, as there.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "AttentionParts.h"
#include "Indexing.h"

#include <array>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

/// 0 where `sees`, mask_filter_value where not.
static Value filter(Node &node, Value sees, Type element) {
  double hidden = node.real("mask_filter_value", -10000.0);
  return node.select(sees, node.scalar(0, element),
                     node.scalar(hidden, element));
}

/// What a mask of `s` queries of `b` samples to `t` keys adds to the scores:
/// [b] numbers of keys, [2b] their ends and then their beginnings, [b, t] or
/// [b, s, t] where 0 hides. Null after reporting another shape.
static Value maskAddend(Node &node, Value mask, int64_t b, int64_t s, int64_t t,
                        Type element) {
  Type i64 = node.ops.getI64Type();
  Integers shape(shapeOf(mask));
  mask = wideIndices(node, mask);
  if (!mask)
    return {};
  Value keys = node.iota(t, i64);
  auto ofSample = [&](Value x, int64_t at) {
    return node.reshape(node.slice(x, 0, at, b), {b, 1, 1, 1});
  };
  if (shape == Integers{b} || (shape == Integers{2 * b} && b > 0)) {
    Value sees = node.make<LessOp>({keys, ofSample(mask, 0)});
    if (shape[0] == 2 * b)
      sees = node.make<AndOp>(
          {sees, node.make<LessEqualOp>({ofSample(mask, b), keys})});
    return filter(node, sees, element);
  }
  Integers aligned = shape == Integers{b, t}      ? Integers{b, 1, 1, t}
                     : shape == Integers{b, s, t} ? Integers{b, 1, s, t}
                                                  : Integers{};
  if (aligned.empty()) {
    (void)node.unsupported(
        "a mask of this shape of operator " + node.proto.op_type(),
        "[batch], [2 batch], [batch, keys] and [batch, queries, keys] are "
        "taken");
    return {};
  }
  Value sees =
      node.make<LessOp>({node.scalar(0, i64), node.reshape(mask, aligned)});
  return filter(node, sees, element);
}

/// Both, or the one that there is.
static Value sumOf(Node &node, Value a, Value b) {
  return a && b ? node.add(a, b) : a ? a : b;
}

/// An attribute whose other values nobody here has: reports those.
static bool isOff(Node &node, StringRef name, int64_t off = 0) {
  if (node.integer(name, off) == off)
    return true;
  (void)node.unsupported("attribute \"" + name + "\" of operator " +
                         node.proto.op_type());
  return false;
}

static bool isAbsent(Node &node, size_t index, StringRef name) {
  if (!node.has(index))
    return true;
  (void)node.unsupported("input " + name + " of operator " +
                         node.proto.op_type());
  return false;
}

static bool hasHeads(Node &node, int64_t heads, StringRef name) {
  if (heads > 0)
    return true;
  (void)node.error(name + " is " + Twine(heads) + ", expected at least 1");
  return false;
}

/// Attention with the projections of its input: x W + b has q, k and v side by
/// side.
static LogicalResult attention(Node &node) {
  if (failed(node.arity(2, 7, 2)))
    return failure();
  Value x = node.in(0), weights = node.parameter(1);
  int64_t heads = node.integer("num_heads", 0);
  AttentionForm form;
  form.causal = node.integer("unidirectional", 0);
  form.scale = node.real("scale", 0);
  (void)node.integer("rotary_embedding_dim", 0); // of do_rotary
  auto sizes = node.integerList("qkv_hidden_sizes");
  if (!hasHeads(node, heads, "num_heads") || !isOff(node, "do_rotary") ||
      !isOff(node, "past_present_share_buffer") ||
      !isAbsent(node, 6, "past_sequence_length"))
    return failure();
  if (rankOf(x) != 3 || rankOf(weights) != 2)
    return node.error("input and weights have ranks " + Twine(rankOf(x)) +
                      " and " + Twine(rankOf(weights)) + ", expected 3 and 2");
  int64_t width = shapeOf(weights)[1];
  if (!sizes)
    sizes = Integers(3, width / 3);
  if (sizes->size() != 3 || (*sizes)[0] != (*sizes)[1] ||
      llvm::any_of(*sizes, [](int64_t size) { return size < 1; }) ||
      (*sizes)[0] > width || (*sizes)[2] > width ||
      2 * (*sizes)[0] + (*sizes)[2] != width)
    return node.error("qkv_hidden_sizes do not fit weights of " + Twine(width) +
                      " columns");
  Value all = node.matmul(x, weights);
  if (node.has(2))
    all = node.add(all, node.parameter(2));
  if (!all)
    return node.fail();
  int64_t at = 0;
  for (auto [index, part] :
       llvm::enumerate(std::array<Value *, 3>{&form.q, &form.k, &form.v})) {
    *part = splitHeads(node, node.slice(all, 2, at, (*sizes)[index]), heads);
    at += (*sizes)[index];
  }
  if (!form.q || !form.k || !form.v)
    return node.fail();
  int64_t b = shapeOf(x)[0], s = shapeOf(x)[1];
  if (Value past = node.in(4)) {
    // Keys and values of one tensor [2, b, h, p, d].
    if (rankOf(past) != 5 || shapeOf(past)[0] != 2)
      return node.error("past must be [2, batch, heads, keys, size]");
    Integers half(shapeOf(past).drop_front());
    form.past = half[2];
    form.k =
        node.concat({node.reshape(node.slice(past, 0, 0, 1), half), form.k}, 2);
    form.v =
        node.concat({node.reshape(node.slice(past, 0, 1, 1), half), form.v}, 2);
    if (!form.k || !form.v)
      return node.fail();
  }
  if (node.wants(1)) {
    Integers one{1};
    llvm::append_range(one, shapeOf(form.k));
    if (form.k.getType() != form.v.getType())
      return node.error("keys and values of other sizes are no one output");
    if (failed(node.set(
            1, node.concat(
                   {node.reshape(form.k, one), node.reshape(form.v, one)}, 0))))
      return failure();
  }
  form.mask = node.in(5);
  if (node.has(3)) {
    Value mask =
        maskAddend(node, node.in(3), b, s, shapeOf(form.k)[2], elementOf(x));
    if (!mask)
      return node.fail();
    form.mask = sumOf(node, mask, form.mask);
  }
  (void)node.real("mask_filter_value", 0);
  auto values = attend(node, form);
  return failed(values) ? failure() : node.set(joinHeads(node, values->y));
}

static LogicalResult multiHeadAttention(Node &node) {
  if (failed(node.arity(1, 10, 4)))
    return failure();
  Value query = node.in(0), key = node.in(1), value = node.in(2);
  int64_t heads = node.integer("num_heads", 0);
  AttentionForm form;
  form.causal = node.integer("unidirectional", 0);
  form.scale = node.real("scale", 0);
  (void)node.real("mask_filter_value", 0);
  if (!hasHeads(node, heads, "num_heads") ||
      !isAbsent(node, 8, "past_sequence_length") ||
      !isAbsent(node, 9, "cache_indirection"))
    return failure();
  if (node.has(6) != node.has(7))
    return node.error("past_key and past_value must come together");
  if (!key || !value || rankOf(query) == 5 || rankOf(key) == 5)
    return node.unsupported("packed inputs of operator " + node.proto.op_type(),
                            "query, key and value as three inputs are taken");
  // Cross attention: keys and values of another sequence, by heads already.
  bool isByHeads = rankOf(key) == 4 && rankOf(value) == 4;
  if (rankOf(query) != 3 ||
      !(isByHeads || (rankOf(key) == 3 && rankOf(value) == 3)))
    return node.error("query, key and value have ranks " +
                      Twine(rankOf(query)) + ", " + Twine(rankOf(key)) +
                      " and " + Twine(rankOf(value)) +
                      ", expected 3, or 3, 4 and 4");
  // The projections' bias, [q | k | v].
  Value bias = node.parameter(3);
  int64_t hidden = shapeOf(query)[2], at = 0;
  if (bias && isByHeads)
    return node.unsupported("input bias of operator " + node.proto.op_type() +
                                " with keys by heads",
                            "Add in front of it is taken");
  if (int64_t total = hidden + shapeOf(key).back() + shapeOf(value).back();
      bias && (rankOf(bias) != 1 || shapeOf(bias)[0] != total))
    return node.error("bias must be a vector of " + Twine(total) + " elements");
  auto byHeads = [&](Value x) {
    int64_t size = shapeOf(x)[2];
    if (bias)
      x = node.add(x, node.slice(bias, 0, at, size));
    at += size;
    return splitHeads(node, x, heads);
  };
  form.q = byHeads(query);
  form.k = isByHeads ? key : byHeads(key);
  form.v = isByHeads ? value : byHeads(value);
  if (!form.q || !form.k || !form.v)
    return node.fail();
  if (node.has(6)) {
    form.past = rankOf(node.in(6)) == 4 ? shapeOf(node.in(6))[2] : 0;
    form.k = node.concat({node.in(6), form.k}, 2);
    form.v = node.concat({node.in(7), form.v}, 2);
    if (!form.k || !form.v)
      return node.fail();
  }
  if ((node.wants(1) && failed(node.set(1, form.k))) ||
      (node.wants(2) && failed(node.set(2, form.v))))
    return failure();
  form.mask = node.in(5);
  if (node.has(4)) {
    Value mask =
        maskAddend(node, node.in(4), shapeOf(form.q)[0], shapeOf(form.q)[2],
                   shapeOf(form.k)[2], elementOf(form.q));
    if (!mask)
      return node.fail();
    form.mask = sumOf(node, mask, form.mask);
  }
  auto values = attend(node, form);
  if (failed(values))
    return failure();
  if (node.wants(3) && failed(node.set(3, values->masked)))
    return failure();
  return node.set(joinHeads(node, values->y));
}

/// Rows of cosines or sines at positions: `positions` [b or 1, s], or [1],
/// where the first one is.
static Value anglesAt(Node &node, Value cache, Value positions, int64_t s) {
  if (!cache || !positions)
    return {};
  if (rankOf(cache) != 2) {
    (void)node.error("a cache of rotary embedding has rank " +
                     Twine(rankOf(cache)) + ", expected 2");
    return {};
  }
  positions = wideIndices(node, positions);
  if (!positions)
    return {};
  if (rankOf(positions) == 1 && shapeOf(positions)[0] == 1)
    positions = node.add(node.reshape(positions, {1, 1}),
                         node.iota(s, node.ops.getI64Type()));
  return node.gather(cache, indicesWithin(node, positions, shapeOf(cache)[0]),
                     0);
}

static LogicalResult rotaryEmbedding(Node &node) {
  if (failed(node.arity(4, 4)))
    return failure();
  Value x = node.in(0), cosines = node.in(2);
  int64_t heads = node.integer("num_heads", 0);
  int64_t rotated = node.integer("rotary_embedding_dim", 0);
  bool interleaved = node.integer("interleaved", 0);
  if (!isOff(node, "is_packed_batching"))
    return failure();
  if (node.real("scale", 1) != 1)
    return node.unsupported("attribute \"scale\" of operator RotaryEmbedding");
  if (rankOf(cosines) != 2)
    return node.error("cos_cache has rank " + Twine(rankOf(cosines)) +
                      ", expected 2");
  if (rotated == 0)
    rotated = 2 * shapeOf(cosines)[1];
  bool flat = rankOf(x) == 3;
  if (flat && heads == 0 && rotated > 0)
    heads = shapeOf(x)[2] / rotated;
  if (flat && !(x = splitHeads(node, x, heads)))
    return failure();
  if (rankOf(x) != 4)
    return node.error("input has rank " + Twine(rankOf(x)) +
                      ", expected 3 or 4");
  int64_t s = shapeOf(x)[2];
  Value y = rotatePairs(node, x, anglesAt(node, cosines, node.in(1), s),
                        anglesAt(node, node.in(3), node.in(1), s), rotated,
                        interleaved);
  if (!y)
    return node.fail();
  return node.set(flat ? joinHeads(node, y) : y);
}

/// A cache of `t` places with new rows from place `first` on; the rest is what
/// was there, or 0.
static Value intoCache(Node &node, Value past, Value rows, Value first,
                       int64_t t) {
  Integers shape(shapeOf(rows));
  int64_t s = shape[2], before = past ? shapeOf(past)[2] : 0;
  if (!first) // a prompt: from the first place on
    return before > s
               ? node.concat({rows, node.slice(past, 2, s, before - s)}, 2)
               : rows;
  if (before < t) {
    shape[2] = t - before;
    Value zeros = node.splat(shape, 0, elementOf(rows));
    past = before == 0 ? zeros : node.concat({past, zeros}, 2);
  }
  return writeAt(node, past, rows, first, 2);
}

/// Queries of grouped heads against a cache, to which their keys and values
/// come. seqlens_k has what each sample has then, less one.
static LogicalResult groupQueryAttention(Node &node) {
  if (failed(node.arity(1, 16, 4)))
    return failure();
  for (size_t index : {5, 6})
    if (!node.has(index))
      return node.error("GroupQueryAttention: input " + Twine(index) +
                        " is absent");
  int64_t heads = node.integer("num_heads", 0);
  int64_t keyHeads = node.integer("kv_num_heads", 0);
  int64_t window = node.integer("local_window_size", -1);
  bool rotates = node.integer("do_rotary", 0);
  bool interleaved = node.integer("rotary_interleaved", 0);
  AttentionForm form;
  form.scale = node.real("scale", 0);
  form.softcap = node.real("softcap", 0);
  form.causal = node.integer("causal", 1);
  (void)node.real("qk_norm_epsilon", 0);
  (void)node.integer("kv_cache_bit_width", 0);
  for (const char *name : {"k_quant_type", "v_quant_type"})
    if (node.text(name, "NONE") != "NONE")
      return node.unsupported(std::string("attribute \"") + name +
                              "\" of operator GroupQueryAttention");
  // Smooth softmax has two spellings of off.
  if (node.integer("smooth_softmax", 0) > 0)
    return node.unsupported(
        "attribute \"smooth_softmax\" of operator GroupQueryAttention");
  if (!hasHeads(node, heads, "num_heads") ||
      !hasHeads(node, keyHeads, "kv_num_heads") || !isOff(node, "qk_output") ||
      !isOff(node, "sliding_window_cache") ||
      !isAbsent(node, 11, "head_sink") || !isAbsent(node, 12, "k_scale") ||
      !isAbsent(node, 13, "v_scale") || !isAbsent(node, 14, "q_norm_weight") ||
      !isAbsent(node, 15, "k_norm_weight"))
    return failure();
  Value q = node.in(0), k = node.in(1), v = node.in(2);
  if (rankOf(q) != 3)
    return node.error("query has rank " + Twine(rankOf(q)) + ", expected 3");
  if (bool(k) != bool(v))
    return node.error("key and value must come together");
  if (!k) { // [q | k | v]
    int64_t width = shapeOf(q)[2], size = width / (heads + 2 * keyHeads);
    if (size < 1 || size * (heads + 2 * keyHeads) != width)
      return node.error("query of " + Twine(width) +
                        " columns does not hold the heads");
    k = node.slice(q, 2, heads * size, keyHeads * size);
    v = node.slice(q, 2, (heads + keyHeads) * size, keyHeads * size);
    q = node.slice(q, 2, 0, heads * size);
  }
  q = splitHeads(node, q, heads);
  k = splitHeads(node, k, keyHeads);
  v = splitHeads(node, v, keyHeads);
  if (!q || !k || !v)
    return node.fail();
  int64_t b = shapeOf(q)[0], s = shapeOf(q)[2];
  Value ends = wideIndices(node, node.in(5));
  auto total = node.constantIntegers(6);
  if (!ends || !total)
    return failure();
  if (typeOf(ends).getNumElements() != b || total->size() != 1)
    return node.error("seqlens_k must have an element for each sample, and "
                      "total_sequence_length one");
  // A prompt begins at place 0 in every sample, though shorter ones end early.
  int64_t t = (*total)[0];
  bool isPrompt = s == t;
  if (t < s)
    return node.error("total_sequence_length is " + Twine(t) + ", with " +
                      Twine(s) + " new tokens");
  Value first =
      isPrompt ? Value() : node.add(node.reshape(ends, {b}), double(1 - s));
  if (rotates) {
    Value positions = node.in(9);
    if (!positions || isPrompt) {
      Value tokens = node.reshape(node.iota(s, node.ops.getI64Type()), {1, s});
      positions =
          isPrompt ? tokens : node.add(node.reshape(first, {b, 1}), tokens);
    }
    Value cosines = anglesAt(node, node.in(7), positions, s);
    Value sines = anglesAt(node, node.in(8), positions, s);
    if (!cosines || !sines)
      return node.has(7) && node.has(8)
                 ? node.fail()
                 : node.error("do_rotary needs cos_cache and sin_cache");
    int64_t rotated = 2 * shapeOf(cosines).back();
    q = rotatePairs(node, q, cosines, sines, rotated, interleaved);
    k = rotatePairs(node, k, cosines, sines, rotated, interleaved);
    if (!q || !k)
      return node.fail();
  }
  for (size_t index : {3, 4})
    if (Value past = node.in(index)) {
      Integers expected(shapeOf(index == 3 ? k : v));
      if (rankOf(past) == 4)
        expected[2] = shapeOf(past)[2];
      if (shapeOf(past) != ArrayRef<int64_t>(expected))
        return node.error("past_key and past_value must be [batch, "
                          "kv_num_heads, keys, size]");
    }
  if (node.has(3) != node.has(4))
    return node.error("past_key and past_value must come together");
  form.q = q;
  form.k = intoCache(node, node.in(3), k, first, t);
  form.v = intoCache(node, node.in(4), v, first, t);
  if (!form.k || !form.v)
    return node.fail();
  if ((node.wants(1) && failed(node.set(1, form.k))) ||
      (node.wants(2) && failed(node.set(2, form.v))))
    return failure();
  form.pastOf = first;
  if (!form.causal)
    form.lengths = node.add(node.reshape(ends, {b}), 1.0);
  if (window > 0) // the query's own key is one of them
    form.left = window - 1;
  form.mask = node.in(10);
  // Places of the buffer behind all that there is are never seen.
  if (form.mask && rankOf(form.mask) == 4 &&
      shapeOf(form.mask)[3] > shapeOf(form.k)[2])
    form.mask = node.slice(form.mask, 3, 0, shapeOf(form.k)[2]);
  auto values = attend(node, form);
  return failed(values) ? failure() : node.set(joinHeads(node, values->y));
}

void kerf::onnx_import::addMicrosoftAttention(HandlerTable &table) {
  table.add("Attention", 1, attention);
  table.add("MultiHeadAttention", 1, multiHeadAttention);
  table.add("GroupQueryAttention", 1, groupQueryAttention);
  table.add("RotaryEmbedding", 1, rotaryEmbedding);
}
