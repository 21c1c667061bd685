# Wishes that cannot be granted: exit code and message, nothing written. The
# number is that of the promise: 13 plan files, 14 meshes, 15 memory; and flags,
# hints, machines, inputs.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %models %inputs
import json
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[3])
import numpy as np
import onnx

from kerf_tests import Checks, expect_error, fresh_folder, in_parallel, kerf

OUT, MODELS, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
MLP = [MODELS / "mlp/model.onnx", "--dim", "batch=8"]


def written(name, content):
    path = OUT / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


# A plan of the right form, to spoil in one place each.
made = kerf("plan", *MLP, "--devices=2", "--mesh=tp=2", "--json")
checks = Checks()
checks.expect("a good plan", made.returncode == 0, made.stderr)
good = json.loads(made.stdout) if made.returncode == 0 else {"values": [{}], "mesh": {}}


def spoiled(name, change):
    plan = json.loads(json.dumps(good))
    change(plan)
    return f"--plan={written(name + '.json', plan)}"


def rename_value(plan):
    plan["values"][0]["name"] = "nobody"


def unknown_axis(plan):
    plan["values"][1]["sharding"] = "{\"zz\"}, {}"


def too_many_dims(plan):
    plan["values"][1]["sharding"] = "{}, {}, {}, {}, {}"


def no_sharding(plan):
    plan["values"][1]["sharding"] = "[[["


machine = written("machine.json", {"schema": "kerf.machine/1"})
np.save(OUT / "short.npy", np.zeros((8, 31), np.float32))
np.save(OUT / "whole.npy", np.zeros((8, 32), np.int64))
written("text.npy", "no array at all")
(OUT / "huge.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976, 64), }".ljust(117) + "\n").encode())

