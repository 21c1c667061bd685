# Ranks as processes, under mpirun, by kerf-run --processes, and by hand with
# torchrun's and Slurm's variables: the conformance suite of communication, the
# same results and statistics as threads, and every fault of cases 19 to 21: a
# killed and a stopped rank, ranks that never come, that disagree, or are too
# many. The program is C: the runtime is tested without the compiler. Without
# --all (processes-full.test) every launcher and every fault, but not every fault
# under every launcher.
#
# REQUIRES: kerf-run
# RUN: %python %s %t %inputs %build
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[2])
import numpy as np

from c_package import CPackages
from kerf_processes import HAS_MPIRUN, LAUNCHERS, MPI_ENVIRONMENT, MPIRUN, Job, by_hand, by_slurm, mpirun, own_launcher
from kerf_tests import Checks, fresh_folder, in_parallel, kerf

OUT = fresh_folder(sys.argv[1])
BUILD = pathlib.Path(sys.argv[3])
RANKS = 4
EVERYTHING = "--all" in sys.argv
checks = Checks()

# The conformance suite: each process plays its own rank.
suite = BUILD / "unittests/KerfProcessSuite"
if suite.exists():
    for ranks in (2, 4, 8):
        for name, launch in (("mpirun", mpirun), ("by hand", by_hand)):
            if name == "mpirun" and not HAS_MPIRUN:
                continue
            # Otherwise 4 ranks by hand, and 2 by mpirun where it is there.
            if not EVERYTHING and (ranks == 8 or HAS_MPIRUN and (ranks == 4) != (name == "by hand")):
                continue
            result, codes = launch(ranks, suite, "--gtest_brief=1").wait()
            passed = re.findall(r"PASSED\s*\]\D*(\d+) tests", result.stdout)
            checks.expect(f"conformance of {ranks} processes {name}", not any(codes) and passed and int(passed[0]) >= 7,
                          result.stdout[-2000:] + result.stderr[-2000:])
else:
    print(f"SKIPPED conformance of processes: {suite} is not built", flush=True)

# y = the sum over two ranks of 2 x, on a mesh of dp=2, tp=2; y is sharded over dp.
PROGRAM = """
#include <kerf/rt/program.h>
int32_t step(const kerf_program_api *api, kerf_program_context *ctx, void *const *params,
             void *const *ios, void *scratch) {
  float *x = ios[0], *t = scratch;
  for (int i = 0; i < 4; ++i) t[i] = 2 * x[i];
  int32_t s = api->collective(ctx, 0, t, ios[1]);
  if (!s) s = api->collective(ctx, 1, ios[1], ios[1]);
  return s;
}
"""
BUFFERS = {"dtype": "f32", "axes": [{"axis": "tp"}], "src_shape": [4], "dst_shape": [4]}
ALL_REDUCE = dict(BUFFERS, kind="all_reduce", reduction="sum", group_bytes=32, node="/fc1/Gemm")
MANIFEST = {
    "mesh": {"axes": [{"name": "dp", "size": 2}, {"name": "tp", "size": 2}]},
    "inputs": [{"name": "x", "dtype": "f32", "global_shape": [16], "sharding": [[{"axis": "dp"}, {"axis": "tp"}]]}],
    "outputs": [{"name": "y", "dtype": "f32", "global_shape": [8], "sharding": [[{"axis": "dp"}]]}],
    "kernels": [],
    "collectives": [ALL_REDUCE, dict(BUFFERS, kind="broadcast", root=0, group_bytes=16, node="/fc2/Gemm")],
    "functions": [{"symbol": "step", "scratch_bytes": 16, "num_arguments": 1,
                   "ios": [{"dtype": "f32", "shape": [4]}, {"dtype": "f32", "shape": [4]}]}],
}
package = CPackages(OUT, PROGRAM, MANIFEST)


good = package("good.kerf")
np.save(OUT / "x.npy", np.arange(16, dtype=np.float32))
COMMAND = ["kerf-run", good, "--skip-hashes", "--threads=1", f"--input=x=@{OUT / 'x.npy'}"]


def without_times(path):
    stats = json.loads(path.read_text())
    communication = stats["communication"]
    for collective in communication["collectives"]:
        del collective["seconds"]
    return communication, stats["memory"], [rank["stage"] for rank in stats["ranks"]]


