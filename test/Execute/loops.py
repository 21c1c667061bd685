# Loops whose number of iterations is computed, or large: what ONNX Runtime gives, on one, two and four ranks; every
# reference of `kerf verify` says the same; what cannot be is refused by name; a package runs by itself.
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from kerf_commands import Commands
from kerf_tests import Checks, fresh_folder

onnxruntime.set_default_logger_severity(4)
OUT = fresh_folder(sys.argv[1])
checks = Checks()
node = helper.make_node
random = np.random.default_rng(7)
F32, I64 = np.float32, np.int64
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
ENDLESS = np.int64(2**63 - 1)


def body(name, nodes, carried, stacked=(), condition="go"):
    """`carried`: (input, output, type, shape); the nodes define `condition`, which the body gets as `on`."""
    value = helper.make_tensor_value_info
    return helper.make_graph(
        nodes, name, [value("i", I, []), value("on", B, []), *(value(before, kind, shape) for before, _, kind, shape in carried)],
        [value(condition, B, []), *(value(after, kind, shape) for _, after, kind, shape in carried), *(value(each, kind, None) for each, kind in stacked)])


def save(name, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info(each, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for each, value in inputs.items()],
        [helper.make_tensor_value_info(each, kind, None) for each, kind in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), each) for each, value in dict(constants).items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


ONE, DATA, FOUR = ["--devices=cpu:1"], ["--devices=cpu:2", "--mesh=dp=2"], ["--devices=cpu:4", "--mesh=dp=4"]
RANDOM = ["--devices=cpu:4", "--solver=random", "--seed=5"]
STAGES = ["--devices=cpu:2", "--mesh=pp=2"]


def check(kerf, name, path, inputs, plans=(ONE, DATA, FOUR, RANDOM), references=("auto", "unfused", "compiled")):
    given = []
    for each, value in inputs.items():
        np.save(OUT / f"{each}.npy", value)
        given.append(f"--input={each}=@{OUT}/{each}.npy")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = dict(zip([each.name for each in session.get_outputs()], session.run(None, inputs)))
    for flags in plans:
        run = kerf("run", path, *flags, *given, f"--output-dir={OUT}/out", "--threads=1")
        if run.code:
            checks.expect(f"{name} {flags}", False, run.stderr)
            continue
        for output, value in wanted.items():
            got = np.load(OUT / "out" / f"{output}.npy")
            fine = got.shape == value.shape and got.dtype == value.dtype and np.allclose(got, value, 1e-3, 1e-4)
            checks.expect(f"{name} {flags}: {output}", fine, f"{got.shape} {got.dtype}, expected {value.shape} {value.dtype}\n{got}\n{value}")
    for reference in references:
        run = kerf("verify", path, *plans[min(1, len(plans) - 1)], *given, f"--reference={reference}", "--threads=1")
        checks.expect(f"verify {name} {reference}", run.code == 0, run.stdout + run.stderr)
    return wanted


