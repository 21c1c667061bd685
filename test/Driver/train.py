# kerf train from end to end: it learns, what it writes is the model with other
# weights (ONNX Runtime agrees), runs that are resumed or interrupted end in the
# same bits, and what is read does not depend on the mesh. With --all both models
# on every mesh; without it each mesh with one of them.
#
# REQUIRES: kerf, onnx, onnxruntime
# RUN: %python %s %t %inputs
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

INPUTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(INPUTS))
import numpy as np
import onnx
import onnxruntime

from kerf_tests import Checks, fresh_folder, kerf, takes_interrupts, tensors

OUT = fresh_folder(sys.argv[1])
MLP, GPT2, CONV = (INPUTS / "training" / name for name in ("mlp", "gpt2", "conv-batch-norm"))
EVERYTHING = "--all" in sys.argv
checks = Checks()


def train(name, folder=MLP, model=None, batch=16, optimizer="adamw,lr=0.01,wd=0.01", data=None, expect=0, flags=()):
    """Runs in OUT/name; the result with `log`, its lines, and `model`, the path of the trained one."""
    out = OUT / name
    out.mkdir(exist_ok=True)
    command = ["train", model or folder / "model.onnx", f"--batch-size={batch}", "--loss=cross_entropy(logits,labels)",
               f"--optimizer={optimizer}", f"--data={data or folder / 'data.npz'}", f"--log={out / 'train.jsonl'}",
               "-o", out / "trained.onnx", "--threads=1", *flags]
    result = kerf(*command)
    checks.expect(name, result.returncode == expect, f"exit {result.returncode}: {' '.join(map(str, command))}\n"
                  f"{result.stdout}{result.stderr}")
    result.log = []
    if (out / "train.jsonl").exists():
        for line in (out / "train.jsonl").read_text().splitlines():
            result.log.append({key: value for key, value in json.loads(line).items() if key != "seconds"})
    result.losses = [line["loss"] for line in result.log if "loss" in line]
    result.model = out / "trained.onnx"
    return result


def weights(path):
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