PLAN = [  # name, arguments after the model, exit code, patterns
    ("no-such-flag", ["--devises=4"], 2, ["devises"]),
    ("devices-zero", ["--devices=0"], 2, ["devices", "0"]),
    ("devices-negative", ["--devices=-4"], 2, ["devices"]),
    ("devices-word", ["--devices=many"], 2, ["many"]),
    ("devices-kind", ["--devices=tpu:4"], 2, ["tpu"]),
    ("devices-of-another-machine", ["--devices=cuda:0-3", "--machine=cpu"], 2, ["--machine=cpu describes ranks that share the cores", "cuda:0-3"]),
    ("14-mesh-zero", ["--devices=4", "--mesh=dp=0"], 2, ["dp", r"\b0\b"]),
    ("14-mesh-negative", ["--devices=4", "--mesh=dp=-2"], 2, ["dp", "-2"]),
    ("14-mesh-count", ["--devices=4", "--mesh=dp=3"], 2, [r"\b3\b", r"\b4\b"]),
    ("14-mesh-on-one-device", ["--devices=1", "--mesh=dp=4"], 2, [r"--mesh: degrees multiply to 4, .*--devices"]),
    ("14-mesh-too-large", ["--mesh=dp=65536,tp=2"], 2, ["--mesh: degrees multiply to 131072, "]),
    ("14-mesh-zero-alone", ["--mesh=dp=0"], 2, ["dp", r"\b0\b"]),
    ("14-mesh-product", ["--devices=4", "--mesh=dp=2,tp=4"], 2, [r"\b8\b", r"\b4\b"]),
    ("14-mesh-twice", ["--devices=4", "--mesh=dp=2,dp=2"], 2, ["dp", "twice"]),
    ("14-mesh-text", ["--devices=4", "--mesh=two"], 2, ["two"]),
    ("14-mesh-overflow", ["--devices=4", "--mesh=dp=4294967296,tp=4294967296"], 2, ["18446744073709551616", r"\b4\b"]),
    ("14-stages", ["--devices=64", "--mesh=pp=64"], 2, ["mesh", "64 stages"]),
    ("dim-zero", ["--dim=batch=0", "--devices=2"], 2, ["batch"]),
    ("dim-text", ["--dim=batch", "--devices=2"], 2, ["batch"]),
    ("micro-batches", ["--devices=2", "--mesh=pp=2", "--micro-batches=0"], 2, ["micro-batches"]),
    ("hint-syntax", ["--devices=2", "--shard=x=[{tp]"], 2, [r"\[\{tp\]|\{tp"]),
    ("hint-brackets", ["--devices=2", "--mesh=tp=2", "--shard=node_gelu=[{tp},{}"], 2, ["brackets do not match"]),
    ("memory-huge", ["--devices=2", "--memory-limit=99999999999TiB"], 2, ["'99999999999TiB' is more than 2.63 bytes"]),
    ("hint-nobody", ["--devices=2", "--shard=nobody_has_this=[{tp},{}]"], 2, ["nobody_has_this"]),
    ("hint-regex", ["--devices=2", "--shard=(=[{tp},{}]"], 2, [r"\("]),
    ("hint-axis", ["--devices=2", "--mesh=tp=2", "--shard=node_gelu=[{zz},{}]"], 2, ["no mesh has an axis 'zz', expected tp"]),
    ("hint-axis-of-any", ["--devices=4", "--shard=node_gelu=[{zz},{}]"], 2, ["no mesh has an axis 'zz', expected x", "--mesh names"]),
    ("hint-dims", ["--devices=2", "--mesh=tp=2", "--shard=node_gelu=[{tp},{},{}]"], 2, ["node_gelu", "legal"]),
    ("precision", ["--precision=int8"], 2, ["precision", "int8", "bf16"]),
    ("precision-of-gpus", ["--devices=2", "--precision=tf32"], 2, ["tf32", "cuda"]),
    ("precision-of-plan", ["--precision=f16", f"--plan={written('f32.json', good)}"], 2, ["f16", "f32.json", "f32"]),
    ("machine-unknown", ["--devices=2", "--machine=abacus"], 2, ["abacus"]),
    ("machine-size", ["--devices=2", "--machine=h100-2"], 2, ["h100-2", "D is 1, 4 or 8"]),
    ("loss-alone", ["--train", "--loss=cross_entropy"], 2, [r"--loss: expected cross_entropy\(OUTPUT,LABELS\)"]),
    ("loss-as-an-optimizer", ["--train", "--loss=cross_entropy,labels=labels"], 2, [r"--loss: expected cross_entropy\(OUTPUT,LABELS\)"]),
    ("machine-missing", ["--devices=2", f"--machine={OUT / 'none.json'}"], 2, ["none.json"]),
    ("machine-empty", ["--devices=2", f"--machine={machine}"], 2, ["machine.json"]),
    ("machine-syntax", ["--devices=2", f"--machine={written('broken.json', '{')}"], 2, ["broken.json"]),
    ("memory-text", ["--devices=2", "--memory-limit=lots"], 2, ["lots"]),
    ("15-memory", ["--devices=2", "--memory-limit=4KiB"], 4, ["4096|4(.00)? KiB", "needed|least"]),
    ("13-plan-missing", ["--devices=2", f"--plan={OUT / 'none.json'}"], 2, ["none.json"]),
    ("13-plan-syntax", ["--devices=2", f"--plan={written('syntax.json', '{oops')}"], 2, ["syntax.json"]),
    ("13-plan-array", ["--devices=2", f"--plan={written('array.json', [1])}"], 2, ["array.json"]),
    ("13-plan-schema", ["--devices=2", spoiled("schema", lambda p: p.update(schema="kerf.plan/99"))], 2,
     ["schema.json", "kerf.plan/99", "kerf.plan/1"]),
    ("13-plan-value", ["--devices=2", spoiled("value", rename_value)], 2, ["value.json", "nobody"]),
    ("13-plan-axis", ["--devices=2", spoiled("axis", unknown_axis)], 2, ["axis.json", "zz"]),
    ("13-plan-dims", ["--devices=2", spoiled("dims", too_many_dims)], 2, ["dims.json"]),
    ("13-plan-text", ["--devices=2", spoiled("text", no_sharding)], 2, ["text.json"]),
    ("13-plan-mesh", ["--devices=2", spoiled("mesh", lambda p: p.update(mesh={"dp": 5, "tp": 7}))], 2, ["mesh.json"]),
    ("13-plan-devices", ["--devices=8", spoiled("devices", lambda p: None)], 2, [r"\b2\b", r"\b8\b"]),
]
RUN = [
    ("input-unknown", ["--input", f"nobody=@{OUT / 'short.npy'}"], 2, ["nobody"]),
    ("input-shape", ["--input", f"x=@{OUT / 'short.npy'}"], 2, ["31", "32"]),
    ("input-type", ["--input", f"x=@{OUT / 'whole.npy'}"], 2, ["i64|int64", "f32|float32"]),
    ("input-missing", ["--input", f"x=@{OUT / 'none.npy'}"], 2, ["none.npy"]),
    ("input-text", ["--input", f"x=@{OUT / 'text.npy'}"], 2, ["text.npy"]),
    ("input-huge", ["--input", f"x=@{OUT / 'huge.npy'}"], 2, ["huge.npy"]),
    ("input-syntax", ["--input", "x"], 2, ["NAME=@"]),
]
jobs = [(expect_error, checks, name, ["plan", *MLP, *flags], code, patterns)
        for name, flags, code, patterns in PLAN]
