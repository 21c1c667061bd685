# ZeRO as a choice of the planner: memory falls by what lies in parts, the choice is made where the limit rules out what is
# cheapest without, the plan and its report say it in words, and it is the same plan when it is read back or its passes are
# run one by one.
#
# REQUIRES: kerf, kerf-opt
# RUN: %python %s %t %inputs
import json
import pathlib
import subprocess
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
MODEL = INPUTS / "training/gpt2/model.onnx"
TRAIN = ["--dim=batch=64", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.001", "--recompute=none"]
BIG = INPUTS / "graphs/gpt2-124m/model.onnx"
P = 124_439_808


def plan(*flags, model=MODEL, train=TRAIN):
    result = kerf("plan", model, *train, "--json", *flags, timeout=600)
    return json.loads(result.stdout) if result.returncode == 0 else result


def device(document):
    return max(document["memory"]["per_device"], key=lambda each: each["peak"])


# GPT-2 124M on four devices: what AdamW holds of each parameter, in bytes: whole 4 + 8; ZeRO 1 4 + 8/4; ZeRO 3 (4 + 8)/4.
# In bfloat16 the float32 parameters of products are in parts with 1 already: only the table, which the lookup reads in
# float32, and what is no factor of a product are whole.
WIDE = P - 12 * 12 * 768 * 768
EVERYTHING = "--all" in sys.argv
for precision, held in (("f32", {"none": 12 * P, "1": 6 * P, "2": 6 * P, "3": 3 * P}),
                        ("bf16", {"none": 12 * P, "1": 3 * P + 3 * WIDE, "2": 3 * P + 3 * WIDE, "3": 3 * P}))[:2 if EVERYTHING else 1]:
    found = {zero: plan("--devices=4", "--mesh=dp=4", "--micro-batches=2", f"--zero={zero}", f"--precision={precision}",
                        "--memory-limit=1TiB", model=BIG, train=["--dim=batch=8", *TRAIN[1:]]) for zero in held}
    small = 4_500_000  # a mask of 1024 x 1024, and other constants
    for zero, document in found.items():
        fullest = device(document)
        kept = fullest["parameters"] + fullest["optimizer"]
        checks.expect(f"{precision}, ZeRO {zero}: parameters and states", held[zero] <= kept <= held[zero] + small, f"{kept}, {held[zero]}")
        ratio = fullest["predicted"]["peak"] / fullest["peak"]
        checks.expect(f"{precision}, ZeRO {zero}: memory is predicted", 0.95 <= ratio <= 1.05, str(ratio))
        checks.expect(f"{precision}, ZeRO {zero}: proven", document["objective"]["gap"] <= 0.01, str(document["objective"]))
    peaks = [device(found[zero])["peak"] for zero in ("none", "1", "2", "3")]
    checks.expect(f"{precision}: each kind takes less", all(a > b for a, b in zip(peaks, peaks[1:])), str(peaks))
    # The sums over micro-batches are whole with 1 and a quarter with 2.
    less = peaks[1] - peaks[2]
    checks.expect(f"{precision}: gradients in parts", 0.95 * 3 * P <= less + (0 if precision == "f32" else P * 0.1), f"{less}")

# Without a limit that binds nothing of the kind is searched; with one that none keeps, the cheapest of what is left.
DP = ["--devices=4", "--mesh=dp=4", "--micro-batches=1"]
free = {zero: plan(*DP, f"--zero={zero}") for zero in ("auto", "none", "1", "2", "3")}
checks.expect("no limit", free["auto"]["zero"] == 0 and free["auto"]["in_parts"] == [] and
              not any("zero" in each for each in free["auto"]["runners_up"]))
checks.expect("the rule is said", "ZeRO 1, 2 and 3" in free["auto"]["objective"]["candidates"] and
              "optimizer states and gradients in parts" in free["2"]["objective"]["candidates"], free["2"]["objective"]["candidates"])
peaks = {zero: device(document)["peak"] for zero, document in free.items()}
checks.expect("each takes less", peaks["none"] > peaks["1"] > peaks["3"], str(peaks))
for kind, limit in (("1", (peaks["none"] + peaks["1"]) // 2), ("3", (peaks["1"] + peaks["3"]) // 2)):
    LIMIT = [*DP, f"--memory-limit={limit}B"]
    without = plan(*LIMIT, "--zero=none")
    checks.expect(f"{kind}: no plan without", not isinstance(without, dict) and without.returncode == 4, str(without))
    chosen = plan(*LIMIT)
    checks.expect(f"{kind}: a plan with it", isinstance(chosen, dict), str(chosen))
    if not isinstance(chosen, dict):
        continue
    checks.expect(f"{kind}: it keeps the limit", device(chosen)["peak"] <= limit and chosen["zero"] >= int(kind),
                  f"{chosen['zero']}, {device(chosen)['peak']}, {limit}")
    checks.expect(f"{kind}: the bound holds", chosen["objective"]["lower_bound"] <= chosen["objective"]["cost"])
    checks.expect(f"{kind}: the kinds are listed", {each.get("zero", 0) for each in chosen["runners_up"]} == {0, 1, 2, 3})
    (OUT / "plan.json").write_text(json.dumps(chosen))
    shown = kerf("report", OUT / "plan.json").stdout
    checks.expect(f"{kind}: the report says it", f"zero      {chosen['zero']}: optimizer states" in shown and "in parts over dp" in shown, shown)

# The same plan when it is given, and pass by pass.
for zero, precision, flags in (("1", "bf16", ["--mesh=dp=4", "--micro-batches=2"]), ("2", "f32", ["--mesh=pp=2,dp=2", "--micro-batches=4"]),
                               ("3", "f32", ["--mesh=dp=2,tp=2", "--micro-batches=1"]), ("3", "bf16", ["--mesh=pp=2,dp=2", "--micro-batches=4"]),
                               ("auto", "f32", ["--mesh=dp=4", "--micro-batches=1", f"--memory-limit={(peaks['none'] + 3 * peaks['1']) // 4}B"])):
    flags = ["--devices=4", f"--zero={zero}", f"--precision={precision}", *flags]
    name = f"{zero}, {precision}, {flags[3]}"
    folder = OUT / f"{zero}-{precision}-{flags[3][7:]}"
    compiled = kerf("compile", MODEL, *TRAIN, *flags, "--print-pipeline", f"--dump-dir={folder}", "-q", "-o", f"{folder}.kerf")
    checks.expect(f"{name} is compiled", compiled.returncode == 0, compiled.stderr)
    pipeline = dict(line.split(None, 1) for line in compiled.stdout.splitlines()).get("plan", "")
    checks.expect(f"{name}: the pipeline shows it", f"zero={zero}" in pipeline, pipeline)
    opt = subprocess.run(["kerf-opt", f"--pass-pipeline={pipeline}", folder / "02-autodiff.mlir"], capture_output=True, text=True)
    dumped = subprocess.run(["kerf-opt", folder / "03-plan.mlir"], capture_output=True, text=True)
    checks.expect(f"{name}: kerf-opt does the same", opt.returncode == 0 and opt.stdout == dumped.stdout, opt.stderr[:500])
    chosen = json.loads((folder / "plan.json").read_text())
    if "machine" in chosen:
        (OUT / "machine.json").write_text(json.dumps(chosen["machine"]))
    given = kerf("plan", MODEL, *TRAIN[:-1], "--json", f"--precision={precision}", f"--plan={folder / 'plan.json'}")
    checks.expect(f"{name}: given", given.returncode == 0, given.stderr)
    if given.returncode:
        continue
    again = json.loads(given.stdout)
    for key in ("zero", "in_parts", "values", "mesh", "communication"):
        checks.expect(f"{name}, given: the same {key}", again[key] == chosen[key], f"{str(again[key])[:500]}\n{str(chosen[key])[:500]}")
    checks.expect(f"{name}, given: the same cost", abs(again["objective"]["cost"] - chosen["time"]["step_seconds"]) <= 1e-9 * again["objective"]["cost"],
                  f"{again['objective']['cost']}, {chosen['time']['step_seconds']}")
    checks.expect(f"{name}, given: the same memory", device(again)["peak"] == device(chosen)["peak"])

# What is no wish, and what cannot be.
for flags, code, reason in ((["--zero=1"], 2, "a step that trains"), (["--train", *TRAIN[2:], "--zero=4"], 2, "--zero"),
                            (["--train", *TRAIN[2:], "--devices=4", "--mesh=tp=4", "--zero=2"], 2,
                             "optimizer states and gradients could lie in parts, expected --mesh with dp of at least 2"),
                            (["--train", *TRAIN[2:], "--devices=1", "--zero=3"], 2, "which takes several devices"),
                            (["--train", *TRAIN[2:-1], f"--plan={OUT / 'plan.json'}", "--zero=1"], 2, "--zero")):
    refused = kerf("plan", MODEL, "--dim=batch=8", *flags)
    checks.expect(f"{flags[-1]} is refused", refused.returncode == code and reason in refused.stderr, refused.stderr)
broken = json.loads((OUT / "plan.json").read_text())
for wrong, reason in ((7, "zero: expected 0, 1, 2 or 3"), ("all", "zero: expected")):
    (OUT / "broken.json").write_text(json.dumps(dict(broken, zero=wrong)))
    refused = kerf("plan", MODEL, *TRAIN[:-1], f"--plan={OUT / 'broken.json'}")
    checks.expect(f"zero {wrong}", refused.returncode == 2 and reason in refused.stderr, refused.stderr)
checks.finish()
