# The last lines of examples/pytorch/train.py, by themselves, for a model that ties weights: a file has one of their
# names, whichever it is, and the state_dict all.
#
# REQUIRES: torch
# RUN: %python %s %S/../../examples/pytorch/train.py
import re
import sys

import torch

LINES = re.search(r"^state = (?:.*\n)*?\n", open(sys.argv[1]).read(), re.M)[0]


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight


first = {}
for name in ("embedding.weight", "head.weight"):
    model, trained = Tied(), {name: torch.randn(7, 4)}
    exec(LINES)
    assert torch.equal(model.head.weight, trained[name]) and model.head.weight is model.embedding.weight, name
try:  # a parameter that the file lacks is named, with what keeps it
    model, trained = Tied(), {}
    exec(LINES)
except AssertionError as error:
    assert "['embedding.weight']; folded into other weights (optimize=False keeps them)" in str(error), error
else:
    raise AssertionError("no error")
try:  # so is a constant that was trained, which the module does not have
    model, first = Tied(), {"val_3": torch.zeros(4).numpy()}
    trained = {"head.weight": torch.randn(7, 4), "val_3": torch.ones(4)}
    exec(LINES)
except AssertionError as error:
    assert "not in the state_dict: ['val_3']; weights keep their names with optimize=False" in str(error), error
else:
    raise AssertionError("no error")