jobs += [(expect_error, checks, name, ["run", *MLP, "--devices=2", f"--output-dir={OUT / name}", *flags], code,
          patterns, "kerf", [OUT / name / "logits.npy"]) for name, flags, code, patterns in RUN]
# A failed compilation leaves the package that was there.
before = OUT / "kept.kerf"
before.mkdir()
MINE = '{"schema": "kerf.package/1", "mine": 1}'
(before / "manifest.json").write_text(MINE)
jobs.append((expect_error, checks, "kept", ["compile", *MLP, "--devices=4", "--mesh=dp=3", "-o", before], 2, ["3"]))
jobs.append((expect_error, checks, "no-folder", ["compile", *MLP, "--devices=1", "-o", OUT / "none/at/all.kerf"], 2,
             ["all.kerf"], "kerf", [OUT / "none"]))
jobs.append((expect_error, checks, "over-a-folder", ["compile", *MLP, "-o", MODELS / "mlp"], 2, ["not a package; it is not replaced"]))
for flag in ("--dump-dir", "--output-dir"):
    jobs.append((expect_error, checks, f"{flag} in no folder", ["run", *MLP, "--seed=1", f"{flag}={OUT / 'none/at'}"], 2,
                 [r'none/at: cannot create: the folder "\S+/none" does not exist'], "kerf", [OUT / "none"]))
# What is no model: missing, a folder, a package, a document.
(OUT / "folder").mkdir()
for command in ("inspect", "plan", "run", "verify"):
    jobs.append((expect_error, checks, f"{command} nothing", [command, OUT / "none.onnx"], 2, ["none.onnx: cannot open: No such file"]))
    jobs.append((expect_error, checks, f"{command} folder", [command, OUT / "folder"], 2, ["folder: is a folder, expected an ONNX model"]))
    if command != "run":
        jobs.append((expect_error, checks, f"{command} package", [command, before], 2,
                     ["kept.kerf: is a package, expected an ONNX", "kerf report .*kept.kerf/plan.json shows how it is cut"]))
