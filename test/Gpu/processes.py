# GPU ranks as processes, one per GPU, without a GPU: the recording driver in
# each, its NCCL over a store. Started by kerf-run --processes, with torchrun's
# variables and by mpirun: the bits, counts and files of ranks that are threads;
# each takes the GPU of its local rank; a rank that is killed or stopped, ranks
# that disagree, GPUs of different models, a GPU that is not there.
#
# REQUIRES: kerf, kerf-run
# RUN: %python %s %t %inputs %build
import json
import os
import pathlib
import signal
import sys
import time

INPUTS, BUILD = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path.insert(0, str(INPUTS))
from kerf_processes import LAUNCHERS, by_hand, own_launcher
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
DRIVER = str(BUILD / "lib/libkerf_recording_cuda.so")
RECORDED = {"KERF_CUDA_DRIVER": DRIVER, "KERF_NCCL": DRIVER}
TRAIN = ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.002,wd=0.1"]
T = 3
EVERYTHING = "--all" in sys.argv
checks = Checks()


def compiled(name, folder, ranks, *flags):
    package = OUT / f"{name}.kerf"
    result = kerf("compile", INPUTS / folder / "model.onnx", "--dim=batch=8", f"--devices=cuda:0-{ranks - 1}",
                  "--host-kernels", "--ptxas=none", *flags, "-o", package, "-q", timeout=600)
    checks.expect(f"{name}: compiles", result.returncode == 0, result.stderr)
    return package


def command(package, folder, *more):
    names = [i["name"] for i in json.loads((package / "manifest.json").read_text())["inputs"]]
    scalars = ["--input=train.learning_rate=0.002"] if "train.learning_rate" in names else []
    return ["kerf-run", package, "--seed=3", "--threads=1", f"--output-dir={folder}", f"--stats={folder}.json",
            *scalars, *more]


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.exists() else {}


def communication(folder):
    found = json.loads(pathlib.Path(f"{folder}.json").read_text())["communication"]
    for collective in found["collectives"]:
        del collective["seconds"]
    return found


packages = {}
CASES = [("mlp-tp2", "models/mlp", 2, ["--mesh=tp=2", "--objective=volume"]),
         ("gpt2-dp2tp2", "models/gpt2-small", 4, ["--mesh=dp=2,tp=2"]),
         ("train-pp2dp2", "training/gpt2", 4, [*TRAIN, "--mesh=pp=2,dp=2", "--micro-batches=4"])]
if EVERYTHING:
    CASES += [("mlp-pp2tp2", "models/mlp", 4, ["--mesh=pp=2,tp=2", "--micro-batches=2"]),
              ("train-dp2", "training/mlp", 2, [*TRAIN, "--mesh=dp=2"])]
for turn, (name, folder, ranks, flags) in enumerate(CASES):
    packages[name] = package = compiled(name, folder, ranks, *flags)
    want = OUT / f"{name}-threads"
    threads = command(package, want, "--repeat=3")
    result = kerf(*threads[1:], tool="kerf-run", env=dict(os.environ, **RECORDED), timeout=300)
    checks.expect(f"{name}: threads", result.returncode == 0, result.stderr)
    ways = list(LAUNCHERS.items())
    # Without --all (processes-full.test) each package is started in one of the ways.
    for way, launch in ways if EVERYTHING else [ways[-turn % len(ways)]]:
        if way == "mpirun" and ranks == 4 and name != "gpt2-dp2tp2":
            continue
        got = OUT / f"{name}-{way.replace(' ', '-')}"
        result, codes = launch(ranks, *command(package, got, "--repeat=3"), environment=RECORDED).wait(300)
        checks.expect(f"{name}: {way}", not any(codes), result.stderr)
        if any(codes):
            continue
        checks.expect(f"{name}, {way}: the same bits", contents(got) and contents(got) == contents(want))
        found = communication(got)
        checks.expect(f"{name}, {way}: the same counts", found == communication(want))
        checks.expect(f"{name}, {way}: bytes as planned", found["bytes_per_rank"] == found["planned_bytes_per_rank"])

# Each process takes the GPU of its local rank, or of the list.
small = packages["mlp-tp2"]
for devices, wanted in ((None, "0 1"), ("5,2", "5 2")):
    environment = dict(RECORDED, **({"KERF_CUDA_DEVICES": devices} if devices else {}))
    result, codes = by_hand(2, *command(small, OUT / "gpus", "-v"), environment=environment).wait(120)
    text = result.stdout + result.stderr
    for rank, gpu in enumerate(wanted.split()):
        checks.expect(f"rank {rank} takes GPU {gpu}", f"rank {rank} runs on GPU {gpu}," in text, text)

