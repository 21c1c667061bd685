# How models are read: operator versions, symbolic dimensions, constants from the
# command line, local functions with attributes, branches, shape subgraphs,
# initializers that are inputs, typed payloads, and what inspect says of them.
#
# REQUIRES: kerf-import-model, onnx
# RUN: %python %s %t %inputs %models %light
import json
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT, MODELS, LIGHT = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
F, I = TensorProto.FLOAT, TensorProto.INT64
info, node, opset = helper.make_tensor_value_info, helper.make_node, helper.make_opsetid
checks = Checks()


def save(name, nodes, inputs=None, initializers=(), version=20, functions=(), ir=10, value_info=(), more=()):
    graph = helper.make_graph(nodes, "g", inputs or [info("x", F, [2, 6])], [info("y", F, None)], list(initializers),
                              value_info=list(value_info))
    model = helper.make_model(graph, opset_imports=[opset("", version), *more], ir_version=ir,
                              functions=list(functions))
    path = OUT / f"{name}.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def expect(name, arguments, present=(), absent=()):
    result = kerf(*arguments, tool="kerf-import-model")
    text = result.stdout
    problems = [f"lacks /{p}/" for p in present if not re.search(p, text)]
    problems += [f"has /{p}/" for p in absent if re.search(p, text)]
    if result.returncode:
        problems.append(f"exit {result.returncode}: {result.stderr}")
    checks.expect(name, not problems, "\n".join([*problems, text]))
    return text


# The same operator, the model's version: Softmax flattened before 13.
soft = [node("Softmax", ["x"], ["y"], "soft", axis=1)]
expect("softmax-11", [save("s11", soft, [info("x", F, [2, 3, 4])], version=11)],
       [r"reshape .*tensor<2x12xf32>", r"nn.softmax .*dim 1 .*tensor<2x12xf32>"])
expect("softmax-13", [save("s13", soft, [info("x", F, [2, 3, 4])], version=13)],
       [r"nn.softmax .*dim 1 .*tensor<2x3x4xf32>"], ["reshape"])
# Squeeze's axes moved from attribute to input.
expect("squeeze-11", [save("q11", [node("Squeeze", ["x"], ["y"], axes=[1])], [info("x", F, [2, 1, 3])], version=11)],
       [r"-> \(tensor<2x3xf32>"])
expect("squeeze-13", [save("q13", [node("Squeeze", ["x", "a"], ["y"])], [info("x", F, [2, 1, 3])], [ints("a", -2)],
                           version=13)], [r"-> \(tensor<2x3xf32>"])
expect_error(checks, "gelu-19", [save("g19", [node("Gelu", ["x"], ["y"], "act")], version=19)], 3,
             ["act", "Gelu", "19", "20"], tool="kerf-import-model")
# Before 7, broadcasting was an attribute.
expect("add-6", [save("a6", [node("Add", ["x", "b"], ["y"], broadcast=1, axis=0)], [info("x", F, [2, 6])],
                      [numpy_helper.from_array(np.ones(2, np.float32), "b")], version=6)],
       [r"tensor<2x1xf32>"])

# Symbolic dimensions by name, anonymous ones by input and index; the batch.
symbolic = save("symbolic", [node("Add", ["x", "z"], ["y"])],
                [info("x", F, ["batch", "width"]), info("z", F, ["batch", None])])
expect_error(checks, "unbound", [symbolic], 2, ["option dim batch=SIZE", "option dim width=SIZE", r"option dim z\.1=SIZE"],
             tool="kerf-import-model")
bound = [symbolic, "--dim", "batch=3", "--dim", "width=4", "--dim", "z.1=4"]
expect("bound", bound, [r"%arg0: tensor<3x4xf32> {kerf.batch_dim = 0 : i64, kerf.name = \"x\"}"])
expect("batch-dim", [*bound, "--batch-dim", "x=1", "--batch-dim", "z=1"], [r"kerf.batch_dim = 1 : i64, kerf.name = \"x\""])
expect_error(checks, "batch-dim-of-another-size", [*bound, "--batch-dim", "x=1"], 2,
             ['x: option batch-dim says dimension 1, of size 4, but the batch of input "z" has size 3'], tool="kerf-import-model")
expect_error(checks, "batch-dim-range", [*bound, "--batch-dim", "x=2"], 2, ["x", "2"], tool="kerf-import-model")

# An input that steers a shape, as numbers and as a file.
steer = save("steer", [node("Reshape", ["x", "s"], ["y"], "fold")], [info("x", F, [2, 6]), info("s", I, [2])])
expect_error(checks, "steer", [steer], 2, ["fold", "option constant s=@", "s=1,2,3"], tool="kerf-import-model")
expect("constant-list", [steer, "--constant", "s=3,4"], [r"tensor<3x4xf32>"], ["arg1"])
np.save(OUT / "s.npy", np.array([4, 3]))
expect("constant-file", [steer, "--constant", f"s=@{OUT}/s.npy"], [r"tensor<4x3xf32>"])
expect_error(checks, "constant-none", [steer, "--constant", "t=1"], 2, ["t"], tool="kerf-import-model")

