# What generation cannot do is named, with exit code 2 or 3, before anything is written.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import decoders
import onnx
from kerf_tests import Checks, expect_error, fresh_folder, in_parallel, kerf

out, checks = fresh_folder(sys.argv[1]), Checks()
model, package, stats = out / "model.onnx", out / "model.kerf", out / "run.json"
made = decoders.build("gpt2")
onnx.save(made, model)
built = kerf("compile", model, "--cache-length=8", "-o", package)
checks.expect("a package", built.returncode == 0, built.stderr)


def without(names):
    """The decoder without inputs of these names, whose values are constants instead."""
    changed = onnx.ModelProto.FromString(made.SerializeToString())
    for name in names:
        value = next(i for i in changed.graph.input if i.name == name)
        changed.graph.input.remove(value)
        changed.graph.initializer.append(onnx.numpy_helper.from_array(decoders.np.zeros((1, 1), "int64"), name))
    path = out / f"without-{names[0]}.onnx"
    onnx.save(changed, path)
    return path


# A mask that is read and hides nothing: it is added behind softmax.
blind = onnx.ModelProto.FromString(made.SerializeToString())
for node in blind.graph.node:
    if node.op_type == "Softmax":
        add = next(n for n in blind.graph.node if n.output[0] == node.input[0])
        node.input[0] = add.input[0]
onnx.save(blind, out / "blind.onnx")
# Which positions see which, from position_ids instead of from shapes.
placed = onnx.ModelProto.FromString(decoders.build("llama").SerializeToString())
compare = next(node for node in placed.graph.node if node.op_type == "LessOrEqual")
queries = next(node for node in placed.graph.node if node.output[0] == compare.input[1])
queries.input[0] = "positions"
placed.graph.initializer.append(onnx.numpy_helper.from_array(decoders.np.array([-1], "int64"), "flat"))
placed.graph.node.insert(list(placed.graph.node).index(queries),
                         onnx.helper.make_node("Reshape", ["position_ids", "flat"], ["positions"]))
onnx.save(placed, out / "placed.onnx")
PROMPT = "--prompt-ids=1,2,3"
WRITES = ["--stats", stats]
jobs = [
    ("a prompt longer than the cache", [package, "--prompt-ids=1,2,3,4,5,6,7,8,9", "--tokens=1"], 2,
     [r"--prompt-ids: 9 ids, but the cache of .*model.kerf has 8 positions: kerf compile MODEL --cache-length=9 has as many"]),
    ("tokens beyond the cache", [package, PROMPT, "--tokens=7"], 2,
     [r"--tokens: 7 behind a prompt of 3 need 3 \+ 6 positions, but the cache of .* has 8: kerf compile MODEL --cache-length=9 has as many"]),
    ("tokens beyond a cache that is asked for", [model, PROMPT, "--tokens=7", "--cache-length=8"], 2,
     [r"the cache of .* has 8: --cache-length=9 has as many"]),
    ("the best of nothing drawn", [package, PROMPT, "--tokens=2", "--temperature=0", "--top-k=5"], 2, [r"--top-k: no id is drawn at --temperature=0"]),
    ("the likeliest of nothing drawn", [package, PROMPT, "--tokens=2", "--temperature=0", "--top-p=0.5"], 2, [r"--top-p: no id is drawn at --temperature=0"]),
    ("an id out of the vocabulary", [package, "--prompt-ids=1,67"], 2,
     [r"--prompt-ids: 67 is not in the vocabulary of .*, 0 to 66"]),
    ("a negative id", [package, "--prompt-ids=-1"], 2, [r"--prompt-ids: -1 is not in the vocabulary"]),
    ("an end out of the vocabulary", [package, PROMPT, "--tokens=2", "--eos=67"], 2, [r"--eos: 67 is not in the"]),
    ("no id", [package, "--prompt-ids=1,x"], 2, [r"--prompt-ids: \"x\" is no id, expected integers as 1,2,3"]),
    ("no ids", [package, "--prompt-ids="], 2, [r"--prompt-ids"]),
    ("another length for a package", [package, PROMPT, "--cache-length=9"], 2, [r"--cache-length: .* is a package"]),
    ("a model without a cache", [out / "plain.onnx", PROMPT], 2, [r"generation needs a decoder that was exported with"]),
    ("a package without one", [out / "plain.kerf", PROMPT], 2, [r"is no program that generates, .*: kerf compile MODEL --cache-length=N makes one"]),
    ("a wish for no state", [model, PROMPT, "--state=present.0.key"], 2, [r"expected OUTPUT=INPUT or auto"]),
    ("a state of no output", [model, PROMPT, "--state=nothing=past_key_values.0.key"], 2, [r"no output \"nothing\""]),
    ("a state of no input", [model, PROMPT, "--state=present.0.key=nothing"], 2, [r"no input \"nothing\""]),
    ("a cache of two lengths", [model, PROMPT, "--dim=past_sequence_length=5", "--cache-length=9"], 2,
     [r"input \"past_key_values.0.key\": dimension 2 is 5, expected 8"]),
    ("a mask that hides nothing", [out / "blind.onnx", PROMPT], 3,
     [r"cannot prove that positions of the cache that are not filled are hidden: .*\(nn.softmax\)",
      r"\nnote: docs/Generate.md says what a model may do with its mask\n"]),
    ("a mask of position_ids", [out / "placed.onnx", PROMPT], 3,
     [r"cannot prove that positions of the cache that are not filled are hidden: ",
      r'\nnote: which positions see which is computed from "position_ids" here: export the model so that it follows from shapes .*docs/Generate.md']),
    ("likely ids without a temperature", [model, PROMPT, "--top-k=3"], 2, [r"--top-k requires --temperature"]),
    ("a probability without one", [model, PROMPT, "--top-p=0.5"], 2, [r"--top-p requires --temperature"]),
    ("no positions", [without(["position_ids"]), PROMPT], 3, [r"there is no input \"position_ids\""]),
]
plain = onnx.helper.make_model(onnx.helper.make_graph(
    [onnx.helper.make_node("Cast", ["input_ids"], ["logits"], to=1)], "plain",
    [onnx.helper.make_tensor_value_info("input_ids", 7, [1, 1])],
    [onnx.helper.make_tensor_value_info("logits", 1, [1, 1])]), opset_imports=[onnx.helper.make_opsetid("", 18)])