def without_weights(path, names):
    """The serialized model with the payloads of some initializers taken out."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.name in names:
            tensor.ClearField("raw_data")
    return model.SerializeToString(deterministic=True)


def logits(path, inputs):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(["logits"], inputs)[0]


def cross_entropy(x, labels):
    x = x.reshape(-1, x.shape[-1]).astype(np.float64)
    labels = labels.reshape(-1)
    x, labels = x[labels != -100], labels[labels != -100]
    shifted = x - x.max(1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(x)), labels]
    return losses.mean(), (x.argmax(1) == labels).mean()


# It learns; the file is the model with other weights; ONNX Runtime gives the loss that evaluation gave.
for name, folder, batch, key, drop in (("mlp", MLP, 16, "x", 0.5), ("gpt2", GPT2, 8, "input_ids", 0.75)):
    for mesh in ((), ("--devices=cpu:2", "--mesh=dp=2"), ("--devices=cpu:2", "--mesh=tp=2")):
        if not EVERYTHING and (name == "gpt2") != ("--mesh=tp=2" in mesh):
            continue
        tag = f"{name}{''.join(mesh[1:]).replace('--mesh=', '-').replace('=', '')}"
        data = dict(np.load(folder / "data.npz"))
        result = train(tag, folder, batch=batch, flags=[
            "--steps=60", f"--eval-data={folder / 'data.npz'}", "--eval-every=20", *mesh,
            f"--save-safetensors={OUT / (tag + '.safetensors')}", "-q"])
        if result.returncode:
            continue
        first, last = np.mean(result.losses[:5]), np.mean(result.losses[-5:])
        checks.expect(f"{tag} learns", last < drop * first, f"{first} -> {last}")
        evaluations = [line for line in result.log if "eval_loss" in line]
        checks.expect(f"{tag} evaluates", [line["step"] for line in evaluations] == [20, 40, 60], str(evaluations))
        loss, accuracy = cross_entropy(logits(result.model, {key: data[key]}), data["labels"])
        checks.expect(f"{tag} evaluation as ONNX Runtime", abs(evaluations[-1]["eval_loss"] - loss) < 1e-4 * loss
                      and abs(evaluations[-1]["eval_accuracy"] - accuracy) < 2e-2, f"{evaluations[-1]}, {loss}, {accuracy}")
        before, after = weights(folder / "model.onnx"), weights(result.model)
        changed = {key for key in before if not np.array_equal(before[key], after[key])}
        floats = {key for key in before if before[key].dtype == np.float32 and before[key].size > 1}
        checks.expect(f"{tag} changes weights", changed and changed <= floats, f"{changed} of {floats}")
        checks.expect(f"{tag} changes nothing else", without_weights(folder / "model.onnx", changed)
                      == without_weights(result.model, changed))
        saved = tensors(OUT / f"{tag}.safetensors", shaped=True)
        checks.expect(f"{tag} safetensors", all(np.array_equal(saved[key], after[key]) for key in changed),
                      str({key: value.shape for key, value in saved.items()}))

# Data, order and seed are the same on every mesh; the seed decides.
runs = {mesh: train(f"order-{mesh.replace('=', '')}", flags=["--steps=25", "--devices=cpu:2", f"--mesh={mesh}",
                                                            "--seed=3"]) for mesh in ("dp=2", "tp=2")}
runs["one"] = train("order-one", flags=["--steps=25", "--seed=3"])
runs["other"] = train("order-other", flags=["--steps=25", "--seed=4"])
for mesh in ("dp=2", "tp=2"):
    checks.expect(f"{mesh} reads what one rank reads", np.allclose(runs[mesh].losses, runs["one"].losses, rtol=1e-4)
                  and len(runs[mesh].losses) == 25, f"{runs[mesh].losses}\n{runs['one'].losses}")
checks.expect("the seed decides", not np.allclose(runs["other"].losses, runs["one"].losses, rtol=1e-4))

# Stopped and taken up again: the same bits, on one rank and on several.
for name, flags in (("one", []), ("dp", ["--devices=cpu:2", "--mesh=dp=2"])):
    flags = [*flags, "--learning-rate=cosine,warmup=3,steps=12"]
    whole = train(f"whole-{name}", flags=[*flags, "--steps=12"])
    folder = OUT / f"checkpoints-{name}"
    train(f"part-{name}", flags=[*flags, "--steps=7", f"--checkpoint-dir={folder}"])
    (OUT / f"part-{name}/trained.onnx").unlink(missing_ok=True)
    rest = train(f"part-{name}", flags=[*flags, "--steps=12", f"--checkpoint-dir={folder}", "--resume"])
    checks.expect(f"{name}: by the same rules", "not as before" not in rest.stderr, rest.stderr)
    checks.expect(f"{name}: the same log", rest.log == whole.log and len(whole.log) == 12, f"{rest.log}\n{whole.log}")
    checks.expect(f"{name}: the same model", rest.returncode == whole.returncode == 0
                  and rest.model.read_bytes() == whole.model.read_bytes())
    again = train(f"again-{name}", flags=[*flags, "--steps=12"])
    checks.expect(f"{name}: twice the same bits", again.log == whole.log)
    # A damaged checkpoint: the one before.
    newest = sorted(folder.iterdir())[-1]
    damaged = bytearray(newest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    newest.write_bytes(damaged)
    rest = train(f"part-{name}", flags=[*flags, "--steps=12", f"--checkpoint-dir={folder}", "--resume"])
    checks.expect(f"{name}: the damaged one is named", newest.name in rest.stderr and "goes on after step 7" in rest.stderr,
                  rest.stderr)
    checks.expect(f"{name}: the one before loads", rest.log == whole.log)

# Folders of checkpoints: a second run does not mix with the first, files that are not checkpoints stay, what a
# killed process left goes, and a checkpoint knows its data.
folder = OUT / "kept-checkpoints"
flags = [f"--checkpoint-dir={folder}", "--checkpoint-every=2"]
train("kept", flags=[*flags, "--steps=8"])
names = sorted(path.name for path in folder.iterdir())
checks.expect("the newest three stay", names == [f"checkpoint-00000000{i}.safetensors" for i in (4, 6, 8)], str(names))
second = train("kept", flags=[*flags, "--steps=8"], expect=2)
checks.expect("a folder of another run", "--resume" in second.stderr, second.stderr)
less = train("kept", flags=[*flags, "--steps=6", "--resume"], expect=2)
checks.expect("fewer steps than done", "has done 8 steps" in less.stderr, less.stderr)
(folder / "checkpoint-best.safetensors").write_bytes((folder / names[0]).read_bytes())
(folder / f"{names[0]}.tmp4194304").write_text("half")
other = dict(np.load(MLP / "data.npz"))
other["x"] = other["x"] + 1
np.savez(OUT / "other.npz", **other)
foreign = train("kept", data=OUT / "other.npz", flags=[*flags, "--steps=12", "--resume"], expect=2)
checks.expect("other data of the same size", "is of another run: data is" in foreign.stderr and "(the files of the data hold other numbers)" in foreign.stderr, foreign.stderr)
# So does it the weights with which its run began, whichever mesh looks at them, also where they are frozen.
changed = onnx.load(MLP / "model.onnx")
first = changed.graph.initializer[0]
first.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(first) + np.float32(1), first.name))
onnx.save(changed, OUT / "changed.onnx")
for name, more in (("trained", []), ("frozen", [f"--frozen={first.name}"])):
    begun = [f"--checkpoint-dir={OUT / f'begun-{name}'}", *more]
    train("kept", flags=[*begun, "--steps=2"])
    foreign = train("kept", model=OUT / "changed.onnx", flags=[*begun, "--steps=4", "--resume"], expect=2)
    checks.expect(f"other weights, {name}", "is of another run: weights is" in foreign.stderr, foreign.stderr)
    train("kept", flags=[*begun, "--steps=4", "--resume", "--devices=2", "--mesh=tp=2"])
# One that is cut short is said to end early, in its tensors or in its header, and the one before is taken.
whole = (folder / names[-1]).read_bytes()
for name, size, said in (("last byte", len(whole) - 1, f"its header says {len(whole)}"), ("half", len(whole) // 2, f"its header says {len(whole)}"),
                         ("header", 100, "which is less than its header"), ("nothing", 0, "which is less than its header")):
    (folder / names[-1]).write_bytes(whole[:size])
    short = train("kept", flags=[f"--checkpoint-dir={folder}", "--steps=8", "--resume", "--checkpoint-every=9"])
    checks.expect(f"cut short, {name}", f"{names[-1]}: is damaged: ends early: has {size} bytes, {said}\n" in short.stderr
                  and "goes on after step 6" in short.stderr, short.stderr)
    checks.expect(f"cut short, {name}: written again", (folder / names[-1]).read_bytes() == whole)
train("kept", flags=[*flags, "--steps=12", "--resume"])
names = sorted(path.name for path in folder.iterdir())
checks.expect("what is not ours stays, halves go", names == sorted(
    ["checkpoint-best.safetensors", *(f"checkpoint-0000000{i:02}.safetensors" for i in (8, 10, 12))]), str(names))

# Of another model that is said first, whatever else is another, and of other weights before the seed.
renamed = onnx.load(MLP / "model.onnx")
for node in renamed.graph.node:
    node.input[:] = ["other.weight" if name == first.name else name for name in node.input]
renamed.graph.initializer[0].name = "other.weight"
del renamed.graph.value_info[:]
onnx.save(renamed, OUT / "renamed.onnx")
foreign = train("kept", model=OUT / "renamed.onnx", flags=[*flags, "--steps=12", "--resume", "--seed=9"], expect=2)
checks.expect("another model", f'is of another model: it has "{first.name}", this model has "other.weight"' in foreign.stderr, foreign.stderr)
foreign = train("kept", model=OUT / "changed.onnx", flags=[*flags, "--steps=12", "--resume", "--seed=9"], expect=2)
checks.expect("other weights before the seed", "is of another run: weights is" in foreign.stderr, foreign.stderr)
# Other rules of updates are taken, and said.
ruled = [f"--checkpoint-dir={OUT / 'rules'}", "--learning-rate=cosine"]
train("rules", flags=[*ruled, "--steps=4"])
rules = train("rules", flags=[*ruled, "--steps=8", "--precision=bf16", "--resume"])
checks.expect("other rules", re.search(r"^note: not as before in this run: learning rate is cosine,lr=\S+,steps=8, was cosine,lr=\S+,steps=4; "
                                       r"precision is bf16, was f32$", rules.stderr, re.M), rules.stderr)
clipped = train("rules", flags=[*ruled[:1], "--steps=9", "--clip-norm=0.5", "--resume"])
checks.expect("a norm beside", re.search(r"^note: not as before in this run: clip norm is 0.5, was off; learning rate is ", clipped.stderr, re.M), clipped.stderr)

# Another optimizer goes on where its states are the same; else the refusal says how to go on, and so it does of other
# parameters.
kinds = [f"--checkpoint-dir={OUT / 'kinds'}"]
train("kinds", flags=[*kinds, "--steps=2"])
USUAL = "adamw,lr=0.01,wd=0.01"
for name, optimizer, more, said in (
        ("other states", "sgd,lr=0.01,momentum=0.9", [], "a state of another optimizer (--optimizer): to go on with this one, train the model that "
         "the run has written (-o), without --resume and with another folder as --checkpoint-dir"),
        ("no states", "sgd,lr=0.01", [], "a state of another optimizer (--optimizer)"),
        ("fewer parameters", USUAL, [f"--frozen={first.name}"], "another --frozen or --trainable than before trains other parameters"),
        ("fewer and others", "sgd,lr=0.01", [f"--frozen={first.name}"], "a state of another optimizer (--optimizer)")):
    other = train("kinds", optimizer=optimizer, flags=[*kinds, "--steps=4", "--resume", *more], expect=2)
    checks.expect(name, said in other.stderr, other.stderr)
alike = train("kinds", optimizer="adam,lr=0.01", flags=[*kinds, "--steps=4", "--resume"])
checks.expect("the same states", "not as before in this run: optimizer is adam," in alike.stderr, alike.stderr)
frozen = [f"--checkpoint-dir={OUT / 'kinds-frozen'}"]
train("kinds", flags=[*frozen, "--steps=2", f"--frozen={first.name}"])
more = train("kinds", flags=[*frozen, "--steps=4", "--resume"], expect=2)
checks.expect("more parameters", f'it has no "{first.name}": another --frozen or --trainable' in more.stderr, more.stderr)

# An array that no input asks for may be anything.
np.savez(OUT / "more.npz", names=np.array(["cat", "dog"]), **dict(np.load(MLP / "data.npz")))
checks.expect("an array of text beside", train("more", data=OUT / "more.npz", flags=["--steps=2"]).losses
              == train("plain", flags=["--steps=2"]).losses)

# A checkpoint of one rank goes on over two: global tensors move between meshes.
moved = train("moved", flags=["--learning-rate=cosine,warmup=3,steps=12", "--steps=12", "--devices=cpu:2",
                              "--mesh=tp=2", f"--checkpoint-dir={OUT / 'checkpoints-one'}", "--resume"])
checks.expect("another mesh goes on", "goes on after step 12" in moved.stderr, moved.stderr)
if moved.returncode == 0:
    checks.expect("another mesh holds the same", moved.model.read_bytes() == (OUT / "whole-one/trained.onnx").read_bytes())
# A batch that does not divide by the mesh is padded: the same losses.
uneven = train("uneven", flags=["--steps=25", "--devices=cpu:3", "--mesh=dp=3", "--seed=3"])
checks.expect("16 samples over 3 ranks", np.allclose(uneven.losses, runs["one"].losses, rtol=1e-4)
              and len(uneven.losses) == 25, f"{uneven.losses}\n{runs['one'].losses}")

# Ctrl-C: the step ends, a checkpoint is written, no model; what follows is the run without a break.
(OUT / "interrupted").mkdir()
log = OUT / "interrupted/train.jsonl"
command = ["kerf", "train", str(MLP / "model.onnx"), "--batch-size=16", "--loss=cross_entropy(logits,labels)",
           "--optimizer=adamw,lr=0.01,wd=0.01", f"--data={MLP / 'data.npz'}", "--threads=1", f"--log={log}",
           f"--checkpoint-dir={OUT / 'interrupted/checkpoints'}", "-o", str(OUT / "interrupted/trained.onnx")]
process = subprocess.Popen([*command, "--steps=1000000"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                           preexec_fn=takes_interrupts)
deadline = time.time() + 100
while time.time() < deadline and process.poll() is None and not (log.exists() and log.read_text().count("\n") > 3):
    time.sleep(0.05)
for _ in range(2): # as `timeout` sends it: to the process and to its group
    process.send_signal(signal.SIGINT)
    time.sleep(0.001)
stderr = process.communicate(timeout=60)[1]
checks.expect("Ctrl-C", process.returncode == 130 and "a checkpoint is written" in stderr
              and not (OUT / "interrupted/trained.onnx").exists(), f"{process.returncode} {stderr}")
done = log.read_text().count("\n") if log.exists() else 0
if process.returncode == 130:
    resumed = subprocess.run([*command, f"--steps={done + 2}", "--resume"], capture_output=True, text=True)
    straight = train("straight", flags=[f"--steps={done + 2}"])
    checks.expect("after Ctrl-C", resumed.returncode == 0 and straight.model.read_bytes()
                  == (OUT / "interrupted/trained.onnx").read_bytes(), resumed.stderr)

# Ranks that are processes: whether their launcher alone gets it, or, as from a terminal, all of them, or, as `timeout` sends it,
# the launcher and then all of them: that is one request, too.
for kind, senders in (("the launcher", "l"), ("all processes", "a"), ("both", "la")):
    folder = fresh_folder(OUT / "processes")
    log = folder / "train.jsonl"
    process = subprocess.Popen([*command[:3], *command[3:7], f"--log={log}", f"--checkpoint-dir={folder / 'checkpoints'}", "--no-output", "--devices=cpu:2", "--processes",
                                "--steps=100000000"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True, preexec_fn=takes_interrupts)
    deadline = time.time() + 100
    while time.time() < deadline and process.poll() is None and not (log.exists() and log.read_text().count("\n") > 3):
        time.sleep(0.05)
    for sender in senders:
        os.killpg(process.pid, signal.SIGINT) if sender == "a" else process.send_signal(signal.SIGINT)
        time.sleep(0.001)
    stderr = process.communicate(timeout=60)[1]
    checks.expect(f"Ctrl-C of {kind}", process.returncode == 130 and "a checkpoint is written" in stderr, f"{process.returncode} {stderr}")

# Flat tokens; the last batch kept; other containers of the same arrays.
tokens = (np.arange(1000) * 7 % 64).astype(np.uint16)
np.save(OUT / "tokens.npy", tokens)
tokens.tofile(OUT / "tokens.bin")
flat = [train(f"tokens-{kind}", GPT2, batch=8, data=OUT / f"tokens.{kind}",
              flags=["--sequence-length=16", "--epochs=2", "--last-batch=keep"]) for kind in ("npy", "bin")]
checks.expect("tokens", len(flat[0].losses) == 2 * 8 and flat[0].losses == flat[1].losses
              and flat[0].losses[-1] < 0.8 * flat[0].losses[0], str(flat[0].losses))
arrays = dict(np.load(MLP / "data.npz"))
(OUT / "arrays").mkdir()
for key, value in arrays.items():
    np.save(OUT / "arrays" / f"{key}.npy", value.astype(np.int32) if key == "labels" else value)
np.savez(OUT / "stored.npz", **arrays)
kinds = [train(f"data-{kind}", data=path, flags=["--steps=5"]) for kind, path in
         (("deflated", None), ("stored", OUT / "stored.npz"), ("folder", OUT / "arrays"))]
checks.expect("every container", kinds[0].losses == kinds[1].losses == kinds[2].losses and len(kinds[0].losses) == 5)

# External data beside the trained model are called after it.
(OUT / "external").mkdir()
model = onnx.load(MLP / "model.onnx")
onnx.save(model, OUT / "external/model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=64)
outside = train("external-trained", model=OUT / "external/model.onnx", flags=["--steps=5"])
if outside.returncode == 0:
    data = {"x": arrays["x"][:16]}
    checks.expect("external data", np.allclose(logits(outside.model, data), logits(kinds[0].model, data), atol=1e-6)
                  and list((OUT / "external-trained").glob("*.onnx.weights.bin"))
                  and not np.allclose(logits(outside.model, data), logits(MLP / "model.onnx", data), atol=1e-6))
# So in the model's own folder: what is there stays.
stored = (OUT / "external/weights.bin").read_bytes()
within = train("external", model=OUT / "external/model.onnx", flags=["--steps=5"])
checks.expect("external data are not replaced", (OUT / "external/weights.bin").read_bytes() == stored
              and list((OUT / "external").glob("*.onnx.weights.bin"))
              and np.allclose(logits(within.model, data), logits(outside.model, data), atol=1e-6), within.stderr)

# BatchNorm and Dropout in training form: evaluation uses neither batch nor mask.
drop = onnx.load(CONV / "model.onnx")
(relu,) = [node for node in drop.graph.node if node.output[0] == drop.graph.node[-1].input[0]]
dropped = onnx.helper.make_node("Dropout", [relu.output[0], "ratio", "mode"], ["dropped"], name="dropout")
drop.graph.initializer.extend([onnx.helper.make_tensor("ratio", 1, [], [0.3]), onnx.helper.make_tensor("mode", 9, [], [1])])
drop.graph.node[-1].input[0] = "dropped"
drop.graph.node.insert(len(drop.graph.node) - 1, dropped)
onnx.save(drop, OUT / "dropout.onnx")
data = dict(np.load(CONV / "data.npz"))
forms = {}
for mesh in ("", "--mesh=dp=2"):
    forms[mesh] = train(f"dropout{mesh[7:].replace('=', '')}", CONV, model=OUT / "dropout.onnx", flags=[
        "--steps=30", f"--eval-data={CONV / 'data.npz'}", *([mesh, "--devices=cpu:2"] if mesh else [])])
    if forms[mesh].returncode == 0:
        # ONNX Runtime would draw masks of its own: take the node out again.
        model = onnx.load(forms[mesh].model)
        model.graph.node[-1].input[0] = relu.output[0]
        del model.graph.node[-2]
        onnx.save(model, OUT / "without.onnx")
        loss, _ = cross_entropy(logits(OUT / "without.onnx", {"image": data["image"]}), data["labels"])
        measured = forms[mesh].log[-1].get("eval_loss", np.nan)
        checks.expect(f"dropout {mesh} evaluation", abs(measured - loss) < 1e-4 * loss, f"{measured} {loss}")
checks.expect("the same masks on every mesh", np.allclose(forms[""].losses, forms["--mesh=dp=2"].losses, rtol=1e-4)
              and len(forms[""].losses) == 30, f"{forms[''].losses}\n{forms['--mesh=dp=2'].losses}")

# A loss that is not finite: the step ends the run, or is left out.
bad = dict(arrays, x=arrays["x"].copy())
bad["x"][37] = np.nan
np.savez(OUT / "bad.npz", **bad)
stopped = train("nan-stop", data=OUT / "bad.npz", expect=5, flags=["--shuffle=off", "--steps=9"])
checks.expect("NaN stops", "step 3: the loss is nan" in stopped.stderr and not stopped.model.exists(), stopped.stderr)
skipped = train("nan-skip", data=OUT / "bad.npz", flags=["--shuffle=off", "--steps=9", "--on-nan=skip"])
checks.expect("NaN is skipped", "1 step skipped" in skipped.stdout and skipped.log[2].get("skipped") is True
              and skipped.log[3]["loss"] is not None, skipped.stdout + str(skipped.log))
if skipped.returncode == 0:
    checks.expect("no NaN in the model", all(np.isfinite(value).all() for value in weights(skipped.model).values()
                                             if value.dtype == np.float32))

# Contractions in bfloat16 (test/Train has their curves): gradients travel as they are computed, or as they are asked to.
for name, folder, batch in (("mlp", MLP, 16), ("gpt2", GPT2, 8))[:2 if EVERYTHING else 1]:
    stats = OUT / f"{name}-wide.json"
    train(f"{name}-wide", folder, batch=batch, flags=["--steps=3", "--devices=cpu:2", "--mesh=dp=2", f"--stats={stats}"])
    whole = json.loads(stats.read_text())["communication"]["by_purpose"]["gradient"]
    for flags, half in ((["--precision=bf16"], True), (["--precision=bf16", "--gradient-dtype=f32"], False),
                        (["--gradient-dtype=bf16"], True)):
        title = f"{name} {' '.join(flags)}"
        stats = OUT / f"{name}-narrow.json"
        narrow = train(title.replace(" ", ""), folder, batch=batch,
                       flags=["--steps=3", *flags, "--devices=cpu:2", "--mesh=dp=2", f"--stats={stats}"])
        if narrow.returncode == 0:
            sent = json.loads(stats.read_text())["communication"]["by_purpose"]["gradient"]
            checks.expect(f"{title}: bytes", sent * (2 if half else 1) == whole, f"{sent} of {whole}")

# The six steps in the trace; one rank has nothing to synchronise, and two stages only a weight that both hold.
for name, folder, batch, expected, flags in (
        ("dp2", MLP, 16, "123456", ["--devices=cpu:2", "--mesh=dp=2"]), ("one", MLP, 16, "12346", []),
        ("pp2-tied", GPT2, 8, "123456", ["--devices=cpu:2", "--mesh=pp=2"])):
    trace = OUT / f"trace-{name}.json"
    result = train(f"trace-{name}", folder, batch=batch, flags=["--steps=3", f"--trace={trace}", *flags])
    if result.returncode:
        continue
    events = json.loads(trace.read_text())["traceEvents"]
    for rank in {event["tid"] for event in events if event.get("cat") == "run"}:
        steps = {event["args"]["step"] for event in events if event["tid"] == rank and "step" in event.get("args", {})} | {
            event["name"] for event in events if event["name"].startswith("1 ")}
        own = set(expected) - (set("2") if name == "pp2-tied" else set())  # each stage reads a part of the inputs
        checks.expect(f"steps of {name} on rank {rank}", own <= {step[0] for step in steps} <= set(expected),
                      str(sorted(steps)))
checks.expect("nothing is left beside", not list(OUT.rglob("*.tmp*")))
checks.finish()
