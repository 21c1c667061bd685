# Inputs from files: sizes follow from them, archives and ids of 32 bits are taken, and what is wrong is said before
# anything is planned, in the user's names.
#
# REQUIRES: kerf, kerf-run, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import re
import shlex
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT, MODELS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "models"
checks = Checks()
MLP = MODELS / "mlp/model.onnx"
X, LOGITS = MODELS / "mlp/inputs/x.npy", np.load(MODELS / "mlp/outputs/logits.npy")


def graph(name, nodes, inputs, outputs):
    """A model of typed values with symbolic sizes; its path."""
    values = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
    model = helper.make_model(helper.make_graph(nodes, name, *values), opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    onnx.save(model, OUT / f"{name}.onnx")
    return OUT / f"{name}.onnx"


def npy(name, array):
    np.save(OUT / name, array)
    return OUT / name


def runs(name, arguments, output=None, expected=None, tool="kerf"):
    out = OUT / f"{name}.out"
    command = ["run", *arguments] if tool == "kerf" else arguments
    result = kerf(*command, f"--output-dir={out}", "-q", tool=tool)
    checks.expect(name, result.returncode == 0, result.stderr)
    if result.returncode or output is None:
        return None
    found = np.load(out / f"{output}.npy")
    if expected is not None:
        checks.expect(f"{name}: values", found.shape == expected.shape and np.allclose(found, expected, 1e-4, 1e-5), found)
    return found


# The sizes are those of the files, for run and verify, whatever the flag's form.
np.savez(OUT / "mlp.npz", x=np.load(X), labels=np.zeros(8))
np.savez_compressed(OUT / "packed.npz", x=np.load(X))
for name, flag in {"named": f"--input=x=@{X}", "alone": f"--input={X}", "at": f"--input=@{X}",
                   "archive": f"--input=@{OUT / 'mlp.npz'}", "packed": f"--input={OUT / 'packed.npz'}",
                   "member": f"--input=x=@{OUT / 'mlp.npz'}"}.items():
    runs(name, [MLP, flag, "--devices=cpu:2"], "logits", LOGITS)
result = kerf("verify", MLP, f"--input={X}", "--devices=2")
checks.expect("verify", result.returncode == 0 and "equal" in result.stdout, result.stdout + result.stderr)

# An input that no output depends on is shown as that, and need not be given.
IDLE = graph("idle", [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["mask"], ["unused"])],
             [("x", TensorProto.FLOAT, ["batch", 3]), ("mask", TensorProto.FLOAT, ["batch", 3])], [("y", TensorProto.FLOAT, ["batch", 3])])
pair = npy("pair.npy", np.ones((2, 3), np.float32))
for flags, sizes in (([], "batch, 3"), (["--dim=batch=2"], "batch=2, 3")):
    shown, document = kerf("inspect", IDLE, *flags).stdout, json.loads(kerf("inspect", IDLE, "--json", *flags).stdout)
    checks.expect(f"not read {flags}", f"  x: float[{sizes}]\n  mask: float[{sizes}] (not read)\n" in shown, shown)
    checks.expect(f"not read, JSON {flags}", [each.get("read", True) for each in document["inputs"]] == [True, False], document["inputs"])
runs("what is read alone", [IDLE, f"--input=x=@{pair}"], "y", -np.ones((2, 3), np.float32))
runs("both", [IDLE, f"--input=x=@{pair}", f"--input=mask=@{pair}"], "y", -np.ones((2, 3), np.float32))
expect_error(checks, "what is read is missing", ["run", IDLE, f"--input=mask=@{pair}"], 2, ['input "x" \\(f32 \\[batch, 3\\]\\) is missing'])

# Two inputs that share a size; ids of 32 bits where 64 are asked for.
TWO = graph("two", [helper.make_node("Gather", ["table", "ids"], ["rows"], axis=0),
                    helper.make_node("Add", ["rows", "bias"], ["y"])],
            [("table", TensorProto.FLOAT, ["words", 3]), ("ids", TensorProto.INT64, ["batch"]),
             ("bias", TensorProto.FLOAT, ["batch", 3])], [("y", TensorProto.FLOAT, ["batch", 3])])
