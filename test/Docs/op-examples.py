# Every op has an example in its .td description, and it parses and verifies; so do the examples of attributes.
#
# REQUIRES: kerf-opt
# RUN: %python %s %inputs
import pathlib
import re
import sys

sys.path.insert(0, sys.argv[1])
from examples import Fragment, blocks, records, resolve
from kerf_tests import Checks

SOURCE = pathlib.Path(sys.argv[1]).resolve().parent.parent
checks = Checks()

# What examples name and do not show.
MESH = 'dist.mesh @mesh ["pp"=2, "dp"=2, "tp"=2] time ["mb"=4]\n'
STAGE = "func.func private @stage0(tensor<2x8xf32>) -> tensor<2x4xf32>\n"
CHANNEL = "dist.channel 0 from 0 to 1 : tensor<2x4xf32>\n"
KERNEL = """exec.kernel @add_relu(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32>
    attributes {index = 0 : i64, node = "/relu"} {
  %0 = nn.add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  exec.yield %0 : tensor<2x3xf32>
}
"""
STAGE_FUNCTION = """exec.func @stage0_forward(%x: memref<2x3xf32>, %y: memref<2x3xf32>)
    attributes {num_inputs = 1 : i64, scratch = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  exec.copy %x -> %y : memref<2x3xf32> -> memref<2x3xf32>
  exec.return
}
"""


def values(known):
    return "".join(f'  %{name} = "example.value"() : () -> {type}\n' for name, type in known)


def alone(known, text, unknown):
    return text + "\n"


def without_body(known, text, unknown):
    return text + " {}\n"  # module attributes {...}


def beside_mesh(known, text, unknown):
    return MESH + text + "\n"


def beside_symbols(known, text, unknown):
    return MESH + STAGE + CHANNEL + KERNEL + text + "\n"


def in_function(known, text, unknown):
    return (MESH + "func.func @example() {\n" + values(known) + text + "\n" +
            values((name, "none") for name in unknown) + "  return\n}\n")


def in_exec_function(known, text, unknown):
    return ('module attributes {exec.mesh = #dist<mesh_shape["pp"=2, "dp"=2, "tp"=2] time ["mb"=4]>} {\n' + KERNEL +
            "exec.func @example() attributes {num_inputs = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {\n" +
            values(known) + text + "\n" + values((name, "none") for name in unknown) + "  exec.return\n}\n}\n")


def in_exec_stage(known, text, unknown):
    slots = "".join(f'  %{name} = exec.slot "{name}" : {type}\n' for name, type in known)
    return (MESH + STAGE_FUNCTION + "exec.stage 0 {\n" + slots + text + "\n" +
            values((name, "none") for name in unknown) + "}\n")


def beside_functions(known, text, unknown):
    return MESH + STAGE_FUNCTION + text + "\n"


def in_schedule(stage):
    return lambda known, text, unknown: (
        MESH + STAGE + CHANNEL + f"dist.schedule {stage} {{\n" +
        "".join(f"  %{name} = dist.zero : {type}\n" for name, type in known) + text + "\n" +
        values((name, "none") for name in unknown) + "}\n")


def as_attribute(known, text, unknown):
    return f'"example.op"() {{attribute = {text}\n}} : () -> ()\n'


CONTEXTS = [in_function, in_schedule(0), in_schedule(1), in_exec_function, in_exec_stage, alone, beside_mesh, beside_symbols,
            beside_functions]

fragments = []
for dialect in ("NN", "Dist", "Exec"):
    all_records = records(SOURCE, SOURCE / f"dialects/kerf/{dialect}/{dialect}Ops.td")
    prefix = dialect.lower()
    for key in all_records["!instanceof"]["Op"]:
        op = all_records[key]
        if all_records[op["opDialect"]["def"]]["name"] != prefix:
            continue
        name = f"{prefix}.{op['opName']}"
        examples = blocks(op["description"])
        checks.expect(f"{name} has an example", any(re.search(rf"\b{name}\b", text) for text in examples),
                      f"  no ```mlir block of its description has {name}")
        for number, text in enumerate(examples):
            fragments.append(Fragment(f"{name} {number + 1}", text, CONTEXTS))
            for line in text.splitlines():
                checks.expect(f"{name}: columns", len(line) <= 120, f"  {len(line)} columns: {line}")

    for key in all_records["!instanceof"].get("AttrDef", []):
        attribute = all_records[key]
        if not attribute.get("mnemonic") or all_records[attribute["dialect"]["def"]]["name"] != prefix:
            continue
        for number, text in enumerate(blocks(attribute["description"])):
            for part, one in enumerate(re.split(r"\n(?=#)", text)):
                fragments.append(Fragment(f"#{prefix}.{attribute['mnemonic']} {number + 1}.{part + 1}", one,
                                          [as_attribute] if one.startswith("#") else [without_body, *CONTEXTS]))

failed = resolve(fragments)
for fragment in fragments:
    checks.expect(fragment.name, fragment not in failed, fragment.text + "\n" + "\n".join(fragment.errors[:4]))
checks.finish()