with Commands() as kerf:
    # Newton's square root until no element changes: the condition joins all of them.
    newton = body("newton", [
        node("Div", ["a", "r"], ["q"]), node("Add", ["r", "q"], ["s"]), node("Mul", ["s", "half"], ["next"]), node("Sub", ["next", "r"], ["d"]),
        node("Abs", ["d"], ["ad"]), node("ReduceMax", ["ad"], ["m"], keepdims=0), node("Greater", ["m", "small"], ["go"])], [("r", "next", F, [6])])
    path = save("newton", [node("Loop", ["", "true", "one"], ["root"], body=newton)], {"a": np.zeros(6, F32)}, {"root": F},
                {"half": F32(0.5), "small": F32(1e-4), "one": np.ones(6, F32), "true": np.array(True)})
    for scale in (0.0, 1.0, 1000.0):
        check(kerf, f"newton {scale}", path, {"a": (random.random(6) * scale + 1).astype(F32)})

    # Collatz: the number of steps to 1, and all numbers on the way, 200 at most.
    collatz = body("collatz", [
        node("Mod", ["n", "two"], ["odd"]), node("Equal", ["odd", "unit"], ["isodd"]), node("Mul", ["n", "three"], ["t"]), node("Add", ["t", "unit"], ["up"]),
        node("Div", ["n", "two"], ["down"]), node("Where", ["isodd", "up", "down"], ["next"]), node("Add", ["k", "unit"], ["kn"]),
        node("Greater", ["next", "unit"], ["go"]), node("Identity", ["next"], ["seen"])], [("n", "next", I, []), ("k", "kn", I, [])], [("seen", I)])
    path = save("collatz", [node("Greater", ["start", "unit"], ["go0"]),
                            node("Loop", ["most", "go0", "start", "zero"], ["last", "steps", "way"], body=collatz)],
                {"start": I64(1)}, {"last": I, "steps": I, "way": I},
                {"two": I64(2), "three": I64(3), "unit": I64(1), "zero": I64(0), "most": I64(200)})
    for start in (27, 1, 2, 97):
        wanted = check(kerf, f"collatz {start}", path, {"start": np.array(start, I64)}, plans=(ONE, STAGES))
        checks.expect(f"collatz {start}: steps", wanted["way"].shape == (int(wanted["steps"]),))
    run = kerf("inspect", path)
    checks.expect("inspect", "way: int64[at most 200]" in run.stdout, run.stdout + run.stderr)
    run = kerf("run", path, *ONE, "--input=start=27", "--threads=1")
    checks.expect("printed", "way: i64 111" in run.stdout, run.stdout + run.stderr)

    # A recurrent cell, as often as an input says: samples are cut, weights are captured, rows are stacked. Behind the loop
    # what it stacked is a tensor of a computed size.
    cell = body("cell", [
        node("MatMul", ["h", "w"], ["hw"]), node("Add", ["hw", "b"], ["z"]), node("Tanh", ["z"], ["next"]),
        node("ReduceSum", ["next", "last"], ["total"], keepdims=0),
        node("Identity", ["on"], ["go"])], [("h", "next", F, [8, 16])], [("total", F)])
    W, bias = (random.standard_normal((16, 16)) / 4).astype(F32), random.standard_normal(16).astype(F32)
    constants = {"w": W, "b": bias, "last": np.array([1], I64), "most": I64(30), "first": np.array([0], I64), "true": np.array(True)}
    path = save("cell", [node("Min", ["times", "most"], ["n"]), node("Max", ["n", "none"], ["count"]),
                         node("Loop", ["count", "true", "x"], ["y", "sums"], body=cell), node("Relu", ["sums"], ["positive"]),
                         node("ReduceSum", ["positive", "first"], ["all"], keepdims=0)],
                {"x": np.zeros((8, 16), F32), "times": I64(1)}, {"y": F, "all": F}, constants | {"none": I64(0)})
    for times in (0, 1, 2, 7, 100):
        check(kerf, f"cell {times}", path, {"x": random.standard_normal((8, 16)).astype(F32), "times": np.array(times, I64)},
              plans=(ONE, DATA, FOUR, RANDOM, STAGES, ["--devices=cpu:3", "--mesh=dp=3"]))
    run = kerf("compile", path, *DATA, f"--dump-dir={OUT}/dump", "-o", OUT / "cell.kerf")
    checks.expect("compile", run.code == 0, run.stderr)
    lowered = "".join(each.read_text() for each in (OUT / "dump").glob("05-lower*"))
    checks.expect("samples are cut", "forward_loop0(" in lowered and "memref<4x16xf32>" in lowered, lowered)
    np.save(OUT / "x.npy", np.ones((8, 16), F32))
    run = subprocess.run(["kerf-run", OUT / "cell.kerf", f"--input=x=@{OUT}/x.npy", "--input=times=4", f"--output-dir={OUT}/packaged"],
                         capture_output=True, text=True)
    checks.expect("kerf-run", run.returncode == 0, run.stderr)
    h = np.ones((8, 16), F32)
    for _ in range(4):
        h = np.tanh(h @ W + bias)
    checks.expect("kerf-run: y", run.returncode == 0 and np.allclose(np.load(OUT / "packaged" / "y.npy"), h, 1e-3, 1e-4))

    # A loop in a loop, each until its sum is large enough; a value that no iteration changes; one that is not read.
    inner = body("inner", [
        node("Mul", ["v", "growth"], ["vn"]), node("ReduceSum", ["vn"], ["vs"], keepdims=0), node("Less", ["vs", "bound"], ["go"])], [("v", "vn", F, [4])])
    outer = body("outer", [
        node("Add", ["u", "step"], ["u1"]), node("Loop", ["few", "on", "u1"], ["u2"], body=inner), node("Add", ["bound", "bound"], ["bn"]),
        node("Identity", ["growth"], ["gn"]), node("ReduceSum", ["u2"], ["us"], keepdims=0), node("Less", ["us", "limit"], ["go"])],
        [("u", "u2", F, [4]), ("bound", "bn", F, []), ("growth", "gn", F, [])], [("us", F)])
    path = save("nested", [node("Loop", ["most", "true", "x", "start", "factor"], ["y", "b", "g", "sums"], body=outer)],
                {"x": np.zeros(4, F32), "start": F32(0), "factor": F32(0)}, {"y": F, "b": F, "g": F, "sums": F},
                {"step": np.array([1, 2, 3, 4], F32), "few": I64(5), "most": I64(9), "limit": F32(300), "true": np.array(True)})
    for factor in (1.1, 1.5, 4.0):
        check(kerf, f"nested {factor}", path, {"x": np.ones(4, F32), "start": np.array(8, F32), "factor": np.array(factor, F32)})

    # Greedy decoding until every sample has ended: the token of the largest logit, a cache of fixed size, its row written
    # at the place of the iteration.
    T, H, V = 12, 8, 11
    decode = body("decode", [
        node("Gather", ["table", "token"], ["e"]), node("Unsqueeze", ["e", "axis"], ["row"]), node("Unsqueeze", ["i", "zeroth"], ["at"]),
        node("Equal", ["places", "at"], ["here"]), node("Unsqueeze", ["here", "ends"], ["mask"]), node("Where", ["mask", "row", "cache"], ["kept"]),
        node("Unsqueeze", ["e", "axis"], ["query"]), node("Transpose", ["kept"], ["keys"], perm=[0, 2, 1]), node("MatMul", ["query", "keys"], ["scores"]),
        node("LessOrEqual", ["places", "at"], ["seen"]), node("Where", ["seen", "scores", "low"], ["masked"]), node("Softmax", ["masked"], ["p"], axis=-1),
        node("MatMul", ["p", "kept"], ["mixed"]), node("Squeeze", ["mixed", "axis"], ["m"]), node("Add", ["m", "e"], ["state"]),
        node("MatMul", ["state", "head"], ["logits"]), node("ArgMax", ["logits"], ["best"], axis=1, keepdims=0),
        node("Equal", ["best", "end"], ["ended"]), node("Or", ["done", "ended"], ["over"]), node("Where", ["done", "end", "best"], ["next"]),
        node("Cast", ["over"], ["number"], to=I), node("ReduceMin", ["number"], ["all"], keepdims=0), node("Equal", ["all", "none"], ["go"])],
        [("token", "next", I, [4]), ("cache", "kept", F, [4, T, H]), ("done", "over", B, [4])], [("next", I)])
    path = save("decode", [node("Loop", ["most", "true", "prompt", "empty", "running"], ["t", "c", "d", "tokens"], body=decode)],
                {"prompt": np.zeros(4, I64)}, {"tokens": I, "c": F, "d": B},
                {"table": random.standard_normal((V, H)).astype(F32), "head": random.standard_normal((H, V)).astype(F32), "axis": np.array([1], I64),
                 "zeroth": np.array([0], I64), "ends": np.array([0, 2], I64), "places": np.arange(T, dtype=I64), "low": F32(-1e9), "end": I64(2),
                 "none": I64(0), "most": I64(T), "true": np.array(True), "empty": np.zeros((4, T, H), F32), "running": np.zeros(4, bool)})
    check(kerf, "decode", path, {"prompt": np.array([0, 3, 5, 9], I64)}, references=("auto", "unfused"))

    # Two loops, one behind the other, also in two stages: carried values that change places, a cell of ONNX's in the body, a
    # row of a table, and what was stacked is looked up.
    swap = body("swap", [node("Identity", ["b"], ["an"]), node("MatMul", ["a", "w"], ["m"]), node("Relu", ["m"], ["bn"]), node("Identity", ["on"], ["go"])],
                [("a", "an", F, [8, 16]), ("b", "bn", F, [8, 16])])
    lstm = body("lstm", [
        node("Unsqueeze", ["c", "first"], ["c3"]), node("LSTM", ["c3", "gates", "again"], ["y3", "", ""], hidden_size=16),
        node("Squeeze", ["y3", "second"], ["y2"]), node("Squeeze", ["y2", "first"], ["yc"]), node("Gather", ["table", "i"], ["row"]),
        node("Add", ["yc", "row"], ["next"]), node("Identity", ["on"], ["go"])],
        [("c", "next", F, [8, 16])], [("row", F)])
    path = save("two", [node("Loop", ["n", "", "x", "z"], ["p", "q"], body=swap), node("Add", ["p", "q"], ["s"]), node("Min", ["n", "four"], ["few"]),
                        node("Loop", ["few", "", "s"], ["y", "rows"], body=lstm), node("Reshape", ["rows", "flat"], ["all"]),
                        node("Gather", ["all", "n"], ["picked"])],
                {"x": np.zeros((8, 16), F32), "z": np.zeros((8, 16), F32), "n": I64(1)}, {"y": F, "q": F, "rows": F, "picked": F},
                {"w": W, "gates": random.standard_normal((1, 64, 16)).astype(F32) / 4, "again": random.standard_normal((1, 64, 16)).astype(F32) / 4,
                 "table": random.standard_normal((5, 16)).astype(F32), "four": I64(4), "first": np.array([0], I64), "second": np.array([1], I64),
                 "flat": np.array([-1], I64)})
    for n in (1, 3):
        check(kerf, f"two {n}", path, {"x": random.standard_normal((8, 16)).astype(F32), "z": random.standard_normal((8, 16)).astype(F32),
                                       "n": np.array(n, I64)}, plans=(ONE, DATA, FOUR, RANDOM, STAGES), references=("auto", "unfused"))

    # So many iterations that they are not copies of the body; stacked without a condition their number is known.
    for count in (2000, 100000):
        long = body("long", [node("Mul", ["v", "decay"], ["d"]), node("Add", ["d", "drive"], ["next"]), node("ReduceMax", ["next"], ["top"], keepdims=0),
                             node("Identity", ["on"], ["go"])], [("v", "next", F, [8])], [("top", F)])
        path = save(f"long{count}", [node("Loop", ["count", "", "x"], ["y", "tops"], body=long)], {"x": np.zeros(8, F32)}, {"y": F, "tops": F},
                    {"decay": F32(0.999), "drive": random.random(8).astype(F32), "count": I64(count)})
        run = kerf("compile", path, *ONE, "-o", OUT / "long.kerf")
        checks.expect(f"compile {count}", run.code == 0 and run.seconds < 20, f"{run.seconds} s {run.stderr}")
        if count < 10000:
            check(kerf, f"long {count}", path, {"x": np.ones(8, F32)}, plans=(ONE, DATA), references=("auto",))
        else:
            run = subprocess.run(["kerf-run", OUT / "long.kerf", "--seed=1", "--threads=1"], capture_output=True, text=True)
            checks.expect(f"kerf-run {count}", run.returncode == 0 and f"tops: f32 {count}" in run.stdout, run.stdout + run.stderr)

    # A Scan of as many: rows of one input from the front, of another from behind; results lie along another dimension.
    step = helper.make_graph(
        [node("Mul", ["h", "half"], ["d"]), node("Add", ["d", "a"], ["s"]), node("Sub", ["s", "b"], ["z"]), node("Tanh", ["z"], ["next"]),
         node("Identity", ["next"], ["row"])], "step",
        [helper.make_tensor_value_info(each, F, [4, 3]) for each in ("h", "a", "b")],
        [helper.make_tensor_value_info(each, F, [4, 3]) for each in ("next", "row")])
    path = save("scan", [node("Scan", ["x0", "xa", "xb"], ["last", "rows"], body=step, num_scan_inputs=2, scan_input_axes=[0, 1],
                              scan_input_directions=[0, 1], scan_output_axes=[1])],
                {"x0": np.zeros((4, 3), F32), "xa": np.zeros((1500, 4, 3), F32), "xb": np.zeros((4, 1500, 3), F32)}, {"last": F, "rows": F}, {"half": F32(0.5)})
    run = kerf("compile", path, *ONE, "-o", OUT / "scan.kerf")
    checks.expect("compile scan", run.code == 0 and run.seconds < 20, f"{run.seconds} s {run.stderr}")
    check(kerf, "scan", path, {"x0": random.standard_normal((4, 3)).astype(F32), "xa": random.standard_normal((1500, 4, 3)).astype(F32),
                               "xb": random.standard_normal((4, 1500, 3)).astype(F32)}, plans=(ONE, DATA), references=("auto", "unfused"))

    # What is refused.
    grows = body("grows", [node("Concat", ["v", "v"], ["next"], axis=0), node("Identity", ["on"], ["go"])], [("v", "next", F, None)])
    path = save("grows", [node("Loop", ["n", "true", "x"], ["y"], body=grows)], {"x": np.zeros(2, F32), "n": I64(0)}, {"y": F}, {"true": np.array(True)})
    run = kerf("plan", path)
    checks.expect("grows", run.code == 3 and "changes the shape of a carried value" in run.stderr, run.stderr)
    path = save("open", [node("Loop", ["n", "true", "x"], ["y", "s"], body=cell)], {"x": np.zeros((8, 16), F32), "n": I64(0)}, {"y": F, "s": F}, constants)
    run = kerf("plan", path)
    checks.expect("open", run.code == 3 and "whose number has no bound" in run.stderr, run.stderr)
    path = save("trained", [node("Loop", ["n", "true", "x"], ["y"], body=body("cell", [
        node("MatMul", ["h", "w"], ["next"]), node("Identity", ["on"], ["go"])], [("h", "next", F, [8, 16])]))],
        {"x": np.zeros((8, 16), F32), "n": I64(0)}, {"y": F}, {"w": W, "true": np.array(True)})
    run = kerf("plan", path, "--train", "--loss=mse(y,t)", "--optimizer=sgd")
    checks.expect("trained", run.code == 3 and "Loop_0: 'nn.loop' has no gradient" in run.stderr, run.stderr)
    run = kerf("compile", path, "--devices=cuda:1", "-o", OUT / "gpu.kerf")
    checks.expect("GPU", run.code == 3 and "Loop_0: a loop whose number of iterations is computed" in run.stderr, run.stderr)
checks.finish()
