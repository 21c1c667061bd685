"""Writes formulas.mlir here: gradients of single nn ops from derivatives as tables have them, with numpy alone.

    python formulas.py

The functions are those of make.py, for elementwise ops whose derivative has a closed form.
"""
import pathlib

import numpy as np

random = np.random.default_rng(11)
functions = []


def dense(x):
    return f'dense<"0x{x.tobytes().hex().upper()}"> : {mlir_type(x)}'


def mlir_type(x):
    return "tensor<" + "".join(f"{d}x" for d in x.shape) + "f64>"


def case(name, op, x, result, gradient, words=""):
    """`gradient(upstream)` is the gradient of x."""
    upstream = random.uniform(-1, 1, x.shape)
    t = mlir_type(x)
    functions.append(f"""func.func @{name}(%a0: {t}) -> {t} attributes {{
  test.inputs = [{dense(x)}],
  test.upstream = {dense(upstream)},
  test.result = {dense(result)},
  test.gradients = [{dense(gradient(upstream))}]}} {{
  %r = nn.{op} %a0 {words + " " if words else ""}: {t}
  return %r : {t}
}}
""")


SLOPES = {
    "tan": (np.tan, lambda x: 1 / np.cos(x) ** 2, -1.4, 1.4),
    "sinh": (np.sinh, np.cosh, -3, 3),
    "cosh": (np.cosh, np.sinh, -3, 3),
    "asinh": (np.arcsinh, lambda x: 1 / np.sqrt(x * x + 1), -4, 4),
    "acosh": (np.arccosh, lambda x: 1 / np.sqrt(x * x - 1), 1.1, 6),
    "atanh": (np.arctanh, lambda x: 1 / (1 - x * x), -0.9, 0.9),
}
for op, (function, slope, low, high) in SLOPES.items():
    x = random.uniform(low, high, (3, 5))
    case(op, op, x, function(x), lambda u: u * slope(x))

path = pathlib.Path(__file__).with_name("formulas.mlir")
path.write_text("// Written by formulas.py.\n" + "".join(functions))
print(len(functions), "cases")
