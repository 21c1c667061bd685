# A compilation goes on from the IR after any phase, and kerf-opt from any pass, to the same bytes: the phases are the
# pipelines that --print-pipeline prints, and the IR says everything. With --all every case from every phase and from pass
# to pass, otherwise one of inference and one of training, and the others from every second phase.
#
# REQUIRES: kerf, kerf-opt
# RUN: %python %s %t %inputs
import filecmp
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, expect_error, fresh_folder, kerf

out, inputs = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()
TRAIN = ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=1e-3,no_decay=.*(bias|ln_[12]).*",
         "--frozen=.*ln_1.bias", "--clip-norm=1", "--precision=bf16"]
CASES = {
    "gpt2": ("models/gpt2-small", ["--dim", "batch=4"], ["--devices=cpu:4", "--mesh=tp=2,pp=2"], []),
    "bert": ("models/bert-small", ["--dim", "batch=2", "--batch-dim", "input_ids=0"], ["--devices=cpu:3"], ["--precision=f16"]),
    # A plan that was given; attention as one call.
    "given": ("models/gpt2-small", ["--dim", "batch=4"],
              ["--devices=cpu:4", f"--plan={out}/gpt2-ir/plan.json"], []),
    "fused": ("models/gpt2-small", ["--dim", "batch=4"], ["--devices=cpu:2"], ["--precision=bf16"]),
    # The plan that was chosen first did not keep the limit once it was laid out.
    "limited": ("training/gpt2", ["--dim", "batch=16"],
                ["--devices=cpu:2", "--mesh=dp=2", "--memory-limit=999004B", "--recompute=none", "--zero=none"],
                ["--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.001", "--precision=f32"]),
    "training": ("training/gpt2", ["--dim", "batch=8"], ["--devices=cpu:4", "--mesh=dp=2,pp=2", "--micro-batches=2"], TRAIN),
}


def passes_of(pipeline):
    """builtin.module(a,func.func(b{x=1},c)) as [a, func.func(b{x=1}), func.func(c)]."""
    def split(text):
        parts, depth, begin = [], 0, 0
        for at, c in enumerate(text):
            depth += c in "({" and 1 or c in ")}" and -1
            if c == "," and depth == 0:
                parts.append(text[begin:at])
                begin = at + 1
        return [*parts, text[begin:]]
    assert pipeline.startswith("builtin.module("), pipeline
    found = []
    for each in split(pipeline[len("builtin.module("):-1]):
        nested = each.startswith("func.func(")
        found += [f"func.func({one})" for one in split(each[len("func.func("):-1])] if nested else [each]
    return found


def same_package(a, b):
    """Names of files that differ; the seconds that planning took may."""
    compared = filecmp.dircmp(a, b)
    differ = compared.left_only + compared.right_only
    _, wrong, odd = filecmp.cmpfiles(a, b, compared.common_files, shallow=False)
    plans = [json.loads((folder / "plan.json").read_text()) for folder in (a, b)]
    for plan in plans:
        plan.pop("planning_seconds", None)
    return sorted(set(differ + wrong + odd) - ({"plan.json"} if plans[0] == plans[1] else set()))