table, ids, bias = np.arange(15, dtype=np.float32).reshape(5, 3), np.array([4, 0], np.int32), np.ones((2, 3), np.float32)
np.savez(OUT / "two.npz", table=table, ids=ids, bias=bias)
np.savez(OUT / "near.npz", table=table, ids_=ids, bias=bias)
np.savez(OUT / "far.npz", table=table, tokens=ids, bias=bias)
runs("ids of 32 bits", [TWO, f"--input=@{OUT / 'two.npz'}"], "y", table[ids] + bias)
# Several in one flag, as --dim takes them; a file that is there keeps the commas of its name.
npy("ids.npy", ids), npy("table.npy", table)
npy("ids,bias=2.npy", ids[::-1])
for name, flags, expected in (
        ("a file and a number", [f"--input=table=@{OUT / 'table.npy'},ids=@{OUT / 'ids.npy'},bias=1"], table[ids] + bias),
        ("numbers first", [f"--input=ids=4,bias=1,table=@{OUT / 'table.npy'}", "--dim=batch=2"], table[[4, 4]] + bias),
        ("an archive behind", [f"--input=bias=3,@{OUT / 'rows.npz'}"], table[ids] + 3),
        ("an archive first", [f"--input=@{OUT / 'rows.npz'},bias=3"], table[ids] + 3),
        ("a comma in a name", [f"--input=ids=@{OUT / 'ids,bias=2.npy'},bias=1", f"--input=table=@{OUT / 'table.npy'}"], table[ids[::-1]] + bias)):
    np.savez(OUT / "rows.npz", table=table, ids=ids)
    runs(name, [TWO, *flags], "y", expected)
runs("half random", [TWO, f"--input=table=@{npy('table.npy', table)}", f"--input=ids=@{npy('ids.npy', ids)}",
                     "--random-inputs"])
result = kerf("run", TWO, f"--input=@{OUT / 'two.npz'}", "--repeat=4")
checks.expect("times", result.returncode == 0 and "4 steps: median " in result.stdout and ", least " in result.stdout
              and " samples/s" not in result.stdout, result.stdout)  # words and batch differ
result = kerf("run", MLP, f"--input={X}", "--repeat=3")
checks.expect("samples per second", "3 steps: median " in result.stdout and " samples/s" in result.stdout, result.stdout)
result = kerf("run", MODELS / "bert-small/model.onnx", "--dim=batch=2", "--seed=1", "--repeat=2")
checks.expect("tokens per second", " samples/s; " in result.stdout and " tokens/s" in result.stdout,
              result.stdout + result.stderr)

# A name of some of an input's words, or of more, means it where it is the only one.
CODED = graph("words", [helper.make_node("Add", ["input_ids", "attention_mask"], ["y"])],
              [(name, TensorProto.INT64, ["batch", 3]) for name in ("input_ids", "attention_mask")], [("y", TensorProto.INT64, ["batch", 3])])
for name, said in (("ids", 'did you mean "input_ids"'), ("mask", 'did you mean "attention_mask"'), ("the.attention-mask", 'did you mean "attention_mask"'),
                   ("id", 'there are: '), ("position", 'there are: ')):
    expect_error(checks, f"an input called {name}", ["run", CODED, f"--input={name}=0"], 2, [f'no input "{name}", {said}'])

