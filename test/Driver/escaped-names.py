# Names of a damaged model do not reach the terminal as they are: whatever a command prints is valid UTF-8 without
# control characters, what is not printable stands as \xNN, letters of all languages stay, and the name that is printed is
# the one that flags and files take.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, fresh_folder

OUT = fresh_folder(sys.argv[1])
checks = Checks()
# Placeholders of eight bytes, and what is put in their place: an escape sequence, a byte that is no UTF-8, a line feed
# with what looks like another message, the single-byte form of an escape sequence, a mark that turns text around.
BAD = {"INPUT___": b"x\x1b[31m\xff\xc3", "WEIGHT__": b"w\nerror:", "NODE____": b"n\x1b]0;ab\x07", "OUTPUT__": b"\xc2\x9b2Jyyyy",
       "GRAPH___": b"g\xe2\x80\xae\x1b[1m", "SYMBOL__": b"s\x1b[31m\xff\xfe", "PRODUCER": b"p\rerror:", "OPERATOR": b"O\x1b[2J\xed\xa0\x80",
       "LETTERS_": "größen".encode()}
PRINTED = {"INPUT___": r"x\x1b[31m\xff\xc3", "WEIGHT__": r"w\x0aerror:", "NODE____": r"n\x1b]0;ab\x07", "OUTPUT__": r"\xc2\x9b2Jyyyy",
           "SYMBOL__": r"s\x1b[31m\xff\xfe", "LETTERS_": "größen", "PRODUCER": r"p\x0derror:",
           "OPERATOR": r"O\x1b[2J\xed\xa0\x80"}


def model(path, op_type="MatMul", dim="SYMBOL__"):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["INPUT___", "WEIGHT__"], ["h"], name="NODE____"),
         helper.make_node("MatMul" if op_type == "MatMul" else "OPERATOR", ["h", "LETTERS_"], ["OUTPUT__"], name="NODE____2")],
        "GRAPH___", [helper.make_tensor_value_info("INPUT___", TensorProto.FLOAT, [dim, 4])],
        [helper.make_tensor_value_info("OUTPUT__", TensorProto.FLOAT, [dim, 4])],
        [numpy_helper.from_array(np.ones((4, 4), np.float32), "WEIGHT__"),
         numpy_helper.from_array(np.ones((4, 4), np.float32), "LETTERS_")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, producer_name="PRODUCER")
    data = proto.SerializeToString()
    for name, bad in BAD.items():
        assert len(bad) == 8, name
        data = data.replace(name.encode(), bad)
    path.write_bytes(data)
    return path


def run(name, arguments, code, shown=(), tool="kerf"):
    """What is printed is printable; gives stdout."""
    result = subprocess.run([tool, *map(os.fspath, arguments)], capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    problems = [f"exit {result.returncode}, expected {code}"] if result.returncode != code else []
    both = result.stdout + result.stderr
    try:
        text = both.decode()
        problems += [f"lacks {each}" for each in shown if each not in text]
        if found := re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text):
            problems.append(f"holds {found.group()!r}")
        problems += [f"a line of its own: {line}" for line in text.splitlines() if line.startswith("error:") and code == 0]
    except UnicodeDecodeError as error:
        problems.append(str(error))
    checks.expect(name, not problems, f"{problems}\n{both!r}")
    return result.stdout


P = PRINTED
MODEL, BOUND = model(OUT / "m.onnx"), ["--dim", P["SYMBOL__"] + "=4"]
run("inspect", ["inspect", MODEL, *BOUND], 0, [P["INPUT___"], P["OUTPUT__"], P["SYMBOL__"], P["PRODUCER"]])
shown = json.loads(run("inspect, JSON", ["inspect", MODEL, *BOUND, "--json"], 0))
checks.expect("inspect, JSON's names", shown["inputs"][0]["name"] == P["INPUT___"], shown)
run("not bound", ["inspect", MODEL], 0, [P["SYMBOL__"]])
run("plan", ["plan", MODEL, *BOUND, "--devices=2", "-o", OUT / "p.json"], 0, [P["WEIGHT__"]])
run("plan -v", ["plan", MODEL, *BOUND, "--devices=2", "-v"], 0, [P["WEIGHT__"], P["LETTERS_"]])
plan = json.loads((OUT / "p.json").read_text())
checks.expect("plan's names", {P["INPUT___"], P["WEIGHT__"], P["LETTERS_"], P["NODE____"]} <= {v["name"] for v in plan["values"]},
              plan["values"])
