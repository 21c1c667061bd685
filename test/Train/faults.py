# Checkpoints under faults (reliability.md 23, 24 in spirit: the previous one loads bit for bit): the process is killed
# with SIGKILL at any moment, the disk fills up while one is written. What goes on ends in the bits of the run without a break.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import pathlib
import resource
import signal
import subprocess
import sys
import time

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, ending, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
MLP = INPUTS / "training/mlp"
STEPS = 1500
checks = Checks()


def command(name, *flags, mesh=(), steps=STEPS):
    return ["train", MLP / "model.onnx", "--batch-size=16", "--loss=cross_entropy(logits,labels)",
            "--optimizer=adamw,lr=0.002,wd=0.01", f"--data={MLP / 'data.npz'}", "--threads=1",
            f"--checkpoint-dir={OUT / name}", "-o", OUT / f"{name}.onnx", f"--steps={steps}", *mesh, *flags]


def last(name):
    """The newest checkpoint of a folder that is being written."""
    return max((path.name for path in (OUT / name).glob("check*s")), default="")


for mesh in ((), ("--devices=cpu:2", "--mesh=dp=2")):
    tag = "dp" if mesh else "one"
    whole = kerf(*command(f"whole-{tag}", mesh=mesh))
    checks.expect(f"{tag}: whole", whole.returncode == 0, whole.stderr)
    expected = (OUT / f"whole-{tag}.onnx").read_bytes()
    # Killed again and again, a checkpoint after every step: most kills hit the writing of one.
    name, kills = f"killed-{tag}", 0
    for attempt in range(40):
        process = subprocess.Popen(["kerf", *map(str, command(name, "--checkpoint-every=1", "--resume", "-q", mesh=mesh))],
                                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        # First until it has written one, then a moment more.
        deadline, before = time.time() + 60, last(name)
        while process.poll() is None and time.time() < deadline and last(name) == before:
            time.sleep(0.002)
        time.sleep(0.013 * attempt)
        if attempt < 4 and process.poll() is None:
            process.kill()
            kills += 1
            process.communicate()
            continue
        stderr = process.communicate(timeout=300)[1]
        checks.expect(f"{name}: ends", process.returncode == 0, f"{ending(process.returncode)} {stderr}")
        break
    checks.expect(f"{name}: nothing is left beside", not list((OUT / name).glob("*.tmp*")))
    checks.expect(f"{name}: was killed", kills >= 3, str(kills))
    checks.expect(f"{name}: the same bits", (OUT / f"{name}.onnx").exists()
                  and (OUT / f"{name}.onnx").read_bytes() == expected)

# The disk is full while a later checkpoint is written: an error, no half file, and the one before goes on.
first = kerf(*command("full", steps=100))
(complete,) = (OUT / "full").glob("*.safetensors")
size = complete.stat().st_size


def small_disk():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 100, size - 100))


kept = complete.read_bytes()
result = kerf(*command("full", "--resume", steps=200), preexec_fn=small_disk)
checks.expect("full disk", result.returncode == 5
              and "checkpoint-000000200.safetensors: cannot write: File too large" in result.stderr,
              f"{ending(result.returncode)} {result.stderr}")
checks.expect("full disk: the checkpoint stays", complete.read_bytes() == kept
              and [path.name for path in (OUT / "full").iterdir()] == [complete.name], str(list((OUT / "full").iterdir())))
result = kerf(*command("full", "--resume", steps=200))
checks.expect("full disk: goes on", result.returncode == 0 and "goes on after step 100" in result.stderr, result.stderr)
checks.finish()
