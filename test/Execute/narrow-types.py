# Floats of 8 and 4 bits and integers of 4 and 2 are converted as ONNX says, bit for bit: every code to wider types, every
# number of 16 bits and many of 32 and 64 to each type, saturating or not; moved; cut over ranks; and stored as weights,
# two and four in a byte. Judged by ml_dtypes and by fractions.
#
# REQUIRES: kerf, kerf-commands, onnx
# RUN: %python %s %t %inputs
import fractions
import sys
import warnings

sys.path.insert(0, sys.argv[2])
warnings.filterwarnings("ignore")
import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_commands import Commands
from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks, command = Checks(), Commands(timeout=300)
FLOATS = {"FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
          "FLOAT8E5M2": ml_dtypes.float8_e5m2, "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
          "FLOAT4E2M1": ml_dtypes.float4_e2m1fn}
INTEGERS = {"INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4, "INT2": ml_dtypes.int2, "UINT2": ml_dtypes.uint2}
TYPES = {**FLOATS, "FLOAT8E8M0": ml_dtypes.float8_e8m0fnu, **INTEGERS}
BITS = {"FLOAT4E2M1": 4, "INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2}


def run(nodes, inputs, outputs, initializers=(), flags=()):
    """The outputs of a graph. Types of inputs are those of the arrays, or (array, ONNX type)."""
    arrays = {name: each if isinstance(each, tuple) else (each, helper.np_dtype_to_tensor_dtype(each.dtype))
              for name, each in inputs.items()}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, kind, array.shape)
                                           for name, (array, kind) in arrays.items()],
                              [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
                              list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13), OUT / "g.onnx")
    for name, (array, _) in arrays.items():
        np.save(OUT / f"{name}.npy", array)
    given = [f"--input={name}=@{OUT}/{name}.npy" for name in arrays]
    ran = command("run", OUT / "g.onnx", *given, f"--output-dir={OUT / 'out'}", "-q", *flags)
    if ran.code:
        return f"exit {ran.code}: {ran.stderr}"
    return [np.load(OUT / "out" / f"{name}.npy") for name in outputs]


def same_bits(found, expected):
    """Codes, or numbers, that are equal to the bit; NaN is any NaN."""
    if isinstance(found, str) or found.shape != expected.shape:
        return f"{found}"
    isnan = np.isnan(expected.astype(np.float64))
    kind = f"u{expected.dtype.itemsize}"
    if expected.dtype.itemsize == 1 and found.dtype.itemsize == 1:
        found = found.view(expected.dtype)
    if found.dtype != expected.dtype:
        return f"{found.dtype}, expected {expected.dtype}"
    wrong = (found.view(kind) != expected.view(kind)) & ~(isnan & np.isnan(found.astype(np.float64)))
    if not wrong.any():
        return ""
    at = tuple(np.argwhere(wrong)[0])
    return f"{wrong.sum()} wrong, at {at} {found.view(kind)[at]:#x} ({found[at]}), expected {expected.view(kind)[at]:#x} ({expected[at]})"


def expect(name, found, expected):
    message = found if isinstance(found, str) else "; ".join(
        text for text in map(same_bits, found, expected if isinstance(expected, list) else [expected]) if text)
    checks.expect(name, message == "", message)


# Every code, as numbers of each wider type.
for name, dtype in TYPES.items():
    codes = np.arange(1 << BITS.get(name, 8), dtype=np.uint8).view(dtype)
    wider = {"FLOAT": np.float32, "FLOAT16": np.float16, "DOUBLE": np.float64, "BFLOAT16": ml_dtypes.bfloat16}
    if name in INTEGERS:
        wider |= {"INT8": np.int8, "INT32": np.int32, "INT64": np.int64}
    found = run([helper.make_node("Cast", ["x"], [kind], to=getattr(TensorProto, kind)) for kind in wider],
                {"x": (codes, getattr(TensorProto, name))}, {kind: getattr(TensorProto, kind) for kind in wider})
    if not isinstance(found, str):
        found = [each.view(ml_dtypes.bfloat16) if each.dtype.kind == "V" else each for each in found]
    expect(f"from {name}", found, [codes.astype(np.float32).astype(kind) if np.issubdtype(kind, np.floating) else codes.astype(kind)
                                   for kind in wider.values()])

