"""The examples that stand in .td descriptions, and how a fragment becomes a module.

An example is what stands between ```mlir and ``` in a description. Most are
fragments: values are used that nobody defines. Their types are what the parser
finds at their uses: it names the type when it meets a definition of another
one. So a fragment gets its missing values one after another, all examples in
one run of kerf-opt, until each is a module that verifies.
"""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

TBLGEN = shutil.which("llvm-tblgen")
LLVM_INCLUDE = pathlib.Path(TBLGEN).resolve().parent.parent / "include" if TBLGEN else None


def records(source, td):
    """All records of a .td file, as TableGen's JSON has them."""
    command = [TBLGEN, "-I", str(LLVM_INCLUDE), "-I", str(source / "dialects"), "-I", str(source / "include"),
               "--dump-json", str(td)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def blocks(description):
    """The ```mlir blocks of a description, without its indentation."""
    found = re.findall(r"^([ \t]*)```mlir\n(.*?)^[ \t]*```", description or "", re.S | re.M)
    return ["\n".join(line[len(indent):] if line.startswith(indent) else line for line in text.splitlines())
            for indent, text in found]


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def defined(text):
    """Names that the fragment defines, arguments of its functions included."""
    text = without_comments(text)
    names = set(re.findall(r"%([\w$.-]+): (?:tensor|memref|!)", text))
    for left in re.findall(r"^\s*((?:%[\w$.-]+(?::\d+)?(?:,\s*)?)+)\s*=[^=]", text, re.M):
        names.update(re.findall(r"%([\w$.-]+)", left))
    return names


def missing(text):
    """Names that are used and not defined, in the order of their first use."""
    known, found = defined(text), []
    for name in re.findall(r"%([\w$.-]+)", without_comments(text)):
        if name not in known and name not in found:
            found.append(name)
    return found


class Fragment:
    """One example. `contexts`: functions of (values, text, end) that give a module: definitions of the
    values that are known, the fragment, definitions of the others. The first in which it parses is taken."""

    def __init__(self, name, text, contexts):
        self.name, self.text, self.contexts = name, text, contexts
        self.errors, self.types, self.context = [], {}, 0

    def module(self):
        known = [(name, self.types[name]) for name in missing(self.text) if name in self.types]
        unknown = [name for name in missing(self.text) if name not in self.types]
        return self.contexts[self.context](known, self.text, unknown)

    def failed(self, message):
        """Learns from an error; False if there is nothing left to try."""
        # The type that a value has at its uses, where the placeholder's is another.
        typed = re.search(r"definition of SSA value '%([\w$.-]+)#0' has type 'none'.*?"
                          r"previously used here with type '([^\n]*)'", message, re.S)
        typed = typed or re.search(r"use of value '%([\w$.-]+)' expects different type than prior uses: "
                                   r"'none' vs '([^\n]*)'", message)
        if typed and typed[1] not in self.types:
            self.types[typed[1]] = typed[2]
            return True
        self.errors.append(message)
        self.context, self.types = self.context + 1, {}
        return self.context < len(self.contexts)


def resolve(fragments, options=("--allow-unregistered-dialect",)):
    """Runs the fragments until each verifies or nothing is left to try; gives those that failed."""
    waiting, hopeless = list(fragments), []
    while waiting:
        text, starts = "", []
        for fragment in waiting:
            starts.append(text.count("\n") + 1)
            text += fragment.module() + "\n// -----\n"
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(text)
            file.flush()
            run = subprocess.run(["kerf-opt", "--split-input-file", *options, file.name], capture_output=True,
                                 text=True)
        messages = {}
        for part in re.split(rf"^(?={re.escape(file.name)}:\d+:\d+: error: )", run.stderr, flags=re.M):
            at = re.match(r"[^:\n]*:(\d+):", part)
            if at:
                index = max(i for i, start in enumerate(starts) if start <= int(at[1]))
                messages[index] = messages.get(index, "") + part
        if not messages and run.returncode:
            raise RuntimeError(run.stderr)
        hopeless += [waiting[i] for i, message in messages.items() if not waiting[i].failed(message)]
        waiting = [waiting[i] for i in sorted(messages) if waiting[i] not in hopeless]
    return hopeless
