# What kerf-nn-to-linalg makes of nn ops is compiled by upstream's own tools alone, called, and compared with NumPy.
#
# REQUIRES: kerf-opt
# RUN: %python %s %t %inputs
import ctypes
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder

OUT = fresh_folder(sys.argv[1])
LLVM = pathlib.Path("/usr/lib/llvm-22/bin")
checks = Checks()
random = np.random.default_rng(7)
NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(ml_dtypes.bfloat16): "bf16",
         np.dtype(np.float16): "f16", np.dtype(np.int64): "i64", np.dtype(np.int32): "i32", np.dtype(np.int8): "i8",
         np.dtype(np.bool_): "i1"}
CASES = []


def type_of(array):
    return f"tensor<{''.join(f'{size}x' for size in array.shape)}{NAMES[array.dtype]}>"


def case(text, inputs, *expected):
    """`text`: ops on %0, %1, ...; the last `return`s. Types are written as {0}, {1}, ..., those of results as {r0}, ..."""
    CASES.append((text, [np.array(x, order="C") for x in inputs], [np.asarray(y) for y in expected]))


def floats(*shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


def op(name, inputs, expected, attributes=""):
    operands = ", ".join(f"%{i}" for i in range(len(inputs)))
    types = ", ".join(f"{{{i}}}" for i in range(len(inputs)))
    case(f"%r = nn.{name} {operands}{attributes} : ({types}) -> {{r0}}\nreturn %r", inputs, expected)


x, y = floats(4, 6), floats(6)
op("add", [x, y], x + y)
column = floats(4, 1)
op("div", [x, column], x / column)
op("max", [x, np.float32(0.25).reshape(())], np.maximum(x, np.float32(0.25)))
for name, function in (("exp", np.exp), ("tanh", np.tanh), ("abs", np.abs), ("floor", np.floor), ("sign", np.sign),
                       ("sin", np.sin), ("round", np.rint), ("log1p", lambda v: np.log1p(v)), ("neg", np.negative)):
    source = np.abs(x) if name == "log1p" else x * 3
    op(name, [source], function(source))
op("sigmoid", [x], 1 / (1 + np.exp(-x)))
op("silu", [x], x / (1 + np.exp(-x)))
op("relu", [x], np.maximum(x, 0))
signs = np.array([7, -7, 7.5, -7.5, 0, -0.5], np.float32)
by = np.array([3, 3, -2, -2, 5, 0.25], np.float32)
op("mod", [signs, by], np.mod(signs, by))
op("rem", [signs, by], np.fmod(signs, by))
op("pow", [np.abs(x) + 1, y], (np.abs(x) + 1) ** y)
op("less", [x, y], x < y)
op("is_nan", [np.array([1, np.nan], np.float32)], np.array([False, True]))
condition = x > 0
op("select", [condition, x, y], np.where(condition, x, np.broadcast_to(y, x.shape)))
wide = floats(5, dtype=np.float64)
op("mul", [wide, wide], wide * wide)
narrow = floats(4, 6, dtype=ml_dtypes.bfloat16)
op("mul", [narrow, narrow], (narrow.astype(np.float32) ** 2).astype(ml_dtypes.bfloat16))
integers = np.array([7, -7, 7, -7, 0, -128], np.int8)
divisors = np.array([2, 2, -2, -3, 5, -1], np.int8)
truncated = np.array([3, -3, -3, 2, 0, -128], np.int8)
op("div", [integers, divisors], truncated)
op("rem", [integers, divisors], (integers - truncated * divisors).astype(np.int8))
op("mod", [integers.astype(np.int32), divisors.astype(np.int32)], np.mod(integers.astype(np.int32), divisors))
op("div", [integers, np.zeros(6, np.int8)], integers)
shifts = np.array([0, 1, 7, 8, 9, 3], np.int8)
op("shift_left", [integers, shifts], np.array([7, -14, -128, 0, 0, 0], np.int8))
op("shift_right", [integers, shifts], np.array([7, -4, 0, -1, 0, -16], np.int8))
op("and", [condition, ~condition], condition & ~condition)
op("not", [condition], ~condition)
op("sign", [integers], np.sign(integers))
for source, to in ((x, np.float64), (wide, np.float16), (narrow, np.float32), (x * 3, np.int32), (x * 200, np.int64), (integers, np.float32),
                   (integers, np.bool_), (condition, np.int64), (condition, np.float32), (integers, np.int64),
                   (np.array([300, -300], np.int64), np.int8), (narrow, np.float16)):
    op("cast", [source], source.astype(to))
op("cast", [np.array([300.5, -300.5], np.float32)], np.array([44, -44], np.int8))
op("bitcast", [x], x.view(np.int32))
case("%c = nn.constant dense<[1.5, -2.0]> : tensor<2xf32>\nreturn %c", [], np.array([1.5, -2], np.float32))
case("%i = nn.iota dim 1 : tensor<2x3xi64>\nreturn %i", [], np.tile(np.arange(3), (2, 1)))

cube = floats(2, 3, 4)
for kind, function in (("sum", np.sum), ("max", np.max), ("min", np.min), ("prod", np.prod)):
    case(f"%r = nn.reduce {kind} %0 dims [0, 2] : ({{0}}) -> {{r0}}\nreturn %r", [cube], function(cube, axis=(0, 2)))
    whole = random.integers(-5, 6, (3, 4))
    case(f"%r = nn.reduce {kind} %0 dims [1] : ({{0}}) -> {{r0}}\nreturn %r", [whole], function(whole, axis=1))
holed = np.array([[1, np.nan], [2, 3]], np.float32)
case("%r = nn.reduce max %0 dims [1] : ({0}) -> {r0}\nreturn %r", [holed], np.array([np.nan, 3], np.float32))
ones = np.ones((1, 4096), ml_dtypes.bfloat16)
case("%r = nn.reduce sum %0 dims [1] : ({0}) -> {r0}\nreturn %r", [ones], np.array([4096], ml_dtypes.bfloat16))
case("%r = nn.reduce sum %0 dims [0, 1, 2] : ({0}) -> {r0}\nreturn %r", [cube], np.sum(cube, dtype=np.float32))

left, right = floats(5, 2, 3), floats(4, 3)
op("matmul", [left, right], left @ right.T, " {transpose_rhs}")
left, right = floats(1, 3, 2), floats(6, 3, 4)
op("matmul", [left, right], np.swapaxes(left, 1, 2) @ right, " {transpose_lhs}")
op("matmul", [narrow, narrow.T.copy()],
   (narrow.astype(np.float32) @ narrow.T.astype(np.float32)).astype(ml_dtypes.bfloat16))

for to in ((24,), (4, 3, 2), (1, 24, 1)):
    op("reshape", [cube], cube.reshape(to))
for source, to in ((np.float32(3).reshape(()), (1, 1)), (np.float32(3).reshape(1, 1, 1), ()), (floats(5), (5, 1))):
    op("reshape", [source], source.reshape(to))
column = floats(3, 1)
op("broadcast", [column], np.broadcast_to(column, (2, 3, 4)))
op("transpose", [cube], cube.transpose(2, 0, 1), " perm [2, 0, 1]")
case("%r = nn.slice %0 from [1, 0] strides [2, 3] : ({0}) -> {r0}\nreturn %r", [x], x[1:4:2, 0:6:3])
case("%r = nn.slice %0 from [3, 5] strides [-1, -2] : ({0}) -> {r0}\nreturn %r", [x], x[3::-1, 5::-2])
case("%r = nn.pad %0 by [1:0, 0:2] value 2.5 : f32 : ({0}) -> {r0}\nreturn %r", [x],
     np.pad(x, ((1, 0), (0, 2)), constant_values=2.5))
parts = [floats(2, 3), floats(2, 1), floats(2, 2)]
op("concat", parts, np.concatenate(parts, axis=1), " dim 1")
table, ids = floats(10, 4), np.array([[0, -1, 9], [-10, 3, 3]])
op("gather", [table, ids], table[ids], " dim 0")
data, places = floats(2, 5, 3), np.array([[0, 4], [-1, 2]])
op("gather", [data, places], np.stack([data[i][places[i]] for i in range(2)]), " dim 1 {batched}")
op("gather", [cube, np.array([2, 0], np.int32)], cube[:, :, [2, 0]], " dim 2")

# Steps of optimizers, by PyTorch's formulas.
w, g, m, v = floats(7), floats(7), floats(7), np.abs(floats(7))
lr, c1, c2 = (np.float32(value).reshape(()) for value in (0.1, 0.5, 0.25))
velocity = 0.9 * m + (g + 0.01 * w)
case("%w, %v = nn.sgd_update %0, %1, %2, %3 momentum 0.9 weight_decay 0.01 : {0}\nreturn %w, %v", [w, g, m, lr],
     w - 0.1 * velocity, velocity)
decayed = w * (1 - 0.1 * 0.01)
m1, v1 = m + (1 - 0.9) * (g - m), 0.999 * v + (1 - 0.999) * g * g
case("%w, %m, %v = nn.adam_update %0, %1, %2, %3, %4, %5, %6 beta1 0.9 beta2 0.999 epsilon 1.0e-08 weight_decay 0.01 "
     "{{decoupled}} : {0}\nreturn %w, %m, %v", [w, g, m, v, lr, c1, c2],
     decayed - (0.1 / 0.5) * m1 / (np.sqrt(v1) / 0.5 + 1e-8), m1, v1)

lines = []
for number, (text, inputs, expected) in enumerate(CASES):
    names = {f"r{i}": type_of(y) for i, y in enumerate(expected)}
    text = text.replace(" {transpose", " {{transpose").replace("hs}", "hs}}").replace("{batched}", "{{batched}}")
    body = text.format(*(type_of(x) for x in inputs), **names)
    results = ", ".join(names.values())
    arguments = ", ".join(f"%a{i}: {type_of(x)}" for i, x in enumerate(inputs))
    for i in reversed(range(len(inputs))):
        body = body.replace(f"%{i}", f"%a{i}")
    lines.append(f"func.func @f{number}({arguments}) -> ({results}) attributes {{llvm.emit_c_interface}} {{\n"
                 f"{body} : {results}\n}}")
(OUT / "ops.mlir").write_text("\n".join(lines))


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr[-3000:]}")


