# Tokens of small decoders (GPT-2's and LLaMA's form, as exporters write them) over ranks, against ONNX Runtime with a
# cache of its own that grows. The two best logits of each step are 3e-3 apart, so rounding changes no token.
#
# REQUIRES: kerf, onnx, onnxruntime
# RUN: %python %s %t %inputs
import itertools
import json
import sys

import onnx

sys.path.insert(0, sys.argv[2])
import decoders
from kerf_tests import Checks, fresh_folder, kerf

PROMPT = [3, 14, 15, 9, 26]
MESHES = ["", "tp=2", "tp=4", "pp=2", "pp=2,tp=2"]
# Heads of caches lie in parts, which the search would not choose for tensors this small.
HEADS = ["--shard", "past_key_values.*=[{},{tp},{},{}]"]


def ranks_of(mesh):
    ranks = 1
    for axis in filter(None, mesh.split(",")):
        ranks *= int(axis.split("=")[1])
    return ranks


def mesh_flags(mesh, key_heads):
    tensor = "tp" in mesh and key_heads % ranks_of(mesh.split(",")[-1]) == 0
    return ["--devices", f"cpu:{ranks_of(mesh)}", *(["--mesh", mesh] if mesh else []), *(HEADS if tensor else [])]


def ids(numbers):
    return ",".join(map(str, numbers))


def check_meshes(checks, folder, kind, model, wanted):
    for mesh in MESHES:
        package, stats = folder / f"{kind}-{mesh or 'one'}.kerf", folder / "run.json"
        flags = mesh_flags(mesh, decoders.SIZES[kind]["key_heads"])
        # The prompt in two steps, of which the second is not full; on some meshes id by id.
        prompt = ["--prompt-tokens=3"] if mesh in ("", "tp=2", "pp=2,tp=2") and kind != "fixed" else []
        made = kerf("compile", model, "--cache-length=72", *flags, *prompt, "-o", package)
        run = kerf("generate", package, "--prompt-ids", ids(PROMPT), "--tokens=64", "--stats", stats)
        checks.expect(f"{kind} {mesh}", run.stdout.split() == [str(t) for t in wanted],
                      f"{made.stderr}{run.stderr}{run.stdout}\nexpected {wanted}")
        if run.returncode or not mesh:
            continue
        # A cache in parts: a rank holds its heads, or its layers.
        sent = json.loads(stats.read_text())["communication"]
        plan = json.loads((package / "plan.json").read_text())
        planned, names = plan["communication"], json.dumps(plan["model"]["parameter_names"])
        checks.expect(f"{kind} {mesh}: caches are no parameters", len(plan["model"]["parameter_names"]) > 4 and
                      "past_key_values" not in names, names)
        checks.expect(f"{kind} {mesh}: bytes per token as planned",
                      sent["bytes_per_rank"] == planned["bytes_per_rank"] and
                      (planned["bytes_per_rank"] > 0 or HEADS[1] not in flags), f"{sent}\n{planned}")
        check_caches(checks, f"{kind} {mesh}", package, mesh, flags)


def check_caches(checks, name, package, mesh, flags):
    caches = [p for p in json.loads((package / "manifest.json").read_text())["parameters"]
              if p["name"].startswith("past_key_values")]
    checks.expect(f"{name}: caches are kept", len(caches) == 4 and all(c.get("mutable") for c in caches), str(caches))
    if HEADS[1] in flags:
        parts = ranks_of(mesh.split(",")[-1])
        checks.expect(f"{name}: heads of caches are cut", all(
            c["local_shape"][1] * parts == c["global_shape"][1] for c in caches), str(caches))
    if "pp" in mesh:
        checks.expect(f"{name}: a stage has the caches of its layers", all(
            c.get("stages") == [int(c["name"].split(".")[1])] for c in caches), str(caches))


