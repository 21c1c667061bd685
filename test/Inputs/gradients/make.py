"""Writes the .mlir files here: gradients of single nn ops as PyTorch computes them.

    python make.py            # with numpy and torch

Each function is one op; its attributes hold the inputs, the gradient of the
result, the result and the gradients of the inputs, in float64 (`unit`: none).
unittests/NN/GradientTest.cpp compares what the ops build themselves. The seed of
a case is its number over all files.
"""
import math
import os

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
files = {}  # name: functions


def element(t):
    return {torch.float64: "f64", torch.int64: "i64", torch.bool: "i1"}[t.dtype]


def mlir_type(t, name=None):
    return "tensor<" + "".join(f"{d}x" for d in t.shape) + (name or element(t)) + ">"


def dense(t):
    t = t.detach().contiguous()
    if t.dtype == torch.bool:
        text = str(t.tolist()).lower()
    else:
        text = '"0x' + t.numpy().tobytes().hex().upper() + '"'
    return f"dense<{text}> : {mlir_type(t)}"


# Ops that write one type where operands and result have one.
SAME_TYPES = """neg abs sign exp log sqrt rsqrt reciprocal erf tanh sigmoid sin cos floor ceil round relu not gelu gelu_gradient
    add sub mul div mod rem pow max min and or xor equal less less_equal softmax log_softmax lrn""".split()


def signature(op, types, to):
    """The types of an op as the compiler prints them."""
    if op in ("conv", "conv_input_gradient"):
        return f"{types[0]} -> {to}"
    if op in ("layer_norm", "rms_norm", "batch_norm"):
        return f"{to}, {types[1]}"
    if op in SAME_TYPES and set(types) == {to}:
        return to
    return f"({', '.join(types)}) -> {to}"


def case(name, op, inputs, function, words="", types=None, like=None):
    """`inputs`: shapes (uniform in [-2, 2]) or tensors or functions of the generator;
    `words`: what follows the operands."""
    generator = torch.Generator().manual_seed(sum(map(len, files.values())))
    values = []
    for x in inputs:
        if isinstance(x, tuple):
            x = torch.rand(x, generator=generator) * 4 - 2
        elif callable(x):
            x = x(generator)
        values.append(x.clone().requires_grad_(x.is_floating_point()))
    result = function(*values)
    upstream = torch.rand(result.shape, generator=generator) * 2 - 1
    gradients = [None] * len(values)
    leaves = [v for v in values if v.requires_grad]
    if result.requires_grad:
        found = iter(torch.autograd.grad(result, leaves, upstream, allow_unused=True))
        gradients = [next(found) if v.requires_grad else None for v in values]
    types = types or [mlir_type(v) for v in values]
    to = mlir_type(result, like)
    operands = ", ".join(f"%a{i}" for i in range(len(values)))
    arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    both = lambda list: ", ".join("unit" if t is None else dense(t) for t in list)
    list(files.values())[-1].append(f"""func.func @{name}({arguments}) -> {to} attributes {{
  test.inputs = [{both(values)}],
  test.upstream = {dense(upstream)},
  test.result = {dense(result)},
  test.gradients = [{both(gradients)}]}} {{
  %r = nn.{op} {operands} {words + " " if words else ""}: {signature(op, types, to)}
  return %r : {to}
}}
""")


def by(list):
    return "x".join(map(str, list))


positive = lambda *shape: lambda g: torch.rand(shape, generator=g) * 2 + 0.25
signed = lambda *shape: lambda g: (torch.rand(shape, generator=g) + 0.3) * (torch.randint(0, 2, shape, generator=g) * 2 - 1)
grid = lambda *shape: lambda g: torch.randint(-2, 3, shape, generator=g).to(torch.float64)
flags = lambda *shape: lambda g: torch.randint(0, 2, shape, generator=g).to(torch.bool)

# Elementwise.
files["unary"] = []
unary = {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp, "erf": torch.erf, "tanh": torch.tanh,
         "sigmoid": torch.sigmoid, "sin": torch.sin, "cos": torch.cos, "floor": torch.floor, "ceil": torch.ceil,
         "round": torch.round, "relu": torch.relu}
for name, function in unary.items():
    case(name, name, [(3, 5)], function)
for name in ["abs", "relu"]:
    case(name + "_kinks", name, [grid(4, 5)], unary[name])
