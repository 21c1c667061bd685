"""Small ONNX graphs against ONNX Runtime: many cases in one model, each an output of its own.

    suite = Suite("epilogues", sys.argv)
    suite.case("matmul relu", lambda g: g.Relu(g.MatMul(g.x(4, 6), g.c(6, 8))))
    suite.finish()

A case is a function that builds its part of a graph and returns the name of its result (or several). g.x(shape...) is an
input, equal for equal shapes within one model; g.c(shape...) a constant, new each time; g.OP(operands..., attribute=...)
a node. Cases are packed `pack` to a model in order, and every model runs once per way of running it (`plans`). Where a
model is refused or crashes, its cases are run one by one, so that what fails has a name; where an output differs, the
case is run alone as well, to say whether it needs the others.

ONNX Runtime runs with its optimizations off. Compared at rtol 1e-3 and atol 1e-4 of the largest finite magnitude; NaN
is equal to NaN alone and an infinity to itself. Constants are drawn from the name of the case: alone it sees what it
sees in its model, and equal parts of two cases are not merged into one that is used twice, which nothing would be fused
with. For the same reason a product of two inputs takes one of its own: g.x(shape..., tag=g.case).
"""
import argparse
import pathlib
import random
import re
import threading
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from compare import difference, largest
from kerf_commands import Commands

onnxruntime.set_default_logger_severity(4)
ONE = ("--devices=cpu:1",)


def drawn(key, shape, kind="normal", dtype="float32"):
    """Numbers that depend on the key and the shape alone."""
    rng = np.random.default_rng(zlib.crc32(repr((key, tuple(shape), kind)).encode()))
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if np.dtype(dtype).kind == "u" else -3, 7, shape).astype(dtype)
    values = np.asarray(rng.standard_normal(shape))
    if kind == "positive":
        values = np.asarray(np.abs(values) + 0.5)
    if kind == "special" and values.size:
        flat = values.reshape(-1)
        for at, number in zip(rng.permutation(flat.size)[:4], (np.nan, np.inf, -np.inf, np.nan)):
            flat[at] = number
    return np.asarray(values, dtype)


