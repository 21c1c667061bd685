# Training that cannot be: message, exit code, nothing written; and errors that
# only a step can show name the step.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import os
import pathlib
import shutil
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np

import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, in_parallel, kerf

OUT = fresh_folder(sys.argv[1])
MLP = INPUTS / "training/mlp"
GPT2 = INPUTS / "training/gpt2"
arrays = dict(np.load(MLP / "data.npz"))
checks = Checks()


def saved(name, **changes):
    content = {key: value for key, value in dict(arrays, **changes).items() if value is not None}
    np.savez(OUT / name, **content)
    return f"--data={OUT / name}"


(OUT / "text.npz").write_text("no archive")
(OUT / "table.csv").write_text("a,b\n1,2\n")
(OUT / "empty").mkdir()
out_of_range = arrays["labels"].copy()
out_of_range[21] = 8
np.save(OUT / "tokens.npy", np.arange(12))
os.mkfifo(OUT / "pipe")


def sequence_first(seq="seq", batch="batch"):
    """[sequence, batch, 4], as PyTorch's recurrent networks have it without batch_first."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [seq, batch, 4]) for name in "xy")
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "weight")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "weight"], ["y"], "product")], "g", [x], [y], [weight])
    path = OUT / f"sequences-{seq}-{batch}.model"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    np.savez(OUT / "sequences.npz", x=np.ones((6, 6, 4), np.float32), target=np.ones((6, 6, 4), np.float32))
    return ["train", path, "--loss=mse(y,target)", "--optimizer=sgd,lr=0.1", "--steps=1", "--no-output",
            f"--data={OUT / 'sequences.npz'}"]


def image_model():
    """Classes in dimension 1, as PyTorch's models of images have them."""
    images = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, 4, 4])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3, 4, 4])
    weight = numpy_helper.from_array(np.ones((3, 2, 1, 1), np.float32), "weight")
    graph = helper.make_graph([helper.make_node("Conv", ["x", "weight"], ["logits"])], "g", [images], [logits], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "images.model")


