#!/usr/bin/env python3
"""curves.py CASE_FOLDER OUT [--set few|all|bf16|bf16-all] [--only TEXT]

Trains a case of test/Inputs/training over many meshes with `kerf train` and holds
every loss against PyTorch's curve: the largest relative difference may be 1e-4, or
twice PyTorch's spread against itself where that is more (make.py says what it is).
Every run counts what it sends, which must be what was planned; one run per
optimizer is done twice and must give the same bits.

The sets of bf16 train with --precision=bf16: the largest relative difference from PyTorch's float32 may be what
PyTorch's own bfloat16 shows (make.py), with any number of micro-batches, and it is not float32.
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
            (4, "dp=2,tp=2", 1, ())],
    "all": [ONE, (1, "", 4, ()), (2, "dp=2", 1, ()), (2, "dp=2", 2, ()), (4, "dp=4", 1, ()), (2, "tp=2", 1, ()),
            (4, "tp=4", 1, ()), (2, "pp=2", 2, ("--schedule=1f1b",)), (2, "pp=2", 4, ("--schedule=gpipe",)),
            (4, "pp=4", 4, ("--schedule=1f1b",)), (4, "dp=2,tp=2", 1, ()), (4, "dp=2,pp=2", 2, ()),
            (4, "tp=2,pp=2", 2, ()), (8, "dp=2,tp=2,pp=2", 2, ()), (4, "", 1, ()), (8, "", 1, ())],
}
MESHES["bf16"] = [ONE, (2, "dp=2", 1, ()), (2, "tp=2", 1, ()), (2, "pp=2", 2, ("--schedule=1f1b",)),
                  (2, "dp=2", 2, ("--gradient-dtype=f32",)), (4, "dp=2,tp=2", 1, ()), (4, "dp=2,pp=2", 2, ()),
                  (4, "tp=2,pp=2", 2, ())]
MESHES["bf16-all"] = [*MESHES["all"], (4, "dp=2,tp=2", 1, ("--gradient-dtype=f32",))]
FEW_OPTIMIZERS = {"few": ("momentum", "adamw"), "bf16": ("sgd", "adam"),
                  "bf16-all": ("sgd", "momentum", "adam", "adamw"), "all": ("sgd", "momentum", "adam", "adamw")}


def flags_of(optimizer, rate):
    """The optimizers of make.py in Kerf's words."""
    return {"sgd": f"sgd,lr={rate}", "momentum": f"sgd,lr={rate / 4},momentum=0.9,wd=0.001",
            "adam": "adam,lr=0.002", "adamw": "adamw,lr=0.002,wd=0.1"}[optimizer]


def losses_of(log):
    return [json.loads(line)["loss"] for line in log.read_text().splitlines() if '"loss"' in line]


def train(arguments, curves, optimizer, ranks, mesh, micro_batches, extra, tag=""):
    name = f"{optimizer} {ranks} {mesh or 'auto'} m{micro_batches}{tag}".replace(",", "-")
    log = arguments.out / f"{name.replace(' ', '_')}.jsonl"
    log.unlink(missing_ok=True)
    folder = arguments.folder
    command = ["train", folder / "model.onnx", f"--dim=batch={curves['batch']}", f"--batch-size={curves['batch']}",
               "--loss=cross_entropy(logits,labels)", f"--optimizer={flags_of(optimizer, curves['rate'])}",
               f"--data={folder / 'data.npz'}", "--shuffle=off", f"--steps={curves['steps']}", f"--log={log}",
               f"--devices=cpu:{ranks}", "--threads=1", "--timeout=120", *extra]
    if arguments.set.startswith("bf16"):
        command.append("--precision=bf16")
    if mesh:
        command.append(f"--mesh={mesh}")
    if micro_batches > 1:
        command.append(f"--micro-batches={micro_batches}")
    return name, command, log, kerf(*command, timeout=600)


def run(checks, arguments, curves, optimizer, ranks, mesh, micro_batches, extra):
    # Without BatchNorm the number of micro-batches changes nothing.
    table = curves["micro_batches"].get(str(micro_batches), curves["micro_batches"]["1"])
    if str(micro_batches) not in curves["micro_batches"] and len(curves["micro_batches"]) > 1:
        return
    expected = table[optimizer]
    name, command, log, result = train(arguments, curves, optimizer, ranks, mesh, micro_batches, extra)
    said = f"  kerf {' '.join(map(str, command))}\n  {result.stderr.strip()[:2000]}"
    if result.returncode:
        checks.expect(name, False, f"  {ending(result.returncode)}\n{said}")
        return
    losses = losses_of(log)
    bf16 = arguments.set.startswith("bf16")
    # Roundings to 8 bits are drawn anew by whatever changes: of all numbers of micro-batches the most.
    bar = (max(t[optimizer]["bf16"] for t in curves["micro_batches"].values()) if bf16
           else max(BAR, 2 * expected["spread"]))
    # From a tie on, what ties move (make.py).
    later = max(bar, 2 * max(each["spread"] for t in curves["micro_batches"].values() for each in t.values()))
    bars = [later if i > expected.get("tie", curves["steps"]) and not bf16 else bar for i in range(curves["steps"])]
    far = [abs(a - b) / abs(b) for a, b in zip(losses, expected["losses"])]
    worst = max((x / allowed, i) for i, (x, allowed) in enumerate(zip(far, bars)))
    fits, worst, bar = worst[0] <= 1, (far[worst[1]], worst[1]), bars[worst[1]]
    print(f"{name}: {losses[0]:.4f} -> {losses[-1]:.4f}, largest relative difference {max(far):.1e}, bar {bar:.1e}", flush=True)
    checks.expect(name, len(losses) == curves["steps"] and fits and (not bf16 or worst[0] > 1e-5),
                  f"  {len(losses)} losses; step {worst[1]}: {losses[worst[1]]}, PyTorch "
                  f"{expected['losses'][worst[1]]}, relative difference {worst[0]:.2e}, bar {bar:.1e}\n{said}")
    if (ranks, mesh) in ((2, "dp=2"), (2, "pp=2"), (4, "dp=2,tp=2")):
        _, _, again, second = train(arguments, curves, optimizer, ranks, mesh, micro_batches, extra, " again")
        checks.expect(f"{name}: the same bits twice", second.returncode == 0 and losses_of(again) == losses, said)


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
    jobs = [(run, checks, arguments, curves, optimizer, *mesh) for optimizer in FEW_OPTIMIZERS[arguments.set]
            for mesh in MESHES[arguments.set] if arguments.only in f"{optimizer} {mesh}"]
    in_parallel(jobs, arguments.workers)
    checks.finish()


if __name__ == "__main__":
    main()
