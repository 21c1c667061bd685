# What a step changes is decided by use and values, not by names: masks and tables of exports of transformers are the same
# bits after 100 steps with weight decay, every weight has moved, and norms that are stored once are trained each by
# itself. Then one tensor at a time, in every place that a parameter, a mask, a table or a number can have.
#
# REQUIRES: kerf, onnx, onnxruntime
# RUN: %python %s %t %inputs
import pathlib
import re
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, in_parallel, kerf

OUT = fresh_folder(sys.argv[1])
EXPORTS = INPUTS / "training/exports"
checks = Checks()
draw = np.random.default_rng(1)
ids = draw.integers(0, 32, (16, 8))
np.savez(OUT / "ids.npz", input_ids=ids, labels=np.roll(ids, -1, 1))
MASKS_AND_TABLES = {"llama": {"where", "unsqueeze_14", "unsqueeze_15"}, "llama-dynamic": {"model.model.rotary_emb.inv_freq"},
                    "gpt2": {"where"}}
SHARED = {"llama": ["model.model.layers.0.input_layernorm.weight"],
          "llama-dynamic": ["model.model.layers.0.input_layernorm.weight"],
          "gpt2": ["model.transformer.h.0.ln_1.weight", "model.transformer.h.0.ln_1.bias"]}


def floats(path):
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    return {name: array for name, array in arrays.items() if array.dtype == np.float32}


