# What is said of a run that is right but not what was meant: a mesh that cuts
# nothing, a batch that does not divide, what is trained and what is not. Nothing with -q.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import pathlib
import re
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
MLP = INPUTS / "training/mlp"
checks = Checks()


def notes(model, *flags):
    result = kerf("train", model, "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--steps=1",
                  f"--data={MLP / 'data.npz'}", "--threads=1", "--no-output", *flags)
    checks.expect(" ".join(map(str, flags)), result.returncode == 0, result.stderr)
    # What is trained is always said.
    lines = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    checks.expect("what is trained", ("-q" in flags) == (not lines) and ("-q" in flags or lines[0].startswith("note: trains ")),
                  result.stderr)
    # So is which cut was taken.
    cut = [line for line in lines if line.startswith("note: runs on ")]
    checks.expect("the cut", len(cut) == (any("--devices" in str(flag) for flag in flags) and "-q" not in flags), result.stderr)
    return [line for line in lines[1:] if line not in cut]


DP4 = ("--devices=cpu:4", "--mesh=dp=4")
idle = notes(MLP / "model.onnx", "--batch-size=1", *DP4)
checks.expect("idle axis", idle == ["note: nothing is cut over dp=4: all devices along it compute the same; dp cuts the batch alone, which is one "
                                    "sample"], str(idle))
quiet = notes(MLP / "model.onnx", "--batch-size=1", "-q", *DP4)
checks.expect("quiet", quiet == [], str(quiet))
padded = notes(MLP / "model.onnx", "--batch-size=16", "--devices=cpu:3", "--mesh=dp=3")
checks.expect("padding", sum("padding" in note for note in padded) == 1 and any(
    "note: padding, computed and thrown away: 2 of 18 along dimension 0 of input" in note
    and '"x"' in note and note.endswith(" (dp=3 cuts 16 into parts of 6)") for note in padded), str(padded))
even = notes(MLP / "model.onnx", "--batch-size=16", *DP4)
checks.expect("nothing to say", even == [], str(even))
half = kerf("plan", INPUTS / "models/mlp/model.onnx", "--dim=batch=2", *DP4).stderr
checks.expect("more ranks than samples", half == "note: dp=4 cuts nothing into more than 2 parts: of its devices 2 each compute the same; "
              "dp cuts the batch alone, and 2 samples are filled up to at most 3\n", half)
# Flags that change nothing by what the model and the data are.
for name, flags, said in (
        ("a seed of nothing", ["--seed=3", "--shuffle=off"],
         ["note: --seed: nothing is drawn, samples keep their order (--shuffle) and the model draws no numbers"]),
        ("a seed of the order", ["--seed=3"], []),
        ("evaluation behind the end", [f"--eval-data={MLP / 'data.npz'}", "--eval-every=2"],
         ["note: --eval-every: the run ends at step 1, before step 2; the trained model is evaluated"]),
        ("evaluation", [f"--eval-data={MLP / 'data.npz'}", "--eval-every=1"], []),
        ("no attention", ["--precision=bf16", "--fused-attention"], ["note: --fused-attention: the model has no attention that is one call"])):
    found = notes(MLP / "model.onnx", "--batch-size=16", *flags)
    checks.expect(name, found == said, str(found))
found = notes(MLP / "model.onnx", "--batch-size=16", "--seed=3", "--shuffle=off", "--devices=cpu:2", "--solver=random")
checks.expect("a seed of the plan", not any("--seed: nothing" in note for note in found), str(found))
step = ["plan", MLP / "model.onnx", "--dim=batch=16", "--train", "--loss=cross_entropy(logits,labels)"]
for flags, said in (([], True), (["--optimizer=adam"], False), (["-q"], False)):
    result = kerf(*step, *flags)
    checks.expect(f"which optimizer {flags}", result.returncode == 0 and ("note: --optimizer is not given: the step is that of sgd" in result.stderr) == said,
                  result.stderr)