# kerf run --devices=cuda:0-1 starts a process per GPU by itself.
result = kerf("run", INPUTS / "models/mlp/model.onnx", "--dim=batch=8", "--devices=cuda:0-1", "--mesh=tp=2",
              "--objective=volume", "--host-kernels", "--ptxas=none", "--seed=3", "-q", "--threads=1",
              f"--output-dir={OUT / 'itself'}", env=dict(os.environ, **RECORDED), timeout=120)
checks.expect("kerf run starts processes", result.returncode == 0, result.stderr)
checks.expect("kerf run: the same bits", contents(OUT / "itself") == contents(OUT / "mlp-tp2-threads"))

# Faults of the machine: the message, and its exit code.
for name, environment, text, code in (
        ("mixed GPUs", {"KERF_RECORDING": "names=NVIDIA H200,NVIDIA A100"},
         "mixed GPU models: rank 0 has NVIDIA H200 (sm_90), rank 1 has NVIDIA A100 (sm_90)", 5),
        ("a GPU that is not there", {"KERF_RECORDING": "devices=1"}, "rank 1 needs GPU 1, this machine has 1", 5),
        ("one GPU for two", {"KERF_CUDA_DEVICES": "1,1"}, "ranks 0 and 1 both use GPU", 5),
        ("no NCCL", {"KERF_NCCL": "/nowhere/libnccl.so"}, "several GPUs need NCCL, which is not on this machine", 5),
        ("out of memory", {"KERF_RECORDING": "memory=6000"}, "out of memory on GPU", 5)):
    result, codes = by_hand(2, *command(small, OUT / "never", f"--timeout={T}"), environment={**RECORDED, **environment}).wait(60)
    checks.expect(f"{name}: message", text in result.stderr, result.stderr)
    checks.expect(f"{name}: exit code", code in codes and not codes.count(0), str(codes))
    if name == "out of memory":
        checks.expect("the plan's number", ", the plan's peak is " in result.stderr, result.stderr)
    checks.expect(f"{name}: no output", not (OUT / "never").exists())

# Shared for testing: it runs, and run.json says so.
result, codes = by_hand(2, *command(small, OUT / "shared"),
                        environment={**RECORDED, "KERF_SHARE_GPU": "1", "KERF_RECORDING": "devices=1"}).wait(60)
checks.expect("a shared GPU", not any(codes), result.stderr)
checks.expect("a shared GPU is marked", json.loads((OUT / "shared.json").read_text()).get("shared_devices") is True)
checks.expect("others are not", "shared_devices" not in json.loads((OUT / "mlp-tp2-threads.json").read_text()))

# Ranks of different packages.
other = compiled("mlp-other", "models/mlp", 2, "--mesh=dp=2")
job = by_hand(2, "sh", "-c", f'exec kerf-run $([ $RANK = 1 ] && echo {other} || echo {small}) --seed=3 --threads=1 '
              f'--timeout={T} --output-dir={OUT / "disagree"}', environment=RECORDED)
result, codes = job.wait(60)
checks.expect("ranks of different packages", set(codes) == {5} and "ranks disagree on the package: " in result.stderr, f"{codes} {result.stderr}")
checks.expect("ranks of different packages: no output", not (OUT / "disagree").exists())

# A rank that is killed or stopped in the midst of many steps: all is over within T + 5 s, and it is named.
WAYS = (("mlp-tp2", by_hand, 2), ("gpt2-dp2tp2", own_launcher, 4))
for number, ways in ((signal.SIGKILL, WAYS), (signal.SIGSTOP, WAYS)) if EVERYTHING else (
        (signal.SIGKILL, WAYS[1:]), (signal.SIGSTOP, WAYS[:1])):
    for name, launch, ranks in ways:
        case = f"{name}: {signal.Signals(number).name}"
        job = launch(ranks, *command(packages[name], OUT / "killed", f"--timeout={T}", "--repeat=100000000"),
                     environment=RECORDED)
        victim = job.computing(1, "kerf-run", 0.6)
        if victim is None:
            checks.expect(case, False, "the rank was not found: " + str(job.wait(1)))
            continue
        os.kill(victim, number)
        begin = time.monotonic()
        others = [p for p in job.processes if p.pid != victim]
        for process in others:
            process.wait(60)
        seconds = time.monotonic() - begin
        result, codes = job.wait(1) if number == signal.SIGKILL or len(job.processes) == 1 else (None, None)
        if result is None:
            os.kill(victim, signal.SIGKILL)
            result, codes = job.wait(5)
        checks.expect(f"{case}: within T + 30 s", seconds < T + 30, f"{seconds:.1f} s\n{result.stderr}")
        checks.expect(f"{case}: exit code", codes[0] == 5, str(codes))
        checks.expect(f"{case}: rank 1 is named", "error: " in result.stderr and "rank 1" in result.stderr, result.stderr)
        print(f"{case}: {seconds:.1f} s: " + next((l for l in result.stderr.splitlines() if l.startswith("error")), ""),
              flush=True)

checks.finish()