for name, function in {"log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt}.items():
    case(name, name, [positive(3, 5)], function)
case("reciprocal", "reciprocal", [signed(3, 5)], torch.reciprocal)
case("gelu", "gelu", [(4, 5)], F.gelu)
case("gelu_tanh", "gelu", [(4, 5)], lambda x: F.gelu(x, approximate="tanh"), "{tanh}")
for name in ["tanh", "sigmoid", "erf", "gelu"]:  # narrow floats: the same formula, between casts
    function = {"gelu": F.gelu}.get(name) or unary[name]
    case(name + "_bf16", name, [(2, 3)], function, types=["tensor<2x3xbf16>"], like="bf16")
case("cast", "cast", [(2, 3)], lambda x: x * 1, types=["tensor<2x3xf64>"], like="f32")
case("is_nan", "is_nan", [(2, 3)], torch.isnan)

# Two operands; broadcasting.
files["binary"] = []
shapes = [((2, 3), (2, 3)), ((2, 3, 4), (4,)), ((3, 1), (2, 1, 4)), ((2, 3), ()), ((1,), (3, 2))]
for i, (a, b) in enumerate(shapes):
    case(f"add_{i}", "add", [a, b], torch.add)
    case(f"sub_{i}", "sub", [a, b], torch.sub)
    case(f"mul_{i}", "mul", [a, b], torch.mul)
    case(f"div_{i}", "div", [a, signed(*b)], torch.div)
    case(f"max_{i}", "max", [a, b], torch.maximum)
    case(f"min_{i}", "min", [a, b], torch.minimum)
    case(f"pow_{i}", "pow", [positive(*a), b], torch.pow)
    case(f"mod_{i}", "mod", [a, signed(*b)], torch.remainder)
    case(f"rem_{i}", "rem", [a, signed(*b)], torch.fmod)
case("max_ties", "max", [grid(4, 6), grid(6)], torch.maximum)
case("min_ties", "min", [grid(4, 6), grid(6)], torch.minimum)
case("pow_zeros", "pow", [torch.tensor([0., 0., 0., 2., 3., 1.]), torch.tensor([0., 1., 2., 0., 2., -1.])], torch.pow)
case("pow_negative", "pow", [torch.tensor([-2., -3., -0.5]), torch.tensor(3.)],
     lambda a, b: torch.pow(a, b.detach()))  # d/db is NaN
case("equal", "equal", [grid(2, 3), grid(3)], torch.eq)
case("less", "less", [(2, 3), (3,)], torch.lt)
case("select", "select", [flags(2, 3), (2, 3), (2, 3)], torch.where)
case("select_broadcast", "select", [flags(3, 1), (4,), (2, 1, 1)], torch.where)

# Movement.
files["movement"] = []
case("reshape", "reshape", [(2, 6)], lambda x: x.reshape(3, 4))
case("transpose", "transpose", [(2, 3, 4)], lambda x: x.permute(2, 0, 1), "perm [2, 0, 1]")
case("broadcast", "broadcast", [(3, 1)], lambda x: x.expand(2, 3, 4))
case("concat", "concat", [(2, 1), (2, 3), (2, 2)], lambda *x: torch.cat(x, 1), "dim 1")


def cut(name, shape, starts, sizes, strides):
    def function(x):
        for d, (start, size, stride) in enumerate(zip(starts, sizes, strides)):
            x = x.index_select(d, torch.arange(size) * stride + start)
        return x
    case(name, "slice", [shape], function,
         f"from {starts}" + (f" strides {strides}" if set(strides) != {1} else ""))


cut("slice", (4, 5), [1, 0], [2, 5], [1, 1])
cut("slice_strides", (7, 9), [1, 0], [3, 4], [2, 3 - 1])
cut("slice_end", (7, 10), [0, 0], [4, 4], [2, 3])
cut("slice_backwards", (4, 6), [3, 5], [4, 3], [-1, -2])
cut("slice_one", (4, 6), [2, 5], [1, 1], [5, -7])
cut("slice_mixed", (3, 8, 2), [0, 6, 1], [3, 3, 1], [1, -3, 1])
case("pad", "pad", [(2, 3)], lambda x: F.pad(x, (1, 2, 0, 1), value=1.5),
     "low [0, 1] high [1, 2] value 1.5 : f64")


def take(name, shape, dim, index):
    def function(x, i):
        flat = x.index_select(dim, (i % x.shape[dim]).reshape(-1))
        return flat.reshape(x.shape[:dim] + i.shape + x.shape[dim + 1:])
    case(name, "gather", [shape, index], function, f"dim {dim}")


take("gather_rows", (5, 3), 0, torch.tensor([[0, 4, 4], [2, 0, 4]]))
take("gather_columns", (2, 4, 3), 1, torch.tensor([3, -1, 1, 0, -4]))
take("gather_scalar", (4, 2), 1, torch.tensor(1))


# Contractions.
files["contractions"] = []
def product(name, a, b, tl=False, tr=False):
    flags = ", ".join(["transpose_lhs"] * tl + ["transpose_rhs"] * tr)
    case(name, "matmul", [a, b],
         lambda x, y: (x.mT if tl else x) @ (y.mT if tr else y), "{" + flags + "}" if flags else "")


for i in range(4):
    tl, tr = bool(i & 1), bool(i & 2)
    l = lambda *s: s[:-2] + (s[-1], s[-2]) if tl else s
    r = lambda *s: s[:-2] + (s[-1], s[-2]) if tr else s
    product(f"matmul_{i}", l(3, 4), r(4, 2), tl, tr)
    product(f"matmul_batch_{i}", l(2, 3, 4), r(2, 4, 2), tl, tr)
    product(f"matmul_weight_{i}", l(2, 2, 3, 4), r(4, 2), tl, tr)
    product(f"matmul_left_{i}", l(3, 4), r(2, 3, 4, 2), tl, tr)
    product(f"matmul_ones_{i}", l(3, 3, 4), r(1, 4, 2), tl, tr)
    product(f"matmul_broadcast_{i}", l(2, 1, 3, 4), r(3, 4, 2), tl, tr)


def nchw(x):
    return x.movedim(-1, 1)


def nhwc(x):
    return x.movedim(1, -1)


def spatial_pad(x, low, high, value=0.):
    """x is NC..."""
    pads = []
    for l, h in reversed(list(zip(low, high))):
        pads += [l, h]
    return F.pad(x, pads, value=value)


def window(kernel, strides, low, high, dilations):
    words = f"kernel {by(kernel)}"
    if set(strides) != {1}:
        words += f" strides {by(strides)}"
    if low != high:
        words += f" low {by(low)} high {by(high)}"
    elif any(low):
        words += f" pad {by(low)}"
    if set(dilations) != {1}:
        words += f" dilations {by(dilations)}"
    return words


def convolution(name, x, w, strides, low, high, dilations, groups=1):
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(x)]
    case(name, "conv", [x, w],
         lambda a, b: nhwc(function(spatial_pad(nchw(a), low, high), b, None, strides, 0, dilations, groups)),
         window(w[2:], strides, low, high, dilations) + (f" groups {groups}" if groups != 1 else ""))


