# What is said where there is no plan is true: each reason alone, and a plan that is
# known is found under a limit that is little above it. Graphs that compute nothing have plans.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[2])
import onnx
from onnx import parser

from kerf_tests import Checks, expect_error, fresh_folder, kerf

out, models = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "models"
checks = Checks()


def model(name, text, opset=12):
    path = out / f"{name}.onnx"
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}'), path)
    return path


# Three rows over two devices: one has two of three, more than 1.1/2.
rows = model("rows", """graph (float[3,1,3,3] x) => (float[3,1,1,2] y) {
  y = AveragePool <ceil_mode: int = 1, kernel_shape: ints = [3, 2], strides: ints = [1, 2]> (x) }""")
expect_error(checks, "share of the operations", ["plan", rows, "--devices=cpu:2", "--objective=volume"], 4,
             ["no plan divides the work", "more than 1.1/2 of the operations", "--objective=time"])
checks.expect("the way out of it", kerf("plan", rows, "--devices=cpu:2", "--objective=time").returncode == 0)
checks.expect("the other way out", kerf("plan", rows, "--devices=cpu:2", "--objective=volume", "--mesh=tp=2").returncode == 0)

# Four micro-batches of two samples each, which are half a row of the result.
halves = model("halves", """graph (float[8] x) => (float[2,4] y) <int64[2] shape = {2, 4}> {
  y = Reshape (x, shape) }""")
expect_error(checks, "micro-batches inside of a row", ["plan", halves, "--devices=cpu:4", "--mesh=tp=4", "--micro-batches=4"], 2,
             ["--micro-batches: the model cannot be cut into 4 along its batch", "other numbers of them"])
checks.expect("micro-batches of rows", kerf("plan", halves, "--devices=cpu:2", "--mesh=tp=2", "--micro-batches=2").returncode == 0)

# What was laid out under a limit that it did not keep is found again under all that it keeps.
refused = kerf("plan", models / "gpt2-small/model.onnx", "--dim=batch=2", "--devices=cpu:2", "--memory-limit=268787B")
needs = re.search(r"the smallest that was laid out, x=2 with \d+ micro-batches, needs (\d+) bytes", refused.stderr)
checks.expect("laid out and refused", refused.returncode == 4 and needs, refused.stderr)
for percent in (100, 102, 105, 108, 111) if needs else ():
    limit = int(needs[1]) * percent // 100
    kept = kerf("plan", models / "gpt2-small/model.onnx", "--dim=batch=2", "--devices=cpu:2", f"--memory-limit={limit}B")
    checks.expect(f"fits in {percent}% of what was laid out", kept.returncode == 0, kept.stderr)

# Candidates that are predicted to need more than the limit are marked, and no others.
marked = kerf("plan", pathlib.Path(sys.argv[2]) / "training/conv-max-pool/model.onnx", "--dim=batch=8", "--devices=cpu:2", "--train",
              "--loss=cross_entropy(logits,labels)", "--memory-limit=56000B")
rows = re.findall(r"  memory ([0-9.]+) KiB(\s+\(above the limit\))?\n", marked.stdout)
checks.expect("marked", any(row[1] for row in rows) and all((float(row[0]) > 56000 / 1024) == bool(row[1]) for row in rows), marked.stdout)

# No number of micro-batches is cheaper than what is proven of a pipeline that is asked for, 1 among them; none that the
# search takes by itself is dearer than another one of its rule.
for model_name, flags in (("models/gpt2-small", ["--machine=h100-4"]), ("training/mlp", ["--devices=cpu:4"]),
                          ("training/mlp", ["--devices=cpu:4", "--train", "--loss=cross_entropy(logits,labels)"])):
    pipeline = ["plan", models.parent / model_name / "model.onnx", "--dim=batch=8", "--mesh=pp=2", *flags, "--json"]
    found = json.loads(kerf(*pipeline).stdout)["objective"]
    for number in (1, 2, 4, 8):
        other = json.loads(kerf(*pipeline, f"--micro-batches={number}").stdout)["objective"]
        checks.expect(f"{model_name} {flags}: {number} micro-batches", found["lower_bound"] <= other["cost"] * (1 + 1e-9)
                      and found["cost"] <= other["cost"] * (1 + 1e-9), f"{found} {other}")

