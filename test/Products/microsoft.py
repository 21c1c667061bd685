# Operators of com.microsoft, as ONNX Runtime's optimizer and its generation tool write them: each with what it may have
# and leave out, against ONNX Runtime, on one rank and, every fourth model (with --full each), cut at random.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import sys

import numpy as np

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Suite

suite = Suite("microsoft", sys.argv, pack=24, spread=4)
B, S, H, D = 2, 5, 4, 16  # batch, tokens, heads, size of a head (ONNX Runtime rotates multiples of 16)


def ms(g, kind, *operands, **attributes):
    return g.op(kind, *operands, domain="com.microsoft", **attributes)


def case(name, build, **options):
    suite.case(name, build, **options)


def ids(g, high, *shape, dtype="int32"):
    """An input of numbers below `high`."""
    return g.given((np.arange(np.prod(shape)).reshape(shape) * 7 % high).astype(dtype))


# Products.
for a, b, alpha in itertools.product((0, 1), (0, 1), (1.0, 0.5)):
    case(f"matmul {a} {b} {alpha}", lambda g, a=a, b=b, alpha=alpha: ms(
        g, "FusedMatMul", g.x(*((2, 5, 4) if a else (2, 4, 5))), g.c(*((7, 5) if b else (5, 7))), transA=a, transB=b, alpha=alpha))
case("matmul of values", lambda g: ms(g, "FusedMatMul", g.x(2, 3, 4, 5), g.x(2, 3, 6, 5, tag=1), transB=1, alpha=0.25))
for a, t in itertools.product((0, 1), (0, 1)):
    case(f"matmul by batch {a} {t}", lambda g, a=a, t=t: ms(
        g, "FusedMatMul", g.x(*((5, 3, 4) if t else (4, 3, 5)) if a else ((3, 5, 4) if t else (3, 4, 5))),
        g.x(6, 3, 5, tag=1), transBatchA=a, transA=t, transBatchB=1, transB=1))
for name, more in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Sigmoid", {}), ("Tanh", {})):
    case(f"gemm {name}", lambda g, name=name, more=more: ms(
        g, "FusedGemm", g.x(4, 5), g.c(7, 5), g.c(7), transB=1, alpha=0.5, activation=name, **more))

# Activations.
case("gelu", lambda g: ms(g, "Gelu", g.x(3, 8)))
case("bias gelu", lambda g: ms(g, "BiasGelu", g.x(B, S, 8), g.c(8)))
case("fast gelu", lambda g: ms(g, "FastGelu", g.x(B, S, 8)))
case("fast gelu with bias", lambda g: ms(g, "FastGelu", g.x(B, S, 8), g.c(8)))
case("quick gelu", lambda g: ms(g, "QuickGelu", g.x(3, 8)))
case("quick gelu of 1", lambda g: ms(g, "QuickGelu", g.x(3, 8), alpha=1.0))

