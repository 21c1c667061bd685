# `kerf verify` against references that share no code with what they judge: which one is chosen and what it says of
# itself; files of others; faults that are put in and found at their node; numbers that are no plain ones.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %models %inputs
import json
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[3])
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, in_parallel, kerf

OUT, MODELS, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
MLP = [MODELS / "mlp/model.onnx", "--dim=batch=8"]
random = np.random.default_rng(0)
checks = Checks()


def info(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name, *shape):
    return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)


def written(name, nodes, inputs, outputs, initializers=(), opset=18):
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    onnx.save(model, OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


def verify(name, arguments, code, patterns=(), absent=()):
    result = kerf("verify", *arguments)
    problems = [f"exit {result.returncode}, expected {code}"] * (result.returncode != code)
    problems += [f"lacks /{p}/" for p in patterns if not re.search(p, result.stdout, re.M)]
    problems += [f"has /{p}/" for p in absent if re.search(p, result.stdout, re.M)]
    checks.expect(name, not problems, "\n".join(["  " + " ".join(map(str, arguments)), *problems, result.stdout,
                                                  result.stderr]))
    return result


# Two branches that a gate joins.
gate = written("gate", [
    helper.make_node("MatMul", ["x", "w1"], ["a"], name="left"),
    helper.make_node("Relu", ["a"], ["ar"], name="left_relu"),
    helper.make_node("MatMul", ["x", "w2"], ["b"], name="right"),
    helper.make_node("Sigmoid", ["b"], ["bs"], name="right_sigmoid"),
    helper.make_node("Mul", ["ar", "bs"], ["m"], name="gate"),
    helper.make_node("MatMul", ["m", "w3"], ["o"], name="out"),
    helper.make_node("Add", ["o", "x"], ["y"], name="residual"),
], [info("x", T.FLOAT, "batch", 6)], [info("y", T.FLOAT, "batch", 6)],
    [weight("w1", 6, 10), weight("w2", 6, 10), weight("w3", 10, 6)])
GATE = [gate, "--dim=batch=4"]

# Every reference, on one rank and cut; the import and formulas are all that is shared but by the compiled one.
one = r"^verified: 1 rank, bytes sent as planned$"
for mesh in ([], ["--devices=2", "--mesh=dp=2"]):
    name = " ".join(mesh)
    verify(f"auto {name}", [*GATE, *mesh], 0, [r"^reference interpreted: .*; shares the import of the model and the "
                                               r"formulas of single elements with the program$", r"^equal +y: 24 elements"])
    verify(f"unfused {name}", [*GATE, *mesh, "--reference=unfused"], 0, [r"^reference unfused: .*plain loops.*; shares "
                                                                         r"the import of the model and the formulas of "
                                                                         r"single elements with the program$"])
    verify(f"compiled {name}", [*GATE, *mesh, "--reference=compiled"], 0,
           [r"^reference compiled: .*; shares the import of the model, fusion, library calls, .*the runtime"])
verify("one rank", GATE, 0, [one])
verify("quiet", [*GATE, "-q"], 0, absent=["."])
verify("bf16", [*GATE, "--precision=bf16"], 0, ["shares the import of the model, its simplification and the formulas of single elements with"])

# No time for the whole: samples, which are named; nor for a sample, or samples are mixed: said, not hidden.
verify("samples", [*GATE, "--reference-seconds=1.7e-6"], 0,
       [r"^reference unfused", r"^ +compared: samples? [0-3](, [0-3])* of 4, drawn from the seed$"])
sampled = verify("samples of a fault", [*GATE, "--reference-seconds=1.7e-6", "--damage=gate"], 1, [r"^first +gate \(nn.mul\)"])
verify("no time", [*GATE, "--reference-seconds=1e-12"], 0,
       [r"^reference compiled", "an independent reference would take about .* s; --reference=unfused computes it"])
mixed = written("mixed", [helper.make_node("ReduceMean", ["x", "axes"], ["mean"], name="mean", keepdims=1),
                          helper.make_node("Sub", ["x", "mean"], ["y"], name="centre")],
                [info("x", T.FLOAT, "batch", 6)], [info("y", T.FLOAT, "batch", 6)],
                [numpy_helper.from_array(np.array([0]), "axes")])
verify("mixed samples", [mixed, "--dim=batch=4", "--reference-seconds=1e-9"], 0, [r"^reference compiled"])

# A value that is wrong is found at its node, on one rank and cut. The compiled reference is not fooled by a fault of
# the judged program alone; what is wrong in both it cannot see, which is why it is not the default.
for mesh in ([], ["--devices=4", "--mesh=dp=2,tp=2"], ["--devices=2", "--mesh=pp=2", "--micro-batches=2"]):
    for node, kind in (("left", "matmul"), ("gate", "mul"), ("out", "matmul"))[bool(mesh):]:
        verify(f"{node} {mesh}", [*GATE, *mesh, f"--damage={node}"], 1,
               [r"^differs +y: ", rf"^first +{node} \(nn.{kind}\): ", "every value was handed out", "^NOT equal"])
# A fault that is there only while the value is not handed out, as one of fusion: where it shows first, and between
# which nodes it is.
for node, shows, reads in (("left_relu", r"gate \(nn.mul\)", "left_relu"), ("gate", r"out \(nn.matmul\)", "gate"),
                           ("out", r"residual \(nn.add\)", "out")):
    verify(f"fused {node}", [*GATE, f"--damage=fused:{node}"], 1,
           [rf"^first +{shows}: ", rf"what it reads, .*{reads} .*, is right where it is handed out; .*computed together"])
document = json.loads(verify("json", [*GATE, "--damage=gate", "--json"], 1).stdout)
checks.expect("json says the same", document["schema"] == "kerf.verify/1" and not document["equal"]
              and document["reference"]["kind"] == "interpreted"
              and document["reference"]["shares"] == ["the import of the model", "the formulas of single elements"]
              and document["first_difference"]["value"] == "gate (nn.mul)"
              and document["outputs"][0]["wrong"] == 24, document)
expect_error(checks, "no such node", ["verify", *GATE, "--damage=nobody"], 2, ["nobody"])

# float16: -65504, which exporters write for what a row must not see, swallows a score once the sum is rounded to float16.
# The program keeps f32 there, as ONNX Runtime does; of a row that sees nothing the two give other weights. Both are right,
# a fault is none of them.
mask = np.triu(np.full((6, 6), -65504, np.float16), 1)
mask[0] = -65504
masked = written("masked", [
    helper.make_node("Transpose", ["x"], ["xt"], perm=[0, 2, 1]),
    helper.make_node("MatMul", ["x", "xt"], ["s"], name="scores"),
    helper.make_node("Add", ["s", "mask"], ["sm"], name="masked"),
    helper.make_node("Softmax", ["sm"], ["p"], name="weights", axis=-1),
    helper.make_node("MatMul", ["p", "x"], ["y"], name="sums"),
], [info("x", T.FLOAT16, "batch", 6, 8)], [info("y", T.FLOAT16, "batch", 6, 8)], [numpy_helper.from_array(mask, "mask")])
# Of all drawn rows the first sees nothing: one sample's first row of y.
for reference in ("interpreted", "unfused"):
    MASKED = [masked, "--dim=batch=2", f"--reference={reference}"]
    verify(f"masked {reference}", MASKED, 0, [r"^equal +y: 96 elements.*; 1[0-6] as without rounding 16-bit values"])
    verify(f"masked {reference} damaged", [*MASKED, "--damage=sums"], 1, [r"^differs +y: .*; [89][0-9] outside"])
verify("masked samples", [masked, "--dim=batch=2", "--reference-seconds=1.8e-6"], 0, ["compared: sample", "as without rounding"])

# Training: autodiff is shared too and said; a fault of the backward pass has the node of its forward.
TRAIN = [INPUTS / "training/mlp/model.onnx", "--dim=batch=8", "--train", "--loss=cross_entropy(logits,labels)",
         "--optimizer=sgd,lr=0.1", "--threads=1", "-v"]
verify("training", [*TRAIN, "--steps=3"], 0, ["shares the import of the model, autodiff and the formulas of single elements with", "equal +layers.0.weight"])
verify("fault of training", [*TRAIN, "--damage=node_gelu", "--devices=2", "--mesh=pp=2", "--micro-batches=2"], 1,
       [r"differs +layers.0.weight", r"^first +node_gelu \(nn.gelu_gradient\)"])
# BatchNorm's statistics are those of micro-batches, or of each device's part of them: the reference runs on such parts.
NORM = [INPUTS / "training/conv-batch-norm/model.onnx", *TRAIN[1:], "--steps=2"]
for name, flags in (("micro-batches", ["--accumulate=2"]), ("micro-batches of two ranks", ["--accumulate=2", "--devices=2",
                                                                                          "--mesh=dp=2"]),
                    ("devices", ["--batch-norm=local", "--devices=2", "--mesh=dp=2"]),
                    ("micro-batches of devices", ["--batch-norm=local", "--devices=4", "--mesh=pp=2,dp=2", "--micro-batches=2"])):
    verify(f"statistics of {name}", [*NORM, *flags], 0, [r"^reference interpreted", "^equal +norm1.running_var", "^equal +conv1.weight"])
LOCAL = ["--batch-norm=local", "--devices=2", "--mesh=dp=2"]
expect_error(checks, "statistics that one device has not", ["verify", *NORM, *LOCAL, "--reference=compiled"], 2,
             ["--reference=compiled: with --batch-norm=local a program for one device has no statistics", "note: --reference=unfused"])


def normalized(name, nodes, *given):
    """BatchNorm, `nodes` from its result "n" to "y"."""
    return [written(name, [helper.make_node("MatMul", ["x", "w"], ["a"], name="linear"),
                           helper.make_node("BatchNormalization", ["a", "scale", "bias", "mean", "variance"], ["n"], name="norm"), *nodes],
                    [info("x", T.FLOAT, "batch", 6)], [info("y", T.FLOAT, "batch", 10)],
                    [weight("w", 6, 10), *(weight(each, 10) for each in ("scale", "bias", "mean")),
                     numpy_helper.from_array(np.ones(10, np.float32), "variance"), *given]),
            "--dim=batch=8", "--train", "--loss=cross_entropy(y,labels)", "--optimizer=sgd", "--threads=1"]


# A state from which every sample begins has a row for each of them: the gradient of what is multiplied with it sums over
# the rows of a part.
begins = normalized("begins", [helper.make_node("Add", ["state", "n"], ["d"], name="begin"), helper.make_node("MatMul", ["state", "u"], ["e"], name="recur"),
                               helper.make_node("Add", ["d", "e"], ["y"], name="next")], weight("state", 8, 10), weight("u", 10, 10))
verify("statistics beside a state of each sample", [*begins, *LOCAL, "--frozen=state"], 0, [r"^reference interpreted", "^equal +u: "])
# What cannot be run on a part is named, with what can be done: what needs the whole batch, and what multiplies single
# samples by a sum over all of them (on parts that sum would be another).
for kind in ("ReduceMax", "ReduceSum"):
    whole = normalized(kind, [helper.make_node(kind, ["n", "axes"], ["r"], name="over_batch"), helper.make_node("Mul", ["n", "r"], ["y"], name="gate")],
                       numpy_helper.from_array(np.array([0]), "axes"))
    at = r"over_batch \(nn.reduce\)" if kind == "ReduceMax" else r"gate \(nn.mul\)"
    for reference, first in (("auto", "--batch-norm=local: nothing to compare with"), ("unfused", "--reference=unfused")):
        expect_error(checks, f"{kind} {reference}", ["verify", *whole, *LOCAL, f"--reference={reference}"], 2,
                     [f"error: {first}: .*an independent reference cannot run {at} on a part", "note: with --batch-norm=sync the step can be verified"])
    verify(f"{kind} as the note says", [*whole, *LOCAL[1:]], 0, ["^equal +w: "])

# Files of others share nothing. All are needed, of the right shape and type.
expected = OUT / "expected"
kerf("run", *MLP, "--seed=0", "-q", f"--output-dir={expected}")
verify("expected", [*MLP, f"--expected={expected}", "--devices=2"], 0,
       [r"^reference expected: the files of .*; shares nothing with the program$", "^equal +logits"])
logits = np.load(expected / "logits.npy")
spoiled = logits.copy()
spoiled[5, 7] = np.nan
for name, array, code in (("one-nan", spoiled, 1), ("narrow", logits.astype(np.float16), 2), ("short", logits[:7], 2)):
    (OUT / name).mkdir()
    np.save(OUT / name / "logits.npy", array)
    arguments = [*MLP, f"--expected={OUT / name}"]
    if code == 1:
        verify(name, arguments, 1, [r"differs +logits: .*at \[5, 7\] \(.* against nan\).*; 1 outside",
                                    "one operator at a time gives the program's outputs"])
    else:
        expect_error(checks, name, ["verify", *arguments], 2, ["logits.npy", re.escape("f16[8, 24]" if name == "narrow" else "f32[7, 24]"),
                                                               re.escape("f32[8, 24]")])
(OUT / "none").mkdir()
expect_error(checks, "no file", ["verify", *MLP, f"--expected={OUT / 'none'}"], 2, ["output logits has no file", "logits.npy"])
expect_error(checks, "no folder", ["verify", *MLP, f"--expected={OUT / 'nowhere'}"], 2,
             [r"error: --expected: \S*nowhere: cannot open: No such file or directory\n"])
expect_error(checks, "a file", ["verify", *MLP, f"--expected={expected / 'logits.npy'}"], 2,
             [r"--expected: \S*logits.npy: is a file, expected a folder of NAME.npy"])
expect_error(checks, "both", ["verify", *MLP, f"--expected={expected}", "--reference=unfused"], 2, ["--expected"])
expect_error(checks, "unknown", ["verify", *MLP, "--reference=oracle"], 2, ["oracle", "interpreted"])
expect_error(checks, "seconds", ["verify", *MLP, "--reference-seconds=0"], 2, ["reference-seconds"])

# Integers are equal or not, whatever their size; infinities and NaN equal themselves alone; nothing equals nothing.
numbers = written("numbers", [
    helper.make_node("Log", ["x"], ["l"], name="log"), helper.make_node("Mul", ["x", "inf"], ["i"], name="infinite"),
    helper.make_node("ArgMax", ["x"], ["a"], name="argmax", axis=0, keepdims=0),
    helper.make_node("Less", ["x", "zero"], ["b"], name="less"),
    helper.make_node("Mul", ["k", "thousands"], ["n"], name="thousand"),
    helper.make_node("Slice", ["x", "from", "from"], ["e"], name="nothing"),
    helper.make_node("Cast", ["x"], ["h"], name="half", to=T.FLOAT16), helper.make_node("Exp", ["h"], ["p"], name="exp"),
], [info("x", T.FLOAT, 9), info("k", T.INT32, 4)],
    [info("l", T.FLOAT, 9), info("i", T.FLOAT, 9), info("a", T.INT64), info("b", T.BOOL, 9), info("n", T.INT32, 4),
     info("e", T.FLOAT, 0), info("p", T.FLOAT16, 9)],
    [numpy_helper.from_array(np.float32(np.inf), "inf"), numpy_helper.from_array(np.float32(0), "zero"),
     numpy_helper.from_array(np.int32(5000), "thousands"), numpy_helper.from_array(np.array([0]), "from")])
for reference in ("interpreted", "unfused"):
    verify(f"numbers {reference}", [numbers, f"--reference={reference}"], 0, [f"^equal +{name}: " for name in "lianep"])
kerf("run", numbers, "--seed=0", "-q", f"--output-dir={OUT / 'numbers'}")
for name, change in (("n", lambda a: a + 1), ("i", lambda a: np.where(np.isinf(a), 7, a).astype(a.dtype)),
                     ("l", lambda a: np.nan_to_num(a)), ("b", lambda a: ~a)):
    right = np.load(OUT / f"numbers/{name}.npy")
    np.save(OUT / f"numbers/{name}.npy", change(right))
    verify(f"wrong {name}", [numbers, f"--expected={OUT / 'numbers'}"], 1, [f"^differs +{name}: "],
           [f"^differs  [^{name}]"])
    np.save(OUT / f"numbers/{name}.npy", right)
# A tolerance that is larger than all numbers tells nothing, which is said.
tiny = written("tiny", [helper.make_node("Mul", ["x", "little"], ["y"])], [info("x", T.FLOAT, 4, 8)], [info("y", T.FLOAT, 4, 8)],
               [numpy_helper.from_array(np.float32(1e-9), "little")])
SMALL = r"no number is larger than atol, so zeros would be equal, too: a smaller --atol tells"
verify("numbers below the tolerance", [tiny], 0, [SMALL])
verify("and with a smaller one", [tiny, "--atol=1e-14"], 0, [r"^equal +y: "], [SMALL])
# A norm adds up squares in f32, which overflow long before its rows do.
large = written("large", [helper.make_node("Mul", ["x", "much"], ["l"], name="large"),
                          helper.make_node("LayerNormalization", ["l", "scale"], ["n"], name="norm"), helper.make_node("Add", ["n", "x"], ["y"])],
                [info("x", T.FLOAT, 4, 8)], [info("y", T.FLOAT, 4, 8)],
                [numpy_helper.from_array(np.float32(1e25), "much"), numpy_helper.from_array(np.ones(8, np.float32), "scale")])
for reference in ("interpreted", "unfused"):
    verify(f"squares that overflow, {reference}", [large, f"--reference={reference}"], 0, [r"^equal +y: "])
# Where everything is NaN in both, nothing was compared, and nothing is verified.
roots = written("roots", [helper.make_node("Log", ["below"], ["l"], name="log"), helper.make_node("Mul", ["x", "l"], ["y"], name="scaled")],
                [info("x", T.FLOAT, 4, 3)], [info("y", T.FLOAT, 4, 3)], [numpy_helper.from_array(np.float32([-1, -2, -3]), "below")])
NOTHING = r", so nothing was compared; inputs that are not given are drawn at random, --input=NAME=\.\.\. gives one that the model takes$"
verify("all NaN", [roots], 1, [r"^NOT verified: all outputs are NaN in the program and in the reference" + NOTHING], ["^verified"])
verify("all NaN, in a word", [roots, "-q"], 1, [r"^NOT verified: all outputs are NaN"])
verify("a loss of NaN", [roots, "--train", "--loss=mse(y,t)", "--optimizer=sgd,lr=0.1", "--trainable=below"], 1,
       [r"^NOT verified: the loss is NaN in the program and in the reference" + NOTHING], ["^verified"])
checks.expect("all NaN as JSON", '"compared": false' in kerf("verify", roots, "--json").stdout)
verify("integers within a tolerance that is asked for", [numbers, "--atol=0", "--rtol=0.001"], 0)
checks.finish()
