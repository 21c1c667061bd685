# Cores are those that the process may use: threads of a rank, and cores of the preset `cpu`, under an affinity
# mask (docs/CommandLine.md, --threads).
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %models
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[2]).parent))
from kerf_tests import Checks, fresh_folder, kerf

out, model, checks = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "mlp/model.onnx", Checks()
ALL = sorted(os.sched_getaffinity(0))
if len(ALL) < 2:
    print("needs two cores")
    sys.exit(0)


def threads_of(name, *flags, cores):
    stats = out / "run.json"
    result = kerf("run", model, "--dim=batch=8", "--random-inputs", "--stats", stats, *flags,
                  preexec_fn=lambda: os.sched_setaffinity(0, cores))
    checks.expect(name, result.returncode == 0, result.stderr)
    return json.loads(stats.read_text())["threads_per_rank"] if result.returncode == 0 else None


for count in (1, 2):
    found = threads_of(f"a run on {count} cores", cores=ALL[-count:])
    checks.expect(f"{count} threads on {count} cores", found == count, found)
found = threads_of("processes on two cores", "--devices=2", "--mesh=dp=2", "--processes", cores=ALL[-2:])
checks.expect("a thread for each process", found == 1, found)
found = threads_of("more threads by request", "--threads=2", cores=ALL[-1:])
checks.expect("as many as asked for", found == 2, found)
for count in (1, 2):
    plan = out / f"plan-{count}.json"
    made = kerf("plan", model, "--dim=batch=8", "--machine=cpu", "-o", plan,
                preexec_fn=lambda cores=ALL[-count:]: os.sched_setaffinity(0, cores))
    cores = json.loads(plan.read_text())["machine"].get("cores_per_node") if made.returncode == 0 else made.stderr
    checks.expect(f"the preset has {count} cores", cores == count, cores)
checks.finish()