# Convolutions.
for name, parameters in (("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.1]), ("Clip", [-0.5, 1.0]),
                         ("HardSigmoid", [0.3, 0.4])):
    more = {} if parameters is None else {"activation_params": parameters}
    case(f"conv {name}", lambda g, name=name, more=more: ms(
        g, "FusedConv", g.x(2, 3, 6, 5), g.c(8, 3, 3, 3), g.c(8), pads=[1, 1, 1, 1], activation=name, **more))
case("conv and a sum", lambda g: ms(
    g, "FusedConv", g.x(2, 3, 6, 5), g.c(8, 3, 3, 3), g.c(8), g.x(2, 8, 6, 5, tag=1), pads=[1, 1, 1, 1], activation="Relu"))

# Norms.
for skip in ((B, S, 8), (1, S, 8), (S, 8)):
    for beta, bias in itertools.product((False, True), (False, True)):
        case(f"skip norm {skip} {beta} {bias}", lambda g, skip=skip, beta=beta, bias=bias: ms(
            g, "SkipLayerNormalization", g.x(B, S, 8), g.x(*skip, tag=1), g.c(8), g.c(8) if beta else "",
            *([g.c(8)] if bias else []), epsilon=1e-5))
    case(f"skip rms norm {skip}", lambda g, skip=skip: ms(
        g, "SkipSimplifiedLayerNormalization", g.x(B, S, 8), g.x(*skip, tag=1), g.c(8), epsilon=1e-6))


def norm_and_sum(kind, *more):
    def build(g):
        made = ms(g, kind, g.x(B, S, 8), g.x(B, S, 8, tag=1), *(g.c(8) for _ in range(2 + len(more))), results=4)
        return [made[0], made[3]]
    return build


case("skip norm and sum", norm_and_sum("SkipLayerNormalization", 1))
case("skip rms norm and sum", norm_and_sum("SkipSimplifiedLayerNormalization"))
case("rms norm", lambda g: g.op("SimplifiedLayerNormalization", g.x(B, S, 8), g.c(8), epsilon=1e-6, axis=-1))


def embed(segments, mask, positions):
    def build(g):
        made = ms(g, "EmbedLayerNormalization", ids(g, 11, B, S), ids(g, 2, B, S) if segments else "", g.c(11, 8), g.c(9, 8),
                  g.c(2, 8) if segments else "", g.c(8), g.c(8), g.given(np.tri(B, S, 2, dtype=np.int32)) if mask else "",
                  *([ids(g, 9, B, S)] if positions else []), results=3, epsilon=1e-5)
        return made
    return build


for segments, mask, positions in ((1, 0, 0), (0, 0, 0), (1, 1, 0), (1, 1, 1)):
    case(f"embed {segments} {mask} {positions}", embed(segments, mask, positions))

# Attention with projections.
MASKS = {"none": None, "ends": np.array([S, 3]), "begins": np.array([S, 4, 1, 0]), "keys": np.tri(B, S, 2),
         "queries": np.stack([np.tri(S, S, 0), np.tri(S, S, 1)])}


def attention(mask, causal, bias, past, scale=0.0):
    def build(g):
        value = None if mask is None else mask.astype(np.int32)
        if past and value is not None and value.ndim == 2:
            value = np.concatenate([np.ones((B, past), np.int32), value], 1)
        more = {"scale": scale} if scale else {}
        operands = [g.x(B, S, 8), g.c(8, 3 * H * D), g.c(3 * H * D), "" if value is None else g.given(value),
                    g.x(2, B, H, past, D, tag=1) if past else "", g.x(1, H, S, S + past, tag=2) if bias else ""]
        while operands[-1] == "":
            operands.pop()
        return ms(g, "Attention", *operands, num_heads=H, unidirectional=causal, results=2 if past else 1, **more)
    return build


for (name, mask), causal, bias in itertools.product(MASKS.items(), (0, 1), (0, 1)):
    if name != "queries" or not causal:
        case(f"attention {name} {causal} {bias}", attention(mask, causal, bias, 0))
case("attention with a past", attention(None, 1, 0, 3))
case("attention with a past and a mask", attention(MASKS["keys"], 1, 0, 3))
case("attention scaled", attention(None, 0, 0, 0, scale=0.3))

# Attention of what is projected.
T = 7


def heads(mask=None, bias=False, attention_bias=False, past=0, cross=False, causal=0):
    def build(g):
        keys = S if past else T
        operands = [g.x(B, S, H * D), g.x(B, H, T, D, tag=1) if cross else g.x(B, keys, H * D, tag=2),
                    g.x(B, H, T, D, tag=3) if cross else g.x(B, keys, H * D, tag=4), g.c(3 * H * D) if bias else "",
                    "" if mask is None else g.given(mask.astype(np.int32)),
                    g.x(B, H, S, keys + past, tag=5) if attention_bias else "",
                    *([g.x(B, H, past, D, tag=6), g.x(B, H, past, D, tag=7)] if past else [])]
        while operands[-1] == "":
            operands.pop()
        return ms(g, "MultiHeadAttention", *operands, num_heads=H, unidirectional=causal, results=3 if past else 1)
    return build


case("heads", heads())
case("heads with bias", heads(bias=True))
case("heads, keys hidden", heads(mask=np.tri(B, T, 3)))
case("heads, a bias of scores", heads(attention_bias=True))
case("heads, keys of another sequence", heads(cross=True))
case("heads with a past", heads(past=3))
case("heads with a past, all", heads(past=3, bias=True, attention_bias=True, mask=np.tri(B, S + 3, 5)))
case("heads, causal with a past", heads(past=3, causal=1))

# Rotary embedding: positions of each token, or of the first one.
for interleaved, whole, flat in itertools.product((0, 1), (0, 1), (0, 1)):
    for positions in ("each", "first"):
        case(f"rotary {interleaved} {whole} {flat} {positions}", lambda g, i=interleaved, w=whole, f=flat, p=positions: ms(
            g, "RotaryEmbedding", g.x(B, S, H * D) if f else g.x(B, H, S, D),
            ids(g, 9, B, S, dtype="int64") if p == "each" else g.given(np.array([3])),
            *(g.const(np.cos(np.arange(10)[:, None] + k + np.arange(8 if w else 2))) for k in (0, 1)), interleaved=i,
            **({} if w else {"num_heads": H, "rotary_embedding_dim": 4})))


# Grouped heads: a prompt, samples of two lengths, one more token, buffers that are longer than what there is.
def grouped(lengths, new, total, buffer, rotary=0, window=-1, softcap=0.0, packed=False, positions=False, bias=False,
            interleaved=0):
    G = 2

    def build(g):
        operands = ([g.x(B, new, (H + 2 * G) * D, tag=1), "", ""] if packed else
                    [g.x(B, new, H * D), g.x(B, new, G * D, tag=2), g.x(B, new, G * D, tag=3)])
        operands += [g.x(B, G, buffer, D, tag=4), g.x(B, G, buffer, D, tag=5)] if buffer else ["", ""]
        operands += [g.given(np.array(lengths, np.int32) - 1), g.const(np.array(total, np.int32))]
        if rotary:
            operands += [g.const(f(np.arange(16)[:, None] * (0.3 + np.arange(D // 2)))) for f in (np.cos, np.sin)]
        if bias:
            operands += [""] * (10 - len(operands)) + [g.x(1, H, new, total, tag=6)]
        y, *present = ms(g, "GroupQueryAttention", *operands, num_heads=H, kv_num_heads=G, do_rotary=rotary,
                         softcap=softcap, local_window_size=window, rotary_interleaved=interleaved, results=3)
        # What lies behind a sample's tokens nobody specifies.
        return [y, *(g.Slice(each, g.ints(0), g.ints(min(lengths)), g.ints(2)) for each in present)]
    return build


case("grouped, a prompt", grouped([S, S], S, S, 0))
case("grouped, a rotated prompt", grouped([S, S], S, S, 0, rotary=1))
case("grouped, a prompt into a buffer", grouped([S, S], S, S, 8, rotary=1))
case("grouped, one more token", grouped([6, 6], 1, 6, 5, rotary=1))
case("grouped, one more token into a buffer", grouped([6, 6], 1, 6, 8, rotary=1))
case("grouped, samples of two lengths", grouped([6, 4], 1, 6, 8, rotary=1))
case("grouped, a window", grouped([6, 6], 1, 6, 8, rotary=1, window=3))
case("grouped, a window of a prompt", grouped([S, S], S, S, 0, window=2))
case("grouped, soft cap", grouped([S, S], S, S, 0, softcap=5.0))
case("grouped, packed", grouped([6, 6], 1, 6, 8, packed=True))
case("grouped, packed and rotated in pairs", grouped([6, 6], 1, 6, 8, rotary=1, packed=True, interleaved=1))
case("grouped, a bias of scores", grouped([S, S], S, S, 0, bias=True))
suite.finish()
