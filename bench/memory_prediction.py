#!/usr/bin/env python3
"""bench/memory_prediction.py [--kerf BINARY] [--machine NAME] [--only TEXT] [--least BYTES] [--limits] [--json FILE] [--all]

What planning predicts that a device holds, by what is laid out for it. `kerf plan`
lowers what it chose: in plan.json, memory.per_device[i].predicted is what the search
went by, and .peak what the package takes. Every case is a model of the suite at sizes
at which a device holds more than 10 MB, in inference and training, f32 and bf16, on
one device, by data, tensors and stages (that train by 1F1B), and by two of them.

Training steps of some models are also planned with blocks that are computed again
(--recompute), on each mesh with all of them or every second, and on meshes with dp with
what is in parts there (--zero), in each kind in turn.

Printed are least, median and most of predicted by laid out for each kind of mesh, and
each device out of the bars: 0.98 to 1.02 on one device, 0.95 to 1.05 elsewhere.
Devices that hold less than --least bytes (10 MB) are counted apart. The exit code is 1
if one is out of its bars.

--limits searches all meshes of two and four devices with 0.9, 0.7 and 0.5 of the memory
that the best plan's fullest device takes as the limit, and counts how often what was planned did not keep it when it was laid out,
so that another plan was lowered. A plan that does not keep its limit is an error. --all takes every mesh of every model, else a half.
--json writes every case with its bytes.
"""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INPUTS = ROOT / "test/Inputs"
LOSS = ["--train", "--loss=cross_entropy(logits,labels)"]
ADAMW, MOMENTUM = [*LOSS, "--optimizer=adamw,lr=0.001"], [*LOSS, "--optimizer=sgd,lr=0.001,momentum=0.9"]
MESHES = ["", "dp=2", "dp=4", "tp=2", "tp=4", "pp=2", "pp=4", "dp=2,tp=2", "pp=2,dp=2", "pp=2,tp=2"]
# Steps of these also with blocks computed again, on each mesh in one of these ways.
RECOMPUTED, KINDS = ("graphs/gpt2-124m", "graphs/resnet50", "training/llama", "training/conv-batch-norm"), ("all", "2")
ZEROS = ("1", "2", "3")
# Folder, batch in inference and in training, optimizer. Folders of graphs have weights of full size that no file holds.
MODELS = [
    ("graphs/gpt2-124m", 16, 4, ADAMW),
    ("graphs/resnet50", 32, 16, MOMENTUM),
    ("graphs/vgg16", 8, 8, MOMENTUM),
    ("graphs/alexnet", 32, 32, MOMENTUM),
    ("models/gpt2-small", 4096, None, None),
    ("models/bert-small", 4096, None, None),
    ("models/vit-small", 4096, None, None),
    ("models/resnet-small", 2048, None, None),
    ("models/convnet", 2048, None, None),
    ("models/mlp", 65536, None, None),
    ("training/gpt2", 4096, 1024, ADAMW),
    ("training/llama", 4096, 1024, ADAMW),
    ("training/conv-batch-norm", 16384, 4096, MOMENTUM),
    ("training/conv-max-pool", 16384, 4096, MOMENTUM),
    ("training/alexnet", 2048, 1024, MOMENTUM),
    ("training/mlp", 65536, 65536, ADAMW),
]