# Memory: what is known is tried here once more, and that it is not far above what fits.
SMALLEST = r"^error: .*, and the smallest plan that is known is predicted to need about (\d+) bytes \([0-9.]+ [KM]iB\) per device(?: \(\w+=.*\))?$"
for name, options in (("mlp", ["--dim", "batch=8", "--devices=cpu:4"]), ("gpt2-small", ["--dim", "batch=2", "--devices=cpu:2"]),
                      ("mlp", ["--dim", "batch=8", "--devices=cpu:2", "--mesh=pp=2"]),
                      ("mlp", ["--dim", "batch=8", "--devices=cpu:1"])):
    case = f"{name} {' '.join(options)}"
    refused = kerf("plan", models / name / "model.onnx", *options, "--memory-limit=2KiB")
    found = re.search(SMALLEST, refused.stderr, re.M)
    least = re.search(r"every plan needs at least (\d+) bytes(?: \([0-9.]+ [KM]iB\))? per device, the limit is 2048 bytes \(2\.00 KiB\) per device, and ",
                      refused.stderr)
    checks.expect(f"{case}: refused", refused.returncode == 4 and found and least, refused.stderr)
    if not found or not least:
        continue
    # A prediction may be too low.
    fits = kerf("plan", models / name / "model.onnx", *options, f"--memory-limit={int(found[1]) * 5 // 4}B")
    checks.expect(f"{case}: fits in {found[1]} and a quarter", fits.returncode == 0, fits.stderr)
    half = kerf("plan", models / name / "model.onnx", *options, f"--memory-limit={int(found[1]) // 2}B")
    checks.expect(f"{case}: does not fit in half of {found[1]}", half.returncode == 4, half.stdout)
    checks.expect(f"{case}: why no mesh can help", "\nnote: parameters and other constants take that much, however they "
                  "are cut\n" in refused.stderr, refused.stderr)
    said = [line for line in half.stderr.splitlines() if re.match("note: (x|y|pp|tp|one device)\\b", line)]
    checks.expect(f"{case}: a reason is said once, of some meshes", all(line.count(";") <= 3 for line in said)
                  and len({line.rsplit(": ")[-1] for line in said}) == len(said), half.stderr)
    below = kerf("plan", models / name / "model.onnx", *options, f"--memory-limit={int(least[1]) - 1}B")
    checks.expect(f"{case}: does not fit below {least[1]}", below.returncode == 4, below.stderr)

expect_error(checks, "random and too little memory",
             ["plan", models / "mlp/model.onnx", "--dim", "batch=8", "--devices=cpu:4", "--memory-limit=2KiB", "--solver=random"], 4,
             ["no plan fits in memory", "the smallest plan that is known is predicted to need about [1-9]"])
# A step that trains, whose meshes need from the least to many times as much.
training = [models.parent / "training/gpt2/model.onnx", "--dim=batch=32", "--machine=h100-8", "--mesh=pp=4,dp=2", "--train",
            "--loss=cross_entropy(logits,labels)", "--optimizer=adamw"]
refused = kerf("plan", *training, "--memory-limit=20KiB")
found = re.search(SMALLEST, refused.stderr, re.M)
checks.expect("training is refused", refused.returncode == 4 and found, refused.stderr)
if found:
    half = kerf("plan", *training, f"--memory-limit={int(found[1]) // 2}B")
    checks.expect(f"training does not fit in half of {found[1]}", half.returncode == 4, half.stdout)
    checks.expect("some meshes are named and the rest counted", "; and " in half.stderr, half.stderr)
    checks.expect("of an optimizer where there is one", "\nnote: parameters and what the optimizer keeps take that much" in refused.stderr, refused.stderr)
    checks.expect("no deadline is blamed", "deadline" not in half.stderr, half.stderr)
    most = kerf("plan", *training, f"--memory-limit={int(found[1]) * 4 // 5}B")
    checks.expect("candidates have their micro-batches and bytes", re.search(r"with \d+ micro-batches .*\([0-9.]+ [KM]iB\)", most.stderr), most.stderr)
    units = {"KiB": 1, "MiB": 1024, "GiB": 1 << 20}
    for line in most.stderr.splitlines():
        bytes_ = [float(number) * units[unit] for number, unit in re.findall(r"\(([0-9.]+) ([KMG]iB)\)", line)] if line.startswith("note: pp") else []
        checks.expect("the closest few, the smallest first", len(bytes_) <= 3 and bytes_ == sorted(bytes_), line)

