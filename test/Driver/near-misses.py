# What was meant is said where a request is nearly right: a loss, a pattern, a file, a machine of too few devices.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import os
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
MLP, TRAIN = INPUTS / "models/mlp/model.onnx", INPUTS / "training/mlp/model.onnx"
checks = Checks()
STEP = ["plan", TRAIN, "--dim=batch=8", "--train", "--optimizer=sgd"]

for text, meant in (("crossentropy", "cross_entropy"), ("CrossEntropy", "cross_entropy"), ("bce_with_logit", "bce_with_logits")):
    expect_error(checks, f"--loss={text}", [*STEP, f"--loss={text}"], 2,
                 [re.escape(f"did you mean {meant}(OUTPUT,LABELS)? OUTPUT is one of 'logits'")])
expect_error(checks, "an output", [*STEP, "--loss=logit"], 2, ["did you mean 'logits'\\?"])
expect_error(checks, "a pattern of files", ["plan", MLP, "--dim=batch=8", "--devices=cpu:2", "--shard=*.weight=[{tp},{}]"], 2,
             ["is not a regular expression", re.escape("(any characters are '.*')")])

(OUT / "net.onnx").write_bytes(MLP.read_bytes())
expect_error(checks, "without its ending", ["run", OUT / "net", "--dim=batch=8", "--seed=1"], 2, [re.escape(f"did you mean {OUT / 'net'}.onnx?")])

# What a file is, and which command takes it.
FILES = INPUTS / "training/mlp"
(OUT / "w.safetensors").write_bytes((16).to_bytes(8, "little") + b'{"a": {}}       ')
(OUT / "two.kerf").mkdir()
for name in ("manifest.json", "program.so"):
    (OUT / "two.kerf" / name).write_bytes(b"\x7fELF")
for path, said in ((FILES / "data.npz", "is an archive of arrays, expected an ONNX model.*\nnote: behind a model it gives inputs: --input=@\\S+ of kerf run, --data="),
                   (OUT / "w.safetensors", "is a safetensors file, expected an ONNX model.*\nnote: it holds weights without a graph; torch.onnx.export writes ONNX"),
                   (OUT / "two.kerf/program.so", "is a file of a package, expected an ONNX model\nnote: kerf run and kerf-run take the package: \\S+two.kerf\n")):
    expect_error(checks, f"run {path.name}", ["run", path, "--seed=1"], 2, [said])
expect_error(checks, "kerf-run of a model", [MLP, "--seed=1"], 2,
             ["is an ONNX model, expected a package, a folder that kerf compile makes of a model; kerf run takes models"], tool="kerf-run")
for flags, meant in ((["--dim", "batch", "8"], "--dim=batch=8"), (["--dim=batch", "8"], "--dim=batch=8"), (["--dim=batch=8", "--mesh", "dp", "2"], "--mesh=dp=2"),
                     (["--dim=batch=8", "--shard", "x", "[{tp},{}]"], "--shard=x=[{tp},{}]"), (["--dim=batch=8", "--input", "x", "@x.npy"], "--input=x=@x.npy")):
    expect_error(checks, f"a blank: {flags}", ["run", MLP, *flags], 2, [re.escape(f": name and value have '=' between them, as in {meant}\n")])

for words, meant in ((["run", MLP, "x=@x.npy"], "unknown argument x=@x.npy: inputs follow a flag, as in --input=x=@x.npy\n"),
                     (["run", MLP, "--dim=batch=8", "--input=x=1,y=@y.npy"], 'no input "y", there are: x\n'),
                     (["run", MLP, "@x.npz"], "files besides the first follow a flag, as in --input=@x.npz\n"),
                     (["run", MLP, "--dim=batch=8", "--memory-limit", "80", "GiB"], "--memory-limit: number and unit stand together, as in --memory-limit=80GiB\n"),
                     (["run", MLP, "--dim=batch=8", "--memory-limit=80", "GiB"], "--memory-limit: number and unit stand together, as in --memory-limit=80GiB\n"),
                     (["run", MLP, OUT / "net.onnx", "--dim=batch=8"], f"unknown argument {OUT / 'net.onnx'}: one model is taken, {MLP}\n"),
                     (["inspect", MLP, "-v"], "unknown argument -v, which is of kerf "), ([MLP, "--seed=1"], f"'{MLP}' is no command: kerf run {MLP} runs it\n"),
                     (["run", MLP, "--constant=x=3", "--input=x.npy", "--dim=batch=8"], "all inputs of ")):
    expect_error(checks, f"stray words: {words}", words, 2, [re.escape(meant)])
