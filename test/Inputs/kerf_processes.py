"""Starting ranks as processes, in every way that a user can.

A launcher takes a command and gives a Job. mpirun is left out, with a printed
reason, where it is not installed or does not start a program that is not ours.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

CLEAN = {key: value for key, value in os.environ.items()
         if not key.startswith(("OMPI_", "PMIX_", "SLURM_")) and key not in ("RANK", "WORLD_SIZE")}
# mpirun looks at the machine with hwloc, whose plug-in for displays asks the ports of ten X servers, and waits for ever
# where another program has one of them.
MPI_ENVIRONMENT = {"HWLOC_COMPONENTS": "-gl"}
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


def why_no_mpirun():
    """Why ranks cannot be started by mpirun here, "" where they can: tried with a program without Kerf."""
    if shutil.which("mpirun") is None:
        return "mpirun is not installed (Debian: openmpi-bin)"
    program = ("import ctypes; mpi = ctypes.CDLL('libmpi.so.40', mode=ctypes.RTLD_GLOBAL); "
               "mpi.MPI_Init_thread(None, None, 2, ctypes.byref(ctypes.c_int())); mpi.MPI_Finalize()")
    job = Job([[*MPIRUN, "-n", 2, sys.executable, "-c", program]], [MPI_ENVIRONMENT])
    result, _ = job.wait(60)
    return "" if result.returncode == 0 else f"Open MPI does not start two processes: {result.stderr.strip()[-1000:]}"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """Running processes: `ranks` are the Popens or ids by rank, `wait` gives code, stdout, stderr of all."""

    def __init__(self, commands, environments):
        self.files = [(tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")) for _ in commands]
        self.processes = [
            subprocess.Popen([str(part) for part in command], env={**CLEAN, **environment}, stdout=out, stderr=err,
                             stdin=subprocess.DEVNULL, start_new_session=True)
            for command, environment, (out, err) in zip(commands, environments, self.files)]

    def wait(self, timeout=120):
        """The result of all, and the exit code of each; what still runs after the timeout is ended with 9, and stderr
        says what it was."""
        deadline, late = time.monotonic() + timeout, ""
        try:
            for process in self.processes:
                try:
                    process.wait(max(0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    late = late or f"still ran after {timeout} s:\n{self.state()}"
        finally:
            for process in self.processes:
                try:
                    os.killpg(process.pid, 9)
                except ProcessLookupError:
                    pass
        codes = [process.wait() for process in self.processes]
        texts = []
        for stream in (0, 1):
            text = ""
            for pair in self.files:
                pair[stream].seek(0)
                text += pair[stream].read()
            texts.append(text)
        texts[1] += late
        # Of several processes: the first that failed.
        return subprocess.CompletedProcess([], next((c for c in codes if c), 0), *texts), codes

    def state(self):
        """A line for each thread of the processes and of their descendants: where it is in the kernel."""
        lines, known = [], {process.pid for process in self.processes}
        for path in sorted(pathlib.Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
            try:
                command, parent = (path / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
                if int(path.name) not in known and int(parent.split()[1]) not in known:
                    continue
                known.add(int(path.name))
                for task in sorted((path / "task").iterdir()):
                    state = (task / "stat").read_text().rsplit(")", 1)[1].split()[0]
                    lines.append(f"  {path.name}/{task.name} {command} {state} {(task / 'wchan').read_text()}\n")
            except OSError:  # it has ended meanwhile
                pass
        return "".join(lines)

    def rank_id(self, rank, tool):
        """The process id of a rank; its own, not that of a launcher."""
        if len(self.processes) > 1:
            return self.processes[rank].pid
        ids = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (path / "cmdline").read_bytes().split(b"\0")[0].endswith(tool.encode()) and \
                        int((path / "stat").read_text().rsplit(")", 1)[1].split()[1]) == self.processes[0].pid:
                    ids.append(int(path.name))
            except (OSError, IndexError):
                pass
        return sorted(ids)[rank] if len(ids) > rank else None

    def computing(self, rank, tool, seconds, timeout=60):
        """Waits until a rank has used so many seconds of a processor; its process id, None if it does not get there."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and all(process.poll() is None for process in self.processes):
            found = self.rank_id(rank, tool)
            try:
                fields = pathlib.Path(f"/proc/{found}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                fields = None
            if fields and int(fields[11]) + int(fields[12]) >= seconds * os.sysconf("SC_CLK_TCK"):
                return found
            time.sleep(0.05)
        return None


def mpirun(ranks, *command, environment={}):
    # A test may run as root, on fewer cores than ranks.
    return Job([[*MPIRUN, "-n", ranks, *command]], [{**MPI_ENVIRONMENT, **environment}])


def own_launcher(ranks, *command, environment={}):
    return Job([[*command, "--processes"]], [environment])


def by_hand(ranks, *command, environment={}, only=None):
    """One command per rank with torchrun's variables."""
    port = free_port()
    chosen = range(ranks) if only is None else only
    return Job([command] * len(chosen),
               [{"RANK": str(r), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(r), "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(port), **environment} for r in chosen])


def by_slurm(ranks, *command, environment={}):
    """As srun starts them; Slurm itself is not needed."""
    port = str(free_port())
    return Job([command] * ranks,
               [{"SLURM_PROCID": str(r), "SLURM_NTASKS": str(ranks), "SLURM_LOCALID": str(r), "SLURM_JOB_ID": "17",
                 "SLURM_JOB_NODELIST": "localhost", "MASTER_PORT": port, **environment} for r in range(ranks)])


LAUNCHERS = {"processes": own_launcher, "by hand": by_hand}
REASON = why_no_mpirun()
HAS_MPIRUN = not REASON
if HAS_MPIRUN:
    LAUNCHERS["mpirun"] = mpirun
else:
    print(f"SKIPPED ranks under mpirun: {REASON}", flush=True)