# The same results, statistics and trace as threads; rank 0 alone prints.
kerf(*COMMAND[1:], f"--output-dir={OUT / 'threads'}", f"--stats={OUT / 'threads.json'}", "--repeat=3", tool="kerf-run")
expected = np.load(OUT / "threads/y.npy")
checks.expect("threads", expected.tolist() == [8, 12, 16, 20, 40, 44, 48, 52], str(expected))
for name, launch in {**LAUNCHERS, "slurm": by_slurm}.items():
    out = OUT / name.replace(" ", "-")
    result, codes = launch(RANKS, *COMMAND, f"--output-dir={out}", f"--stats={out}.json", f"--trace={out}.trace",
                           "--repeat=3").wait()
    shown = result.stdout.splitlines()
    fine = (not any(codes) and len(shown) == 2 and shown[0] == "y: f32 8, min 8, max 52, mean 30"
            and shown[1].startswith("3 steps: median ") and result.stderr == "")
    checks.expect(f"runs: {name}", fine, result.stdout + result.stderr)
    if fine:
        checks.expect(f"output: {name}", np.load(out / "y.npy").tolist() == expected.tolist())
        checks.expect(f"statistics: {name}", without_times(pathlib.Path(f"{out}.json")) ==
                      without_times(OUT / "threads.json"))
        trace = json.loads(pathlib.Path(f"{out}.trace").read_text())["traceEvents"]
        checks.expect(f"trace: {name}", {event["tid"] for event in trace if event["name"] == "step"} == {0, 1, 2, 3})

T = 2
ENDS = 30  # seconds behind the time limit in which all have ended: many, as the machine may do other work
STARTED = 0.3  # seconds of a processor: a rank that has used more is in the midst of its steps, starting takes 0.05
OPERATION = r"(all_reduce<sum> f32 4 at /fc1/Gemm|broadcast f32 4 at /fc2/Gemm)"


def error_of(result):
    """mpirun says things of its own; ours begin with `error: `."""
    return "\n".join(line for line in result.stderr.splitlines() if line.startswith(("error: ", "note: ")))


def when_started(judge):
    """judge(T): a problem, the job's stderr. The time limit holds for the start as well; where ranks did not meet in
    it, on a machine that does much beside, nothing was judged: again with more time."""
    for limit in (T, 4 * T, 16 * T):
        problem, stderr = judge(limit)
        if not re.search(r"MPI did not start|did not join the|did not open the rendezvous", stderr):
            break
    return problem, stderr


def strike(name, launch, number, patterns, T):
    """Kills or stops rank 2 in the midst of many steps: what is wrong with how the job ends, and its stderr."""
    patterns = [pattern.replace("LIMIT", str(T)) for pattern in patterns]
    job = launch(RANKS, *COMMAND, f"--timeout={T}", "--repeat=100000000", f"--output-dir={OUT / 'never'}")
    victim = job.computing(2, "kerf-run", STARTED)
    if victim is None:
        result, codes = job.wait(1)
        return [f"the rank was not found: exit {codes}"], result.stderr
    os.kill(victim, number)
    begin = time.monotonic()
    others = job.processes if len(job.processes) == 1 else job.processes[:2] + job.processes[3:]
    try:
        for process in others:
            process.wait(T + ENDS + 20)
    except subprocess.TimeoutExpired:
        pass
    took = time.monotonic() - begin
    if number == signal.SIGSTOP and len(job.processes) > 1:
        os.kill(victim, signal.SIGKILL) # nobody else ends it
    result, codes = job.wait(10)
    text = error_of(result)
    # mpirun gives the exit code of the process that was killed: 128 + 9.
    codes = [code for i, code in enumerate(codes) if len(codes) == 1 or i != 2]
    code = 137 if name == "mpirun" and number == signal.SIGKILL else 5
    problems = [f"/{p}/ is missing" for p in patterns if not re.search(p, text)]
    if set(codes) != {code}:
        problems.append(f"exit {codes}, expected {code}")
    if took > T + ENDS:
        problems.append(f"took {took:.1f} s")
    if "collectives begun" not in text:
        problems.append("the table of collectives is missing")
    if (OUT / "never").exists():
        problems.append("outputs were written")
    return problems, result.stderr


