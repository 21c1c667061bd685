# The example that the README shows, for fewer steps: it learns, and the trained
# model gives ONNX Runtime's outputs.
#
# REQUIRES: kerf, onnx, onnxruntime
# RUN: %python %s %t %inputs
import json
import pathlib
import subprocess
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnxruntime

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/characters"
checks = Checks()

subprocess.run([sys.executable, EXAMPLE / "windows.py", ROOT / "LICENSE", OUT / "data.npz"], check=True)
result = kerf("train", EXAMPLE / "model.onnx", "--dim", "batch=16", "--batch-size=16", "--loss=cross_entropy(logits,labels)",
              "--optimizer=adamw,lr=3e-3,wd=0.01,beta2=0.99", "--learning-rate=cosine,warmup=20", f"--data={OUT / 'data.npz'}",
              "--steps=200", "--devices=cpu:4", "--mesh=dp=2,tp=2", f"--log={OUT / 'log.jsonl'}", "-o", OUT / "trained.onnx")
checks.expect("trains", result.returncode == 0, result.stderr)
if result.returncode == 0:
    losses = [json.loads(line)["loss"] for line in (OUT / "log.jsonl").read_text().splitlines() if '"loss"' in line]
    # From the logarithm of 128 characters to less than the entropy of their frequencies, 3.16.
    checks.expect("learns", losses[0] > 4.5 and np.mean(losses[-10:]) < 3.16, f"{losses[0]} -> {np.mean(losses[-10:])}")
    ids = np.load(OUT / "data.npz")["input_ids"][::1000][:4]
    np.save(OUT / "ids.npy", ids)
    expected = onnxruntime.InferenceSession(str(OUT / "trained.onnx"), providers=["CPUExecutionProvider"]).run(
        ["logits"], {"input_ids": ids})[0]
    result = kerf("run", OUT / "trained.onnx", "--dim", "batch=4", "--devices=cpu:4", "--input",
                  f"input_ids=@{OUT / 'ids.npy'}", f"--output-dir={OUT / 'outputs'}")
    checks.expect("runs", result.returncode == 0, result.stderr)
    found = np.load(OUT / "outputs/logits.npy")
    worst = np.abs(found - expected).max()
    checks.expect("equals ONNX Runtime", np.allclose(found, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max()),
                  str(worst))
    sample = subprocess.run([sys.executable, EXAMPLE / "sample.py", OUT / "trained.onnx", "Licensed under "],
                            capture_output=True, text=True)
    checks.expect("samples", sample.returncode == 0 and sample.stdout.startswith("Licensed under "), sample.stderr)
checks.finish()
