# Weights of one element and initializers in float_data are trained, evaluated and written back like all others; a
# scalar without dimensions only where --trainable has its name. ONNX Runtime agrees.
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

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
MODEL = INPUTS / "autodiff/small_weights.onnx"
checks = Checks()
(case,) = [c for c in json.loads((INPUTS / "autodiff/cases.json").read_text()) if c["name"] == "small weights"]
inputs = {key: np.array(value["data"], np.float32).reshape(value["shape"]) for key, value in case["inputs"].items()}
np.savez(OUT / "data.npz", **inputs)


def weights(path):
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


before = weights(MODEL)
checks.expect("they are float_data", all(tensor.float_data for tensor in onnx.load(MODEL).graph.initializer
                                         if tensor.name != "two"))
for mesh in ([], ["--devices=cpu:2", "--mesh=dp=2"], ["--devices=cpu:2", "--mesh=tp=2"],
             ["--devices=cpu:2", "--mesh=pp=2", "--micro-batches=2"]):
    for trained, flags in ((["b", "slope", "w"], []), (["shift", "w"], ["--trainable=w", "--trainable=shift"]),
                           (["b", "slope"], ["--frozen=w"])):
        name = f"{'-'.join(mesh[1:2])[7:] or 'one'}-{'-'.join(trained)}"
        output, log = OUT / f"{name}.onnx", OUT / f"{name}.jsonl"
        result = kerf("train", MODEL, "--loss=mse(y,t)", "--optimizer=sgd,lr=0.05", f"--data={OUT / 'data.npz'}",
                      "--batch-size=8", "--steps=3", "--shuffle=off", f"--eval-data={OUT / 'data.npz'}", "-o", output,
                      f"--log={log}", "--threads=1", *mesh, *flags)
        checks.expect(f"{name} runs", result.returncode == 0, result.stderr)
        if result.returncode:
            continue
        after = weights(output)
        changed = sorted(key for key in before if not np.array_equal(before[key], after[key]))
        checks.expect(f"{name} trains", changed == trained, str(changed))
        session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
        (y,) = session.run(["y"], {"x": inputs["x"]})
        loss = float(np.mean((y - inputs["t"]) ** 2))
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        measured = [line["eval_loss"] for line in lines if "eval_loss" in line][-1]
        checks.expect(f"{name} evaluates what is written", abs(measured - loss) < 1e-5, f"{measured}, ONNX Runtime {loss}")
        if trained == ["b", "slope", "w"]:
            losses = [line["loss"] for line in lines if "loss" in line]
            checks.expect(f"{name} is PyTorch's", np.allclose(losses, case["losses"], rtol=1e-5), f"{losses}, {case['losses']}")
            checks.expect(f"{name} ends as PyTorch", all(np.allclose(after[key].reshape(-1), case["parameters"][key], atol=1e-5)
                                                         for key in trained), str(after))
checks.finish()