def cases(everything):
    """(name, mesh, command line behind `kerf plan`) of every case."""
    kinds = 0  # of a model: each has the other half of the meshes
    for folder, inference, training, optimizer in MODELS:
        model = INPUTS / folder / "model.onnx"
        if not model.exists():
            continue
        for batch, options in ((inference, []), (training, optimizer)):
            if batch is None:
                continue
            for precision in ("f32", "bf16"):
                kinds += 1
                for number, mesh in enumerate(MESHES):
                    if not everything and (number + kinds) % 2:
                        continue
                    sizes = dict(part.split("=") for part in mesh.split(",") if part)
                    count = 1
                    for size in sizes.values():
                        count *= int(size)
                    flags = [f"--devices={count}", *([f"--mesh={mesh}"] if mesh else [])]
                    if "pp" in sizes:
                        flags += ["--micro-batches=4", *(["--schedule=1f1b"] if options else [])]
                    name = f"{folder.split('/')[-1]} {'train' if options else 'infer'} {precision} {mesh or 1}"
                    command = [str(model), f"--dim=batch={batch}", f"--precision={precision}", *options, *flags]
                    yield name, mesh, command
                    if options and folder in RECOMPUTED:
                        kind = KINDS[number // 2 % 2]
                        yield f"{name} recompute={kind}", mesh, [*command, f"--recompute={kind}"]
                        if "dp" in sizes:
                            zero = ZEROS[(number + kinds // 2) % 3]
                            micro = ["--micro-batches=2"] if zero == "2" and "pp" not in sizes else []
                            yield f"{name} zero={zero}", mesh, [*command, "--recompute=none", f"--zero={zero}", *micro]


def plan(kerf, arguments, limit=None):
    """plan.json, or the first line of what went wrong."""
    process = subprocess.run([kerf, "plan", "--json", *arguments, f"--memory-limit={f'{limit}B' if limit else '1TiB'}"],
                             capture_output=True, text=True)
    if process.returncode:
        return None, (process.stderr.strip().splitlines() or ["no message"])[0]
    return json.loads(process.stdout), ""


def kind_of(mesh):
    axes = [part.split("=")[0] for part in mesh.split(",") if part]
    return "one device" if not axes else "two axes" if len(axes) > 1 else axes[0]


def bar_of(mesh):
    return 0.05 if mesh else 0.02


def rejected(document):
    """How many plans needed more than this limit when they were laid out."""
    return document["memory"].get("rejected", 0)


def run(kerf, limits, case):
    """One line of the table for each device, and what became of limits."""
    name, mesh, arguments = case
    document, error = plan(kerf, arguments)
    if document is None:
        return {"case": name, "mesh": mesh, "error": error}
    devices = [{"predicted": d["predicted"]["peak"], "laid_out": d["peak"], "parts": d}
               for d in document["memory"]["per_device"]]
    result = {"case": name, "mesh": mesh, "devices": devices, "limits": []}
    if limits and kind_of(mesh) == "dp":
        free = [argument for argument in arguments if not argument.startswith("--mesh=")]
        document, error = plan(kerf, free)
        if document is None:
            sys.exit(f"{name}: {error}")
        most = max(device["peak"] for device in document["memory"]["per_device"])
        for share in (0.9, 0.7, 0.5):
            limit = int(share * most)
            limited, error = plan(kerf, free, limit)
            entry = {"share": share, "error": error} if limited is None else {
                "share": share, "rejected": rejected(limited), "cost": limited["objective"]["cost"],
                "laid_out": max(device["peak"] for device in limited["memory"]["per_device"])}
            if entry.get("laid_out", 0) > limit:
                sys.exit(f"{name}: {entry['laid_out']} bytes are laid out, the limit is {limit}")
            result["limits"].append(entry)
    return result


def table(results, least):
    """Prints least, median, most by kind of mesh; returns the number out of the bars."""
    by_kind, small, out = {}, {}, []
    for result in results:
        for number, device in enumerate(result.get("devices", [])):
            ratio = device["predicted"] / device["laid_out"]
            kind = kind_of(result["mesh"])
            (by_kind if device["laid_out"] >= least else small).setdefault(kind, []).append(ratio)
            if device["laid_out"] >= least and abs(ratio - 1) > bar_of(result["mesh"]):
                out.append((ratio, f"{result['case']}, stage {number}: {device['laid_out']} bytes, predicted {ratio:.3f}"))
    for title, groups in ((f"at least {least} bytes", by_kind), ("less", small)):
        for kind, ratios in sorted(groups.items()):
            print(f"{title:24} {kind:12} {len(ratios):4} devices  least {min(ratios):.3f}  "
                  f"median {statistics.median(ratios):.3f}  most {max(ratios):.3f}")
    for _, text in sorted(out):
        print("out ", text)
    return len(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default=str(ROOT / "build/bin/kerf"))
    parser.add_argument("--machine", help="of GPUs: what is laid out there; default: ranks of this host")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--least", type=int, default=10_000_000)
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    machine = [f"--machine={arguments.machine}"] if arguments.machine else []
    chosen = [(name, mesh, [*command, *machine]) for name, mesh, command in cases(arguments.all) if arguments.only in name]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda case: run(arguments.kerf, arguments.limits, case), chosen))
    refused = [result for result in results if "error" in result]
    wrong = table(results, arguments.least)
    for result in refused:
        print("none", f"{result['case']}: {result['error']}")
    print(f"{len(results)} cases, {len(refused)} without a plan, {wrong} devices out of their bars")
    if arguments.limits:
        tried = [entry for result in results for entry in result.get("limits", [])]
        kept = [entry for entry in tried if "rejected" in entry]
        print(f"{len(tried)} limits, {len(kept)} kept, {sum(entry['rejected'] > 0 for entry in kept)} "
              f"by another than the first plan, {sum(entry['rejected'] for entry in kept)} plans rejected")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    sys.exit(wrong > 0)


main()