# Shape subgraphs fold, whatever they are made of; what nothing needs is not read.
expect("shapes", [save("shapes", [
    node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["w"]), node("Mul", ["w", "w"], ["ww"]),
    node("Div", ["ww", "w"], ["d"]), node("Concat", ["d", "two"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"]),
    node("NotAnOperator", ["x"], ["unused"])], initializers=[ints("one", 1), ints("two", 2)])],
       [r"tensor<6x2xf32>"], ["gather", "mul", "div", "concat"])
expect("if", [save("if", [
    node("Shape", ["x"], ["s"]), node("Size", ["s"], ["r"]), node("Equal", ["r", "two"], ["c"]),
    node("If", ["c"], ["y"], "choose",
         then_branch=helper.make_graph([node("Relu", ["x"], ["a"])], "t", [], [info("a", F, None)]),
         else_branch=helper.make_graph([node("Whirl", ["x"], ["a"])], "e", [], [info("a", F, None)]))],
                     initializers=[numpy_helper.from_array(np.array(2, np.int64), "two")])],
       ["nn.relu"])

# A local function, its attribute bound by the call, its default, an absent input.
leaky = helper.make_function("local", "act", ["a", "unused"], ["b"],
                             [node("LeakyRelu", ["a"], ["b"], "inner")], [opset("", 20)], ["slope"])
reference = leaky.node[0].attribute.add(name="alpha", type=AttributeProto.FLOAT)
reference.ref_attr_name = "slope"
calls = save("function", [node("act", ["x"], ["h"], "first", domain="local", slope=0.25),
                          node("act", ["h", ""], ["y"], "second", domain="local")],
             functions=[leaky], more=[opset("local", 1)])
expect("function", [calls, "--locations"], [r"dense<2.5\d*e-01>", r"dense<0.00999\d*>", r'loc\("first/inner"\)'])

# Initializers that are inputs too (format 3), typed payloads, tied weights.
expect("ir3", [save("ir3", [node("MatMul", ["x", "w"], ["y"])], [info("x", F, [2, 6]), info("w", F, [6, 3])],
                    [numpy_helper.from_array(np.ones((6, 3), np.float32), "w")], ir=3, version=8)],
       ["nn.weight"], ["arg1"])
expect("float-data", [save("floats", [node("Add", ["x", "w"], ["y"])],
                           initializers=[helper.make_tensor("w", F, [6], range(6))])],
       [r'nn.weight "w" file 0 at \d+ : tensor<6xf32>'])
expect("half-data", [save("halves", [node("Cast", ["w"], ["v"], to=F), node("Add", ["x", "v"], ["y"])],
                          initializers=[helper.make_tensor("w", TensorProto.FLOAT16, [2], [1.5, 1.5])],
                          inputs=[info("x", F, [2, 2])])], [r'name = "w".* dense<1.5'])
expect_error(checks, "declared", [save("declared", [node("Relu", ["x"], ["h"]), node("Relu", ["h"], ["y"])],
                                       value_info=[info("h", F, [3, 6])])], 3, ["h", r"3, 6", r"2, 6"],
             tool="kerf-import-model")

# What inspect says: parameters and FLOPs of models that are known.
def inspect(name, path, *arguments):
    result = kerf(path, "--json", *arguments, tool="kerf-import-model")
    checks.expect(f"{name}: inspect", result.returncode == 0, result.stderr)
    return json.loads(result.stdout)


facts = inspect("mlp", MODELS / "mlp/model.onnx", "--dim", "batch=8")
checks.expect("mlp: parameters", facts["parameters"]["elements"] == 32 * 96 + 96 + 96 * 80 + 80 + 80 * 24 + 24, facts)
checks.expect("mlp: matmul FLOPs", 8 * 2 * (32 * 96 + 96 * 80 + 80 * 24) <= facts["flops"] <= 1.4 * 8 * 2 * 12672, facts)
facts = inspect("mlp unbound", OUT / "s13.onnx")
checks.expect("inputs", facts["inputs"] == [{"name": "x", "shape": [2, 3, 4], "type": "float"}], facts["inputs"])
if (LIGHT / "light_resnet50.onnx").exists():
    facts = inspect("resnet50", LIGHT / "light_resnet50.onnx")
    # 2 x 4.1 billion multiply-adds.
    checks.expect("resnet50: FLOPs", 8.1e9 < facts["flops"] < 8.3e9, facts["flops"])
    checks.expect("resnet50: layout", facts["ops"].get("nn.transpose", 0) <= 2, facts["ops"])
# The models of the tests in their final form: whole ops, no flattening left.
text = expect("gpt2-small", [MODELS / "gpt2-small/model.onnx", "--dim", "batch=8"],
              ["nn.layer_norm", r"nn.gelu .*tanh", r" from \[0, 128\]"],
              ["nn.slice", "nn.is_nan", "nn.tanh", r"tensor<128x"])
checks.expect("gpt2-small: products", len(re.findall("nn.matmul", text)) == 2 * 8 + 1, text)
expect("resnet-small", [MODELS / "resnet-small/model.onnx", "--dim", "batch=8"], ["nn.conv"],
       [r"(?s)nn.transpose.*nn.transpose.*nn.transpose"])
checks.finish()
