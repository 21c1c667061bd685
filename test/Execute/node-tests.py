# ONNX's own node tests as a user runs them: through `kerf run`, compiled, in two processes; all 1,884 under --full, here
# with --some of each operator a third, and of its function bodies one in eight, but one of both at least
# (test/Import/node-tests.py reads them all). What Kerf takes gives the numbers that come with ONNX; what it refuses is
# refused with a reason. docs/generated/NodeTests.md says which pass: a case that it does not list as not passed must pass.
# A new pass asks to write it again (.ci/node-tests.sh).
#
# REQUIRES: kerf-commands, onnx
# RUN: %python %s %t %inputs %S/../../docs/generated/NodeTests.md --some
import collections
import pathlib
import re
import subprocess
import sys
import textwrap

out, inputs, document = map(pathlib.Path, sys.argv[1:4])
sys.path.insert(0, str(inputs))
import node_tests

ranks = [int(each) for option in sys.argv[4:] if option.startswith("--ranks=") for each in option[8:].split(",")] or [1]
write = "--write" in sys.argv[4:]
SEEDS = (1, 2, 3)
KNOWN = node_tests.KNOWN
COLUMNS = {1: "one rank", 2: "2 ranks", 4: "4 ranks"}


def measure(cases, count):
    """name -> (kind, why) on so many ranks; on several a case passes when it does so with the plan of every seed."""
    if count == 1:
        return node_tests.run_all(cases, ["--devices=cpu:1"])
    verdicts = {}
    for seed in SEEDS:
        each = node_tests.run_all(cases, [f"--devices=cpu:{count}", "--solver=random", f"--seed={seed}"])
        for name, (kind, why) in each.items():
            if verdicts.get(name, ("pass", ""))[0] == "pass":
                verdicts[name] = (kind, why if kind == "pass" else f"{why} (--devices=cpu:{count} --solver=random "
                                  f"--seed={seed})")
    return verdicts


def interpreted():
    """Names that the interpreter passes; none where its tool is not built."""
    run = subprocess.run(["kerf-node-tests", out], capture_output=True, text=True, errors="replace", timeout=1500)
    return {line.split(" ")[1] for line in run.stdout.splitlines() if line.startswith("pass ")}


def section(title):
    """The names that the committed document lists under a title."""
    text = document.read_text() if document.exists() else ""
    at = text.find(f"## {title}\n")
    return set() if at < 0 else set(re.findall(r"\btest_\w+", text[at:].split("\n## ")[0]))


def title(count):
    return "Not passed on one rank" if count == 1 else f"Not passed on {count} ranks, though on one"


def table(cases, results, interpreter):
    """The whole document."""
    operator = node_tests.operators(cases)
    groups = collections.defaultdict(list)
    for case in cases:
        groups[operator[case.name]].append(case.name)
    passes = [{name for name, (kind, _) in results[count].items() if kind == "pass"} for count in sorted(results)]
    passes.append(interpreter)
    lines = [
        "# ONNX's node tests", "",
        *textwrap.wrap(f"All {len(cases)} node tests of ONNX {node_tests.onnx.__version__}, as test/Execute/node-tests.py runs "
                       "them: compiled, through `kerf run`, on one rank with the planner's own choice and on 2 and 4 with "
                       "`--solver=random`, where a case counts when it passes with the plans of three seeds; and interpreted. An "
                       "operator's row has the expanded forms of its tests (its function body) as well. Written by "
                       "`.ci/node-tests.sh`.", 120), "",
        "| operator | cases | " + " | ".join(COLUMNS[count] for count in sorted(results)) + " | interpreted | why not |",
        "|---|" + "--:|" * (2 + len(results)) + "---|",
        "| **all** | " + " | ".join(str(number) for number in (len(cases), *map(len, passes))) + " | |"]
    for name in sorted(groups, key=str.lower):
        members = groups[name]
        reasons = collections.Counter(
            why for why in (short(results[1][member], member) for member in members) if why)
        text = "; ".join(why if number == len(members) else f"{number}: {why}" for why, number in reasons.most_common())
        counts = [len(members), *(len(each.intersection(members)) for each in passes)]
        lines.append(f"| {name} | " + " | ".join(map(str, counts)) + f" | {text} |")
    for count in sorted(results):
        lines += ["", f"## {title(count)}", ""]
        causes = collections.defaultdict(list)
        for name, verdict in sorted(results[count].items()):
            if verdict[0] != "pass" and (count == 1 or results[1][name][0] == "pass"):
                causes[short(verdict, name)].append(name)
        if not causes:
            lines.append("None.")
        for why, names in sorted(causes.items(), key=lambda each: (-len(each[1]), each[0])):
            lines += textwrap.wrap(f"- {why}: " + ", ".join(names), 120, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def short(verdict, name):
    """Why not, with what differs from case to case left out."""
    kind, why = verdict
    if kind == "pass":
        return ""
    why = re.sub(r" \(operator set \d+\)", "", why)
    why = re.sub(r"--constant \S*: \S*: element type", "element type", why)
    return KNOWN.get(name, "wrong numbers") if kind == "differ" else why.replace("|", "\\|")


def some(cases):
    """Of each operator every third case, and every eighth that is a function body; the first of both in any case."""
    operator, seen, chosen = node_tests.operators(cases), collections.Counter(), []
    for case in cases:
        kind = operator[case.name], "_expanded" in case.name
        if seen[kind] % (8 if kind[1] else 3) == 0:
            chosen.append(case)
        seen[kind] += 1
    return chosen


cases = node_tests.load(out, some if "--some" in sys.argv[4:] else lambda cases: cases)
results = {count: measure(cases, count) for count in ranks}
lost, wrong, new = [], [], []
for count, verdicts in results.items():
    print(f"{COLUMNS[count]}: {dict(collections.Counter(kind for kind, _ in verdicts.values()))}")
    excused = section(title(count)) | section(title(1))
    for name, (kind, why) in sorted(verdicts.items()):
        if kind in ("differ", "failed") and name not in KNOWN:
            wrong.append(f"{kind} on {COLUMNS[count]}: {name}: {why}")
        elif kind == "refused" and name not in excused:
            lost.append(f"no longer passes on {COLUMNS[count]}: {name}: {why}")
        elif kind == "pass" and name in section(title(count)):
            new.append(name)
print(*wrong, *([] if write else lost[:40]), sep="\n")
if new and not write:
    print(f"{len(new)} pass that {document.name} does not know: write it again by .ci/node-tests.sh", *new[:20])
if write:
    document.write_text(table(cases, results, interpreted()))
# Without the document nothing would be guarded.
sys.exit(bool(wrong) or (not write and (bool(lost) or not section(title(1)))))