run("plan, IR", ["plan", MODEL, *BOUND, "--stop-after=plan"], 0)
run("plan taken back", ["verify", MODEL, *BOUND, "--plan", OUT / "p.json"], 0, [P["OUTPUT__"]])
run("report", ["report", OUT / "p.json"], 0, [P["WEIGHT__"]])
run("report, html", ["report", OUT / "p.json", "--html", OUT / "p.html"], 0)
(OUT / "p.html").read_text()
run("bad hint", ["plan", MODEL, *BOUND, "--devices=2", "--shard", b"no\x1b[31m\xff=[{tp},{}]"], 2, [r"no\x1b[31m\xff"])
run("compile", ["compile", MODEL, *BOUND, "-o", OUT / "m.kerf"], 0)
run("input is missing", [OUT / "m.kerf"], 2, [P["INPUT___"]], tool="kerf-run")
run("kerf-run", [OUT / "m.kerf", "--seed=1", "--output-dir", OUT / "o", "--stats", OUT / "r.json"], 0, [P["OUTPUT__"]],
    tool="kerf-run")
json.loads((OUT / "r.json").read_text())
run("no such input", ["run", MODEL, *BOUND, b"--input=z\x1b\xff=@x.npy"], 2, [P["INPUT___"], r"z\x1b\xff"])
np.save(OUT / "x.npy", np.zeros((3, 4), np.float32))
run("wrong input", ["run", MODEL, *BOUND, f"--input={P['INPUT___']}=@{OUT / 'x.npy'}"], 2, [P["INPUT___"]])
run("damaged", ["verify", MODEL, *BOUND, "--devices=2", f"--damage={P['NODE____']}"], 1, [P["NODE____"]])
run("unsupported", ["plan", model(OUT / "u.onnx", "OPERATOR"), *BOUND], 3, [P["OPERATOR"], P["NODE____"]])
# Files from the command line, and options.
odd = os.fsencode(OUT) + b"/a\x1b[31m\xff.onnx"
pathlib.Path(os.fsdecode(odd)).write_bytes(b"no model")
run("file", ["inspect", odd], 3, [r"a\x1b[31m\xff.onnx: "])
run("no file", ["report", b"b\x1b[31m.json"], 2, [r"b\x1b[31m.json"])
run("no option", ["plan", b"--b\x1b[31m"], 2)
run("no command", [b"b\x1b[31m\xff"], 2, [r"b\x1b[31m\xff"])
run("kerf-run, no package", [b"b\x1b[31m\xff"], 2, [r"b\x1b[31m\xff"], tool="kerf-run")
(OUT / "d.json").write_text(json.dumps({"schema": "kerf.plan/1\x1b[2J\x9b"}, ensure_ascii=False))
run("schema", ["report", OUT / "d.json"], 2, [r"\x1b[2J\xc2\x9b"])
# Trained: the file keeps its own bytes, the weights' names are those that are printed.
np.savez(OUT / "d.npz", **{P["INPUT___"]: np.ones((8, 4), np.float32), "t": np.ones((8, 4), np.float32)})
run("train", ["train", MODEL, *BOUND, "--loss", f"mse({P['OUTPUT__']},t)", "--optimizer=sgd,lr=0.01", f"--data={OUT / 'd.npz'}",
              "--steps=2", "-o", OUT / "t.onnx"], 0, [P["WEIGHT__"]])
checks.expect("trained", (OUT / "t.onnx").exists() and BAD["WEIGHT__"] in (OUT / "t.onnx").read_bytes())
checks.finish()
