# Flags that would do nothing are refused, sizes have units, bindings come one by one or in a list.
#
# REQUIRES: kerf, kerf-solve
# RUN: %python %s %t %inputs
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, expect_error, fresh_folder, kerf

out, models = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "models"
checks = Checks()
mlp, bert = models / "mlp/model.onnx", models / "bert-small/model.onnx"

version = kerf("--version").stdout.splitlines()
checks.expect("version", version[0].startswith("kerf 0.") and version[1].startswith("LLVM 22.") and version[2].startswith("oneDNN 2.")
              and "kerf.package/1" in version[3], version)

# Sizes.
for text in ("16", "16GBit", "GiB", "-1GiB", "1 GiB", "0x1GiB", "1eGiB"):
    expect_error(checks, f"memory limit {text!r}", ["plan", mlp, "--dim=batch=8", f"--memory-limit={text}"], 2,
                 [f"--memory-limit: '{text}' is not a size", "B, KB, MB"])
for text in ("100000B", "100KB", "0.5MiB"):
    checks.expect(f"memory limit {text}", kerf("plan", mlp, "--dim=batch=8", f"--memory-limit={text}").returncode == 0)

# Numbers that somebody has not finished, or that only C writes.
for text in ("3e", "1e-", "0x1p-3", "inf", ""):
    expect_error(checks, f"a learning rate of {text!r}", ["plan", models.parent / "training/mlp/model.onnx", "--train", "--dim=batch=8",
                                                          "--loss=cross_entropy(logits,labels)", f"--optimizer=sgd,lr={text}"], 2, ["lr is '"])
for flag in ("--deadline=1e", "--deadline=0x2", "--deadline=inf"):
    expect_error(checks, flag, ["plan", mlp, "--dim=batch=8", flag], 2, ["--deadline"])

# Bindings.
lists = [kerf("plan", bert, *dims, "-q", "--json").stdout for dims in (["--dim", "batch=2"], ["--dim", "batch=2,batch=2"])]
checks.expect("bindings in a list", lists[0] and len(lists[0].splitlines()) == len(lists[1].splitlines()), lists)
expect_error(checks, "two sizes", ["plan", bert, "--dim=batch=2,batch=3"], 2, ['--dim: "batch" is both 2 and 3'])
expect_error(checks, "no size", ["plan", bert, "--dim=batch"], 2, ["--dim"])

# A package is compiled already.
package = out / "mlp.kerf"
result = kerf("compile", mlp, "--dim=batch=8", "--devices=cpu:2", "-o", package)
checks.expect("compiles", result.returncode == 0, result.stderr)
mask = os.umask(0)
os.umask(mask)
checks.expect("the umask says who opens it", package.stat().st_mode & 0o777 == 0o777 & ~mask, oct(package.stat().st_mode))
(package / "notes.txt").write_text("kept")
expect_error(checks, "over a package with another's file", ["compile", mlp, "--dim=batch=8", "-o", package], 2,
             ['is a package and has "notes.txt", which is no file of it; it is not replaced'])
(package / "notes.txt").unlink()



def compiled(flag):
    return (f"{flag}: {package} is a package, which is compiled already" + (", for 2 ranks" if re.search("--devices|--mesh", flag) else "") +
            (": leave it out, or give it to kerf compile" if " " not in flag else ": leave them out, or give them to kerf compile"))


for flag in ("--devices=cpu:4", "--mesh=tp=2", "--machine=h100-8", "--dump-dir=x", "--precision=bf16", "--target-cpu=x86-64"):
    expect_error(checks, f"package and {flag}", ["run", package, flag], 2, [compiled(flag.split("=")[0])])
