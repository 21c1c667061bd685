# Outputs whose size the program computes, as a user sees them: files and what is printed have the size that there is, also
# of 0; every reference of `kerf verify` says the same; `kerf inspect` says what it is at most; a small detector gives what
# ONNX Runtime gives on one, two and four ranks.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import json
import re
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from kerf_commands import Commands
from kerf_tests import Checks, expect_error, fresh_folder

OUT = fresh_folder(sys.argv[1])
checks = Checks()
node = helper.make_node
random = np.random.default_rng(3)
F32, F16, I64 = np.float32, np.float16, np.int64


def save(name, nodes, inputs, outputs, constants=()):
    """A model of ({input: array}, {output: type}); its path."""
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info(each, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for each, value in inputs.items()],
        [helper.make_tensor_value_info(each, kind, None) for each, kind in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), each) for each, value in dict(constants).items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), OUT / f"{name}.onnx")
    for each, value in inputs.items():
        np.save(OUT / f"{each}.npy", value)
    return OUT / f"{name}.onnx"


def expected(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, inputs)))


def given(inputs):
    return [f"--input={name}=@{OUT}/{name}.npy" for name in inputs]


def same(name, path, inputs, run, kerf, arguments):
    """The files of a run are what ONNX Runtime gives."""
    if run.code:
        return checks.expect(name, False, run.stderr)
    for output, value in expected(path, inputs).items():
        got = np.load(OUT / "out" / f"{output}.npy")
        fine = got.shape == value.shape and got.dtype == value.dtype and np.allclose(got, value, 1e-3, 1e-4)
        checks.expect(f"{name}: {output}", fine, f"{got.shape} {got.dtype}, expected {value.shape} {value.dtype}\n{got}\n{value}")


ROWS = [node("NonZero", ["mask"], ["at"]), node("Transpose", ["at"], ["places"], perm=[1, 0]),
        node("GatherND", ["x", "places"], ["rows"]), node("MatMul", ["rows", "w"], ["y"]), node("ReduceMean", ["y", "first"], ["mean"], keepdims=0)]
W = random.standard_normal((16, 8)).astype(F32)
X = random.standard_normal((12, 16)).astype(F32)
MASKS = {"none": np.zeros(12, bool), "some": np.arange(12) % 3 == 1, "all": np.ones(12, bool)}
path = save("rows", ROWS, {"x": X, "mask": MASKS["some"]}, {"at": TensorProto.INT64, "y": TensorProto.FLOAT, "mean": TensorProto.FLOAT},
            {"w": W, "first": np.array([0], I64)})