for name, (model, sizes, cut, rest) in CASES.items():
    package, dumps = out / f"{name}.kerf", out / f"{name}-ir"
    once = ["--fused-attention"] if name == "fused" else []  # import's alone
    result = kerf("compile", inputs / model / "model.onnx", *sizes, *cut, *rest, *once, "-o", package, f"--dump-dir={dumps}",
                  "--print-pipeline", "-q")
    checks.expect(f"{name} compiles", result.returncode == 0, result.stderr)
    pipelines = dict(line.split(None, 1) for line in result.stdout.splitlines())
    files = {path.stem.split("-")[1]: path for path in dumps.glob("*.mlir")}
    phases = sorted(files, key=lambda phase: files[phase])
    checks.expect(f"{name}: pipelines", sorted(pipelines) == sorted([*phases, "package"]), f"{sorted(pipelines)} {phases}")
    packed = out / f"{name}-packed.kerf"
    written = pipelines["package"].replace(str(package), str(packed))
    process = subprocess.run(["kerf-opt", files["lower"], f"--pass-pipeline={written}", "-o", os.devnull], capture_output=True, text=True)
    checks.expect(f"{name}: {written}", process.returncode == 0 and packed.exists(), process.stderr[:2000])
    if packed.exists():
        differ = same_package(package, packed)
        checks.expect(f"{name}: the package that kerf-opt writes", not differ, f"{differ} differ")

    is_whole = "--all" in sys.argv or name in ("gpt2", "training")
    for phase in phases if is_whole else phases[::2]:
        again = out / f"{name}-{phase}.kerf"
        flags = {"import": [*sizes[2:], *cut, *rest], "autodiff": [*cut, *rest]}.get(phase, rest[-1:])
        result = kerf("compile", files[phase], f"--from={phase}", *flags, "-o", again)
        checks.expect(f"{name} from {phase}", result.returncode == 0, result.stderr)
        if result.returncode == 0:
            differ = same_package(package, again)
            checks.expect(f"{name} from {phase}: the same package", not differ, f"{differ} differ")

    if name == "limited":
        checks.expect("a plan was rejected", json.loads((package / "plan.json").read_text())["memory"].get("rejected", 0) > 0)
    # From pass to pass, each reading what the one before printed.
    stepped = phases[1:] if is_whole else ["plan"] if name == "limited" else []
    if not stepped:
        continue
    text, steps = files[phases[phases.index(stepped[0]) - 1]].read_text(), 0
    for phase in stepped:
        for one in passes_of(pipelines[phase]):
            process = subprocess.run(["kerf-opt", "--mlir-print-debuginfo", f"--pass-pipeline=builtin.module({one})"],
                                     input=text, capture_output=True, text=True)
            checks.expect(f"{name}: {one}", process.returncode == 0, process.stderr[:2000])
            if process.returncode:
                break
            text, steps = process.stdout, steps + 1
        checks.expect(f"{name}: {phase} pass by pass", text.split() == files[phase].read_text().split(),
                      "kerf-opt gives other IR than kerf compile")
    print(f"{name}: {len(stepped)} phases, {steps} passes")

# What cannot be.
mlir = next((out / "gpt2-ir").glob("*-partition.mlir"))
expect_error(checks, "IR without --from", ["compile", mlir, "-o", out / "x.kerf"], 2, ["is IR, not a model", "--from=PHASE"])
expect_error(checks, "planned already", ["compile", mlir, "--from=partition", "--mesh=tp=2", "-o", out / "x.kerf"], 2,
             ["--mesh: the IR after partition is planned already"])
expect_error(checks, "another phase", ["compile", mlir, "--from=lower", "-o", out / "x.kerf"], 2,
             ["error: ", "not what lower gives: edited, or printed after another phase?"])
expect_error(checks, "over itself", ["compile", mlir, "--from=partition", "--dump-dir", mlir.parent, "-o", out / "x.kerf"], 2,
             ["--dump-dir"])
lonely = out / "lonely.mlir"
lonely.write_text(mlir.read_text())
expect_error(checks, "no plan", ["compile", lonely, "--from=partition", "-o", out / "x.kerf"], 2, ["plan.json: no such file", "--plan=FILE names another"])
beside = out / "plan.json"
for text in ("{", '{"schema": "kerf.run/1"}', "[]"):
    beside.write_text(text)
    expect_error(checks, f"plan {text}", ["compile", lonely, "--from=partition", "-o", out / "x.kerf"], 2, ["plan.json: "])
expect_error(checks, "another precision", ["compile", mlir, "--from=partition", "--precision=bf16", "-o", out / "x.kerf"], 2,
             ["--precision is bf16", "is for f32"])
expect_error(checks, "planned training", ["compile", mlir, "--from=partition", "--train", "--loss=mse(a,b)", "-o", out / "x.kerf"], 2,
             ["--train: the IR after partition is planned already"])
other = next((out / "bert-ir").glob("*-partition.mlir"))
expect_error(checks, "another plan", ["compile", other, "--from=partition", "--plan", out / "gpt2-ir/plan.json", "-o", out / "x.kerf"], 2,
             ["its mesh is of 3 devices, the plan's of 4"])
lowered = next((out / "gpt2-ir").glob("*-lower.mlir"))
expect_error(checks, "another device", ["compile", lowered, "--from=lower", "--devices=cuda:0-3", "-o", out / "x.kerf"], 2,
             ["it is for cpu, ", "devices is for cuda"])
wrong = kerf("compile", mlir, "--from=plan", "-o", out / "x.kerf")
checks.expect("a short message", wrong.returncode == 2 and "not what plan gives" in wrong.stderr and
              len(wrong.stderr.splitlines()) <= 10 and "see current operation" not in wrong.stderr, wrong.stderr)
lonely.write_text("module {\n  nonsense\n}\n")
expect_error(checks, "no IR", ["compile", lonely, "--from=import", "--devices=cpu:1", "-o", out / "x.kerf"], 2, ["lonely.mlir:2:3: "])
checks.finish()