jobs.append((expect_error, checks, "report model", ["report", MLP[0]], 2, ["is an ONNX model, expected plan.json or run.json"]))
written("run-report.json", {"schema": "kerf.run/1"})
jobs.append((expect_error, checks, "run a plan", ["run", written("a-plan.json", good)], 2, ["a-plan.json: is a plan, expected an ONNX", "--plan="]))
jobs.append((expect_error, checks, "plan a report", ["plan", OUT / "run-report.json"], 2, ["is the report of a run, expected an ONNX"]))
# A file of another kind: what it is, and what was asked.
named = {"a plan": OUT / "a-plan.json", "the report of a run": OUT / "run-report.json", "a machine file": machine, "an ONNX model": MLP[0],
         "a package": before, "a folder": OUT / "folder"}
for kind, path in named.items():
    if kind != "a plan":
        jobs.append((expect_error, checks, f"{kind} as a plan", ["plan", *MLP, "--devices=2", f"--plan={path}"], 2,
                     [rf"--plan: \S+: is {kind}, expected a plan\n", "kerf plan -o plan.json writes one"]))
    if kind != "a machine file":
        jobs.append((expect_error, checks, f"{kind} as a machine", ["plan", *MLP, "--devices=2", f"--machine={path}"], 2,
                     [rf"--machine: \S+: is {kind}, expected a machine file\n", "kerf calibrate -o machine.json"]))
    if kind not in ("a plan", "the report of a run"):
        jobs.append((expect_error, checks, f"{kind} to report", ["report", path], 2, [f"is {kind}, expected plan.json or run.json"]))
    if kind not in ("an ONNX model", "a package", "a folder"):
        jobs.append((expect_error, checks, f"{kind} as a model", ["plan", path, *MLP[1:]], 2, [f"is {kind}, expected an ONNX model"]))
jobs.append((expect_error, checks, "an array as a machine", ["plan", *MLP, "--devices=2", f"--machine={OUT / 'short.npy'}"], 2,
             ["short.npy: is a NumPy array, expected a machine file"]))
jobs.append((expect_error, checks, "no machine file", ["plan", *MLP, "--devices=2", f"--machine={OUT}/nothing"], 2, ["--machine: .*nothing: No such file"]))
(OUT / "machine").write_text(machine.read_text())
jobs.append((expect_error, checks, "a machine by another name", ["plan", *MLP, "--devices=2", f"--machine={OUT}/machine"], 2,
             ["the name of a machine file must end in .json"]))
# Data that is not there, whatever its name says it is.
TRAIN = ["train", INPUTS / "training/mlp/model.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--steps=1", "--no-output",
         "--batch-size=8"]
DATA = INPUTS / "training/mlp/data.npz"
for name in ("nothing/", "nothing", "nothing.npz", "nothing.npy", "nothing.txt", "nothing.safetensors"):
    for flags in ([f"--data={OUT}/{name}"], [f"--data={DATA}", f"--eval-data={OUT}/{name}"]):
        jobs.append((expect_error, checks, f"{flags[-1][:6]} {name}", [*TRAIN, *flags], 2, [f"/{name}: cannot open: No such file or directory\n"]))
jobs.append((expect_error, checks, "data in an empty folder", [*TRAIN, f"--data={OUT / 'folder'}"], 2, ["folder: has no .npy files"]))
# Nothing is written into a package, which is what it was compiled to be.
for flags in (["report", OUT / "a-plan.json", f"--html={before}/weights.safetensors"], ["plan", *MLP, "-o", before / "plan.json"],
              ["run", *MLP, "--random-inputs", f"--output-dir={before}"], ["run", *MLP, "--random-inputs", f"--output-dir={before}/a"],
              ["run", *MLP, "--random-inputs", f"--stats={before}/run.json"], ["compile", *MLP, "-o", before / "inner.kerf"],
              ["compile", *MLP, f"--dump-dir={before}/dump", "-o", OUT / "never.kerf"]):
    jobs.append((expect_error, checks, f"into a package: {flags[0]} {str(flags[-1])[:8]}", flags, 2,
                 [r"\S+: -?-[a-z-]+ would write into the package \S+kept.kerf, expected a place outside it"], "kerf",
                 [before / "run.json", before / "a", before / "dump", before / "inner.kerf"]))