convolution("conv_1d", (2, 7, 3), (4, 3, 3), [2], [1], [0], [1])
convolution("conv_2d", (2, 5, 4, 2), (3, 2, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1])
convolution("conv_point", (2, 3, 4, 3), (2, 3, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1])
convolution("conv_strides", (1, 7, 6, 2), (3, 2, 2, 3), [3, 2], [0, 1], [1, 2], [1, 1])
convolution("conv_dilations", (1, 7, 6, 2), (2, 2, 3, 2), [1, 2], [2, 0], [1, 1], [2, 3])
convolution("conv_groups", (2, 4, 4, 4), (6, 2, 3, 2), [1, 1], [1, 0], [1, 0], [1, 1], 2)
convolution("conv_depthwise", (1, 5, 5, 3), (3, 1, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1], 3)
convolution("conv_3d", (1, 4, 3, 4, 2), (2, 2, 2, 3, 2), [1, 1, 2], [0, 1, 1], [1, 1, 0], [2, 1, 1])


def max_pool(name, x, kernel, strides, low, high, dilations):
    function = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(kernel)]
    case(name, "max_pool", [x],
         lambda a: nhwc(function(spatial_pad(nchw(a), low, high, -math.inf), kernel, strides, 0, dilations)),
         window(kernel, strides, low, high, dilations))


max_pool("max_pool_1d", (2, 7, 2), [3], [2], [1], [1], [1])
max_pool("max_pool_2d", (2, 6, 5, 2), [3, 2], [2, 1], [1, 0], [1, 1], [1, 1])
max_pool("max_pool_dilations", (1, 7, 7, 2), [3, 2], [1, 2], [1, 1], [1, 1], [2, 3])
max_pool("max_pool_3d", (1, 4, 4, 3, 2), [2, 2, 2], [2, 2, 1], [0, 0, 0], [0, 0, 0], [1, 1, 1])
max_pool("max_pool_ties", grid(2, 6, 6, 2), [3, 3], [2, 2], [1, 1], [1, 1], [1, 1])


