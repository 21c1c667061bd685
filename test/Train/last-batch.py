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

conv = INPUTS / "training/conv-batch-norm"
expect_error(checks, "local statistics", [
    "train", conv / "model.onnx", "--batch-size=16", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", "--steps=1",
    f"--data={conv / 'data.npz'}", "--batch-norm=local", "--devices=cpu:3", "--mesh=dp=3"], 2,
    ["batch of 16 samples cannot be divided into 3 parts of dp"])
checks.finish()