for flags, said in ((["--devices=4"], True), (["--devices=4", "--mesh=pp=2,dp=2"], False)):
    result = kerf(*step, "--optimizer=adam", "--schedule=interleaved", *flags)
    checks.expect(f"a schedule, {flags}", result.returncode == 0 and
                  ("note: --schedule: the best plan has no stages to order (--mesh=pp=P asks for P)" in result.stderr) == said, result.stderr)

# As ONNX Runtime names what it has folded a BatchNorm into.
model = onnx.load(MLP / "model.onnx")
weight = model.graph.initializer[0].name
for names in [node.input for node in model.graph.node]:
    names[:] = ["ConvBnFusion_W_" + name if name == weight else name for name in names]
model.graph.initializer[0].name = "ConvBnFusion_W_" + weight
onnx.save(model, OUT / "folded.onnx")
folded = notes(OUT / "folded.onnx", "--batch-size=16")
checks.expect("folded", len(folded) == 1 and "ONNX Runtime has folded BatchNorm into convolutions" in folded[0]
              and f'"ConvBnFusion_W_{weight}"' in folded[0], str(folded))

# As torch.onnx names a constant; parameters are called after their modules.
model = onnx.load(MLP / "model.onnx")
out = model.graph.output[0]
last = model.graph.node[-1]
last.output[0] = "before_scale"
model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(8, np.float32), "val_9"))
model.graph.node.append(onnx.helper.make_node("Mul", ["before_scale", "val_9"], [out.name]))
onnx.save(model, OUT / "scaled.onnx")
clear = notes(OUT / "scaled.onnx", "--batch-size=16")
UNCLEAR = "taken for a constant by its name, which is an exporter's (its use does not tell): \"val_9\"; --trainable=+NAME"
KEPT = "note: leaves as it is, a constant: val_9 "
checks.expect("constant", len(clear) == 2 and clear[0].startswith(KEPT + "(8)") and UNCLEAR in clear[1], str(clear))
added = notes(OUT / "scaled.onnx", "--batch-size=16", "--trainable=+val_9")
checks.expect("added", added == [], str(added))
frozen = notes(OUT / "scaled.onnx", "--batch-size=16", "--frozen=val_9")
checks.expect("frozen", frozen == ["note: leaves as it is, frozen: val_9 (8)"], str(frozen))

# Values tell: no exporter writes these.
model.graph.initializer[-1].CopyFrom(onnx.numpy_helper.from_array(np.arange(1, 9, dtype=np.float32) ** 2, "val_9"))
onnx.save(model, OUT / "learned.onnx")
learned = notes(OUT / "learned.onnx", "--batch-size=16")
checks.expect("learned", learned == [], str(learned))

# A range of names is one of all that lies between its ends: what has the same names but another rank may be there.
between = onnx.ModelProto()
between.CopyFrom(model)
CALLED = {"layers.1.weight": "layers.2.weight", "layers.2.weight": "layers.4.weight", "val_9": "layers.3.weight"}
for tensor in between.graph.initializer:
    tensor.name = CALLED.get(tensor.name, tensor.name)
for node in between.graph.node:
    node.input[:] = [CALLED.get(name, name) for name in node.input]
del between.graph.value_info[:]
onnx.save(between, OUT / "between.onnx")
shown = kerf("train", OUT / "between.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--steps=1", "--batch-size=16",
             f"--data={MLP / 'data.npz'}", "--threads=1", "--no-output").stderr
checks.expect("names with others between them", re.search(r"^note: trains 7 parameters of .* elements: layers.0.weight and layers.2.weight and layers.4.weight "
                                                          r"\(3 matrices, [^)]*\), layers.0.bias to layers.2.bias \(3 vectors, [^)]*\), layers.3.weight \(8\)$",
                                                          shown, re.M), shown)