def injected(name, launch, fault, at, pattern):
    """A rank that hangs inside, or one that leaves out a collective: ranks disagree."""
    def judge(limit):
        begin = time.monotonic()
        result, codes = launch(RANKS, *COMMAND, f"--timeout={limit}", "--repeat=2",
                               f"--inject=rank=1,collective={at},fault={fault}").wait()
        took = time.monotonic() - begin
        fine = (re.search(pattern.replace("LIMIT", str(limit)), error_of(result)) and result.returncode == 5 and
                took < limit + ENDS)
        return "" if fine else f"exit {codes} after {took:.1f} s\n{result.stderr}", result.stderr
    problem, _ = when_started(judge)
    checks.expect(f"{name}: {fault}", not problem, problem)


def absent(missing):
    """Ranks that never come are named, by those that did."""
    begin = time.monotonic()
    result, codes = by_hand(RANKS, *COMMAND, f"--timeout={T}", only=[r for r in range(RANKS) if r != missing]).wait()
    pattern = "rank 3 did not join the 4 ranks of the job within 2 s" if missing else \
        "rank 0 did not open the rendezvous within 2 s"
    checks.expect(f"rank {missing} never comes", set(codes) == {5} and re.search(pattern, result.stderr) and
                  time.monotonic() - begin < T + ENDS, f"exit {codes}\n{result.stderr}")


def strikes():
    """One after the other: the ranks compute until they are struck, and the end is timed."""
    for turn, (name, launch) in enumerate(LAUNCHERS.items()):
        for number, patterns in (
                (signal.SIGKILL, [rf"(rank 2 ended before it (arrived at|finished) {OPERATION}|rank 2 has ended)"]),
                (signal.SIGSTOP, [rf"(rank 2 did not (arrive at|finish) {OPERATION}.* within LIMIT s|"
                                  r"rank 2 did not (end its step|take rank 0's word) within LIMIT s)"])):
            # A launcher ends with a rank that was killed in its own way; how ranks find one that is stopped is theirs.
            if not EVERYTHING and number == signal.SIGSTOP and turn:
                continue
            problems, stderr = when_started(lambda limit: strike(name, launch, number, patterns, limit))
            checks.expect(f"{name}: {signal.Signals(number).name}", not problems, "\n".join([*problems, stderr]))


# Beside the strikes what waits until T is over.
in_parallel([(strikes,), *((absent, missing) for missing in (3, 0)), *(
    (injected, name, launch, *fault) for turn, (name, launch) in enumerate(LAUNCHERS.items()) for number, fault in enumerate((
        ("hang", 1, rf"rank 1 did not arrive at {OPERATION} \(#1\) within LIMIT s"),
        ("skip", 0, r"ranks disagree on collective 0 of their group: rank 0 runs all_reduce<sum> .*, "
                    r"rank 1 runs broadcast"))) if EVERYTHING or turn % 2 == number)])

# Two ranks for a package of four; another package on one rank.
for name, launch in (("by hand", by_hand), *([("mpirun", mpirun)] if HAS_MPIRUN else [])):
    result, codes = launch(2, *COMMAND).wait()
    checks.expect(f"wrong size: {name}", result.returncode == 2 and
                  error_of(result) == f"error: {good}: has 4 ranks, the job has 2 processes", f"{codes} {result.stderr}")
other = package("other.kerf", name="other")
script = OUT / "mixed.sh"
script.write_text(f'p={good}; [ "$RANK" = 2 ] && p={other}; exec kerf-run $p "$@"\n')
result, codes = by_hand(RANKS, "bash", script, *COMMAND[2:], f"--timeout={16 * T}").wait()
checks.expect("different packages", set(codes) == {5} and
              "ranks 0 and 2 run different packages: their manifest.json differ" in result.stderr, result.stderr)

# Wrong variables, a launcher within a launcher, and no Open MPI under mpirun.
for name, environment, flags, code, pattern in (
        ("bad rank", {"RANK": "7", "WORLD_SIZE": "4"}, [], 2, "RANK is 7, expected less than the 4 of WORLD_SIZE"),
        ("no master", {"RANK": "1", "WORLD_SIZE": "4"}, [], 2, "MASTER_ADDR is not set"),
        ("processes within a job", {"RANK": "0", "WORLD_SIZE": "4"}, ["--processes"], 2, "--processes: this process is"),
        ("MPI missing", {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "KERF_MPI": "/nonexistent.so"}, [],
         5, r"Open MPI cannot be opened: /nonexistent\.so.*libopenmpi3"),
        ("no MPI", {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "KERF_MPI": "libm.so.6"}, [],
         5, "libm.so.6 has no ompi_mpi_comm_world: it is not Open MPI"),
        ("a single process", {"RANK": "0", "WORLD_SIZE": "1"}, [], 0, "")):
    result = kerf(*COMMAND[1:], *flags, tool="kerf-run", env={**os.environ, **environment})
    checks.expect(name, result.returncode == code and re.search(pattern, result.stderr), result.stderr)

