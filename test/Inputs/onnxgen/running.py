"""Runs a case as planned and judges what comes out."""
import dataclasses
import pathlib

import ml_dtypes
import numpy as np
import onnx

from .case import difference
from .plans import first_error, pattern_of, true_refusal

TIMEOUT = -1000  # of kerf_commands


@dataclasses.dataclass
class Verdict:
    """`kind` is empty if the case is fine; two failures of the same kind are the same while shrinking."""
    kind: str = ""
    detail: str = ""
    refused: str = ""
    outputs: tuple = ()  # those that differ
    compared: int = 0  # weights whose gradients were compared


def save(case, folder):
    """model.onnx and the inputs; gives the flags for the inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(case.model(), folder / "model.onnx")
    flags = []
    for name, each in case.given.items():
        if each.kind == "input":
            np.save(folder / f"{name}.npy", each.array)
            flags.append(f"--input={name}=@{folder}/{name}.npy")
    return flags


def load(path, expected):
    found = np.load(path)
    if found.dtype.kind == "V" and found.dtype.itemsize == 2:
        found = found.view(ml_dtypes.bfloat16)
    return found.reshape(expected.shape) if found.size == expected.size and found.ndim == expected.ndim else found


def run_case(kerf, case, plan, folder):
    """`kerf run` with these flags of a plan, compared with the case's values."""
    folder = pathlib.Path(folder)
    inputs = save(case, folder)
    out = folder / "out"
    for old in out.glob("*.npy"):
        old.unlink()
    result = kerf("run", folder / "model.onnx", *plan, *inputs, f"--output-dir={out}", "--threads=1", "--quiet")
    if result.code:
        return judge_exit(result)
    kinds, details, wrong = [], [], []
    for name in case.outputs:
        path = out / f"{name}.npy"
        if not path.exists():
            found = ("missing", "was not written")
        else:
            try:
                array = load(path, case.values[name])
            except ValueError as error:
                found = ("unreadable", str(error))
            else:
                found = difference(array, case.values[name], case.moved.get(name, 0))
        if found:
            kinds.append(found[0])
            details.append(f"{name}: {found[1]}")
            wrong.append(name)
    if not wrong:
        return Verdict()
    return Verdict(f"differs: {kinds[0]}", "\n".join(details), outputs=tuple(wrong))


def judge_exit(result):
    text = result.stderr
    if result.code == TIMEOUT:
        return Verdict("timeout", text[-500:])
    why = true_refusal(result.code, text) if result.code in (2, 3, 4) else None
    if why:
        return Verdict(refused=why)
    name = f"exit {result.code}" if result.code > 0 else f"signal {-result.code}"
    return Verdict(f"{name}: {pattern_of(first_error(text))}", text[-1500:])