# Every number of 16 bits; many of 32 and 64, among them those halfway between two of the type, and next to those.
random = np.random.default_rng(7)
halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
singles = np.concatenate([halves.astype(np.float32), random.integers(0, 1 << 32, 20000, np.uint32).view(np.float32)])


def midpoints(dtype):
    """In f64: between neighbours, and the next numbers on both sides, also those next in f32."""
    values = np.arange(1 << (4 if dtype == ml_dtypes.float4_e2m1fn else 8), dtype=np.uint8).view(dtype).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middle = (values[1:] + values[:-1]) / 2
    narrow = middle.astype(np.float32)
    return np.concatenate([values, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf),
                           np.nextafter(narrow, np.float32(np.inf)).astype(np.float64),
                           np.nextafter(narrow, np.float32(-np.inf)).astype(np.float64), [np.inf, -np.inf, np.nan, 1e300, -1e-300]])


def nearest(x, dtype, saturate):
    """By ONNX's table, from each number's neighbours."""
    count = 1 << (4 if dtype == ml_dtypes.float4_e2m1fn else 8)
    codes = np.arange(count // 2, dtype=np.uint8)
    values = codes.view(dtype).astype(np.float64)
    finite = np.isfinite(values)
    codes, values = codes[finite], values[finite]
    step = values[-1] - values[-2]
    most = values[-1]
    x = x.astype(np.float64)
    magnitude = np.abs(x)
    above = np.clip(np.searchsorted(values, magnitude), 1, len(values) - 1)
    low, high = values[above - 1], values[above]
    middle = (low + high) / 2
    up = (magnitude > middle) | ((magnitude == middle) & (codes[above] % 2 == 0))
    code = np.where(up, codes[above], codes[above - 1]).astype(np.uint8)
    # The next number would be most + step, halfway to which is even if the largest is odd.
    over = (magnitude > most + step / 2) | ((magnitude == most + step / 2) & (codes[-1] % 2 == 1))
    negative = np.signbit(x)
    sign = np.where(negative, count // 2, 0).astype(np.uint8)
    if dtype == ml_dtypes.float4_e2m1fn:
        return np.where(np.isnan(x), 8, np.where(over, codes[-1], code) | sign).astype(np.uint8).view(dtype)
    unsigned_zero = dtype in (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz)
    nan = 0x80 if unsigned_zero else 0x7f
    beyond = codes[-1] if saturate else 0x7c if dtype == ml_dtypes.float8_e5m2 else nan
    result = np.where(over, beyond, code).astype(np.uint8)
    result = np.where(np.isnan(x), nan, result | (0 if beyond == 0x80 and unsigned_zero else sign)
                      if not unsigned_zero else np.where(result == 0, 0, np.where(result == 0x80, 0x80, result | sign)))
    return result.astype(np.uint8).view(dtype)


for name, dtype in FLOATS.items():
    doubles = midpoints(dtype)
    for saturate in (1, 0):
        sources = {"h": halves, "s": singles, "d": doubles, "b": halves.view(ml_dtypes.bfloat16)}
        kind = getattr(TensorProto, name)
        found = run([helper.make_node("Cast", [source], [f"y{source}"], to=kind, saturate=saturate) for source in sources],
                    {source: (array, helper.np_dtype_to_tensor_dtype(array.dtype)) for source, array in sources.items()},
                    {f"y{source}": kind for source in sources})
        expect(f"to {name}, saturate {saturate}", found, [nearest(array, dtype, saturate) for array in sources.values()])
    # What is expected so is what ml_dtypes gives.
    checks.expect(f"{name} by ml_dtypes", not same_bits(nearest(singles, dtype, 0), singles.astype(dtype))
                  or dtype == ml_dtypes.float4_e2m1fn)
for name, dtype in INTEGERS.items():
    whole = np.arange(-300, 300, dtype=np.int32)
    low, high = ml_dtypes.iinfo(dtype).min, ml_dtypes.iinfo(dtype).max
    real = np.linspace(low, high, 77, dtype=np.float32)
    kind = getattr(TensorProto, name)
    found = run([helper.make_node("Cast", [source], [f"y{source}"], to=kind) for source in "wr"], {"w": whole, "r": real},
                {"yw": kind, "yr": kind})
    expect(f"to {name}", found, [whole.astype(dtype), np.rint(real).astype(dtype)])  # ONNX's int4.md: to the nearest, ties to even


# Powers of 2 by fractions.
def power(x, mode, saturate):
    if np.isnan(x):
        return 255
    x = abs(x)
    if np.isinf(x):
        return 254 if saturate else 255
    exact = fractions.Fraction(float(x))
    if exact < fractions.Fraction(2) ** -127:
        return 0 if saturate else 255
    code = 0
    while code < 255 and fractions.Fraction(2) ** (code + 1 - 127) <= exact:
        code += 1
    low = fractions.Fraction(2) ** (code - 127)
    if exact > low and (mode == "up" or (mode == "nearest" and exact >= low * fractions.Fraction(3, 2))):
        code += 1
    return min(code, 254 if saturate else 255)


numbers = np.concatenate([np.float32([0, 1e-40, 2.0 ** -127, 2.0 ** -126 * 0.75, 2.0 ** -126, 3e38, np.inf, np.nan, 1, 1.5, 1.4999, 1.25]),
                          np.abs(random.integers(0, 1 << 31, 300, np.uint32).view(np.float32))])
for mode in ("up", "down", "nearest"):
    for saturate in (1, 0):
        found = run([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate)],
                    {"x": numbers}, {"y": TensorProto.FLOAT8E8M0})
        expect(f"powers, {mode}, saturate {saturate}", found,
               np.array([power(x, mode, saturate) for x in numbers], np.uint8).view(ml_dtypes.float8_e8m0fnu))

# Moved, on one rank and cut over four.
for name, dtype in TYPES.items():
    kind = getattr(TensorProto, name)
    x = random.integers(0, 1 << BITS.get(name, 8), (8, 6), np.uint8).view(dtype)
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]), helper.make_node("Concat", ["t", "t"], ["c"], axis=1),
             helper.make_node("Slice", ["c", "from", "to"], ["s"]), helper.make_node("Gather", ["s", "places"], ["g"], axis=1),
             helper.make_node("Where", ["choice", "g", "first"], ["y"])]
    first = x.T[:6, :1]
    initializers = [numpy_helper.from_array(np.array(value), key) for key, value in
                    (("from", [0, 2]), ("to", [6, 14]), ("places", [11, 0, 3, 5]), ("choice", [[True, False, True, True]]))]
    places = np.concatenate([x.T, x.T], axis=1)[:, 2:14][:, [11, 0, 3, 5]]
    expected = np.where([[True, False, True, True]], places.view(np.uint8), first.view(np.uint8)).view(dtype)
    for flags in ((), ("--devices=cpu:4", "--solver=random", "--seed=3")):
        found = run(nodes, {"x": (x, kind), "first": (np.ascontiguousarray(first), kind)}, {"y": kind}, initializers, flags)
        expect(f"moved {name} {flags}", found, expected)


