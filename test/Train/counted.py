"""What thread ranks really send in a step, by the formulas of the full-size models.

    counted.py TRAINING FOLDER [--all]

test/Plan/closed-forms.py plans GPT-2 124M, VGG-16, AlexNet and ResNet-50 without
running them; here small models run with the same layouts, and the bytes that the
busiest rank counted are those of the same formulas (f = (N - 1) / N), in float32
and, where the case says so, with two bytes for four. With --all every layout on 2,
4 and 8 ranks, without it each on one or two of these numbers in turn.

REQUIRES: kerf
RUN: rm -rf %t && mkdir %t && %python %s %inputs/training %t
"""
import json
import os
import subprocess
import sys

TRAINING, FOLDER = sys.argv[1:3]
EVERYTHING = "--all" in sys.argv
# GPT-2: 2 layers, h = 32, 64 words, 16 positions; convolutions of 8 and 12 channels, 108 -> 24 -> 5.
H, LAYERS, WORDS, LENGTH, BATCH = 32, 2, 64, 16, 8
GPT2 = WORDS * H + LENGTH * H + LAYERS * (12 * H * H + 13 * H) + 2 * H
CONVOLUTIONS, CHANNELS = 8 * 2 * 9 + 12 * 8 * 9, 8 + 12
FULLY_CONNECTED = 24 * 108 + 24 + 5 * 24 + 5
T = BATCH * LENGTH
failed = False


def megatron(n, narrow=False):
    cut, part = "=[{},{},{tp}]", "=[{},{},{},partial sum {tp}]"
    # 4 heads of 8 columns: as many whole heads on each rank.
    block = -(-4 // n) * (H // 4)
    heads = cut if block * n == H else f"=[{{}},{{}},{{tp}}:{block}]"

    def layers(offset):
        return "(" + "|".join(str(4 * i + offset) for i in range(LAYERS)) + ")"
    shards = ["node_embedding" + part, "node_Split_[0-9]+(#[23])?" + heads, f"node_addmm_{layers(1)}#2" + part,
              f"node_addmm_{layers(2)}" + cut, f"node_addmm_{layers(3)}" + part, "node_linear" + cut,
              "node_linear#2" + part, f"node_addmm_{layers(3)}#4" + cut, f"node_addmm_{layers(2)}#4" + part,
              f"node_addmm_{layers(1)}#5" + heads, "node_Split_[0-9]+#(4|8|13)" + part, "node_embedding#2=[{tp},{}]"]
    if narrow:  # the same values, whose numbers casts have moved
        shards = ["node_embedding" + part, "node_Split_[0-9]+#[369]" + heads, f"node_addmm_{layers(1)}#4" + part,
                  f"node_addmm_{layers(2)}#3" + cut, f"node_addmm_{layers(3)}#3" + part, "node_linear#3" + cut,
                  "node_linear#6" + part, f"node_addmm_{layers(3)}#8" + cut, f"node_addmm_{layers(2)}#8" + part,
                  f"node_addmm_{layers(1)}#9" + heads, "node_Split_[0-9]+#(12|18|25)" + part, "node_embedding#6=[{tp},{}]"]
    return [f"--mesh=tp={n}", *(f"--shard={shard}" for shard in shards)]


def share(n, elements, width=4):
    return -(-(n - 1) * elements * width // n)


DATA = [("GPT-2, data", "gpt2", [], {"gradient": 2 * GPT2}, 4)]
for flags, bytes_each in ((["--precision=bf16"], 2), (["--precision=bf16", "--gradient-dtype=f32"], 4),
                          (["--gradient-dtype=bf16"], 2)):
    DATA.append((f"GPT-2, data {' '.join(flags)}", "gpt2", flags, {"gradient": 2 * GPT2}, bytes_each))
LOCAL = ["--batch-norm=local", "--frozen=norm.*"]
DATA += [("convolutions, data", "conv-batch-norm", LOCAL, {"gradient": 2 * (CONVOLUTIONS + FULLY_CONNECTED)}, 4),
         ("convolutions, data, bfloat16", "conv-batch-norm", [*LOCAL, "--precision=bf16"],
          {"gradient": 2 * (CONVOLUTIONS + FULLY_CONNECTED)}, 2),
         ("convolutions, data, BatchNorm synchronised", "conv-batch-norm", ["--batch-norm=sync"],
          {"gradient+activation": 2 * (CONVOLUTIONS + FULLY_CONNECTED + 2 * CHANNELS), "statistics": 4 * CHANNELS}, 4)]
CASES = []
for turn, (case, model, flags, sent, bytes_each) in enumerate(DATA):
    for n in (2, 4, 8) if EVERYTHING else ((2, 4, 8)[turn % 3],):
        CASES.append((case, model, n, [f"--mesh=dp={n}", *flags],
                      {purposes: share(n, elements, bytes_each) for purposes, elements in sent.items()}))
# ZeRO over dp: gradients are reduce-scattered once per step (1) or micro-batch (2, 3); parameters are gathered once per step,
# or (3) twice per micro-batch, but for those that a backward pass does not read: biases and the table of positions.
READ_BACK = WORDS * H + LAYERS * (12 * H * H + 2 * H) + H
for n in (2, 4, 8) if EVERYTHING else (2, 4):
    for kind, micro in ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)) if EVERYTHING or n == 4 else ((2, 4), (3, 1)):
        CASES.append((f"GPT-2, ZeRO {kind}, {micro} micro-batches", "gpt2", n,
                      [f"--mesh=dp={n}", f"--zero={kind}", f"--micro-batches={micro}", "--optimizer=sgd,lr=0.1,momentum=0.9"],
                      {"gradient": share(n, (1 if kind == 1 else micro) * GPT2),
                       "parameter": share(n, GPT2 if kind < 3 else micro * (GPT2 + READ_BACK))}))
