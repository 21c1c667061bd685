#!/usr/bin/env python3
"""decoders.py gpt2|llama|fixed FOLDER

Writes FOLDER/model.onnx: a small decoder with random weights and a key/value
cache, in the form in which exporters write it: `past_key_values.N.key` goes in,
`present.N.key` comes out and is longer by what is new. `fixed` is the second of
the two with caches of one length, which ONNX's TensorScatter writes to and its
Attention reads. `greedy` generates with ONNX Runtime, which grows the cache
itself.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, VOCABULARY, POSITIONS = 2, 67, 96
SIZES = {"gpt2": {"heads": 4, "key_heads": 4, "head_size": 8}, "llama": {"heads": 4, "key_heads": 2, "head_size": 8}}
SIZES["fixed"] = SIZES["llama"]
MINIMUM = float(np.finfo(np.float32).min)


class Graph:
    """Nodes that are named after what they give."""

    def __init__(self, seed):
        self.nodes, self.weights, self.random, self.count = [], [], np.random.default_rng(seed), 0

    def make(self, kind, *inputs, name=None, **attributes):
        self.count += 1
        name = name or f"/{kind}_{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def constant(self, value, dtype=np.int64):
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.array(value, dtype), f"constant_{self.count}"))
        return self.weights[-1].name

    def weight(self, name, *shape, scale=0.3, offset=0.0):
        values = (self.random.standard_normal(shape) * scale + offset).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def linear(self, x, name, rows, columns, bias=False):
        product = self.make("MatMul", x, self.weight(f"{name}.weight", rows, columns))
        return self.make("Add", product, self.weight(f"{name}.bias", columns)) if bias else product

    def heads(self, x, count, size):
        parts = self.make("Reshape", x, self.constant([0, 0, count, size]))
        return self.make("Transpose", parts, perm=[0, 2, 1, 3])

    def size(self, x, dim):
        return self.make("Gather", self.make("Shape", x), self.constant([dim]))

    def number(self, x):
        return self.make("Squeeze", x, self.constant([0]))


def causal(g, total, past):
    """Which of all positions each new one may see: [new, all]."""
    zero, one = g.constant(0), g.constant(1)
    keys = g.make("Range", zero, g.number(total), one)
    queries = g.make("Range", g.number(past), g.number(total), one)
    return g.make("LessOrEqual", keys, g.make("Unsqueeze", queries, g.constant([1])))


def attention(g, kind, layer, q, k, v, mask, cos_sin):
    sizes = SIZES[kind]
    heads, key_heads, size = sizes["heads"], sizes["key_heads"], sizes["head_size"]
    q, k, v = g.heads(q, heads, size), g.heads(k, key_heads, size), g.heads(v, key_heads, size)
    if cos_sin:
        q, k = rotated(g, q, *cos_sin), rotated(g, k, *cos_sin)
    if kind == "fixed":
        return fixed_attention(g, layer, q, k, v, heads * size)
    k = g.make("Concat", f"past_key_values.{layer}.key", k, axis=2, name=f"present.{layer}.key")
    v = g.make("Concat", f"past_key_values.{layer}.value", v, axis=2, name=f"present.{layer}.value")
    if heads != key_heads:
        k, v = (repeated(g, x, heads // key_heads, size, heads) for x in (k, v))
    scores = g.make("MatMul", q, g.make("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.make("Div", scores, g.constant(size**0.5, np.float32))
    if kind == "gpt2":
        visible, bias = mask
        scores = g.make("Where", visible, scores, g.constant(MINIMUM, np.float32))
        scores = g.make("Add", scores, bias)
    else:
        scores = g.make("Add", scores, mask)
    weights = g.make("Softmax", scores, axis=-1)
    if kind == "llama":  # as PyTorch's older exporter guards rows that see nothing
        weights = g.make("Where", g.make("IsNaN", weights), g.constant(0, np.float32), weights)
    joined = g.make("MatMul", weights, v)
    joined = g.make("Transpose", joined, perm=[0, 2, 1, 3])
    return g.make("Reshape", joined, g.constant([0, 0, heads * size]))


def fixed_attention(g, layer, q, k, v, width):
    k, v = (g.make("TensorScatter", f"past_key_values.{layer}.{part}", x, "write_indices", axis=2,
                   name=f"present.{layer}.{part}") for part, x in (("key", k), ("value", v)))
    joined = g.make("Attention", q, k, v, "", "", "", "nonpad_kv_seqlen", is_causal=1)
    joined = g.make("Transpose", joined, perm=[0, 2, 1, 3])
    return g.make("Reshape", joined, g.constant([0, 0, width]))


def repeated(g, x, times, size, heads):
    shape = g.make("Concat", g.size(x, 0), g.size(x, 1), g.constant([times]), g.size(x, 2), g.constant([size]), axis=0)
    wide = g.make("Expand", g.make("Unsqueeze", x, g.constant([2])), shape)
    return g.make("Reshape", wide, g.make("Concat", g.size(x, 0), g.constant([heads]), g.size(x, 2),
                                          g.constant([size]), axis=0))


def rotated(g, x, cos, sin):
    size = SIZES["llama"]["head_size"]
    axis, one = g.constant([3]), g.constant([1])
    low = g.make("Slice", x, g.constant([0]), g.constant([size // 2]), axis, one)
    high = g.make("Slice", x, g.constant([size // 2]), g.constant([size]), axis, one)
    turned = g.make("Concat", g.make("Neg", high), low, axis=3)
    return g.make("Add", g.make("Mul", x, cos), g.make("Mul", turned, sin))


def additive(g, mask):
    """0 where the mask is 1, the least number where it is 0: [batch, 1, 1, all]."""
    wide = g.make("Cast", g.make("Unsqueeze", mask, g.constant([1, 2])), to=TensorProto.FLOAT)
    return g.make("Mul", g.make("Sub", g.constant(1, np.float32), wide), g.constant(MINIMUM, np.float32))


def selecting(g, visible):
    given = g.make("Cast", g.make("Unsqueeze", "attention_mask", g.constant([1, 2])), to=TensorProto.BOOL)
    both = g.make("And", visible, given)
    return g.make("Where", both, g.constant(0, np.float32), g.constant(MINIMUM, np.float32))


def build(kind):
    g, sizes = Graph(1 if kind == "gpt2" else 2), SIZES[kind]
    width, keys = sizes["heads"] * sizes["head_size"], sizes["key_heads"] * sizes["head_size"]
    if kind != "fixed":
        past = g.size("past_key_values.0.key", 2)
        visible = causal(g, g.make("Add", past, g.size("input_ids", 1)), past)
    else:
        visible = None
    x = g.make("Gather", g.weight("wte.weight", VOCABULARY, width), "input_ids")
    if kind == "gpt2":
        x = g.make("Add", x, g.make("Gather", g.weight("wpe.weight", POSITIONS, width), "position_ids"))
        mask, cos_sin = (visible, additive(g, "attention_mask")), None
    else:
        half = sizes["head_size"] // 2
        rates = g.constant([[[10000.0**(-i / half) for i in range(half)]]], np.float32)
        places = g.make("Cast", g.make("Unsqueeze", "position_ids", g.constant([2])), to=TensorProto.FLOAT)
        angles = g.make("Mul", places, rates)
        angles = g.make("Unsqueeze", g.make("Concat", angles, angles, axis=2), g.constant([1]))
        cos_sin = g.make("Cos", angles), g.make("Sin", angles)
        mask = selecting(g, visible) if kind == "llama" else None
    for layer in range(LAYERS):
        x = block(g, kind, layer, x, mask, cos_sin, width, keys)
    x = normalized(g, kind, x, "norm", width)
    g.make("MatMul", x, g.weight("head.weight", width, VOCABULARY), name="logits")
    return model(g, kind)


def normalized(g, kind, x, name, width):
    scale = g.weight(f"{name}.weight", width, scale=0.1, offset=1.0)
    if kind == "gpt2":
        return g.make("LayerNormalization", x, scale, g.weight(f"{name}.bias", width), axis=-1)
    mean = g.make("ReduceMean", g.make("Mul", x, x), g.constant([-1]), keepdims=1)
    root = g.make("Sqrt", g.make("Add", mean, g.constant(1e-5, np.float32)))
    return g.make("Mul", g.make("Div", x, root), scale)


def block(g, kind, layer, x, mask, cos_sin, width, keys):
    name, bias = f"h.{layer}", kind == "gpt2"
    h = normalized(g, kind, x, f"{name}.norm_1", width)
    q, k, v = (g.linear(h, f"{name}.{part}", width, size, bias)
               for part, size in (("query", width), ("key", keys), ("value", keys)))
    joined = attention(g, kind, layer, q, k, v, mask, cos_sin)
    x = g.make("Add", x, g.linear(joined, f"{name}.joined", width, width, bias))
    h = normalized(g, kind, x, f"{name}.norm_2", width)
    up = g.linear(h, f"{name}.up", width, 2 * width, bias)
    if kind == "gpt2":
        up = g.make("Tanh", up)
    else:
        gate = g.linear(h, f"{name}.gate", width, 2 * width)
        up = g.make("Mul", g.make("Mul", gate, g.make("Sigmoid", gate)), up)
    return g.make("Add", x, g.linear(up, f"{name}.down", 2 * width, width, bias))


def cache_names(side):
    return [f"{side}.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]


def model(g, kind):
    sizes = SIZES[kind]
    past, total = "past_sequence_length", "past_sequence_length + sequence_length"
    cache = lambda name, length: helper.make_tensor_value_info(
        name, TensorProto.FLOAT, ["batch_size", sizes["key_heads"], length, sizes["head_size"]])
    ids = lambda name, length: helper.make_tensor_value_info(name, TensorProto.INT64, ["batch_size", length])
    inputs = [ids("input_ids", "sequence_length"), ids("position_ids", "sequence_length")]
    if kind == "fixed":
        past = total = "cache_length"
        inputs += [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch_size"])
                   for name in ("write_indices", "nonpad_kv_seqlen")]
    else:
        inputs.append(ids("attention_mask", total))
    inputs += [cache(name, past) for name in cache_names("past_key_values")]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", VOCABULARY])]
    outputs += [cache(name, total) for name in cache_names("present")]
    graph = helper.make_graph(g.nodes, kind, inputs, outputs, g.weights)
    opset = 24 if kind == "fixed" else 18
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.checker.check_model(made)
    return made


def greedy(path, prompt, count):
    """The tokens that follow, and the logits that each was chosen by; the cache is ONNX Runtime's own."""
    import onnxruntime
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    cache = {i.name: np.zeros([1, i.shape[1], 0, i.shape[3]], np.float32)
             for i in session.get_inputs() if i.name.startswith("past_key_values")}
    tokens, logits, ids, done = [], [], np.array([prompt], np.int64), 0
    while len(tokens) < count:
        end = done + ids.shape[1]
        given = {"input_ids": ids, "attention_mask": np.ones((1, end), np.int64),
                 "position_ids": np.arange(done, end, dtype=np.int64)[None], **cache}
        scores, *new = session.run(None, given)
        cache = dict(zip(cache, new))
        logits.append(scores[0, -1])
        tokens.append(int(scores[0, -1].argmax()))
        ids, done = np.array([[tokens[-1]]], np.int64), end
    return tokens, np.stack(logits)


def main():
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(build(sys.argv[1]), folder / "model.onnx")


if __name__ == "__main__":
    main()
