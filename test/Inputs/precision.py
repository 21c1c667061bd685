#!/usr/bin/env python3
"""precision.py MODEL_FOLDER OUT --precision bf16|f16 [--batch B] [--mesh MESH ...]

Inference with --precision against ONNX Runtime. Twice: the model as it is, which is
what its folder holds, and with each operand of a MatMul, Gemm or Conv (not its bias)
cast to the narrow type and back, products in float32: what --precision says.
The second is away from the first by e at most. Kerf may be away from both by
2 e, and must be away from the first by e / 8 at least: else nothing was rounded.
On every mesh, whose bytes must be those that were planned, and `kerf verify` must
find it equal to one device.
"""
import argparse
import json
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from kerf_tests import Checks, fresh_folder, kerf

TYPES = {"bf16": TensorProto.BFLOAT16, "f16": TensorProto.FLOAT16}


def rounded(path, element):
    """The model with rounded operands."""
    model = onnx.load(path)
    nodes, known = [], {}
    for node in model.graph.node:
        if node.op_type in ("MatMul", "Gemm", "Conv"):
            for index in (0, 1):
                name = node.input[index]
                if name not in known:
                    known[name] = f"{name}/rounded"
                    nodes.append(helper.make_node("Cast", [name], [f"{name}/narrow"], to=element))
                    nodes.append(helper.make_node("Cast", [f"{name}/narrow"], [known[name]], to=TensorProto.FLOAT))
                node.input[index] = known[name]
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model.SerializeToString()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--precision", choices=TYPES, required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--mesh", action="append", default=[])
    arguments = parser.parse_args()
    folder, out = arguments.folder, fresh_folder(arguments.out)
    inputs = {path.stem: np.load(path) for path in sorted((folder / "inputs").glob("*.npy"))}
    exact = {path.stem: np.load(path) for path in sorted((folder / "outputs").glob("*.npy"))}
    options = onnxruntime.SessionOptions()
    # Fusions would take the casts away.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(rounded(folder / "model.onnx", TYPES[arguments.precision]), options)
    names = [output.name for output in session.get_outputs()]
    narrow = dict(zip(names, session.run(names, inputs)))
    checks = Checks()
    given = [f"--input={name}=@{folder / 'inputs' / name}.npy" for name in inputs]
    for mesh in ["", *arguments.mesh]:
        ranks = int(np.prod([int(part.split("=")[1]) for part in mesh.split(",")])) if mesh else 1
        flags = [folder / "model.onnx", f"--dim=batch={arguments.batch}", f"--precision={arguments.precision}",
                 f"--devices=cpu:{ranks}", *([f"--mesh={mesh}"] if mesh else []), *given]
        name = f"{folder.name} {arguments.precision} {mesh or 'one rank'}"
        result = kerf("run", *flags, f"--output-dir={out}", "-q", f"--stats={out / 'run.json'}")
        checks.expect(name, result.returncode == 0, f"  {result.stderr}")
        if result.returncode:
            continue
        stats = json.loads((out / "run.json").read_text())["communication"]
        checks.expect(f"{name}: bytes", stats["bytes_per_rank"] == stats["planned_bytes_per_rank"], f"  {stats}")
        for key, want in exact.items():
            got = np.load(out / f"{key}.npy").astype(np.float64)
            e = np.max(np.abs(narrow[key].astype(np.float64) - want))
            far, away = np.max(np.abs(got - want)), np.max(np.abs(got - narrow[key]))
            print(f"{name}: {key}: {far:.2e} from float32, {away:.2e} from rounded operands, which is {e:.2e} from "
                  f"float32; largest {np.max(np.abs(want)):.2g}", flush=True)
            checks.expect(f"{name}: {key}", got.shape == want.shape and e / 8 <= far <= 2 * e and away <= 2 * e)
        if mesh:
            result = kerf("verify", *flags)
            checks.expect(f"{name}: verify", result.returncode == 0, f"  {result.stdout}{result.stderr}")
    checks.finish()


if __name__ == "__main__":
    main()
