"""The predicted time of what is computed together: a launch, and the bytes that go through memory.

On a machine that computes in no time and moves a byte in a nanosecond, a launch takes a millisecond. What the
operators of each model read and write, and how many kernels they are, is counted by hand.

REQUIRES: kerf, onnx
RUN: %python %s %t %inputs
"""
import json
import pathlib
import sys

import onnx.parser

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
BYTE, LAUNCH = 1e-9, 1e-3
rate = {"flops_per_second": 1e30, "bytes_per_second": 1 / BYTE, "latency_seconds": LAUNCH}
(OUT / "machine.json").write_text(json.dumps({
    "schema": "kerf.machine/1", "name": "counts bytes", "nodes": 1, "devices_per_node": 1,
    "compute": {kind: rate for kind in ("elementwise", "row", "matmul", "convolution", "gather")}}))
X, W, H, ROW = 4 * 256 * 512, 4 * 512 * 1024, 4 * 256 * 1024, 4 * 1024


def predicted(name, graph, weights):
    """Seconds of a step; `weights`: initializers by name and shape."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> agraph {graph}')
    for weight, shape in weights.items():
        count = 1
        for size in shape:
            count *= size
        model.graph.initializer.append(onnx.helper.make_tensor(weight, onnx.TensorProto.FLOAT, shape, [0.5 + i % 7 for i in range(count)]))
    onnx.save(model, OUT / f"{name}.onnx")
    result = kerf("plan", OUT / f"{name}.onnx", f"--machine={OUT / 'machine.json'}", "--json")
    return json.loads(result.stdout)["time"]["step_seconds"] if result.returncode == 0 else result.stderr


def expect(name, graph, kernels, bytes_moved, **weights):
    seconds = predicted(name, graph, weights)
    want = kernels * LAUNCH + bytes_moved * BYTE
    good = isinstance(seconds, float) and abs(seconds - want) < 1e-3 * BYTE * bytes_moved
    checks.expect(name, good, f"{seconds}, expected {want}: {kernels} kernels, {bytes_moved} bytes")


expect("a chain", "(float[256,512] x) => (float[256,512] z) { a = Exp(x) b = Relu(a) z = Tanh(b) }", 1, 2 * X)
expect("a value that is an output, too", "(float[256,512] x) => (float[256,512] a, float[256,512] z) { a = Exp(x) z = Tanh(a) }",
       1, 3 * X)
expect("an operand that two read", "(float[256,512] x) => (float[256,512] z) { a = Exp(x) b = Tanh(x) z = Add(a, b) }", 1, 2 * X)
expect("rows", "(float[256,512] x) => (float[256,512] z) { a = Exp(x) b = Softmax(a) z = Tanh(b) }", 1, 2 * X)
expect("a product with its bias and activation",
       "(float[256,512] x) => (float[256,1024] z) { a = MatMul(x, w) b = Add(a, c) z = Relu(b) }", 1, X + W + ROW + H,
       w=[512, 1024], c=[1024])
expect("a product that reads what another wrote",
       "(float[256,512] x) => (float[256,512] z) { a = MatMul(x, w) b = Relu(a) z = MatMul(b, v) }", 2, X + W + H + H + W + X,
       w=[512, 1024], v=[1024, 512])
expect("a kernel between two products",
       "(float[256,512] x) => (float[256,512] z) { a = MatMul(x, w) b = Softmax(a) z = MatMul(b, v) }", 3,
       X + W + H + 2 * H + H + W + X, w=[512, 1024], v=[1024, 512])
expect("a weight that is computed at load", "(float[256,512] x) => (float[256,1024] z) { a = Exp(w) z = MatMul(x, a) }", 1,
       X + W + H, w=[512, 1024])
expect("views", "(float[256,512] x) => (float[512,256] z) <int64[2] s = {512, 256}> { a = Exp(x) b = Reshape(a, s) z = Tanh(b) }",
       1, 2 * X)

# Attention as one call, as compile has it.
gpt2 = ["plan", pathlib.Path(sys.argv[2]) / "models/gpt2-small/model.onnx", "--dim=batch=64", "--machine=h100-1", "--precision=bf16", "--json"]
apart, fused = (json.loads(kerf(*gpt2, *flags).stdout)["time"]["step_seconds"] for flags in ([], ["--fused-attention"]))
checks.expect("fused attention", fused < apart, f"{fused} against {apart}")
made = kerf(*gpt2[:-1], "--fused-attention", "-q", "-o", OUT / "fused.json")
taken = kerf(*gpt2[:-1], f"--plan={OUT / 'fused.json'}")
checks.expect("a plan of fused attention is of another form", made.returncode == 0 and taken.returncode == 2
              and "form of this one (as fused attention is)" in taken.stderr, taken.stderr)
checks.finish()
