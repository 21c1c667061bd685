# Every pass has an example in its description, and a test of its name that runs it; the examples are true: what stands
# before "// becomes", sent through the pass, is what stands behind it. (Passes that only verify change nothing.)
#
# `// becomes, with OPTIONS` gives the pass options, `// becomes, on ["tp"=2]` and
# `on #exec.target<...>` say for which mesh or target that is so. Fragments become
# functions: what they use and do not define are arguments, what they define and
# do not use is returned. What nothing uses afterwards is left out. A whole `module`
# stands for itself, without a mesh.
#
# REQUIRES: kerf-opt
# RUN: %python %s %inputs
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, sys.argv[1])
from examples import Fragment, blocks, defined, missing, records, resolve, without_comments
from kerf_tests import Checks

SOURCE = pathlib.Path(sys.argv[1]).resolve().parent.parent
MESH = '["pp"=2, "dp"=2, "tp"=2] time ["mb"=2]'
checks = Checks()


def results(text):
    """Names that a fragment defines and does not use, in order."""
    text = without_comments(text)
    return [name for name in dict.fromkeys(re.findall(r"%([\w$.-]+)", text))
            if name in defined(text) and len(re.findall(rf"%{re.escape(name)}\b(?![\w$.-])", text)) == 1]


class Example:
    def __init__(self, name, text):
        self.name = name
        parts = re.split(r"^//[ \t]*becomes([^\n]*)$", text, flags=re.M)
        self.before, how, self.after = parts if len(parts) == 3 else (text, "", None)
        options = re.search(r", with (.*?)(?:, on |$)", how)
        place = re.search(r", on (.*)$", how)
        self.options = options[1] if options else ""
        self.target = place[1] if place and place[1].startswith("#exec.target") else None
        self.mesh = place[1] if place and place[1].startswith("[") else MESH
        self.has_mesh = "dist.mesh @" in text
        self.whole = bool(re.search(r"\b(func|exec)\.func\b|^\s*module\b", text))
        self.fragments = []
        if self.after is not None and not self.whole:
            self.arguments = list(dict.fromkeys(missing(self.before) + missing(self.after)))
            self.results = results(self.before)
            self.arguments += [name for name in self.results if name in missing(self.after) and
                               name not in self.arguments]
            self.fragments = [Fragment(f"{name}, before", self.before, [self.function(self.before)]),
                              Fragment(f"{name}, after", self.after, [self.function(self.after)])]

    def module(self, text):
        if text.lstrip().startswith("module"):
            return text
        if not self.has_mesh:
            text = f"dist.mesh @mesh {self.mesh}\n" + text
        if self.target:
            text = f"module attributes {{exec.target = {self.target}}} {{\n{text}\n}}\n"
        return text

    def function(self, fragment, types=None):
        """A context of Fragment: a function whose arguments are the values with a type."""
        def build(known, text, unknown):
            types = dict(known)
            given = {**self.known(), **types}
            returned = [given.get(name, "none") for name in self.results]
            arguments = ", ".join(f"%{name}: {given[name]}" for name in self.arguments
                                  if name in given and name not in defined(text))
            return self.module(
                f"func.func @example({arguments}) -> ({', '.join(returned)}) {{\n{text}\n" +
                ("  return" + (f" {', '.join('%' + name for name in self.results)} : {', '.join(returned)}"
                               if self.results else "") + "\n") +
                "".join(f'  %{name} = "example.value"() : () -> none\n' for name in unknown
                        if name not in given) + "}\n")
        return build

    def known(self):
        """Types that either half has learned."""
        types = {}
        for fragment in self.fragments:
            types.update(fragment.types)
        return types

    def modules(self):
        if self.whole:
            return self.module(self.before), self.module(self.after)
        return [fragment.module() for fragment in self.fragments]


def run(text, *flags):
    return subprocess.run(["kerf-opt", *flags], input=text, capture_output=True, text=True)


def check(argument, example):
    before, after = example.modules()
    flag = f"--{argument}" + (f"={example.options}" if example.options else "")
    made, wanted = run(before, flag, "--kerf-erase-dead-ops"), run(after, "--kerf-erase-dead-ops")
    problem = made.stderr if made.returncode else wanted.stderr if wanted.returncode else ""
    if not problem and made.stdout != wanted.stdout:
        problem = f"kerf-opt {flag} of\n{before}\ngives\n{made.stdout}\nexpected\n{wanted.stdout}"
    checks.expect(example.name, not problem, problem)


passes = [(td, record) for td in sorted(SOURCE.glob("include/kerf/*/Passes.td"))
          for found in [records(SOURCE, td)] for record in map(found.get, found["!instanceof"]["PassBase"])]
names = {record["argument"] for _, record in passes}


def tested_alone(phase, argument):
    """Whether a test of the pass's name runs it and none beside it but those that verify."""
    for test in (SOURCE / "test" / phase).glob(f"**/{argument.removeprefix('kerf-')}.mlir"):
        for line in re.findall(r"^// RUN[:] (.*)$", test.read_text(), flags=re.M):
            ran = names.intersection(re.findall(r"[\w-]+", line.replace("--", " ")))
            if {name for name in ran if name == argument or not name.startswith("kerf-verify-")} == {argument}:
                return True
    return False


examples = []
for td, record in passes:
    argument, phase = record["argument"], td.parent.name
    checks.expect(f"{argument} has a test of its name", tested_alone(phase, argument),
                  f"  no test/{phase}/**/{argument.removeprefix('kerf-')}.mlir runs it alone")
    shown = blocks(record["description"])
    # What kerf-apply-plan does, its file says; what kerf-write-package writes is no IR.
    checks.expect(f"{argument} has an example", shown or argument.startswith("kerf-verify-") or
                  argument in ("kerf-apply-plan", "kerf-write-package"),
                  f"  its description in {td.relative_to(SOURCE)} has no ```mlir block")
    for number, text in enumerate(shown):
        name = f"{argument} {number + 1}"
        for line in text.splitlines():
            # A string cannot be broken.
            checks.expect(f"{name}: columns", len(line) <= 120 or re.search(r'"[^"]{80}', line), f"  {len(line)} columns: {line}")
        example = Example(name, text)
        checks.expect(f"{name} shows before and after", example.after is not None, text)
        if example.after is not None:
            examples.append((argument, example))

failed = resolve([fragment for _, example in examples for fragment in example.fragments])
for fragment in failed:
    checks.expect(fragment.name, False, fragment.text + "\n" + "\n".join(fragment.errors[:2]))
for argument, example in examples:
    if not any(fragment in failed for fragment in example.fragments):
        check(argument, example)
checks.finish()