# A user's error is said once, with its exit code, by all.
for name, launch in LAUNCHERS.items():
    result, codes = launch(RANKS, *COMMAND[:-1], "--input=z=1").wait()
    checks.expect(f"unknown input: {name}", set(codes) == {2} and result.stderr.count("error: ") == 1 and
                  'no input "z"' in result.stderr, f"{codes} {result.stderr}")

# Two network namespaces stand in for two hosts: they reach each other through one pair of interfaces, and share no
# loopback. The commands are those of docs/MultiNode.md.


def namespaces():
    names = [f"kerf{os.getpid()}{side}" for side in "ab"]
    commands = [["ip", "netns", "add", name] for name in names]
    commands += [["ip", "link", "add", "ka", "netns", names[0], "type", "veth", "peer", "name", "kb", "netns", names[1]]]
    for name, device, address in ((names[0], "ka", "10.77.0.1/24"), (names[1], "kb", "10.77.0.2/24")):
        commands += [["ip", "-n", name, "addr", "add", address, "dev", device],
                     ["ip", "-n", name, "link", "set", device, "up"], ["ip", "-n", name, "link", "set", "lo", "up"]]
    for command in commands:
        try:
            made = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            return names, f"{command[0]}: {error}"
        if made.returncode:
            return names, f"{' '.join(command)}: {made.stderr.strip()}"
    return names, None


names, reason = namespaces()
try:
    if reason:
        print(f"SKIPPED two hosts: network namespaces cannot be made here: {reason}", flush=True)
    else:
        def two_hosts(*command):
            return Job([["ip", "netns", "exec", names[r // 2], *command] for r in range(RANKS)],
                       [{"RANK": str(r), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(r % 2), "LOCAL_WORLD_SIZE": "2",
                         "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500"} for r in range(RANKS)])
        result, codes = two_hosts(*COMMAND, f"--output-dir={OUT / 'hosts'}", f"--stats={OUT / 'hosts.json'}",
                                  "--repeat=3").wait()
        fine = not any(codes)
        checks.expect("two hosts", fine and np.load(OUT / "hosts/y.npy").tolist() == expected.tolist() and
                      without_times(OUT / "hosts.json") == without_times(OUT / "threads.json"), result.stderr)
        # The cable is pulled: no connection closes, and still it ends in time.
        job = two_hosts(*COMMAND, f"--timeout={T}", "--repeat=100000000")
        job.computing(3, "kerf-run", STARTED)
        subprocess.run(["ip", "-n", names[1], "link", "set", "kb", "down"], check=True)
        begin = time.monotonic()
        result, codes = job.wait(T + ENDS + 20)
        took = time.monotonic() - begin
        checks.expect("the network between two hosts fails", set(codes) == {5} and took < T + ENDS and
                      re.search(r"rank \d did not ", result.stderr), f"{codes} after {took:.1f} s\n{result.stderr}")
        if HAS_MPIRUN:
            # mpirun starts the other host's processes with a remote shell: here one that enters the namespace.
            subprocess.run(["ip", "-n", names[1], "link", "set", "kb", "up"], check=True)
            shell = OUT / "remote-shell"
            shell.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {names[1]} sh -c "$*"\n')
            shell.chmod(0o755)
            job = Job([["ip", "netns", "exec", names[0], *MPIRUN, "--mca", "plm_rsh_agent", shell, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include",
                        "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24",
                        "--host", "10.77.0.1:2,10.77.0.2:2", "-n", RANKS, *COMMAND,
                        f"--output-dir={OUT / 'hosts-mpi'}"]], [MPI_ENVIRONMENT])
            result, codes = job.wait(60)
            checks.expect("two hosts under mpirun", not any(codes) and
                          np.load(OUT / "hosts-mpi/y.npy").tolist() == expected.tolist(), result.stderr)
finally:
    for name in names if shutil.which("ip") else ():
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
checks.finish()
