# The last, partial batch: kept, its loss is the mean over its own samples on every mesh (ONNX Runtime's logits say
# which), for --loss and for a loss inside the graph; dropped, it is not there. BatchNorm's own statistics per device
# need a batch that divides. With --all what is dropped on every mesh, otherwise
# on two for each loss.
#
# REQUIRES: kerf, onnx, onnxruntime
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx
import onnxruntime

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
MLP = INPUTS / "training/mlp"
checks = Checks()
arrays = {key: value[:10] for key, value in np.load(MLP / "data.npz").items()}
np.savez(OUT / "ten.npz", **arrays)
(logits,) = onnxruntime.InferenceSession(str(MLP / "model.onnx"), providers=["CPUExecutionProvider"]).run(
    ["logits"], {"x": arrays["x"]})
shifted = logits.astype(np.float64) - logits.max(1, keepdims=True)
each = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(10), arrays["labels"]]
expected = [each[:4].mean(), each[4:8].mean(), each[8:].mean()]

# The same loss as a node of the graph, with and without an ignored label.
for name, attributes in (("inside", {"ignore_index": -100}), ("strict", {})):
    model = onnx.load(MLP / "model.onnx")
    model.graph.node.append(onnx.helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], **attributes))
    model.graph.input.append(onnx.helper.make_tensor_value_info("labels", onnx.TensorProto.INT64, ["batch"]))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, []))
    onnx.save(model, OUT / f"{name}.onnx")

MESHES = ([], ["--devices=cpu:2", "--mesh=dp=2"], ["--devices=cpu:3", "--mesh=dp=3"], ["--accumulate=2"])
LOSSES = (("cross_entropy(logits,labels)", MLP / "model.onnx"), ("loss", OUT / "inside.onnx"), ("loss", OUT / "strict.onnx"))
for number, mesh in enumerate(MESHES):
    for turn, (loss, path) in enumerate(LOSSES):
        for last in ("keep", "drop") if "--all" in sys.argv or (number + turn) % 2 == 0 else ("keep",):
            name = f"{path.stem}-{last}-{'-'.join(mesh)}"
            log = OUT / f"{name}.jsonl"
            result = kerf("train", path, "--batch-size=4", f"--loss={loss}", "--optimizer=sgd,lr=0", f"--data={OUT / 'ten.npz'}",
                          "--epochs=2", "--shuffle=off", f"--last-batch={last}", f"--log={log}", "--threads=1",
                          "--no-output", *mesh)
            checks.expect(f"{name} runs", result.returncode == 0, result.stderr)
            losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()] if log.exists() else []
            kept = last == "keep" and path.stem != "strict"
            wanted = (expected if kept else expected[:2]) * 2
            checks.expect(name, len(losses) == len(wanted) and np.allclose(losses, wanted, rtol=1e-5), f"{losses}, {wanted}")
            checks.expect(f"{name} says what is dropped", ("no label that is ignored" in result.stderr)
                          == (last == "keep" and not kept), result.stderr)