class Graph:
    """The graph of one model while cases add to it."""

    def __init__(self, opset=20):
        self.opset, self.nodes, self.inputs, self.constants, self.count = opset, [], {}, [], 0
        self.case, self.drawn = "", 0  # constants are drawn by their number within the case
        self.hints = {}

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def x(self, *shape, kind="normal", dtype="float32", tag=0):
        """An input; the same for the same shape, kind, type and tag."""
        key = (shape, kind, dtype, tag)
        if key not in self.inputs:
            self.inputs[key] = f"x{len(self.inputs)}", drawn(("x", tag), shape, kind, dtype)
        return self.inputs[key][0]

    def given(self, value):
        """An input of these numbers, its own."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = name, np.asarray(value)
        return name

    def c(self, *shape, kind="normal", dtype="float32"):
        """A constant of random numbers."""
        self.drawn += 1
        return self.const(drawn((self.case, self.drawn), shape, kind, dtype))

    def const(self, value, dtype=None):
        value = np.asarray(value, dtype or ("float32" if np.asarray(value).dtype == np.float64 else None))
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def ints(self, *values):
        return self.const(np.array(values, np.int64))

    def op(self, kind, *operands, results=1, domain="", **attributes):
        names = [self.name("v") for _ in range(results)]
        self.nodes.append(helper.make_node(kind, operands, names, name=names[0], domain=domain, **attributes))
        return names[0] if results == 1 else names

    def cut(self, value, sharding):
        """The value, with a hint: a text as `--shard` takes it."""
        self.hints[value] = sharding
        return value

    def __getattr__(self, kind):
        if not kind[0].isupper():
            raise AttributeError(kind)
        return lambda *operands, **attributes: self.op(kind, *operands, **attributes)

    def model(self, outputs):
        graph = helper.make_graph(
            self.nodes, "cases",
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in self.inputs.values()],
            [onnx.ValueInfoProto(name=name) for name in outputs], self.constants)
        domains = sorted({node.domain for node in self.nodes} - {""})
        opsets = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def covering(factors, fits=lambda row: True):
    """Rows of one value of each factor, few, in which every pair of values of two factors occurs that any row may have.

    `fits` says whether a row may be, also while some of its values are still None; factors in front decide first.
    """
    order, rows = random.Random(1), []
    missing = {(i, a, j, b): None for j in range(len(factors)) for i in range(j)
               for a in range(len(factors[i])) for b in range(len(factors[j]))}

    def values(row):
        return [None if at is None else values[at] for at, values in zip(row, factors)]

    def fill(i, a, j, b):
        row = [None] * len(factors)
        row[i], row[j] = a, b
        for k, choices in enumerate(factors):
            if row[k] is not None:
                continue
            known = [(at, each) for at, each in enumerate(row) if each is not None]
            found = list(range(len(choices)))
            order.shuffle(found)
            found.sort(key=lambda c: -sum((*sorted(((at, each), (k, c)))[0], *sorted(((at, each), (k, c)))[1]) in missing
                                          for at, each in known))
            row[k] = next((c for c in found if fits(values([*row[:k], c, *row[k + 1:]]))), None)
            if row[k] is None:
                return None
        return row

    while missing:
        pair = next(iter(missing))
        row = fill(*pair)
        del missing[pair]
        if row and fits(values(row)):
            rows.append(values(row))
            for j in range(len(row)):
                for i in range(j):
                    missing.pop((i, row[i], j, row[j]), None)
    return rows


def far_on_average(found, expected, bound):
    """Empty if the two are NaN at the same places and, elsewhere, within `bound` of each other in the mean square."""
    if found.shape != expected.shape or (np.isnan(found) != np.isnan(expected)).any():
        return f"shape or NaN differ: {found.shape}, expected {expected.shape}"
    kept = ~np.isnan(expected)
    error = np.sqrt(np.square(found[kept] - expected[kept]).sum() / max(np.square(expected[kept]).sum(), 1e-30))
    return "" if error <= bound else f"off by {error:.3g} in the mean square"


def compare(found, expected, plan=()):
    """Empty if `found` is what was expected of a run with the flags of `plan`."""
    rtol, atol = (1e-3, 1e-4) if expected.dtype != np.float16 else (2e-3, 2e-3)
    # 8 or 11 bits, in products behind each other: the mean is held, single elements are not.
    if "--precision=bf16" in plan or "--precision=f16" in plan:
        return far_on_average(found.astype(np.float64), expected.astype(np.float64), 0.08)
    least = 1e-44  # a few units of what a float32 can hold at all
    return difference(found, expected, rtol, least + atol * largest(expected))


class Suite:
    def __init__(self, name, arguments, plans=(ONE,), pack=48, opset=20, spread=0):
        """`spread`: every so manieth model (with --full each, three times) is cut at random over 2, 3 or 4 ranks, too."""
        parser = argparse.ArgumentParser()
        parser.add_argument("out", type=pathlib.Path)
        parser.add_argument("--full", action="store_true", help="the whole product")
        parser.add_argument("--only", default="", help="cases whose name contains this")
        parser.add_argument("--keep", action="store_true", help="keep the models that fail")
        parser.add_argument("--workers", type=int, default=2)
        parser.add_argument("--without", metavar="NAME",
                            help="take a precondition for true: succeeds as soon as a case fails, and else does not")
        self.options = parser.parse_args(arguments[1:])
        self.full, self.plans, self.pack, self.opset = self.options.full, plans, pack, opset
        self.plans = tuple(map(self.under_test, self.plans))
        self.name, self.cases, self.failures, self.ran = name, [], [], 0
        self.spread, self.hints, self.dropped = spread, 0, 0
        self.lock = threading.Lock()

    def under_test(self, plan):
        """`plan` with what --without takes away."""
        return (*plan, f"--without={self.options.without}") if self.options.without else plan

    def case(self, name, build, plans=None):
        if self.options.only in name:
            self.cases.append((name, build, tuple(plans or self.plans)))

    def build(self, cases):
        """(model, inputs, names of results by case)"""
        graph, results = Graph(self.opset), []
        for name, make, _ in cases:
            graph.case, graph.drawn = name, 0
            made = make(graph)
            # An output of its own: a result may be an input, a constant or another case's.
            results.append([made] if isinstance(made, str) else list(made))
        outputs = list(dict.fromkeys(each for names in results for each in names))
        return graph.model(outputs), {name: value for name, value in graph.inputs.values()}, results, graph.hints

    def expect(self, model, inputs):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]
        return dict(zip(names, session.run(names, inputs)))

    def run(self, kerf, cases, folder, plan, made=None):
        """(a message for the whole model or "", [(case, message)])"""
        model, inputs, results, hints, expected = made or self.prepare(cases, folder)
        out = folder / "out"
        for path in out.glob("*.npy"):
            path.unlink()
        hints = dict(hints)
        while True:
            run = kerf("run", folder / "model.onnx", *plan, f"--output-dir={out}", "--threads=1",
                       *(f"--input={name}=@{folder}/{name}.npy" for name in inputs),
                       *(f"--shard={name}={sharding}" for name, sharding in hints.items()))
            # What an op cannot be cut like, or what import has folded, is no wish of this test: it goes without.
            illegal = re.search(r"--shard: .*(?:is not a legal sharding of|no value is named) '(\w+)'", run.stderr)
            if run.code != 2 or not illegal:
                break
            del hints[illegal[1]]
            self.dropped += 1
        self.hints += len(hints)
        if run.code:
            lines = [line for line in run.stderr.splitlines() if line.startswith("error")]
            return f"exit {run.code}: {(lines or run.stderr.splitlines() or [''])[0]}", []
        problems = []
        for case, names in zip(cases, results):
            for name in names:
                try:
                    message = compare(np.load(out / f"{name}.npy"), expected[name], plan)
                except (OSError, ValueError) as error:
                    message = str(error)
                if message:
                    problems.append((case, message))
                    break
        return "", problems

    def prepare(self, cases, folder):
        model, inputs, results, hints = self.build(cases)
        expected = self.expect(model, inputs)
        # Types as ONNX Runtime found them: ONNX's own inference is wrong about pools that round up.
        for value in model.graph.output:
            found = expected[value.name]
            value.CopyFrom(helper.make_tensor_value_info(
                value.name, helper.np_dtype_to_tensor_dtype(found.dtype), found.shape))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        for name, value in inputs.items():
            np.save(folder / f"{name}.npy", value)
        return model, inputs, results, hints, expected

    def ways(self, cases, index):
        """How a model is run: as its cases say, and cut at random."""
        plans = list(cases[0][2])
        if self.spread and (self.full or index % self.spread == 0):
            for seed in range(3 if self.full else 1):
                plans.append((f"--devices=cpu:{2 + (index // self.spread + seed) % 3}", "--solver=random",
                              f"--seed={index + seed}"))
        return plans

    def check(self, kerf, cases, index):
        """One packed model in every way of running it."""
        folder = self.options.out / f"{self.name}{index}"
        made = self.prepare(cases, folder)
        for plan in self.ways(cases, index):
            refused, problems = self.run(kerf, cases, folder, plan, made)
            with self.lock:
                self.ran += len(cases)
            if refused and len(cases) == 1:
                problems = [(cases[0], refused)]
            elif refused:
                found = len(self.failures)
                for number, case in enumerate(cases):
                    self.alone(kerf, case, folder / f"alone{number}", plan, refused, only_new=True)
                if len(self.failures) == found:
                    self.fail(f"{self.name}{index} as a whole", plan, refused + f" (no case alone: {folder})")
            for number, (case, message) in enumerate(problems):
                self.alone(kerf, case, folder / f"differs{number}", plan, message)

    def alone(self, kerf, case, folder, plan, message, only_new=False):
        refused, problems = self.run(kerf, [case], folder, plan)
        said = refused or (problems[0][1] if problems else "")
        if said:
            self.fail(case[0], plan, said + (f" ({folder})" if self.options.keep else ""))
        elif not only_new:
            self.fail(case[0], plan, message + f" (beside others only: {folder.parent})")

    def fail(self, name, plan, message):
        with self.lock:
            self.failures.append((name, plan, message))
            print(f"FAILED {name} [{' '.join(plan)}]: {message}", flush=True)

    def finish(self):
        """Runs everything on a few processes, prints the count, and exits."""
        waiting, index = [], 0
        by_plans = {}
        for case in self.cases:
            by_plans.setdefault(case[2], []).append(case)
        for cases in by_plans.values():
            for at in range(0, len(cases), self.pack):
                waiting.append((index, cases[at:at + self.pack]))
                index += 1
        waiting.reverse()
        errors = []

        def work():
            with Commands() as kerf:
                while not errors:
                    with self.lock:
                        if not waiting or (self.options.without and self.failures):
                            return
                        number, cases = waiting.pop()
                    try:
                        self.check(kerf, cases, number)
                    except Exception as error:  # a mistake of the test: say which cases it was in
                        errors.append(error)
                        print(f"ERROR in {[case[0] for case in cases][:3]}...: {error!r}")

        threads = [threading.Thread(target=work) for _ in range(self.options.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        hints = f", {self.hints} hints ({self.dropped} more are not legal)" if self.hints else ""
        print(f"{self.name}: {len(self.cases)} cases, {self.ran} runs, {len(self.failures)} failed{hints}")
        if self.options.without:
            raise SystemExit(not self.failures or bool(errors))
        raise SystemExit(bool(self.failures or errors) or not self.ran)
