#!/usr/bin/env python3
"""prepare.py OUT [--kerf KERF] [--large DIR] [--only PART ...] [--batches B ...] [--host-kernels] [--small]

Run this where the compiler is; no GPU is needed. Writes packages for one, two and
four GPUs, and what the same packages for the CPU give as expected results, to
OUT; copy OUT and kerf-run to the machine with the GPU and run run.sh there.

    OUT/packages/NAME.kerf      for one GPU, OUT/ranks{2,4}/NAME.kerf for several
    OUT/expected/NAME/*.npy     outputs for inputs of --seed=1, from the CPU in f32
    OUT/ops/NAME.kerf           single operators, expected results likewise
    OUT/bf16/NAME.kerf          with --precision=bf16; OUT/expected-bf16/NAME: the CPU's in bf16
    OUT/train/NAME.kerf         one step of training (OUT/train{2,4} for several ranks);
                                OUT/curves/NAME.json its losses on the CPU
    OUT/speed/NAME.kerf         large models in bf16, with weights from a seed

--large DIR: models of test/Inputs/models/export.py --large DIR (gpt2-124m-1024,
gpt2-124m, bert-base, resnet50); without it speeds are measured on no whole model. --small: a
few packages, to try the scripts over the recording driver (run.sh says how).
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from check import scalars  # noqa: E402
from seed_weights import seed_package  # noqa: E402

MODELS = ROOT / "test/Inputs/models"
TRAINED = ("mlp", "gpt2", "llama", "conv-batch-norm")
LOSS = "--loss=cross_entropy(logits,labels)"
BATCHES = (128, 96, 64, 32, 16, 8)  # 1024 tokens each
PARTS = ("models", "operators", "training", "speeds")
DIMENSIONS = {"batch": 8, "batch_size": 8, "sequence_length": 3, "past_sequence_length": 5,
              "past_sequence_length + sequence_length": 8}
STEPS = (1, 2, 3, 5, 20)


def run(*command):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode:
        print(f"failed ({result.returncode}): {' '.join(map(str, command))}\n{result.stdout}", file=sys.stderr)
    return result.returncode == 0


def symbols_of(model):
    """The symbolic dimensions of a model's inputs."""
    import onnx
    inputs = onnx.load(model, load_external_data=False).graph.input
    return sorted({d.dim_param for i in inputs for d in i.type.tensor_type.shape.dim if d.dim_param})


def speed_operators(folder, small):
    """Operators on tensors that fill a GPU, for bandwidth, and the matmuls of GPT-2 and a large square."""
    import onnx
    from onnx import TensorProto, helper
    rows = 64 if small else 16384  # speed.py's ROWS
    kernels = {"softmax": ("Softmax", {"axis": -1}), "gelu": ("Gelu", {"approximate": "tanh"}), "add": ("Add", {}),
               "transpose": ("Transpose", {"perm": [1, 0]}), "layernorm": ("LayerNormalization", {"axis": -1}),
               "columns": ("ReduceMean", {"keepdims": 0})}
    graphs = {}
    for name, (op, attributes) in kernels.items():
        shapes = {"x": (rows, 4096)}
        if op == "Add":
            shapes["y"] = (rows, 4096)
        if op == "LayerNormalization":
            shapes.update(s=(4096,), b=(4096,))
        constants = []
        if op == "ReduceMean":
            constants = [helper.make_tensor("axes", TensorProto.INT64, [1], [0])]
        out = {"Transpose": (4096, rows), "ReduceMean": (4096,)}.get(op, (rows, 4096))
        graphs[name] = op, attributes, shapes, constants, out
    sizes = {"4096x4096x4096": (4096, 4096, 4096)} | {
        f"{m}x{n}x{k}": (m, n, k) for m, n, k in ((16384, 2304, 768), (16384, 768, 768), (16384, 3072, 768),
                                                  (16384, 768, 3072), (768, 3072, 16384))}
    for name, (m, n, k) in ({"64x64x64": (64, 64, 64)} if small else sizes).items():
        graphs[f"matmul-{name}"] = "MatMul", {}, {"x": (m, k), "y": (k, n)}, [], (m, n)
    for name, (op, attributes, shapes, constants, out) in graphs.items():
        # Matmuls read and write bfloat16: nothing but the product runs.
        dtype = TensorProto.BFLOAT16 if op == "MatMul" else TensorProto.FLOAT
        graph = helper.make_graph(
            [helper.make_node(op, [*shapes, *(c.name for c in constants)], ["z"], name=name, **attributes)], name,
            [helper.make_tensor_value_info(n, dtype, s) for n, s in shapes.items()],
            [helper.make_tensor_value_info("z", dtype, out)], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / f"{name}.onnx")
        yield name, folder / f"{name}.onnx"


