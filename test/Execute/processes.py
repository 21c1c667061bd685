# The models of the suite on 2 and 4 processes, under mpirun and by the driver's
# own --processes: every output, every line of a training log, checkpoint and
# trained model has the bits of thread ranks, and counted bytes are the planned.
# With --all every model on every mesh, started in each way; without it each mesh
# and each model once, and a few trainings, all but one started in one way in turn.
#
# REQUIRES: kerf, kerf-run
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
from kerf_processes import LAUNCHERS, mpirun, own_launcher
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
EVERYTHING = "--all" in sys.argv
checks = Checks()
launchers = {"processes": own_launcher, **({"mpirun": mpirun} if "mpirun" in LAUNCHERS else {})}


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.exists() else {}


def counted(path):
    communication = json.loads(path.read_text())["communication"]
    for collective in communication["collectives"]:
        del collective["seconds"]
    return communication


def in_turn(turn):
    """Ways to start processes."""
    return list(launchers) if EVERYTHING else [list(launchers)[turn % len(launchers)]]


def compare(name, ranks, package, ways, seed="--seed=3"):
    """A package as threads, then as processes in these ways."""
    results = {}
    for way in ("threads", *ways):
        folder, stats = OUT / f"{name}-{way}", OUT / f"{name}-{way}.json"
        command = ["kerf-run", package, seed, "--threads=1", "--repeat=2", f"--output-dir={folder}", f"--stats={stats}"]
        if way == "threads":
            result = kerf(*command[1:], tool="kerf-run")
        else:
            result, _ = launchers[way](ranks, *command).wait(300)
        checks.expect(f"{name} {way} runs", result.returncode == 0, result.stderr)
        if result.returncode:
            return
        results[way] = contents(folder), counted(stats)
    for way in ways:
        outputs, communication = results[way]
        checks.expect(f"{name} {way}: the same bits", outputs and outputs == results["threads"][0])
        checks.expect(f"{name} {way}: the same counts", communication == results["threads"][1])
        checks.expect(f"{name} {way}: bytes as planned", communication["bytes_per_rank"] ==
                      communication["planned_bytes_per_rank"], json.dumps(communication)[:500])


LAYOUTS = [(2, ["--mesh=tp=2", "--objective=volume"]), (4, ["--mesh=pp=2,tp=2", "--micro-batches=2"]),
           (4, ["--mesh=dp=2,tp=2"])]
for turn, model in enumerate(("mlp", "convnet", "gpt2-small", "bert-small")):
    for ranks, flags in LAYOUTS if EVERYTHING else [LAYOUTS[turn % 3]]:
        name = f"{model}-{ranks}{flags[0][7:9]}"
        package = OUT / f"{name}.kerf"
        result = kerf("compile", INPUTS / "models" / model / "model.onnx", "--dim=batch=8", f"--devices=cpu:{ranks}",
                      *flags, "-o", package, "-q")
        checks.expect(f"{name} compiles", result.returncode == 0, result.stderr)
        if result.returncode == 0:
            compare(name, ranks, package, in_turn(turn))

# A model, not a package: rank 0 compiles for all.
MLP = INPUTS / "models/mlp/model.onnx"
plain = ["kerf", "run", MLP, "--dim=batch=8", "--seed=3", "--threads=1"]
kerf(*plain[1:], "--devices=cpu:4", f"--output-dir={OUT / 'model-threads'}")
for way, launch in launchers.items():
    # Under mpirun the processes are the devices.
    devices = ["--devices=cpu:4"] if way == "processes" else []
    result, _ = launch(4, *plain, *devices, f"--output-dir={OUT / f'model-{way}'}").wait(300)
    checks.expect(f"kerf run {way}", result.returncode == 0 and contents(OUT / f"model-{way}") ==
                  contents(OUT / "model-threads"), result.stderr)
if "mpirun" in launchers:
    for flags, code, text in ((["--devices=cpu:3"], 2, "--devices=cpu:3 needs 3 processes, the job has 2"),
                              (["--mesh=dp=3"], 2, "degrees multiply to 3, expected a divisor of 2"), (["--processes"], 2, "this process is one of a job")):
        result, codes = mpirun(2, *plain, *flags).wait()
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        checks.expect(f"mpirun kerf run {flags[0]}", result.returncode == code and len(errors) == 1 and
                      text in errors[0], f"{codes} {result.stderr}")

# Training: logs, checkpoints, trained model; a resumed run goes on alike.


def train(name, way, folder, ranks, mesh, flags=(), batch=8, steps=4):
    out = OUT / f"train-{name}-{way}"
    out.mkdir(exist_ok=True)
    command = ["kerf", "train", folder / "model.onnx", f"--batch-size={batch}", "--loss=cross_entropy(logits,labels)",
               "--optimizer=adamw,lr=0.01,wd=0.01", f"--data={folder / 'data.npz'}", f"--log={out / 'log.jsonl'}",
               "-o", out / "trained.onnx", f"--steps={steps}", f"--checkpoint-dir={out / 'checkpoints'}",
               "--checkpoint-every=2", f"--eval-data={folder / 'data.npz'}", "--threads=1", "-q",
               f"--devices=cpu:{ranks}", f"--mesh={mesh}", *flags]
    if way == "threads":
        result = kerf(*command[1:])
    else:
        result, _ = launchers[way](ranks, *command).wait(300)
    checks.expect(f"train {name} {way} runs", result.returncode == 0, result.stderr)
    if result.returncode:
        return None
    log = [{key: value for key, value in json.loads(line).items() if key != "seconds"}
           for line in (out / "log.jsonl").read_text().splitlines()]
    return log, (out / "trained.onnx").read_bytes(), contents(out / "checkpoints")


TRAINING = INPUTS / "training"
TRAININGS = [("mlp", 2, "dp=2", []), ("gpt2", 4, "dp=2,tp=2", []), ("gpt2", 2, "pp=2", ["--micro-batches=2"])]
if EVERYTHING:
    TRAININGS += [("mlp", 4, "dp=2,tp=2", []), ("conv-batch-norm", 2, "dp=2", [])]
for turn, (name, ranks, mesh, flags) in enumerate(TRAININGS):
    case = f"{name}-{mesh.replace('=', '').replace(',', '-')}"
    expected = train(case, "threads", TRAINING / name, ranks, mesh, flags)
    # The first, which is also taken up again, in each way.
    for way in () if not expected else in_turn(turn) if turn else launchers:
        got = train(case, way, TRAINING / name, ranks, mesh, flags)
        checks.expect(f"train {case} {way}: the same curve", got and got[0] == expected[0] and len(got[0]) >= 4,
                      str(got and got[0]))
        checks.expect(f"train {case} {way}: the same model", got and got[1] == expected[1])
        checks.expect(f"train {case} {way}: the same checkpoints", got and got[2] == expected[2])
        if got and name == "mlp" and ranks == 2:
            # Four steps and four more are eight.
            more = train(case, way, TRAINING / name, ranks, mesh, [*flags, "--resume"], steps=8)
            whole = train(f"{case}-whole-{way}", "threads", TRAINING / name, ranks, mesh, flags, steps=8)
            checks.expect(f"train {case} {way}: resumed", more and whole and more[1] == whole[1])
checks.finish()
