# kerf train takes the sizes of samples that a model leaves open from its data; files that differ, or that --dim contradicts,
# are refused before anything is planned.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[2])))
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()


def model(name, x, mask, y, reads_mask=True):
    """y = (x + mask) weight, or x weight, of shapes with symbols; its path."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x), helper.make_tensor_value_info("mask", TensorProto.FLOAT, mask)]
    nodes = [helper.make_node("Add", ["x", "mask"], ["masked"]), helper.make_node("MatMul", ["masked", "weight"], ["y"])]
    if not reads_mask:
        nodes = [helper.make_node("MatMul", ["x", "weight"], ["y"])]
    weight = numpy_helper.from_array(np.ones((4, 3), np.float32), "weight")
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), OUT / name)
    return OUT / name


def arrays(length, **changes):
    """12 samples of so many words; None leaves an array out."""
    content = {"x": np.ones((12, length, 4), np.float32), "mask": np.zeros((12, length, 1), np.float32),
               "labels": np.zeros((12, length), np.int64), **changes}
    return {key: value for key, value in content.items() if value is not None}


def archive(name, *args, **changes):
    np.savez(OUT / name, **arrays(*args, **changes))
    return OUT / name


def folder(name, length):
    (OUT / name).mkdir()
    for key, value in arrays(length).items():
        np.save(OUT / name / f"{key}.npy", value)
    return OUT / name


SEQUENCES = model("sequences.onnx", ["batch", "seq", 4], ["batch", "seq", 1], ["batch", "seq", 3])


def command(data, *flags, model=SEQUENCES, batch="--batch-size=4"):
    return ["train", model, f"--data={data}", *([batch] if batch else []), "--loss=cross_entropy(y,labels)",
            "--optimizer=sgd,lr=0.1", "--steps=2", "--threads=1", "--no-output", *flags]


# Sizes without a name are called as the input; a batch that other dimensions share is still the flag's.
UNNAMED = model("unnamed.onnx", [None, None, 4], [None, None, 1], [None, None, 3])
# The model's mask says nothing of y, so that the data need not have it.
UNREAD = model("unread.onnx", ["batch", "seq", 4], ["batch", "seq", 1], ["batch", "seq", 3], reads_mask=False)
SQUARE = model("square.onnx", ["n", "n", 4], ["n", "n", 1], ["n", "n", 3])
FIVE, SEVEN = archive("five.npz", 5), archive("seven.npz", 7)


for name, options, arguments in (
        ("an archive", {}, [FIVE]),
        ("another archive", {}, [SEVEN]),
        ("a folder", {}, [folder("folder", 6)]),
        ("evaluation", {}, [FIVE, f"--eval-data={FIVE}"]),
        ("the same size by --dim", {}, [FIVE, "--dim=seq=5"]),
        ("batch by --dim", {"batch": None}, [FIVE, "--dim=batch=4"]),
        ("sizes without names", {"model": UNNAMED}, [FIVE]),
        ("a size that is the batch's", {"model": SQUARE}, [archive("four.npz", 4)]),
        ("an input that is not read", {"model": UNREAD}, [archive("unread.npz", 5, mask=None)]),
        ("two ranks", {}, [FIVE, "--devices=cpu:2"])):
    result = kerf(*command(*arguments, **options))
    checks.expect(name, result.returncode == 0, result.stdout + result.stderr)

# Shuffling moves samples along the first dimension alone, which matters where others count them as well.
for flags in ([], ["--shuffle=off"]):
    said = kerf(*command(OUT / "four.npz", *flags, model=SQUARE)).stderr
    checks.expect(f"samples twice {flags}", ('note: "x" counts "n" along dimensions 0 and 1' in said) == (not flags), said)


def refused(name, pattern, *arguments, **options):
    expect_error(checks, name, command(*arguments, **options), 2, [pattern])


SHORT = archive("short.npz", 5, mask=np.zeros((12, 1, 1), np.float32))
refused("--dim", r'five.npz: dimension "seq" of input "x" is 5, by --dim it is 9', FIVE, "--dim=seq=9")
refused("two inputs", r'short.npz: dimension "seq" of input "mask" is 1, by input "x" it is 5', SHORT)
refused("two files", r'seven.npz: dimension "seq" of input "x" is 7, by input "x" of \S*five.npz it is 5', FIVE,
        f"--eval-data={SEVEN}")
refused("another name", r'other.npz: has no array "x", which would say how large dimension "seq" is: add it, or --dim seq=SIZE',
        archive("other.npz", 5, x=None, mask=None, words=np.ones((12, 5, 4), np.float32)))
refused("an array is missing", r'lone.npz: no array for input "mask" \(f32 4x5x1\), there are: "labels"',
        archive("lone.npz", 5, mask=None))
refused("another rank", r'flat.npz: array "x" has shape 12x20, input "x" expects N x seq x 4 \(N samples\)',
        archive("flat.npz", 5, x=np.ones((12, 20), np.float32)))
refused("another size", r'wide.npz: array "x" has shape 12x5x8, input "x" expects N x seq x 4 \(N samples\)',
        archive("wide.npz", 5, x=np.ones((12, 5, 8), np.float32)))
refused("an empty size", r'none.npz: dimension "seq" of input "x" is empty, expected at least 1', archive("none.npz", 0))
# Flat tokens say nothing of how long a sample is.
words = [helper.make_node("Gather", ["table", "ids"], ["y"])]
onnx.save(helper.make_model(helper.make_graph(
    words, "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", 7])],
    [numpy_helper.from_array(np.ones((7, 7), np.float32), "table")]), opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
    OUT / "words.onnx")
np.save(OUT / "tokens.npy", np.arange(200) % 7)
for flags in (["--sequence-length=8"], ["--dim=seq=8"], ["--sequence-length=8", f"--eval-data={OUT / 'tokens.npy'}"]):
    result = kerf(*command(OUT / "tokens.npy", *flags, model=OUT / "words.onnx"))
    checks.expect(f"tokens, {flags}", result.returncode == 0, result.stdout + result.stderr)
refused("tokens of no length", r'tokens.npy: flat tokens are cut into windows of dimension "seq" of input "ids": '
        r'give its size, as --sequence-length=S', OUT / "tokens.npy", model=OUT / "words.onnx")
refused("the batch is not of the data", r'dimension "batch" of input "x" is the batch: give --batch-size=B', FIVE, batch=None)
refused("a size that is not the batch's", r"array \"x\" has shape 12x5x4, input \"x\" expects Nx4x4", FIVE, model=SQUARE)
checks.finish()