def avg_pool(name, x, kernel, strides, pads, include):
    function = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(kernel)]
    case(name, "avg_pool", [x],
         lambda a: nhwc(function(nchw(a), kernel, strides, pads, False, include)),
         window(kernel, strides, pads, pads, [1] * len(kernel)) + (" {count_include_pad}" if include else ""))


for include in [False, True]:
    suffix = "_padded" if include else ""
    avg_pool("avg_pool_1d" + suffix, (2, 7, 2), [3], [2], [1], include)
    avg_pool("avg_pool_2d" + suffix, (1, 6, 5, 2), [3, 2], [2, 1], [1, 1], include)
    avg_pool("avg_pool_3d" + suffix, (1, 4, 4, 3, 2), [2, 2, 2], [2, 2, 1], [0, 1, 1], include)
# Ceil mode: windows hang over the padded edge; what hangs over is not counted.
case("avg_pool_ceil", "avg_pool", [(1, 6, 6, 1)],
     lambda a: nhwc(F.avg_pool2d(nchw(a), 3, 2, 1, True, True)),
     window([3, 3], [2, 2], [1, 1], [2, 2], [1, 1]) + " {count_include_pad, count_high = array<i64: 1, 1>}")

# Rows.
files["rows"] = []
torch_kinds = {"sum": torch.sum, "max": torch.amax, "min": torch.amin,
               "prod": lambda x, dims: x.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims)).prod(-1)}


def reduction(name, kind, shape, dims):
    case(name, f"reduce {kind}", [shape], lambda x: torch_kinds[kind](x, dims), f"dims {dims}")


for kind in torch_kinds:
    reduction(f"reduce_{kind}_last", kind, (3, 4), [1])
    reduction(f"reduce_{kind}_two", kind, (2, 3, 4), [0, 2])
    reduction(f"reduce_{kind}_all", kind, (2, 3), [0, 1])
    reduction(f"reduce_{kind}_ties", kind, grid(4, 5), [1])
case("reduce_prod_zeros", "reduce prod", [torch.tensor([[1., 0., 2.], [0., 0., 3.], [2., 3., 4.]])],
     lambda x: x.prod(1), "dims [1]")
case("arg_reduce", "arg_reduce", [(3, 4)], lambda x: x.argmax(1), "dim 1")
for dim in [0, 1, 2]:
    case(f"softmax_{dim}", "softmax", [(2, 3, 4)], lambda x: x.softmax(dim), f"dim {dim}")
    case(f"log_softmax_{dim}", "log_softmax", [(2, 3, 4)], lambda x: x.log_softmax(dim), f"dim {dim}")
case("softmax_masked", "softmax", [lambda g: torch.rand((3, 5), generator=g).masked_fill(
    torch.ones(3, 5).triu(2) > 0, -math.inf)], lambda x: x.softmax(1), "dim 1")
case("softmax_large", "softmax", [lambda g: torch.rand((2, 4), generator=g) * 2000], lambda x: x.softmax(1), "dim 1")
case("softmax_bf16", "softmax", [(2, 3)], lambda x: x.softmax(1), "dim 1",
     types=["tensor<2x3xbf16>"], like="bf16")
for dim in [1, 2]:
    inner = (2, 3, 4)[dim:]
    case(f"layer_norm_{dim}", "layer_norm", [(2, 3, 4), inner, inner],
         lambda x, s, b: F.layer_norm(x, inner, s, b, 1e-3), f"dim {dim} epsilon 0.001 f64")
    case(f"rms_norm_{dim}", "rms_norm", [(2, 3, 4), inner],
         lambda x, s: F.rms_norm(x, inner, s, 1e-3), f"dim {dim} epsilon 0.001 f64")
case("layer_norm_bf16", "layer_norm", [(2, 5), (5,), (5,)], lambda x, s, b: F.layer_norm(x, (5,), s, b, 0.5),
     "dim 1 epsilon 0.5", types=["tensor<2x5xbf16>", "tensor<5xbf16>", "tensor<5xbf16>"], like="bf16")
case("batch_norm", "batch_norm", [(2, 3, 2, 4), (4,), (4,), (4,), positive(4)],
     lambda x, s, b, m, v: (x - m) / torch.sqrt(v + 1e-3) * s + b, "epsilon 0.001 f64")
