# Numbers outside of the type wrap where they are cast to integers of 8 or 16 bits, in scalar and vector code alike.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
from onnx import TensorProto, helper

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
NUMBERS = [0, 1.75, -1.75, 127, 128, -128, -129, 255, 256, 300, -300, 32767, 32768, -32769, 65535, 65536, 70000, -70000, 1e6]

for kind in ("INT8", "UINT8", "INT16", "UINT16"):
    for count in (1, 3, 64 * len(NUMBERS)):  # a rest, and whole vectors
        graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=getattr(TensorProto, kind))], "cast",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, [count])],
                                  [helper.make_tensor_value_info("y", getattr(TensorProto, kind), [count])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), OUT / "cast.onnx")
        x = np.resize(np.array(NUMBERS[::-1], np.float32), count)
        np.save(OUT / "x.npy", x)
        ran = kerf("run", OUT / "cast.onnx", f"--input={OUT / 'x.npy'}", f"--output-dir={OUT / 'out'}", "-q")
        found = np.load(OUT / "out/y.npy") if ran.returncode == 0 else None
        expected = np.trunc(x).astype(np.int64).astype(kind.lower())
        checks.expect(f"{kind} {count}", found is not None and found.dtype == expected.dtype and np.array_equal(found, expected),
                      f"{ran.stderr}\n{x}\n{found}\n{expected}")
checks.finish()
