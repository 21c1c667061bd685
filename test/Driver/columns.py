# Dumps read well: lines of the suite's models fit 120 columns after import, and 160 after partition and the
# collectives, in inference and training.
#
# The models' own names count as 24 columns where they are longer. Left out are lines that list everything that goes
# in or out of a function (signatures, returns, runs in a schedule), and what TOO_LONG names: the lines that are
# still to be mended. After autodiff and plan each op carries its decisions, which do not fit; after lowering
# descriptors of calls do not.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import collections
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()

INFERENCE = ["mlp", "convnet", "resnet-small", "gpt2-small", "bert-small", "vit-small"]
TRAINING = ["mlp", "conv-batch-norm", "gpt2"]
LIMITS = {"import": 120, "partition": 160, "collectives": 160}
LISTS = re.compile(r"(module|func\.func|return|(%.* = )?dist\.(run|pack|unpack))\b")
# A border of five dimensions is 121 columns wide; what one rank has of a parameter names both types; Adam has seven operands and four numbers.
LOCAL = {"nn.weight", "nn.adam_update"}
TOO_LONG = {"import": {"nn.pad"}, "partition": LOCAL, "collectives": LOCAL}


def columns(line):
    return len(re.sub(r'"([^"]{23,})"', '"' + 22 * "x" + '"', line))


def kind(line):
    """The op of a line, without its operands; the first word where there is none."""
    words = re.sub(r"^[%#][^=]* = ", "", line.strip()).split()
    return words[0] if words else ""


def check(name, folder):
    for dump in sorted(folder.glob("*.mlir")):
        phase = dump.stem.split("-", 1)[1]
        if phase not in LIMITS:
            continue
        longest = collections.Counter()
        for line in re.sub(r" loc\([^()\n]*\)", "", dump.read_text()).splitlines():
            if not LISTS.match(line.strip()):
                longest[kind(line)] = max(longest[kind(line)], columns(line))
        bad = {op: width for op, width in longest.items()
               if width > LIMITS[phase] and op not in TOO_LONG.get(phase, ())}
        checks.expect(f"{name}, {phase}", not bad, f"  more than {LIMITS[phase]} columns: {bad}")


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
