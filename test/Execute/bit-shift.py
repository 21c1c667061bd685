# BitShift of every type of integers, at the ends of the range and by amounts that the specification gives a meaning
# (negative ones, all bits and more), on one rank and cut over two and four: against Python's integers.
#
# REQUIRES: kerf-commands, onnx
# RUN: %python %s %t %inputs
import pathlib
import shutil
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from kerf_commands import Commands
from kerf_tests import Checks
from onnx import helper

out = pathlib.Path(sys.argv[1])
shutil.rmtree(out, ignore_errors=True)
out.mkdir(parents=True)
checks = Checks()
RANDOM = np.random.default_rng(2)


def shifted(x, amount, direction, info):
    within = 0 <= amount < info.bits
    if direction == "RIGHT":
        return x >> amount if within else -1 if x < 0 else 0
    result = (x << amount) % 2**info.bits if within else 0
    return result - 2**info.bits if result > info.max else result


with Commands(timeout=60) as kerf:
    for dtype in map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")):
        info = np.iinfo(dtype)
        numbers = [0, 1, 3, info.max, info.max - 1, info.max // 3, info.min, info.min // 3]
        drawn = RANDOM.integers(info.min, info.max, 12, dtype, endpoint=True)
        x = np.concatenate([np.array(numbers, dtype), drawn])[:, None]
        amounts = [0, 1, info.bits // 2, info.bits - 1, info.bits, info.bits + 1, info.max, info.min]
        y = np.array(amounts + ([-1] if info.min else []), dtype)
        for direction in ("LEFT", "RIGHT"):
            expected = np.array([[shifted(int(a), int(b), direction, info) for b in y] for a in x[:, 0]], object)
            kind = helper.np_dtype_to_tensor_dtype(dtype)
            graph = helper.make_graph(
                [helper.make_node("BitShift", ["x", "y"], ["z"], direction=direction)], "g",
                [helper.make_tensor_value_info("x", kind, x.shape), helper.make_tensor_value_info("y", kind, y.shape)],
                [helper.make_tensor_value_info("z", kind, expected.shape)])
            name = f"{direction}-{dtype}"
            opset = helper.make_opsetid("", 28 if info.min else 11)
            onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), out / f"{name}.onnx")
            np.savez(out / f"{name}.npz", x=x, y=y)
            for ranks in (1, 2, 4):
                result = kerf("run", out / f"{name}.onnx", f"--input=@{out / name}.npz", f"--devices=cpu:{ranks}",
                              "--solver=random", f"--output-dir={out / name}")
                found = np.load(out / name / "z.npy") if result.code == 0 else None
                checks.expect(f"{name} on {ranks}", found is not None and found.dtype == dtype
                              and np.array_equal(found, expected.astype(dtype)),
                              f"  {result.stderr}\n  {found}\n  {expected}")
checks.finish()
