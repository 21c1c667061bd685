"""Attention and rotary embedding, in the forms that operator sets 23 and 24 allow; and attention written out."""
import numpy as np

from ..arrays import BOOL, F16, FLOATS, I64
from . import spec


@spec("Attention", since=23, train=True)
def attention(g, op):
    dtype = g.any_of(g.dtypes(op) & set(FLOATS))
    batch, queries, keys = g.r.choice((1, 2, 3)), g.r.choice((1, 2, 3, 5)), g.r.choice((1, 2, 4, 5))
    kv_heads, groups, head, value = g.r.choice((1, 2, 3)), g.r.choice((1, 1, 1, 2)), g.r.choice((2, 4, 8)), 0
    value = head if g.chance(0.7) else g.r.choice((2, 3, 6))
    heads = kv_heads * groups
    flat = g.chance(0.4)

    def tensor(count, rows, width):
        wish = [batch, rows, count * width] if flat else [batch, count, rows, width]
        return g.find(lambda array: array.dtype == dtype and list(array.shape) == wish) or g.source(wish, dtype)

    q, k, v = tensor(heads, queries, head), tensor(kv_heads, keys, head), tensor(kv_heads, keys, value)
    past, inputs = 0, [q, k, v]
    mask = past_key = past_value = None
    if g.chance(0.25):
        past = g.r.choice((1, 2, 3))
        past_key = g.source([batch, kv_heads, past, head], dtype)
        past_value = g.source([batch, kv_heads, past, value], dtype)
    if g.chance(0.5):
        wish = g.r.choice(([queries, keys + past], [1, 1, queries, keys + past], [batch, 1, queries, keys + past],
                           [batch, heads, queries, keys + past]))
        kind = BOOL if g.chance(0.4) else dtype
        array = g.rng.random(tuple(wish)) < 0.7
        if kind != BOOL:
            array = g.rng.standard_normal(tuple(wish)) if g.chance(0.5) else np.where(array, 0, -np.inf)
        mask = g.give(array.astype(kind))
    inputs += [mask, past_key, past_value]
    outputs = 1
    mode = None
    if past:
        outputs = [True, True, True]
    if g.chance(0.15):
        outputs = [True, bool(past), bool(past), True]
        mode = g.r.choice((None, 0, 1, 2, 3))
    softcap = g.r.choice((None, None, None, 2.0, 10.0))
    if outputs != 1 and len(outputs) > 3 and not mode:
        softcap = None  # the product as it is; ONNX Runtime gives it capped where there is a past
    return g.node(op, inputs, outputs, q_num_heads=heads if flat else None, kv_num_heads=kv_heads if flat else None,
                  is_causal=g.r.choice((None, None, 0, 1)), scale=g.r.choice((None, None, 0.5, 1.0)),
                  softcap=softcap, qk_matmul_output_mode=mode)


@spec("RotaryEmbedding", since=23, train=True)
def rotary(g, op):
    dtype = g.any_of(g.dtypes(op) & set(FLOATS))
    batch, rows = g.r.choice((1, 2, 3)), g.r.choice((1, 2, 4))
    heads, width = g.r.choice((1, 2, 3)), g.r.choice((2, 4, 8))
    rotated = g.r.choice([each for each in (2, 4, 8) if each <= width])
    flat = g.chance(0.4)
    x = g.source([batch, rows, heads * width] if flat else [batch, heads, rows, width], dtype)
    positions = None
    if g.chance(0.5):
        longest = g.r.randint(rows, 9)
        caches = [longest, rotated // 2]
        positions = g.give(g.rng.integers(0, longest, (batch, rows)).astype(I64), pickable=False)
    else:
        caches = [batch, rows, rotated // 2]
    return g.node(op, [x, g.weight(caches, dtype), g.weight(caches, dtype), positions],
                  num_heads=heads if flat else None,
                  rotary_embedding_dim=rotated if rotated != width or g.chance(0.3) else None,
                  interleaved=g.r.choice((None, 0, 1)))


def written_out(g, dtype=None):
    """softmax(q k^T scale + mask) v of MatMul, Mul, Add, Softmax, as exporters before operator set 23 write it."""
    dtype = dtype or g.float_type
    batch, heads = g.r.choice((1, 2, 3)), g.r.choice((1, 2, 4))
    rows, width = g.r.choice((1, 3, 5)), g.r.choice((2, 4, 8))
    hidden = g.find(lambda array: array.dtype == dtype and array.shape == (batch, rows, heads * width))
    x = hidden or g.source([batch, rows, heads * width], dtype)

    def project():
        y = g.node("MatMul", [x, g.weight([heads * width, heads * width], dtype)])
        if g.chance(0.5):
            y = g.node("Add", [y, g.weight([heads * width], dtype)])
        return g.node("Reshape", [y, g.steer([0 if g.chance(0.5) else batch, -1, heads, width])])

    q = g.node("Transpose", [project()], perm=[0, 2, 1, 3])
    k = g.node("Transpose", [project()], perm=[0, 2, 3, 1])
    v = g.node("Transpose", [project()], perm=[0, 2, 1, 3])
    scores = g.node("MatMul", [q, k])
    scores = g.node(*g.r.choice((("Mul", [scores, g.give(np.array(width**-0.5, dtype), "initializer", pickable=False)]),
                                 ("Div", [scores, g.give(np.array(width**0.5, dtype), "constant", pickable=False)]))))
    if g.chance(0.6):
        seen = np.tril(np.ones((rows, rows), bool))
        mask = np.where(seen, 0, g.r.choice((-np.inf, -1e4 if dtype == F16 else -1e9))).astype(dtype)
        wish = g.r.choice(((rows, rows), (1, 1, rows, rows)))
        kind = g.r.choice(("initializer", "input"))
        scores = g.node("Add", [scores, g.give(mask.reshape(wish), kind, pickable=False)])
    weights = g.node("Softmax", [scores], axis=3 if g.opset < 13 or g.chance(0.5) else -1)
    y = g.node("Transpose", [g.node("MatMul", [weights, v])], perm=[0, 2, 1, 3])
    y = g.node("Reshape", [y, g.steer([batch, rows, heads * width])])
    if g.chance(0.5):
        y = g.node("Add", [x, g.node("MatMul", [y, g.weight([heads * width, heads * width], dtype)])])
    return y
