# What a command is given that is nearly what it takes is answered in plain words: files of other programs, sizes of --dim,
# names that are close to others, outputs that a step does not compute.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT, MODELS, checks = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "models", Checks()
MODEL = OUT / "two.onnx"
graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "product"), helper.make_node("ReduceSum", ["y"], ["reg"], "sum")], "two",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4]), helper.make_tensor_value_info("reg", TensorProto.FLOAT, [1, 1])],
                          [numpy_helper.from_array(np.ones((6, 4), np.float32), "w")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), MODEL)
np.save(OUT / "x.npy", np.ones((8, 6), np.float32))
np.savez(OUT / "data.npz", x=np.ones((8, 6), np.float32), t=np.ones((8, 4), np.float32))
(OUT / "x.pt").write_bytes((OUT / "data.npz").read_bytes())
(OUT / "one.bin").write_bytes(b"1")
STEP = ["--loss=mse(y,t)", "--optimizer=sgd"]
TRAIN = ["train", MODEL, "--batch-size=4", "--steps=1", f"--data={OUT / 'data.npz'}"]

for flag in (f"--input=x=@{OUT / 'x.pt'}", f"--input={OUT / 'x.pt'}", f"--input=@{OUT / 'x.pt'}"):
    expect_error(checks, f"a file of torch.save, {flag}", ["run", MODEL, "--dim=batch=8", flag], 2,
                 [r"x.pt: is a file of PyTorch's torch.save, expected one of NumPy: numpy.save\(FILE, t.numpy\(\)\)"])
expect_error(checks, "no samples", ["run", MODEL, "--dim=batch=0", f"--input={OUT / 'x.npy'}"], 2, [r'--dim: "batch" has size 0, expected at least 1'])
expect_error(checks, "other samples", ["run", MODEL, "--dim=batch=4", f"--input={OUT / 'x.npy'}"], 2,
             [r'x.npy: dimension "batch" of input "x" is 8, by --dim it is 4'])
expect_error(checks, "an output that the loss does not need", ["plan", MODEL, "--dim=batch=8", "--train", *STEP, "--devices=2", "--explain=reg"], 2,
             [r"note: the model has an output 'reg', but the loss does not need it: a training step does not compute it"])
expect_error(checks, "a loss that there is not", [*TRAIN, "--loss=pinball(q,target,tau=0.5)", "--optimizer=sgd"], 2,
             [r"unknown loss 'pinball', .*; one that the model computes is an output of it: --loss=NAME"])
expect_error(checks, "one byte", [*TRAIN[:-1], *STEP, f"--data={OUT / 'one.bin'}"], 2, [r"has 1 byte, not a multiple of the 2"])
expect_error(checks, "a folder that takes none", ["run", MODEL, f"--input={OUT / 'x.npy'}", "--output-dir=/proc/foo"], 2,
             [r'/proc/foo: cannot create: the folder "/proc" takes no new files'])

trained = kerf(*TRAIN, *STEP, "-o", OUT / "out.pt", f"--eval-data={OUT / 'data.npz'}", "--json")
checks.expect("a model by another's name", trained.returncode == 0 and
              "out.pt will be an ONNX model, which torch.load does not read (--save-safetensors=FILE writes its weights)" in trained.stderr, trained.stderr)
# A file has the format of its flag, whatever its name says.
WEIGHTS = " (--save-safetensors=FILE writes its weights)"
for flag, file, said in (("-o", "a.safetensors", "an ONNX model, whatever its name says" + WEIGHTS), ("-o", "a.npz", "an ONNX model, whatever its name says"),
                         ("-o", "a.onnx", ""), ("-o", "a", ""), ("--save-safetensors", "b.onnx", "a safetensors file, whatever its name says (-o FILE writes the model)"),
                         ("--save-safetensors", "b.pt", "a safetensors file, which torch.load does not read"), ("--save-safetensors", "b.safetensors", "")):
    named = kerf(*TRAIN, *STEP, flag, OUT / file)
    lines = [line for line in named.stderr.splitlines() if " will be " in line]
    checks.expect(f"{flag} {file}", named.returncode == 0 and lines == ([f"note: {OUT / file} will be {said}"] if said else []), named.stderr)