# Integers of another name may be categories in columns.
table_node = helper.make_node("Constant", [], ["stored"], value=helper.make_tensor("stored", TensorProto.FLOAT, [5, 4], [1.0] * 20))
codes = npy("codes.npy", np.zeros((2, 3), np.int64))
for name, said in (("ids", True), ("decoder_input_ids", True), ("Tokens", True), ("categories", False), ("widths", False)):
    coded = graph(f"coded-{name}", [table_node, helper.make_node("Gather", ["stored", name], ["y"])], [(name, TensorProto.INT64, ["batch", 3])],
                  [("y", TensorProto.FLOAT, ["batch", 3, 4])])
    shown = kerf("run", coded, f"--input={codes}", "--repeat=2").stdout
    checks.expect(f"{name} are tokens: {said}", " samples/s" in shown and (" tokens/s" in shown) == said, shown)

# The same package, for both drivers.
package = OUT / "two.kerf"
compiled = kerf("compile", TWO, "--dim=words=5,batch=2", "-o", package)
checks.expect("compiles", compiled.returncode == 0, compiled.stderr)
for tool in ("kerf", "kerf-run"):
    runs(f"package by {tool}", [package, f"--input=@{OUT / 'two.npz'}"], "y", table[ids] + bias, tool=tool)
    runs(f"package by {tool}, commas", [package, f"--input=bias=2,ids=@{OUT / 'ids.npy'},table=@{OUT / 'table.npy'}"], "y", table[ids] + 2, tool=tool)

# Files bind sizes beside --state, too, and the state is no input.
CELL = graph("cell", [helper.make_node("Add", ["x", "h_in"], ["h_out"])],
             [("x", TensorProto.FLOAT, ["batch", 4]), ("h_in", TensorProto.FLOAT, ["batch", 4])],
             [("h_out", TensorProto.FLOAT, ["batch", 4])])
cell = npy("cell.npy", np.ones((2, 4), np.float32))
runs("a state", [CELL, "--state=h_out=h_in", f"--input=x=@{cell}"])

# The note on the cut ends in a command that shows the same plan, with all flags that made it, as a shell takes it.
spaced = OUT / "a model's.onnx"
spaced.write_bytes(CELL.read_bytes())
for name, model, flags in (("state", spaced, ["--state=h_out=h_in", f"--input=x=@{cell}"]),
                           ("precision", MLP, [f"--input={X}", "--precision=bf16", "--batch-dim=x=-1"]),
                           ("machine", MLP, [f"--input={X}", "--machine=pcie-8", "--micro-batches=1", "--mesh=tp=2"])):
    dump = OUT / f"{name}.dump"
    ran = kerf("run", model, *flags, "--devices=cpu:2", f"--dump-dir={dump}")
    command = re.search("^note: runs on 2 ranks of this CPU as .*; (kerf plan .*) shows this plan$", ran.stderr, re.M)
    checks.expect(f"{name}: a command", ran.returncode == 0 and command, ran.stderr)
    if command:
        shown = subprocess.run([*shlex.split(command[1]), "--json"], capture_output=True, text=True)
        found, planned = json.loads(shown.stdout or "{}"), json.loads((dump / "plan.json").read_text())
        checks.expect(f"{name}: the plan that ran", shown.returncode == 0 and all(
            found.get(key) == planned[key] for key in ("mesh", "objective", "machine", "values")), command[1] + shown.stderr)

# 16-bit outputs: NumPy reads them as float32 where that is asked for.
for kind, name in ((TensorProto.FLOAT16, "half"), (TensorProto.BFLOAT16, "brain")):
    cast = graph(name, [helper.make_node("Cast", ["x"], ["y"], to=kind)], [("x", TensorProto.FLOAT, ["n"])],
                 [("y", kind, ["n"])])
    values = np.array([0.5, -1.25, 3], np.float32)
    found = runs(name, [cast, f"--input={npy('v.npy', values)}", "--output-dtype=f32"], "y", values)
    checks.expect(f"{name}: float32", found is not None and found.dtype == np.float32, found)
    found = runs(f"{name} as computed", [cast, f"--input={OUT / 'v.npy'}"], "y")
    checks.expect(f"{name}: 16 bits", found is not None and found.dtype.itemsize == 2, found)
    shown = kerf("run", cast, f"--input={OUT / 'v.npy'}").stdout
    checks.expect(f"{name}: shown", "min -1.25, max 3, mean 0.75" in shown, shown)


