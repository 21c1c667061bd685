# Data that is nearly right: what is wrong, and what NumPy makes right of it; labels that are a loss's of another kind.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t
import pathlib
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Inputs"))
from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
rng = np.random.default_rng(0)


def model(name, nodes, inputs, output, **weights):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*each) for each in inputs], [helper.make_tensor_value_info("y", 1, output)],
                              [numpy_helper.from_array(array.astype(np.float32), key) for key, array in weights.items()])
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), OUT / name)
    return OUT / name


IMAGES = model("images.onnx", [helper.make_node("Conv", ["image", "w"], ["c"]), helper.make_node("ReduceMean", ["c", "axes"], ["y"], keepdims=0)],
               [("image", TensorProto.FLOAT, ["batch", 3, 8, 8])], ["batch", 5], w=rng.standard_normal((5, 3, 3, 3)))
graph = onnx.load(IMAGES)
graph.graph.initializer.append(numpy_helper.from_array(np.array([2, 3], np.int64), "axes"))
onnx.save(graph, IMAGES)
TOKENS = model("tokens.onnx", [helper.make_node("Gather", ["table", "ids"], ["rows"]), helper.make_node("MatMul", ["rows", "out"], ["y"])],
               [("ids", TensorProto.INT64, ["batch", 6])], ["batch", 6, 16], table=rng.standard_normal((16, 8)), out=rng.standard_normal((8, 16)))


def command(path, loss, **arrays):
    np.savez(OUT / "data.npz", **arrays)
    return ["train", path, f"--loss={loss}", "--optimizer=sgd,lr=0.1", "--steps=1", "--batch-size=4", f"--data={OUT / 'data.npz'}", "--threads=1", "--no-output"]


image, labels = rng.standard_normal((8, 3, 8, 8)).astype(np.float32), rng.integers(0, 5, 8)
assert kerf(*command(IMAGES, "cross_entropy(y,labels)", image=image, labels=labels)).returncode == 0
CE = "cross_entropy(y,labels)"
for name, loss, arrays, said in (
        ("channels last", CE, {"image": image.transpose(0, 2, 3, 1), "labels": labels},
         'input "image" expects Nx3x8x8 (N samples); NumPy\'s .transpose(0, 3, 1, 2) brings dimensions into that order'),
        ("one-hot", CE, {"image": image, "labels": np.eye(5, dtype=np.float32)[labels]}, "; of one-hot labels that is NumPy's .argmax(-1)"),
        ("a column", CE, {"image": image, "labels": labels[:, None]}, "; NumPy's .squeeze(-1) leaves the last one out"),
        ("from 1", CE, {"image": image, "labels": np.full(8, 5)}, "is 5, expected 0 to 4 or -100 (ignored); classes count from 0"),
        ("of none", CE, {"image": image, "labels": np.full(8, 255)},
         "is 255, expected 0 to 4 or -100 (ignored); ignore_index=255 in the loss leaves such labels out"),
        ("classes", "mse(y,labels)", {"image": image, "labels": labels}, "; numbers of classes are for cross_entropy"),
        ("the other way round", "cross_entropy(labels,y)", {"image": image, "labels": labels},
         "the model has no output 'labels', but 'y': the output comes first, as in cross_entropy(y,labels)")):
    expect_error(checks, name, command(IMAGES, loss, **arrays), 2, [re.escape(said)])
# Classes along dimension 1, as a Conv1d's output has them: the labels' shape tells, of one-hot ones it cannot.
FRAMES = model("frames.onnx", [helper.make_node("Conv", ["x", "w"], ["y"])], [("x", TensorProto.FLOAT, ["batch", 2, 7])], ["batch", 3, 7],
               w=rng.standard_normal((3, 2, 1)))
frames, of_frames = rng.standard_normal((8, 2, 7)).astype(np.float32), rng.integers(0, 3, (8, 7))
one_hot = np.eye(3, dtype=np.float32)[of_frames].transpose(0, 2, 1)
ONE, SMOOTH = "cross_entropy(y,labels,dim=1)", "cross_entropy(y,labels,label_smoothing=0.1)"
for name, loss, given, said in (
        ("numbers", CE, of_frames, f"expect Nx3 (N samples), or {ONE} for classes along dimension 1\n"),
        ("numbers, options", SMOOTH, of_frames, f"expect Nx3 (N samples), or {SMOOTH[:-1]},dim=1) for classes along dimension 1\n"),
        ("one-hot", CE, one_hot, f"expect Nx3 (N samples, each the number of its class); of one-hot labels that is NumPy's .argmax(-1), or .argmax(1) with {ONE} for classes along dimension 1\n"),
        ("one-hot, told", ONE, one_hot, "expect Nx7 (N samples, each the number of its class); of one-hot labels that is NumPy's .argmax(1)\n"),
        ("another length", CE, of_frames[:, :5], "expect Nx3 (N samples)\n"), ("told, another length", ONE, of_frames[:, :5], "expect Nx7 (N samples)\n")):
    expect_error(checks, f"frames, {name}", command(FRAMES, loss, x=frames, labels=given), 2, [re.escape(said)])
for name, given in (("numbers", of_frames), ("one-hot", one_hot.argmax(1))):
    checks.expect(f"frames, {name} as told", kerf(*command(FRAMES, ONE, x=frames, labels=given)).returncode == 0)
np.save(OUT / "one.npy", image[0])
np.save(OUT / "last.npy", image.transpose(0, 2, 3, 1))
expect_error(checks, "no batch", ["run", IMAGES, f"--input={OUT / 'one.npy'}"], 2, ["; NumPy's \\[None\\] makes it a batch of one"])
expect_error(checks, "run, channels last", ["run", IMAGES, f"--input={OUT / 'last.npy'}"], 2, ["; NumPy's \\.transpose\\(0, 3, 1, 2\\) brings"])
expect_error(checks, "an archive's array", ["run", IMAGES, f"--input=image=@{OUT / 'data.npz'}:image"], 2,
             ["data.npz:image: cannot open: .*; of an archive the array of the input's name is taken: --input NAME=@\\S+data.npz\n"])
expect_error(checks, "a schedule", [each.replace("sgd,lr=0.1", "adamw,warmup=5") for each in map(str, command(IMAGES, CE, image=image, labels=labels))], 2,
             ["--optimizer: adamw has no option 'warmup', .*; --learning-rate has schedules, as in cosine,warmup=100"])
# Tokens as their own labels train, and not what was meant.
ids = rng.integers(0, 16, (8, 6))
for loss, is_said in (("cross_entropy(y,ids)", True), ("cross_entropy(y,next)", False)):
    result = kerf(*command(TOKENS, loss, ids=ids, next=ids))
    checks.expect(loss, result.returncode == 0 and ("note: --loss: the labels 'ids' are what the model reads too, so that it sees its answers (of a language model each token is its own label, and not the next one)"
                                                    in result.stderr) == is_said, result.stderr)
checks.finish()
