"""Training steps of random graphs, as planned against one device, by `kerf verify --train`.

REFERENCE names what verify holds the planned step against, where it knows more than one reference.
"""
import os
import pathlib
import random
import re

from .plans import first_error, pattern_of
from .running import TIMEOUT, Verdict, save

REFERENCE = os.environ.get("KERF_FUZZ_REFERENCE", "")  # interpreted, unfused, compiled
OPTIMIZERS = ("sgd,lr=0.01", "sgd,lr=0.1", "momentum,lr=0.01,momentum=0.9")
# Refusals that are true: (exit code, pattern, why).
TRUE_REFUSALS = [
    (2, r"nothing to train: (no gradient reaches a parameter|the loss depends on no float parameter)",
     "the loss does not depend on a weight"),
    (3, r"parameter is a literal of the graph|running statistics are literals", "a number alone is no parameter"),
    (5, r"is not a finite number, nothing is written|loss (is|became) (nan|inf|not finite)",
     "a gradient that is not finite"),
    (1, r"NOT verified: the loss is NaN in the program and in the reference", "a loss of NaN"),
    (2, r"the model has no inputs to feed", "the loss depends on no input"),
]


def training_plan(seed, k):
    r = random.Random(f"training plan {seed} {k}")
    devices = r.choices((1, 2, 3, 4), (15, 45, 15, 25))[0]
    flags = ["verify", f"--devices=cpu:{devices}", f"--optimizer={r.choice(OPTIMIZERS)}"]
    if r.random() < 0.6:
        flags += ["--solver=random", f"--seed={r.randrange(1000)}"]
    return flags


def gradient_plan(seed, k):
    """Of derivatives.check_gradients."""
    r = random.Random(f"gradient plan {seed} {k}")
    flags = ["train", f"--devices=cpu:{r.choices((1, 2, 3, 4), (40, 30, 10, 20))[0]}"]
    return flags + (["--solver=random", f"--seed={r.randrange(1000)}"] if r.random() < 0.5 else [])


def verify(kerf, case, plan, folder):
    folder = pathlib.Path(folder)
    save(case, folder)
    reference = [f"--reference={REFERENCE}"] if REFERENCE else []
    result = kerf("verify", folder / "model.onnx", "--train", "--loss=loss", "--steps=2", *plan, *reference,
                  "--threads=1", "--quiet")
    return judge(result)


def judge(result):
    """Of a command that trains."""
    if result.code == 0:
        return Verdict()
    if result.code == TIMEOUT:
        return Verdict("timeout", result.stderr[-500:])
    text = result.stderr + result.stdout
    for code, pattern, why in TRUE_REFUSALS:
        if result.code == code and re.search(pattern, text):
            return Verdict(refused=why)
    if result.code == 1:
        return Verdict("training differs", text[-1500:])
    name = f"exit {result.code}" if result.code > 0 else f"signal {-result.code}"
    return Verdict(f"{name}: {pattern_of(first_error(text))}", text[-1500:])
