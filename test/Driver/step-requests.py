# What a user asks of a training step with BatchNorm, and what its answer names: the flag and the reason, once.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import re
import sys

import numpy as np
import onnx

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
MODEL = f"{sys.argv[2]}/training/conv-batch-norm/model.onnx"
STEP = ["plan", MODEL, "--dim=batch=16", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd"]

# Statistics of parts of a batch that does not divide: one line for all norms.
for flags, parts in ((["--devices=2", "--mesh=pp=2", "--micro-batches=3"], "3 micro-batches"),
                     (["--devices=3", "--mesh=dp=3", "--batch-norm=local"], "3 parts of dp \\(--batch-norm is local\\)")):
    expect_error(checks, f"{flags}", [*STEP, *flags], 2, [f"batch of 16 samples cannot be divided into {parts}, of which each has BatchNorm"])
    result = kerf(*STEP, *flags)
    checks.expect(f"{flags}: said once", result.stderr.count("error:") == 1, result.stderr)

# An interleaved schedule finds no micro-batches: why, and what asks for them.
expect_error(checks, "interleaved", [*STEP, "--devices=2", "--mesh=pp=2", "--schedule=interleaved"], 2,
             ["of the 2 stages as micro-batches, and none is looked at: .*over the batch", "note: --micro-batches=M asks for them"])
expect_error(checks, "interleaved, of a batch", ["plan", f"{sys.argv[2]}/models/gpt2-small/model.onnx", "--dim=batch=3", *STEP[3:], "--devices=2", "--mesh=pp=2",
                                                 "--schedule=interleaved"], 2, ["of which none divides the batch of 3"])

# Patterns: statistics are no parameters, and a pattern is none of file names.
result = kerf("plan", MODEL, "--dim=batch=16", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=sgd", "--frozen=.*running.*")
checks.expect("frozen statistics", result.returncode == 2 and "names running statistics" in result.stderr and "--batch-norm=frozen keeps these" in result.stderr, result.stderr)
expect_error(checks, "a glob", [*STEP, "--frozen=*"], 2, ["'\\*' is no regular expression: .* \\(any characters are '\\.\\*'\\)"])
gpt2 = ["plan", f"{sys.argv[2]}/models/gpt2-small/model.onnx", "--dim=batch=4", *STEP[3:]]
expect_error(checks, "a glob of a layer", [*gpt2, "--frozen=model.transformer.h.1*"], 2,
             ["no parameter matches 'model.transformer.h.1\\*': it is a regular expression, .* 'model.transformer.h.1\\.\\*'"])

# A part of a parameter is one by itself, by the name that is printed.
PART = "model.transformer.h.0.attn.c_attn.weight@0,64"
text = kerf(*gpt2, f"--frozen={PART}").stdout
checks.expect("a part alone", f"kept      1, frozen: {PART}\n" in text, text[-600:])

# Losses that make probabilities themselves get none, and PyTorch's names are understood.
w = onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
for op, loss in (("Sigmoid", "bce_with_logits(y,t)"), ("Softmax", "cross_entropy(y,t)"), ("LogSoftmax", "nll(y,t)")):
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["h"]), onnx.helper.make_node(op, ["h"], ["p"]), onnx.helper.make_node("Identity", ["p"], ["y"])]
    ends = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [2, 4]), ("y", [2, 3]))]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], [w]), ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 21)]),
              OUT / "ends.onnx")
    result = kerf("plan", OUT / "ends.onnx", "--train", f"--loss={loss}", "--optimizer=sgd")
    said = re.search(f"^warning: --loss: \\S+ takes logits, output 'y' is what {op} gives .*: it trains, and badly, as it does in PyTorch, .* "
                     f"gives the input of {op}, which node '\\S+' computes", result.stderr, re.M) is not None
    checks.expect(f"{loss} of {op}", result.returncode == 0 and said == (op != "LogSoftmax"), result.stderr)
# Where the logits are an output as well, the loss of these is named.
graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["h"]), onnx.helper.make_node("Softmax", ["h"], ["y"])], "g", ends[:1],
                               [ends[1], onnx.helper.make_tensor_value_info("h", 1, [2, 3])], [w])
onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 21)]), OUT / "both.onnx")
result = kerf("plan", OUT / "both.onnx", "--train", "--loss=cross_entropy(y,t)", "--optimizer=sgd")
checks.expect("logits beside", "; its input is an output, too: cross_entropy(h,t)\n" in result.stderr, result.stderr)
for word, meant in (("bce", "bce_with_logits"), ("mse_loss", "mse"), ("l1_loss", "l1"), ("mae", "l1")):
    expect_error(checks, word, ["plan", OUT / "ends.onnx", "--train", f"--loss={word}(y,t)", "--optimizer=sgd"], 2, [f"unknown loss '{word}', did you mean '{meant}'"])
expect_error(checks, "mae alone", ["plan", OUT / "ends.onnx", "--train", "--loss=mae", "--optimizer=sgd"], 2, ["'mae' is no output and no loss, did you mean l1\\(OUTPUT,LABELS\\)\\?"])
# An output that is the loss is no function of others.
for word, said in (("loss", "expected cross_entropy, .*; an"), ("mse_loss", "did you mean 'mse'\\? An")):
    expect_error(checks, f"{word} of nothing", ["plan", OUT / "ends.onnx", "--train", f"--loss={word}()", "--optimizer=sgd"], 2,
                 [f"unknown loss '{word}', {said} output of the model that is its loss is trained by its name alone: --loss={word}\n"])

# A plan of a step is none of inference, whatever else it is.
made = kerf(*STEP, "--devices=2", "--precision=bf16", "-o", OUT / "step.json", "-q")
checks.expect("a plan of a step", made.returncode == 0, made.stderr)
expect_error(checks, "run by it", ["run", MODEL, f"--plan={OUT / 'step.json'}", "--dim=batch=16", "--seed=1"], 2, ["is a plan of a step that trains, expected one of inference"])

# The file beside a model is not the model.
(OUT / "model.onnx").write_bytes(b"")
(OUT / "model.onnx.data").write_bytes(b"\0" * 64)
expect_error(checks, "the weights' file", ["inspect", OUT / "model.onnx.data"], 2, ["model.onnx.data: holds the weights of a model, expected .*model.onnx\n"])
checks.finish()