# Weights, in each form that a file may have: raw and typed, an odd number of them, beside the model.
def packed(array, bits):
    each = 8 // bits
    codes = np.resize(np.concatenate([array.reshape(-1).view(np.uint8), np.zeros(each, np.uint8)]), -(-array.size // each) * each)
    codes = codes.reshape(-1, each) & ((1 << bits) - 1)
    return np.sum(codes.astype(np.uint32) << (bits * np.arange(each)), axis=1).astype(np.uint8)


def literal(name, array, form):
    kind, bits = getattr(TensorProto, name), BITS.get(name, 8)
    tensor = TensorProto(name="w", data_type=kind, dims=array.shape)
    codes = packed(array, bits) if bits < 8 else array.reshape(-1).view(np.uint8)
    if form == "typed":
        tensor.int32_data.extend(int(code) for code in codes)
    elif form == "raw":
        tensor.raw_data = codes.tobytes()
    else:
        (OUT / "w.bin").write_bytes(b"xyz" + codes.tobytes())
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", "3"), ("length", str(codes.size))):
            tensor.external_data.add(key=key, value=value)
    return tensor


for name, dtype in TYPES.items():
    w = random.integers(0, 1 << BITS.get(name, 8), (5, 3), np.uint8)
    w = np.where(np.isnan(w.view(dtype).astype(np.float32)), 1, w).astype(np.uint8).view(dtype)
    x = random.standard_normal((4, 5)).astype(np.float32)
    for form in ("raw", "typed", "external"):
        found = run([helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT), helper.make_node("Mul", ["v", "x"], ["y"])],
                    {"x": x[0, :, None]}, {"y": TensorProto.FLOAT}, [literal(name, w, form)])
        expect(f"weights of {name}, {form}", found, w.astype(np.float32) * x[0, :, None])
    if name == "FLOAT8E8M0":
        continue
    scale = random.uniform(0.5, 2, (5, 1)).astype(np.float32)
    zero = np.array([[1]] * 5).astype(dtype) if name in INTEGERS else np.zeros((5, 1)).astype(dtype)
    nodes = [helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["v"], axis=1, block_size=3),
             helper.make_node("MatMul", ["x", "v"], ["y"])]
    initializers = [literal(name, w, "raw"), numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(zero, "zero")]
    expected = x @ ((w.astype(np.float32) - zero.astype(np.float32)) * scale)
    for flags in ((), ("--devices=cpu:4", "--solver=random", "--seed=5")):
        found = run(nodes, {"x": x}, {"y": TensorProto.FLOAT}, initializers, flags)
        fine = not isinstance(found, str) and np.allclose(found[0], expected, rtol=1e-4, atol=1e-2)
        checks.expect(f"dequantized {name} {flags}", fine, f"{found}\n{expected}")

