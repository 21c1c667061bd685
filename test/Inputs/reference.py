#!/usr/bin/env python3
"""reference.py MODEL.onnx OUT NAME=FILE.npy ...: ONNX Runtime's outputs, OUT/NAME.npy."""
import pathlib
import sys

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
inputs = {name: np.load(path) for name, path in (text.split("=", 1) for text in sys.argv[3:])}
names = [output.name for output in session.get_outputs()]
pathlib.Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
for name, value in zip(names, session.run(names, inputs)):
    np.save(pathlib.Path(sys.argv[2]) / f"{name}.npy", value)
