#!/usr/bin/env python3
"""windows.py TEXT OUT.npz: windows of 64 characters at every third place, and what follows each character."""
import sys

import numpy as np

text = " ".join(open(sys.argv[1]).read().split())
text = np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int64)
starts = np.arange(0, len(text) - 64, 3)[:, None] + np.arange(64)
np.savez(sys.argv[2], input_ids=text[starts], labels=text[starts + 1])
