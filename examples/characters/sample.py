#!/usr/bin/env python3
"""sample.py MODEL.onnx TEXT: what ONNX Runtime makes of the text, a hundred characters on."""
import sys

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
text = [ord(c) for c in sys.argv[2]]
for _ in range(100):
    window = text[-64:]
    ids = np.zeros((2, 64), np.int64)
    ids[:, :len(window)] = window
    logits = session.run(None, {"input_ids": ids})[0]
    text.append(int(logits[0, len(window) - 1].argmax()))
print("".join(chr(c) for c in text))