# kerf-run, which knows none of these flags, says the same of all that `kerf compile` has.
groups = re.findall(r"^(Model|Planning|Code generation|Inspection|Training):\n((?: .*\n|\n(?=  ))*)", kerf("compile", "--help").stdout, re.M)
compiles = {flag for _, text in groups for flag in re.findall(r"^  (--[a-z-]+)", text, re.M)} - {"--dim", "--seed"}
checks.expect("flags of compilation", {"--devices", "--mesh", "--zero", "--ptxas", "--dump-dir", "--train", "--state"} <= compiles, compiles)
for flag in sorted(compiles):
    for arguments in ([package, f"{flag}=4"], [f"{flag}=4", package, "--seed=1"]):
        expect_error(checks, f"kerf-run and {flag}", arguments, 2, [f"error: {compiled(flag)}\n"], tool="kerf-run")
expect_error(checks, "kerf-run, a flag and its value", ["--devices", "cpu:4", package], 2,
             ["error: --devices: a package is compiled already: leave it out, or give it to kerf compile\n"], tool="kerf-run")
# All that are given are named, whichever comes first.
for given, names in ((["--devices=cpu:2", "--mesh=dp=2"], "--devices and --mesh"), (["--devices=cpu:0-1", "--mesh=dp=2"], "--devices and --mesh"),
                     (["--devices=2", "--machine=h100-8", "--mesh=x=2", "--seed=1"], "--devices, --machine and --mesh")):
    expect_error(checks, f"package and {given}", ["run", package, *given], 2, [f"error: {compiled(names)}\n"])
    expect_error(checks, f"package by kerf-run and {given}", [package, *given], 2, [f"error: {compiled(names)}\n"], tool="kerf-run")
expect_error(checks, "package and --dim", ["run", package, "--dim=batch=4"], 2, ['--dim: no open dimension "batch", the package has one size: "x" is 8x32'])
checks.expect("package and seed", kerf("run", package, "--seed=3", "--repeat=2", "-q").returncode == 0)
expect_error(checks, "run and a phase", ["run", mlp, "--dim=batch=8", "--stop-after=plan"], 2, ["--stop-after"])

# What is misspelt is named before what is missing, and what was meant.
expect_error(checks, "compile --mash", ["compile", mlp, "--mash=tp=2"], 2, ["unknown argument --mash=tp=2, did you mean --mesh"])
expect_error(checks, "plan --weather", ["plan", mlp, "--weather"], 2, ["unknown argument --weather\n"])
expect_error(checks, "plan --dev, which begins a flag", ["plan", mlp, "--dev=2"], 2, ["unknown argument --dev=2, did you mean --devices\\?"])
expect_error(checks, "plan with a file", ["plan", mlp, "plan.json"], 2, ["unknown argument plan.json: files besides the first follow a flag, as in --plan=plan.json"])
expect_error(checks, "train with data", ["train", mlp, "train.npz"], 2, ["unknown argument train.npz: files besides the first follow a flag, as in --data=train.npz"])
expect_error(checks, "run with inputs", ["run", mlp, "in.npz"], 2, ["unknown argument in.npz: files besides the first follow a flag, as in --input=@in.npz"])
expect_error(checks, "train --batch", ["train", mlp, "--batch=4"], 2, ["unknown argument --batch=4, did you mean --batch-size\\?"])
expect_error(checks, "an optimizer and a space", ["train", mlp, "--optimizer=adamw", "lr=1e-3"], 2, ["unknown argument lr=1e-3: what follows .* is behind a comma"])
expect_error(checks, "an axis in capitals", ["plan", mlp, "--dim=batch=4", "--devices=4", "--mesh=PP=2,dp=2"], 2, ["--mesh: 'PP=2', did you mean pp, which cuts the model into stages\\?"])
expect_error(checks, "sizes and a space", ["plan", mlp, "--dim", "batch=4", "seq=4"], 2,
             ["unknown argument seq=4: several sizes have commas between them, as in --dim=batch=2,seq=4"])
