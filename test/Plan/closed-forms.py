"""What full-size models must send in a step of training, to the byte.

    closed-forms.py GRAPHS [--all] [--pinned]

Bytes of the busiest rank, in float32 (b = 4) and bfloat16 (b = 2); P is the number of parameters, f = (N - 1) / N.
Where --mesh and --shard fix the layout they are equal to the formula, by purpose;
where the search is free (fewest bytes, no hints; one stage, or any number) the plan
costs at most the best layout that people know, and is proven. Where bytes are
minimised the objective is what is executed, and no less than its proven bound. With --all every N and model,
without it what takes seconds; with --pinned no row whose search is free: with sanitizers its deadline is too short.

REQUIRES: kerf
RUN: %python %s %inputs/graphs %if sanitizer %{--pinned%}
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


BFLOAT16 = ["--precision=bf16"]


def data(model, batch, options=(), width=4):
    """Each gradient all-reduced once: 2fPb."""
    return [(model, batch, n, [f"--mesh=dp={n}", "--objective=volume", *options],
             {"gradient": 2 * (n - 1) * P[model] * width // n}) for n in COUNTS]


def zero(kind, width=4):
    """ZeRO over dp with M micro-batches: gradients are reduce-scattered once (1) or for each micro-batch; parameters are
    gathered once, or (3) for both passes of each micro-batch, but for those that the backward pass does not read: biases
    and the table of positions. So 1 is 2fPb, 2 (M + 1)fPb, 3 3MfPb less these. In bfloat16 the factors of products are
    gathered as bfloat16, all else that a step reads as float32: tables, norms and biases. Gradients of factors travel as
    bfloat16, and all of them where they are summed once per step."""
    p, h, words = P["gpt2-124m"], 768, 50_257
    unread = 12 * 11 * h + h + 1024 * h
    factors, wide = 12 * 12 * h * h, p - 12 * 12 * h * h
    rows = []
    for n in COUNTS:
        for micro in (1, 4):
            if width == 4:
                gradient, parameter = 4 * p * (1 if kind == 1 else micro), 4 * (p if kind < 3 else micro * (2 * p - unread))
            elif kind < 3:
                gradient = 2 * p if kind == 1 or micro == 1 else micro * (2 * factors + 4 * wide)
                parameter = 2 * factors + 4 * wide
            else:
                gradient = 2 * p if micro == 1 else micro * (2 * factors + 4 * wide)
                # The table: float32 for the lookup, bfloat16 for the head in both passes.
                parameter = micro * (4 * factors + 4 * wide + 4 * words * h + 4 * (wide - words * h - unread))
            rows.append(("gpt2-124m", 4 * n, n, [f"--mesh=dp={n}", "--objective=volume", f"--zero={kind}", "--optimizer=adamw,lr=0.001",
                                                 f"--micro-batches={micro}", *(BFLOAT16 if width == 2 else [])],
                         {"gradient": (n - 1) * gradient // n, "parameter": (n - 1) * parameter // n}))
    return rows


def synchronised():
    """Statistics over the whole batch: 8f more for each of 53,120 numbers. The sums that BatchNorm's backward pass
    needs of activations are the gradients of its parameters, and sent once."""
    return [("resnet50", 256, n, [f"--mesh=dp={n}", "--objective=volume", "--batch-norm=sync"],
             {"gradient+activation": 2 * (n - 1) * P["resnet50"] * 4 // n, "statistics": 8 * (n - 1) * 53_120 // n})
            for n in COUNTS]


def tensor(width=4):
    """Megatron's columns and rows, and the vocabulary in parts: 100 fThb for T = 8192 tokens.

    8 devices do not divide 12 heads: two on each of six, columns in blocks of 128, padded to 16 heads. Of 64 devices
    twelve have a head.
    """
    def layers(offset):
        return "(" + "|".join(str(4 * i + offset) for i in range(12)) + ")"
    cut, sum_ = "=[{},{},{tp}]", "=[{},{},{},partial sum {tp}]"

    def shards(n):
        heads = cut if 12 % n == 0 else f"=[{{}},{{}},{{tp}}:{64 * -(-12 // n)}]"
        if width == 2:  # the same values, whose numbers casts have moved
            return ["node_embedding" + sum_, "node_Split_[0-9]+#[369]" + heads, f"node_addmm_{layers(1)}#4" + sum_,
                    f"node_addmm_{layers(2)}#3" + cut, f"node_addmm_{layers(3)}#3" + sum_, "node_linear#3" + cut,
                    "node_linear#6" + sum_, f"node_addmm_{layers(3)}#8" + cut, f"node_addmm_{layers(2)}#8" + sum_,
                    f"node_addmm_{layers(1)}#9" + heads, "node_Split_[0-9]+#(12|18|25)" + sum_, "node_embedding#6=[{tp},{}]"]
        return ["node_embedding" + sum_, "node_Split_[0-9]+(#[23])?" + heads, f"node_addmm_{layers(1)}#2" + sum_,
                f"node_addmm_{layers(2)}" + cut, f"node_addmm_{layers(3)}" + sum_, "node_linear" + cut,
                "node_linear#2" + sum_, f"node_addmm_{layers(3)}#4" + cut, f"node_addmm_{layers(2)}#4" + sum_,
                f"node_addmm_{layers(1)}#5" + heads, "node_Split_[0-9]+#(4|8|13)" + sum_, "node_embedding#2=[{tp},{}]"]
    return [("gpt2-124m", 8, n, [f"--mesh=tp={n}", "--objective=volume", *(f"--shard={shard}" for shard in shards(n)),
                                 *(BFLOAT16 if width == 2 else [])],
             {"activation": 100 * (n - 1) * 8192 * 768 * width // n}) for n in COUNTS]


# The rows of the table, N = 2, 4, 8.
FULLY_CONNECTED = {
    ("vgg16", "column"): (93_449_472, 140_174_208, 163_536_576),
    ("vgg16", "mixed"): (89_767_168, 134_650_752, 157_092_544),
    ("vgg16", "row"): (81_116_416, 112_040_832, 125_094_592),
    ("alexnet", "column"): (28_216_576, 42_324_864, 49_379_008),
    ("alexnet", "mixed"): (24_534_272, 36_801_408, 42_934_976),
    ("alexnet", "row"): (24_009_984, 32_476_032, 35_824_320),
}
# Parameters of the convolutions; what the first fully connected layer reads.
CONVOLUTIONS = {"vgg16": (14_714_688, 25_088), "alexnet": (2_469_696, 9_216)}


def fully_connected(model, layout):
    """Convolutions by data, three fully connected layers by tensor, every value pinned.

    column:  "one weird trick", activations gathered in front of each layer:
                                            8fC + 1024f(2 in + 16384 + 1000)
    mixed:   column, row, row               8fC + 2048f(in + 5096)
    row:     entered by an all-to-all       8fC + 2048f(9192 + in/N)
    """
    convolutions, first = CONVOLUTIONS[model]
    last, convs = {"vgg16": (12, "(_[1-9]|_1[0-2])?"), "alexnet": (4, "(_[1-4])?")}[model]
    batch, whole, columns, partial = "[{q},{},{},{}]", "[{},{}]", "[{},{q}]", "[{},{},partial sum {q}]"
    pins = {"image": batch, f"node_conv2d{convs}(#2)?": batch, "node_conv2d_[0-9]+#4": batch,
            "node_conv2d#3": batch, f"node_relu{convs}(#3)?": batch, "node_(max|avg)_pool2d.*": batch,
            "node_Reshape_7": "[{q},{}]", "node_Reshape_7#2": batch,
            r"features\.[0-9]+\.weight": "[{},{},{},{}]", r"features\.[0-9]+\.weight#3": "[{},{},{},{}]",
            r"features\.[0-9]+\.bias(#3)?": "[{}]", f"node_relu_({last + 1}|{last + 2})(#3)?": columns,
            "node_linear(_1)?#2": columns, "node_linear(_1)?#3": "[{q}]"}
    for layer in ("", "_1", "_2"):
        is_row = layout == "row" or layout == "mixed" and layer
        pins[f"node_linear{layer}"] = partial if is_row else columns
        pins[f"node_linear{layer}#4"] = columns if is_row else partial
        pins[f"node_linear{layer}#5"] = "[{},{q}]" if is_row else "[{q},{}]"
    pins["node_linear_2#2"] = columns if layout == "column" else whole
    # What the loss makes of each sample and class, by the numbers of these values.
    pins["loss#(2|3|4|6|7|8|11|32|33|34|36|37|38|39)"] = whole

    def formula(n):
        def share(elements):  # f * 256 * 4 bytes each
            return (n - 1) * 1024 * elements // n
        # 64 devices do not divide the classes: 24 more are sent, and left out of what is then gathered.
        padded = 0 if 1000 % n == 0 else share(-(-1000 // n) * n) // n
        activation = {"column": 2 * share(first) + 4 * share(4096) + share(1000) + padded,
                      "mixed": 2 * share(first) + 2 * share(4096) + 2 * share(1000),
                      "row": 2 * share(first) // n + 4 * share(4096) + 2 * share(1000)}[layout]
        return {"gradient": 8 * (n - 1) * convolutions // n, "activation": activation, "parameter": 0}
    for n, total in zip(COUNTS, FULLY_CONNECTED[model, layout]):
        assert sum(formula(n).values()) == total, (model, layout, n)
    return [(model, 256, n, [f"--mesh=q={n}", "--objective=volume",
                             *(f"--shard={name}={sharding}" for name, sharding in pins.items())], formula(n))
            for n in COUNTS]


# Convolutions by data and fully connected layers by rows, entered by an all-to-all.
BEST = {"vgg16": {2: 81_116_416, 4: 112_040_832, 8: 125_094_592},
        "alexnet": {2: 24_009_984, 4: 32_476_032, 8: 35_824_320},
        "resnet50": {2: 96_104_704, 4: 143_370_624, 8: 166_806_976},
        # Layers by data, the vocabulary in parts: 4f(P - 38,597,376) + 8fTh, twice for float32.
        "gpt2-124m": {2: 393_701_376, 4: 590_552_064, 8: 688_977_408}}


def best(model, batch, options=(), mesh=("--mesh=pp=1",), width=4):
    return [(model, batch, n, [*mesh, "--objective=volume", "--deadline=120", *options], float32_bytes * width // 4)
            for n, float32_bytes in BEST[model].items()]


def stages(model, batch, options=()):
    """As many stages as the search likes."""
    return best(model, batch, options, mesh=())


def tied():
    """GPT-2 in stages of one device: the busiest hands on the gradient of the table that embedding and head share, or
    hands back the table, and activations or their gradients once: 4 * 38,597,376 + 4Th. Better than any layout of one
    stage. 8 devices: the head alone is more than an eighth of the work."""
    return [("gpt2-124m", 8, n, ["--objective=volume", "--deadline=120"], 4 * 38_597_376 + 4 * 8192 * 768) for n in (2, 4)]


ROWS = {
    "GPT-2 124M, data": data("gpt2-124m", 64),
    "GPT-2 124M, data, bfloat16": data("gpt2-124m", 64, BFLOAT16, 2),
    "GPT-2 124M, data, bfloat16 with gradients of float32": data("gpt2-124m", 64, [*BFLOAT16, "--gradient-dtype=f32"]),
    "GPT-2 124M, data, float32 with gradients of bfloat16": data("gpt2-124m", 64, ["--gradient-dtype=bf16"], 2),
    **{f"GPT-2 124M, ZeRO {kind}{', bfloat16' if width == 2 else ''}": zero(kind, width) for width in (4, 2) for kind in (1, 2, 3)},
    "GPT-2 124M, tensor": tensor(),
    "GPT-2 124M, tensor, bfloat16": tensor(2),
    "VGG-16, data": data("vgg16", 256),
    "AlexNet, data": data("alexnet", 256),
    "ResNet-50, data": data("resnet50", 256, FROZEN),
    "ResNet-50, data, BatchNorm synchronised": synchronised(),
    **{f"{name}, convolutions by data, fully connected {layout}": fully_connected(model, layout)
       for model, name in (("vgg16", "VGG-16"), ("alexnet", "AlexNet")) for layout in ("column", "mixed", "row")},
    "VGG-16, free": best("vgg16", 256),
    "AlexNet, free": best("alexnet", 256),
    "ResNet-50, free": best("resnet50", 256, FROZEN),
    "GPT-2 124M, free, T = 8192": best("gpt2-124m", 8),
    "GPT-2 124M, free, T = 8192, bfloat16": best("gpt2-124m", 8, BFLOAT16, width=2),
    "AlexNet, any stages": stages("alexnet", 256),
    "VGG-16, any stages": stages("vgg16", 256),
    "ResNet-50, any stages": stages("resnet50", 256, FROZEN),
    "GPT-2 124M, any stages": tied(),
}
# Rows of a second are run for every N, the last ones only with --all. So are those of ZeRO that have nothing of their own:
# one micro-batch in float32, where four are four times as much of the same, and in bfloat16 with 2, as with 1.
QUICK = ("AlexNet", "ResNet-50, data")
FREE = (", free", ", any stages")
LONG = ("ResNet-50, free", "ResNet-50, any stages", "GPT-2 124M, any stages", "GPT-2 124M, free, T = 8192", "GPT-2 124M, free, T = 8192, bfloat16",
        "GPT-2 124M, data, bfloat16 with gradients of float32", "GPT-2 124M, tensor, bfloat16", "VGG-16, any stages")


def is_like_others(name, options):
    return name.startswith("GPT-2 124M, ZeRO") and "--micro-batches=1" in options and ("bfloat16" not in name or "--zero=2" in options)


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
        if name in LONG and not everything or "--pinned" in sys.argv and any(word in name for word in FREE):
            continue
        for model, batch, n, options, expected in row:
            is_quick = name.startswith(QUICK) and "synchronised" not in name
            if (n != 8 and not is_quick or is_like_others(name, options)) and not everything:
                continue
            begin = time.monotonic()
            document = plan(graphs, model, batch, n, options)
            communication, objective = document["communication"], document["objective"]
            if isinstance(expected, dict):
                # What the loss needs of each sample or token is apart from the formulas.
                found = {purposes: sum(each["bytes_per_rank"] * each["count"] for each in communication["collectives"]
                                       if each["purpose"] in purposes.split("+") and each["node"] != "loss")
                         for purposes in expected}
                wrong = found != expected
            else:
                # The loss's statistics are apart here, too.
                found = communication["bytes_per_rank"] - communication["by_purpose"].get("statistics", 0)
                wrong = found > expected or objective["gap"] > (1e-2 if "--precision=bf16" in options else 1e-3)
            if objective["kind"] == "volume":
                # What is planned is what runs, and the proof speaks of that.
                executed = communication["bytes_per_rank"]
                wrong |= not objective["lower_bound"] <= executed == objective["cost"]
                found = f"{found}, executed {executed}, objective {objective['cost']}, bound {objective['lower_bound']}"
            failed |= wrong
            print(f"{'WRONG' if wrong else 'ok':6}{name}, N = {n}: {found}, expected {expected}, "
                  f"gap {objective['gap']:.2g} ({time.monotonic() - begin:.1f} s)", flush=True)
    sys.exit(failed)


main()