# A number that is called so is no weight, unless it is named; one that is called otherwise is, and that is said.
model.graph.initializer[-1].CopyFrom(onnx.numpy_helper.from_array(np.ones(1, np.float32), "val_9"))
onnx.save(model, OUT / "number.onnx")
number = notes(OUT / "number.onnx", "--batch-size=16")
checks.expect("number", len(number) == 2 and number[0].startswith(KEPT + "(1)") and UNCLEAR in number[1], str(number))
named = notes(OUT / "number.onnx", "--batch-size=16", "--trainable=val_9")
checks.expect("named number", len(named) == 1 and named[0].startswith("note: leaves as it is, frozen: layers.0.weight to "), str(named))
model.graph.initializer[-1].name = model.graph.node[-1].input[1] = "alpha"
onnx.save(model, OUT / "alpha.onnx")
alpha = notes(OUT / "alpha.onnx", "--batch-size=16")
checks.expect("own name", len(alpha) == 1 and "trained, though it may be a constant" in alpha[0] and '"alpha"; --frozen=NAME' in alpha[0],
              str(alpha))
# Without dimensions it is a number to import.
model.graph.initializer[-1].CopyFrom(onnx.numpy_helper.from_array(np.float32(1), "alpha"))
onnx.save(model, OUT / "scalar.onnx")
scalar = notes(OUT / "scalar.onnx", "--batch-size=16")
checks.expect("scalar", len(scalar) == 1 and 'not trained: "alpha"; --trainable=+NAME' in scalar[0], str(scalar))
scalar = notes(OUT / "scalar.onnx", "--batch-size=16", "--trainable=+alpha")
checks.expect("trained scalar", scalar == [], str(scalar))
# One that no gradient reaches is none to train, nor is what says how much Dropout drops.
border = onnx.ModelProto()
border.CopyFrom(model)
scale = border.graph.node.pop()
for name, value in (("border", 0.5), ("share", 0.25)):
    border.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(value), name))
border.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "training"))
border.graph.node.extend([onnx.helper.make_node("Less", ["before_scale", "border"], ["below"]),
                          onnx.helper.make_node("Cast", ["below"], ["factor"], to=onnx.TensorProto.FLOAT),
                          onnx.helper.make_node("Mul", ["before_scale", "factor"], ["cut"]),
                          onnx.helper.make_node("Dropout", ["cut", "share", "training"], ["kept"]),
                          onnx.helper.make_node("Mul", ["kept", "alpha"], scale.output)])
onnx.save(border, OUT / "border.onnx")
border = notes(OUT / "border.onnx", "--batch-size=16")
named = re.findall(r'"(\S+)"', border[0]) if len(border) == 1 else []
checks.expect("numbers with a gradient", named == ["alpha"], str(border))
for name in named:
    trained = notes(OUT / "border.onnx", "--batch-size=16", f"--trainable=+{name}")
    checks.expect(f"{name} can be trained", not any("error" in line or f'"{name}"' in line for line in trained), str(trained))