def main():
    checks, folder = Checks(), fresh_folder(sys.argv[1])
    for kind in decoders.SIZES:
        model = folder / f"{kind}.onnx"
        onnx.save(decoders.build(kind), model)
        # Of one length it has the weights of the one that grows.
        growing = folder / "llama.onnx" if kind == "fixed" else model
        wanted, _ = decoders.greedy(growing, PROMPT, 64)
        check_meshes(checks, folder, kind, model, wanted)
        # A model is compiled for what is asked; an id that ends is the last one.
        end = wanted[6]
        until = list(itertools.takewhile(lambda t: t != end, wanted)) + [end]
        run = kerf("generate", model, "--prompt-ids", ids(PROMPT), "--tokens=64", "--eos", end, "--json")
        checks.expect(f"{kind}: ends", run.returncode == 0 and json.loads(run.stdout)["tokens"] == until,
                      f"{run.stderr}{run.stdout}\nexpected {until}")
        same = kerf("generate", model, "--prompt-ids", ids(PROMPT), "--tokens=20", "--temperature=2", "--top-k=1")
        checks.expect(f"{kind}: the best of one", same.stdout.split() == [str(t) for t in wanted[:20]], same.stdout)
    check_stages(checks, folder)
    check_processes(checks, folder)
    check_times(checks, folder)
    checks.finish()


def check_stages(checks, folder):
    """Caches lie in the stage that is asked for, those of the program of prompts too, whatever its best cut is."""
    wanted, _ = decoders.greedy(folder / "gpt2.onnx", PROMPT, 20)
    for stage in (0, 1):
        package = folder / "stages.kerf"
        made = kerf("compile", folder / "gpt2.onnx", "--cache-length=24", "--prompt-tokens=3", "--devices=cpu:2", "--mesh=pp=2",
                    "--shard", f"past_key_values.*=[{{}},{{}},{{}},{{}}]@{stage}", "-o", package)
        run = kerf("generate", package, "--prompt-ids", ids(PROMPT), "--tokens=20")
        checks.expect(f"stage {stage}", run.stdout.split() == [str(t) for t in wanted], f"{made.stderr}{run.stderr}{run.stdout}\n{wanted}")
        caches = [p for p in json.loads((package / "manifest.json").read_text())["parameters"] if p["name"].startswith("past_key_values")]
        checks.expect(f"stage {stage}: caches", len(caches) == 4 and all(c.get("stages") == [stage] for c in caches), str(caches))


def check_times(checks, folder):
    """The steps of the prompt, those behind it, and the way from one program to the other, each apart."""
    for name, flags in (("one program", []), ("two programs", ["--prompt-tokens=3"])):
        package, prompt = folder / "times.kerf", ["--prompt-ids", ids(PROMPT), "--tokens=4"]
        kerf("compile", folder / "gpt2.onnx", "--cache-length=16", *flags, "-o", package)
        said, text = kerf("generate", package, *prompt).stderr.splitlines(), kerf("generate", package, *prompt, "--json").stdout
        times = json.loads(text)
        words = [line.split()[0] for line in said]
        checks.expect(f"{name}: lines", words == (["prefill", "switch", "decode"] if flags else ["prefill", "decode"]), said)
        checks.expect(f"{name}: seconds", times["prefill"]["tokens"] == 5 and times["decode"]["tokens"] == 3 and
                      times["prefill"]["seconds"] > 0 and (times["switch"]["seconds"] > 0) == bool(flags), text)


def check_processes(checks, folder):
    """Rank 0 has the logits, and tells the others what it chose; so with a seed, which draws the same ids anywhere."""
    drawn = [kerf("generate", folder / "gpt2-tp=2.kerf", "--prompt-ids", ids(PROMPT), "--tokens=30", "--temperature=1.5",
                  "--top-p=0.9", "--seed=3", "--threads=1", *more) for more in ([], ["--processes"])]
    checks.expect("processes: the same ids", drawn[0].stdout == drawn[1].stdout and len(drawn[0].stdout.split()) == 30,
                  "\n".join(f"{run.stdout}{run.stderr}" for run in drawn))


main()
