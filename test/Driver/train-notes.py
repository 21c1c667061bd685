# What is said of a run that is right but not what was meant: a mesh that cuts
# nothing, a batch that does not divide, a trained constant. Nothing with -q.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import pathlib
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
                  f"--data={MLP / 'data.npz'}", "--threads=1", *flags)
    checks.expect(" ".join(map(str, flags)), result.returncode == 0, result.stderr)
    return [line for line in result.stderr.splitlines() if line.startswith("note: ")]


DP4 = ("--devices=cpu:4", "--mesh=dp=4")
idle = notes(MLP / "model.onnx", "--batch-size=3", *DP4)
checks.expect("idle axis", idle == ["note: nothing is cut over dp=4: all devices along it compute the same"], str(idle))
quiet = notes(MLP / "model.onnx", "--batch-size=3", "-q", *DP4)
checks.expect("quiet", quiet == [], str(quiet))
padded = notes(MLP / "model.onnx", "--batch-size=16", "--devices=cpu:3", "--mesh=dp=3")
checks.expect("padding", any('"x" has 16 along dimension 0, which dp=3 cuts into parts of 6: 2 are padding' in note
                             for note in padded), str(padded))
even = notes(MLP / "model.onnx", "--batch-size=16", *DP4)
checks.expect("nothing to say", even == [], str(even))

# As torch.onnx names a constant; parameters are called after their modules.
model = onnx.load(MLP / "model.onnx")
out = model.graph.output[0]
last = model.graph.node[-1]
last.output[0] = "before_scale"
model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(8, np.float32), "val_9"))
model.graph.node.append(onnx.helper.make_node("Mul", ["before_scale", "val_9"], [out.name]))
onnx.save(model, OUT / "scaled.onnx")
trained = notes(OUT / "scaled.onnx", "--batch-size=16")
checks.expect("constant", len(trained) == 1 and '"val_9" (8) is trained' in trained[0] and "--frozen" in trained[0], str(trained))
frozen = notes(OUT / "scaled.onnx", "--batch-size=16", "--frozen=val_9")
checks.expect("frozen constant", frozen == [], str(frozen))

# A number that is called so is no weight, unless it is named.
model.graph.initializer[-1].CopyFrom(onnx.numpy_helper.from_array(np.ones(1, np.float32), "val_9"))
onnx.save(model, OUT / "number.onnx")
number = notes(OUT / "number.onnx", "--batch-size=16")
checks.expect("number", number == [], str(number))
named = notes(OUT / "number.onnx", "--batch-size=16", "--trainable=val_9")
checks.expect("named number", len(named) == 1 and '"val_9" (1) is trained' in named[0], str(named))

# Equal tensors that an exporter stores once.
model.graph.initializer[-1].CopyFrom(onnx.numpy_helper.from_array(np.ones(8, np.float32), "val_9"))
model.graph.node[-1].output[0] = "scaled"
model.graph.node.append(onnx.helper.make_node("Mul", ["scaled", "val_9"], [out.name], name="again"))
onnx.save(model, OUT / "shared.onnx")
shared = notes(OUT / "shared.onnx", "--batch-size=16")
checks.expect("shared", shared[:1] == ['note: stored once and read in several places, so trained as one: "val_9" (by 2 nodes)'],
              str(shared))
checks.finish()
