# What a training run says at its end: a line, or with --json a document; and a fault that was asked for and never came.
#
# REQUIRES: kerf
# RUN: %python %s %inputs %t
import json
import math
import pathlib
import re
import shlex
import sys

INPUTS = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[2])
MLP = INPUTS / "training/mlp"
TRAIN = ["train", MLP / "model.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--no-output",
         f"--data={MLP / 'data.npz'}", "--batch-size=16", "--threads=1"]
checks = Checks()
run = kerf(*TRAIN, "--steps=3", "--json")
checks.expect("JSON", run.returncode == 0 and run.stdout.startswith("{"), run.stdout + run.stderr)
summary = json.loads(run.stdout or "{}")
checks.expect("its schema", summary.get("schema") == "kerf.train/1", summary)
checks.expect("what was done", (summary.get("steps"), summary.get("batch_size"), summary.get("ranks")) == (3, 16, 1), summary)
checks.expect("losses", 0 < summary.get("last_loss", 0) != summary.get("first_loss", 0) > 0, summary)
checks.expect("one rank cuts nothing", summary.get("mesh") == {} and "runs on" not in run.stderr, (summary, run.stderr))
# Which cut was taken is said, with the command that shows it, and is in the summary.
for flags, more in ((["--devices=2"], ""), (["--devices=4", "--mesh=dp=2,tp=2"], ""),
                    (["--devices=2", "--objective=volume", "--frozen=layers.0.*", "--accumulate=2"], ", 2 micro-batches"),
                    (["--devices=4", "--mesh=dp=4", "--zero=1"], ", ZeRO 1")):
    run = kerf(*TRAIN, "--steps=1", "--json", *flags)
    mesh = json.loads(run.stdout or "{}").get("mesh", {})
    said = re.search(r"^note: runs on (\d) ranks of this CPU as (.*); kerf (plan .* --train .*) shows this plan$", run.stderr, re.M)
    checks.expect(f"the cut of {flags}", said and int(said[1]) == math.prod(mesh.values())
                  and said[2] == " x ".join(f"{name}={size}" for name, size in mesh.items()) + more, (run.stdout, run.stderr))
    if said:
        shown = kerf(*shlex.split(said[3]), "--json")
        same = shown.returncode == 0 and {name: size for name, size in json.loads(shown.stdout)["mesh"].items() if size > 1} == mesh
        checks.expect("the command shows it", same, (said[3], mesh, shown.stderr))
GPT2 = INPUTS / "training/gpt2"
run = kerf("train", GPT2 / "model.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--batch-size=8", "--steps=1", "--threads=1",
           f"--data={GPT2 / 'data.npz'}", "--no-output", "--devices=2", "--mesh=dp=2", "--recompute=1")
checks.expect("blocks that are computed again", "note: runs on 2 ranks of this CPU as dp=2, 2 blocks computed again; kerf plan " in run.stderr, run.stderr)
checks.expect("a quiet run says nothing", kerf(*TRAIN, "--steps=1", "--devices=2", "-q").stderr == "")
done = kerf(*TRAIN, "--steps=1", "--devices=2", "--mesh=tp=2", "--json", f"--checkpoint-dir={OUT}")
again = kerf(*TRAIN, "--steps=1", "--devices=2", "--mesh=tp=2", "--json", f"--checkpoint-dir={OUT}", "--resume")
checks.expect("a run that was done before", again.returncode == 0 and json.loads(again.stdout).get("mesh") == {"tp": 2}, again.stdout + again.stderr)
run = kerf(*TRAIN, "--steps=1", "--inject=rank=0,collective=9,fault=die")
checks.expect("one step", run.stdout.startswith("trained 1 step: loss ") and run.stdout.endswith(" 0 B sent per rank and step\n"), run.stdout)
checks.expect("no fault", run.returncode == 2 and "error: --inject=rank=0,collective=9,fault=die has had no effect" in run.stderr, run.stderr)
checks.finish()