plain.ir_version = 9
onnx.save(plain, out / "plain.onnx")
built = kerf("compile", out / "plain.onnx", "-o", out / "plain.kerf")
checks.expect("a package without a cache", built.returncode == 0, built.stderr)
in_parallel([(expect_error, checks, name, ["generate", *arguments, *WRITES], code, patterns, "kerf", [stats])
             for name, arguments, code, patterns in jobs])
# A misspelled pair is named by every command that takes one, before the sizes that stay open for it, with the closest name.
PAIRS = [
    ("an output", "present.0.kay=past_key_values.0.key", r'no output "present.0.kay", did you mean "present.0.key"\?'),
    ("an input", "present.0.key=past_key_value.0.key", r'no input "past_key_value.0.key", did you mean "past_key_values.0.key"\?'),
    ("a pair", "past_key_values.0.key=present.0.key", r'no output "past_key_values.0.key": pairs are OUTPUT=INPUT'),
]
COMMANDS = [["plan"], ["compile", "-o", out / "none.kerf"], ["run"], ["generate", PROMPT]]
COMMANDS += [["compile", "--cache-length=8", "-o", out / "none.kerf"], ["run", "--cache-length=8"]]
in_parallel([(expect_error, checks, f"{kind} for {' '.join(map(str, command))}",
              [command[0], model, *command[1:], f"--state={pair}"], 2, [r"error: .*--state: " + pattern], "kerf", [out / "none.kerf"])
             for command in COMMANDS for kind, pair, pattern in PAIRS])

# What binds the sizes of a decoder is said where they are open.
expect_error(checks, "open sizes", ["plan", model], 2, [r'note: "past_key_values.0.key" is a cache: --cache-length=POSITIONS binds'])
# Training a decoder that was exported with its cache is told how to export it.
decoders.np.savez(out / "data.npz", input_ids=decoders.np.zeros((8, 4), "int64"), labels=decoders.np.zeros((8, 4), "int64"))
expect_error(checks, "a cache in training", ["train", model, f"--data={out / 'data.npz'}", "--loss=cross_entropy,labels=labels",
                                             "--optimizer=sgd,lr=0.1", "--batch-size=2", "--steps=2"], 2,
             [r'input "past_key_values.0.key" is a cache, for generation, and .*data.npz has no array', r"note: .*use_cache=False"])
checks.finish()
