#!/usr/bin/env python3
"""curves.py CASE_FOLDER OUT [--set few|all|bf16|bf16-all] [--only TEXT]

Trains a case of test/Inputs/training over many meshes with `kerf train` and holds
every loss against PyTorch's curve: the largest relative difference may be 1e-4, or
twice PyTorch's spread against itself where that is more (make.py says what it is).
Every run counts what it sends, which must be what was planned, and along each axis of the mesh something must be sent:
a mesh on which every rank does the same is no test. Some runs are done twice, with one thread or two a rank, and
must give the same bits of losses and of the weights that are written.

The sets of bf16 train with --precision=bf16: the largest relative difference from PyTorch's float32 may be what
PyTorch's own bfloat16 shows (make.py), with any number of micro-batches, and it is not float32.

The small sets, few and bf16, train on each mesh with one of their optimizers, in turn, and on one rank with all; what is
done twice is done with the first.
"""
import argparse
import json
import pathlib

from kerf_tests import Checks, ending, in_parallel, kerf

BAR = 1e-4
# (ranks, mesh, micro-batches, further flags)
ONE = (1, "", 1, ())
MESHES = {
    "few": [ONE, (2, "dp=2", 1, ()), (2, "tp=2", 1, ()), (2, "pp=2", 2, ("--schedule=1f1b",)),
            (2, "pp=2", 2, ("--schedule=interleaved",)), (4, "dp=2,tp=2", 1, ())],
    "all": [ONE, (1, "", 4, ()), (2, "dp=2", 1, ()), (2, "dp=2", 2, ()), (4, "dp=4", 1, ()), (2, "tp=2", 1, ()),
            (4, "tp=4", 1, ()), (2, "pp=2", 2, ("--schedule=1f1b",)), (2, "pp=2", 4, ("--schedule=gpipe",)),
            (4, "pp=4", 4, ("--schedule=1f1b",)), (2, "pp=2", 4, ("--schedule=interleaved",)),
            (4, "dp=2,tp=2", 1, ()), (4, "dp=2,pp=2", 2, ()),
            (4, "tp=2,pp=2", 2, ()), (8, "dp=2,tp=2,pp=2", 2, ()), (4, "", 1, ()), (8, "", 1, ()),
            (4, "", 1, ("--objective=volume",)), (8, "", 1, ("--objective=volume",))],
}
# These models are so small that the fastest plan leaves an axis idle; what says how the axis divides the work instead.
PINS = {("mlp", "tp"): ("--shard=layers.0.weight=[{tp},{}]", "--shard=layers.1.weight=[{},{tp}]"),
        **{(name, "dp=2,tp=2,pp=2"): ("--shard=fc1.weight=[{tp},{}]", "--shard=fc2.weight=[{},{tp}]")
           for name in ("conv-batch-norm", "conv-max-pool")},
        ("llama", "dp=2,tp=2,pp=2"): ("--shard=blocks.[01].up.weight=[{tp},{}]", "--shard=blocks.[01].gate.weight=[{tp},{}]",
                                      "--shard=blocks.[01].down.weight=[{},{tp}]")}
# Where the same bits are asked for twice: the threads of a rank, by mesh.
AGAIN = {"": 2, "dp=2": 1, "pp=2": 2, "dp=2,tp=2": 1, "tp=2,pp=2": 2}
MESHES["bf16"] = [ONE, (2, "dp=2", 1, ()), (2, "tp=2", 1, ()), (2, "pp=2", 2, ("--schedule=1f1b",)),
                  (2, "dp=2", 2, ("--gradient-dtype=f32",)), (4, "dp=2,tp=2", 1, ()), (4, "tp=2,pp=2", 2, ())]
MESHES["bf16-all"] = [*MESHES["all"], (4, "dp=2,tp=2", 1, ("--gradient-dtype=f32",))]
SMALL = ("few", "bf16")
OPTIMIZERS = {"few": ("momentum", "adamw"), "bf16": ("sgd", "adam"),
                  "bf16-all": ("sgd", "momentum", "adam", "adamw"), "all": ("sgd", "momentum", "adam", "adamw")}


def flags_of(optimizer, rate):
    """The optimizers of make.py in Kerf's words."""
    return {"sgd": f"sgd,lr={rate}", "momentum": f"sgd,lr={rate / 4},momentum=0.9,wd=0.001",
            "adam": "adam,lr=0.002", "adamw": "adamw,lr=0.002,wd=0.1"}[optimizer]


def losses_of(log):
    return [json.loads(line)["loss"] for line in log.read_text().splitlines() if '"loss"' in line]


