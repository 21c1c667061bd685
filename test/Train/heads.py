# Heads that the ranks do not divide: 6 heads on 4, 5 and 8 ranks, 4 heads on 3 and 8, as many whole ones on each as
# fit (blocks of so many columns), the last ranks with one less or none. Where attention is cut so,
# nothing moves around it: the bytes are Megatron's. Outputs, losses, parameters and optimizer state are those of one
# device; a checkpoint of such ranks goes on on others; the same run gives the same bits. With --all on more meshes.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs %models
import json
import pathlib
import sys

INPUTS, MODELS = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
ODD = ["--dim", "batch=8", "--threads=1", MODELS / "gpt2-odd/model.onnx"]
GPT2 = INPUTS / "training/gpt2/model.onnx"
DATA = INPUTS / "training/gpt2/data.npz"
TRAIN = ["--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1,momentum=0.9", "--threads=1"]
checks = Checks()


def cut(tp, heads, width, batch=""):
    """Queries, keys and values of `heads` heads of `width` columns between heads."""
    return [f"--shard=node_Split_[0-9]+(#[23])?=[{{{batch}}},{{}},{{tp}}:{-(-heads // tp) * width}]"]


def expect(name, *arguments):
    result = kerf(*arguments)
    checks.expect(name, result.returncode == 0, f"  kerf {' '.join(map(str, arguments))}\n{result.stdout}{result.stderr}")
    return result


EVERYTHING = "--all" in sys.argv
SIX = [(5, "tp=5", 5), (8, "tp=8", 8), (8, "dp=2,tp=4", 4)]
for ranks, mesh, tp in [*SIX, (4, "tp=4", 4), (8, "tp=4,pp=2", 4)] if EVERYTHING else SIX:
    expect(f"6 heads, {mesh}", "verify", *ODD, f"--devices=cpu:{ranks}", f"--mesh={mesh}", *cut(tp, 6, 9, "dp" if "dp" in mesh else ""))

MESHES = {"tp=3": (3, ["--mesh=tp=3", *cut(3, 4, 8)]), "tp=8": (8, ["--mesh=tp=8", *cut(8, 4, 8)]),
          "dp=2,tp=3": (6, ["--mesh=dp=2,tp=3", *cut(3, 4, 8, "dp")]),
          "tp=3,pp=2": (6, ["--mesh=tp=3,pp=2", "--micro-batches=2", *cut(3, 4, 8)])}
for name, (ranks, flags) in MESHES.items():
    if name == "dp=2,tp=3" and not EVERYTHING:
        continue
    expect(f"4 heads, {name}", "verify", GPT2, "--dim=batch=8", "--train", "--steps=3", *TRAIN, f"--devices=cpu:{ranks}", *flags)


def train(name, steps, flags, folder=None):
    """Losses by step, and the folder of the checkpoints."""
    log, folder = OUT / f"{name}.jsonl", folder or OUT / name
    expect(f"train {name}", "train", GPT2, "--batch-size=8", *TRAIN, f"--data={DATA}", f"--steps={steps}", f"--log={log}",
           f"--checkpoint-dir={folder}", *flags)
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return {line["step"]: line["loss"] for line in lines if "loss" in line}, folder


def close(a, b):
    return a.keys() == b.keys() and all(abs(a[step] - b[step]) <= 1e-5 * abs(b[step]) for step in b)


one, _ = train("one", 4, [])
tables = []
for run in ("first", "second"):
    losses, folder = train(run, 2, ["--devices=cpu:3", *MESHES["tp=3"][1]])
    checks.expect(f"{run}: losses of one rank", close(losses, {step: one[step] for step in (1, 2)}), f"{losses} {one}")
    tables.append((folder / "checkpoint-000000002.safetensors").read_bytes())
checks.expect("the same bits", tables[0] == tables[1])
for name, ranks, flags in (("on 8 ranks", 8, MESHES["tp=8"][1]), ("on one rank", 1, [])):
    folder = OUT / name.replace(" ", "-")
    folder.mkdir()
    (folder / "checkpoint-000000002.safetensors").write_bytes(tables[0])
    losses, _ = train(f"goes on {name}", 4, [f"--devices=cpu:{ranks}", "--resume", *flags], folder)
    checks.expect(f"goes on {name}", close({step: losses.get(step, 0) for step in (3, 4)}, {step: one[step] for step in (3, 4)}),
                  f"{losses} {one}")
checks.finish()