for limit, said in (("100GiB", True), ("80GiB", False)):
    result = kerf("plan", MLP, "--dim=batch=8", "--devices=2", "--machine=h100-8", f"--memory-limit={limit}")
    checks.expect(f"a limit of {limit}", result.returncode == 0 and
                  (f"note: --memory-limit={limit} is more than a device of h100-8 has (80.0 GiB)" in result.stderr) == said, result.stderr)

expect_error(checks, "micro-batches", ["plan", MLP, "--dim=batch=12", "--devices=2", "--micro-batches=5"], 2,
             ["--micro-batches: 5 does not divide the batch of 12, which 2, 3, 4, 6 and 12 do\n"])

machine = OUT / "two.json"
result = kerf("calibrate", "--devices=cpu:2", "-o", machine, "-q")
checks.expect("measures", result.returncode == 0, result.stderr)
expect_error(checks, "a machine of two", ["plan", MLP, "--dim=batch=8", "--devices=cpu:4", f"--machine={machine}"], 2,
             [f"--machine: {machine} is of 2 devices, expected at least 4: kerf calibrate --devices=cpu:4 measures as many"])

# A mesh that cannot be is no reason to measure the host.
os.environ.pop("KERF_HOST_MACHINE", None)
os.environ["XDG_CACHE_HOME"] = str(OUT / "cache")
refused = kerf("run", MLP, "--dim=batch=6", "--seed=1", "--devices=cpu:3", "--mesh=dp=2")
checks.expect("a mesh of other devices", refused.returncode == 2 and "measured" not in refused.stderr
              and refused.stderr.startswith("error: --mesh: degrees multiply to 2, expected a divisor of 3 devices"), refused.stderr)

expect_error(checks, "a mesh of more devices", ["plan", MLP, "--dim=batch=8", "--devices=cpu:4", "--mesh=dp=8"], 2,
             ["--mesh: degrees multiply to 8, expected a divisor of 4 devices\nnote: without --devices there are as many as the mesh has\n"])

shown = kerf("plan", MLP, "--dim=batch=7", "--devices=cpu:2", "--mesh=dp=2", "--what-if=batch=8")
checks.expect("whose note", "note: row \"as asked\": padding, " in shown.stderr, shown.stderr)

package = OUT / "one.kerf"
result = kerf("compile", MLP, "--dim=batch=8", "-o", package, "-q")
opened = kerf("run", package, "--seed=1", "-v")
checks.expect("one rank", result.returncode == 0 and ": 1 rank, " in opened.stderr, opened.stderr)
expect_error(checks, "a decoder without a cache", ["generate", INPUTS / "models/gpt2-small/model.onnx", "--prompt-ids=1,2", "--tokens=2"], 2,
             ["generation needs a decoder", "docs/Generate.md"])

# The plan that is laid out sends in the table what it sends above it: tied weights' gradients are counted as planned before that.
for zero in ("1", "3"):
    result = kerf("plan", INPUTS / "training/gpt2/model.onnx", "--dim=batch=8", "--devices=cpu:4", "--machine=cpu", "--mesh=dp=4", "--train",
                  "--loss=cross_entropy(logits,labels)", "--optimizer=adamw", f"--zero={zero}", "-o", OUT / "plan.json")
    plan = json.loads((OUT / "plan.json").read_text()) if result.returncode == 0 else {}
    for key in ("bytes_per_rank", "total_bytes"):
        checks.expect(f"ZeRO {zero}: {key}", plan and plan["runners_up"][0][key] == plan["communication"][key],
                      result.stderr or (plan["runners_up"][0], plan["communication"][key]))
checks.finish()
