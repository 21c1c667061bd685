# A plan on a screen: three sentences, tables of few rows, alike layers in one line; all of it with -v.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()
GPT2 = ["plan", INPUTS / "graphs/gpt2-124m/model.onnx", "--dim=batch=8", "--machine=h100-8"]


def plan(name, *flags):
    result = kerf(*GPT2, *flags, "-o", OUT / f"{name}.json")
    checks.expect(f"{name} is planned", result.returncode == 0, result.stderr)
    return result.stdout


searched, given = plan("searched"), plan("given", "--mesh=dp=2,tp=4")
for text, name in ((searched, "searched"), (given, "given")):
    checks.expect(f"{name} fits a screen", len(text.splitlines()) <= 48, text)
    checks.expect(f"{name}: lines are no longer than needed", max(map(len, text.splitlines())) <= 200, text)
checks.expect("which cut, and why", re.search(r"^cut       x cuts the data, and every device of it has all parameters\n"
                                              r"why       of [0-9.]+ ms predicted for a step, [0-9.]+ ms compute and 0 ns wait .*sends 0 B$", searched, re.M), searched)
checks.expect("the runner-up", re.search(r"^else      the runner-up, .*, would take (as long|[0-9.]+ .s, [0-9.]+ times as long)$", searched, re.M), searched)
checks.expect("an axis that cuts parameters", re.search(r"^cut       dp cuts the data.*; tp cuts \d+ of \d+ parameters \(", given, re.M), given)
idle = kerf("plan", INPUTS / "models/mlp/model.onnx", "--dim=batch=1", "--devices=3", "--mesh=dp=3").stdout
checks.expect("an axis that cuts nothing", "\ncut       dp cuts nothing: all its devices compute the same\n" in idle, idle)
checks.expect("layers together", re.search(r"model\.transformer\.h\.0-11: \S+, \S+", given) and "h.7." not in given, given)
checks.expect("rows are left out", "kinds (-v)" in given or "more meshes (-v)" in searched, given)
small = ["plan", INPUTS / "models/gpt2-small/model.onnx", "--dim=batch=8", "--machine=h100-8"]
short, full = kerf(*small).stdout, kerf(*small, "-v").stdout
value = "model.transformer.h.1.mlp.c_fc.weight  "
checks.expect("-v has every value", value in full and value not in short, full[:2000])
checks.expect("-v says what the pure cuts are", "if it were cut one way alone" in full and "article: each device to every other one" in full
              and "cut one way alone" not in given, full[-3000:])

# What keeps meshes from having a plan is said once per reason.
tight = kerf(*small[:-1], "--machine=h100-4", "--memory-limit=150KiB").stdout
reasons = [line for line in tight.splitlines() if line.endswith(": nothing fits")]
checks.expect("nothing fits, once", len(reasons) == 1 and "; " in reasons[0], tight)

# Two plans: the same layers in one line.
result = kerf("report", OUT / "searched.json", "--diff", OUT / "given.json")
checks.expect("diff of layers", re.search(r"^  model\.transformer\.h\.0-11\.attn\.c_attn\.bias  \{\} against \{\"tp\"\}$", result.stdout, re.M)
              and "h.7." not in result.stdout, result.stdout[-3000:])
checks.finish()
