# Dumps read well: no line of any phase of the suite's models has more than 120 columns, in inference and training, but
# for a word that is longer by itself. That wrapped dumps parse to the same is test/Driver/resume.py.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()

INFERENCE = ["mlp", "convnet", "resnet-small", "gpt2-small", "bert-small", "vit-small"]
TRAINING = ["mlp", "conv-batch-norm", "gpt2"]
COLUMNS = 120
WORD = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^ "])+')


def check(name, folder):
    dumps = sorted(folder.glob("*.mlir"))
    checks.expect(f"{name}: all phases are dumped", len(dumps) >= 5, str(dumps))
    for dump in dumps:
        bad = [line for line in dump.read_text().splitlines()
               if len(line) > COLUMNS and len(WORD.findall(line)) > 1]
        checks.expect(f"{name}, {dump.name}", not bad, f"  more than {COLUMNS} columns: {bad[:3]}")


for model in INFERENCE:
    folder = OUT / model
    result = kerf("compile", INPUTS / "models" / model / "model.onnx", "--dim", "batch=8", "--devices=cpu:4",
                  "--mesh=pp=2,tp=2", "--micro-batches=2", "--dump-dir", folder, "-o", OUT / f"{model}.kerf")
    checks.expect(f"{model} compiles", result.returncode == 0, result.stderr)
    check(model, folder)
for model in TRAINING:
    folder = OUT / f"train-{model}"
    result = kerf("compile", INPUTS / "training" / model / "model.onnx", "--dim", "batch=8", "--train",
                  "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.001", "--devices=cpu:2", "--mesh=pp=2",
                  "--micro-batches=2", "--dump-dir", folder, "-o", OUT / f"train-{model}.kerf")
    checks.expect(f"{model}, a step of training, compiles", result.returncode == 0, result.stderr)
    check(f"{model}, a step of training", folder)
checks.finish()
