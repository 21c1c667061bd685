"""Memory that ranks really touch is what the plan says, within 5%.

    memory.py OUT INPUTS [--all]

What the system counts as resident, of a process whose threads are the ranks (test/Inputs/touched.py), against
`memory.per_device` of the plan: parameters, optimizer, gradients, activations. Twice: what a larger model adds (a batch or a hidden size
several times as large; what a process has without any model falls out of the difference), and all of it, for models so
large that the program, beside what a tiny package touches, is within the 5%. The caller's inputs and outputs are no
device's memory and are taken off; equal parts of weights, which threads share, count once. Without --all: some
of the same, grown by less.

REQUIRES: kerf, onnx
UNSUPPORTED: sanitizer
RUN: %python %s %t %inputs
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
from onnx import TensorProto, helper

from kerf_tests import Checks, fresh_folder
from touched import laid_out, touched, with_weights

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
EVERYTHING = "--all" in sys.argv
MESHES = ["", "dp=2", "tp=2", "pp=2"]
TRAIN = ["--train", "--loss=cross_entropy(logits,labels)"]
ADAMW, MOMENTUM = [*TRAIN, "--optimizer=adamw,lr=1e-3"], [*TRAIN, "--optimizer=sgd,lr=1e-3,momentum=0.9"]
checks = Checks()


def wide(hidden):
    """Nearly all of its memory is parameters; their file is a hole."""
    folder = OUT / f"wide{hidden}"
    if not folder.exists():
        folder.mkdir()
        size = hidden * hidden * 4
        tensors, nodes, value = [], [], "x"
        for layer in range(3):
            tensor = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[hidden, hidden],
                                 data_location=TensorProto.EXTERNAL)
            for key, text in (("location", "weights"), ("offset", layer * size), ("length", size)):
                tensor.external_data.add(key=key, value=str(text))
            tensors.append(tensor)
            nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"h{layer}" if layer < 2 else "logits"]))
            value = f"h{layer}"
        graph = helper.make_graph(nodes, "wide", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", hidden])],
                                  [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", hidden])], tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        with open(folder / "weights", "wb") as file:
            file.truncate(3 * size)
    return folder / "model.onnx"


def measure(model, batch, options, mesh, steps):
    """Of all ranks together: bytes resident in steps and the most ever, less the caller's; bytes planned."""
    package = OUT / "package.kerf"
    subprocess.run(["rm", "-rf", package], check=True)
    ranks = int(mesh.split("=")[1]) if mesh else 1
    command = ["kerf", "compile", str(model), "--dim", f"batch={batch}", *options, "--memory-limit=1TiB",
               *([f"--devices={ranks}", f"--mesh={mesh}"] if mesh else []), "-o", str(package)]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{process.stderr}")
    planned, callers = laid_out(package)
    now, most = touched(package, steps)
    return now - callers, most - callers, planned


def compare(name, now, planned, detail=""):
    ratio = now / planned
    print(f"{name}: {planned} bytes planned, {ratio:.3f} of it touched{detail}", flush=True)
    checks.expect(name, abs(ratio - 1) <= 0.05, f"  {now} of {planned} bytes: {ratio:.3f}")


def grows(name, small, large, options, mesh):
    """`small` and `large` are (model, batch)."""
    mode = "training" if options else "inference"
    steps = 100 if "hidden" in name and not options else 6
    before, after = (measure(*each, options, mesh, steps) for each in (small, large))
    compare(f"{name}, {mode}, mesh {mesh or 1}: what more there is", after[0] - before[0], after[2] - before[2])


def whole(name, model, batch, options, mesh, empty):
    mode = "training" if options else "inference"
    steps = (2 if options else 4) if "gpt2" in name else 4 if options else 20 if name == "alexnet" else 6
    now, most, planned = measure(model, batch, options, mesh, steps)
    compare(f"{name}, {mode}, mesh {mesh or 1}: all of it", now - empty, planned,
            f", at most {(most - empty) / planned:.3f}")
    # While they are loaded, weights that are cut by tensors are there twice, one after the other; and those that others
    # are derived from beside those, which stages without large activations show.
    if mesh in ("", "dp=2"):
        checks.expect(f"{name}, {mode}, mesh {mesh or 1}: the most ever", (most - empty) / planned <= 1.05,
                      f"  {most - empty} of {planned} bytes")


def main():
    small = {"gpt2": (512, 4096), "llama": (512, 4096), "conv-batch-norm": (2048, 16384)}
    for number, (name, (few, many)) in enumerate(small.items()):
        many = many if EVERYTHING else many // 2
        model = INPUTS / "training" / name / "model.onnx"
        for options in (ADAMW, []):
            # The subset: each mesh with another model in training, one model in inference.
            for mesh in MESHES if EVERYTHING else MESHES[number + 1:number + 2] if options else MESHES[:number == 0]:
                # Inference holds much less, stages even less, and pages have 2 MiB.
                factor = 1 if options else 16 if mesh == "pp=2" else 4
                grows(name, (model, factor * few), (model, factor * many), options, mesh)
    hidden = 2048 if EVERYTHING else 1024
    for options in (ADAMW, []):
        for mesh in MESHES if EVERYTHING else ["dp=2"] if options else ["tp=2"]:
            grows("hidden size twice as large", (wide(hidden), 8), (wide(2 * hidden), 8), options, mesh)
    empty = measure(INPUTS / "training/mlp/model.onnx", 16, [], "", 2000)[0]
    graphs = {"alexnet": (8, MOMENTUM), "resnet50": (16, MOMENTUM), "gpt2-124m": (1, ADAMW)}
    for name, (batch, training) in graphs.items():
        if not EVERYTHING and name != "alexnet":
            continue
        model = with_weights(INPUTS / "graphs" / name / "model.onnx", OUT / name)
        for options in (training, []):
            for mesh in MESHES if EVERYTHING else [""] if name == "alexnet" and options else []:
                # Small stages of inference: a library's primitives and code are 7 MB beside the plan.
                factor = 4 if name == "resnet50" and mesh == "pp=2" and not options else 1
                whole(name, model, factor * batch, options, mesh, empty)
    checks.finish()


main()
