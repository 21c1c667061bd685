"""Small transformers as exporters write them, of many small operators: what a
thread team is worth least for. model(NAME, SIZES) -> onnx.ModelProto; weights are
drawn from a fixed seed.
"""
import dataclasses
import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass
class Sizes:
    width: int = 64
    heads: int = 4
    key_heads: int = 1
    hidden: int = 128
    layers: int = 4
    vocabulary: int = 256
    sequence: int = 16


class Builder:
    """Nodes and weights in the order in which they are asked for."""

    def __init__(self, sizes):
        self.sizes, self.random = sizes, np.random.default_rng(7)
        self.nodes, self.weights, self.numbers = [], [], {}

    def __call__(self, kind, *inputs, **attributes):
        name = f"{kind}_{len(self.nodes)}"
        inputs = [i if isinstance(i, str) else self.number(i) for i in inputs]
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def number(self, value):
        """A float, or a list of sizes; the same is stored once."""
        key = repr(value)
        if key not in self.numbers:
            self.numbers[key] = self.constant(np.array(value, np.int64 if isinstance(value, list) else np.float32))
        return self.numbers[key]

    def weight(self, *shape):
        return self.constant(self.random.normal(0, 1 / math.sqrt(shape[0]), shape).astype(np.float32))

    def linear(self, x, inputs, outputs):
        return self("MatMul", x, self.weight(inputs, outputs))

    def norm(self, x):
        mean = self("ReduceMean", self("Mul", x, x), axes=[-1])
        root = self("Reciprocal", self("Sqrt", self("Add", mean, 1e-6)))
        return self("Mul", self("Mul", x, root), self.constant(np.ones(self.sizes.width, np.float32)))

    def split(self, x, heads):
        s = self.sizes
        return self("Transpose", self("Reshape", x, [0, -1, heads, s.width // s.heads]), perm=[0, 2, 1, 3])

    def rotate(self, x):
        """Rotary embeddings, in halves."""
        s = self.sizes
        half = s.width // s.heads // 2
        angles = np.arange(s.sequence)[:, None] / 10000 ** (np.arange(half) / half)[None]
        angles = np.concatenate([angles, angles], 1).astype(np.float32)
        first = self("Slice", x, [0], [half], [3])
        second = self("Slice", x, [half], [2 * half], [3])
        turned = self("Concat", self("Neg", second), first, axis=-1)
        return self("Add", self("Mul", x, self.constant(np.cos(angles))),
                    self("Mul", turned, self.constant(np.sin(angles))))

    def repeat(self, x):
        """Each key head for all of its query heads."""
        s = self.sizes
        group, rest = s.heads // s.key_heads, [s.sequence, s.width // s.heads]
        if group == 1:
            return x
        wide = self("Expand", self("Unsqueeze", x, [2]), [1, s.key_heads, group, *rest])
        return self("Reshape", wide, [0, s.heads, *rest])

    def attention(self, x, memory, bias, rotary=False, cap=0.0):
        s = self.sizes
        head = s.width // s.heads
        q, k, v = (self.split(self.linear(source, s.width, heads * head), heads)
                   for source, heads in ((x, s.heads), (memory, s.key_heads), (memory, s.key_heads)))
        if rotary:
            q, k = self.rotate(q), self.rotate(k)
        k, v = self.repeat(k), self.repeat(v)
        scores = self("Mul", self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2])), 1 / math.sqrt(head))
        if cap:
            scores = self("Mul", self("Tanh", self("Div", scores, cap)), cap)
        if bias:
            scores = self("Add", scores, bias)
        heads = self("Transpose", self("MatMul", self("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        return self.linear(self("Reshape", heads, [0, -1, s.width]), s.width, s.width)

    def gelu(self, x):
        inner = self("Mul", self("Add", x, self("Mul", self("Mul", self("Mul", x, x), x), 0.044715)), 0.7978845608)
        return self("Mul", self("Mul", x, 0.5), self("Add", self("Tanh", inner), 1.0))

    def causal(self):
        n = self.sizes.sequence
        return self.constant(np.triu(np.full((n, n), -1e9, np.float32), 1))

    def finish(self, name, inputs, result):
        s = self.sizes
        sizes = ["batch", s.sequence]
        graph = helper.make_graph(
            self.nodes, name, [helper.make_tensor_value_info(i, TensorProto.INT64, sizes) for i in inputs],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, [*sizes, s.vocabulary])], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def gemma_like(s):
    """Decoder: rotary positions, shared key heads, capped scores, gated GELU, four norms a layer."""
    b = Builder(s)
    table = b.weight(s.vocabulary, s.width)
    x = b("Mul", b("Gather", table, "input_ids"), math.sqrt(s.width))
    mask = b.causal()
    for _ in range(s.layers):
        y = b.norm(x)
        x = b("Add", x, b.norm(b.attention(y, y, mask, rotary=True, cap=50.0)))
        y = b.norm(x)
        gated = b("Mul", b.gelu(b.linear(y, s.width, s.hidden)), b.linear(y, s.width, s.hidden))
        x = b("Add", x, b.norm(b.linear(gated, s.hidden, s.width)))
    logits = b("MatMul", b.norm(x), b("Transpose", table, perm=[1, 0]))
    return b.finish("gemma-like", ["input_ids"], b("Mul", b("Tanh", b("Div", logits, 30.0)), 30.0))


def llama_like(s):
    """Decoder: rotary positions, shared key heads, gated SiLU."""
    b = Builder(s)
    x = b("Gather", b.weight(s.vocabulary, s.width), "input_ids")
    mask = b.causal()
    for _ in range(s.layers):
        y = b.norm(x)
        x = b("Add", x, b.attention(y, y, mask, rotary=True))
        y = b.norm(x)
        gate = b.linear(y, s.width, s.hidden)
        gated = b("Mul", b("Mul", gate, b("Sigmoid", gate)), b.linear(y, s.width, s.hidden))
        x = b("Add", x, b.linear(gated, s.hidden, s.width))
    return b.finish("llama-like", ["input_ids"], b.linear(b.norm(x), s.width, s.vocabulary))


def t5_like(s):
    """Encoder and decoder: learned biases of relative positions, attention to the encoder, ReLU."""
    s = dataclasses.replace(s, key_heads=s.heads)
    b = Builder(s)
    table = b.weight(s.vocabulary, s.width)

    def positions():
        away = np.arange(s.sequence)[None] - np.arange(s.sequence)[:, None]
        buckets = np.clip(away + 8, 0, 15).astype(np.int64)
        bias = b("Transpose", b("Gather", b.weight(16, s.heads), b.constant(buckets)), perm=[2, 0, 1])
        return b("Unsqueeze", bias, [0])

    def feed_forward(x):
        return b("Add", x, b.linear(b("Relu", b.linear(b.norm(x), s.width, s.hidden)), s.hidden, s.width))

    memory, bias = b("Gather", table, "input_ids"), positions()
    for _ in range(s.layers):
        y = b.norm(memory)
        memory = feed_forward(b("Add", memory, b.attention(y, y, bias)))
    memory = b.norm(memory)
    x, bias = b("Gather", table, "decoder_input_ids"), b("Add", positions(), b.causal())
    for _ in range(s.layers):
        y = b.norm(x)
        x = b("Add", x, b.attention(y, y, bias))
        x = feed_forward(b("Add", x, b.attention(b.norm(x), memory, None)))
    return b.finish("t5-like", ["input_ids", "decoder_input_ids"], b.linear(b.norm(x), s.width, s.vocabulary))


MODELS = {"gemma-like": gemma_like, "llama-like": llama_like, "t5-like": t5_like}


def model(name, sizes=None):
    made = MODELS[name](sizes or Sizes())
    onnx.checker.check_model(made)
    return made
