"""Arrays for random graphs: types, shapes' elements, and the special values of floating point.

`canonical` gives an array that depends on its name, shape and type alone: a failure that still shows with canonical
values needs none in its file.
"""
import zlib

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = np.dtype("f2"), np.dtype("f4"), np.dtype("f8")
I8, I16, I32, I64 = (np.dtype(f"i{size}") for size in (1, 2, 4, 8))
U8, U16, U32, U64 = (np.dtype(f"u{size}") for size in (1, 2, 4, 8))
BOOL = np.dtype("?")
FLOATS = (F32, F64, F16, BF16)
INTEGERS = (I64, I32, I8, I16, U8, U16, U32, U64)
HALVES = (F16, BF16)
ALL = FLOATS + INTEGERS + (BOOL,)
# One unit of rounding of a number in [1, 2).
UNIT = {F64: 2.0**-52, F32: 2.0**-23, F16: 2.0**-10, BF16: 2.0**-7}
SPECIALS = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -1e-40, 3e-39, 1e-30)


def is_float(dtype):
    return dtype in FLOATS


def wide(array):
    """Floats in double precision, everything else as it is."""
    return array.astype(np.float64) if is_float(array.dtype) else array


def random_array(rng, shape, dtype, low=None, high=None):
    """Values in [low, high] if given (integers: below `high`), else around zero at a scale that varies."""
    if dtype == BOOL:
        return np.asarray(rng.random(shape) < 0.6)
    if not is_float(dtype):
        least = (0 if dtype.kind == "u" else -5) if low is None else low
        return np.asarray(rng.integers(least, 6 if high is None else high, shape)).astype(dtype)
    if low is not None:
        values = rng.uniform(low, high, shape)
    elif rng.random() < 0.15:
        values = rng.integers(-3, 4, shape)  # ties, zeros and exact halves
    else:
        values = rng.standard_normal(shape) * rng.choice([1.0, 1.0, 0.5, 3.0])
    return np.asarray(values).astype(np.float32).astype(dtype)


def sprinkle(rng, array):
    """A copy with one to three special values. The processors' bfloat16 products read denormals as 0: none there."""
    array = np.array(array)
    flat = array.reshape(-1)
    if flat.size and is_float(array.dtype):
        with np.errstate(all="ignore"):
            for _ in range(rng.integers(1, 4)):
                value = rng.choice(SPECIALS)
                if array.dtype != BF16 or not 0 < abs(value) < 1e-37:
                    flat[rng.integers(flat.size)] = np.asarray(value).astype(array.dtype)
    return array


def canonical(name, shape, dtype):
    """What an array of this name holds where a file says nothing else."""
    rng = np.random.RandomState(zlib.crc32(name.encode()))
    if dtype == BOOL:
        return np.asarray(rng.random_sample(shape) < 0.5)
    if not is_float(dtype):
        return np.asarray(rng.randint(0, 3, shape)).astype(dtype)
    return np.asarray(np.round(rng.standard_normal(shape), 2)).astype(np.float32).astype(dtype)
