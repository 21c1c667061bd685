# Graphs that were wrong once, as the generator shrank them: each is read from its
# text, evaluated node by node by ONNX Runtime, and run on one rank and on the plans
# (also steps of training) that its file names. A file's first line says what was wrong.
#
# REQUIRES: kerf-commands, onnxruntime
# RUN: %python %s %t %S/Inputs/regressions
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Inputs"))

import numpy as np
from kerf_commands import Commands
from kerf_tests import Checks

from onnxgen.campaign import run_plan
from onnxgen.evaluate import Evaluator
from onnxgen.plans import one_rank
from onnxgen.text import from_text

out, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
shutil.rmtree(out, ignore_errors=True)
only = sys.argv[3:]  # names of files, by hand
checks, evaluator = Checks(), Evaluator()
with Commands(timeout=60) as kerf:
    for path in sorted(folder.glob("*.onnxtxt")):
        if only and path.stem not in only:
            continue
        case, title, plans = from_text(path.read_text())
        case.evaluate(evaluator)
        outputs = list(case.outputs)
        case.stable_outputs(evaluator, np.random.default_rng(1))
        # An output that is not compared would make this a test that cannot fail.
        checks.expect(f"{path.stem} is compared", case.outputs == outputs, f"  only {case.outputs} of {outputs}")
        for plan in [one_rank()] + [each for each in plans if each != one_rank()]:
            verdict = run_plan(kerf, evaluator, case, plan, out / path.stem)
            why = verdict.kind or verdict.refused
            checks.expect(f"{path.stem} {' '.join(plan)}", not why, f"  {title}\n  {why}\n  {verdict.detail}")
checks.finish()
