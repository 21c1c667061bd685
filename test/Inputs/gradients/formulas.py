"""Writes formulas.mlir here: gradients of single nn ops from derivatives as tables have them, with numpy alone.

    python formulas.py

The functions are those of make.py, for ops whose result and derivative have a closed form: elementwise ones of x, and
rows divided by their norm by the matrix of all derivatives of a row.
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


def rows(name, x, p, words):
    """y_i = x_i / n: dy_i/dx_j = (i == j) / n - x_i n_j / n^2, with n_j = dn/dx_j. Rows of zeros stay."""
    y, matrices = np.zeros_like(x), np.zeros((*x.shape, x.shape[-1]))
    for i, row in enumerate(x):
        norm = np.sum(np.abs(row)) if p == 1 else np.sqrt(np.sum(row * row))
        if norm:
            slope = np.sign(row) if p == 1 else row / norm
            y[i] = row / norm
            matrices[i] = np.eye(len(row)) / norm - np.outer(row, slope) / norm ** 2
    case(name, "lp_norm", x, y, lambda u: np.einsum("ij,ijk->ik", u, matrices), words)


SLOPES = {
    "tan": (np.tan, lambda x: 1 / np.cos(x) ** 2, -1.4, 1.4),
    "sinh": (np.sinh, np.cosh, -3, 3),
    "cosh": (np.cosh, np.sinh, -3, 3),
    "asinh": (np.arcsinh, lambda x: 1 / np.sqrt(x * x + 1), -4, 4),
    "acosh": (np.arccosh, lambda x: 1 / np.sqrt(x * x - 1), 1.1, 6),
    "atanh": (np.arctanh, lambda x: 1 / (1 - x * x), -0.9, 0.9),
    "log1p": (np.log1p, lambda x: 1 / (1 + x), -0.9, 4),
    "atan": (np.arctan, lambda x: 1 / (1 + x * x), -4, 4),
    "asin": (np.arcsin, lambda x: 1 / np.sqrt(1 - x * x), -0.9, 0.9),
    "acos": (np.arccos, lambda x: -1 / np.sqrt(1 - x * x), -0.9, 0.9),
}
for op, (function, slope, low, high) in SLOPES.items():
    x = random.uniform(low, high, (3, 5))
    case(op, op, x, function(x), lambda u: u * slope(x))
x = random.uniform(-2, 2, (4, 5))
x[2] = 0
rows("lp_norm_2", x, 2, "dim 1")
rows("lp_norm_1", x, 1, "dim 1 {absolute}")
x = random.uniform(-4, 4, (3, 5))
s = 1 / (1 + np.exp(-x))
case("silu", "silu", x, x * s, lambda u: u * (s + x * np.exp(-x) * s ** 2))

path = pathlib.Path(__file__).with_name("formulas.mlir")
path.write_text("// Written by formulas.py.\n" + "".join(functions))
print(len(functions), "cases")