# None is learned that is infinite, a mask's bound or next to nothing.
for number, said in ((-np.inf, False), (-1e9, False), (np.nan, False), (1e-6, False), (0, True), (0.07, True), (-100, True)):
    for tensor in model.graph.initializer:
        if tensor.name == "alpha":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.float32(number), "alpha"))
    onnx.save(model, OUT / "sized.onnx")
    sized = kerf("plan", OUT / "sized.onnx", "--dim=batch=16", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd").stderr
    checks.expect(f"a number of size {number}", ('not trained: "alpha"' in sized) == said, sized)

# A number is what it is used for, whatever it is called.
for tensor in model.graph.initializer:
    if tensor.name == "alpha":
        tensor.name = model.graph.node[-1].input[1] = "dropout.gain"
onnx.save(model, OUT / "gain.onnx")
gain = notes(OUT / "gain.onnx", "--batch-size=16")
checks.expect("a number of another name", len(gain) == 1 and 'not trained: "dropout.gain"; --trainable=+NAME' in gain[0], str(gain))

# Ranges of names begin with the least number, whichever layer comes first.
nodes, stored, value = [], [], "before_scale"
for number in (10, 2, 4):
    for name, fill in (("weight", 1), ("bias", 0), ("mean", 0), ("var", 1)):
        stored.append(onnx.numpy_helper.from_array(np.full(8, fill + number / 100, np.float32), f"norm.{number}.{name}"))
    out_names = [f"normed.{number}", f"mean_out.{number}", f"var_out.{number}"]
    nodes.append(onnx.helper.make_node("BatchNormalization", [value, *(f"norm.{number}.{name}" for name in ("weight", "bias", "mean", "var"))],
                                       out_names, name=f"norm.{number}", training_mode=1))
    value = out_names[0]
normed = onnx.ModelProto()
normed.CopyFrom(model)
del normed.graph.node[-1]
normed.graph.initializer.extend(stored)
normed.graph.node.extend([*nodes, onnx.helper.make_node("Identity", [value], [out.name])])
onnx.save(normed, OUT / "normed.onnx")
said = kerf("train", OUT / "normed.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", "--steps=1", f"--data={MLP / 'data.npz'}",
            "--batch-size=16", "--no-output").stderr
checks.expect("ranges", "norm.2.weight to norm.10.weight (3 vectors" in said and "norm.2.bias to norm.10.bias (3 vectors" in said, said)
checks.expect("ranges of statistics", "updates 6 running statistics: norm.2.mean to norm.10.mean, norm.2.var to norm.10.var" in said, said)

# Equal tensors that an exporter stores once come apart.
model.graph.initializer[-1].CopyFrom(onnx.numpy_helper.from_array(np.ones(8, np.float32), "gamma"))
model.graph.node[-1].input[1] = "gamma"
model.graph.node[-1].output[0] = "scaled"
model.graph.node.append(onnx.helper.make_node("Mul", ["scaled", "gamma"], [out.name], name="again"))
onnx.save(model, OUT / "shared.onnx")
shared = notes(OUT / "shared.onnx", "--batch-size=16")
checks.expect("shared", len(shared) == 1 and 'trained for each by itself: "gamma" (2 parameters); --tied=NAME' in shared[0], str(shared))
for tensor in model.graph.initializer:
    if tensor.name == "gamma":
        tensor.name = "val_9"
for node in model.graph.node[-2:]:
    node.input[1] = "val_9"
onnx.save(model, OUT / "twice.onnx")
twice = notes(OUT / "twice.onnx", "--batch-size=16")
checks.expect("a constant in two places", len(twice) == 2 and twice[0].startswith(KEPT + "(8)") and UNCLEAR in twice[1], str(twice))
tied = notes(OUT / "shared.onnx", "--batch-size=16", "--tied=gamma")
checks.expect("tied", tied == ['note: stored once and read in several places, so trained as one: "gamma" (by 2 nodes)'], str(tied))

# As PyTorch's exporters write a module that is applied twice: the call's arguments, or the module in the node's name. A
# node that reads another module's parameter, or an Identity, is one that an exporter has merged.
def read_by(*nodes):
    """The model with "s.gamma" read by nodes of these names, calls and operators."""
    del model.graph.node[first:]
    value = "before_scale"
    for number, (name, call, op) in enumerate(nodes):
        factor = "s.gamma"
        if op == "Identity":
            model.graph.node.append(onnx.helper.make_node("Identity", ["s.gamma"], [f"gamma_{number}"]))
            factor = f"gamma_{number}"
        result = out.name if number + 1 == len(nodes) else f"scaled_{number}"
        node = onnx.helper.make_node("Mul", [value, factor], [result], name=name)
        if call:
            node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=call)
        model.graph.node.append(node)
        value = result
    onnx.save(model, OUT / "read.onnx")
    return notes(OUT / "read.onnx", "--batch-size=16")


