# ONNX's SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss inside the graph, every reduction with and without weights
# of classes: PyTorch's losses and weights on one rank, with the batch cut, and with the classes cut. A label out of range
# ends the run wherever it stands. With --all every case on every mesh, otherwise each on one rank and, in turn, on a mesh
# of data or tensors or on one that is drawn at random.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import pathlib
import re
import sys

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np

from kerf_tests import Checks, expect_error, fresh_folder, in_parallel, kerf, tensors

OUT = fresh_folder(sys.argv[1])
np.save(OUT / "rate.npy", np.float32(0.1))
checks = Checks()
CASES = [case for case in json.loads((INPUTS / "autodiff/cases.json").read_text())
         if case["model"].startswith(("softmax_flat", "softmax_grid", "nll_flat", "nll_grid"))]
# Plans drawn at random cut everything that may be cut, the 5 classes and their table too (3 and 2 and padding).
RANDOM = {f"random-{ranks}-{seed}": [f"--devices=cpu:{ranks}", f"--mesh=tp={ranks}", "--solver=random", f"--seed={seed}"]
          for ranks in (2, 3) for seed in (1, 3)}
EVERYTHING = "--all" in sys.argv
MESHES = {"one": [], "dp": ["--devices=cpu:2", "--mesh=dp=2"], "tp": ["--devices=cpu:2", "--mesh=tp=2"], **RANDOM}


def meshes(case):
    """Where a case is trained."""
    divides = case["inputs"]["x"]["shape"][0] % 2 == 0
    if EVERYTHING:
        return [mesh for mesh in MESHES if mesh != "dp" or divides]
    turn = CASES.index(case)
    return ["one", ("dp" if divides and turn % 4 else "tp") if turn % 2 == 0 else list(RANDOM)[turn // 2 % len(RANDOM)]]


def save(name, case, **changes):
    arrays = {key: np.array(value["data"], np.float32 if key == "x" else np.int64).reshape(value["shape"])
              for key, value in case["inputs"].items()}
    np.savez(OUT / f"{name}.npz", **dict(arrays, **changes))
    return arrays


def command(name, case, mesh, steps):
    return ["train", INPUTS / "autodiff" / f"{case['model']}.onnx", f"--loss={case['loss']}",
            f"--optimizer={case['optimizer']}", f"--data={OUT / name}.npz", f"--batch-size={case['inputs']['x']['shape'][0]}",
            f"--steps={steps}", "--shuffle=off", "--threads=1", *mesh,
            *(f"--frozen={name}" for name in case["options"].get("frozen", []))]


def run(case, mesh):
    name = f"{case['name']}-{mesh}"
    save(name, case)
    log, weights = OUT / f"{name}.jsonl", OUT / f"{name}.safetensors"
    result = kerf(*command(name, case, MESHES[mesh], case["steps"]), f"--log={log}", f"--save-safetensors={weights}")
    checks.expect(f"{name} runs", result.returncode == 0, result.stderr)
    if result.returncode:
        return
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    checks.expect(f"{name}: losses", np.allclose(losses, case["losses"], rtol=1e-5, atol=1e-5), f"{losses}, {case['losses']}")
    for key, found in tensors(weights).items():
        if key in case["parameters"]:
            checks.expect(f"{name}: {key}", np.allclose(found, case["parameters"][key], rtol=1e-4, atol=1e-5),
                          f"{found}, {case['parameters'][key]}")


def refuse(case, mesh, label):
    name = f"range-{case['name']}-{mesh}-{label}"
    labels = save(name, case)["labels"].copy()
    labels[1 if labels.ndim == 1 else (1, 2)] = label
    save(name, case, labels=labels)
    expect_error(checks, name, command(name, case, MESHES[mesh], 2), 2, [
        "a label of sample 1", rf"is {label}\b", "expected 0 to 4 or (2|-1) \\(ignored\\)"])


# The program itself notices too, where no loop has looked at the labels: also when the rows of the table are cut.
def unseen(case, mesh, label):
    name = f"unseen-{case['name']}-{mesh}-{label}"
    labels = save(name, case)["labels"].copy()
    labels[1 if labels.ndim == 1 else (1, 2)] = label
    np.save(OUT / f"{name}.npy", labels)
    package = OUT / f"{name}.kerf"
    result = kerf("compile", INPUTS / "autodiff" / f"{case['model']}.onnx", "--train", f"--loss={case['loss']}",
                  "--optimizer=sgd", *MESHES[mesh], "-o", package,
                  *(f"--frozen={name}" for name in case["options"].get("frozen", [])))
    checks.expect(f"{name} compiles", result.returncode == 0, result.stderr)
    expect_error(checks, name, ["run", package, "--random-inputs", "--input", f"labels=@{OUT / name}.npy", "--input",
                                f"train.learning_rate=@{OUT / 'rate.npy'}"], 5, ["index (5|6) is out of range"])


ends = [CASES[0], CASES[-1]]
cut = {"exp": [], "gather": []}


def look(case, mesh):
    """Notes whether the plan cuts the classes of the exponentials, and the table of what labels count."""
    result = kerf("plan", INPUTS / "autodiff" / f"{case['model']}.onnx", "--train", f"--loss={case['loss']}", "--optimizer=sgd",
                  *MESHES[mesh], "--stop-after=partition", *(f"--frozen={name}" for name in case["options"].get("frozen", [])))
    checks.expect(f"{case['name']}-{mesh} plans", result.returncode == 0, result.stderr)
    text = result.stdout
    for line in text.splitlines():
        if "nn.gather" in line and "partial" in line:
            cut["gather"].append((case, mesh))
        if "nn.exp" in line and re.search(r"x[23]xf32|x[23]x4xf32|<[34]x4x[23]xf32", line):
            cut["exp"].append((case, mesh))


in_parallel([(look, case, mesh) for case in CASES for mesh in meshes(case) if mesh in RANDOM])
print({key: len(value) for key, value in cut.items()})
least = 5 if EVERYTHING else 1
checks.expect("classes are cut", len(cut["exp"]) > least, str(cut["exp"]))
checks.expect("the table is cut", len(cut["gather"]) > least, str(cut["gather"]))
OUT_OF_RANGE = (5, 6, -7)
in_parallel([(run, case, mesh) for case in CASES for mesh in meshes(case)]
            + [(refuse, case, mesh, label) for case in ends for mesh in ("one", "tp") for label in (5, -7)]
            + [(unseen, case, mesh, label) for turn, (case, mesh) in enumerate([(case, "one") for case in ends] + cut["gather"][:6])
               for label in (OUT_OF_RANGE if EVERYTHING or turn == 0 else OUT_OF_RANGE[turn % 3:][:1])])
checks.finish()
