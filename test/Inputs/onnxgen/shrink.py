"""The smallest case that still fails in the same way.

Moves, tried until none helps: one output alone; the graph cut at an intermediate value, which becomes an input with the
value that it had; a node left out where an operand has its result's shape and type; a plan of fewer devices and flags;
smaller dimensions; ordinary elements in place of special ones, canonical ones in place of random ones. Each is kept if
the failure stays.
"""
import copy
import re

import numpy as np

from .arrays import canonical, is_float
from .case import Case, Given
from .evaluate import Unevaluable, free_names


class Shrinker:
    def __init__(self, run, evaluator, rng, budget=200):
        """`run(case, plan)` gives a verdict."""
        self.run, self.evaluator, self.rng, self.budget = run, evaluator, rng, budget

    def fails(self, case, plan, kind):
        """The case, evaluated anew and pruned, if it still fails; else None."""
        if self.budget <= 0:
            return None
        try:
            case = case.pruned().evaluate(self.evaluator)
            case.stable_outputs(self.evaluator, self.rng)
            if not case.outputs:
                return None
            moved, outputs = case.moved, case.outputs
            case = case.pruned().evaluate(self.evaluator)
            case.moved, case.outputs = moved, outputs
        except (Unevaluable, ValueError, KeyError):  # or it reads what another move has taken away
            return None
        self.budget -= 1
        verdict = self.run(case, plan)
        return case if verdict.kind == kind else None

    def shrink(self, case, plan, verdict):
        kind = verdict.kind
        moves = (self.single_output, self.cut, self.bypass, self.fewer_nodes_as_outputs, self.smaller_sizes)
        progress = True
        while progress and self.budget > 0:
            progress = False
            for move in moves:
                for smaller in move(case):
                    found = self.fails(smaller, plan, kind)
                    if found and weight(found) < weight(case):
                        case, progress = found, True
                        break
            for simpler in simpler_plans(plan):
                if self.fails(case, simpler, kind):
                    plan, progress = simpler, True
                    break
        for simpler in self.plainer(case):
            found = self.fails(simpler(case), plan, kind)
            case = found or case
        return case, plan

    def single_output(self, case):
        if len(case.outputs) > 1:
            for name in case.outputs:
                smaller = copy.copy(case)
                smaller.outputs = [name]
                yield smaller

    def cut(self, case):
        """Latest first: all that stands before a value goes at once."""
        for node in reversed(case.nodes):
            if any(name in case.outputs for name in node.output):
                continue
            smaller = Case(case.opset, [each for each in case.nodes if each is not node], dict(case.given),
                           case.outputs)
            for name in node.output:
                if name:
                    smaller.given[name] = Given(case.values[name], "input")
            yield smaller

    def bypass(self, case):
        for node in reversed(case.nodes):
            if len(node.output) != 1 or node.output[0] in case.outputs:
                continue
            result = case.values[node.output[0]]
            for name in free_names(node):
                array = case.values[name]
                if array.shape == result.shape and array.dtype == result.dtype:
                    smaller = Case(case.opset, [renamed(each, node.output[0], name) for each in case.nodes
                                                if each is not node], dict(case.given), case.outputs)
                    yield smaller

    def fewer_nodes_as_outputs(self, case):
        """What feeds the last node becomes the output itself."""
        for node in reversed(case.nodes):
            if set(node.output) & set(case.outputs):
                for name in free_names(node):
                    if name not in case.given:
                        yield Case(case.opset, list(case.nodes), dict(case.given), [name])

    def smaller_sizes(self, case):
        """Every dimension of one size becomes smaller, and what steers shapes with it."""
        sizes = {size for each in case.given.values() for size in each.array.shape if size > 1}
        for size in sorted(sizes, reverse=True):
            for smaller in (1, 2, 3, size // 2, size - 1):
                if smaller >= size:
                    continue
                given = {name: Given(resized(name, each.array, size, smaller), each.kind, each.form)
                         for name, each in case.given.items()}
                yield Case(case.opset, case.nodes, given, case.outputs)

    def plainer(self, case):
        """Ordinary values, then canonical ones, name by name."""
        def tamed(name):
            def change(case):
                array = case.given[name].array
                if not is_float(array.dtype) or np.isfinite(array.astype(np.float64)).all():
                    return case
                plain = np.where(np.isfinite(array.astype(np.float64)), array, 1).astype(array.dtype)
                return replaced(case, name, plain)
            return change

        def canonised(name):
            def change(case):
                if name not in case.given:
                    return case
                array = case.given[name].array
                return replaced(case, name, canonical(name, array.shape, array.dtype))
            return change

        names = [name for name in case.given if not name.startswith("s")]
        return [tamed(name) for name in names] + [canonised(name) for name in names]


def resized(name, array, size, smaller):
    if name.startswith("s") and array.dtype.kind == "i":
        return np.where(array == size, smaller, array).astype(array.dtype)
    return array[tuple(slice(0, smaller if dim == size else dim) for dim in array.shape)]


def replaced(case, name, array):
    given = dict(case.given)
    given[name] = Given(array, given[name].kind, given[name].form)
    return Case(case.opset, case.nodes, given, case.outputs)


def renamed(node, old, new):
    node = copy.deepcopy(node)
    for index, name in enumerate(node.input):
        if name == old:
            node.input[index] = new
    return node


def weight(case):
    """Smaller is simpler."""
    return (len(case.nodes), len(case.outputs), len(case.given), sum(each.array.size for each in case.given.values()))


def simpler_plans(plan):
    """Fewer flags, then fewer devices."""
    for index, flag in enumerate(plan):
        if flag.startswith("--") and not flag.startswith(("--devices", "--seed", "--optimizer")):
            gone = {flag, *(each for each in plan if flag == "--solver=random" and each.startswith("--seed"))}
            yield [each for each in plan if each not in gone]
    devices = next((int(re.search(r"\d+$", flag)[0]) for flag in plan if flag.startswith("--devices")), 1)
    if not any(flag.startswith("--mesh") for flag in plan):
        for fewer in range(1, devices):
            yield [f"--devices=cpu:{fewer}" if flag.startswith("--devices") else flag for flag in plan]
    if "--solver=random" in plan:
        for seed in range(4):
            simpler = [f"--seed={seed}" if flag.startswith("--seed") else flag for flag in plan]
            if simpler != plan and int(re.search(r"--seed=(\d+)", " ".join(plan))[1]) > seed:
                yield simpler