# What follows a flag's value, but is no value of it: the flag is named, and how it takes several.
for arguments, unknown, meant in (
        (["--input", "input_ids=@a.npy", "attention_mask=@b.npy"], "attention_mask=@b.npy",
         "each has its own --input, as in --input input_ids=@a.npy --input attention_mask=@b.npy"),
        (["--input=a=1", "b=2", "c=3"], "b=2", "each has its own --input, as in --input a=1 --input b=2"),
        (["--shard", "a.weight=[{x},{}]", "b.weight=[{},{x}]"], "b.weight=[{},{x}]",
         "each has its own --shard, as in --shard a.weight=[{x},{}] --shard b.weight=[{},{x}]"),
        (["--constant=n=@n.npy", "m=@m.npy"], "m=@m.npy", "each has its own --constant, as in --constant n=@n.npy --constant m=@m.npy"),
        (["--batch-dim", "a=0", "b=-1"], "b=-1", "each has its own --batch-dim, as in --batch-dim a=0 --batch-dim b=-1"),
        (["--mesh", "dp=2", "tp=2"], "tp=2", "values of --mesh have commas between them, as in --mesh=dp=2,tp=2")):
    expect_error(checks, f"a space in {arguments}", ["run", mlp, *arguments], 2, [re.escape(f"unknown argument {unknown}: {meant}\n")])
expect_error(checks, "a space in a loss", ["train", mlp, "--loss", "cross_entropy(a,b)", "ignore_index=0"], 2, ["a loss's name is behind a comma"])
# Of a flag that has two forms the one that was typed is named.
for arguments, said in (
        (["train", mlp, "-o", "x.onnx", "--no-output", "--data=x.npz"], "-o excludes --no-output\n"),
        (["train", mlp, "-ox.onnx", "--no-output", "--data=x.npz"], "-o excludes --no-output\n"),
        (["train", mlp, "--output=x.onnx", "--no-output", "--data=x.npz"], "--output excludes --no-output\n"),
        (["plan", mlp, "-q", "-v"], "-q excludes -v\n"), (["plan", mlp, "-qv"], "-q excludes -v\n"),
        (["plan", mlp, "--quiet", "-v"], "--quiet excludes -v\n"), (["plan", mlp, "--quiet", "--verbose"], "--quiet excludes --verbose\n"),
        (["plan", mlp, "-o"], "-o: a value is missing\n"), (["plan", mlp, "--output"], "--output: a value is missing\n"),
        (["plan", mlp, "-o", "a.json", "-o", "b.json"], "-o is given more than once\n"),
        (["inspect", mlp, "-q"], "-q: kerf inspect prints, and does nothing else\n"),
        (["inspect", mlp, "--quiet"], "--quiet: kerf inspect prints, and does nothing else\n"),
        (["compile", mlp, "--dim=batch=8", "-q"], "--output is missing, expected as -o NAME.kerf\n"),
        (["plan", mlp, "--dim=batch=8", "-o", mlp], f"{mlp}: is given by -o and by the model\n"),
        (["plan", mlp, "--dim=batch=8", "--output", mlp], f"{mlp}: is given by --output and by the model\n")):
    expect_error(checks, f"as typed: {arguments[2:]}", arguments, 2, ["error: " + re.escape(said)])
for arguments, said in ((["-q", "-v"], "-q excludes -v"), (["--quiet", "-v"], "--quiet excludes -v"), (["-i"], "-i: a value is missing"),
                        (["--input"], "--input: a value is missing")):
    expect_error(checks, f"kerf-run, as typed: {arguments}", [package, *arguments], 2, [f"error: {said}\n"], tool="kerf-run")
# What is missing is said in one form.
for command, missing in (("plan", "model is missing, expected as kerf plan model.onnx"), ("report", "document is missing, expected as kerf report plan.json")):
    expect_error(checks, f"{command} of nothing", [command], 2, [f"error: {missing}\n"])
