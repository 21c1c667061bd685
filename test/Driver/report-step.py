# Plans of training steps with parts over devices, blocks that are computed again and stages in chunks: the page says what the
# text says of them and of the candidates, and two plans side by side say in what they differ.
#
# REQUIRES: kerf
# RUN: %python %s %t %inputs
import html
import json
import pathlib
import re
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
STEP = ["plan", INPUTS / "training/gpt2/model.onnx", "--dim=batch=512", "--devices=4", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw"]
PLAIN, FULL = OUT / "plain.json", OUT / "full.json"
kerf(*STEP, "--mesh=pp=2,dp=2", "--micro-batches=4", "--schedule=1f1b", "--zero=none", "--recompute=none", "-q", "-o", PLAIN)
kerf(*STEP, "--mesh=pp=2,dp=2", "--micro-batches=4", "--schedule=interleaved", "--chunks=2", "--zero=3", "--recompute=all", "-q", "-o", FULL)

# The plan's own memory was predicted above the limit, and another candidate's is; one is the same under another name, and
# one has no plan.
plan = json.loads(FULL.read_text())
taken = {**plan["runners_up"][0], "chunks": 2, "zero": 3, "recompute_every": 1}
peak = max(device["peak"] for device in plan["memory"]["per_device"])
plan["memory"]["limit"] = peak + 1
plan["runners_up"] = [{**taken, "peak_memory_bytes": peak + 4096}, {**taken, "cost": 2 * taken["cost"], "zero": 2, "peak_memory_bytes": 2 * peak},
                      {**taken, "cost": 3 * taken["cost"], "zero": 1}, {**taken, "cost": 3 * taken["cost"], "zero": 1, "mesh": {"pp": 2, "x": 2}},
                      {"mesh": {"dp": 4}, "micro_batches": 2, "zero": 1, "status": "infeasible", "reason": "nothing fits"}]
EDITED = OUT / "edited.json"
EDITED.write_text(json.dumps(plan))
text = kerf("report", EDITED, "-v").stdout
kerf("report", EDITED, "--html", OUT / "page.html")
page = html.unescape(re.sub("<[^>]*>", " ", (OUT / "page.html").read_text()))
page = " ".join(page.split())


def expect(name, pattern):
    """What a part of a line says stands in the text, and on the page."""
    found = re.search(pattern, text, re.M)
    checks.expect(f"{name}: in the text", found, text)
    for part in found.groups() if found else ():
        checks.expect(f"{name}: on the page", " ".join(part.split()) in page, (part, page))


NAME = "pp=2 x dp=2, 4 micro-batches, 2 chunks, all blocks computed again, ZeRO "
for line in ("cut", "why", "else"):
    expect(line, rf"^{line} +(.*)$")
expect("zero", r"^zero +(3: optimizer states, gradients and parameters in parts over dp)$")
expect("recompute", r"^recompute (2 blocks, .* of a step, instead of holding up to .* of each micro-batch: \S+ to \S+; \S+ to \S+)$")
expect("schedule", r"^stages +(interleaved 1F1B, 2 chunks per stage) \(each (waits for others .*, on average)\)$")
expect("the plan", rf"^  ({NAME}3) .* memory (\S+ [KM]iB) +\((above the limit, laid out within it)\)$")
expect("above the limit", rf"^  ({NAME}2) +(\S+ ms) +step (\S+ ms) +busiest rank (\S+ [KM]iB) +memory (\S+ [KM]iB) +\((above the limit)\)$")
expect("alike", rf"^  ({NAME}1) .* \((the same: pp=2 x x=2)\)$")
expect("no plan", r"^  (dp=4, 2 micro-batches, ZeRO 1): (nothing fits)$")
expect("collectives", r"^  \d+ x (\S+ over dp, .*): (at most \S+ [KM]iB) per rank \((\S+ / N each)\)")
expect("memory", r"^memory per device, (laid out)")
expect("planning", r"^(planned in .*; 1 mesh .*)$")
checks.expect("above the limit: as often", page.count("above the limit") == text.count("above the limit") > 1, page)

# Side by side.
shown = kerf("report", PLAIN, "--diff", FULL).stdout
for name, first, second in (("schedule", "1f1b", "interleaved"), ("chunks per stage", "1", "2"), ("ZeRO", "0", "3"), ("recompute", "none", "2 blocks")):
    checks.expect(f"{name} differs", re.search(rf"^  {name} +{first} +{second} +differs$", shown, re.M), shown)
same = kerf("report", FULL, "--diff", FULL).stdout
checks.expect("nothing of the kind where they are equal", "mesh" in same and not re.search("^  (schedule|chunks|ZeRO|recompute)", same, re.M), same)
checks.finish()
