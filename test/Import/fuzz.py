# Damaged models never crash the importer: truncations, flipped bits, random
# bytes and spliced pieces of the small models end with an exit code of the
# promise (0, 2 or 3) and, if not 0, an error line. Bounded: a fixed seed and a
# fixed number of cases in one process each (unittests/Fuzz reads thousands in one), within 30 s and 4 GiB (but not under a
# sanitizer, which maps more).
#
# REQUIRES: kerf-import-model
# RUN: %python %s %t %models 60
import os
import pathlib
import random
import resource
import shutil
import subprocess
import sys

out, models = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
count = int(sys.argv[3])
shutil.rmtree(out, ignore_errors=True)
out.mkdir(parents=True)
rng = random.Random(20240607)
seeds = [(models / name / "model.onnx").read_bytes() for name in ("mlp", "bert-small", "convnet")]


def structure_end(data):
    """Where the nodes end and the weights begin, roughly: most damage goes there."""
    return min(len(data), 40000)


def damage(data):
    kind = rng.randrange(5)
    data = bytearray(data)
    if kind == 0:
        return bytes(data[:rng.randrange(len(data))])
    if kind == 1:
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(structure_end(data))] ^= 1 << rng.randrange(8)
    elif kind == 2:
        for _ in range(rng.randrange(1, 20)):
            data[rng.randrange(structure_end(data))] = rng.choice([0, 1, 0x7f, 0x80, 0xff])
    elif kind == 3:
        other = rng.choice(seeds)
        at, size = rng.randrange(structure_end(data)), rng.randrange(1, 200)
        start = rng.randrange(len(other))
        data[at:at + size] = other[start:start + rng.randrange(1, 200)]
    else:
        at = rng.randrange(structure_end(data))
        del data[at:at + rng.randrange(1, 64)]
    return bytes(data)


def limit():
    if not any(name.endswith("SAN_OPTIONS") for name in os.environ):
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


failed, codes = [], {}
for index in range(count):
    path = out / f"{index}.onnx"
    path.write_bytes(damage(rng.choice(seeds)))
    try:
        run = subprocess.run(["kerf-import-model", path, "--dim", "batch=2", "--quiet"], capture_output=True,
                             timeout=30, preexec_fn=limit)
        code, text = run.returncode, run.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        code, text = "timeout", ""
    codes[code] = codes.get(code, 0) + 1
    if code not in (0, 2, 3) or (code != 0 and not text.startswith("error: ")):
        failed.append(index)
        print(f"case {index}: {code}\n{text[-600:]}")
    else:
        path.unlink()
print(f"{count} cases, exit codes {codes}, failed {failed}")
sys.exit(bool(failed))
