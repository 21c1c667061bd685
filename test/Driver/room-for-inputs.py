# Inputs and outputs are the caller's: ranks on CPUs, who share its machine, get what they leave of the memory, and what
# leaves nothing is refused before anything is planned or drawn. All on a machine of a few MiB.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import os
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT, checks = fresh_folder(sys.argv[1]), Checks()
MODEL, MIB = OUT / "wide.onnx", 1 << 20
graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], "wide",
                          [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 256])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
                          [numpy_helper.from_array(np.ones((256, 4), np.float32), "w")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), MODEL)


def plan_of(*flags):
    result = kerf("plan", MODEL, "--devices=2", *flags, "-o", OUT / "plan.json")
    checks.expect(f"planned {flags}", result.returncode == 0, result.stderr)
    return json.loads((OUT / "plan.json").read_text()) if result.returncode == 0 else {"memory": {"limit": 0}, "machine": {}}


machine = plan_of("--machine=cpu", "--dim=batch=8")["machine"]
machine["memory_bytes_per_device"] = 8 * MIB
SMALL = OUT / "small.json"
SMALL.write_text(json.dumps(machine))
own = 16 * MIB // 32  # of so small a machine, for the program

# What is left is shared by the ranks; the machine stays what it is.
ends = 1024 * (256 + 4) * 4
small = plan_of(f"--machine={SMALL}", "--dim=batch=1024")
checks.expect("what is left", small["memory"]["limit"] == (16 * MIB - own - ends) // 2, small["memory"])
checks.expect("the machine", small["machine"] == machine, small["machine"])
checks.expect("a limit that is said", plan_of(f"--machine={SMALL}", "--dim=batch=1024", "--memory-limit=7MiB")["memory"]["limit"] == 7 * MIB)
gpus = plan_of("--machine=h100-8", "--dim=batch=1024")
checks.expect("devices with memory of their own", gpus["memory"]["limit"] == gpus["machine"]["memory_bytes_per_device"], gpus["memory"])
rows = json.loads(kerf("plan", MODEL, "--devices=2", f"--machine={SMALL}", "--dim=batch=1024", "--what-if=batch=16000", "--json").stdout)["plans"]
checks.expect("a row that does not fit", "the inputs and outputs of a step are 15.9 MiB" in rows[1].get("reason", ""), rows[1])

# kerf-opt knows the machine alone: the pipeline that is printed for it has the limit.
printed = kerf("plan", MODEL, "--devices=2", f"--machine={SMALL}", "--dim=batch=1024", "--print-pipeline").stdout
checks.expect("the limit in the pipeline", f"memory-limit={small['memory']['limit']} " in printed, printed)
printed = kerf("plan", MODEL, "--devices=2", "--machine=h100-8", "--dim=batch=1024", "--print-pipeline").stdout
checks.expect("no limit in the pipeline", "memory-limit=0 " in printed, printed)

# A reference of kerf verify takes up to half of what is left: these batches fit into all of it.
HALF = [MODEL, "--devices=2", "--micro-batches=1", f"--machine={SMALL}", "--dim=batch=5500", "--seed=1"]
checks.expect("fits", kerf("run", *HALF, "-q").returncode == 0)
expect_error(checks, "room for the reference", ["verify", *HALF], 4, ["per device, the limit is 26[0-9]{5} bytes"])
for more in (["--dim=batch=5000"], ["--dim=batch=5500", "--memory-limit=5MiB"]):
    verified = kerf("verify", MODEL, "--devices=2", "--micro-batches=1", f"--machine={SMALL}", "--seed=1", *more)
    checks.expect(f"verified with {more}", verified.returncode == 0, verified.stderr)

# Training reads the next batch while a step runs, and a packed file lies in memory.
LOSS = ["--loss=mse(y,t)", "--optimizer=sgd"]
trained = plan_of(f"--machine={SMALL}", "--dim=batch=1024", "--train", *LOSS)
checks.expect("two batches", 0 <= (16 * MIB - own) // 2 - trained["memory"]["limit"] - 1024 * (256 + 4) * 4 < 64, trained["memory"])
arrays = {"x": np.zeros((12000, 256), np.float32), "t": np.zeros((12000, 4), np.float32)}
np.savez(OUT / "plain.npz", **arrays)
np.savez_compressed(OUT / "packed.npz", **arrays)
TRAIN = ["train", MODEL, "--devices=2", f"--machine={SMALL}", "--batch-size=64", "--steps=1", *LOSS, "--no-output"]
mapped = kerf(*TRAIN, f"--data={OUT / 'plain.npz'}")
checks.expect("mapped data", mapped.returncode == 0, mapped.stderr)
packed = kerf(*TRAIN, f"--data={OUT / 'packed.npz'}")
checks.expect("packed data that fit", packed.returncode == 0, packed.stderr)
np.savez_compressed(OUT / "packed.npz", **arrays, more=np.zeros((6 * MIB), np.float32))
expect_error(checks, "packed data", [*TRAIN, f"--data={OUT / 'packed.npz'}"], 4,
             [r"the inputs and outputs of a step and the data that are kept in memory are 36\.\d MiB, the machine has 16\.0 MiB of memory"])

# So does one of inputs.
np.savez_compressed(OUT / "inputs.npz", x=np.zeros((64, 256), np.float32), more=np.zeros((6 * MIB), np.float32))
expect_error(checks, "packed inputs", ["run", MODEL, "--devices=2", f"--machine={SMALL}", f"--input=@{OUT / 'inputs.npz'}"], 4,
             [r"the inputs and outputs of a step and the data that are kept in memory are 24\.1 MiB, the machine has 16\.0 MiB of memory"])

# Nothing is planned, drawn or written where they alone are too large.
LARGE = ["--devices=2", "--dim=batch=16000"]
SAID = [r"wide.onnx: the inputs and outputs of a step are 15\.9 MiB, the machine has 16\.0 MiB of memory\n",
        r"note: ranks on CPUs share the machine's memory with them: smaller sizes take less, --memory-limit says what ranks may take all the same\n"]
for command in (["plan", MODEL, *LARGE, f"--machine={SMALL}", "-o", OUT / "left"],
                ["compile", MODEL, *LARGE, f"--machine={SMALL}", "-o", OUT / "left"],
                ["run", MODEL, *LARGE, f"--machine={SMALL}", "--seed=1", "--output-dir", OUT / "left"],
                ["verify", MODEL, *LARGE, f"--machine={SMALL}", "--seed=1"]):
    expect_error(checks, f"too large for {command[0]}", command, 4, SAID, absent=[OUT / "left"])
measured = kerf("run", MODEL, *LARGE, "--seed=1", env={**os.environ, "KERF_HOST_MACHINE": str(SMALL)})
checks.expect("on the host as measured", measured.returncode == 4 and "the machine has 16.0 MiB of memory" in measured.stderr, measured.stderr)
asked = kerf("run", MODEL, *LARGE, f"--machine={SMALL}", "--seed=1", "--memory-limit=64MiB", "-q")
checks.expect("a limit that is said is taken", asked.returncode == 0, asked.stderr)
checks.finish()
