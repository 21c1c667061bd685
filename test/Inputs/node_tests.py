"""ONNX's node tests: written to folders, run through `kerf run`, and compared as ONNX compares them.

A folder per case: model.onnx, input_0.npy ..., output_0.npy ... (`no array` where NumPy has no such array). A verdict is
(case, kind, why) with kind one of pass, differ, refused and failed: refused is exit 2, 3 or 4 with its reason, failed is
every other end, a crash among them.

Comparison: shape, type, rtol 1e-3 and atol 1e-7; integers and booleans are exact but for that rtol, as in ONNX. Results
of float16 and bfloat16 may be two units of rounding off, taken at the largest magnitude of the output: the reference
rounds between all steps, and where terms cancel that shows at their scale.
"""
import pathlib
import re
import shutil
import threading
import warnings

warnings.filterwarnings("ignore")
import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from compare import difference, largest
from kerf_commands import Commands

ROUNDING = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}  # a unit of rounding, relative

# Differences that are not faults: why.
KNOWN = {name: "elements that are 0 are 2e-7 in the reference, whose transform rounds to float32 on its way"
         for name in ("test_dft_inverse", "test_dft_inverse_opset19")}
KNOWN |= {f"test_bernoulli{kind}{form}": "the expected numbers are those of NumPy's generator"
          for kind in ("", "_double", "_seed") for form in ("", "_expanded")}


class Case:
    """One node test in its folder."""

    def __init__(self, test, folder):
        self.name, self.folder = test.name, pathlib.Path(folder)
        self.model = test.model
        inputs, outputs = test.data_sets[0]
        self.inputs = list(map(array_of, inputs))
        self.names, self.outputs = [], []  # elements of a sequence are outputs NAME.0, NAME.1, ...
        for info, value in zip(self.model.graph.output, outputs):
            elements = value if isinstance(value, list) and value else [value]
            self.names += [f"{info.name}.{i}" for i in range(len(value))] if elements is value else [info.name]
            self.outputs += map(array_of, elements)

    def write(self):
        self.folder.mkdir(parents=True)
        (self.folder / "model.onnx").write_bytes(self.model.SerializeToString())
        for kind, arrays in (("input", self.inputs), ("output", self.outputs)):
            for index, array in enumerate(arrays):
                path = self.folder / f"{kind}_{index}.npy"
                if array is None:
                    path.write_text("no array")
                else:
                    np.save(path, array)


def array_of(value):
    """The array that a .npy file can hold, or None: sequences, strings."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if not isinstance(value, (np.ndarray, np.generic)):
        return None
    if (value.dtype.isbuiltin != 1 or value.dtype.kind not in "fiub") and not hasattr(ml_dtypes, value.dtype.name):
        return None
    return np.ascontiguousarray(value).reshape(np.shape(value))


def operators(cases):
    """name -> operator: of the node, or of the case that an `_expanded` one is the function body of."""
    found = {}
    for case in cases:
        nodes = [node.op_type for node in case.model.graph.node if node.op_type != "Constant"]
        found[case.name] = nodes[0] if nodes else "Constant"
    for name in found:
        body = re.sub(r"_expanded.*$", "", name)
        if body != name and body in found:
            found[name] = found[body]
    return found


def load(folder, choose=lambda cases: cases):
    """The chosen ones of all cases, each written to a folder below `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    cases = choose([Case(test, pathlib.Path(folder) / test.name) for test in load_model_tests(kind="node")])
    for case in cases:
        case.write()
    return cases


def compare(found, expected):
    """Empty if `found` is what was expected."""
    if found.dtype.kind == "V" and found.dtype.itemsize == 2:
        found = found.view(ml_dtypes.bfloat16)
    if expected.dtype.itemsize == 1 and hasattr(ml_dtypes, expected.dtype.name):
        return compare_codes(found, expected)
    rounding = ROUNDING.get(expected.dtype.name)
    return difference(found, expected, 1e-3, 1e-7 if rounding is None else 2 * rounding * largest(expected))


def compare_codes(found, expected):
    """Of types of 2 to 8 bits: every bit, but for those of NaN, of which a type may have several."""
    if found.dtype.kind != "V" or found.dtype.itemsize != 1:
        return f"elements are {found.dtype}, expected codes of a byte"
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    codes, wanted = found.view(np.uint8), expected.view(np.uint8)
    numbers = [each.astype(np.float32) for each in (found.view(expected.dtype), expected)]
    wrong = (codes != wanted) & ~(np.isnan(numbers[0]) & np.isnan(numbers[1]))
    if not wrong.any():
        return ""
    at = tuple(np.argwhere(wrong)[0])
    return f"element {at} is {numbers[0][at]} (code {codes[at]:#x}), expected {numbers[1][at]} (code {wanted[at]:#x})"


def reason(stderr):
    """What a command refused, without file, node and names, so that equal causes are counted together."""
    lines = stderr.strip().splitlines()
    error = next((line for line in lines if line.startswith("error: ")), lines[-1] if lines else "no message")
    return re.sub(r"^error: ([^ ]*model\.onnx(:\S*)?: )?", "", error)


def run(kerf, case, arguments):
    """(kind, why) of one case."""
    if any(array is None for array in case.inputs + case.outputs):
        return "refused", "no tensor of numbers"
    names = [value.name for value in case.model.graph.input]
    if len(case.inputs) != len(names):
        return "refused", "an optional input is absent"
    out = case.folder / f"out{threading.get_ident()}"
    shutil.rmtree(out, ignore_errors=True)

    def attempt(constants):
        given = [f"--{'constant' if index in constants else 'input'}={name}=@{case.folder}/input_{index}.npy"
                 for index, name in enumerate(names)]
        return kerf("run", case.folder / "model.onnx", *arguments, *given, f"--output-dir={out}", "--threads=1")

    result = attempt(())
    if result.code in (2, 3):
        steering = [index for index, array in enumerate(case.inputs) if array.dtype.kind in "iub" or array.size <= 1]
        if steering:
            result = attempt(steering)
        # As a user would, by what the message says.
        named = re.search(r'input "([^"]+)" steers a shape', result.stderr)
        while result.code == 2 and named and named[1] in names and names.index(named[1]) not in steering:
            steering.append(names.index(named[1]))
            result = attempt(steering)
            named = re.search(r'input "([^"]+)" steers a shape', result.stderr)
    if result.code in (2, 3, 4):
        return "refused", reason(result.stderr)
    if result.code:
        return "failed", f"exit {result.code}: {reason(result.stderr)}"
    try:
        for name, expected in zip(case.names, case.outputs):
            message = compare(np.load(out / (name.replace("/", "_") + ".npy")), expected)
            if message:
                return "differ", f"{name}: {message}"
    except (OSError, ValueError) as error:
        return "differ", str(error)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return "pass", ""


def run_all(cases, arguments, workers=2):
    """name -> (kind, why), by a few processes of kerf-commands."""
    waiting, verdicts, lock = list(reversed(cases)), {}, threading.Lock()

    def work():
        with Commands() as kerf:
            while True:
                with lock:
                    if not waiting:
                        return
                    case = waiting.pop()
                verdicts[case.name] = run(kerf, case, arguments)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return verdicts
