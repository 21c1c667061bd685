"""What full-size models must send in a step of training, to the byte.

    closed-forms.py GRAPHS [--all]

The layouts are fixed by --mesh and --shard, the bytes are those of the busiest
rank, by purpose; P is the number of parameters, f = (N - 1) / N. With --all every
N, without it one N for each row.

REQUIRES: kerf
RUN: %python %s %inputs/graphs
"""
import json
import subprocess
import sys
import time

GPT2 = ["gpt2-124m", "cross_entropy(logits,labels)"]
VGG, ALEX, RESNET = (["vgg16", "cross_entropy(logits,labels)"], ["alexnet", "cross_entropy(logits,labels)"],
                     ["resnet50", "cross_entropy(logits,labels)"])
P = {"gpt2-124m": 124_439_808, "vgg16": 138_357_544, "alexnet": 61_100_840, "resnet50": 25_557_032}
COUNTS = (2, 4, 8, 64)


def data(model, batch, extra=()):
    """Each gradient all-reduced once: 2fPb."""
    return [(model, batch, n, [f"--mesh=dp={n}", *extra], {"gradient": 2 * (n - 1) * P[model[0]] * 4 // n})
            for n in COUNTS]


ROWS = {
    "GPT-2 124M, data": data(GPT2, 64),
    "VGG-16, data": data(VGG, 256),
    "AlexNet, data": data(ALEX, 256),
    "ResNet-50, data": data(RESNET, 256, ["--batch-norm=frozen"]),
}


def plan(graphs, model, batch, devices, options):
    command = ["kerf", "plan", f"{graphs}/{model[0]}/model.onnx", "--dim", f"batch={batch}", "--train",
               f"--loss={model[1]}", f"--devices={devices}",
               f"--machine=h100-8{f'x{devices // 8}' if devices > 8 else ''}", "--json", *options]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{' '.join(command)}\n{process.stderr}")
    return json.loads(process.stdout)


def main():
    graphs, everything = sys.argv[1], "--all" in sys.argv
    failed = False
    for name, row in ROWS.items():
        for model, batch, n, options, expected in row if everything else row[2:3]:
            begin = time.monotonic()
            document = plan(graphs, model, batch, n, options)
            found = document["communication"]["by_purpose"]
            found = {purpose: found.get(purpose, 0) for purpose in expected}
            wrong = found != expected
            failed |= wrong
            print(f"{'WRONG' if wrong else 'ok':6}{name}, N = {n}: {found}"
                  f"{f', expected {expected}' if wrong else ''} ({time.monotonic() - begin:.1f} s)", flush=True)
    sys.exit(failed)


main()