# A batch of two sizes.
two = onnx.helper.make_model(onnx.helper.make_graph(
    [onnx.helper.make_node("Identity", ["x"], ["y"]), onnx.helper.make_node("Identity", ["num"], ["z"])], "two",
    [onnx.helper.make_tensor_value_info("x", 1, [8, 4]), onnx.helper.make_tensor_value_info("num", 1, [8, 13])],
    [onnx.helper.make_tensor_value_info("y", 1, [8, 4]), onnx.helper.make_tensor_value_info("z", 1, [8, 13])]), ir_version=9)
onnx.save(two, OUT / "two.onnx")
jobs.append((expect_error, checks, "a batch of two sizes", ["plan", OUT / "two.onnx", "--batch-dim=num=1"], 2,
             ['num: --batch-dim says dimension 1, of size 13, but the batch of input "x" has size 8']))
jobs.append((expect_error, checks, "a huge batch", ["plan", MLP[0], "--dim=batch=99999999999999"], 2, ["larger than 2.47 bytes"]))
jobs.append((expect_error, checks, "report package", ["report", before], 2, ["is a package, expected plan", "kerf report .*kept.kerf/plan.json shows"]))
jobs.append((expect_error, checks, "report folder", ["report", OUT / "folder"], 2, ["is a folder, expected plan.json or run.json"]))
jobs.append((expect_error, checks, "no-command", [], 2, ["no command is given, expected one of .*plan"]))
jobs.append((expect_error, checks, "unknown-command", ["ponder"], 2, ["ponder"]))
jobs.append((expect_error, checks, "swapped letters", ["rnu"], 2, ["unknown command 'rnu', did you mean run"]))
jobs.append((expect_error, checks, "a flag of several others", ["compile", *MLP, "--json"], 2,
             ["unknown argument --json, which is of kerf [a-z, ]*plan, "]))
for flag in ("--prompt-ids=", "--dim="):
    jobs.append((expect_error, checks, f"{flag} and nothing", ["generate", *MLP[:1], flag, "--tokens=8"], 2,
                 [f"{flag[:-1]}: a value is missing"]))
jobs.append((expect_error, checks, "a machine that is too small", ["plan", *MLP, "--machine=h100-8", "--devices=16"], 2,
             ['machine "h100-8" has 8 devices, 16 asked for: "h100-8x2" has as many']))
jobs.append((expect_error, checks, "a flag of another command", ["plan", *MLP, "--diff", "x"], 2, ["unknown argument --diff, which is of kerf report"]))
jobs.append((expect_error, checks, "no memory", ["plan", *MLP, "--memory-limit=0B"], 2, ["--memory-limit: '0B', expected more than 0"]))
jobs.append((expect_error, checks, "a choice", ["plan", *MLP, "--precision=fp8"], 2, ["--precision: 'fp8', expected f32, tf32, bf16 or f16"]))
jobs.append((expect_error, checks, "a flag twice", ["plan", *MLP, "--precision=f32", "--precision=bf16"], 2, ["--precision is given more than once"]))
jobs.append((expect_error, checks, "a dimension", ["plan", MLP[0], "--dim", "bacth=8"], 2, ['no input has a dimension "bacth", did you mean "batch"?']))
jobs.append((expect_error, checks, "input folder", ["run", *MLP, f"--input={OUT / 'folder'}"], 2, ["is a folder, expected a file"]))
np.save(OUT / "empty.npy", np.zeros((0, 32), np.float32))
jobs.append((expect_error, checks, "no samples", ["run", MLP[0], f"--input={OUT / 'empty.npy'}"], 2, ['empty.npy: dimension "batch" of input "x" is empty']))
jobs.append((expect_error, checks, "plan of training", ["plan", *MLP, spoiled("train", lambda plan: plan.update(goal="train"))], 2,
             ["is a plan of a step that trains, expected one of inference"]))
