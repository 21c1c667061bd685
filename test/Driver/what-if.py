# `kerf plan --what-if`: a row says what `kerf plan` with the changed flags says; what cannot be changed is named before
# anything is planned; a plan that cannot be is a row.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import onnx
from onnx import TensorProto, helper

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, expect_error, fresh_folder, kerf, takes_interrupts

OUT, MODELS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "models"
MLP, GPT = MODELS / "mlp/model.onnx", MODELS / "gpt2-small/model.onnx"
TRAIN = ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw"]
checks = Checks()


def facts(row):
    """What a row has, from it and from plan.json."""
    sent = row.get("communication", row)
    peak = row.get("peak_memory_bytes") or max(device["peak"] for device in row["memory"]["per_device"])
    return {"mesh": row["mesh"], "schedule": row["schedule"], "time": row["time"], "zero": row["zero"], "sent": sent["bytes_per_rank"],
            "peak": peak, "cost": row["objective"]["cost"], "bound": row["objective"]["lower_bound"]}


CASES = [
    (MLP, ["--dim=batch=8", "--devices=4"], [("devices=2", ["--dim=batch=8", "--devices=2"]), ("batch=64", ["--dim=batch=64", "--devices=4"]),
                                             ("memory=30KiB", ["--dim=batch=8", "--devices=4", "--memory-limit=30KiB"]),
                                             ("batch=2,memory=1GiB,devices=8", ["--dim=batch=2", "--devices=8", "--memory-limit=1GiB"])]),
    # Devices are the machine's, unless they are said.
    (MLP, ["--dim=batch=8", "--machine=h100-4"], [("machine=h100-8", ["--dim=batch=8", "--machine=h100-8"]),
                                                  ("machine=h100-8,devices=2", ["--dim=batch=8", "--machine=h100-8", "--devices=2"]),
                                                  ("devices=2,machine=h100-8", ["--dim=batch=8", "--machine=h100-8", "--devices=2"])]),
    (GPT, ["--dim=batch=8", "--machine=h100-8", "--mesh=pp=2", *TRAIN], [("batch=16", ["--dim=batch=16", "--machine=h100-8", "--mesh=pp=2", *TRAIN])]),
]
for model, asked, changes in CASES:
    command = ["plan", model, *asked, *(f"--what-if={text}" for text, _ in changes)]
    result = kerf(*command, "--json")
    name = f"{model.parent.name} {' '.join(asked)}"
    checks.expect(name, result.returncode == 0, result.stderr)
    document = json.loads(result.stdout or "{}")
    checks.expect(f"{name}: schema", document["schema"] == "kerf.what-if/1" and [row["what_if"] for row in document["plans"]] == ["", *(text for text, _ in changes)])
    for row, flags in zip(document["plans"], [asked, *(flags for _, flags in changes)]):
        alone = json.loads(kerf("plan", model, *flags, "--json").stdout)
        checks.expect(f"{name}: {row['what_if']}", facts(row) == facts(alone), [facts(row), facts(alone)])
    lines = kerf(*command).stdout.splitlines()
    checks.expect(f"{name}: a table", [line.split()[0] for line in lines[1:2 + len(changes)]] == ["as", *(text for text, _ in changes)]
                  and all(word in lines[0] for word in ("mesh", "schedule", "time", "sent", "memory", "gap")), lines)

# What cannot be changed, said before anything is planned: exit code 2, and no file.
base, left = ["plan", MLP, "--dim=batch=8", "--devices=4"], OUT / "left.json"
for text, said in (("memroy=1GiB", "no 'memroy' can be changed, did you mean 'memory'.*memory, devices, machine, batch"),
                   ("weather=3", "no 'weather' can be changed, expected memory, devices, machine, batch"),
                   ("memory=lots", "'lots' is not a size"), ("memory=0B", "memory: expected more than 0"), ("devices=0", "0 devices"),
                   ("devices=some", "'some'"), ("batch=none", "'none', expected a size"), ("batch=0", "expected a size of at least 1"),
                   ("machine=abacus", "abacus"), ("batch", "expected NAME=VALUE"), ("batch=1,batch=2", "batch is there twice"), ("", "a value is missing")):
    expect_error(checks, f"what if {text!r}", [*base, "--what-if=devices=2", f"--what-if={text}", "-o", left], 2, ["--what-if", said], absent=[left])
expect_error(checks, "with --explain", [*base, "--what-if=devices=2", "--explain=x"], 2, ["--explain"])
expect_error(checks, "with --stop-after", [*base, "--what-if=devices=2", "--stop-after=plan"], 2, ["--stop-after"])

# What sends nothing is as good as can be, and no search that was ended early.
free = kerf(*base, "--objective=volume", "--what-if=devices=2").stdout.splitlines()
whole = kerf(*base, "--objective=volume").stdout
checks.expect("nothing sent", free[1].endswith("  0%") and "volume (ring): 0 B, proven bound 0 B, optimal over the candidates" in whole, [free, whole])

