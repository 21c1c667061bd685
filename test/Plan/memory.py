"""Memory of a plan: predicted, and laid out. test/Execute/memory.py: really touched.

    memory.py GRAPHS TRAINING MODELS [--all]

`kerf plan` lowers what it chose, so `peak` is what the package lays out, and
`predicted` what the search went by. Full-size models: within 5% of each other
in training, 2% in inference; small ones, where a few buffers of packed
gradients weigh much, within 10%. Stages of several chunks: within 15%.

REQUIRES: kerf
RUN: %python %s %inputs/graphs %inputs/training %models
"""
import json
import pathlib
import subprocess
import sys

GRAPHS, TRAINING, MODELS = sys.argv[1:4]
EVERYTHING = "--all" in sys.argv
LOSS = ["--train", "--loss=cross_entropy(logits,labels)"]
ADAMW = [*LOSS, "--optimizer=adamw,lr=0.001"]
CHUNKS = ["--schedule=interleaved"]
failed = False


def say(fine, text):
    global failed
    failed |= not fine
    print(f"{'ok' if fine else 'WRONG':6}{text}", flush=True)


def mesh_flags(mesh):
    degrees = [int(part.split("=")[1]) for part in mesh.split(",") if part]
    count = 1
    for degree in degrees:
        count *= degree
    return ["--memory-limit=1TiB", *([f"--devices={count}", f"--mesh={mesh}"] if mesh else [])]


def compare(model, batch, options, meshes, bar):
    for mesh in meshes:
        command = ["kerf", "plan", f"{model}/model.onnx", "--dim", f"batch={batch}", "--json", *options,
                   *mesh_flags(mesh)]
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            say(False, f"{' '.join(command)}\n{process.stderr}")
            continue
        for number, device in enumerate(json.loads(process.stdout)["memory"]["per_device"]):
            parts = ("parameters", "optimizer", "gradients", "activations", "workspace")
            ratio = device["predicted"]["peak"] / device["peak"]
            say(abs(ratio - 1) <= bar and sum(device[part] for part in parts) == device["peak"],
                f"{pathlib.Path(model).name}, {'training' if options else 'inference'}, mesh {mesh or 1}, stage {number}: "
                f"{device['peak']} bytes, predicted {ratio:.3f} of it")


def main():
    compare(f"{GRAPHS}/gpt2-124m", 4, ADAMW, ["", "dp=2", "tp=2", "pp=2"] if EVERYTHING else ["dp=2", "pp=2"], 0.05)
    compare(f"{GRAPHS}/gpt2-124m", 4, [*ADAMW, "--schedule=1f1b"], ["pp=2,dp=2", "pp=4"] if EVERYTHING else [], 0.05)
    compare(f"{GRAPHS}/gpt2-124m", 4, [], ["", "dp=2", "tp=2", "pp=2"] if EVERYTHING else ["tp=2"], 0.02)
    # Statistics of each device are those of data parallelism.
    compare(f"{GRAPHS}/resnet50", 32, [*LOSS, "--batch-norm=local"], ["", "dp=2"] if EVERYTHING else ["dp=2"], 0.05)
    compare(f"{GRAPHS}/resnet50", 32, LOSS, ["tp=2"] if EVERYTHING else [], 0.05)
    compare(f"{GRAPHS}/resnet50", 4, [], ["", "dp=2", "tp=2"] if EVERYTHING else [""], 0.02)
    compare(f"{GRAPHS}/vgg16", 32, LOSS, ["", "dp=2", "dp=4"] if EVERYTHING else ["dp=4"], 0.05)
    compare(f"{GRAPHS}/vgg16", 4, [], ["", "dp=2", "tp=2"] if EVERYTHING else ["dp=2"], 0.02)
    # GPUs' libraries multiply by no slope of GELU's erf form: it is a kernel behind the product.
    compare(f"{TRAINING}/mlp", 65536, [*ADAMW, "--machine=h100-8"], ["dp=2"], 0.02)
    # In 16 bits: what a stage receives is no end of a call of its own; an addend of one convolution is the end of another.
    narrow = ["--precision=bf16", "--machine=h100-8"]
    alone = [*narrow, "--devices=1"]
    compare(f"{TRAINING}/alexnet", 2048, [*narrow, "--micro-batches=4"], ["pp=4"], 0.02)
    compare(f"{MODELS}/vit-small", 4096, [*narrow, "--micro-batches=4"], ["pp=4"], 0.05)
    compare(f"{MODELS}/resnet-small", 2048, alone, [""], 0.02)
    compare(f"{TRAINING}/llama", 1024, [*alone, *ADAMW], [""], 0.02)
    # GPUs cut long sums by blocks: what they sum up does not wait for the end of the step.
    compare(f"{GRAPHS}/gpt2-124m", 4, [*ADAMW, "--machine=h100-8", "--schedule=1f1b", "--micro-batches=4", "--recompute=all"], ["pp=2"], 0.05)
    # Images that each product transposes for itself; activations that are sent wide and kept rounded.
    compare(f"{TRAINING}/conv-max-pool", 4096, [*LOSS, "--optimizer=sgd,lr=0.001,momentum=0.9"], ["dp=2"], 0.02)
    wide = [*ADAMW, "--precision=bf16", "--schedule=1f1b"]
    compare(f"{TRAINING}/llama", 1024, [*wide, "--micro-batches=4"], ["pp=2"], 0.05)
    compare(f"{TRAINING}/llama", 1024, [*wide, "--micro-batches=8"], ["pp=4"], 0.05)
    compare(f"{TRAINING}/gpt2", 8, ADAMW, ["", "dp=2", "tp=2"], 0.10)
    compare(f"{TRAINING}/gpt2", 8, [*ADAMW, "--schedule=1f1b"], ["pp=2"], 0.10)
    compare(f"{TRAINING}/llama", 8, ADAMW, ["", "dp=2", "tp=2", "pp=2", "pp=2,dp=2"], 0.10)
    # Gradients of one micro-batch are no sums, but kept for the update all the same.
    compare(f"{TRAINING}/llama", 16, [*ADAMW, "--micro-batches=1"], ["pp=2", "pp=2,dp=2"], 0.05)
    compare(f"{TRAINING}/llama", 8, [*ADAMW, "--micro-batches=2"], ["pp=2", "pp=2,dp=2"], 0.10)
    # Stages of several chunks, whose values cross more often, are predicted to hold more than they do.
    compare(f"{TRAINING}/llama", 1024, [*ADAMW, "--precision=bf16", "--micro-batches=4", *CHUNKS], ["pp=4"], 0.15)
    compare(f"{TRAINING}/gpt2", 8, [*ADAMW, *CHUNKS], ["pp=2"], 0.15)
    compare(f"{TRAINING}/gpt2", 512, [*ADAMW, "--micro-batches=4", *CHUNKS], ["pp=2", "pp=2,dp=2"], 0.10)
    compare(f"{GRAPHS}/gpt2-124m", 4, [*ADAMW, *CHUNKS], ["pp=2"], 0.05)
    compare(f"{GRAPHS}/gpt2-124m", 4, [*ADAMW, *CHUNKS], ["pp=2,dp=2", "pp=4"] if EVERYTHING else [], 0.15)
    sys.exit(failed)


main()