class Preparation:
    def __init__(self, arguments):
        self.out, self.kerf = arguments.out, arguments.kerf
        self.kerf_run = self.kerf.with_name("kerf-run")
        self.scratch = self.out / "cpu"
        self.flags = ["--host-kernels"] if arguments.host_kernels else []
        self.small, self.batches = arguments.small, arguments.batches
        self.failures = []

    def compile(self, model, target, devices, *options):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        flags = self.flags if devices.startswith("cuda") else []
        good = run(self.kerf, "compile", model, f"--devices={devices}", *options, *flags, "-o", target)
        if not good:
            self.failures.append(f"{target.name} for {devices}")
        return good

    def expect(self, package, folder, *options):
        folder.mkdir(parents=True, exist_ok=True)
        if not run(self.kerf_run, package, "--seed=1", f"--output-dir={folder}", "-q", *scalars(package), *options):
            self.failures.append(f"expected results of {package.name}")

    def both(self, name, model, place, *options):
        """For the CPU and one GPU; what the CPU gives is expected."""
        reference = self.scratch / f"{name}.kerf"
        if not self.compile(model, reference, "cpu:1", *options):
            return False
        self.expect(reference, self.out / "expected" / name)
        return self.compile(model, self.out / place / f"{name}.kerf", "cuda:0", *options)

    def models(self):
        for folder in sorted(p.parent for p in MODELS.glob("*/model.onnx")):
            name, model = folder.name, folder / "model.onnx"
            if self.small and name not in ("mlp", "gpt2-small"):
                continue
            dims = [f"--dim={d}={DIMENSIONS[d]}" for d in symbols_of(model)]
            if not self.both(name, model, "packages", *dims):
                continue
            for ranks in (2, 4):
                self.compile(model, self.out / f"ranks{ranks}" / f"{name}.kerf", f"cuda:0-{ranks - 1}", *dims)
            bf16 = self.scratch / f"{name}-bf16.kerf"
            if self.compile(model, bf16, "cpu:1", *dims, "--precision=bf16"):
                self.expect(bf16, self.out / "expected-bf16" / name)
                self.compile(model, self.out / "bf16" / f"{name}.kerf", "cuda:0", *dims, "--precision=bf16")

    def operators(self):
        import ops
        for number, (name, model) in enumerate(ops.models(self.scratch / "ops")):
            if not self.small or number % 32 == 0:
                self.both(f"op-{name}", model, "ops")
        for name, model in () if self.small else ops.rounded_models(self.scratch / "rounded"):
            name = f"op-{name}"
            wide, reference = self.scratch / f"{name}-wide.kerf", self.scratch / f"{name}-bf16.kerf"
            if self.compile(model, wide, "cpu:1") and self.compile(model, reference, "cpu:1", "--precision=bf16"):
                self.expect(wide, self.out / "expected" / name)
                self.expect(reference, self.out / "expected-bf16" / name)
                self.compile(model, self.out / "bf16" / f"{name}.kerf", "cuda:0", "--precision=bf16")

    def training(self):
        import ops
        models = [(name, ROOT / "test/Inputs/training" / name / "model.onnx", ["--dim=batch=8"])
                  for name in (TRAINED[:1] if self.small else TRAINED)]
        models += [] if self.small else [(name, model, []) for name, model in ops.trained_models(self.scratch / "trained")]
        for name, model, dims in models:
            options = ["--train", LOSS, *dims, "--optimizer=adamw,lr=0.01,wd=0.1"]
            reference = self.scratch / f"train-{name}.kerf"
            if not self.compile(model, reference, "cpu:1", *options):
                continue
            self.compile(model, self.out / "train" / f"{name}.kerf", "cuda:0", *options)
            for ranks, mesh in ((2, "dp=2"), (4, "dp=2,tp=2")):
                self.compile(model, self.out / f"train{ranks}" / f"{name}.kerf", f"cuda:0-{ranks - 1}", f"--mesh={mesh}",
                             *options)
            curve = {}
            for steps in STEPS:
                folder = self.scratch / f"train-{name}-{steps}"
                self.expect(reference, folder, f"--repeat={steps}")
                curve[steps] = {p.stem: float(np.load(p)) for p in folder.glob("*.npy") if np.load(p).size == 1}
            (self.out / "curves").mkdir(exist_ok=True)
            (self.out / "curves" / f"{name}.json").write_text(json.dumps(curve))

    def speeds(self, large):
        for name, model in speed_operators(self.scratch / "operators", self.small):
            self.compile(model, self.out / "speed" / f"op-{name}.kerf", "cuda:0")
        if self.small:
            model = ROOT / "test/Inputs/training/gpt2/model.onnx"
            self.compile(model, self.out / "speed" / "train-gpt2-124m-8.kerf", "cuda:0", "--precision=bf16",
                         "--fused-attention", "--train",
                         LOSS, "--optimizer=adamw,lr=1e-4,wd=0.01", "--dim=batch=8")
        if not large:
            return
        for name in ("gpt2-124m", "bert-base", "resnet50"):
            model = large / name / "model.onnx"
            target = self.out / "speed" / f"{name}.kerf"
            if model.exists() and self.compile(model, target, "cuda:0", "--precision=bf16", "--fused-attention",
                                               "--dim=batch=1"):
                seed_package(target, 1)
        model = large / "gpt2-124m-1024/model.onnx"
        for batch in self.batches if model.exists() else ():
            target = self.out / "speed" / f"train-gpt2-124m-{batch}.kerf"
            if self.compile(model, target, "cuda:0", "--precision=bf16", "--fused-attention", "--train", LOSS,
                            "--optimizer=adamw,lr=1e-4,wd=0.01", f"--dim=batch={batch}", "--memory-limit=256GiB"):
                seed_package(target, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--kerf", type=pathlib.Path, default=ROOT / "build/bin/kerf")
    parser.add_argument("--large", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES,
                        help="of GPT-2's training, of which speed.py takes the largest that fits")
    parser.add_argument("--host-kernels", action="store_true",
                        help="packages that the recording driver can run: to try check.py without a GPU")
    parser.add_argument("--small", action="store_true", help="few packages, as --host-kernels")
    arguments = parser.parse_args()
    arguments.host_kernels |= arguments.small
    preparation = Preparation(arguments)
    for part in arguments.only:
        getattr(preparation, part)(*([arguments.large] if part == "speeds" else []))
    shutil.rmtree(preparation.scratch, ignore_errors=True)
    for failure in preparation.failures:
        print(f"not prepared: {failure}", file=sys.stderr)
    shutil.copy(preparation.kerf_run, arguments.out / "kerf-run")
    for file in ("run.sh", "check.py", "sanitize.py", "speed.py", "gaps.py"):
        shutil.copy(pathlib.Path(__file__).resolve().parent / file, arguments.out / file)
    sys.exit(bool(preparation.failures))


if __name__ == "__main__":
    main()