# What cannot be asked for together with the other flags is a row as well.
mixed = kerf(*base, "--mesh=dp=2,tp=2", "--what-if=devices=3", "--what-if=devices=2,machine=h100-4", "--what-if=batch=16", "-o", left)
rows = mixed.stdout.splitlines()
checks.expect("a row that cannot be", mixed.returncode == 0 and re.search(r"devices=3 +- .*--mesh: degrees multiply to 4", rows[2]) and "batch=16" in rows[4]
              and " us " in rows[4] and json.loads(left.read_text())["devices"] == 4, mixed)
left.unlink(missing_ok=True)
# A dimension has two names where `batch` stands for it.
rows = OUT / "rows.onnx"
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "rows", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), rows)
expect_error(checks, "two names of one", ["plan", rows, "--dim=N=8", "--what-if=batch=4,N=16"], 2, ["N is there twice"])
expect_error(checks, "too many devices", [*base, "--what-if=devices=cuda:0-9999999999"], 2, ["expected 1 to 65536"])

# What has no plan is a row; if that is what was asked for, so is the exit code, and what would have one is shown.
none = kerf(*base, "--what-if=memory=2KiB")
checks.expect("a row without a plan", none.returncode == 0 and "memory=2KiB  -" in none.stdout and "no plan fits in memory" in none.stdout, none)
none = kerf(*base, "--memory-limit=2KiB", "--what-if=memory=1GiB", "-o", left)
rows = none.stdout.splitlines()
checks.expect("nothing as asked", none.returncode == 4 and none.stderr.startswith("error: ") and "as asked" in rows[1] and "no plan" in rows[1]
              and "no plan" not in rows[2] and not left.exists(), none)
# -o writes the plan as asked.
written = kerf(*base, "--what-if=devices=2", "-q", "-o", left)
checks.expect("the plan as asked", written.returncode == 0 and written.stdout == "" and json.loads(left.read_text())["devices"] == 4, written)
# A decoder names its batch otherwise, and has other open dimensions.
sized = kerf("plan", MODELS / "mlp/model.onnx", "--dim", "batch=64", "--machine=h100-8", "--what-if=devices=16", "--what-if=batch=128")
checks.expect("devices that the machine has not", sized.returncode == 0 and re.search(r"devices=16 +- .*has 8 devices", sized.stdout)
              and re.search(r"batch=128 +x=8", sized.stdout), sized)
expect_error(checks, "open dimensions", ["plan", MODELS / "decoder-small/model.onnx", "--cache-length=16", "--what-if=nothing=1"], 2, ["expected memory, devices, machine"])
# Where the table takes long, each row is noted when it is known, the last by the table; what was not searched is said of each row.
long = kerf("plan", GPT, "--dim=batch=8", "--machine=h100-8", *TRAIN, "--deadline=0.01", "--what-if=batch=16", "--what-if=devices=4", "--note-after=0.001")
checks.expect("rows as they come", re.findall(r"^note: (as asked|batch=16|devices=4): \S+ \S*s, .* sent, .*, gap ", long.stderr, re.M) == ["as asked", "batch=16"], long)
checks.expect("not searched", re.findall(r"^(as asked|batch=16|devices=4): \d+ candidates? not searched: the deadline came first$", long.stdout, re.M)
              == ["as asked", "batch=16", "devices=4"], long)
short = kerf(*base, "--what-if=devices=2")
checks.expect("no notes of short ones", "note: as asked" not in short.stderr and "not searched" not in short.stdout, short)
# What was found for one limit may keep another and cost less than what was found for that: the row has it, and so has -o.
limits = ["plan", MLP, "--dim=batch=64", "--devices=4", *TRAIN]
rows = json.loads(kerf(*limits, "--memory-limit=82KiB", "--what-if=memory=83KiB", "--json", "-o", left).stdout)["plans"]
written = json.loads(left.read_text())
own = json.loads(kerf(*limits, "--memory-limit=82KiB", "--json").stdout)
cost, bound = rows[0]["objective"]["cost"], rows[0]["objective"]["lower_bound"]
checks.expect("another limit's plan", rows[0].get("plan_of") == "memory=83KiB" and "plan_of" not in rows[1]
              and cost == rows[1]["objective"]["cost"] < own["objective"]["cost"]
              and all(rows[0][key] == rows[1][key] for key in ("mesh", "schedule", "time", "bytes_per_rank", "peak_memory_bytes"))
              and rows[0]["peak_memory_bytes"] <= 82 << 10, rows)
checks.expect("its bound", bound == own["objective"]["lower_bound"] and abs(rows[0]["objective"]["gap"] - (1 - bound / cost)) < 1e-12,
              [rows[0], own["objective"]])
checks.expect("its plan.json", facts(written) == facts(rows[0]) and written["memory"]["limit"] == 82 << 10 and written["runners_up"][0]["cost"] == cost
              and written["runners_up"][0]["lower_bound"] <= cost, [facts(written), written["runners_up"][0]])
