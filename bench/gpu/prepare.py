#!/usr/bin/env python3
"""prepare.py OUT [--kerf KERF] [--large DIR] [--host-kernels]

Run this where the compiler is; no GPU is needed. Writes packages for one, two and
four GPUs, and what the same packages for the CPU give as expected results, to
OUT; copy OUT and kerf-run to the machine with the GPU and run run.sh there.

    OUT/packages/NAME.kerf      for one GPU, OUT/ranks{2,4}/NAME.kerf for several
    OUT/expected/NAME/*.npy     outputs for inputs of --seed=1, from the CPU in f32
    OUT/train/NAME.kerf         one step of training; OUT/curves/NAME.json its losses
    OUT/speed/NAME.kerf         large models in bf16, with weights from a seed

--large DIR: models of test/Inputs/models/export.py --large DIR (gpt2-124m,
bert-base, resnet50); without it speeds are measured on no whole model.
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
TRAINED = {"mlp": "cross_entropy(logits,labels)", "gpt2-small": "cross_entropy(logits,labels)"}
STEPS = (1, 5, 20)


def run(*command):
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode:
        print(f"failed ({result.returncode}): {' '.join(map(str, command))}\n{result.stdout}", file=sys.stderr)
    return result.returncode == 0


def operators(folder):
    """Single operators on tensors that fill a GPU, for bandwidth and matmul speed."""
    import onnx
    from onnx import TensorProto, helper
    cases = {"softmax": ("Softmax", {"axis": -1}, (8192, 4096)),
             "gelu": ("Gelu", {"approximate": "tanh"}, (8192, 4096)),
             "add": ("Add", {}, (8192, 4096)),
             "transpose": ("Transpose", {"perm": [1, 0]}, (8192, 4096)),
             "matmul": ("MatMul", {}, (4096, 4096))}
    for name, (op, attributes, shape) in cases.items():
        names = ["x", "y"] if op in ("Add", "MatMul") else ["x"]
        out = tuple(reversed(shape)) if op == "Transpose" else shape
        graph = helper.make_graph(
            [helper.make_node(op, names, ["z"], name=name, **attributes)], name,
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in names],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, out)])
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

    def models(self):
        for folder in sorted(p.parent for p in MODELS.glob("*/model.onnx")):
            name, model = folder.name, folder / "model.onnx"
            reference = self.scratch / f"{name}.kerf"
            if not self.compile(model, reference, "cpu:1", "--dim=batch=8"):
                continue
            self.expect(reference, self.out / "expected" / name)
            self.compile(model, self.out / "packages" / f"{name}.kerf", "cuda:0", "--dim=batch=8")
            for ranks in (2, 4):
                self.compile(model, self.out / f"ranks{ranks}" / f"{name}.kerf", f"cuda:0-{ranks - 1}", "--dim=batch=8")

    def training(self):
        for name, loss in TRAINED.items():
            model = ROOT / "test/Inputs/training" / name / "model.onnx"
            if not model.exists():
                model = MODELS / name / "model.onnx"
            options = ["--train", f"--loss={loss}", "--dim=batch=8", "--optimizer=sgd,lr=0.01"]
            reference = self.scratch / f"train-{name}.kerf"
            if not self.compile(model, reference, "cpu:1", *options):
                continue
            self.compile(model, self.out / "train" / f"{name}.kerf", "cuda:0", *options)
            curve = {}
            for steps in STEPS:
                folder = self.scratch / f"train-{name}-{steps}"
                self.expect(reference, folder, f"--repeat={steps}")
                curve[steps] = {p.stem: float(np.load(p)) for p in folder.glob("*.npy") if np.load(p).size == 1}
            (self.out / "curves").mkdir(exist_ok=True)
            (self.out / "curves" / f"{name}.json").write_text(json.dumps(curve))

    def speeds(self, large):
        for name, model in operators(self.scratch / "operators"):
            self.compile(model, self.out / "speed" / f"op-{name}.kerf", "cuda:0",
                         *(["--precision=bf16"] if name == "matmul" else []))
        if not large:
            return
        for name, options in {"gpt2-124m": ["--dim=batch=1"], "bert-base": ["--dim=batch=1"],
                              "resnet50": ["--dim=batch=1"]}.items():
            model = large / name / "model.onnx"
            if not model.exists():
                continue
            target = self.out / "speed" / f"{name}.kerf"
            if self.compile(model, target, "cuda:0", "--precision=bf16", *options):
                seed_package(target, 1)
        model = large / "gpt2-124m/model.onnx"
        for batch in (8, 16, 32):
            target = self.out / "speed" / f"train-gpt2-124m-{batch}.kerf"
            if model.exists() and self.compile(
                    model, target, "cuda:0", "--precision=bf16", "--train", "--loss=cross_entropy(logits,labels)",
                    "--optimizer=adamw,lr=1e-4,wd=0.01", f"--dim=batch={batch}"):
                seed_package(target, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--kerf", type=pathlib.Path, default=ROOT / "build/bin/kerf")
    parser.add_argument("--large", type=pathlib.Path)
    parser.add_argument("--host-kernels", action="store_true",
                        help="packages that the recording driver can run: to try check.py without a GPU")
    arguments = parser.parse_args()
    preparation = Preparation(arguments)
    preparation.models()
    preparation.training()
    preparation.speeds(arguments.large)
    shutil.rmtree(preparation.scratch, ignore_errors=True)
    for failure in preparation.failures:
        print(f"not prepared: {failure}", file=sys.stderr)
    shutil.copy(preparation.kerf_run, arguments.out / "kerf-run")
    for file in ("run.sh", "check.py", "speed.py"):
        shutil.copy(pathlib.Path(__file__).resolve().parent / file, arguments.out / file)
    sys.exit(bool(preparation.failures))


if __name__ == "__main__":
    main()
