"""Random plans for a case, and the refusals that are true.

A refusal is accepted only if it names a limit that docs/ names; everything else that does not end with exit 0 is a
finding. Exit 70, signals and time-outs always are.
"""
import random
import re

# (exit code, pattern of what stands on stderr, why it is true)
TRUE_REFUSALS = [
    (2, r"^error: --micro-batches: \d+ does not divide the batch of \d+", "micro-batches that do not divide the batch"),
    (2, r"^error: --micro-batches: the batch cannot be cut into micro-batches",
     "a model without a batch has no micro-batches"),
    (2, r"^error: --micro-batches: the model cannot be cut into \d+ along its batch(\n.*)*"
     r"\nnote: there are plans with other numbers of them",
     "micro-batches that divide the batch, but not what an op makes of it"),
    (2, r"^error: .*: no plan exists for the mesh that is asked for(\n.*)*\nnote: .*pp=([2-9]).*: "
     r"\d ops? cannot make \2 stages",
     "more stages are asked for than there are operations"),
    (4, r"^error: (\S+: )?no plan divides the work: in each one device would compute more than 1\.1/\d+ "
     r"of the operations",
     "volume: no plan divides the work"),
    (2, r"^error: .*: no plan exists for the mesh that is asked for(\n.*)*\nnote: .*no cut into \d stages divides the work",
     "volume: no cut into stages divides the work"),
]


def one_rank():
    return ["--devices=cpu:1"]


def random_mesh(seed, k, extra=""):
    """Flags of a plan for several ranks: most often two to four, random solver or the planner's choice."""
    r = random.Random(f"plan {seed} {k} {extra}")
    devices = r.choices((2, 3, 4, 5, 6, 8), (38, 20, 32, 3, 4, 3))[0]
    flags = [f"--devices=cpu:{devices}"]
    form = r.random()
    if form < 0.35:
        rest, degrees = devices, {}
        for axis in r.sample(("dp", "tp", "pp"), 3):
            degree = r.choice([each for each in range(1, rest + 1) if rest % each == 0])
            degrees[axis] = degree
            rest //= degree
        if rest > 1:
            degrees["tp"] *= rest
        flags.append("--mesh=" + ",".join(f"{axis}={degrees[axis]}" for axis in ("dp", "tp", "pp")))
    if r.random() < 0.12:
        flags.append(f"--micro-batches={r.choice((1, 2, 2, 3, 4))}")
    solver = r.random()
    if solver < 0.6:
        flags += ["--solver=random", f"--seed={r.randrange(1000)}"]
    elif solver < 0.72:
        flags.append("--objective=volume")
    if r.random() < 0.05:
        flags.append("--precision=f32")
    return flags


def true_refusal(code, text):
    """Why this refusal is accepted, or None."""
    for expected, pattern, why in TRUE_REFUSALS:
        if code == expected and re.search(pattern, text, re.MULTILINE):
            return why
    return None


def first_error(text):
    for line in text.splitlines():
        if line.startswith("error: "):
            return line
    return text.splitlines()[0] if text else ""


def pattern_of(line):
    """An error line without what differs between graphs: file, names, numbers."""
    line = re.sub(r"error: \S*?\.onnx(:[^: ]*)?:", "error:", line)
    line = re.sub(r"\b[vwxcst]\d+\b", "V", line)
    line = re.sub(r"tensor<[^>]*>", "tensor", line)
    return re.sub(r"\d+(\.\d+)?", "N", line)[:160]
