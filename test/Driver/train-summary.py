# What a training run says at its end: a line, or with --json a document; and a fault that was asked for and never came.
#
# REQUIRES: kerf
# RUN: %python %s %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, kerf

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
run = kerf(*TRAIN, "--steps=1", "--inject=rank=0,collective=9,fault=die")
checks.expect("one step", run.stdout.startswith("trained 1 step: loss ") and run.stdout.endswith(" 0 B sent per rank and step\n"), run.stdout)
checks.expect("no fault", run.returncode == 2 and "error: --inject=rank=0,collective=9,fault=die has had no effect" in run.stderr, run.stderr)
checks.finish()
