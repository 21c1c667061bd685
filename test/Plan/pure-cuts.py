"""The article's three cuts of four whole models, as integers, in both cost models, with and without --train.

    pure-cuts.py GRAPHS [--all]

Layers are listed here from the papers, not read from the graphs. P parameters, out_i elements that layer i gives for
the whole batch, h_i elements that stage i hands on; 4 bytes each:

             article                 ring
    data     4P N(N-1)               2(N-1) 4P
    tensor   sum 4 ceil(out_i/N) N(N-1)   2(N-1) sum 4 out_i
    pipeline sum 4 h_i               twice that: activations and their gradients

And what is executed stays the ring's, whatever the objective counts in. With --all every model and N.

REQUIRES: kerf
RUN: %python %s %inputs/graphs
"""
import json
import subprocess
import sys

COUNTS = (2, 4, 8, 64)
LOSS = ["--train", "--loss=cross_entropy(logits,labels)"]
FROZEN = ["--batch-norm=frozen", "--frozen=.*running_(mean|var)"]


def gpt2(batch):
    return [batch * 1024 * out for out in 12 * [2304, 768, 3072, 768] + [50257]]


def vgg16(batch):
    out = [64 * 224**2] * 2 + [128 * 112**2] * 2 + [256 * 56**2] * 3 + [512 * 28**2] * 3 + [512 * 14**2] * 3
    return [batch * each for each in out + [4096, 4096, 1000]]


def alexnet(batch):
    return [batch * each for each in (64 * 55**2, 192 * 27**2, 384 * 13**2, 256 * 13**2, 256 * 13**2, 4096, 4096, 1000)]


def resnet50(batch):
    out, before = [64 * 112**2], 56
    for width, size, blocks in ((64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3)):
        for block in range(blocks):
            # The stride is in the second convolution; the first block has a shortcut.
            out += [width * (before if block == 0 else size)**2, width * size**2, 4 * width * size**2]
            out += [4 * width * size**2] if block == 0 else []
        before = size
    return [batch * each for each in out + [1000]]


# Batch, P, layers, and what the stages of a pipeline hand on, for each N.
MODELS = {
    "gpt2-124m": (8, 124_439_808, gpt2, {n: (n - 1) * 8 * 1024 * 768 for n in (2, 4, 8)}),
    "vgg16": (256, 138_357_544, vgg16, {}),
    "alexnet": (256, 61_100_840, alexnet, {}),
    "resnet50": (256, 25_557_032, resnet50, {}),
}
# Without --train nothing says that no step would change running statistics.
STATISTICS = 53_120


def plan(graphs, model, batch, n, *options):
    command = ["kerf", "plan", f"{graphs}/{model}/model.onnx", "--dim", f"batch={batch}", f"--devices={n}", f"--mesh=dp={n}",
               f"--machine=h100-8{f'x{n // 8}' if n > 8 else ''}", "--objective=volume", "--memory-limit=100TiB", "--json", *options]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{' '.join(command)}\n{process.stderr}")
    return json.loads(process.stdout)


class Checks:
    failed = 0

    def expect(self, what, found, expected):
        self.failed += found != expected
        print(f"{'ok' if found == expected else 'WRONG':6}{what}: {found}" + ("" if found == expected else f", expected {expected}"), flush=True)


def check(checks, graphs, model, n, train):
    batch, parameters, layers, handed = MODELS[model]
    batch = max(batch, n)  # a sample for each rank
    options = [*(LOSS if train else []), *(FROZEN if train and model == "resnet50" else []), "--cost-model=article"]
    document = plan(graphs, model, batch, n, *options)
    cuts = document["pure_cuts"]
    if not train and model == "resnet50":
        parameters += STATISTICS
    out = layers(batch)
    name = f"{model}, N = {n}{', training' if train else ''}"
    checks.expect(f"{name}, data", cuts["data"],
                  {"article_bytes": 4 * parameters * n * (n - 1), "ring_bytes": 8 * parameters * (n - 1)})
    checks.expect(f"{name}, tensor", cuts["tensor"],
                  {"article_bytes": sum(-(-each // n) for each in out) * 4 * n * (n - 1), "ring_bytes": 8 * sum(out) * (n - 1)})
    pipeline = cuts["pipeline"]
    if n in handed:
        checks.expect(f"{name}, pipeline", pipeline, {"article_bytes": 4 * handed[n], "ring_bytes": 8 * handed[n]})
    checks.expect(f"{name}, pipeline there and back", pipeline["ring_bytes"], 2 * pipeline["article_bytes"])
    # Data parallel is what was asked for: the objective counts direct exchange, the ranks send as rings do.
    if train:
        checks.expect(f"{name}, objective", document["objective"]["cost_model"], "article")
        gradient = document["communication"]["by_purpose"]["gradient"]
        merged = 3840 if model == "resnet50" else 0
        checks.expect(f"{name}, executed", gradient, 8 * (parameters - merged) * (n - 1) // n)
        rest = document["communication"]["bytes_per_rank"] - gradient
        counted = document["objective"]["cost"] - 4 * (parameters - merged) * (n - 1)
        # The busiest rank's part of a scalar is a whole byte: 2 (N-1)/N 4, rounded up.
        checks.expect(f"{name}, the rest is 2/N of what the article counts", rest, -(-counted * 2 // n))
    return pipeline


def main():
    graphs, everything, checks = sys.argv[1], "--all" in sys.argv, Checks()
    for model in MODELS:
        for n in COUNTS:
            if not everything and n != 8:
                continue
            without = check(checks, graphs, model, n, False)
            # The loss is no layer, and the backward pass no stage.
            checks.expect(f"{model}, N = {n}, pipeline with and without --train", check(checks, graphs, model, n, True), without)
    # The article's example: which cut is the cheapest depends on who counts.
    for options in ([], LOSS) if everything else (LOSS,):
        cuts = plan(graphs, "gpt2-124m", 512, 8, *options)["pure_cuts"]
        for counted, cheapest in (("article_bytes", "pipeline"), ("ring_bytes", "data")):
            checks.expect(f"GPT-2, 524,288 tokens, {counted}{', training' if options else ''}", min(cuts, key=lambda cut: cuts[cut][counted]), cheapest)
    sys.exit(checks.failed)


main()