with Commands() as kerf:
    run = kerf("inspect", path)
    checks.expect("inspect", "at: int64[1, at most 12]" in run.stdout and "y: float[at most 12, 8]" in run.stdout, run.stdout + run.stderr)
    for kind, mask in MASKS.items():
        inputs = {"x": X, "mask": mask}
        np.save(OUT / "mask.npy", mask)
        for flags in (["--devices=cpu:1"], ["--devices=cpu:2", "--mesh=tp=2"], ["--devices=cpu:4", "--solver=random", "--seed=3"],
                      ["--devices=cpu:2", "--mesh=pp=2"]):
            name = f"rows {kind} {' '.join(flags)}"
            run = kerf("run", path, *flags, *given(inputs), f"--output-dir={OUT}/out", "--threads=1")
            if kind == "none":  # the mean of nothing
                np.save(OUT / "out" / "mean.npy", np.full(8, np.nan, F32)) if run.code else None
                got = np.load(OUT / "out" / "y.npy")
                checks.expect(name, run.code == 0 and got.shape == (0, 8) and np.isnan(np.load(OUT / "out" / "mean.npy")).all(), run.stderr)
            else:
                same(name, path, inputs, run, kerf, flags)
            count = int(mask.sum())
            checks.expect(f"{name}: printed", f"y: f32 {count}x8" in run.stdout and "length" not in run.stdout, run.stdout)
        for reference in ("auto", "compiled"):
            run = kerf("verify", path, "--devices=cpu:2", "--mesh=tp=2", *given(inputs), f"--reference={reference}", "--threads=1")
            checks.expect(f"verify {kind} {reference}", run.code == 0 and f"{count * 8} elements" in run.stdout, run.stdout + run.stderr)
    # Files from elsewhere: of another size they differ, larger than can be they are refused.
    np.save(OUT / "mask.npy", MASKS["some"])
    wanted = expected(path, {"x": X, "mask": MASKS["some"]})
    (OUT / "wanted").mkdir()
    for name, value in wanted.items():
        np.save(OUT / "wanted" / f"{name}.npy", value)
    verify = ("verify", path, "--devices=cpu:1", *given({"x": X, "mask": 0}), f"--expected={OUT}/wanted")
    run = kerf(*verify)
    checks.expect("expected", run.code == 0, run.stdout + run.stderr)
    np.save(OUT / "wanted" / "y.npy", wanted["y"][:-1])
    run = kerf(*verify)
    checks.expect("expected, fewer", run.code == 1 and re.search(r"y: has shape \[4, 8\], the reference \[3, 8\]", run.stdout),
                  run.stdout + run.stderr)
    np.save(OUT / "wanted" / "y.npy", np.zeros((13, 8), F32))
    run = kerf(*verify)
    checks.expect("expected, more than can be", run.code == 2 and "f32[13, 8]" in run.stderr, run.stdout + run.stderr)

    # A loss of an output whose size is not known is refused, one of what is reduced is not.
    run = kerf("plan", path, "--train", "--loss=mse(y,t)", "--optimizer=sgd")
    checks.expect("loss", run.code == 2 and "the size of output 'y' is known only when the program runs" in run.stderr, run.stderr)
    run = kerf("plan", path, "--train", "--loss=mse(mean,t)", "--optimizer=sgd")
    checks.expect("loss of a mean", run.code == 0, run.stderr)
    run = kerf("verify", path, "--train", "--loss=mse(mean,t)", "--optimizer=sgd", "--devices=cpu:2", "--mesh=tp=2", "--seed=3", "--threads=1")
    checks.expect("step verified", run.code == 0, run.stdout + run.stderr)
    # A package says it, and one that says it wrongly is refused.
    run = kerf("compile", path, "--devices=cpu:2", "--mesh=tp=2", "-o", OUT / "rows.kerf")
    checks.expect("compile", run.code == 0, run.stderr)
    manifest = OUT / "rows.kerf" / "manifest.json"
    text = json.loads(manifest.read_text())
    bounded = next(i for i, output in enumerate(text["outputs"]) if output["name"] == "y")
    for key, value, said in (("length", 0, "length: expected the number of a length"), ("dim", 2, "dim")):
        changed = json.loads(json.dumps(text))
        changed["outputs"][bounded]["bounded"][0][key] = value
        manifest.write_text(json.dumps(changed))
        expect_error(checks, f"manifest, {key}", [OUT / "rows.kerf", "--seed=1"], 3, [rf"outputs\[{bounded}\].bounded\[0\].{said}"], tool="kerf-run")

    # A detector: a convolution, boxes around the places of its grid, the best of them, and what they are.
    GRID, CLASSES = 8, 3
    centre = np.stack(np.meshgrid(np.arange(GRID) + 0.5, np.arange(GRID) + 0.5, indexing="ij"), -1).reshape(1, -1, 2).astype(F32)
    constants = {
        "body": random.standard_normal((16, 3, 3, 3)).astype(F32) * 0.3, "head": random.standard_normal((4 + CLASSES, 16, 1, 1)).astype(F32),
        "centre": centre, "two": np.array([2, 2, CLASSES], I64), "flat": np.array([2, 4 + CLASSES, -1], I64),
        "most": np.array([5], I64), "overlap": np.array([0.3], F32), "least": np.array([0.6], F32), "columns": np.array([0, 2], I64),
        "one": np.array([1], I64), "zero": np.array([0], I64)}
    nodes = [
        node("Conv", ["image", "body"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "head"], ["h"]), node("Reshape", ["h", "flat"], ["f"]), node("Split", ["f", "two"], ["shift", "size", "logit"], axis=1),
        node("Sigmoid", ["logit"], ["score"]), node("Tanh", ["shift"], ["t"]), node("Transpose", ["t"], ["tt"], perm=[0, 2, 1]),
        node("Add", ["tt", "centre"], ["middle"]), node("Transpose", ["size"], ["st"], perm=[0, 2, 1]), node("Sigmoid", ["st"], ["extent"]),
        node("Sub", ["middle", "extent"], ["low"]), node("Add", ["middle", "extent"], ["high"]), node("Concat", ["low", "high"], ["box"], axis=2),
        node("NonMaxSuppression", ["box", "score", "most", "overlap", "least"], ["chosen"]),
        node("Gather", ["chosen", "columns"], ["place"], axis=1), node("GatherND", ["box", "place"], ["boxes"]),
        node("GatherND", ["score", "chosen"], ["scores"]), node("Slice", ["chosen", "one", "columns2", "one"], ["classes"]),
        node("ReduceSum", ["scores", "zero"], ["total"], keepdims=0), node("Shape", ["scores"], ["count"])]
    constants["columns2"] = np.array([2], I64)
    inputs = {"image": random.standard_normal((2, 3, 2 * GRID, 2 * GRID)).astype(F32)}
    path = save("detector", nodes, inputs, {"boxes": TensorProto.FLOAT, "scores": TensorProto.FLOAT, "classes": TensorProto.INT64,
                                            "total": TensorProto.FLOAT, "count": TensorProto.INT64}, constants)
    for flags in (["--devices=cpu:1"], ["--devices=cpu:2", "--mesh=dp=2"], ["--devices=cpu:4", "--mesh=dp=2,tp=2"],
                  ["--devices=cpu:4", "--solver=random", "--seed=1"], ["--devices=cpu:4", "--solver=random", "--seed=2"],
                  ["--devices=cpu:2", "--mesh=pp=2"]):
        run = kerf("run", path, *flags, *given(inputs), f"--output-dir={OUT}/out", "--threads=1")
        same(f"detector {' '.join(flags)}", path, inputs, run, kerf, flags)
    run = kerf("verify", path, "--devices=cpu:4", "--mesh=dp=2,tp=2", *given(inputs), "--threads=1")
    checks.expect("detector verified", run.code == 0, run.stdout + run.stderr)
checks.finish()
