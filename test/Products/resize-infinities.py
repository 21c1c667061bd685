# A Resize leaves an infinity where it is: elements that have no part in a sum are not multiplied by 0, as ONNX Runtime does
# along dimensions that do not change. Against the sum of those that have a part.
#
# REQUIRES: kerf, onnx
# RUN: rm -rf %t && mkdir -p %t && %python %s %t
import subprocess
import sys

import numpy as np
import onnx

DIRECTORY = sys.argv[1]
SIZES = {"linear": [8, 16, 12, 5], "cubic": [16]}


def weight(mode, distance, a=-0.75):
    x = abs(distance)
    if mode == "linear":
        return max(0, 1 - x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((x - 5) * x + 8) * x * a - 4 * a if x < 2 else 0


def resized(x, size, mode):
    result = np.zeros(size)
    for i in range(size):
        at = (i + 0.5) * len(x) / size - 0.5
        taps = {}
        for k in range(int(np.floor(at)) - 2, int(np.floor(at)) + 4):
            place = min(max(k, 0), len(x) - 1)
            taps[place] = taps.get(place, 0) + weight(mode, k - at)
        result[i] = sum(w * x[place] for place, w in taps.items() if w != 0)
    return result


x = np.array([np.inf, 1, 2, -np.inf, 3, 4, np.nan, np.inf], np.float32)
x = np.stack([x, np.array([1, 2, np.inf, 5, 6, 7, 8, -np.inf], np.float32)])
wrong = False
for mode, sizes in SIZES.items():
    for size in sizes:
        model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
            graph (float[2,1,8] x) => (float[2,1,{size}] y) <int64[3] sizes = {{2, 1, {size}}}>
            {{ y = Resize <mode = "{mode}", cubic_coeff_a = -0.75> (x, "", "", sizes) }}""")
        onnx.save(model, f"{DIRECTORY}/model.onnx")
        np.save(f"{DIRECTORY}/x.npy", x.reshape(2, 1, 8))
        subprocess.run(["kerf", "run", f"{DIRECTORY}/model.onnx", f"--input=x=@{DIRECTORY}/x.npy",
                        f"--output-dir={DIRECTORY}/out", "-q"], check=True)
        result = np.load(f"{DIRECTORY}/out/y.npy").reshape(2, size)
        with np.errstate(invalid="ignore"):
            expected = np.stack([resized(row, size, mode) for row in x])
        fine = np.allclose(result, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
        wrong |= not fine
        print("ok" if fine else f"WRONG: {result} instead of {expected}", mode, size)
sys.exit(wrong)
