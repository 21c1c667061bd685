"""Thousands of graphs on their plans, over worker processes; failures are shrunk and written out.

Each worker holds one process of kerf-commands. What graph k gives depends on the seed and k alone; results are printed
in order, whatever the workers do.
"""
import collections
import concurrent.futures
import multiprocessing
import multiprocessing.util
import os
import pathlib
import shutil
import time

import numpy as np

from kerf_commands import Commands

from .derivatives import check_gradients
from .evaluate import Evaluator
from .generate import random_graph, training_graph
from .plans import one_rank, random_mesh
from .running import Verdict, run_case, save
from .shrink import Shrinker
from .text import to_text
from .training import REFERENCE, gradient_plan, training_plan, verify

worker = None  # of this process; set by start_worker


class Worker:
    def __init__(self, folder, timeout=60):
        self.folder = pathlib.Path(folder) / f"worker-{os.getpid()}"
        self.kerf, self.evaluator = Commands(timeout), Evaluator()
        self.shrinks = collections.Counter()

    def run(self, case, plan):
        return run_plan(self.kerf, self.evaluator, case, plan, self.folder)


def run_plan(kerf, evaluator, case, plan, folder):
    """A plan is flags of `kerf run`, or `verify` or `train` and flags."""
    if plan[0] == "verify":
        return verify(kerf, case, plan[1:], folder)
    if plan[0] == "train":
        return check_gradients(kerf, evaluator, case, plan[1:], folder)
    return run_case(kerf, case, plan, folder)


def start_worker(folder, timeout):
    global worker
    worker = Worker(folder, timeout)
    # Processes of a pool end without atexit: the commands' process and its folder are let go here.
    multiprocessing.util.Finalize(worker, worker.kerf.__exit__, exitpriority=1)


def describe(case, plan, verdict, seed, k):
    title = f"{verdict.kind}\ngraph {k} of seed {seed}: {command(plan)}\n{verdict.detail[:800]}"
    return to_text(case, title.strip(), [plan])


def command(plan):
    if plan[0] == "verify":
        return " ".join(["kerf verify model.onnx --train --loss=loss --steps=2", *plan[1:]]) + (
            f" --reference={REFERENCE}" if REFERENCE else "")
    if plan[0] == "train":
        return " ".join(["kerf train model.onnx --loss=loss --optimizer=sgd,lr=1 --steps=1 --data=data ...", *plan[1:]])
    return " ".join(["kerf run model.onnx", *plan])


def report(out, name, case, plan, verdict, seed, k):
    """A folder with the model, its inputs, what is expected, and all of it as text."""
    folder = pathlib.Path(out) / name
    shutil.rmtree(folder, ignore_errors=True)
    save(case, folder)
    (folder / "expected").mkdir()
    for each in case.outputs:
        np.save(folder / "expected" / f"{each}.npy", case.values[each])
    text = describe(case, plan, verdict, seed, k)
    (folder / "case.onnxtxt").write_text(text)
    return "\n".join(line if len(line) < 400 else line[:400] + " ..." for line in text.splitlines())


def one_graph(out, seed, k, training, plans_per_graph, spread, most_shrinks):
    """(operators, [(plan, verdict, text)]) of graph k."""
    case = (training_graph if training else random_graph)(seed, k, worker.evaluator)
    if case is None:
        return [], []
    if training:
        plans = [training_plan(seed, k), gradient_plan(seed, k)]
    else:
        plans = [one_rank()] + [random_mesh(seed, k, each) for each in range(1, plans_per_graph) if k % spread == 0]
    results = []
    for index, plan in enumerate(plans):
        verdict, text = worker.run(case, plan), ""
        if verdict.kind:
            text = smallest(out, seed, k, index, case, plan, verdict, most_shrinks)
        results.append((plan, verdict, text))
        if verdict.kind and plan == one_rank():
            break  # on several ranks it would say the same
    return [node.op_type for node in case.model().graph.node], results


def smallest(out, seed, k, index, case, plan, verdict, most_shrinks):
    sort = (verdict.kind, *[node.op_type for node in case.nodes if set(node.output) & set(verdict.outputs[:1])])
    worker.shrinks[sort] += 1
    if worker.shrinks[sort] <= most_shrinks:
        rng = np.random.default_rng([seed, k])
        shrinker = Shrinker(worker.run, worker.evaluator, rng)
        case, plan = shrinker.shrink(case, plan, verdict)
        again = worker.run(case, plan)
        verdict = again if again.kind else Verdict(verdict.kind + " (not every time)", verdict.detail)
    return report(out, f"graph-{seed}-{k}-{index}", case, plan, verdict, seed, k)


def batch(arguments):
    out, seed, numbers, *options = arguments
    return [(k, *one_graph(out, seed, k, *options)) for k in numbers]


def campaign(out, seed, count, training=False, plans=2, spread=1, workers=2, first=0, shrinks=3, timeout=60, log=print):
    """Runs graphs first..first+count, every so manieth (`spread`) on meshes, too; gives the number of failures and how
    often each operator occurred."""
    started = time.time()
    operators, refusals, kinds = collections.Counter(), collections.Counter(), collections.Counter()
    graphs = runs = gradients = 0
    numbers = list(range(first, first + count))
    jobs = [(out, seed, numbers[at:at + 10], training, plans, spread, shrinks) for at in range(0, count, 10)]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, context, start_worker, (str(out), timeout)) as pool:
        for results in pool.map(batch, jobs):
            for k, names, verdicts in results:
                graphs += bool(names)
                operators.update(names)
                for plan, verdict, text in verdicts:
                    runs += 1
                    gradients += verdict.compared
                    if verdict.refused:
                        refusals[verdict.refused] += 1
                    if verdict.kind:
                        kinds[verdict.kind] += 1
                        log(f"FAILED graph {k} of seed {seed}, {' '.join(plan)}: {verdict.kind}\n{text}\n", flush=True)
    log(f"{graphs} graphs, {runs} plans, seed {seed}, {time.time() - started:.0f} s" +
        (f", gradients of {gradients} weights" if training else ""))
    log("operators: " + ", ".join(f"{name} {count}" for name, count in sorted(operators.items())))
    for why, number in refusals.most_common():
        log(f"refused {number}: {why}")
    for kind, number in kinds.most_common():
        log(f"failed {number}: {kind}")
    return sum(kinds.values()), operators