checks.expect("samples of the evaluation", json.loads(trained.stdout).get("eval_samples") == 8, trained.stdout)

# fp32 and fp16 are other names of f32 and f16.
for flag, also in (("--precision=fp32", []), ("--precision=fp16", ["--loss-scale=1024"]), ("--gradient-dtype=fp32", []), ("--gradient-dtype=fp16", [])):
    named = kerf(*TRAIN, *STEP, flag, *also, "--no-output")
    checks.expect(f"{flag} is taken", named.returncode == 0, named.stderr)
# Commas between options.
BLANK = "; options have commas between them: "
for flag, meant in (("--optimizer=adamw lr=1e-3 wd=0.1", "adamw,lr=1e-3,wd=0.1"), ("--optimizer=sgd,lr=0.1; momentum=0.9", "sgd,lr=0.1,momentum=0.9"),
                    ("--optimizer=adamw:lr=1", "adamw,lr=1"), ("--optimizer=adam, betas=1", None), ("--optimizer=lion", None),
                    ("--learning-rate=cosine warmup=3", "cosine,warmup=3"), ("--learning-rate=sine", None),
                    ("--loss=huber(y,t delta=1)", "huber(y,t,delta=1)"), ("--loss=mse(y)", None)):
    arguments = [given for given in STEP if given.split("=")[0] != flag.split("=")[0]]
    expect_error(checks, flag, [*TRAIN, *arguments, flag, "--no-output"], 2, [re.escape(BLANK + meant + "\n") if meant else "^error: ((?!commas).)*\n"])
# A loss of two outputs: labels are data, which may have an array of an output's name.
named = kerf(*TRAIN, "--loss=mse(y,y)", "--optimizer=sgd", "--no-output")
checks.expect("a loss of two outputs", named.returncode == 2 and re.search(
    r'^error: \S+data.npz: no array for labels "y", which is an output of the model: a loss holds an output against data\n'
    r"note: of two outputs the model computes the loss, as an output of one number: --loss=NAME\n$", named.stderr), named.stderr)
np.savez(OUT / "more.npz", x=np.ones((8, 6), np.float32), y=np.ones((8, 4), np.float32), t=np.ones((8, 4), np.float32), more=np.ones(3))
for labels, said in (("y", 'arrays "more", "t"'), ("t", 'arrays "more", "y"')):
    named = kerf(*TRAIN[:-1], f"--data={OUT / 'more.npz'}", f"--loss=mse(y,{labels})", "--optimizer=sgd", "--no-output")
    checks.expect(f"arrays that nothing reads, {labels}", named.returncode == 0 and f"note: {OUT / 'more.npz'}: the step reads no {said}\n" in named.stderr,
                  named.stderr)
named = kerf(*TRAIN, *STEP, "--no-output")
checks.expect("all are read", "the step reads no" not in named.stderr, named.stderr)

for name, meant in (("ddp", "dp"), ("tpp", None), ("mp", None), ("x", None), ("dp", None)):
    planned = kerf("plan", MODEL, "--dim=batch=8", "--devices=2", f"--mesh={name}=2")
    said = re.findall(r"^note: --mesh: axis '(\w+)' may cut anything, did you mean '(\w+)'\?$", planned.stderr, re.M)
    checks.expect(f"--mesh={name}", planned.returncode == 0 and said == ([(name, meant)] if meant else []), planned.stderr)

# A search that its deadline ended says so as one that Ctrl-C ended does; its lines are no longer than others.
late = kerf("plan", MODELS / "gpt2-small/model.onnx", "--dim=batch=8", "--devices=64", "--deadline=0.001", "-v", "--train",
            "--loss=cross_entropy(logits,labels)", "--optimizer=adamw")
checks.expect("a deadline", late.returncode == 0 and re.search("^note: the search was ended by --deadline: this is the best plan so far", late.stderr, re.M),
              late.stderr)
lines = late.stdout[late.stdout.find("\ncandidates"):].splitlines()
checks.expect("lines that fit", "not searched: the deadline came first" in " ".join(line.strip() for line in lines)
              and max(map(len, (line for line in lines if "; " in line and "=" in line))) <= 120, max(lines, key=len))
checks.finish()