expect_error(checks, "report --diff alone", ["report", "--diff", "p.json"], 2, ["error: document is missing, expected as kerf report plan.json\n"])
# GPUs by their number, as elsewhere.
for kind, meant in (("gpu:4", "4 GPUs are cuda:0-3, the one of number 4 is cuda:4"), ("CUDA:1", "one GPU is cuda:0, the one of number 1 is cuda:1"),
                    ("gpu", "GPUs are cuda:0-3, by their numbers"), ("gpu:all", "GPUs are cuda:0-3, by their numbers")):
    expect_error(checks, f"devices {kind}", ["plan", mlp, "--dim=batch=8", f"--devices={kind}"], 2,
                 [f"--devices: unknown kind '{kind.split(':')[0]}', expected cpu or cuda: {meant}\n" if ":" in kind else
                  "--devices: 'gpu', expected as 8, cpu:4 or cuda:0-3\n"])
expect_error(checks, "report of two", ["report", "a.json", "b.json"], 2, ["unknown argument b.json: two documents are compared by --diff=b.json"])
expect_error(checks, "run -o", ["run", mlp, "-o", "x.npz"], 2, ["unknown argument -o: outputs are written by --output-dir=FOLDER"])
expect_error(checks, "run --batch", ["run", mlp, "--batch=4"], 2, ["unknown argument --batch=4: sizes are bound by --dim, as in --dim=batch=4"])
for command, flag, meant in (("train", "--num_epochs=3", "epochs"), ("train", "--save=out.onnx", "output"), ("train", "--grad-clip=1", "clip-norm"), ("plan", "--tp=2", "mesh"),
                             ("plan", "--dtype=bf16", "precision"), ("generate", "--max-new-tokens=9", "tokens"), ("run", "--gpus=2", "devices")):
    expect_error(checks, f"{command} {flag}", [command, mlp, flag], 2, [f"unknown argument {flag}, did you mean --{meant}\\?"])
expect_error(checks, "kerf-run --seeds", ["--seeds=1"], 2, ["unknown argument --seeds=1, did you mean --seed"], tool="kerf-run")
expect_error(checks, "compile without -o", ["compile", mlp], 2, ["--output is missing", "NAME.kerf"])
expect_error(checks, "kerf plam", ["plam", mlp], 2, ["unknown command 'plam', did you mean plan"])
expect_error(checks, "kerf plam --help", ["plam", "--help"], 2, ["unknown command 'plam', did you mean plan"])
for flag, meant in (("-dim", "--dim"), ("-devices=4", "--devices"), ("-output", "--output"), ("-verbose", "--verbose")):
    expect_error(checks, f"one dash: {flag}", ["plan", mlp, "--dim=batch=4", flag, "x"], 2, [f"unknown argument {flag}, did you mean {meant}\\?"])
expect_error(checks, "kerf-run, one dash", [package, "-stats=x"], 2, ["unknown argument -stats=x, did you mean --stats\\?"], tool="kerf-run")
for tool, arguments, behind in (("kerf", ["plan", ""], "plan"), ("kerf", ["run", mlp, "--dim", ""], "--dim"), ("kerf-run", [package, ""], package)):
    expect_error(checks, f"{tool}: empty behind {behind}", arguments, 2, [f"what follows {behind} is empty: is a variable of the shell not set\\?"], tool=tool)
for tool, first in (("kerf", ["plan", mlp, "--dim=batch=8"]), ("kerf-run", [package, "--seed=1"])):
    expect_error(checks, f"{tool}: quiet and verbose", [*first, "-q", "-v"], 2, ["-v excludes -q|-q excludes -v"], tool=tool)
for arguments, same in ((["help"], ["--help"]), (["help", "plan"], ["plan", "--help"])):
    asked, known = kerf(*arguments), kerf(*same)
    checks.expect(f"kerf {arguments}", asked.returncode == 0 and asked.stdout == known.stdout and asked.stdout, asked)
