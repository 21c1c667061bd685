# No file is lost: an output that is an input or another output, by whatever name or link, is refused with both flags
# before anything is done; so is one that cannot be written; and a disk that is full, for outputs or for temporary files,
# is an error that names the file, with nothing half written.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %models %inputs
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

OUT, MODELS, INPUTS = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx

from kerf_tests import Checks, expect_error, fresh_folder, in_parallel, kerf

OUT = fresh_folder(OUT)
checks = Checks()
MODEL, DATA = OUT / "m.onnx", OUT / "m.onnx.data"
onnx.save(onnx.load(MODELS / "mlp/model.onnx"), MODEL, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
np.save(OUT / "x.npy", np.zeros((8, 32), np.float32))
np.save(OUT / "logits.npy", np.zeros((8, 32), np.float32))
np.savez(OUT / "d.npz", x=np.zeros((8, 32), np.float32), labels=np.zeros(8, np.int64))
BIND = ["--dim", "batch=8"]
for arguments in (["plan", MODEL, *BIND, "-q", "-o", OUT / "p.json"], ["compile", MODEL, *BIND, "-q", "-o", OUT / "m.kerf"],
                  ["run", MODEL, *BIND, "--seed=0", "-q", "--stats", OUT / "r.json"]):
    made = kerf(*arguments)
    checks.expect(f"{arguments[0]} without a fault", made.returncode == 0, made.stderr)
# What is of another kind is not replaced: neither by its content nor by its ending can it be what is written there.
(OUT / "export.py").write_text("import torch\n")
(OUT / "checkpoint.pt").write_bytes(b"PK\x03\x04" + bytes(60))
TRAIN = ["train", MODEL, "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", "--data", OUT / "d.npz", "--batch-size=8", "--steps=1", "-q"]
PLAN = ["plan", MODEL, *BIND, "-q"]
for arguments, flag, name, kind in (
        (TRAIN, "-o", "export.py", "a file of another kind"), (TRAIN, "-o", "checkpoint.pt", "an archive"), (TRAIN, "-o", "p.json", "a plan"),
        (TRAIN, "--save-safetensors", "hard.onnx", "an ONNX model"), (TRAIN, "--stats", "x.npy", "a NumPy array"),
        (PLAN, "-o", "other.onnx", "an ONNX model"), (PLAN, "-o", "r.json", "the report of a run"), (["report", OUT / "r.json"], "--html", "p.json", "a plan"),
        (["calibrate", "-q"], "-o", "p.json", "a plan")):
    shutil.copy(MODELS / "mlp/model.onnx", OUT / "other.onnx")
    shutil.copy(MODELS / "mlp/model.onnx", OUT / "hard.onnx")
    before = (OUT / name).read_bytes()
    expect_error(checks, f"{arguments[0]} {flag} {name}", [*arguments, flag, OUT / name], 2, [f"{flag}: ", f"exists and is {kind}", "it is not replaced"])
    checks.expect(f"{arguments[0]} {flag} {name} stays", (OUT / name).read_bytes() == before)
for _ in range(2):  # one's own is
    made = kerf(*TRAIN, "-o", OUT / "own.pt", "--stats", OUT / "own.json", "--log", OUT / "own.log", "--save-safetensors", OUT / "own.st")
    checks.expect("own files are replaced", made.returncode == 0, made.stderr)
(OUT / "hard.onnx").unlink()
machine = json.loads((OUT / "p.json").read_text())["machine"]
(OUT / "machine.json").write_text(json.dumps(machine))
(OUT / "soft").symlink_to("m.onnx")
os.link(MODEL, OUT / "hard.onnx")
(OUT / "here").symlink_to(".")
(OUT / "nowhere.json").symlink_to("new.json")
(OUT / "ck").mkdir()
shutil.copy(OUT / "d.npz", OUT / "ck/checkpoint-000000001.safetensors")


def files():
    return {str(path.relative_to(OUT)): path.read_bytes() for path in sorted(OUT.rglob("*")) if path.is_file()}


BEFORE = files()
RUN = ["run", MODEL, *BIND, "--seed=1"]
TRAIN = ["train", MODEL, "--batch-size=8", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1",
         f"--data={OUT / 'd.npz'}", "--steps=1"]
PACKAGE = [OUT / "m.kerf", "--seed=1"]


def both(first, second):
    return [f"is given by {re.escape(first)} and by {re.escape(second)}"]


CASES = [
    ("plan", ["plan", MODEL, *BIND, "-o", MODEL], both("-o", "the model")),
    ("plan, spelled otherwise", ["plan", MODEL, *BIND, "-o", OUT / "here/./m.onnx"], both("-o", "the model")),
    ("plan, symbolic link", ["plan", MODEL, *BIND, "-o", OUT / "soft"], both("-o", "the model")),
    ("plan of a link", ["plan", OUT / "soft", *BIND, "-o", MODEL], both("-o", "the model")),
    ("plan, hard link", ["plan", MODEL, *BIND, "-o", OUT / "hard.onnx"], both("-o", "the model")),
    ("plan, external data", ["plan", MODEL, *BIND, "-o", DATA], both("-o", "the model's external data")),
    ("plan, plan", ["plan", MODEL, *BIND, "--plan", OUT / "p.json", "-o", OUT / "p.json"], both("-o", "--plan")),
    ("plan, machine", ["plan", MODEL, *BIND, "--machine", OUT / "machine.json", "-o", OUT / "machine.json"],
     both("-o", "--machine")),
    ("plan, dump", ["plan", MODEL, *BIND, "--dump-dir", OUT / "dump", "-o", OUT / "dump/02-plan.mlir"], both("--dump-dir", "-o")),
    ("plan, constant", ["plan", MODEL, *BIND, f"--constant=x=@{OUT / 'x.npy'}", "-o", OUT / "x.npy"], both("-o", "--constant")),
    ("compile over the plan in it", ["compile", MODEL, *BIND, "--plan", OUT / "m.kerf/plan.json", "-o", OUT / "m.kerf"],
     both("-o", "--plan")),
    ("compile over a dump", ["compile", MODEL, *BIND, "--dump-dir", OUT / "m.kerf/dump", "-o", OUT / "m.kerf"],
     both("--dump-dir", "-o")),
    ("compile over a folder", ["compile", MODEL, *BIND, "-o", OUT / "ck"], ["ck: exists and is not a package"]),
    ("compile over a file", ["compile", MODEL, *BIND, "-o", OUT / "x.npy"], ["x.npy: exists and is not a package"]),
    ("stats", [*RUN, "--stats", MODEL], both("--stats", "the model")),
    ("trace", [*RUN, "--trace", OUT / "soft"], both("--trace", "the model")),
    ("stats and trace", [*RUN, "--stats", OUT / "new.json", "--trace", OUT / "here/new.json"], both("--trace", "--stats")),
    ("through a link to nothing", [*RUN, "--stats", OUT / "new.json", "--trace", OUT / "nowhere.json"],
     both("--trace", "--stats")),
    ("outputs over inputs", [*RUN, f"--input=x=@{OUT / 'logits.npy'}", "--output-dir", OUT], both("--output-dir", "--input")),
    ("outputs and stats", [*RUN, "--stats", OUT / "o/logits.npy", "--output-dir", OUT / "o"], both("--output-dir", "--stats")),
    ("verify", ["verify", MODEL, *BIND, "--dump-dir", OUT / "dump", "--plan", OUT / "dump/02-plan.mlir"], ["02-plan.mlir"]),
    ("train", [*TRAIN, "-o", MODEL], both("-o", "the model")),
    ("train, data", [*TRAIN, "-o", OUT / "d.npz"], both("-o", "--data")),
    ("train, log", [*TRAIN, "-o", OUT / "new.onnx", "--log", OUT / "here/new.onnx"], both("--log", "-o")),
    ("train, evaluation data", [*TRAIN, "--eval-data", OUT / "x.npy", "--save-safetensors", OUT / "x.npy"],
     both("--save-safetensors", "--eval-data")),
    ("train, checkpoints", [*TRAIN, "--checkpoint-dir", OUT / "ck", "--resume", "--save-safetensors",
                            OUT / "ck/checkpoint-000000002.safetensors"], both("--checkpoint-dir", "--save-safetensors")),
    ("html", ["report", OUT / "p.json", "--html", OUT / "p.json"], both("--html", "the document")),
    ("html of a run", ["report", OUT / "r.json", "--html", OUT / "here/r.json"], both("--html", "the document")),
    # What cannot be written is known at once.
    ("no folder", ["plan", MODEL, *BIND, "-o", OUT / "no/p.json"], [r'no/p.json: cannot write: the folder "\S+/no" does not exist: make it first$']),
    ("no folder for a package", ["compile", MODEL, *BIND, "-o", OUT / "no/p.kerf"],
     [r'no/p.kerf: cannot create: the folder "\S+/no" does not exist: make it first$']),
    ("no folder for outputs", [*RUN, "--output-dir", OUT / "no/o"], [r'no/o: cannot create: the folder "\S+/no" does not exist: make it first$']),
    ("no folder of several", [*RUN, "--output-dir", OUT / "no/further/o/"], [r'further/o: cannot create: the folder "\S+/no" does not exist: make it first$']),
    ("outputs into a file", [*RUN, "--output-dir", OUT / "x.npy"], ["x.npy: is no folder"]),
    ("dump into a file", ["verify", MODEL, *BIND, "--dump-dir", OUT / "x.npy"], ["x.npy: is no folder"]),
    ("stats into a folder", [*RUN, "--stats", OUT / "ck"], [rf"ck: is a folder, and --stats writes a file: --stats={OUT}/ck/run.json$"]),
    ("trace into a folder", [*RUN, "--trace", f"{OUT}/ck/"], [rf"ck/: is a folder, and --trace writes a file: --trace={OUT}/ck/trace.json$"]),
    ("log into a folder", [*TRAIN, "-o", OUT / "new.onnx", "--log", OUT / "ck"], ["--log=.*/ck/log.jsonl$"]),
    ("weights into a folder", [*TRAIN, "-o", OUT / "new.onnx", "--save-safetensors", OUT / "ck"], ["--save-safetensors=.*/ck/model.safetensors$"]),
    ("html into a folder", ["report", OUT / "p.json", "--html", OUT / "ck"], ["--html=.*/ck/report.html$"]),
    ("kerf-run, stats into a folder", [*PACKAGE, "--stats", OUT / "ck"], ["ck: is a folder, and --stats writes a file: --stats=.*/ck/run.json$"]),
    # What -o wants, of each command.
    ("plan into a folder", ["plan", MODEL, *BIND, "-o", "."], [r"^error: \.: is a folder, and -o writes a file: -o \./plan.json$"]),
    ("IR into a folder", ["plan", MODEL, *BIND, "--stop-after=import", "-o", OUT / "ck"], [rf"-o writes a file: -o {OUT}/ck/import.mlir$"]),
    ("IR of compile into a folder", ["compile", MODEL, *BIND, "--stop-after=lower", "-o", OUT / "ck"], ["-o writes a file: -o .*/ck/lower.mlir$"]),
    ("a trained model into a folder", [*TRAIN, "--output", OUT / "ck"], [rf"--output writes a file: --output {OUT}/ck/m.trained.onnx$"]),
    ("a machine into a folder", ["calibrate", "--devices=cpu:1", "-o", OUT / "ck"], ["-o writes a file: -o .*/ck/machine.json$"]),
    ("a package into a folder", ["compile", MODEL, *BIND, "-o", "."],
     [r"^error: \.: exists and is not a package; it is not replaced, and -o names the folder to be made: -o \./m.kerf$"]),
    ("a package over a file", ["compile", MODEL, *BIND, "-o", OUT / "x.npy"], ["is not replaced, and -o names the folder to be made: -o m.kerf$"]),
    ("html nowhere", ["report", OUT / "p.json", "--html", OUT / "no/p.html"], ["no/p.html: cannot write"]),
    ("calibrate nowhere", ["calibrate", "--devices=cpu:1", "-o", OUT / "no/m.json"], ["no/m.json: cannot write"]),
    ("kerf-run, package", [*PACKAGE, "--stats", OUT / "m.kerf/manifest.json"], both("--stats", "the package")),
    ("kerf-run, both", [*PACKAGE, "--stats", OUT / "new.json", "--trace", OUT / "nowhere.json"], both("--trace", "--stats")),
    ("kerf-run, outputs", [*PACKAGE, f"--input=x=@{OUT / 'logits.npy'}", "--output-dir", OUT], both("--output-dir", "--input")),
    ("kerf-run, nowhere", [*PACKAGE, "--stats", OUT / "no/r.json"], ["no/r.json: cannot write"]),
]
in_parallel([(expect_error, checks, name, arguments, 2, patterns, "kerf-run" if arguments[0] == PACKAGE[0] else "kerf")
             for name, arguments, patterns in CASES])
after = files()
checks.expect("nothing is changed", after == BEFORE, str({name for name in {*after, *BEFORE}
                                                           if after.get(name) != BEFORE.get(name)}))


# A disk that is full meanwhile, as files that may not become large; a folder for temporary files that is none.
def limited(name, kib, arguments, code, patterns, environment=None, tool="kerf"):
    command = f"ulimit -f {kib}; exec \"$@\"" if kib else "exec \"$@\""
    result = subprocess.run(["bash", "-c", command, "bash", tool, *map(str, arguments)], capture_output=True, text=True,
                            stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})}, timeout=120)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("note: ")]
    fine = result.returncode == code and len(lines) == 1 and lines[0].startswith("error: ") and all(
        re.search(pattern, result.stderr) for pattern in patterns)
    checks.expect(name, fine, f"exit {result.returncode}, expected {code} {patterns}\n{result.stderr}")