first = next(i for i, node in enumerate(model.graph.node) if "val_9" in node.input)
for tensor in model.graph.initializer:
    if tensor.name == "val_9":
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.ones(8, np.float32), "s.gamma"))
own = lambda number, argument="p_s_gamma": (f"node_mul_{number}", f"%mul_{number} : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor]"
                                            f"(args = (%x, %{argument}), kwargs = {{}})", "Mul")
APART = 'trained for each by itself: "s.gamma" ({} parameters); --tied=NAME trains one as one, as a module that is applied several times'
for case, nodes, parameters in (
        ("calls of one parameter", [own(1), own(2)], 1), ("of another, which begins alike", [own(1), own(2, "p_s_gamma_2")], 2),
        ("two applied, one merged", [own(1), own(2), own(3, "p_t_gamma")], 2), ("of nothing known", [("a", "", "Mul"), ("b", "", "Mul")], 2),
        ("one module, applied again", [("/s/Mul", "", "Mul"), ("/s_1/Mul", "", "Mul")], 1),
        ("of two modules", [("/s/Mul", "", "Mul"), ("/t/Mul", "", "Mul")], 2),
        ("merged by the older exporter", [("/s/Mul", "", "Mul"), ("/t/Mul", "", "Identity")], 2)):
    found = read_by(*nodes)
    checks.expect(case, found == [] if parameters == 1 else len(found) == 1 and APART.format(parameters) in found[0], str(found))
# A vector that the compiler reads as a column, behind a transpose that it cancels, has the shape that the file has.
rng = np.random.default_rng(0)
helper, numpy_helper = onnx.helper, onnx.numpy_helper
nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["t", "w"], ["u"]),
         helper.make_node("Transpose", ["u"], ["v"], perm=[0, 2, 1]), helper.make_node("Mul", ["v", "scale"], ["s"]), helper.make_node("Add", ["x", "s"], ["y"])]
graph = helper.make_graph(nodes, "scaled", [helper.make_tensor_value_info("x", 1, ["batch", 4, 6])], [helper.make_tensor_value_info("y", 1, ["batch", 4, 6])],
                          [numpy_helper.from_array(rng.standard_normal((4, 4)).astype(np.float32), "w"),
                           numpy_helper.from_array(np.full(6, 0.1, np.float32), "scale")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "scaled.onnx")
np.savez(OUT / "scaled.npz", **{name: rng.standard_normal((8, 4, 6)).astype(np.float32) for name in "xt"})
result = kerf("train", OUT / "scaled.onnx", "--loss=mse(y,t)", "--optimizer=sgd", f"--data={OUT / 'scaled.npz'}", "--batch-size=4", "--steps=1", "--no-output")
checks.expect("shapes of the file", "note: trains 2 parameters of 22 elements: w (4x4), scale (6)\n" in result.stderr, result.stderr)
# A tied table that an exporter has stored a second time for the head, transposed: two matrices that are trained apart.
draw = np.random.default_rng(0)
table, ids = draw.standard_normal((40, 36)).astype(np.float32), draw.integers(0, 40, (8, 6))
np.savez(OUT / "ids.npz", ids=ids, labels=np.roll(ids, -1, 1))


def head_notes(head, *flags, rows=table, name="val_9"):
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gather", ["embedding.weight", "ids"], ["rows"]), onnx.helper.make_node("MatMul", ["rows", name], ["logits"])], "tied",
        [onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["batch", 6])],
        [onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 6, 40])],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(array), key) for key, array in (("embedding.weight", rows), (name, head))])
    onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 21)]), OUT / "head.onnx")
    result = kerf("train", OUT / "head.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--steps=1", "--batch-size=4",
                  f"--data={OUT / 'ids.npz'}", "--threads=1", "--no-output", *flags)
    checks.expect("a head is trained", result.returncode == 0, result.stderr)
    return [line for line in result.stderr.splitlines() if "transpose" in line]


