"""What thread ranks really send with convolutions cut by data and fully connected layers by tensor.

    counted-hybrids.py TRAINING FOLDER

The three layouts that test/Plan/closed-forms.py plans for AlexNet and VGG-16, on AlexNet in small: what the busiest
rank counted are the same formulas. And they train: PyTorch's losses, which a layout does not change.

REQUIRES: kerf
RUN: rm -rf %t && mkdir %t && %python %s %inputs/training %t
"""
import json
import pathlib
import subprocess
import sys

TRAINING, FOLDER = map(pathlib.Path, sys.argv[1:3])
# Convolutions of 8 and 16 channels, 144 -> 64 -> 64 -> 8, a batch of 16.
CONVOLUTIONS, FIRST, HIDDEN, CLASSES, BATCH, STEPS = 2 * 8 * 9 + 8 + 8 * 16 * 9 + 16, 144, 64, 8, 16, 30
MODEL = TRAINING / "alexnet"
CURVES = json.loads((MODEL / "curves.json").read_text())
failed = False


def pins(layout):
    batch, whole, columns, partial = "[{q},{},{},{}]", "[{},{}]", "[{},{q}]", "[{},{},partial sum {q}]"
    table = {"image": batch, "node_conv2d(_1)?(#2)?": batch, "node_conv2d_1#4": batch, "node_conv2d#3": batch,
             "node_relu(_1)?(#3)?": batch, "node_max_pool2d.*": batch, "node_view": "[{q},{}]", "node_view#2": batch,
             "conv[12].weight(#3)?": "[{},{},{},{}]", "conv[12].bias(#3)?": "[{}]", "node_relu_(2|3)(#3)?": columns,
             "node_linear(_1)?#2": columns, "node_linear(_1)?#3": "[{q}]",
             "node_linear_2#2": columns if layout == "column" else whole,
             "loss#(2|3|4|6|7|8|11|32|33|34|36|37|38|39)": whole}
    for layer in ("", "_1", "_2"):
        is_row = layout == "row" or layout == "mixed" and layer
        table[f"node_linear{layer}"] = partial if is_row else columns
        table[f"node_linear{layer}#4"] = columns if is_row else partial
        table[f"node_linear{layer}#5"] = "[{},{q}]" if is_row else "[{q},{}]"
    return [f"--shard={name}={sharding}" for name, sharding in table.items()]


def formula(layout, n):
    """8fC for the gradients of the convolutions; activations of float32 gathered, reduced, or exchanged."""
    def share(elements):
        return (n - 1) * 4 * BATCH * elements // n
    activation = {"column": 2 * share(FIRST) + 4 * share(HIDDEN) + share(CLASSES),
                  "mixed": 2 * share(FIRST) + 2 * share(HIDDEN) + 2 * share(CLASSES),
                  "row": 2 * share(FIRST) // n + 4 * share(HIDDEN) + 2 * share(CLASSES)}[layout]
    return {"gradient": 8 * (n - 1) * CONVOLUTIONS // n, "activation": activation}


def train(name, n, options):
    log, stats = FOLDER / f"{name}-{n}.jsonl", FOLDER / f"{name}-{n}.json"
    command = ["kerf", "train", str(MODEL / "model.onnx"), f"--batch-size={BATCH}", "--loss=cross_entropy(logits,labels)",
               f"--optimizer=sgd,lr={CURVES['rate']}", f"--data={MODEL / 'data.npz'}", "--shuffle=off", f"--steps={STEPS}",
               "--objective=volume", f"--devices=cpu:{n}", f"--mesh=q={n}", "--threads=1", f"--log={log}",
               f"--stats={stats}", "--no-output", *options]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{name}: {' '.join(command)}\n{process.stderr}")
    return json.loads(stats.read_text())["communication"], [json.loads(line)["loss"] for line in log.read_text().splitlines()]


for layout in ("column", "mixed", "row"):
    for n in (2, 4, 8):
        communication, losses = train(layout, n, pins(layout))
        # What the loss sums over samples is apart from the formulas.
        found = {key: value for key, value in communication["by_purpose"].items() if key != "statistics"}
        expected = formula(layout, n)
        far = max(abs(a - b) / b for a, b in zip(losses, CURVES["micro_batches"]["1"]["sgd"]["losses"]))
        fine = (found == expected and communication["bytes_per_rank"] == communication["planned_bytes_per_rank"]
                and len(losses) == STEPS and far < 1e-4)
        failed |= not fine
        print(f"{'ok' if fine else 'WRONG':6}fully connected {layout}, N = {n}: counted {found}, expected {expected}; "
              f"losses within {far:.1e} of PyTorch's", flush=True)
        if not fine:
            for each in communication["collectives"]:
                print("     ", each["op"], each["node"], each["purpose"], each["phase"], each["bytes_per_rank"], each["count"])
sys.exit(failed)