FULL, GONE = "cannot write: File too large", {"TMPDIR": str(OUT / "gone")}
limited("plan, full", 1, ["plan", MODEL, *BIND, "-q", "-o", OUT / "full.json"], 5, [f"full.json: {FULL}"])
limited("compile, full", 8, ["compile", MODEL, *BIND, "-q", "-o", OUT / "full.kerf"], 5, [FULL])
limited("run, temporary files", 1, [*RUN, "-q"], 5, [FULL])
limited("dump, full", 1, ["plan", MODEL, *BIND, "-q", "--dump-dir", OUT / "full"], 5, [f"full/01-import.mlir: {FULL}"])
limited("outputs, full", 1, [*PACKAGE, "-q", "--output-dir", OUT / "full.out", "--stats", OUT / "full.stats"], 5, [FULL],
        tool="kerf-run")
limited("html, full", 1, ["report", OUT / "p.json", "--html", OUT / "full.html"], 5, [f"full.html: {FULL}"])
for command in (["compile", MODEL, *BIND, "-o", OUT / "full.kerf"], RUN, ["verify", MODEL, *BIND], TRAIN,
                ["calibrate", "--devices=cpu:1"]):
    limited(f"{command[0]}, no place for temporary files", 0, command, 2,
            [r'gone: cannot write: the folder "\S+/gone" does not exist', "TMPDIR"], GONE)
limited("stdout", 0, ["-c", f"kerf plan {MODEL} --dim batch=8 >/dev/full"], 5, ["stdout: cannot write: No space left"], tool="bash")
limited("stdout, as JSON", 0, ["-c", f"kerf inspect {MODEL} --dim batch=8 --json >/dev/full"], 5, ["stdout: cannot write: No space left"],
        tool="bash")
limited("stdout of kerf-run", 0, ["-c", f"kerf-run {OUT / 'm.kerf'} --seed=1 >/dev/full"], 5,
        ["stdout: cannot write: No space left"], tool="bash")
# A folder that was to be filled may be there, empty.
left = {name for name in files() if name not in BEFORE}
checks.expect("nothing half written", not left, str(left))
checks.finish()