def loss_of(path, samples=2):
    """ONNX Runtime's, in batches of two as the models are exported."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    logits = np.concatenate([session.run(None, {"input_ids": ids[i:i + 2]})[0] for i in range(0, samples, 2)])
    shifted = logits - logits.max(-1, keepdims=True)
    labels = np.roll(ids, -1, 1)[:samples, :, None]
    return -float(np.take_along_axis(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)), labels, -1).mean())


def export(name, *flags):
    tag = name + "".join(flag for flag in flags if "eval" not in flag)
    trained = OUT / f"{re.sub('[^a-z0-9]', '', tag)}.onnx"
    result = kerf("train", EXPORTS / f"{name}.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw,lr=0.01,wd=0.1",
                  f"--data={OUT / 'ids.npz'}", "--batch-size=2", "--steps=100", "--threads=1", "-o", trained,
                  *(["--dim=length=8"] if "dynamic" in name else []), *flags)
    checks.expect(f"{tag} runs", result.returncode == 0, result.stderr)
    return trained, result.stderr, result.stdout


def whole(name):
    trained, notes, said = export(name, f"--eval-data={OUT / 'ids.npz'}")
    before, after = floats(EXPORTS / f"{name}.onnx"), floats(trained)
    kept = {key for key, value in before.items() if value.tobytes() == after[key].tobytes()}
    numbers = {key for key, value in before.items() if value.ndim == 0}
    checks.expect(f"{name}: what stays", kept == MASKS_AND_TABLES[name] | numbers, str(sorted(kept)))
    new = set(after) - set(before)
    checks.expect(f"{name}: what came apart", new == {f"{key}.{i}" for key in SHARED[name] for i in range(2, 6)}, str(new))
    for key in SHARED[name]:
        values = [after[key], *(after[f"{key}.{i}"] for i in range(2, 6))]
        checks.expect(f"{name}: {key} five times", len({value.tobytes() for value in values}) == 5)
    onnx.checker.check_model(str(trained))
    measured = re.search(r"evaluation loss ([0-9.e+-]+)", said)
    checks.expect(f"{name}: evaluated is what is written",
                  measured and np.isclose(float(measured.group(1)), loss_of(trained, len(ids)), rtol=1e-4), said)
    checks.expect(f"{name} has learned", loss_of(trained) < 0.7 * loss_of(EXPORTS / f"{name}.onnx"), str(loss_of(trained)))
    for key in MASKS_AND_TABLES[name]:
        checks.expect(f"{name}: {key} is named", re.search(rf"note: leaves as it is, a (mask|table).*{key[:8]}", notes), notes)
    again = kerf("train", trained, "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.01", "--batch-size=2",
                 f"--data={OUT / 'ids.npz'}", "--steps=1", "--threads=1", "--no-output",
                 *(["--dim=length=8"] if "dynamic" in name else []))
    checks.expect(f"{name}: apart for good", again.returncode == 0 and "stored once" not in again.stderr, again.stderr)


def tied():
    trained, notes, _ = export("llama", "--tied=.*layernorm.*")
    checks.expect("tied", set(floats(trained)) == set(floats(EXPORTS / "llama.onnx")), notes)
    checks.expect("tied is said", "trained as one" in notes, notes)
    trained, _, _ = export("llama", "--frozen=.*layernorm.*")
    same = floats(trained)["model.model.layers.0.input_layernorm.weight"]
    checks.expect("frozen with its copies", set(floats(trained)) == set(floats(EXPORTS / "llama.onnx")) and (same == 1).all())
    expect_error(checks, "tied nobody", ["plan", EXPORTS / "llama.onnx", "--train", "--loss=cross_entropy(logits,labels)",
                                         "--tied=nobody"], 2, ["--tied", "nobody"])
    # Attention's matrices stay what they are: a pattern that adds trains a mask as well.
    trained, _, _ = export("llama", "--trainable=+where")
    checks.expect("override", (floats(trained)["where"] != floats(EXPORTS / "llama.onnx")["where"]).any())


S, D, H = 6, 8, 2  # positions, width, heads
angles = np.outer(np.arange(S), 0.3 ** np.arange(D // 2))
sines, cosines = np.sin(angles), np.cos(angles)
random = lambda *shape: draw.standard_normal(shape) * 0.3
hidden = np.triu(np.ones((S, S)), 1)
# What it is, the name, values, where it stands (below), what is expected of it.
CASES = [
    ("learned positions", "positions", random(S, D), "add", "trained"),
    ("learned positions, folded", "embedding_1", random(1, S, D), "add", "trained"),
    ("fresh positions", "pos", np.zeros((1, S, D)), "add", "trained"),
    ("sines and cosines, halves", "pe", np.concatenate([sines, cosines], 1), "add", "table"),
    ("sines and cosines, neighbours", "pe", np.stack([sines, cosines], 2).reshape(S, D), "add", "table"),
    ("sines alone", "pe", np.sin(np.outer(np.arange(S), 0.7 ** np.arange(D))), "add", "table"),
    ("sines and cosines looked up", "pe", np.concatenate([sines, cosines], 1), "gather", "table"),
    ("learned rows", "val_7", random(S, D), "gather", "trained"),
    ("bias", "val_8", random(D), "add", "trained"),
    *((f"bias of {size} beside a scale of ones", "c.bias", random(D) * size, "add, then a scale", "trained")
      for size in (1e-6, 0.1, 30)),
    ("bias in front of a norm of groups", "c.bias", random(D) * 0.1, "convolution, groups", "trained"),
    ("bias of a detector, some of one negative number", "cls.bias", np.arange(D) % 2 * -4.6, "add", "trained"),
    ("bias in equal steps", "b.bias", np.linspace(-1, 1, D), "add", "trained"),
    ("rotary positions of two tables, cosines", "cos_cached", np.concatenate([cosines, cosines], 1), "rotary", "table"),
    ("learned scales beside sines", "gain", 1 + random(S, D) * 0.1, "rotary", "trained"),
    ("scale", "gamma", np.ones(D), "mul", "trained"),
    ("scale of random numbers", "val_9", random(D), "mul", "trained"),
    ("ones that an exporter wrote", "val_9", np.ones(D), "mul", "constant"),
    ("a scale, one number", "val_9", np.array([0.5]), "mul", "constant"),
    ("a learned scale, one number", "alpha", np.array([0.5]), "mul", "trained"),
    ("dropped columns", "val_9", np.arange(D) % 2, "mul", "mask"),
    ("causal mask", "mask", np.where(hidden, -np.inf, 0), "scores", "mask"),
    ("causal mask, lowest number", "where", np.where(hidden, np.finfo(np.float32).min, 0)[None, None], "scores", "mask"),
    ("mask of -100", "attn_mask", np.where(hidden, -100, 0), "scores", "mask"),
    ("ALiBi", "alibi", -np.array([0.5, 0.25])[:, None, None] * np.arange(S)[None, None], "scores", "table"),
    ("relative positions, folded", "val_9", random(1, H, S, S), "scores", "trained"),
    ("class token", "cls", random(1, 1, D), "concat", "trained"),
    ("mask token", "token", random(D), "where", "trained"),
    ("frequencies", "freq", 0.3 ** np.arange(D), "sin cos", "table"),
    ("frequencies of a sine layer", "freq", random(D), "sin", "trained"),
    ("slope", "val_9", np.array([0.25]), "prelu", "trained"),
    ("matrix named as a constant", "val_9", random(D, D), "matmul", "trained"),
    ("matrix of zeros", "val_9", np.zeros((D, D)), "matmul", "trained"),
]


def graph(name, values, place):
    nodes, initializers = [], []

    def constant(value, label=None):
        label = label or f"c{len(initializers)}"
        initializers.append(numpy_helper.from_array(np.asarray(value), label))
        return label

    def node(kind, *inputs, **attributes):
        nodes.append(helper.make_node(kind, inputs, [f"n{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    c = constant(np.asarray(values, np.float32), name)
    x = node("MatMul", "x", constant(random(D, D).astype(np.float32), "first.weight"))  # [batch, S, D]
    if place in ("add", "mul", "matmul", "prelu"):
        y = node({"add": "Add", "mul": "Mul", "matmul": "MatMul", "prelu": "PRelu"}[place], x, c)
    elif place == "add, then a scale":
        y = node("Mul", node("Add", x, c), constant(np.ones(D, np.float32), "norm.weight"))
    elif place == "convolution, groups":  # as exporters take GroupNormalization apart
        kernel = constant(random(D, D, 1).astype(np.float32), "c.weight")
        y = node("Conv", node("Transpose", x, perm=[0, 2, 1]), kernel, c)
        y = node("InstanceNormalization", node("Reshape", y, constant(np.array([0, 2, -1]))),
                 constant(np.ones(2, np.float32)), constant(np.zeros(2, np.float32)))
        y = node("Mul", node("Reshape", y, constant(np.array([4, D, S]))), constant(np.ones((D, 1), np.float32), "n.weight"))
    elif place == "rotary":
        turned = node("Concat", node("Neg", node("Slice", x, constant(np.array([D // 2])), constant(np.array([D])),
                                                constant(np.array([2])))),
                      node("Slice", x, constant(np.array([0])), constant(np.array([D // 2])), constant(np.array([2]))), axis=2)
        sine = constant(np.concatenate([sines, sines], 1).astype(np.float32), "sin_cached")
        y = node("Add", node("Mul", x, c), node("Mul", turned, sine))
    elif place == "gather":
        y = node("Add", x, node("Gather", c, constant(np.arange(S))))
    elif place == "scores":
        heads = node("Transpose", node("Reshape", x, constant(np.array([0, S, H, D // H]))), perm=[0, 2, 1, 3])
        scores = node("MatMul", heads, node("Transpose", heads, perm=[0, 1, 3, 2]))
        y = node("MatMul", node("Softmax", node("Add", scores, c), axis=-1), heads)
        y = node("Reshape", node("Transpose", y, perm=[0, 2, 1, 3]), constant(np.array([0, S, D])))
    elif place == "concat":
        y = node("Concat", node("Expand", c, constant(np.array([4, 1, D]))), x, axis=1)
    elif place == "where":
        y = node("Where", constant(np.arange(S)[:, None] % 3 == 0), c, x)
    elif place == "sin cos":
        angle = node("Mul", x, c)
        y = node("Add", node("Sin", angle), node("Cos", angle))
    elif place == "sin":
        y = node("Sin", node("Mul", x, c))
    nodes.append(helper.make_node("ReduceMean", [node("Mul", y, y)], ["loss"], keepdims=0))
    main = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, S, D])],
                             [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], initializers)
    return helper.make_model(main, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def one(number, what, name, values, place, expected):
    path = OUT / f"case{number}.onnx"
    onnx.save(graph(name, values, place), path)
    result = kerf("plan", path, "--train", "--loss=loss", "-v")
    listed = re.search(r"\ntrained(.*)", result.stdout, re.S)
    text = listed.group(1) if listed else ""
    found = "trained" if re.search(rf"\n  {name} \[", text) else next(
        (kind for kind in ("mask", "table", "constant") if re.search(rf"kept .*a {kind}.*: {name}\b", text)), "lost")
    checks.expect(what, result.returncode == 0 and found == expected, f"{found}, expected {expected}\n{result.stderr}{text}")
    if expected == "constant":
        checks.expect(f"{what}: the flag", f'"{name}"; --trainable=+NAME' in result.stderr, result.stderr)
        added = kerf("plan", path, "--train", "--loss=loss", "-v", f"--trainable=+{name}")
        checks.expect(f"{what}: added", re.search(rf"\n  {name} \[", added.stdout) and "first.weight [" in added.stdout,
                      added.stdout + added.stderr)


in_parallel([(whole, name) for name in MASKS_AND_TABLES] + [(tied,)] +
            [(one, number, *case) for number, case in enumerate(CASES)])
checks.finish()
