"""What full-size models must send in a step of training, to the byte.

    closed-forms.py GRAPHS [--all]

Bytes of the busiest rank, in float32; P is the number of parameters, f = (N - 1) / N.
Where --mesh and --shard fix the layout they are equal to the formula, by purpose;
where the search is free (one stage, fewest bytes, no hints) the plan costs at
most the best layout that people know, and is proven. With --all every N and model,
without it what takes seconds.

REQUIRES: kerf
RUN: %python %s %inputs/graphs
"""
import json
import subprocess
import sys
import time

# Of ResNet-50: a block's shortcut and its last BatchNorm have the same gradient of the
# bias, which is summed once for both (3,840 channels).
P = {"gpt2-124m": 124_439_808, "vgg16": 138_357_544, "alexnet": 61_100_840, "resnet50": 25_557_032 - 3_840}
COUNTS = (2, 4, 8, 64)
# Running statistics of a frozen BatchNorm are no parameters.
FROZEN = ["--batch-norm=frozen", "--frozen=.*running_(mean|var)"]


def data(model, batch, options=()):
    """Each gradient all-reduced once: 2fPb."""
    return [(model, batch, n, [f"--mesh=dp={n}", *options], {"gradient": 2 * (n - 1) * P[model] * 4 // n})
            for n in COUNTS]


def tensor():
    """Megatron's columns and rows, and the vocabulary in parts: 100 fThb for T = 8192 tokens
    (12 heads over 8 devices would be padded by a third, more than plans may)."""
    def layers(offset):
        return "(" + "|".join(str(4 * i + offset) for i in range(12)) + ")"
    cut, sum_ = "=[{},{},{tp}]", "=[{},{},{},partial sum {tp}]"
    shards = ["node_embedding" + sum_, "node_Split_[0-9]+(#[23])?" + cut, f"node_addmm_{layers(1)}#2" + sum_,
              f"node_addmm_{layers(2)}" + cut, f"node_addmm_{layers(3)}" + sum_, "node_linear" + cut,
              "node_linear#2" + sum_, f"node_addmm_{layers(3)}#4" + cut, f"node_addmm_{layers(2)}#4" + sum_,
              f"node_addmm_{layers(1)}#5" + cut, "node_Split_[0-9]+#(4|8|13)" + sum_]
    return [("gpt2-124m", 8, n, [f"--mesh=tp={n}", *(f"--shard={shard}" for shard in shards)],
             {"activation": 100 * (n - 1) * 8192 * 768 * 4 // n}) for n in (2, 4)]


# Convolutions by data and fully connected layers by rows, entered by an all-to-all.
BEST = {"vgg16": {2: 81_116_416, 4: 112_040_832, 8: 125_094_592},
        "alexnet": {2: 24_009_984, 4: 32_476_032, 8: 35_824_320},
        "resnet50": {2: 96_104_704, 4: 143_370_624, 8: 166_806_976}}


def best(model, options=()):
    return [(model, 256, n, ["--mesh=pp=1", "--objective=volume", *options], most) for n, most in BEST[model].items()]


ROWS = {
    "GPT-2 124M, data": data("gpt2-124m", 64),
    "GPT-2 124M, tensor": tensor(),
    "VGG-16, data": data("vgg16", 256),
    "AlexNet, data": data("alexnet", 256),
    "ResNet-50, data": data("resnet50", 256, FROZEN),
    "VGG-16, free": best("vgg16"),
    "AlexNet, free": best("alexnet"),
    "ResNet-50, free": best("resnet50", FROZEN),
}


def plan(graphs, model, batch, devices, options):
    command = ["kerf", "plan", f"{graphs}/{model}/model.onnx", "--dim", f"batch={batch}", "--train",
               "--loss=cross_entropy(logits,labels)", f"--devices={devices}",
               f"--machine=h100-8{f'x{devices // 8}' if devices > 8 else ''}", "--json", *options]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{' '.join(command)}\n{process.stderr}")
    return json.loads(process.stdout)


def main():
    graphs, everything = sys.argv[1], "--all" in sys.argv
    failed = False
    for name, row in ROWS.items():
        if name == "ResNet-50, free" and not everything:
            continue
        for model, batch, n, options, expected in row if everything else row[-2:-1]:
            begin = time.monotonic()
            document = plan(graphs, model, batch, n, options)
            communication, objective = document["communication"], document["objective"]
            if isinstance(expected, dict):
                # What the loss needs of each token is apart from the formulas.
                found = {purpose: sum(each["bytes_per_rank"] * each["count"] for each in communication["collectives"]
                                      if each["purpose"] == purpose and
                                      (purpose != "activation" or each["buffer_bytes"] >= 1 << 20))
                         for purpose in expected}
                wrong = found != expected
            else:
                found = communication["bytes_per_rank"]
                wrong = found > expected or objective["gap"] > 1e-3
            failed |= wrong
            print(f"{'WRONG' if wrong else 'ok':6}{name}, N = {n}: {found}, expected {expected}, "
                  f"gap {objective['gap']:.2g} ({time.monotonic() - begin:.1f} s)", flush=True)
    sys.exit(failed)


main()
