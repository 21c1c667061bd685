# Every example of the exec dialect's descriptions is read, verified and printed. What an example uses and does not
# define, buffers mostly, is declared around it with the types that the example gives.
#
# REQUIRES: kerf-opt
# RUN: %python %s %t
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPE = r"(?:memref|!exec\.weight)<[^<>]*>"
TOP = ("kernel", "func", "stage", "parameter", "model_input", "model_output", "channel")
INSTRUCTIONS = ("slot", "input", "output", "run", "zero", "send", "recv")


def examples():
    """(op or attribute, text) of every example."""
    for file in sorted((ROOT / "dialects/kerf/Exec").glob("*.td")):
        definition = ""
        for match in re.finditer(r"^def (\w+)|```mlir\n(.*?)```", file.read_text(), re.M | re.S):
            if match[1]:
                definition = match[1]
            else:
                yield definition, match[2]


def statements(text):
    """An op each; what is indented further, and what a region holds, belongs to the op before."""
    lines = [line for line in text.splitlines() if line.strip()]
    indent = len(lines[0]) - len(lines[0].lstrip())
    found, depth = [], 0
    for line in lines:
        begins = re.match(r" {%d}(%%\w+ = )?exec\." % indent, line) and depth == 0
        found.append(line) if begins else found.__setitem__(-1, found[-1] + "\n" + line)
        depth += line.count("{") - line.count("}") if "sharding" not in line else 0
    return found


def undefined(text):
    """{name: type} of the buffers that the text uses."""
    types = dict(re.findall(r"\((%%?\w+) : (%s)" % TYPE, text))
    names = [n for n in dict.fromkeys(re.findall(r"%\w+", text)) if not re.search(re.escape(n) + r" = ", text)]
    rest = [n for n in names if n not in types]
    types.update(zip(rest, re.findall(TYPE, text)))
    return {name: types[name] for name in names if name in types}


def place(text, top, body):
    """Adds one op where it may stand."""
    op = re.search(r"exec\.(\w+)", text)[1]
    if op in TOP:
        top.append(text)
    elif op in INSTRUCTIONS:
        slots = [f'{name} = exec.slot "s" : {type}' for name, type in undefined(text).items()]
        top.append("exec.stage %d {\n%s\n%s\n}" % (len(top) + 10, "\n".join(slots), text))
    elif op == "collective_wait":
        body.append(('%e = exec.collective_start 0 all_reduce sum ["dp"] %x -> %x bytes 0 purpose gradient phase backward '
                     'node "" : memref<4xf32> -> memref<4xf32>\n' + text, {"%x": "memref<4xf32>"}))
    else:
        body.append((text, undefined(text)))


count, top, body, attributes = 0, [], [], []
for definition, text in examples():
    count += 1
    if text.lstrip().startswith("#exec."):
        attributes += [f"test.a{len(attributes) + i} = {a.strip()}" for i, a in enumerate(re.split(r"\n(?=\s*#)", text))]
    elif text.lstrip().startswith("module"):
        attributes += [re.search(r"exec\.target = #.*?>", text, re.S)[0]]
    elif definition != "Exec_WeightType":
        for statement in statements(text):
            place(statement, top, body)
module = ['module attributes {exec.mesh = #dist<mesh_shape["pp"=2, "dp"=2, "tp"=2] time ["mb"=4]>, %s} {'
          % ", ".join(attributes), *top]
for number, (text, types) in enumerate(body):
    weights = [f"{name} = exec.weight 0 : {type}" for name, type in types.items() if type.startswith("!")]
    arguments = ", ".join(f"{name}: {type}" for name, type in types.items() if not type.startswith("!"))
    module.append(f"exec.func @f{number}({arguments}) attributes {{num_inputs = 0 : i64, stage = 0 : i64, "
                  "phase = #exec<phase forward>} {\n" + "\n".join([*weights, text, "exec.return"]) + "\n}")
path = pathlib.Path(sys.argv[1] + ".mlir")
path.write_text("\n".join([*module, "}"]))
result = subprocess.run(["kerf-opt", path], capture_output=True, text=True)
print(result.stderr)
sys.exit(0 if result.returncode == 0 and count > 30 else f"{count} examples, kerf-opt ends with {result.returncode}")
