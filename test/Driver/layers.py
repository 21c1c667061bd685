# A plan on a screen: three sentences, tables of few rows, alike layers in one line; all of it with -v.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[2])
import onnx

from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()
GPT2 = ["plan", INPUTS / "graphs/gpt2-124m/model.onnx", "--dim=batch=8", "--machine=h100-8"]


def said(*arguments):
    """stdout of a command, in which no line is too long, with what was broken for that in one line again."""
    result = kerf(*arguments)
    checks.expect(f"{' '.join(map(str, arguments[2:]))}: columns", "-v" in arguments or max(map(len, result.stdout.splitlines() or [""])) <= 120,
                  result.stdout)
    return re.sub(r"\n(?: {10}| {6})(?=\S)", " ", result.stdout)


def plan(name, *flags):
    text = said(*GPT2, *flags, "-o", OUT / f"{name}.json")
    checks.expect(f"{name} is planned", (OUT / f"{name}.json").exists())
    return text


searched, given = plan("searched"), plan("given", "--mesh=dp=2,tp=4")
for text, name in ((searched, "searched"), (given, "given")):
    checks.expect(f"{name} fits a screen", len(text.splitlines()) <= 48, text)
checks.expect("which cut, and why", re.search(r"^cut       x cuts the data, and every device of it has all parameters\n"
                                              r"why       of [0-9.]+ ms predicted for a step, [0-9.]+ ms compute; the busiest rank sends 0 B$", searched, re.M), searched)
checks.expect("the runner-up", re.search(r"^else      the runner-up, .*, would take (as long|[0-9.]+ .s, [0-9.]+ times as long)$", searched, re.M), searched)
checks.expect("an axis that cuts parameters", re.search(r"^cut       dp cuts the data.*; tp cuts \d+ of \d+ parameters \(", given, re.M), given)
parts = said("plan", INPUTS / "training/mlp/model.onnx", "--dim=batch=64", "--devices=2", "--mesh=dp=2", "--train", "--optimizer=adamw",
             "--loss=cross_entropy(logits,labels)", "--zero=3")
checks.expect("an axis that cuts both", re.search(r"^cut       dp cuts the data and \d+ of \d+ parameters \(", parts, re.M), parts)
tight = said("plan", INPUTS / "models/gpt2-small/model.onnx", "--dim=batch=64", "--machine=h100-8", "--memory-limit=700KiB", "-v")
named = re.search(r"^else      the runner-up, (.*), would take .*, if it fits: it is predicted to need (\S+ KiB) per\s+device$", tight, re.M)
checks.expect("a runner-up that may not fit", named and re.search(
    rf"^  {re.escape(named[1])} .* memory {re.escape(named[2])} +\(above the limit\)", tight, re.M), tight)
idle = said("plan", INPUTS / "models/mlp/model.onnx", "--dim=batch=1", "--devices=3", "--mesh=dp=3")
checks.expect("an axis that cuts nothing", "\ncut       dp cuts nothing: all its devices compute the same\n" in idle, idle)
checks.expect("where no cut was weighed", "the busiest rank sends 0 B\n" in idle, idle)
small = said("plan", INPUTS / "models/convnet/model.onnx", "--dim=batch=1", "--devices=2")
checks.expect("and where one was", "the busiest rank sends 0 B: what any cut saves is less than what sending takes\n" in small, small)
some = said("plan", INPUTS / "models/gpt2-small/model.onnx", "--dim=batch=2", "--devices=2", "--objective=volume", "--mesh=tp=2")
checks.expect("an axis that cuts a part of the model, and no input", re.search(
    r"^cut       tp cuts \d+ of 64 values that are computed \(node_\w+ along dimension 1, of 16, \.\.\.\), all its devices compute the rest, "
    r"and every device of it has all parameters$", some, re.M), some)
for mesh, flags in (("pp=2,dp=2", ["--micro-batches=2"]), ("dp=2,tp=2", [])):
    divided = " ".join(said("plan", INPUTS / "models/gpt2-small/model.onnx", "--dim=batch=8", "--devices=4", f"--mesh={mesh}", "--train",
                            "--optimizer=adamw", "--loss=cross_entropy(logits,labels)", *flags).split())
    checks.expect(f"{mesh}: no device has all parameters", re.search(r" cut .*dp cuts the data, and every device of it has the same parameters", divided), divided)
checks.expect("layers together", re.search(r"model\.transformer\.h\.0-11: \S+, \S+", given) and "h.7." not in given, given)
checks.expect("rows are left out", "kinds (-v)" in given or "more meshes (-v)" in searched, given)
small = ["plan", INPUTS / "models/gpt2-small/model.onnx", "--dim=batch=8", "--machine=h100-8"]
short, full = said(*small), said(*small, "-v")
value = "model.transformer.h.1.mlp.c_fc.weight  "
checks.expect("-v has every value", value in full and value not in short, full[:2000])
checks.expect("-v says what the pure cuts are", "if it were cut one way alone" in full and "so either may be above the other; *" in full
              and "cut one way alone" not in given, full[-3000:])