for size in [1, 3, 4, 5]:
    case(f"lrn_{size}", "lrn", [(2, 3, 6)],
         lambda x: x / (2 + 0.5 / size * F.pad(x * x, ((size - 1) // 2, size // 2)).unfold(-1, size, 1).sum(-1)) ** 0.75,
         f"size {size} alpha 0.5 beta 0.75 bias 2.0")

# By indices, and transposed convolutions.
files["indexed"] = []


def along(name, shape, dim, index):
    """A gather with indices of its own for each row."""
    def function(x, i):
        i = i.reshape(i.shape + (1,) * (x.dim() - i.dim())).expand(i.shape + x.shape[dim + 1:])
        return x.gather(dim, i % x.shape[dim])
    case(name, "gather", [shape, index], function, f"dim {dim} {{batched}}")


along("gather_batched", (2, 4), 1, torch.tensor([[3, 0, 3], [-1, 2, 2]]))
along("gather_batched_slices", (2, 4, 3), 1, torch.tensor([[3, 0], [1, 2]]))


def scatter(name, kind, data, index, dim):
    """PyTorch's own gradient; `set` is its scatter, whose indices must differ."""
    shape = index.shape + data[dim + 1:]

    def function(x, i, u):
        i = i.reshape(i.shape + (1,) * (x.dim() - i.dim())).expand(u.shape) % x.shape[dim]
        if kind == "set":
            return x.scatter(dim, i, u)
        return x.scatter_reduce(dim, i, u, {"add": "sum", "min": "amin", "max": "amax"}[kind])
    case(name, f"scatter {kind}", [data, index, shape], function, f"dim {dim}")


scatter("scatter_set", "set", (5, 3), torch.tensor([4, 0, -2]), 0)
scatter("scatter_set_rows", "set", (2, 5), torch.tensor([[4, 0, -2], [1, 3, 2]]), 1)
for kind in ("add", "min", "max"):
    scatter(f"scatter_{kind}", kind, (5, 3), torch.tensor([4, 0, 4, -1]), 0)
    scatter(f"scatter_{kind}_rows", kind, (2, 5, 2), torch.tensor([[4, 4, -2], [1, 3, 1]]), 1)
case("top_k", "top_k 2 of", [(3, 4)], lambda x: x.topk(2).indices)


def transposed(name, y, w, out, strides, low, high, dilations, groups=1):
    """`out`: spatial sizes of the result."""
    function = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}[len(y)]

    def inside(x):  # what high pads cut off at the end may have to be put there first
        for d, (size, before) in enumerate(zip(out, low)):
            missing = before + size - x.shape[d + 2]
            x = F.pad(x, [0, 0] * (x.dim() - d - 3) + [0, max(missing, 0)]).narrow(d + 2, before, size)
        return x
    case(name, "conv_input_gradient", [y, w],
         lambda a, b: nhwc(inside(function(nchw(a), b, None, strides, 0, 0, groups, dilations))),
         window(w[2:], strides, low, high, dilations) + (f" groups {groups}" if groups != 1 else ""))


transposed("conv_transpose_1d", (2, 4, 3), (3, 2, 3), [7], [2], [1], [1], [1])
transposed("conv_transpose_2d", (2, 3, 4, 2), (2, 3, 3, 2), [6, 8], [2, 2], [1, 0], [1, 0], [1, 1])
transposed("conv_transpose_groups", (1, 3, 3, 4), (4, 1, 2, 3), [4, 7], [1, 2], [0, 0], [0, 0], [1, 1], 2)
transposed("conv_transpose_dilations", (1, 3, 2, 2), (2, 1, 2, 2), [7, 5], [2, 1], [0, 0], [0, 0], [2, 3])
transposed("conv_transpose_3d", (1, 2, 2, 3, 2), (2, 1, 2, 2, 2), [4, 3, 5], [2, 1, 2], [0, 0, 1], [0, 0, 0], [1, 1, 1])

files["slopes"] = []
for form, words in (("none", ""), ("tanh", "{tanh}")):
    case(f"gelu_gradient_{form}", "gelu_gradient", [(4, 5), (4, 5)],
         lambda dy, x, form=form: torch.ops.aten.gelu_backward(dy, x, approximate=form), words)

here = os.path.dirname(os.path.abspath(__file__))
for name, cases in files.items():
    with open(os.path.join(here, name + ".mlir"), "w") as out:
        out.write("// Written by make.py with PyTorch " + torch.__version__.split("+")[0] + ".\n" + "".join(cases))
    print(name, len(cases), "cases")