def refused(name, arguments, *patterns):
    out = OUT / f"{name}.out"
    expect_error(checks, name, ["run", *arguments, f"--output-dir={out}"], 2, patterns, absent=[out])


# Refused by both drivers alike.
for tool, model in (("kerf run", ["run", package]), ("kerf-run", [package]), ("kerf run model", ["run", TWO])):
    binary = "kerf-run" if tool == "kerf-run" else "kerf"
    def wrong(name, flags, *patterns):
        expect_error(checks, f"{tool}: {name}", [*model, *flags], 2, patterns, tool=binary)
    wrong("nothing", [], r'inputs "table" \(f32 .*"ids" \(i64 .*"bias" .* are missing: .*@FILE.npz.*--random-inputs or --seed')
    wrong("one missing", [f"--input=table=@{OUT / 'table.npy'}", f"--input=ids=@{OUT / 'ids.npy'}"],
          r'input "bias" \(f32 .*\) is missing: give --input bias=@FILE.npy')
    wrong("misspelt", [f"--input=tabel=@{OUT / 'table.npy'}"], r'no input "tabel", did you mean "table"\?')
    wrong("other", ["--input=weather=1"], r'no input "weather", there are: table, ids, bias')
    wrong("no name", [f"--input={OUT / 'table.npy'}"], r"has 3 inputs, expected --input NAME=@.*table.npy with one of: table")
    wrong("big-endian", [f"--input=bias=@{npy('big.npy', bias.astype('>f4'))}"], r"big\.npy: numbers are big-endian, expected little-endian")
    wrong("rounds", [f"--input=bias=@{npy('doubles.npy', bias.astype(np.float64))}"],
          r'doubles.npy: is f64 2x3, input "bias" expects f32 .*, which does not hold every f64; NumPy\'s .astype\("float32"\)')
    wrong("rank", [f"--input=ids=@{OUT / 'table.npy'}"], r'table.npy: is f32 5x3, input "ids" expects i64')
    wrong("no array", [f"--input=ids=@{OUT / 'mlp.npz'}"], r'mlp.npz: has no array "ids", there are: .*"labels"')
    wrong("no array fits", [f"--input=@{OUT / 'mlp.npz'}"], r"mlp.npz: none of its arrays \(.*\) is an input")
    wrong("a misspelt array", [f"--input=@{OUT / 'near.npz'}", "--seed=1"], r'near.npz: array "ids_" is no input, and input "ids" is not given')
    wrong("other arrays", [f"--input=@{OUT / 'far.npz'}"], r'input "ids" .* is missing: .*; arrays of .*far.npz: .*tokens')
    wrong("twice", [f"--input=@{OUT / 'two.npz'}", "--input=bias=1"], r'input "bias" is given twice')
    wrong("neither", ["--input=table"], r"--input 'table': expected NAME=@FILE.npy")
    wrong("no file", ["--input=ids=@absent.npy"], "absent.npy: cannot open")
    wrong("no file of several", ["--input=ids=@absent.npy,bias=1"], "absent.npy: cannot open")
    wrong("misspelt behind a comma", [f"--input=ids=@{OUT / 'ids.npy'},bais=1"], r'no input "bais", did you mean "bias"\?')
    wrong("no @", ["--input=ids=absent.npy"], "no such file; .*: --input ids=@absent.npy")
    for number in ("1.5", "1e30", "nan", "9007199254740993"):
        wrong(f"no integer {number}", [f"--input=ids={number}"], f"input \"ids\": '{number}' is not a number of type i64")
    wrong("no float", ["--input=bias=1e39"], "'1e39' is not a number of type f32")

# Sizes that contradict each other, or --dim.
npy("three.npy", np.ones((3, 3), np.float32))
refused("two sizes", [TWO, f"--input=ids=@{OUT / 'ids.npy'}", f"--input=bias=@{OUT / 'three.npy'}", "--seed=1"],
        r'three.npy: dimension "batch" of input "bias" is 3, by input "ids" of \S*ids.npy it is 2')
