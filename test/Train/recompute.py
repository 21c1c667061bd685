# Steps that compute blocks of their forward pass again give the losses of steps that hold everything, but for the last
# bits, which depend on what is computed together, and those of one rank; a model whose ops are computed together as
# before gives the same bits. What is sent is what was planned. Dropout draws the same masks again, and running statistics
# are written once. With --all more meshes and models.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import math
import pathlib
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx

from kerf_tests import Checks, fresh_folder, in_parallel, kerf

OUT = fresh_folder(sys.argv[1])
EVERYTHING = "--all" in sys.argv
checks = Checks()
losses, weights = {}, {}
STEPS = 6


def with_dropout():
    """The GPT-2 with Dropout behind its first projections."""
    model = onnx.load(INPUTS / "training/gpt2/model.onnx")
    gelus = [node for node in model.graph.node if node.op_type == "Gelu"] or \
            [node for node in model.graph.node if node.op_type == "Softmax"]
    checks.expect("two layers", len(gelus) == 2, str({node.op_type for node in model.graph.node}))
    for number, node in enumerate(gelus):
        name, output = f"drop{number}", node.output[0]
        node.output[0] = f"{name}_x"
        helper = onnx.helper
        model.graph.initializer.extend([helper.make_tensor(f"{name}_ratio", 1, [], [0.25]),
                                        helper.make_tensor(f"{name}_mode", 9, [], [1])])
        drop = helper.make_node("Dropout", [f"{name}_x", f"{name}_ratio", f"{name}_mode"], [output], name=name)
        model.graph.node.insert(list(model.graph.node).index(node) + 1, drop)
    onnx.save(model, OUT / "dropout.onnx")
    return OUT / "dropout.onnx"


def train(case, model, folder, mesh, every, *flags):
    curves = json.loads((folder / "curves.json").read_text())
    name = f"{case} {mesh or 'one'} {every}".replace(",", "-")
    log, kept, stats = (OUT / f"{name.replace(' ', '_')}.{kind}" for kind in ("jsonl", "safetensors", "json"))
    ranks = math.prod(int(part.split("=")[1]) for part in mesh.split(",")) if mesh else 1
    result = kerf("train", model, f"--dim=batch={curves['batch']}", f"--batch-size={curves['batch']}",
                  "--loss=cross_entropy(logits,labels)", "--optimizer=sgd,lr=0.05,momentum=0.9",
                  f"--data={folder / 'data.npz'}", "--shuffle=off", f"--steps={STEPS}", f"--log={log}", "--threads=1",
                  f"--save-safetensors={kept}", f"--stats={stats}", f"--devices=cpu:{ranks}", "--timeout=120",
                  f"--recompute={every}", *([f"--mesh={mesh}"] if mesh else []), *flags, timeout=600)
    checks.expect(f"{name} runs", result.returncode == 0, result.stderr[:2000])
    if result.returncode:
        return
    losses[case, mesh, every] = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    weights[case, mesh, every] = kept.read_bytes()
    sent = json.loads(stats.read_text())["communication"]
    checks.expect(f"{name}: sent as planned", sent["bytes_per_rank"] == sent["planned_bytes_per_rank"], str(sent))


F1B, GPIPE = ["--micro-batches=4", "--schedule=1f1b"], ["--micro-batches=2", "--schedule=gpipe"]
MESHES = {"": [], "dp=2": [], "tp=2": [], "pp=2": F1B}
if EVERYTHING:
    MESHES |= {"dp=4": ["--micro-batches=2"], "tp=4": [], "dp=2,tp=2": [], "pp=2,dp=2": GPIPE, "pp=2,tp=2": F1B}
CASES = {"gpt2": (INPUTS / "training/gpt2/model.onnx", INPUTS / "training/gpt2"),
         "dropout": (with_dropout(), INPUTS / "training/gpt2"),
         "conv-batch-norm": (INPUTS / "training/conv-batch-norm/model.onnx", INPUTS / "training/conv-batch-norm")}
if EVERYTHING:
    CASES |= {name: (INPUTS / f"training/{name}/model.onnx", INPUTS / f"training/{name}") for name in ("mlp", "llama", "conv-max-pool")}
jobs = []
for case, (model, folder) in CASES.items():
    for mesh, flags in MESHES.items():
        if case.startswith("conv"):  # BatchNorm's statistics are those of a micro-batch
            flags = [flag for flag in flags if not flag.startswith("--micro")] + (["--micro-batches=1"] if "pp" in mesh else [])
        if not EVERYTHING and case != "gpt2" and mesh in ("tp=2", "dp=2"):
            continue
        jobs += [(train, case, model, folder, mesh, every, *flags) for every in ("none", "all", "2")]
# Any legal plan, in which the copies are cut in other ways than what they are copies of.
jobs += [(train, "gpt2", *CASES["gpt2"], "a=2", every, "--solver=random", f"--seed={seed}")
         for every, seed in (("all", 0), ("2", 1), ("all", 2), ("2", 4))[:None if EVERYTHING else 2]]
in_parallel(jobs)
for (case, mesh, every), found in losses.items():
    one = losses[case, "", "none"]
    checks.expect(f"{case} {mesh} {every}: the losses of one rank", len(found) == STEPS and np.allclose(found, one, rtol=2e-5),
                  f"{found}\n{one}")
    if every != "none" and (case, mesh, "none") in losses:
        checks.expect(f"{case} {mesh} {every}: but for the last bits those of the mesh",
                      np.allclose(found, losses[case, mesh, "none"], rtol=2e-6), f"{found}\n{losses[case, mesh, 'none']}")
        if mesh == "" and case == "conv-batch-norm":
            checks.expect(f"{case} {every}: the same bits", found == losses[case, mesh, "none"] and
                          weights[case, mesh, every] == weights[case, mesh, "none"], f"{found}\n{losses[case, mesh, 'none']}")
checks.finish()