in_parallel(jobs)
checks.expect("the old package is as it was", (before / "manifest.json").read_text() == MINE)
# A step and its parts are medians of the same steps.
ran = kerf("run", *MLP, "--seed=1", "--devices=cpu:2", "--mesh=tp=2", "--repeat=9", "-q", "--stats", OUT / "run.json")
time = json.loads((OUT / "run.json").read_text())["time"] if ran.returncode == 0 else {}
checks.expect("parts of a step", time and 0 < time["compute_seconds"] <= time["step_seconds"] and
              time["exposed_communication_seconds"] <= time["step_seconds"], str(time) + ran.stderr)
# A misspelt size is one error, not that and its consequence.
misspelt = kerf("plan", MLP[0], "--dim", "bacth=8")
checks.expect("one error", misspelt.stderr.count("error: ") == 1, misspelt.stderr)
# Whose numbers a plan has where it is made for one machine and runs on another.
for flags, said in ((["--machine=h100-8", "--devices=cpu:2"], True), (["--machine=h100-8", "--devices=2"], False), (["--machine=cpu", "--devices=cpu:2"], False),
                    (["--machine=h100-8", "--devices=cpu:2", "-q"], False)):
    planned = kerf("plan", *MLP, *flags)
    checks.expect(f"two machines {flags}", planned.returncode == 0 and
                  ("note: the plan is made for h100-8 (--machine), and runs on ranks of a CPU (--devices=cpu:2)\n" in planned.stderr) == said, planned.stderr)
# Parameters are counted whether or not sizes are open.
shown, bound = (re.findall("^parameters .*", kerf("inspect", MLP[0], *flags).stdout, re.M) for flags in ([], ["--dim=batch=3"]))
checks.expect("inspect without sizes", len(shown) == 1 and shown == bound and "element" in shown[0], (shown, bound))
# A table of which the program reads some rows: the plan says what it reads, and what the file has.
table = onnx.helper.make_model(onnx.helper.make_graph(
    [onnx.helper.make_node("Gather", ["table", "ids"], ["rows"]), onnx.helper.make_node("Add", ["x", "rows"], ["y"])], "table",
    [onnx.helper.make_tensor_value_info("x", 1, ["batch", 4, 8])], [onnx.helper.make_tensor_value_info("y", 1, ["batch", 4, 8])],
    [onnx.numpy_helper.from_array(np.ones((32, 8), np.float32), "table"), onnx.numpy_helper.from_array(np.arange(4), "ids")]), ir_version=9)
onnx.save(table, OUT / "table.onnx")
shown, planned = kerf("inspect", OUT / "table.onnx").stdout, kerf("plan", OUT / "table.onnx", "--dim=batch=3", "-o", OUT / "table.json").stdout
checks.expect("rows of a table", "parameters 1 tensor, 256 elements, " in shown and "model     table: 32 parameters (the file stores 256), " in planned, shown + planned)
checks.expect("rows, reported again", kerf("report", OUT / "table.json").stdout == planned)
checks.expect("all that is stored", re.search(r"^model .*: 12.9 k parameters, ", kerf("plan", *MLP).stdout, re.M))
flops = [re.findall("^FLOPs .*", kerf("inspect", MLP[0], *flags).stdout, re.M) for flags in ([], ["--dim=batch=3"])]
checks.expect("FLOPs without sizes", flops[0] == ["FLOPs are counted once these dimensions are bound"] and re.fullmatch(r"FLOPs \d+ .*", *flops[1]), flops)
# Asked by hand, everything helps.
for command in ("", "plan", "compile", "run", "verify", "inspect"):
    helped = kerf(*([command] if command else []), "--help")
    checks.expect(f"{command} --help", helped.returncode == 0 and "Usage" in helped.stdout, helped.stderr)
checks.finish()
