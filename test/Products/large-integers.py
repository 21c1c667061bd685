# Integers of 64 bits that a double does not hold, as constants and inputs of what takes them, against ONNX Runtime. (Its
# Max, Min and Clip of 2^31 are wrong: 0 is said to be larger. They are left out.)
#
# REQUIRES: kerf-commands, onnx, onnxruntime
# RUN: %python %s %t %inputs
import sys

import numpy as np

sys.path.insert(0, sys.argv.pop(2))
from onnx_cases import Suite

suite = Suite("large-integers", sys.argv, pack=24, opset=21, spread=4)
I64 = np.int64
X = np.array([5, -7, 2**53 + 1, 2**62, -2**62, 0, 2**53], I64)
LARGE = [2**63 - 1, -2**63, 2**53 + 1, 2**62 + 3, -(2**53 + 1), 2**31, 1]

for large in LARGE:
    number, one = np.array(large, I64), np.array([large], I64)
    case = lambda name, build, n=large: suite.case(f"{name} {n}", build)
    for op in ("Add", "Sub", "Mul", "Equal", "Less", "Greater", "BitwiseXor", "BitwiseAnd"):
        case(op, lambda g, o=op, c=number: g.op(o, g.given(X), g.const(c)))
        case(f"{op} of one element", lambda g, o=op, c=one: g.op(o, g.given(X), g.const(c)))
    if large != 2**31:
        for op in ("Max", "Min"):
            case(op, lambda g, o=op, c=number: g.op(o, g.given(X), g.const(c)))
        case("Clip", lambda g, c=number: [g.op("Clip", g.given(X), g.const(c)), g.op("Clip", g.given(X), "", g.const(c))])
    if large > -2**62:
        for op in ("Div", "Mod"):
            case(op, lambda g, o=op, c=number: g.op(o, g.given(X), g.const(c)))
    case("where", lambda g, c=number: (lambda x: g.op("Where", g.op("Less", x, g.const(np.array(0, I64))), g.const(c), x))(g.given(X)))
    case("expanded", lambda g, c=number: g.op("Sub", g.given(X), g.op("Expand", g.const(c), g.ints(7))))
    case("framed", lambda g, c=number: g.op("Pad", g.given(X), g.ints(1, 2), g.const(c)))
    case("written", lambda g, c=one: g.op("ScatterElements", g.given(X), g.ints(1), g.const(c), axis=0))
    case("rows", lambda g, n=large: g.op("Gather", g.const(np.full((7, 3), n, I64)), g.op("Mod", g.given(X), g.const(np.array(7, I64))), axis=0))
    case("behind", lambda g, c=one: g.op("Concat", g.given(X), g.const(c), axis=0))
suite.finish()
