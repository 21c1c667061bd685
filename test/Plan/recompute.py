# What computing blocks again saves and costs: memory falls, the choice is made where the limit rules out what is cheapest
# without, the plan says which blocks, and is the same one when it is read back or its passes are run one by one.
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
TRAIN = ["--dim=batch=512", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.001"]


def plan(*flags, model=MODEL, train=TRAIN):
    result = kerf("plan", model, *train, "--json", *flags, timeout=600)
    return json.loads(result.stdout) if result.returncode == 0 else result


def peak(document):
    return max(device["peak"] for device in document["memory"]["per_device"])


def blocks(document):
    return [block["first"] for block in document["recompute"]]


# By hand: less memory for more time; layers are the blocks.
found = {every: plan(f"--recompute={every}") for every in ("none", "all", "2")}
checks.expect("blocks", [len(blocks(found[every])) for every in found] == [0, 2, 1], str({e: blocks(d) for e, d in found.items()}))
checks.expect("memory falls", peak(found["all"]) < 0.75 * peak(found["none"]) and peak(found["all"]) < peak(found["2"]) < peak(found["none"]),
              str({every: peak(document) for every, document in found.items()}))
checks.expect("time rises", found["none"]["objective"]["cost"] < found["2"]["objective"]["cost"] < found["all"]["objective"]["cost"])
checks.expect("the model does no more", len({document["model"]["flops"] for document in found.values()}) == 1)
for every, document in found.items():
    seconds = sum(block["seconds"] for block in document["recompute"])
    more = document["time"]["step_seconds"] - found["none"]["time"]["step_seconds"]
    checks.expect(f"{every}: what it costs is said", abs(seconds - more) <= 0.02 * found["none"]["time"]["step_seconds"],
                  f"{seconds}, the step takes {more} more")
    for device in document["memory"]["per_device"]:
        ratio = device["predicted"]["peak"] / device["peak"]
        checks.expect(f"{every}: memory is predicted", 0.95 <= ratio <= 1.05, str(ratio))

# Without a limit that binds nothing is computed again, and nothing of the kind is searched.
free = plan()
checks.expect("no limit", blocks(free) == [] and free["objective"]["cost"] == found["none"]["objective"]["cost"] and
              not any("recompute_every" in each for each in free["runners_up"]))
# Between what all blocks take and what is needed without: one micro-batch keeps the limit only with recomputation.
limit = (peak(found["all"]) + peak(found["2"])) // 2
ONE = ["--micro-batches=1", f"--memory-limit={limit}B"]
without = plan("--recompute=none", *ONE)
checks.expect("no plan without", not isinstance(without, dict) and without.returncode == 4, str(without))
chosen = plan(*ONE)
checks.expect("a plan with it", isinstance(chosen, dict), str(chosen))
checks.expect("it keeps the limit", peak(chosen) <= limit and len(blocks(chosen)) == 2, f"{peak(chosen)}, {limit}")
checks.expect("the rule is said", "computed again" in chosen["objective"]["candidates"] and
              {each.get("recompute_every", 0) for each in chosen["runners_up"]} >= {0, 1}, str(chosen["runners_up"]))
checks.expect("the bound holds", chosen["objective"]["lower_bound"] <= chosen["objective"]["cost"])
# Any number of micro-batches: whatever is cheapest.
both, held = plan(f"--memory-limit={limit}B"), plan(f"--memory-limit={limit}B", "--recompute=none")
checks.expect("the cheaper one", both["objective"]["cost"] <= held["objective"]["cost"] * (1 + 1e-9) and peak(both) <= limit,
              f"{both['objective']['cost']}, without {held['objective']['cost']}")

# The report names it, and the plan is the same plan when it is given.
(OUT / "plan.json").write_text(json.dumps(chosen))
shown = kerf("report", OUT / "plan.json").stdout
checks.expect("the report says it", "recompute 2 blocks" in shown, shown)
given = kerf("plan", MODEL, *TRAIN, "--json", f"--plan={OUT / 'plan.json'}")
checks.expect("given", given.returncode == 0, given.stderr)
again = json.loads(given.stdout)
for key in ("recompute", "values", "mesh", "communication"):
    checks.expect(f"given: the same {key}", again[key] == chosen[key], f"{again[key]}\n{chosen[key]}")
checks.expect("given: the same memory", peak(again) == peak(chosen), f"{peak(again)}, {peak(chosen)}")
broken = dict(chosen, recompute=[{"first": "nothing"}])
(OUT / "broken.json").write_text(json.dumps(broken))
refused = kerf("plan", MODEL, *TRAIN, f"--plan={OUT / 'broken.json'}")
checks.expect("a block that is none", refused.returncode == 2 and "no block of the model begins with 'nothing'" in refused.stderr,
              refused.stderr)

# Pass by pass: the printed pipeline does the same to the dump of autodiff.
for flags in (["--recompute=all"], ["--recompute=auto", *ONE]):
    name = flags[0][2:].replace("=", "-")
    compiled = kerf("compile", MODEL, *TRAIN, *flags, "--print-pipeline", f"--dump-dir={OUT / name}", "-q",
                    "-o", OUT / f"{name}.kerf")
    checks.expect(f"{name} is compiled", compiled.returncode == 0, compiled.stderr)
    pipeline = dict(line.split(None, 1) for line in compiled.stdout.splitlines()).get("plan", "")
    checks.expect(f"{name}: the pipeline shows it", "recompute" in pipeline, pipeline)
    opt = subprocess.run(["kerf-opt", f"--pass-pipeline={pipeline}", OUT / name / "02-autodiff.mlir"], capture_output=True, text=True)
    dumped = subprocess.run(["kerf-opt", OUT / name / "03-plan.mlir"], capture_output=True, text=True)
    checks.expect(f"{name}: kerf-opt does the same", opt.returncode == 0 and opt.stdout == dumped.stdout, opt.stderr[:500])

# It is of training, and a wish that is none is refused.
for flags, reason in ((["--recompute=all"], "a step that trains"), (["--train", *TRAIN[2:], "--recompute=0"], "'0'"),
                      (["--train", *TRAIN[2:], "--recompute=some"], "'some'")):
    refused = kerf("plan", MODEL, "--dim=batch=8", *flags)
    checks.expect(f"{flags[-1]} is refused", refused.returncode == 2 and reason in refused.stderr, refused.stderr)
checks.finish()