# Samples that fill up are seen by a second term of the loss, by other labels, and by what reads the labels: the last batch, of three of
# four, is dropped then, and that is said. A sum of two means over the same labels, and numbers of them, keep it.
np.savez(OUT / "eleven.npz", **{key: value[:11] for key, value in np.load(MLP / "data.npz").items()}, others=np.arange(11) % 3)
for name, kept in (("square", False), ("other", False), ("product", False), ("read", False), ("twice", True), ("weighed", True)):
    model = onnx.load(MLP / "model.onnx")
    graph, node = model.graph, onnx.helper.make_node
    graph.input.append(onnx.helper.make_tensor_value_info("labels", onnx.TensorProto.INT64, ["batch"]))
    graph.node.append(node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["first"], ignore_index=-100))
    second = [node("Identity", ["first"], ["second"])]
    if name == "square":
        second = [node("Mul", ["logits", "logits"], ["squares"]), node("ReduceMean", ["squares"], ["second"], keepdims=0)]
    elif name == "other":  # of three classes
        graph.input.append(onnx.helper.make_tensor_value_info("others", onnx.TensorProto.INT64, ["batch"]))
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 0]), "begin"))
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([1 << 40, 3]), "end"))
        second = [node("Slice", ["logits", "begin", "end"], ["three"]), node("SoftmaxCrossEntropyLoss", ["three", "others"], ["second"], ignore_index=-100)]
    elif name == "read":
        graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1000, np.float32), "table"))
        second = [node("Gather", ["table", "labels"], ["looked"]), node("ReduceMean", ["looked"], ["second"], keepdims=0)]
    elif name == "weighed":
        graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0.5), "half"))
        second = [node("Mul", ["first", "half"], ["second"])]
    elif name == "product":
        second = [node("Mul", ["logits", "logits"], ["squares"]), node("ReduceMean", ["squares"], ["mean"], keepdims=0),
                  node("Mul", ["first", "mean"], ["second"])]
    graph.node.extend([*second, node("Add", ["first", "second"], ["loss"])])
    del graph.output[:]
    graph.output.append(onnx.helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, []))
    onnx.save(model, OUT / f"{name}.onnx")
    log = OUT / f"{name}.jsonl"
    result = kerf("train", OUT / f"{name}.onnx", "--batch-size=4", "--loss=loss", "--optimizer=sgd,lr=0", f"--data={OUT / 'eleven.npz'}", "--epochs=1",
                  "--shuffle=off", "--last-batch=keep", f"--log={log}", "--no-output")
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()] if log.exists() else []
    session = onnxruntime.InferenceSession(str(MLP / "model.onnx"), providers=["CPUExecutionProvider"])
    (inside,) = session.run(["logits"], {"x": np.load(OUT / "eleven.npz")["x"]})
    odds = inside.astype(np.float64) - inside.max(1, keepdims=True)
    rows = np.log(np.exp(odds).sum(1)) - odds[np.arange(11), np.load(OUT / "eleven.npz")["labels"]]
    checks.expect(f"{name}: batches", result.returncode == 0 and len(losses) == (3 if kept else 2), result.stderr)
    said = 'the last 3 samples of an epoch are dropped: "loss" has more of the samples than a mean or a sum over labels, and those that'
    checks.expect(f"{name}: is said", (said in result.stderr) != kept, result.stderr)
    if kept:
        checks.expect(f"{name}: the mean of its own", np.isclose(losses[-1], rows[8:].mean() * (2 if name == "twice" else 1.5), rtol=1e-5), losses)
# Labels that the model reads, where the loss is put behind it.
model = onnx.load(MLP / "model.onnx")
model.graph.input.append(onnx.helper.make_tensor_value_info("labels", onnx.TensorProto.INT64, ["batch"]))
model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1000, 1), np.float32), "table"))
model.graph.node.extend([onnx.helper.make_node("Gather", ["table", "labels"], ["looked"]), onnx.helper.make_node("Add", ["logits", "looked"], ["sums"])])
model.graph.output[0].name = "sums"
onnx.save(model, OUT / "reads.onnx")
result = kerf("train", OUT / "reads.onnx", "--batch-size=4", "--loss=cross_entropy(sums,labels)", "--optimizer=sgd,lr=0", f"--data={OUT / 'eleven.npz'}",
              "--epochs=1", "--last-batch=keep", "--no-output")
checks.expect("labels that are read", result.returncode == 0 and "are dropped: the model reads the labels, also those that" in result.stderr, result.stderr)

conv = INPUTS / "training/conv-batch-norm"
expect_error(checks, "local statistics", [
    "train", conv / "model.onnx", "--batch-size=16", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", "--steps=1",
    f"--data={conv / 'data.npz'}", "--batch-norm=local", "--devices=cpu:3", "--mesh=dp=3"], 2,
    ["batch of 16 samples cannot be divided into 3 parts of dp"])
checks.finish()
