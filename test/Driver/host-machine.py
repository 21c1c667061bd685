# `kerf run` over CPU ranks plans for this host as measured: once, kept in the cache, measured again when the file is
# broken, and no error where it cannot be kept. With --all (host-machine-full.test) broken in every way.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %models
import json
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[2]).parent))
from kerf_tests import Checks, fresh_folder, kerf

OUT, MODEL = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "mlp/model.onnx"
RUN = ["run", MODEL, "--dim=batch=8", "--random-inputs"]
MEASURED = r"note: measured the (\d+) ranks of this host in \d+\.\d s to plan for them, (kept in (\S+\.json)|not kept \(.+\)); --machine=cpu plans for the preset\n"
EVERYTHING = "--all" in sys.argv
checks = Checks()


def run(*flags, **environment):
    """A run that is not told which machine the host is, as outside this suite."""
    own = {k: v for k, v in os.environ.items() if k not in ("KERF_HOST_MACHINE", "XDG_CACHE_HOME", "HOME")}
    result = kerf(*RUN, *flags, env={**own, **{k: str(v) for k, v in environment.items()}})
    result.stderr = re.sub("note: runs on .*\n", "", result.stderr)  # how the model was cut is not the matter here
    return result


def expect_measured(name, result, kept=None):
    found = re.fullmatch(MEASURED, result.stderr)
    checks.expect(name, result.returncode == 0 and found and (found[3] == str(kept) if kept else not found[3]),
                  f"{result.returncode} {result.stderr}, expected {kept}")


def expect_silent(name, result):
    checks.expect(name, result.returncode == 0 and result.stderr == "", f"{result.returncode} {result.stderr}")


# Once for each number of ranks; for one rank there is one plan.
cache = OUT / "cache"
expect_silent("one rank", run("--devices=1", XDG_CACHE_HOME=cache))
checks.expect("nothing is kept for it", not list(cache.glob("kerf/*.json")))
first = run("--devices=2", XDG_CACHE_HOME=cache)
files = sorted(cache.glob("kerf/*.json"))
checks.expect("one file", len(files) == 1, files)
if not files:
    checks.finish()
kept = files[0]
expect_measured("measured", first, kept)
machine = json.loads(kept.read_text())
checks.expect("a machine of two ranks", machine["devices_per_node"] == 2 and machine["name"] == "a calibrated CPU", machine)
bytes_kept = kept.read_bytes()
second = run("--devices=2", XDG_CACHE_HOME=cache)
expect_silent("measured once", second)
checks.expect("the file stays", kept.read_bytes() == bytes_kept)
expect_measured("other ranks are measured", run("--devices=4", "--threads=2", XDG_CACHE_HOME=cache),
                cache / "kerf" / re.sub(r"cpu-\d+x\d+", "cpu-4x2", kept.name))
verbose = run("--devices=2", "-v", XDG_CACHE_HOME=cache)
checks.expect("-v says which file", f"planned for this host as measured: {kept}" in verbose.stderr, verbose.stderr)

# The plan names the machine that it is for.
plan = OUT / "dump/plan.json"


def planned(*flags, **environment):
    result = run("--devices=2", f"--dump-dir={OUT / 'dump'}", *flags, **environment)
    checks.expect(f"{flags} {environment}", result.returncode == 0, result.stderr)
    return json.loads(plan.read_text())["machine"] if plan.exists() else {}


checks.expect("the plan names it", planned(XDG_CACHE_HOME=cache) == machine)

# A file that is not such a machine is made again.
other = json.loads(bytes_kept)
other["devices_per_node"] = 4
for name, text in (*((("empty", b""), ("no JSON", b"\xff\x00")) if EVERYTHING else ()), ("cut off", bytes_kept[:200]),
                   ("another machine", json.dumps(other).encode())):
    kept.write_bytes(text)
    expect_measured(f"measured again: {name}", run("--devices=2", XDG_CACHE_HOME=cache), kept)
    checks.expect(f"mended: {name}", json.loads(kept.read_text())["devices_per_node"] == 2)

# What says which machine the host is keeps it from being measured.
checks.expect("--machine=cpu is the preset", planned("--machine=cpu")["name"] != "a calibrated CPU")
checks.expect("KERF_HOST_MACHINE, a preset", planned(KERF_HOST_MACHINE="cpu")["name"] != "a calibrated CPU")
checks.expect("KERF_HOST_MACHINE, a file", planned(KERF_HOST_MACHINE=kept) == json.loads(kept.read_text()))
wrong = run("--devices=2", KERF_HOST_MACHINE="abacus")
checks.expect("a machine that there is not", wrong.returncode == 2 and wrong.stderr.startswith("error: KERF_HOST_MACHINE: "), wrong.stderr)

# Where nothing can be kept, the run goes on.
(OUT / "file").write_text("in the way")
expect_measured("a file in the way", run("--devices=2", XDG_CACHE_HOME=OUT / "file"))
if EVERYTHING:
    expect_measured("no home", run("--devices=2"))
    (OUT / "blocked/kerf" / kept.name).mkdir(parents=True)
    expect_measured("a folder in the way", run("--devices=2", XDG_CACHE_HOME=OUT / "blocked"))
expect_measured("HOME/.cache", run("--devices=2", HOME=OUT / "home"), OUT / "home/.cache/kerf" / kept.name)
quiet = run("--devices=2", "-q", XDG_CACHE_HOME=OUT / "quiet")
expect_silent("-q", quiet)

# Many more ranks than cores are planned for the preset.
most = max(16, 4 * len(os.sched_getaffinity(0)))
many = run(f"--devices={2 * most}", "--mesh=dp=8", "--threads=1", XDG_CACHE_HOME=OUT / "many")
checks.expect("too many to measure", many.returncode == 0 and not list((OUT / "many").glob("kerf/*.json")) and many.stderr.startswith(
    f"note: {2 * most} ranks are planned for the preset cpu: a host of "), many.stderr)
checks.expect("-q of it", run(f"--devices={2 * most}", "--mesh=dp=8", "--threads=1", "-q", XDG_CACHE_HOME=OUT / "many").stderr == "")

# A refused request measures nothing.
bad = run("--devices=2", "--mesh=dp=two", XDG_CACHE_HOME=OUT / "refused")
checks.expect("wrong flags come first", bad.returncode == 2 and not (OUT / "refused").exists(), bad.stderr)
checks.finish()