refused("not the dim", [TWO, "--dim=batch=4", f"--input=ids=@{OUT / 'ids.npy'}", "--seed=1"],
        r'ids.npy: dimension "batch" of input "ids" is 2, by --dim it is 4')
# Integers of few bits, and bools.
for kind, name, bad in ((TensorProto.UINT8, "u8", ("256", "-1")), (TensorProto.INT8, "i8", ("128",)), (TensorProto.BOOL, "bool", ("2", "-1"))):
    narrow = graph(name, [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], [("x", kind, [3])],
                   [("y", TensorProto.FLOAT, [3])])
    for number in bad:
        said = "no value of type bool, expected true, false, 1, 0 or @FILE.npy\n" if name == "bool" else f"not a number of type {name}"
        refused(f"{name} {number}", [narrow, f"--input=x={number}"], f"'{number}' is {said}")
    runs(f"{name} 1", [narrow, "--input=x=1"], "y", np.ones(3, np.float32))
# What a boolean may be called, on the command line and where it is bound.
for text, value in (("true", 1), ("false", 0), ("True", 1), ("False", 0)):
    runs(f"bool {text}", [narrow, f"--input=x={text}"], "y", np.full(3, value, np.float32))
    runs(f"bool bound {text}", [narrow, f"--constant=x={text},1,{text}"], "y", np.array([value, 1, value], np.float32))
for text in ("yes", "TRUE", "", "0.5"):
    refused(f"bool '{text}'", [narrow, f"--input=x={text}"], f"'{text}' is no value of type bool, expected true, false, 1, 0 or @FILE.npy\n")
refused("bool bound yes", [narrow, "--constant=x=yes,1,1"], '"yes" is no integer; expected @FILE.npy or true, false, 1 or 0, of type i1')
refused("no bool", [narrow.with_name("u8.onnx"), "--input=x=true"], "'true' is neither @FILE.npy nor a number")
# A row that is not there: the lookup's own node, also where a kernel does more, and the model's name, not a temporary one.
ROWS = graph("rows", [helper.make_node("Gather", ["table", "ids"], ["rows"], "look", axis=0),
                      helper.make_node("Add", ["rows", "bias"], ["sum"], "add"), helper.make_node("Exp", ["sum"], ["y"], "last")],
             [("table", TensorProto.FLOAT, [5, 3]), ("ids", TensorProto.INT64, [2]), ("bias", TensorProto.FLOAT, [2, 3])],
             [("y", TensorProto.FLOAT, [2, 3])])
result = kerf("run", ROWS, "--input=ids=7", "--seed=1")
checks.expect("row", result.returncode == 5 and result.stderr == f"error: {ROWS}:look: index 7 is out of range of a dimension of size 5 on rank 0\nnote: input \"ids\" has it at [0]\n",
              result.stderr)
# Doubles are shown like other floats.
wide = graph("wide", [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)], [("x", TensorProto.FLOAT, ["n"])],
             [("y", TensorProto.DOUBLE, ["n"])])
shown = kerf("run", wide, f"--input={OUT / 'v.npy'}").stdout
checks.expect("f64 is shown", shown == "y: f64 3, min -1.25, max 3, mean 0.75\n", shown)
# NaN is counted, and what is shown is of the other elements.
for name, values, said in (("one", [0.5, np.nan, -1.5, 3], "1 of 4 is NaN, min -1.5, max 3, mean 0.6666667"),
                           ("two", [np.nan, 2, np.inf, np.nan], "2 of 4 are NaN, min 2, max inf, mean inf"),
                           ("infinities", [-np.inf, np.nan, np.inf], "1 of 3 is NaN, min -inf, max inf, mean nan"), ("all", [np.nan] * 2, "all NaN")):
    shown = kerf("run", wide, f"--input={npy('nan.npy', np.array(values, np.float32))}").stdout
    checks.expect(f"NaN, {name}", re.sub(r"0\.66666\d*", "0.6666667", shown) == f"y: f64 {len(values)}, {said}\n", shown)