def score_model():
    """A number for each sample."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 20])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch"])
    weight = numpy_helper.from_array(np.ones(20, np.float32), "weight")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "weight"], ["score"])], "g", [x], [score], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / "score.model")


image_model()
score_model()
np.savez(OUT / "images.npz", x=np.ones((160, 2, 4, 4), np.float32), labels=np.zeros((160, 4, 4), np.int64))
shutil.copy(MLP / "model.onnx", OUT / "own.model")
GOOD = {"--batch-size": "16", "--loss": "cross_entropy(logits,labels)", "--optimizer": "sgd,lr=0.1",
        "--data": MLP / "data.npz", "--steps": "3", "--threads": "1"}

CASES = [  # name, flags that replace or follow, exit code, patterns
    # The loss and its shapes.
    ("loss-missing", {"--loss": None}, 2, ["--loss"]),
    ("optimizer-missing", {"--optimizer": None}, 2, ["--optimizer"]),
    ("loss-unknown", {"--loss": "hinge(logits,labels)"}, 2, ["hinge", "cross_entropy"]),
    ("loss-arguments", {"--loss": "cross_entropy(logits)"}, 2, ["cross_entropy|arguments|labels"]),
    ("loss-output", {"--loss": "cross_entropy(nobody,labels)"}, 2, ["nobody", "logits"]),
    ("loss-not-scalar", {"--loss": "logits"}, 2, ["logits", "16x8|scalar"]),
    ("loss-shapes", {"--loss": "mse(logits,labels)"}, 2, ["labels", "160", "16x8|Nx8"]),
    ("labels-wrong-shape", saved("wide.npz", labels=np.zeros((160, 2), np.int64)), 2, [r"labels \"labels\" expect N \(N samples, each the number of its class\)", "160x2"]),
    ("optimizer-unknown", {"--optimizer": "lion"}, 2, ["lion", "adamw"]),
    ("optimizer-key", {"--optimizer": "sgd,rate=1"}, 2, ["rate"]),
    ("optimizer-key-twice", {"--optimizer": "sgd,lr=0.1,lr=0.2"}, 2, ["lr is given twice"]),
    ("trainable-nobody", ["--trainable=nobody"], 2, ["nobody"]),
    ("rate-unknown", ["--learning-rate=sine"], 2, ["sine", "cosine"]),
    ("rate-warmup", ["--learning-rate=cosine,warmup=3"], 2, ["warmup", r"\b3\b"]),
    # Data.
    ("data-missing", {"--data": OUT / "none.npz"}, 2, ["none.npz"]),
    ("data-kind", {"--data": OUT / "table.csv"}, 2, ["table.csv: is no data", "npz"]),
    ("data-text", {"--data": OUT / "text.npz"}, 2, ["text.npz"]),
    ("data-empty", {"--data": OUT / "empty"}, 2, ["empty", "no .npy"]),
    ("data-name", saved("name.npz", x=None, image=arrays["x"]), 2, ['"x"', "image", "f32 160x20"]),
    ("data-labels", saved("labels.npz", labels=None), 2, ['"labels"', '"x"']),
    ("data-shape", saved("shape.npz", x=arrays["x"][:, :19]), 2, ["160x19", "Nx20"]),
    ("data-samples", saved("samples.npz", x=arrays["x"][:100]), 2, [r"\b100\b", r"\b160\b"]),
    ("data-type", saved("type.npz", x=arrays["x"].astype(np.float64)), 2, ["f64", "f32"]),
    ("data-short", saved("short.npz", x=arrays["x"][:9], labels=arrays["labels"][:9]), 2, [r"\b9\b", r"\b16\b"]),
    ("data-tokens", {"--data": OUT / "tokens.npy"}, 2, ["tokens", '"x"']),
    ("sequence-length", ["--sequence-length=4"], 2, ["sequence"]),
    ("eval-data-missing", [f"--eval-data={OUT / 'none.npz'}"], 2, ["none.npz"]),
    ("eval-every", ["--eval-every=3"], 2, ["--eval-data"]),
    # Sizes and meshes.
    ("batch-missing", {"--batch-size": None}, 2, ['dimension "batch" of input "x" is the batch: give --batch-size=B']),
    ("batch-twice", ["--dim=batch=8"], 2, [r"\b8\b", r"\b16\b"]),
    ("batch-zero", {"--batch-size": "0"}, 2, ["--batch-size"]),
    ("batch-and-accumulate", ["--accumulate=5"], 2, ["--accumulate: 5 does not divide the batch of 16, which 2, 4, 8 and 16 do"]),
    ("batch-and-micro-batches", ["--devices=cpu:2", "--mesh=pp=2", "--micro-batches=3"], 2, [r"\b3\b", r"\b16\b"]),
    ("mesh", ["--devices=cpu:2", "--mesh=dp=3"], 2, [r"\b3\b", r"\b2\b"]),
    ("steps-zero", {"--steps": "0"}, 2, ["--steps: '0' is not an integer of at least 1"]),
    ("eval-every-zero", ["--eval-every=0"], 2, ["--eval-every", "at least 1"]),
    ("seed-negative", ["--seed=-1"], 2, ["--seed", "at least 0"]),
    ("steps-and-epochs", ["--epochs=3"], 2, ["steps|epochs"]),
    ("classes-not-last", {"model": OUT / "images.model", "--data": OUT / "images.npz"}, 2,
     ["classes of 'logits' are its last dimension, of 4", "dim=1 behind the names says dimension 1", "labels", "160x4x4", "Nx3x4"]),
    ("no-classes", {"model": OUT / "score.model", "--loss": "cross_entropy(score,labels)"}, 2,
     [r"output 'score' is f32 \[16\], one number for each sample of the batch, expected classes", "bce_with_logits and huber take"]),
    # Outputs.
    ("output-folder", ["--save-safetensors", OUT / "nowhere/w.safetensors"], 2, ["nowhere"]),
    ("log-folder", ["--log", OUT / "nowhere/log.jsonl"], 2, ["nowhere"]),
    # Known before anything is trained; root may write to /proc, yet nobody can make a file there.
    ("checkpoint-folder", ["--checkpoint-dir=/proc/checkpoints"], 2, ["/proc/checkpoints: cannot create"]),
    ("checkpoint-nowhere", [f"--checkpoint-dir={OUT / 'nowhere/checkpoints'}"], 2, [r'nowhere/checkpoints: cannot create: the folder "\S+/nowhere" does not exist']),
    ("checkpoint-is-file", [f"--checkpoint-dir={OUT / 'text.npz'}"], 2, ["text.npz: is no folder"]),
    ("output-proc", {"-o": "/proc/trained.onnx"}, 2, ["/proc/trained.onnx: cannot write"]),
    ("log-proc", ["--log=/proc/log.jsonl"], 2, ["/proc/log.jsonl: cannot write"]),
    ("resume-alone", ["--resume"], 2, ["--checkpoint-dir"]),
    ("checkpoint-every-alone", ["--checkpoint-every=2"], 2, ["--checkpoint-dir"]),
    ("clip-nan", ["--clip-norm=nan"], 2, ["--clip-norm", "finite"]),
    ("beta-one", {"--optimizer": "adam,beta1=1"}, 2, ["beta1", "0.999999"]),
    ("threads-many", ["--threads=5000"], 2, ["--threads"]),
    ("batch-norm-local", ["--devices=cpu:2", "--batch-norm=local"], 2, ["--batch-norm", "dp=N"]),
    # Evaluation is looked at before anything is trained.
    ("eval-label", [saved("range.npz", labels=out_of_range).replace("--data", "--eval-data")], 2,
     ["range.npz", "sample 21", r"\b8\b", "0 to 7"]),
    # Nothing is written over what is read, or twice.
    ("log-is-data", [saved("own.npz"), f"--log={OUT / 'own.npz'}"], 2, ["--log", "--data"]),
    ("log-is-stats", [f"--log={OUT / 'same'}", f"--stats={OUT / '..' / OUT.name / 'same'}"], 2, ["--log", "--stats"]),
    ("output-is-model", {"model": OUT / "own.model", "-o": OUT / "own.model"}, 2, ["-o", "the model"]),
    # A rename would replace whatever is there by a file.
    ("output-is-pipe", {"-o": OUT / "pipe"}, 2, ["pipe: is no regular file"]),
    ("stats-is-pipe", [f"--stats={OUT / 'pipe'}"], 2, ["pipe: is no regular file"]),
    ("weights-are-folder", [f"--save-safetensors={OUT}"], 2, ["is a folder"]),
    # What only a step can show.
    ("rate-overflows", ["--learning-rate=1e40", "--steps=1"], 5, ["after step 1", "layers.0.weight", "finite"]),
    # Every label of the file is looked at, also where no step would have come to it.
    ("label-out-of-range", [saved("range.npz", labels=out_of_range), "--shuffle=off", "--steps=1"], 2,
     ["range.npz: a label of sample 21 is 8, expected 0 to 7 or -100"]),
    # Learning rates.
    ("rate-step", {"--learning-rate": "step,factor=0.5"}, 2, ["--learning-rate: every=STEPS is missing"]),
    ("rate-both", {"--learning-rate": "cosine,every=3"}, 2, ["every and factor are for step and exponential"]),
    ("rate-end", {"--learning-rate": "exponential,every=3,steps=9"}, 2, ["steps is where linear and cosine end"]),
    ("loss-is-nan", ["--learning-rate=constant,lr=1e30", "--steps=30"], 5, ["step [0-9]+: the loss is (nan|inf)"]),
]


def attempt(name, change, code, patterns):
    flags, more = dict(GOOD), []
    if isinstance(change, dict):
        flags.update(change)
    else:
        more = [change] if isinstance(change, str) else list(change)
        for flag in more:
            flags.pop(str(flag).split("=")[0], None)
    model, output = flags.pop("model", MLP / "model.onnx"), flags.pop("-o", OUT / f"{name}.onnx")
    arguments = ["train", model, *(f"{key}={value}" for key, value in flags.items() if value is not None),
                 *more, "-o", output]
    absent = [OUT / f"{name}.onnx", OUT / "nowhere"]
    expect_error(checks, name, arguments, code, patterns, absent=absent)


in_parallel([(attempt, *case) for case in CASES])
# Samples lie along the sequence's dimension of such a model: to bind both to the batch would train something else.
said = ["input \"x\" has its samples along dimension 1, expected 0: .*batch_first=True"]
expect_error(checks, "sequence first", [*sequence_first(), "--batch-size=6"], 2, said)
expect_error(checks, "sequence first, as told", [*sequence_first(), "--dim=seq=6,batch=6", "--batch-dim=x=1"], 2, said)
expect_error(checks, "sequence first, as told in front of sizes", [*sequence_first(6, "n"), "--batch-size=3", "--batch-dim=x=1"], 2, said)
# Nor is a fixed length of sequences a batch that an export has fixed, whatever the flags say of its size.
for name, flags in (("of another size", ["--batch-size=3"]), ("of its size", ["--batch-size=6"]), ("of no size", [])):
    expect_error(checks, f"a fixed sequence first, a batch {name}", [*sequence_first(6, "n"), *flags], 2,
                         [r'input "x" begins with 6, its samples seem to lie along dimension 1 \("n"\), the only one that is open, expected 0: .*batch_first=True',
                          "if its first dimension counts samples after all: --batch-dim x=0"])
expect_error(checks, "a fixed batch, as told", [*sequence_first(6, "n"), "--batch-size=3", "--batch-dim=x=0"], 2, ["the export fixed the batch at 6"])
expect_error(checks, "a fixed batch of one", [*sequence_first(1, "n"), "--batch-size=3"], 2, ["the export fixed the batch at 1"])
expect_error(checks, "a fixed batch of sequences", [*sequence_first(6, "seq"), "--batch-size=3"], 2, ["the export fixed the batch at 6"])
for name, seq, batch, flags, is_noted in (
        ("a fixed batch, as told, is trained", 6, "n", ["--batch-size=6", "--batch-dim=x=0"], False),
        ("a fixed batch of sequences is trained", 6, "length", ["--batch-size=6"], False),
        ("two sizes are open, no name says batch", "seq", "n", ["--batch-size=3"], True), ("as told", "seq", "n", ["--batch-size=3", "--batch-dim=x=0"], False),
        ("the first is called n", "N", "seq", ["--batch-size=3"], False), ("it is called batch", "batch", "n", ["--batch-size=3"], False),
        ("one size is open", "s0", 6, ["--batch-size=3"], False), ("said nothing", "seq", "n", ["--batch-size=3", "-q"], False)):
    result = kerf(*sequence_first(seq, batch), *flags)
    note = f'note: samples are taken to lie along dimension 0 ("{seq}") of "x": no name says batch'
    checks.expect(name, result.returncode == 0 and (note in result.stderr) == is_noted and ("samples are taken" in result.stderr) == is_noted, result.stderr)
# An index that a table of the model has no row for: where it comes from, on one rank and where another has the sample.
tokens = dict(np.load(GPT2 / "data.npz"))
tokens["input_ids"][29, 5] = 9999
np.savez(OUT / "tokens.npz", **tokens)
for ranks in ([], ["--devices=cpu:2", "--mesh=dp=2"]):
    expect_error(checks, f"token {ranks}", ["train", GPT2 / "model.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--batch-size=16",
                                            "--shuffle=off", "--no-output", f"--data={OUT / 'tokens.npz'}", *ranks], 5,
                 [r'step 2: index 9999 is out of range of a dimension of size \d+ on rank [01]; sample 29 of \S*tokens.npz has it in "input_ids"'])
# Flat tokens are their own labels: which token of the file is beyond the vocabulary.
np.save(OUT / "fine.npy", np.full(100, 5))
np.save(OUT / "flat.npy", np.where(np.arange(100) == 37, 9999, 5))
np.save(OUT / "first.npy", np.where(np.arange(100) == 0, 9999, 5))
np.save(OUT / "last.npy", np.where(np.arange(97) == 96, -7, 5))
(OUT / "text.txt").write_text("\x01ello, world" * 9)
(OUT / "bytes.txt").write_text("hello, world" * 9)
tokens, as_bytes = "is outside of the model's 64 tokens, 0 to 63", r"; a \.txt file is read as bytes$"
for name, said in (("flat.npy", rf"flat\.npy: token 9999 at position 37 \(from 0\) {tokens}$"), ("last.npy", rf"last\.npy: token -7 at position 96 \(from 0\) {tokens}$"),
                   ("first.npy", rf"first\.npy: token 9999 at position 0, the first of all, {tokens}$"),
                   ("text.txt", rf"text\.txt: token 101 \(byte 'e'\) at position 1 \(from 0\) {tokens}{as_bytes}"),
                   ("bytes.txt", rf"bytes\.txt: token 104 \(byte 'h'\) at position 0, the first of all, {tokens}{as_bytes}")):
    for kind in ("data", "eval-data"):
        expect_error(checks, f"{kind}, {name}", ["train", GPT2 / "model.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--batch-size=4",
                                                 "--sequence-length=16", "--no-output",
                                                 *([f"--data={OUT / 'fine.npy'}"] if kind == "eval-data" else []), f"--{kind}={OUT / name}"],
                     2, [f"(?m){said}"])
# What is refused before the first step has no notes in front of it.
result = kerf("train", MLP / "model.onnx", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.1", "--steps=1", "--batch-size=16",
              "--no-output", saved("range.npz", labels=out_of_range))
checks.expect("error first", result.returncode == 2 and result.stderr.startswith("error: "), result.stderr)
checks.expect("the pipe stays", (OUT / "pipe").is_fifo())
checks.expect("the model stays", (OUT / "own.model").read_bytes() == (MLP / "model.onnx").read_bytes())
checks.expect("nothing is left beside", not list(OUT.rglob("*.tmp*")) and not list(OUT.glob("*.onnx")))
checks.finish()