expect_error(checks, "help of nothing", ["help", "plam"], 2, ["unknown command 'plam', did you mean plan"])
expect_error(checks, "sizes of a mesh alone", ["plan", mlp, "--dim=batch=4", "--devices=4", "--mesh=2,2"], 2, ["--mesh: '2', expected NAME=SIZE, as in dp=2,tp=4"])
expect_error(checks, "a batch's input, misspelt", ["plan", mlp, "--dim=batch=4", "--batch-dim=xs=0"], 2, ["--batch-dim: model has no input of this name, did you mean \"x\"\\?"])
expect_error(checks, "a batch's input", ["plan", mlp, "--dim=batch=4", "--batch-dim=wrong=0"], 2, ["--batch-dim: model has no input of this name, it has x"])
# IR goes to the file that is asked for, else it is printed.
printed = kerf("compile", mlp, "--dim=batch=8", "--stop-after=plan")
written = kerf("compile", mlp, "--dim=batch=8", "--stop-after=plan", "-o", out / "plan.mlir")
checks.expect("IR without -o", printed.returncode == 0 and printed.stdout.startswith("#"), printed.stderr)
checks.expect("IR with -o", written.returncode == 0 and written.stdout == "" and (out / "plan.mlir").read_text() == printed.stdout, written.stderr)
# A report of what is no whole plan.
(out / "empty.json").write_text('{"schema": "kerf.plan/1"}')
expect_error(checks, "report of nothing", ["report", out / "empty.json"], 2, ["empty.json: mesh: missing"])
# A log of training is no report, which is said with what is.
(out / "train.jsonl").write_text('{"step":1,"loss":2.5,"learning_rate":0.1}\n{"step":2,"loss":2.25,"learning_rate":0.1}\n')
for flags in ([], [f"--html={out / 'log.html'}"]):
    expect_error(checks, f"report of a log {flags}", ["report", out / "train.jsonl", *flags], 2,
                 ["train.jsonl: is a log of training, .*, expected plan.json or run.json", "kerf train --stats=run.json"], absent=[out / "log.html"])
# Flags that --help does not list have names all the same.
for flag in ("--without=nonsense", "--seed=-1"):
    expect_error(checks, flag, ["run", mlp, flag], 2, [f"error: {flag.split('=')[0]}: .*{flag.split('=')[1]}"])
shown = kerf("compile", "--help").stdout
checks.expect("--help of --ptxas", "$KERF_PTXAS" in shown, shown)
shown = kerf("verify", "--help").stdout
checks.expect("--help", "--reference" in shown and "--without" not in shown and "--damage" not in shown and "Test only" not in shown, shown)

# What would change nothing.
trained = models.parent / "training/mlp/model.onnx"
step = ["plan", trained, "--dim=batch=8", "--train", "--loss=cross_entropy(logits,labels)"]
given = out / "x.npy"
np.save(given, np.zeros((8, 32), np.float32))
archive = out / "all.npz"
np.savez(archive, x=np.load(given))
for tool, first in (("kerf", ["run", mlp, "--dim=batch=8"]), ("kerf-run", [package])):
    expect_error(checks, f"{tool}: type of no files", [*first, "--seed=1", "--output-dtype=f32"], 2, ["--output-dtype", "--output-dir"], tool=tool)
    expect_error(checks, f"{tool}: a fault that strikes nothing", [*first, "--seed=1", "--inject=rank=0,collective=99,fault=die"], 2,
                 ["error: --inject=rank=0,collective=99,fault=die has had no effect"], tool=tool)
    expect_error(checks, f"{tool}: what ranks are, twice", [*first, "--seed=1", "--processes", "--ranks=threads"], 2, ["--ranks"], tool=tool)
    for flag in ("--seed=1", "--random-inputs"):
        expect_error(checks, f"{tool}: nothing to draw, {flag}", [*first, f"--input={given}", flag], 2, [f"error: {flag.split('=')[0]}: every input is given, none is left to draw"], tool=tool)
