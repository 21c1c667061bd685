# Operators that round integers' results: the specification has them for integers,
# and what is computed as floats is cut off towards zero.
#
# REQUIRES: kerf-commands, onnx
# RUN: %python %s %t
import math
import pathlib
import shutil
import sys

import numpy as np
import onnx
from onnx import helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Inputs"))
from kerf_commands import Commands
from kerf_tests import Checks

out = pathlib.Path(sys.argv[1])
shutil.rmtree(out, ignore_errors=True)
out.mkdir(parents=True)
checks = Checks()

SIGNED, ALL = (np.int8, np.int16, np.int32, np.int64), (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
                                                         np.uint32, np.uint64)
RANDOM = np.random.default_rng(1)
CASES = [
    # operator, operator set, types, attributes, least and largest element, what it is
    ("Erf", 12, ALL, {}, -7, 8, lambda x: np.vectorize(math.erf, otypes=["f"])(x)),
    ("Shrink", 9, ALL, {"lambd": 1.5}, -7, 8, lambda x: np.where(np.abs(x) > 1.5, x, 0)),
    ("Shrink", 9, SIGNED, {"lambd": 1.0, "bias": 1.5}, -7, 8,
     lambda x: np.where(x < -1, x + 1.5, np.where(x > 1, x - 1.5, 0))),
    ("ReduceLogSum", 13, (np.int32, np.int64, np.uint32, np.uint64), {"axes": [1], "keepdims": 0}, 1, 30,
     lambda x: np.log(x.sum(1))),
    ("ReduceLogSumExp", 13, (np.int32, np.int64, np.uint32, np.uint64), {"axes": [1]}, 0, 30,
     lambda x: np.log(np.exp(x).sum(1, keepdims=True))),
]
with Commands(timeout=60) as kerf:
    for op, opset, dtypes, attributes, low, high, formula in CASES:
        for dtype in dtypes:
            dtype = np.dtype(dtype)
            x = RANDOM.integers(0 if dtype.kind == "u" else low, high, (4, 9)).astype(dtype)
            if op == "Erf":
                x[0] = [0, 1, 2, 3, 4, 5, 6, 7, 0]
            kind = helper.np_dtype_to_tensor_dtype(dtype)
            expected = np.trunc(formula(x.astype(np.float64))).astype(dtype)
            graph = helper.make_graph(
                [helper.make_node(op, ["x"], ["y"], **attributes)], "g",
                [helper.make_tensor_value_info("x", kind, x.shape)],
                [helper.make_tensor_value_info("y", kind, expected.shape)])
            name = f"{op}-{len(attributes)}-{dtype}"
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8),
                      out / f"{name}.onnx")
            np.save(out / f"{name}.npy", x)
            result = kerf("run", out / f"{name}.onnx", "--input", f"x=@{out / name}.npy", f"--output-dir={out / name}")
            found = np.load(out / name / "y.npy") if result.code == 0 else None
            checks.expect(name, found is not None and found.dtype == dtype and np.array_equal(found, expected),
                          f"  {result.stderr}\n  {found}\n  {expected}")
checks.finish()