# The mean of nothing is NaN, as ONNX's reference has it, which others have as 0; that of an empty batch of rows has no elements.
MEANS = graph("means", [*(helper.make_node("ReduceMean", ["x"], [y], name, keepdims=0) for name, y in (("mean", "a"), ("again", "b"))),
                        helper.make_node("GlobalAveragePool", ["image"], ["c"], "pool"),
                        helper.make_node("GlobalAveragePool", ["none"], ["d"], "no_images"), helper.make_node("ReduceSum", ["x"], ["e"], "sum", keepdims=0)],
              [("x", TensorProto.FLOAT, [2, 0]), ("image", TensorProto.FLOAT, [2, 3, 0]), ("none", TensorProto.FLOAT, [0, 3, 5])],
              [("a", TensorProto.FLOAT, []), ("b", TensorProto.FLOAT, []), ("c", TensorProto.FLOAT, [2, 3, 1]), ("d", TensorProto.FLOAT, [0, 3, 1]),
               ("e", TensorProto.FLOAT, [])])
result = kerf("run", MEANS, "--seed=1")
checks.expect("means of nothing", result.stdout.splitlines()[:3] == ["a: f32 scalar, all NaN", "b: f32 scalar, all NaN", "c: f32 2x3x1, all NaN"]
              and "note: mean: the mean of nothing is NaN, where some runtimes give 0; the same of 2 more: again, pool\n" in result.stderr,
              result.stderr + result.stdout)
# An input that steers a shape is bound by a constant, which inspect says before sizes are known; the array of an archive
# that has the others, too, is passed over.
SIX, ONE = (helper.make_node("Constant", [], [name], value=helper.make_tensor(name, TensorProto.INT64, [], [value]))
            for name, value in (("six", 6), ("one", 1)))
STEER = graph("steer", [SIX, ONE, helper.make_node("Range", ["off", "six", "one"], ["rows"], "range"),
                        helper.make_node("Gather", ["x", "rows"], ["y"], axis=1)],
              [("x", TensorProto.FLOAT, ["batch", 8]), ("off", TensorProto.INT64, []), ("z", TensorProto.FLOAT, ["batch"])],
              [("y", TensorProto.FLOAT, ["batch", "n"])])
WANTED = "off, which steers a shape (--constant off=@FILE.npy or --constant off=1,2,3)"
for flags in ([], ["--dim=batch=2"]):
    result = kerf("inspect", STEER, *flags)
    checks.expect(f"inspect {flags}", f"  {WANTED}\n" in result.stdout and ("these are bound" in result.stdout) == (not flags), result.stdout + result.stderr)
result = kerf("inspect", STEER, "--constant=off=2")
checks.expect("inspect, bound", "steers" not in result.stdout and "these dimensions are bound" in result.stdout, result.stdout + result.stderr)
np.savez(OUT / "steered.npz", x=np.arange(16, dtype=np.float32).reshape(2, 8), off=np.int64(1), z=np.zeros(2, np.float32))
result = kerf("run", STEER, f"--input=@{OUT}/steered.npz", "--constant=off=2")
checks.expect("an archive beside a constant", result.returncode == 0 and result.stdout == "y: f32 2x4, min 2, max 13, mean 7.5\n"
              and f'note: input "off" is what --constant says, not what {OUT}/steered.npz has\n' in result.stderr, result.stdout + result.stderr)
# Nothing is planned for it, or a wish that cannot be would be an error.
refused("planning", [TWO, "--shard=nobody=[{tp}]", "--seed=1", "--dim=words=5,batch=2"], "--shard: no value is named 'nobody'")
refused("before planning", [TWO, "--shard=nobody=[{tp}]", "--input=weather=1"], 'no input "weather"')
checks.finish()