for name, arguments, said in (
        ("verify: nothing to draw", ["verify", mlp, f"--input={given}", "--seed=1"], "--seed: every input is given"),
        ("verify: processes", ["verify", mlp, "--dim=batch=8", "--processes"], "unknown argument --processes"),
        ("plan --seed", ["plan", mlp, "--dim=batch=8", "--seed=1"], "--seed: nothing is drawn here but with --solver=random"),
        ("compile --seed", ["compile", mlp, "--dim=batch=8", "--seed=1", "-o", out / "x.kerf"], "--seed: nothing is drawn here"),
        ("generate --seed", ["generate", models / "decoder-small/model.onnx", "--prompt-ids=1,2", "--tokens=2", "--seed=1"], "--seed: no id is drawn at --temperature=0"),
        ("a plan and --cost-model", ["plan", mlp, "--dim=batch=8", "--plan=x", "--cost-model=article"], "--cost-model"),
        ("what volume counts, of time", ["plan", mlp, "--dim=batch=8", "--cost-model=article"], "--cost-model is of --objective=volume"),
        ("a schedule of one device", [*step, "--schedule=1f1b"], "--schedule is of a pipeline, which takes several devices"),
        ("a schedule of one stage", [*step, "--devices=2", "--mesh=dp=2", "--schedule=1f1b"], "--schedule is of a pipeline, and --mesh=dp=2 has one stage"),
        ("a schedule without stages", [*step, "--devices=4", "--mesh=dp=2,pp=1", "--schedule=1f1b"], "--mesh=dp=2,pp=1 has one stage"),
        ("no BatchNormalization", [*step, "--batch-norm=frozen"], "--batch-norm: the model has no BatchNormalization"),
        ("no training mode", ["run", mlp, "--dim=batch=8", "--seed=1", "--as-inference"], "--as-inference: no node of the model is in training mode"),
        ("inspect, no training mode", ["inspect", mlp, "--dim=batch=8", "--as-inference"], "--as-inference: no node"),
        ("inspect -q", ["inspect", mlp, "-q"], "-q: kerf inspect prints"),
        ("a reference's seconds", ["verify", mlp, "--dim=batch=8", "--reference=interpreted", "--reference-seconds=3"], "--reference-seconds is of --reference=auto"),
        ("a constant that a file has", ["run", mlp, f"--input=@{archive}", "--constant=x=1"], 'input "x" is given by .*all.npz and by --constant'),
        ("an optimizer's number", ["train", mlp, "--lr=0.1"], "unknown argument --lr=0.1: an optimizer's numbers follow its name"),
        ("a misspelt constant", ["run", mlp, f"--input={given}", "--constant=xs=1"], '--constant: .* has no input "xs", did you mean "x"'),
        ("an input and a constant", ["run", mlp, f"--input=x=@{given}", "--constant=x=1"], 'input "x" is given by --input and by --constant'),
        ("brute force of too much", ["plan", models / "gpt2-small/model.onnx", "--dim=batch=8", "--devices=4", "--mesh=x=4", "--solver=brute-force"],
         "--solver=brute-force: a mesh has more combinations of choices than are counted"),
        ("explain -q", ["plan", mlp, "--dim=batch=8", "--explain=x", "-q"], "-q: the answer to --explain is printed"),
        ("what-if -q", ["plan", mlp, "--dim=batch=8", "--what-if=batch=16", "-q"], "-q: the answer to --what-if is printed")):
    expect_error(checks, name, arguments, 2, [said])
for flags in (["--devices=2"], ["--devices=2", "--mesh=pp=2"], ["--machine=h100-4", "--mesh=dp=2"]):
    known = kerf(*step, "--schedule=gpipe", "--micro-batches=2", *flags, "-q")
    checks.expect(f"a schedule with {flags}", known.returncode == 0, known.stderr)

