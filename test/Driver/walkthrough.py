# The excerpts of docs/Architecture.md are what the compiler writes: every line of a
# block stands in the dump that the block names, in that order, whichever way lines
# are broken.
#
# REQUIRES: kerf
# RUN: rm -rf %t && mkdir -p %t
# RUN: kerf compile %models/mlp/model.onnx --dim batch=8 --devices=cpu:4 --mesh=pp=2,tp=2 --micro-batches=2 --objective=volume --memory-limit=31KiB --dump-dir=%t/dump -o %t/mlp.kerf
# RUN: %python %s %t/dump %inputs/../../docs/Architecture.md
import pathlib
import re
import sys

dump, document = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()
blocks = re.findall(r"```mlir (\S+)\n(.*?)```", document, re.S)
assert len(blocks) == 4, f"{len(blocks)} excerpts, expected four"
for phase, excerpt in blocks:
    text = re.sub(r"\s+", " ", re.sub(r"\s+loc\([^()]*\)", "", (dump / f"{phase}.mlir").read_text()))
    behind = 0
    for wanted in excerpt.splitlines():
        found = re.compile(".*?".join(re.escape(part.strip()) for part in wanted.split("..."))).search(text, behind)
        assert found, f"{phase}.mlir lacks, in this order: {wanted}"
        behind = found.end()
print(len(blocks), "excerpts agree")