# What keeps meshes from having a plan is said once per reason, however much of the search other work leaves time for.
for deadline in (3, 9, 27):
    tight = said(*small[:-1], "--machine=h100-4", "--memory-limit=300KiB", f"--deadline={deadline}")
    reasons = [line for line in tight.splitlines() if line.endswith(": predicted to need more memory than the limit")]
    alike = reasons and re.search(r"\(\d+ KiB\); .*(\(\d+ KiB\)|\.\.\.): ", reasons[0])
    if alike:
        break
checks.expect("too much memory, once, with how much", len(reasons) == 1 and alike, tight)

# Two plans: the same layers in one line.
result = kerf("report", OUT / "searched.json", "--diff", OUT / "given.json", "-v")
checks.expect("diff of layers", re.search(r'^  node_layer_norm_1-24  \{"x"\}, \{\}, \{\} against \{"dp"\}, ', result.stdout, re.M)
              and "h.7." not in result.stdout, result.stdout[-3000:])

# A training step: parameters are the model's, not states and what updates make; a buffer of many gradients is said to be
# one; the parts of a step are all of it.
STEP = ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw"]
step = ["plan", INPUTS / "training/mlp/model.onnx", "--dim=batch=4096", *STEP]
cut = said(*step, "--devices=2", "--mesh=tp=2")
found = re.search(r"tp cuts (\d+) of (\d+) parameters .*\n(?:.*\n)*trained   (\d+) parameters of", cut)
checks.expect("parameters of the model alone", found and 0 < int(found[1]) <= int(found[2]) == int(found[3]), cut)
# Of two blocks nothing is left out between them. Parameters that are read in parts are counted once, as PyTorch does.
blocks = said("plan", INPUTS / "training/gpt2/model.onnx", "--dim=batch=8", *STEP, "--recompute=all")
checks.expect("two blocks", re.search(r"^recompute 2 blocks, .*: .* to .*; .* to ", blocks, re.M) and "; ...;" not in blocks, blocks)
checks.expect("parts of parameters", "trained   28 parameters (in 36 parts) of 28.0 k elements\n" in blocks, blocks)
whole = said(*step, "--devices=2", "--mesh=dp=2")
checks.expect("a buffer of several gradients", re.search(r"1 x all_reduce over dp, .* gradient: .*  \(\S+ and [1-9]\d* more\)$", whole, re.M), whole)
one = said(*step, "--devices=1")
checks.expect("one device", "nothing cut on 1 device of cpu" in one, one)
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
staged = said(*step, "--devices=2", "--mesh=pp=2", "--micro-batches=4")
why = re.search(r"^why       of (.*) predicted for a step, (.*); the busiest", staged, re.M)
seconds = [float(number) * UNITS[unit] for number, unit in re.findall(r"([0-9.]+) ([num]?s)\b", why[1] + " " + why[2])] if why else [0]
checks.expect("the parts of a step are all of it", "idle, while stages wait" in staged and abs(sum(seconds[1:]) - seconds[0]) < 0.01 * seconds[0], staged)

# The plan that is taken stands first, and is not its own runner-up; the same cut under other names is none either.
ties = kerf("plan", INPUTS / "training/gpt2/model.onnx", "--dim=batch=32", "--machine=h100-8", *STEP, "-o", OUT / "ties.json")
plan_json = json.loads((OUT / "ties.json").read_text())
first = plan_json["runners_up"][0]
checks.expect("the plan is the first", first["mesh"].items() <= plan_json["mesh"].items() and first["micro_batches"] == plan_json["schedule"]["micro_batches"], first)


def runner_up(name, *others):
    plan_json["runners_up"] = [first, *others]
    (OUT / f"{name}.json").write_text(json.dumps(plan_json))
    return said("report", OUT / f"{name}.json")


other = {"mesh": {"q": 8}, "micro_batches": 1, "status": "infeasible", "reason": "nothing fits"}
twin = {**first, "mesh": {("pp" if axis == "pp" else f"q{axis}"): size for axis, size in first["mesh"].items()}}
text = runner_up("twin", twin, {**first, "mesh": {"z": 8}, "cost": 2 * first["cost"], "micro_batches": 16})
checks.expect("not the same cut", "\nelse      the runner-up, z=8, 16 micro-batches, would take " in text and ", 2.00 times as long\n" in text, text)
checks.expect("the same cut is one row", re.search(r"^  \S.* memory \S+ [KMG]iB  \(the same: .*\)$", text, re.M), text)
text = runner_up("twins", twin)
checks.expect("the same plan", re.search(r"\nelse      \S.*: the same plan; none is known that differs\n", text), text)
# So is one of other sizes that has the same figures; one that takes as long, but holds more, is a row and the runner-up.
stages = {axis: size for axis, size in first["mesh"].items() if axis == "pp"}
text = runner_up("parts", {**first, "mesh": {**stages, "v": 2, "w": 2}}, {**first, "mesh": {"z": 8}, "cost": 2 * first["cost"], "micro_batches": 16})
checks.expect("two axes as one", re.search(r"^  \S.* memory \S+ [KMG]iB +\(the same: .*v=2 x w=2\)$", text, re.M)
              and "\nelse      the runner-up, z=8, 16 micro-batches, would take " in text, text)