# What is for GPUs, or for training, or decided by a plan already, does nothing elsewhere.
for flag in ("--ptxas=none", "--host-kernels", "--kernel-dump-dir=k"):
    expect_error(checks, f"CPU and {flag}", ["run", mlp, "--dim=batch=8", "--seed=1", flag], 2, [f"{flag.split('=')[0]} is for GPUs"])
expect_error(checks, "--chunks without a schedule", ["plan", mlp, "--dim=batch=8", "--chunks=2"], 2, ["--chunks is of --schedule=interleaved"])
expect_error(checks, "inference and --schedule", ["plan", mlp, "--dim=batch=8", "--schedule=gpipe"], 2, ["--schedule is of a pipeline that trains"])
expect_error(checks, "compile --json", ["compile", mlp, "-o", out / "x.kerf", "--json"], 2, ["unknown argument --json"])
staged = ["--dim=batch=8", "--devices=2", "--mesh=pp=2", "--micro-batches=2"]
checks.expect("a plan", kerf("plan", mlp, *staged, "-q", "-o", out / "plan.json").returncode == 0)
for flags, said in ((["--micro-batches=4"], "--micro-batches is 4, .*plan.json has 2"), (["--micro-batches=1"], "--micro-batches is 1"),
                    (["--mesh=tp=2"], "--mesh"), (["--deadline=3"], "--deadline"), (["--memory-limit=1GiB"], "--memory-limit")):
    expect_error(checks, f"plan and {flags}", ["run", mlp, "--dim=batch=8", "--seed=1", f"--plan={out / 'plan.json'}", *flags], 2, [said])
edited = json.loads((out / "plan.json").read_text())
for name, change, said in (("micro-batches", {"schedule": dict(edited["schedule"], micro_batches=3)}, "schedule: micro_batches is 3, which does not divide the batch of 8"),
                           ("zero", {"zero": 2}, "zero: expected 0, the plan is of inference")):
    (out / "edited.json").write_text(json.dumps({**edited, **change}))
    expect_error(checks, f"an edited plan, {name}", ["run", mlp, "--dim=batch=8", "--seed=1", f"--plan={out / 'edited.json'}"], 2, [said])
expect_error(checks, "report -q", ["report", out / "plan.json", "-q"], 2, ["-q: kerf report prints"])
checks.expect("plan and the same", kerf("run", mlp, "--dim=batch=8", "--seed=1", f"--plan={out / 'plan.json'}", "--micro-batches=2").returncode == 0)

# A machine has devices: all of them, unless --devices says otherwise.
def planned(*flags):
    result = kerf("plan", mlp, "--dim=batch=8", "--json", *flags)
    return json.loads(result.stdout)["devices"] if result.returncode == 0 else result.stderr
(out / "machine.json").write_text(json.dumps(dict(json.loads(kerf("plan", mlp, "--dim=batch=8", "--machine=h100-4", "--json").stdout)["machine"], devices_per_node=3)))
for flags, count in ((["--machine=h100-4"], 4), (["--machine=a100-80gb-4x2"], 8), (["--machine=l40s-1"], 1), (["--machine=cpu"], 1),
                     (["--machine=h100-4", "--devices=2"], 2), ([f"--machine={out / 'machine.json'}"], 3), (["--devices=2"], 2), ([], 1),
                     # And so has a mesh, if no flag says how many there are.
                     (["--mesh=dp=2,tp=2"], 4), (["--mesh=dp=2,tp=2", "--machine=cpu"], 4), (["--mesh=dp=2", "--devices=4"], 4),
                     (["--mesh=dp=2,tp=2", "--machine=h100-8"], 8), (["--mesh=dp=1"], 1)):
    checks.expect(f"devices of {flags}", planned(*flags) == count, planned(*flags))
result = kerf("run", mlp, "--dim=batch=8", "--seed=1", "--mesh=dp=2", "--stats", out / "mesh.json")
checks.expect("a mesh says how many ranks run", result.returncode == 0 and "note: runs on 2 ranks of this CPU as dp=2; " in result.stderr and
              json.loads((out / "mesh.json").read_text())["mesh"] == {"dp": 2}, result.stderr)