said = head_notes(table.T)
checks.expect("a transposed table", said == ['note: "val_9" is the transpose of "embedding.weight" and is trained apart from it: '
                                             "export with optimize=False to train them as one"], said)
older = head_notes(table.T, name="onnx::MatMul_5")
checks.expect("one of the older exporter", len(older) == 1 and older[0].endswith("export with do_constant_folding=False to train them as one"), older)
other, square = table.copy(), draw.standard_normal((40, 40)).astype(np.float32)
other[33, 34] += 1
checks.expect("another table", not head_notes(other.T))
checks.expect("one of them trained", not head_notes(table.T, "--frozen=embedding.weight"))
checks.expect("equal elements", not head_notes(np.ones_like(table.T), rows=np.ones_like(table)))
checks.expect("a square one", len(head_notes(square.T, rows=square)) == 1)
checks.expect("two symmetric ones", not head_notes(square + square.T, rows=square + square.T))
# Without the file of the weights, numbers tell of nothing; what they could have told is named, and so is the way out.
nodes = [onnx.helper.make_node("MatMul", ["x", "x.T"], ["products"]), onnx.helper.make_node("Transpose", ["x"], ["x.T"], perm=[1, 0]),
         onnx.helper.make_node("Add", ["products", "where"], ["scores"]), onnx.helper.make_node("Softmax", ["scores"], ["shares"]),
         onnx.helper.make_node("MatMul", ["shares", "x"], ["mixed"]), onnx.helper.make_node("Gemm", ["mixed", "head.weight", "head.bias"], ["logits"])]
of = {"where": np.triu(np.full((8, 8), -1e9, np.float32), 1), "head.weight": np.ones((6, 5), np.float32), "head.bias": np.arange(5, dtype=np.float32)}
graph = onnx.helper.make_graph(nodes[1:2] + nodes[:1] + nodes[2:], "g", [onnx.helper.make_tensor_value_info("x", 1, [8, 6])],
                               [onnx.helper.make_tensor_value_info("logits", 1, [8, 5])],
                               [onnx.numpy_helper.from_array(numbers, name) for name, numbers in of.items()])
masked, plan = OUT / "masked.onnx", OUT / "masked.json"
onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]), masked, save_as_external_data=True,
          location="masked.data", size_threshold=0)
np.savez(OUT / "masked.npz", x=np.ones((8, 6), np.float32), labels=np.zeros(8, np.int64))
STEP = [masked, "--loss=cross_entropy(logits,labels)", "--optimizer=adamw", "--devices=cpu:2"]
TRAIN = ["train", *STEP, f"--plan={plan}", "--data", OUT / "masked.npz", "--batch-size=8", "--steps=1", "--no-output"]
absent = '"masked.data" is absent, whose numbers tell masks and tables from parameters: trained by use alone: "where"; --frozen=NAME leaves one as it is'
with_data = kerf("plan", *STEP, "--train")
checks.expect("numbers are there", "absent" not in with_data.stderr and "a mask: where" in with_data.stdout, with_data.stderr + with_data.stdout)
(OUT / "masked.data").rename(OUT / "moved")
for flags, said in (([], True), (["--trainable=+where"], False), (["--frozen=where"], False)):
    made = kerf("plan", *STEP, "--train", *flags, "-o", plan)
    checks.expect(f"numbers are not there {flags}", made.returncode == 0 and (f"note: {absent}" in made.stderr) == said and
                  ("absent" in made.stderr) == said, made.stderr)
    (OUT / "moved").rename(OUT / "masked.data")
    trained = kerf(*TRAIN, *(flags if "+" in str(flags) else []))
    (OUT / "masked.data").rename(OUT / "moved")
    other = "or one that was made without the file of the weights" in trained.stderr
    checks.expect(f"a plan of no numbers {flags}", other and trained.returncode == 2 if said else trained.returncode == 0, trained.stderr)
checks.finish()