# Micro-batches would change a BatchNorm: they are for the user to ask for, where they could help.
norm = ["plan", models.parent / "training/conv-batch-norm/model.onnx", "--dim=batch=16", "--devices=2", "--train",
        "--loss=cross_entropy(logits,labels)", "--optimizer=adamw"]
ASKS = "note: micro-batches, which hold less at a time, were not looked at: "
for limit, flags, said in (("60KiB", [], True), ("60KiB", ["--micro-batches=4"], False), ("10KiB", [], False)):
    refused = kerf(*norm, f"--memory-limit={limit}", *flags)
    checks.expect(f"BatchNorm in {limit} {flags}", refused.returncode == 4 and (ASKS in refused.stderr) == said and
                  ("--micro-batches=M asks for them (BatchNorm then has the statistics of each)" in refused.stderr) == said, refused.stderr)

# Samples that are joined otherwise are no matter of micro-batches: asking for them is refused.
ones = ", ".join(["1"] * 256)
joins = model("joins", "joins (float[batch,16] x) => (float[batch,batch] y) <float[16,16] w = {" + ones + "}> { "
              "a = MatMul (x, w) t = Transpose <perm: ints = [1, 0]> (a) y = MatMul (a, t) }")
joined = ["plan", joins, "--dim=batch=64", "--devices=2", "--train", "--loss=mse(y,t)", "--optimizer=adamw", "--memory-limit=6KiB"]
refused = kerf(*joined)
checks.expect("samples that are joined", refused.returncode == 4 and re.search(f"^{ASKS}.* needs all of it$", refused.stderr, re.M), refused.stderr)
expect_error(checks, "samples that are joined, asked for", [*joined, "--micro-batches=2"], 2, ["the batch cannot be cut into micro-batches"])

# Hints: the smallest set that conflicts, and memory is not blamed.
weight = "--shard=layers.0.weight="
expect_error(checks, "hints against each other",
             ["plan", models / "mlp/model.onnx", "--dim", "batch=8", "--devices=cpu:2", "--mesh=tp=2", f"{weight}[{{tp}},{{}}]",
              "--shard=layers.1.weight=[{},{tp}]", f"{weight}[{{}},{{tp}}]"], 2,
             ["--shard: these hints contradict each other", r"layers.0.weight=\[\{tp\},\{\}\]", r"layers.0.weight=\[\{\},\{tp\}\]"])
alone = kerf("plan", models / "mlp/model.onnx", "--dim", "batch=8", "--devices=cpu:2", "--mesh=tp=2", f"{weight}[{{tp}},{{}}]",
             "--shard=layers.1.weight=[{},{tp}]", f"{weight}[{{}},{{tp}}]")
checks.expect("no innocent hint is named", "layers.1.weight" not in alone.stderr, alone.stderr)

# Nothing to compute: there is a plan all the same, on one device and several.
for name, text in (("identity", "graph (float[2,3] x) => (float[2,3] y) { y = Identity (x) }"),
                   ("shape", "graph (float[2,3] x) => (int64[2] y) { y = Shape (x) }"),
                   ("dropout", "graph (float[2,3] x) => (float[2,3] y) { y = Dropout (x) }"),
                   ("constant", "graph (float[2,3] x) => (float[2] y) { y = Constant <value_floats: floats = [1.0, 2.0]> () }")):
    path = model(name, text, 13)
    for options in (["--devices=cpu:1"], ["--devices=cpu:2"], ["--devices=cpu:3", "--solver=random", "--seed=2"],
                    ["--devices=cpu:2", "--objective=volume"]):
        result = kerf("run", path, "--random-inputs", *options)
        checks.expect(f"{name} {' '.join(options)}", result.returncode == 0, result.stderr)
# What cannot be cut says what of.
expect_error(checks, "stages", ["plan", out / "identity.onnx", "--devices=cpu:2", "--mesh=pp=2"], 2,
             [r"^error: \S+\.onnx: no plan exists for the mesh that is asked for", "0 ops cannot make 2 stages"])
one_op = model("one-op", "graph (float[4,6] x) => (float[4,6] y) { y = Relu (x) }")
for options in ([], ["--solver=random"], ["--objective=volume"], ["--objective=volume", "--solver=random"], ["--solver=brute-force"]):
    expect_error(checks, f"more stages than ops {' '.join(options)}", ["plan", one_op, "--devices=cpu:3", "--mesh=pp=3", *options], 2,
                 [r"^error: \S+\.onnx: no plan exists for the mesh that is asked for", "pp=3: 1 op cannot make 3 stages"])
checks.finish()