run("kerf-opt", OUT / "ops.mlir", "--kerf-nn-to-linalg", "-o", OUT / "linalg.mlir")
run(LLVM / "mlir-opt", OUT / "linalg.mlir", "--one-shot-bufferize=bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map", "--buffer-results-to-out-params=modify-public-functions",
    "--convert-linalg-to-loops", "--arith-expand=include-bf16=true", "--math-expand-ops=ops=ipowi", "--convert-math-to-libm", "--convert-scf-to-cf",
    "--expand-strided-metadata", "--lower-affine", "--convert-to-llvm", "--reconcile-unrealized-casts", "-o",
    OUT / "llvm.mlir")
run(LLVM / "mlir-translate", "--mlir-to-llvmir", OUT / "llvm.mlir", "-o", OUT / "ops.ll")
(OUT / "copy.c").write_text("""
#include <stdint.h>
#include <string.h>
typedef struct { int64_t rank; void *descriptor; } Unranked;
typedef struct { char *base, *data; int64_t offset, sizes[]; } Strided;
void memrefCopy(int64_t size, Unranked *from, Unranked *to) {
  Strided *a = from->descriptor, *b = to->descriptor;
  int64_t rank = from->rank, at[16] = {0};
  for (;;) {
    int64_t i = a->offset, j = b->offset;
    for (int64_t d = 0; d < rank; ++d) i += at[d] * a->sizes[rank + d], j += at[d] * b->sizes[rank + d];
    memcpy(b->data + j * size, a->data + i * size, size);
    int64_t d = rank - 1;
    while (d >= 0 && ++at[d] == a->sizes[d]) at[d--] = 0;
    if (d < 0) return;
  }
}
""")
run(LLVM / "clang", "-shared", "-fPIC", "-O1", "-Wno-override-module", OUT / "ops.ll", OUT / "copy.c", "-o", OUT / "ops.so", "-lm")
library = ctypes.CDLL(str(OUT / "ops.so"))


def descriptor(array):
    strides = [stride // array.itemsize for stride in array.strides]
    return (ctypes.c_int64 * (3 + 2 * array.ndim))(array.ctypes.data, array.ctypes.data, 0, *array.shape, *strides)


for number, (text, inputs, expected) in enumerate(CASES):
    made = [np.zeros(y.shape, y.dtype) for y in expected]
    getattr(library, f"_mlir_ciface_f{number}")(*map(descriptor, [*inputs, *made]))
    for got, wanted in zip(made, expected):
        if wanted.dtype.kind in "biu":
            fine = np.array_equal(got, wanted)
        else:
            loose = {2: 1e-2, 4: 2e-6, 8: 1e-14}[wanted.dtype.itemsize]
            fine = np.allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=loose, atol=loose, equal_nan=True)
        checks.expect(f"{number}: {text.splitlines()[0]}", fine, f"{got}\nexpected\n{wanted}")
checks.finish()
