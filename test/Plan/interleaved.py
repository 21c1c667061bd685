# Interleaved pipelines, as a choice of the user and of the search: the chunks are in plan.json and in the report, what devices hold is
# predicted, the plan is the same when it is read back, and what cannot be is refused.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import json
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
MODEL = INPUTS / "training/gpt2/model.onnx"
TRAIN = ["--dim=batch=512", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.001"]
PIPE = ["--devices=2", "--mesh=pp=2", "--micro-batches=4", "--memory-limit=1TiB"]
CHUNKS = [*PIPE, "--schedule=interleaved"]


def run(*flags):
    return kerf("plan", MODEL, *flags, timeout=600)


def plan(*flags):
    result = run(*TRAIN, "--json", *flags)
    checks.expect(f"{' '.join(flags)} is planned", result.returncode == 0, result.stderr[:2000])
    return json.loads(result.stdout) if result.returncode == 0 else None


plans = {chunks: plan(*CHUNKS, f"--chunks={chunks}") for chunks in (2, 3, 4)}
for chunks, document in plans.items():
    if not document:
        continue
    schedule = document["schedule"]
    checks.expect(f"{chunks}: the schedule says so", schedule["kind"] == "interleaved" and schedule["chunks"] == chunks, str(schedule))
    found = {(value["stage"], value.get("chunk", 0)) for value in document["values"] if "stage" in value}
    checks.expect(f"{chunks}: each stage has as many", found == {(stage, chunk) for stage in (0, 1) for chunk in range(chunks)}, str(found))
    for stage, runs in enumerate(each["runs"] for each in document["stages"]):
        order = [(each["phase"], each.get("chunk", 0)) for each in runs]
        checks.expect(f"{chunks}: stage {stage} runs all", all(order.count((phase, chunk)) == 4 for phase in ("forward", "backward")
                                                              for chunk in range(chunks)), str(order))
    for number, device in enumerate(document["memory"]["per_device"]):
        ratio = device["predicted"]["peak"] / device["peak"]
        checks.expect(f"{chunks}: memory of stage {number} is predicted", 0.95 <= ratio <= 1.15, str(ratio))
    objective = document["objective"]
    checks.expect(f"{chunks}: the bound holds", 0 < objective["lower_bound"] <= objective["cost"], str(objective))
    checks.expect(f"{chunks}: the rule is said", f"of {chunks} chunks in an interleaved schedule" in objective["candidates"], objective["candidates"])
    path = OUT / f"{chunks}.json"
    path.write_text(json.dumps(document))
    shown = kerf("report", path).stdout
    checks.expect(f"{chunks}: the report says it", f"interleaved 1F1B, {chunks} chunks per stage" in shown, shown)
    again = run(*TRAIN, "--json", f"--plan={path}")
    checks.expect(f"{chunks}: it is read back", again.returncode == 0, again.stderr[:2000])
    if again.returncode == 0:
        other = json.loads(again.stdout)
        same = all(other[key] == document[key] for key in ("mesh", "schedule", "values", "stages", "time"))
        checks.expect(f"{chunks}: and is the same", same)

# What is sent grows with the crossings; of one boundary with two chunks there are three.
flat = plan(*PIPE, "--schedule=1f1b")
if flat and plans[2]:
    sent = [each["communication"]["total_bytes"] for each in (flat, plans[2])]
    checks.expect("chunks send more", sent[0] < sent[1], str(sent))

# Without --chunks 2, 3 or 4 are taken, the best of them.
free = plan(*CHUNKS)
checks.expect("2, 3 or 4", free and free["schedule"]["chunks"] in (2, 3, 4) and "of 2, 3 or 4 chunks" in free["objective"]["candidates"])
near = 1 + 1e-9
checks.expect("the best of them", free and all(free["objective"]["cost"] <= plans[chunks]["objective"]["cost"] * near for chunks in (2, 3, 4)))

# Nor need it be asked for: the search takes the fastest schedule of all, and the bound is below each of them.
auto = plan(*PIPE)
if auto and flat and free:
    objective = auto["objective"]
    checks.expect("auto takes the fastest", objective["cost"] <= min(each["objective"]["cost"] for each in (flat, free)) * near, str(objective))
    checks.expect("which is interleaved here", auto["schedule"]["kind"] == "interleaved" and free["objective"]["cost"] < flat["objective"]["cost"])
    checks.expect("its bound holds for all", objective["lower_bound"] <= min(each["objective"]["cost"] for each in (flat, free, *plans.values())))
    checks.expect("the rule is said", "also interleaved 1F1B of 2, 3 or 4 chunks per stage" in objective["candidates"], objective["candidates"])
    mine = auto["runners_up"][0]
    checks.expect("and of the candidate", mine.get("chunks") == auto["schedule"]["chunks"], mine)
several = plan(*PIPE[:2])
if several:
    (OUT / "auto.json").write_text(json.dumps(several))
    shown, best = kerf("report", OUT / "auto.json", "-v").stdout, several["runners_up"][0]
    text = f"pp=2, {best['micro_batches']} micro-batches, {best.get('chunks')} chunks"
    checks.expect("in the report", text in shown, shown)
# Bytes: nothing but 1F1B and GPipe, unless it is asked for. Other schedules: what was asked for.
for flags, kinds in ((["--objective=volume"], ("1f1b", "gpipe")), (["--schedule=gpipe"], ("gpipe",)), (["--schedule=1f1b"], ("1f1b",))):
    other = plan(*PIPE, *flags)
    checks.expect(f"{flags[0]} alone", other and other["schedule"]["kind"] in kinds and "interleaved" not in other["objective"]["candidates"])
odd = plan("--devices=2", "--mesh=pp=2", "--micro-batches=1")
checks.expect("1 micro-batch is not interleaved", odd and odd["schedule"]["kind"] == "1f1b")

# Under limits between what 1F1B and what chunks hold: whatever is taken keeps the limit, and more memory never costs time.
if auto and flat:
    held = [max(device["peak"] for device in each["memory"]["per_device"]) for each in (flat, auto)]
    checks.expect("chunks hold more", held[0] < held[1], str(held))
    costs, kinds = [], []
    for share in (0, 0.4, 0.8, 1.05):
        limit = int(held[0] + share * (held[1] - held[0]))
        tight = plan(*PIPE[:3], f"--memory-limit={limit}B", "--recompute=none")
        if tight:
            checks.expect(f"{limit} is kept", max(device["peak"] for device in tight["memory"]["per_device"]) <= limit)
            costs.append(tight["objective"]["cost"])
            kinds.append(tight["schedule"]["kind"])
    checks.expect("1F1B where there is little, chunks where there is more", kinds and kinds[0] == "1f1b" and kinds[-1] == "interleaved", str(kinds))
    checks.expect("more memory costs no time", costs == sorted(costs, reverse=True), str(costs))

for wrong, text in (
        ([*PIPE, "--chunks=2"], "--chunks is of --schedule=interleaved"),
        (["--devices=2", "--mesh=pp=2", "--micro-batches=1", "--schedule=interleaved"], "a multiple of the 2 stages as micro-batches"),
        ([*CHUNKS, "--chunks=5000"], "cannot make 2 stages of 5000 chunks")):
    result = run(*TRAIN, *wrong)
    checks.expect(f"{' '.join(wrong)} is refused", result.returncode != 0 and text in result.stderr, result.stderr[:1000])
if plans[2]:
    bad = json.loads((OUT / "2.json").read_text())
    for text, change in (("schedule: chunks is 1, expected at least 2", lambda: bad["schedule"].pop("chunks")),
                         ("schedule: chunks is 2, expected 1, unless it is interleaved",
                          lambda: bad["schedule"].update(chunks=2, kind="1f1b")),
                         ("chunk is none of 2", lambda: (bad["schedule"].update(kind="interleaved"),
                                                         [value.update(chunk=2) for value in bad["values"] if "chunk" in value])),):
        change()
        (OUT / "bad.json").write_text(json.dumps(bad))
        result = run(*TRAIN, f"--plan={OUT / 'bad.json'}")
        checks.expect(f"refused: {text}", result.returncode != 0 and text in result.stderr, result.stderr[:1000])
    result = run(*TRAIN, f"--plan={OUT / '2.json'}", "--chunks=3")
    checks.expect("another number beside the plan", result.returncode == 2 and "has 2 in each stage" in result.stderr, result.stderr[:1000])
checks.finish()
