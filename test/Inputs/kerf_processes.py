"""Starting ranks as processes, in every way that a user can.

A launcher takes a command and gives a Popen; mpirun is left out, with a printed
reason, where it is not installed.
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
HAS_MPIRUN = shutil.which("mpirun") is not None


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
        try:
            codes = [process.wait(timeout) for process in self.processes]
        finally:
            for process in self.processes:
                try:
                    os.killpg(process.pid, 9)
                except ProcessLookupError:
                    pass
        texts = []
        for stream in (0, 1):
            text = ""
            for pair in self.files:
                pair[stream].seek(0)
                text += pair[stream].read()
            texts.append(text)
        # Of several processes: the first that failed.
        return subprocess.CompletedProcess([], next((c for c in codes if c), 0), *texts), codes

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
    return Job([["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks, *command]], [environment])


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
if HAS_MPIRUN:
    LAUNCHERS["mpirun"] = mpirun
else:
    print("SKIPPED ranks under mpirun: mpirun is not installed (Debian: openmpi-bin)", flush=True)
