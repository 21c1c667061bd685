# `kerf verify --train` in 16 bits. A loss that is small beside the scores which 16 bits round differs by more than its own rounding:
# it is no fault, and a fault is still found. Gradients that overflow float16 at the first scale of the loss would leave a step that
# changes nothing: a smaller scale is taken and said, so that the update is compared.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import re
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto as T, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
rng = np.random.default_rng(2)
ROWS, INNER, WIDE = 8, 96, 64


def saved(name, nodes, weights, inputs, output):
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(n, T.FLOAT, s) for n, s in inputs],
                              [helper.make_tensor_value_info(output[0], T.FLOAT, output[1])], [numpy_helper.from_array(w, n) for n, w in weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


def verified(title, code, patterns, *arguments):
    result = kerf("verify", *arguments, "--train")
    text = result.stdout + result.stderr
    checks.expect(title, result.returncode == code and all(re.search(p, text, re.M) for p in patterns), f"{arguments}\n{text}")


# Scores of some -4, what is left of -64 and 60; all labels are 0, so that the loss is near 0.02. The program need not round the -64.
first, second = rng.standard_normal((INNER, WIDE)), rng.standard_normal((WIDE, 1))
x = rng.standard_normal((ROWS, INNER))
hidden = np.maximum(x @ first, 0)
second -= np.linalg.pinv(hidden) @ (hidden @ second + 64 - 0.5 * rng.random((ROWS, 1)))
scores = saved("scores", [helper.make_node("MatMul", ["x", "first"], ["h"], name="first"), helper.make_node("Relu", ["h"], ["r"], name="relu"),
                          helper.make_node("MatMul", ["r", "second"], ["low"], name="second"),
                          helper.make_node("Add", ["low", "shift"], ["score"], name="score")],
               [("first", first.astype(np.float32)), ("second", second.astype(np.float32)), ("shift", np.full(1, 60, np.float32))],
               [("x", [ROWS, INNER])], ("score", [ROWS, 1]))
np.savez(OUT / "scores.npz", x=x.astype(np.float32), labels=np.zeros((ROWS, 1), np.float32))
for optimizer in ("adagrad,lr=0.01", "rmsprop,lr=0.01", "sgd,lr=0.01"):
    arguments = [scores, "--loss=bce_with_logits(score,labels)", f"--input=@{OUT / 'scores.npz'}", "--precision=bf16", f"--optimizer={optimizer}",
                 "--frozen=shift", "--devices=2", "--mesh=dp=2"]
    verified(f"{optimizer}: a small loss of large scores", 0, [r"^equal +loss: 1 element, .* 1 that rounding alone decides"], *arguments)
    verified(f"{optimizer}: and a fault", 1, [r"^differs +loss"], *arguments, "--damage=score")

# A step that changes parameters by less than 16 bits leave of them is judged by what it changes: an update that is left out is found,
# whatever the optimizer makes of a gradient. Where it is less than float32 leaves of the parameters, that is said.
PARAMETERS = [f"layers.{layer}.{what}" for layer in (0, 1, 2) for what in ("weight", "bias")]
mlp = [f"{sys.argv[2]}/training/mlp/model.onnx", "--dim=batch=8", "--loss=cross_entropy(logits,labels)", "--devices=2"]
for number, optimizer in enumerate(("sgd,lr=1e-4", "momentum,lr=1e-4", "adam,lr=1e-4", "adamw,lr=1e-4", "adagrad,lr=1e-4", "rmsprop,lr=1e-5")):
    for precision, mesh, steps in (("bf16", "dp=2", 1), ("f16", "tp=2", 2)):
        arguments = [*mlp, f"--optimizer={optimizer}", f"--precision={precision}", f"--mesh={mesh}", f"--steps={steps}", "-v"]
        title = f"{optimizer} in {precision} on {mesh}"
        verified(f"{title}: a small update", 0, [rf"^equal +{p}: " for p in PARAMETERS] +
                 [r"^equal +layers.0.weight: .*what 16 bits leave of each update"], *arguments)
        left = PARAMETERS[number]
        verified(f"{title}: without that of {left}", 1, [f"^differs +{left}: ", "^ +only what steps change of parameters differs"] +
                 [f"^equal +{p}: " for p in PARAMETERS if p != left], *arguments, f"--damage=update:{left}")
small = [scores, "--loss=bce_with_logits(score,labels)", f"--input=@{OUT / 'scores.npz'}", "--frozen=shift", "--devices=2"]
UPDATES = r"^ +2 of 2 parameters change by no more than rounding leaves of their updates: one that is left out would not be seen$"
verified("less than float32 leaves", 0, [UPDATES], *small, "--optimizer=sgd,lr=1e-14", "--precision=bf16")
WIDE_NOTE = r"^ +2 of 2 parameters change by no more than 16 bits let them differ \(0\.\d+\): .*; --atol=A, or f32, judges them as well$"
verified("compiled", 0, [WIDE_NOTE], *small, "--optimizer=sgd,lr=1e-6", "--precision=bf16", "--reference=compiled")
for title, more in (("in f32", []), ("with a tolerance", ["--precision=bf16", "--atol=1e-9", "--rtol=0"])):
    result = kerf("verify", *small, "--optimizer=sgd,lr=1e-6", *more, "--train")
    checks.expect(f"a small update, {title}", "change by no more" not in result.stdout and "equal " in result.stdout, result.stdout)

# Gradients of some 90, of large inputs: times 1024 they are beyond float16.
steep = saved("steep", [helper.make_node("MatMul", ["x", "w"], ["p"], name="product"), helper.make_node("Add", ["p", "shift"], ["y"], name="shifted")],
              [("w", 2e-4 * rng.standard_normal((INNER, WIDE)).astype(np.float32)), ("shift", np.full(1, 0.5, np.float32))], [("x", [ROWS, INNER])],
              ("y", [ROWS, WIDE]))
np.savez(OUT / "steep.npz", x=(2000 * rng.standard_normal((ROWS, INNER))).astype(np.float32), t=rng.standard_normal((ROWS, WIDE)).astype(np.float32))
arguments = [steep, "--loss=mse(y,t)", "--precision=f16", f"--input=@{OUT / 'steep.npz'}", "--optimizer=adam,lr=1e-5", "--frozen=shift",
             "--devices=2", "--mesh=dp=2"]
SCALE = r"^ +the loss is multiplied by 32: multiplied by 1024 gradients overflow float16"
verified("steep gradients", 0, [SCALE, r"^equal +w: .*largest difference"], *arguments)
verified("steep gradients, compiled", 0, [SCALE], *[a.replace("adam,", "sgd,") if isinstance(a, str) else a for a in arguments], "--reference=compiled")
verified("steep gradients and a fault", 1, [SCALE, r"^differs +loss", r"^first +shifted"], *arguments, "--damage=shifted")
checks.finish()