text = kerf(*limits, "--memory-limit=82KiB", "--what-if=memory=83KiB").stdout
checks.expect("which is said", 'as asked: the plan of "memory=83KiB", which keeps this limit too; its own search found none as good' in text, text)
left.unlink()
# What a refused row notes stands below the table.
table = OUT / "table.onnx"
graph = helper.make_graph([helper.make_node("Shape", ["x"], ["s"], start=1, end=2), helper.make_node("Slice", ["p", "zero", "s", "zero"], ["q"], "cut"),
                           helper.make_node("Add", ["x", "q"], ["y"], "add")], "table",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq"])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq"])],
                          [helper.make_tensor("p", TensorProto.FLOAT, [32], [0.0] * 32), helper.make_tensor("zero", TensorProto.INT64, [1], [0])])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), table)
sized = ["plan", table, "--dim=batch=2,seq=8", "--what-if=seq=100"]
note = 'seq=100 of input "x" is too large: the model takes seq=32 and not 33, as if a table had so many rows (of positions, say)'
checks.expect("what a row notes", f"\nseq=100: {note}\n" in kerf(*sized).stdout
              and json.loads(kerf(*sized, "--json").stdout)["plans"][1]["notes"] == [note], kerf(*sized))
# Of a row without a plan the reasons of candidates do not, but what helps.
norm = ["plan", MODELS.parent / "training/conv-batch-norm/model.onnx", "--dim=batch=16", "--devices=2", "--train",
        "--loss=cross_entropy(logits,labels)", "--optimizer=adamw", "--what-if=memory=60KiB"]
shown, found = kerf(*norm), json.loads(kerf(*norm, "--json").stdout)["plans"][1]
checks.expect("what helps a refused row", "memory=60KiB: micro-batches, which hold less at a time, were not looked at: " in shown.stdout
              and "--micro-batches=M asks for them" in shown.stdout and any("micro-batches=M" in note for note in found["notes"])
              and not any(note.startswith(("one device", "dp=", "tp=", "pp=", "x=")) for note in found["notes"]), (shown, found))
# So do the notes of every row, one of several rows once.
uneven = ["plan", MLP, "--dim=batch=7", "--devices=4", "--mesh=dp=4", "--what-if=batch=8", "--what-if=batch=7,memory=1GiB", "--what-if=batch=9"]
shown = kerf(*uneven)
alone = [note for note in kerf("plan", MLP, "--dim=batch=7", "--devices=4", "--mesh=dp=4").stderr.splitlines() if note.startswith("note: ")]
checks.expect("notes of rows", alone and shown.returncode == 0 and [f'note: rows "as asked" and "batch=7,memory=1GiB": {alone[0][6:]}'] == [
    line for line in shown.stderr.splitlines() if alone[0][6:] in line] and re.search('^note: row "batch=9": ', shown.stderr, re.M)
              and '"batch=8"' not in shown.stderr, [alone, shown.stderr])
found = json.loads(kerf(*uneven, "--json").stdout)["plans"]
checks.expect("in JSON", [bool(row.get("notes")) for row in found] == [True, False, True, True] and found[0]["notes"] == found[2]["notes"], found)
checks.expect("none of them with -q", kerf(*uneven, "-q", "--json").stderr == "")
# A signal ends what is being planned; the rows before it are not lost.
with open(OUT / "stdout", "wb") as stdout, open(OUT / "stderr", "wb") as stderr:
    process = subprocess.Popen(["kerf", "plan", f"{sys.argv[2]}/models/resnet-small/model.onnx", "--dim=batch=8", "--devices=2", "--machine=h100-8", "--train",
                                "--loss=cross_entropy(logits,labels)", "--optimizer=adamw", "--what-if=memory=400KiB", "--note-after=1"],
                               stdout=stdout, stderr=stderr, preexec_fn=takes_interrupts)
end = time.monotonic() + 100
while time.monotonic() < end and "note: planning" not in (OUT / "stderr").read_text() and process.poll() is None:
    time.sleep(0.05)
process.send_signal(signal.SIGINT)
code, text = process.wait(timeout=300), (OUT / "stdout").read_text()
# The row that was known at once is noted before what takes long is.
said = re.findall(r"^note: (as asked|planning)\b", (OUT / "stderr").read_text(), re.M)
checks.expect("an early row in a long table", said[:2] == ["as asked", "planning"], (OUT / "stderr").read_text())
checks.expect("interrupted", code == 130 and re.search(r"^  as asked +x=2 .*%$", text, re.M) and re.search(r"^  memory=400KiB +- .*planning was ended", text, re.M),
              f"{code} {text} {(OUT / 'stderr').read_text()}")
# One stage has no order of micro-batches.
STEP = ["plan", MODELS.parent / "training/mlp/model.onnx", "--dim=batch=16", "--devices=2", *TRAIN, "--micro-batches=4"]
for mesh, ordered in (("dp=2", False), ("pp=2", True)):
    result = kerf(*STEP, f"--mesh={mesh}", "--what-if=batch=32")
    checks.expect(f"{mesh}: a schedule", result.returncode == 0 and "4 micro-batches" in result.stdout and
                  (re.search("1f1b|interleaved|gpipe", result.stdout) is not None) == ordered, result.stdout + result.stderr)
checks.finish()