one = ["plan", models.parent / "training/mlp/model.onnx", "--train", "--dim=batch=8", "--loss=cross_entropy(logits,labels)", "--schedule=gpipe"]
checks.expect("a schedule of a mesh", kerf(*one, "--mesh=pp=2").returncode == 0)
expect_error(checks, "a schedule of a mesh without stages", [*one, "--mesh=dp=2"], 2, ["--schedule is of a pipeline, and --mesh=dp=2 has one stage"])
# One GPU by its number is no number of GPUs, and a program for the CPU none for GPUs.
for arguments, said in ((["plan", "--devices=cuda:4"], "--devices=cuda:4 is one GPU, the one of number 4; cuda:0-3 are 4"), (["plan", "--devices=cuda:0-3"], ""),
                        (["plan", "--devices=cuda:0"], ""), (["plan", "--devices=8", "--machine=h100-8"], ""),
                        (["compile", "--machine=h100-8", "-o", out / "m.kerf"], "made for h100-8 .*, and runs on ranks of a CPU")):
    result = kerf(arguments[0], mlp, "--dim=batch=8", *arguments[1:])
    checks.expect(f"notes of {arguments}", result.returncode == 0 and
                  (re.search("note: .*" + said, result.stderr) if said else "note: " not in result.stderr), result.stderr)
for name, meant in (("h100", "h100-8"), ("H100-8", "h100-8"), ("H100", "h100-8"), ("h100x4", "h100-4"), ("h100-16", "h100-8x2"), ("h100-8X4", "h100-8x4"),
                    ("a100", "a100-40gb-8 or a100-80gb-8"), ("a100-8", "a100-40gb-8 or a100-80gb-8"), ("pcie", "pcie-8"), ("Cpu", "cpu")):
    expect_error(checks, f"machine {name}", ["plan", mlp, f"--machine={name}"], 2, [f'--machine: unknown machine "{name}", did you mean {meant}\\? .*l40s-D'])
for name in ("abacus", "gpu", "v100-8", "h100-3", "x"):
    expect_error(checks, f"machine {name}", ["plan", mlp, f"--machine={name}"], 2, [f'--machine: unknown machine "{name}", expected a JSON file or one of '])
expect_error(checks, "unknown machine", ["plan", mlp, "--machine=h100-3"], 2, ["--machine: unknown machine \"h100-3\", .*l40s-D"])

# What is to be seen needs no package.
piped = ["compile", mlp, "--dim=batch=8", "--devices=cpu:2", "--print-pipeline"]
seen, made = kerf(*piped), kerf(*piped, "-o", out / "piped.kerf").stdout.splitlines()
checks.expect("pipelines alone", seen.returncode == 0 and seen.stdout.splitlines() == made[:-2] and made[-2].startswith("package "), (seen, made))
expect_error(checks, "compile for nothing", ["compile", mlp, "--dim=batch=8"], 2, ["--output is missing, expected as -o NAME.kerf"])

# kerf-solve has its own options alone.
shown = subprocess.run(["kerf-solve", "--help"], capture_output=True, text=True)
flags = set(re.findall(r"--[a-z]+", shown.stdout))
checks.expect("kerf-solve --help", shown.returncode == 0 and
              flags == {"--help", "--solver", "--deadline", "--seed", "--hint", "--statistics"}, sorted(flags))
for arguments in ([], ["x.json", "--solver=fast"], ["x.json", "--deadline=-1"], ["x.json", "--color"]):
    wrong = subprocess.run(["kerf-solve", *arguments], capture_output=True, text=True)
    checks.expect(f"kerf-solve {arguments}", wrong.returncode == 2 and wrong.stderr.startswith("error: "), wrong.stderr)
checks.finish()