# 3 and 8 do not divide 4 heads: some ranks have one less, or none.
for n in (2, 3, 4, 8) if EVERYTHING else (3, 4):
    CASES.append(("GPT-2, tensor", "gpt2", n, megatron(n), {"activation": (4 * LAYERS + 2) * share(n, 2 * T * H)}))
for n in (2, 3, 4, 8) if EVERYTHING else (2, 8):
    CASES.append(("GPT-2, tensor, bfloat16", "gpt2", n, [*megatron(n, True), "--precision=bf16"],
                  {"activation": (4 * LAYERS + 2) * share(n, 2 * T * H, 2)}))
# Uneven groups, stages (not of all devices, so that they divide the work), tied weights over stages: the objective is what
# is counted.
for model in ("gpt2", "conv-batch-norm"):
    for mesh, n in (("dp=3", 3), ("pp=2", 4), *([("pp=2", 6)] if model == "gpt2" and EVERYTHING else [])):
        CASES.append((f"{model}, {mesh}", model, n, [f"--mesh={mesh}", *(["--batch-norm=frozen"] if model != "gpt2" else [])], {}))


def step(name, model, n, options):
    # Each device has a sample of each micro-batch.
    micro = next((int(option.split("=")[1]) for option in options if option.startswith("--micro-batches")), 1)
    batch = max(BATCH, n * micro)
    package = f"{FOLDER}/{len(os.listdir(FOLDER))}.kerf"
    command = ["kerf", "compile", f"{TRAINING}/{model}/model.onnx", "--dim", f"batch={batch}", "--train",
               "--loss=cross_entropy(logits,labels)", "--objective=volume", f"--devices=cpu:{n}", *options,
               *([] if any(option.startswith("--optimizer") for option in options) else ["--optimizer=sgd,lr=0.1"]), "-o", package]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{name}: {' '.join(command)}\n{process.stderr}")
    process = subprocess.run(["kerf-run", package, "--seed=1", "--json"], capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{name}: {process.stderr}")
    with open(f"{package}/plan.json") as file:
        objective = json.load(file)["objective"]
    return json.loads(process.stdout)["communication"], objective


for name, model, n, options, expected in CASES:
    communication, objective = step(name, model, n, options)
    # What the loss needs of each sample or token is apart from the formulas.
    found = {purposes: sum(each["bytes_per_rank"] * each["count"] for each in communication["collectives"]
                           if each["purpose"] in purposes.split("+") and each["node"] != "loss")
             for purposes in expected}
    counted = communication["bytes_per_rank"]
    fine = found == expected and objective["lower_bound"] <= counted == communication["planned_bytes_per_rank"] == objective["cost"]
    failed |= not fine
    print(f"{'ok' if fine else 'WRONG':6}{name}, N = {n}: counted {found}, expected {expected}; in all {counted}, "
          f"planned {objective['cost']}, at least {objective['lower_bound']}", flush=True)
    if not fine:
        for each in communication["collectives"]:
            print("     ", each["op"], each["node"], each["purpose"], each["phase"], each["buffer_bytes"], each["bytes_per_rank"], each["count"])
sys.exit(failed)
