# A gradient that several build together is bit-equal from run to run: two micro-batches of one
# rank, two ranks of a data-parallel mesh (and its micro-batches), two stages (GPT-2's embedding and
# head are one weight, used by the first stage and by the last), all at once.
#
# After one step of SGD with momentum the optimizer's memory of a weight is its gradient, bit for
# bit: the checkpoint has it. Each layout runs twice, with --all four times.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import pathlib
import struct
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, fresh_folder, kerf, tensors

OUT = fresh_folder(sys.argv[1])
GPT2 = INPUTS / "training/gpt2"
RUNS = 4 if "--all" in sys.argv else 2
checks = Checks()


def gradients(name, flags):
    """The bytes of each gradient of the first step, by the weight's name."""
    folder = OUT / name
    result = kerf("train", GPT2 / "model.onnx", "--batch-size=8", "--loss=cross_entropy(logits,labels)",
                  "--optimizer=sgd,lr=0.1,momentum=0.9", f"--data={GPT2 / 'data.npz'}", "--steps=1", "--threads=1",
                  f"--checkpoint-dir={folder}", *flags)
    checks.expect(f"{name} runs", result.returncode == 0, f"{flags}\n{result.stderr}")
    if result.returncode:
        return {}
    return {key[len("momentum/"):]: value.tobytes()
            for key, value in tensors(folder / "checkpoint-000000001.safetensors").items() if key.startswith("momentum/")}


def numbers(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


one = gradients("one", [])
# Some gradients (of the keys' biases) are rounding errors alone: the scale is that of all.
SCALE = max((abs(x) for data in one.values() for x in numbers(data)), default=0)


def close(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-5 * SCALE for x, y in zip(numbers(a), numbers(b)))


for name, flags in (
        ("micro-batches", ["--accumulate=4"]),
        ("ranks", ["--devices=cpu:2", "--mesh=dp=2"]),
        ("four-ranks", ["--devices=cpu:4", "--mesh=dp=4"]),
        ("ranks-and-micro-batches", ["--devices=cpu:2", "--mesh=dp=2", "--accumulate=2"]),
        ("stages", ["--devices=cpu:2", "--mesh=pp=2", "--micro-batches=2", "--schedule=1f1b"]),
        ("stages-gpipe", ["--devices=cpu:2", "--mesh=pp=2", "--micro-batches=4", "--schedule=gpipe"]),
        ("all", ["--devices=cpu:8", "--mesh=dp=2,tp=2,pp=2", "--micro-batches=2"])):
    first = gradients(f"{name}-0", flags)
    tied = [key for key, value in first.items() if len(value) == 64 * 32 * 4]
    checks.expect(f"{name}: one gradient for embedding and head", len(tied) == 1, str(list(first)))
    checks.expect(f"{name}: the gradients of one rank", first.keys() == one.keys()
                  and all(close(first[key], one[key]) for key in one), str(one.keys()))
    for run in range(1, RUNS):
        again = gradients(f"{name}-{run}", flags)
        checks.expect(f"{name}: the same bits, run {run}", again == first,
                      str([key for key in first if again.get(key) != first[key]]))
checks.finish()