def train(arguments, curves, optimizer, ranks, mesh, micro_batches, extra, tag=""):
    kind = "".join(f" {flag.split('=')[1]}" for flag in extra if flag not in ("--schedule=1f1b", "--schedule=gpipe"))
    name = f"{optimizer} {ranks} {mesh or 'auto'} m{micro_batches}{kind}{tag}".replace(",", "-")
    log, weights, stats = (arguments.out / f"{name.replace(' ', '_')}.{kind}" for kind in ("jsonl", "safetensors", "json"))
    log.unlink(missing_ok=True)
    folder = arguments.folder
    pins = [flag for (case, axes), flags in PINS.items() if case == folder.name and axes in mesh for flag in flags]
    command = ["train", folder / "model.onnx", f"--dim=batch={curves['batch']}", f"--batch-size={curves['batch']}",
               "--loss=cross_entropy(logits,labels)", f"--optimizer={flags_of(optimizer, curves['rate'])}",
               f"--data={folder / 'data.npz'}", "--shuffle=off", f"--steps={curves['steps']}", f"--log={log}",
               f"--save-safetensors={weights}", f"--stats={stats}", f"--devices=cpu:{ranks}",
               f"--threads={AGAIN.get(mesh, 1)}", "--timeout=120", *extra, *pins]
    if arguments.set.startswith("bf16"):
        command.append("--precision=bf16")
    if mesh:
        command.append(f"--mesh={mesh}")
    if micro_batches > 1:
        command.append(f"--micro-batches={micro_batches}")
    result = kerf(*command, timeout=600)
    return name, f"  kerf {' '.join(map(str, command))}\n  {result.stderr.strip()[:2000]}", result, log, weights, stats


def idle_axes(mesh, by_axis):
    """Axes along which nothing is sent; of a mesh that was searched, all together."""
    used = {axis.split(":")[0] for axes, sent in by_axis.items() if sent for axis in axes.split("+")}
    return [axis for axis in (part.split("=")[0] for part in mesh.split(",")) if axis not in used] if mesh else not used


def run(checks, arguments, curves, optimizer, ranks, mesh, micro_batches, extra):
    # Without BatchNorm the number of micro-batches changes nothing.
    table = curves["micro_batches"].get(str(micro_batches), curves["micro_batches"]["1"])
    if str(micro_batches) not in curves["micro_batches"] and len(curves["micro_batches"]) > 1:
        return
    expected = table[optimizer]
    job = (arguments, curves, optimizer, ranks, mesh, micro_batches, extra)
    name, said, result, log, weights, stats = train(*job)
    if result.returncode:
        checks.expect(name, False, f"  {ending(result.returncode)}\n{said}")
        return
    losses = losses_of(log)
    bf16 = arguments.set.startswith("bf16")
    # Roundings to 8 bits are drawn anew by whatever changes: of all numbers of micro-batches the most.
    bar = (max(t[optimizer]["bf16"] for t in curves["micro_batches"].values()) if bf16
           else max(BAR, 2 * expected["spread"]))
    far, step = max((abs(a - b) / abs(b), i) for i, (a, b) in enumerate(zip(losses, expected["losses"])))
    print(f"{name}: {losses[0]:.4f} -> {losses[-1]:.4f}, relative difference {far:.1e}, bar {bar:.1e}", flush=True)
    checks.expect(name, len(losses) == curves["steps"] and far <= bar and (not bf16 or far > 1e-5),
                  f"  {len(losses)} losses; step {step}: {losses[step]}, PyTorch "
                  f"{expected['losses'][step]}, relative difference {far:.2e}, bar {bar:.1e}\n{said}")
    communication = json.loads(stats.read_text())["communication"]
    checks.expect(f"{name}: sent as planned", communication["bytes_per_rank"] == communication["planned_bytes_per_rank"],
                  f"  {communication['bytes_per_rank']} bytes, planned {communication['planned_bytes_per_rank']}\n{said}")
    # The fastest plan of so small a model may well send nothing; the one of least volume has to divide the work.
    if ranks > 1 and (mesh or extra):
        idle = idle_axes(mesh, communication["by_axis"])
        checks.expect(f"{name}: every axis is used", not idle, f"  {idle} of {communication['by_axis']}\n{said}")
    if mesh in AGAIN and (mesh or ranks == 1) and (arguments.set not in SMALL or optimizer == OPTIMIZERS[arguments.set][0]):
        kept = weights.read_bytes()
        _, said, second, log, weights, _ = train(*job, " again")
        checks.expect(f"{name}: the same bits twice", second.returncode == 0 and losses_of(log) == losses
                      and weights.read_bytes() == kept, said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--set", choices=MESHES, default="few")
    parser.add_argument("--only", default="", help="runs whose name has this text")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    curves = json.loads((arguments.folder / "curves.json").read_text())
    checks = Checks()
    optimizers, in_turn = OPTIMIZERS[arguments.set], arguments.set in SMALL
    start = len(arguments.folder.name)  # so that models begin with different ones
    jobs = [(run, checks, arguments, curves, optimizer, *mesh) for number, optimizer in enumerate(optimizers)
            for turn, mesh in enumerate(MESHES[arguments.set])
            if (not in_turn or mesh == ONE or (start + turn) % len(optimizers) == number) and arguments.only in f"{optimizer} {mesh}"]
    in_parallel(jobs, arguments.workers)
    checks.finish()


if __name__ == "__main__":
    main()