text = runner_up("more", {**first, "mesh": {**stages, "v": 2, "w": 2}, "bytes_per_rank": first["bytes_per_rank"] + 4096})
checks.expect("as long, and no twin", "(the same" not in text and re.search(r"\nelse      the runner-up, .*v=2 x w=2.*, would take as long\n", text), text)
text = runner_up("close", {**first, "mesh": {"z": 8}, "cost": 1.001 * first["cost"], "micro_batches": 16})
checks.expect("as long", "would take as long\n" in text, text)
text = runner_up("cheaper", {**first, "mesh": {"z": 8}, "cost": 0.5 * first["cost"], "micro_batches": 16})
checks.expect("one that costs less, and may not fit", ", 0.50 times as long" in text, text)
text = runner_up("long-name", {**first, "mesh": {"pp": 2, "dp": 2, "abcdefghij": 2}, "micro_batches": 8})
checks.expect("columns are apart", "8 micro-batches  " in text, text)
text = runner_up("none", other)
checks.expect("none of other meshes", "\nelse      there is no plan of another mesh\n" in text, text)
text = runner_up("unknown", {**other, "status": "unknown", "reason": "not searched: the deadline came first"})
checks.expect("none is known", "\nelse      no plan is known of another mesh\n" in text, text)
text = runner_up("same", {**other, "mesh": first["mesh"], "micro_batches": 32})
checks.expect("no other mesh was tried", "\nelse      there is no plan with another number of micro-batches, and no other mesh was looked at\n" in text, text)
for name, mesh in (("named", "x=2"), ("renamed", "dp=2")):
    plan(name, f"--mesh={mesh}", "--devices=2")
result = kerf("report", OUT / "named.json", "--diff", OUT / "renamed.json")
checks.expect("axes of other names", re.search(r"^values: (\d+) against \1, 0 of both are cut otherwise \(dp taken for x\)$", result.stdout, re.M), result.stdout)
result = kerf("plan", f"{sys.argv[2]}/models/mlp/model.onnx", "--dim=batch=8", "--machine=pcie-8", "--objective=volume", "-q", "-o", OUT / "other.json")
result = kerf("report", OUT / "searched.json", "--diff", OUT / "other.json")
checks.expect("diff of unlike plans", re.search(r"of different models, it seems: of \d+ and 6 parameters 0 have one name\n", result.stdout)
              and re.search(r"\n  machine +\S+ +pcie-8 +differs\n  minimised +time +volume +differs\n", result.stdout), result.stdout + result.stderr)

# Names that are longer than a column have their middle left out, but with -v and in JSON.
model = onnx.load(INPUTS / "models/mlp/model.onnx")
LONG = "/a_model_with_a_long_name/a_module_with_a_long_name.3/a_part_with_a_long_name/"
for node in model.graph.node:
    node.name = LONG + node.name
    for names in (node.input, node.output):
        names[:] = [name if name in ("x", "logits") or name.endswith(("weight", "bias")) else LONG + name for name in names]
del model.graph.value_info[:]
onnx.save(model, OUT / "long.onnx")
node = next(node.name for node in model.graph.node if node.op_type in ("Gemm", "MatMul"))
long = ["plan", OUT / "long.onnx", "--dim=batch=8", "--devices=4", "--machine=cpu", "--mesh=dp=2,tp=2"]
for flags in ([], [f"--explain={node}"]):
    short, whole, document = said(*long, *flags), said(*long, *flags, "-v"), kerf(*long, *flags, "--json").stdout
    checks.expect(f"long names {flags[:1]}", LONG not in short and "/a_model_with_a_long_name/a_..." in short, short)
    checks.expect(f"whole names {flags[:1]}", LONG in whole and LONG in document, whole)
# The plan of an op that nothing cuts.
alone = said("plan", OUT / "long.onnx", "--dim=batch=8", "--devices=1", "--machine=cpu", f"--explain={node}")
checks.expect("nothing to cut", re.search(r"^explain   \S+ \(nn\.matmul\): it stays whole$", alone, re.M), alone)
# What a row has no room for begins its next line as what it makes.
rows = [line for line in short.splitlines() if "->" in line and "reads" not in line]
checks.expect("rows are whole", rows and all(line.count('"') % 2 == 0 and re.search(r"(^ +->|\} ->) \{", line) for line in rows), short)
checks.finish()
