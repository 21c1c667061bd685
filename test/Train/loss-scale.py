# Training in float16: the scale of the loss, which steps are skipped, and the losses, against NumPy on one rank and on
# each kind of mesh; gradients that float16 does not hold without a scale; a run that is taken up again.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
rng = np.random.default_rng(7)
BATCH, RATE = 8, 0.5
half = lambda values: values.astype(np.float16).astype(np.float64)


def write(name, first, second, x, t):
    """y = relu(x a) b, and samples (x, t)."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
         helper.make_node("MatMul", ["r", "b"], ["y"])],
        name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", first.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", second.shape[1]])],
        [numpy_helper.from_array(first.astype(np.float32), "a"), numpy_helper.from_array(second.astype(np.float32), "b")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / f"{name}.onnx")
    np.savez(OUT / f"{name}.npz", x=x.astype(np.float32), t=t.astype(np.float32))


def expected(first, second, x, t, steps, scale, interval):
    """Lines of the log as NumPy has them: operands and results of products are rounded to float16. What overflows first
    is the gradient of y, which every program rounds, and by a margin."""
    first, second, since, lines = first.copy(), second.copy(), 0, []
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            h = half(half(x) @ half(first))
            r = np.maximum(h, 0)
            y = half(half(r) @ half(second))
            dy = half(scale * 2 * (y - t) / y.size)
            db = half(half(r).T @ dy)
            dh = half(np.where(h > 0, half(dy @ half(second).T), 0))
            da = half(half(x).T @ dh)
            fine, largest = bool(np.isfinite(da).all() and np.isfinite(db).all()), scale * 2 * abs(y - t).max() / y.size
            assert (largest > 65520) != fine and abs(largest / 65520 - 1) > 0.01
            lines.append({"loss": np.mean((y - t) ** 2), "loss_scale": scale, "skipped": not fine})
            if fine:
                first -= RATE * da / scale
                second -= RATE * db / scale
                since += 1
                if since == interval:
                    since, scale = 0, 2 * scale
            else:
                since, scale = 0, scale / 2
    return lines


def trained(name, label, steps, *flags, rate=RATE):
    log, model = OUT / "log.jsonl", OUT / "trained.onnx"
    if "--resume" not in flags:
        log.unlink(missing_ok=True)
    result = kerf("train", OUT / f"{name}.onnx", "--loss=mse(y,t)", f"--optimizer=sgd,lr={rate}", f"--data={OUT / name}.npz",
                  f"--batch-size={BATCH}", f"--steps={steps}", "--shuffle=off", "-o", model, f"--log={log}", "--threads=1", *flags)
    checks.expect(f"{label}: runs", result.returncode == 0, result.stderr)
    if result.returncode:
        return [], {}
    return ([line for line in map(json.loads, log.read_text().splitlines()) if "loss" in line],
            {each.name: numpy_helper.to_array(each) for each in onnx.load(model).graph.initializer})


MESHES = ([], ["--devices=2", "--mesh=dp=2"], ["--devices=2", "--mesh=tp=2"], ["--devices=2", "--mesh=pp=2", "--micro-batches=2"],
          ["--devices=4", "--mesh=dp=2,tp=2"], ["--devices=3", "--solver=random", "--seed=5"])
a, b = rng.standard_normal((12, 16)) * 0.4, rng.standard_normal((16, 4)) * 0.1
x, t = 0.05 * rng.standard_normal((BATCH, 12)), 0.3 * rng.standard_normal((BATCH, 4))
write("plain", a, b, x, t)

# The default start overflows nothing here; 2^22 does, for several steps; after that it grows every three and overflows again.
for scale, interval, steps in ((65536, 2000, 6), (2**22, 3, 24)):
    wanted = expected(a, b, x, t, steps, float(scale), interval)
    checks.expect(f"{scale}: says something", any(line["skipped"] for line in wanted) == (scale > 65536), str(wanted))
    for mesh in MESHES:
        label = f"{scale} {' '.join(mesh) or 'one rank'}"
        flags = [] if scale == 65536 else [f"--loss-scale={scale}", f"--loss-scale-interval={interval}"]
        found, _ = trained("plain", label, steps, "--precision=f16", *flags, *mesh)
        checks.expect(f"{label}: scales", [line["loss_scale"] for line in found] == [line["loss_scale"] for line in wanted], str(found))
        checks.expect(f"{label}: skipped", [line.get("skipped", False) for line in found] == [line["skipped"] for line in wanted], str(found))
        losses = [[line["loss"] for line in lines] for lines in (found, wanted)]
        checks.expect(f"{label}: losses", len(found) == steps and np.allclose(*losses, rtol=2e-3), str(losses))

# Gradients of about 1e-8: 0 in float16, unless the loss is scaled. Everything in front of them is exact.
x, a, b = rng.integers(-1, 2, (BATCH, 12)) / 4, rng.integers(-2, 3, (12, 16)) / 8, rng.integers(-1, 2, (16, 4)) / 8
y = np.maximum(x @ a, 0) @ b
write("small", a, b, x, y + 2e-7 * rng.choice([-1, 1], y.shape))
start = {"a": a.astype(np.float32), "b": b.astype(np.float32)}
for scale, moves in ((1, False), (65536, True)):
    _, weights = trained("small", f"small gradients at {scale}", 1, "--precision=f16", f"--loss-scale={scale}", rate=1000)
    changed = any((weights[name] != start[name]).any() for name in start) if weights else None
    checks.expect(f"small gradients at {scale}: {'move' if moves else 'are lost'}", changed == moves, str(changed))

# A run in two parts is the run in one.
flags = ["--precision=f16", "--loss-scale=4194304", "--loss-scale-interval=3", f"--checkpoint-dir={OUT / 'checkpoints'}"]
whole, weights = trained("plain", "whole", 20, *flags[:3])
trained("plain", "first part", 11, *flags)
parts, again = trained("plain", "second part", 20, *flags, "--resume")
same = ("step", "loss", "loss_scale", "skipped")
checks.expect("two parts: log", [[line.get(key) for key in same] for line in parts] == [[line.get(key) for key in same] for line in whole], str(parts))
checks.expect("two parts: weights", weights and all((weights[name] == again[name]).all() for name in weights))

result = kerf("train", OUT / "plain.onnx", "--loss=mse(y,t)", "--optimizer=sgd", f"--data={OUT / 'plain'}.npz", "--steps=12", f"--batch-size={BATCH}",
              f"--checkpoint-dir={OUT / 'checkpoints'}", "--resume", "--no-output", "--shuffle=off")
checks.expect("another precision: refused", result.returncode == 2 and "scale of the loss" in result.stderr, result.stderr)

# Targets far beyond float16, with a loss that float32 holds: no scale is small enough.
write("large", a, b, x, np.full((BATCH, 4), 1e16))
result = kerf("train", OUT / "large.onnx", "--loss=mse(y,t)", "--optimizer=sgd", f"--data={OUT / 'large'}.npz", "--steps=99", f"--batch-size={BATCH}",
              "--no-output", "--shuffle=off", "--precision=f16")
checks.expect("no scale helps: ends", result.returncode == 5 and "overflow float16 at a loss scale of" in result.stderr, result.stderr)

# Whole models: convolutions, attention.
for model, mesh in (("conv-batch-norm", "dp=2"), ("gpt2", "tp=2"), ("llama", "pp=2")):
    result = kerf("verify", f"{sys.argv[2]}/training/{model}/model.onnx", "--dim=batch=8", "--devices=2", f"--mesh={mesh}", "--train",
                  "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.002", "--precision=f16", "--steps=2", "--quiet")
    checks.expect(f"{model}: verified", result.returncode == 0, result.stdout + result.stderr)

for flags, words in ((["--loss-scale=1000", "--precision=f16"], ["--loss-scale", "power of two"]), (["--loss-scale=1024"], ["--precision=f16"])):
    result = kerf("train", OUT / "plain.onnx", "--loss=mse(y,t)", "--optimizer=sgd", f"--data={OUT / 'plain'}.npz", *flags)
    checks.expect(f"{flags}: refused", result.returncode == 2 and all(word in result.stderr for word in words), result.stderr)
checks.finish()