# Large ones stay packed, in the file and in a package; rows of whole bytes and others.
for name, shape in (("INT4", (4098, 4096)), ("UINT2", (4090, 4103)), ("FLOAT4E2M1", (4096, 4099))):
    dtype, bits = TYPES[name], BITS[name]
    w = random.integers(0, 1 << bits, shape, np.uint8).view(dtype)
    x = random.integers(-2, 3, (2, shape[0])).astype(np.float32)
    expected = x @ w.astype(np.float32)
    nodes = [helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT), helper.make_node("MatMul", ["x", "v"], ["y"])]
    for flags in ((), ("--devices=cpu:2", "--solver=random", "--seed=2")):
        found = run(nodes, {"x": x}, {"y": TensorProto.FLOAT}, [literal(name, w, "raw")], flags)
        fine = not isinstance(found, str) and np.array_equal(found[0], expected)
        checks.expect(f"large {name} {flags}", fine, f"{found}\n{expected}")
    made = kerf("compile", OUT / "g.onnx", "-o", OUT / "large.kerf")
    size = (OUT / "large.kerf/weights.safetensors").stat().st_size if made.returncode == 0 else 0
    checks.expect(f"package of {name}", 0 < size < w.size * bits / 8 + 4096, f"{made.stderr}{size}")

# A size that does not fit; arithmetic; inputs of another type and numbers for them.
bad = literal("INT4", np.zeros((5, 3), ml_dtypes.int4), "raw")
bad.raw_data += b"\0"


def model(nodes, kind=TensorProto.INT4, initializers=()):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", kind, [5, 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13), OUT / "bad.onnx")
    return OUT / "bad.onnx"


cast = helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)
expect_error(checks, "too many bytes", ["plan", model([cast], initializers=[bad])], 3, "payload has 9 bytes, expected 8")
add = [helper.make_node("Add", ["x", "x"], ["z"]), helper.make_node("Cast", ["z"], ["y"], to=TensorProto.FLOAT)]
expect_error(checks, "arithmetic", ["plan", model(add)], 3, "2 to 8 bits that are only converted")
cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
path = model([cast])
np.save(OUT / "u.npy", np.zeros((5, 3), np.uint8))
expect_error(checks, "another type", ["run", path, f"--input=x=@{OUT / 'u.npy'}"], 2, "is u8 5x3, input \"x\" expects i4 5x3")
expect_error(checks, "a number", ["run", path, "--input=x=1"], 2, "is i4, which is given as @FILE.npy alone")
checks.expect("random inputs are verified", kerf("verify", path).returncode == 0, kerf("verify", path).stderr)
np.savez(OUT / "all.npz", x=np.ones((5, 3), ml_dtypes.int4))
ran = kerf("run", path, f"--input=@{OUT / 'all.npz'}", f"--output-dir={OUT / 'out'}")
checks.expect("npz", ran.returncode == 0 and np.array_equal(np.load(OUT / "out/y.npy"), np.ones((5, 3), np.float32)), ran.stderr)
command.stop()
checks.finish()
