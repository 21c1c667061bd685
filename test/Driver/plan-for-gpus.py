# A plan for a machine of GPUs is one of the program for GPUs: the memory that it lays out is what `--devices=cuda:...` gives,
# and `--devices=cpu:N` says that the program runs on ranks of a CPU. What is compiled is for the devices that are named.
#
# REQUIRES: kerf, onnx
# RUN: %python %s %t %inputs
import json
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
MODEL = f"{sys.argv[2]}/models/gpt2-small/model.onnx"
TRAIN = ["--dim=batch=16", "--mesh=dp=2", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adamw"]


def plan(*flags):
    result = kerf("plan", MODEL, "--json", *flags)
    checks.expect(f"{flags} is planned", result.returncode == 0, result.stderr)
    return json.loads(result.stdout) if result.returncode == 0 else None


def laid_out(given):
    return given["memory"]["per_device"]


number, gpus, ranks = (plan(*TRAIN, "--machine=h100-8", f"--devices={devices}") for devices in ("2", "cuda:0-1", "cpu:2"))
checks.expect("a number of devices is one of GPUs", laid_out(number) == laid_out(gpus), (laid_out(number), laid_out(gpus)))
checks.expect("which hold something else than ranks of a CPU", laid_out(gpus) != laid_out(ranks), laid_out(ranks))
checks.expect("at the same cost", number["objective"]["cost"] == ranks["objective"]["cost"])
checks.expect("tf32 is theirs", plan(*TRAIN, "--machine=h100-8", "--devices=2", "--precision=tf32") is not None)
host, same = (plan(*TRAIN, "--machine=cpu", f"--devices={devices}") for devices in ("2", "cpu:2"))
checks.expect("a machine of ranks is one of ranks", laid_out(host) == laid_out(same), (laid_out(host), laid_out(same)))
result = kerf("plan", MODEL, *TRAIN, "--machine=h100-8", "--devices=2", "--what-if=machine=cpu", "--json")
checks.expect("and a case of --what-if", result.returncode == 0 and "describes ranks" not in result.stdout, result.stdout[-400:] + result.stderr)
result = kerf("compile", MODEL, "--dim=batch=16", "--machine=h100-8", "--devices=2", "-o", OUT / "two.kerf")
checks.expect("what is compiled is for ranks", result.returncode == 0 and "runs on ranks of a CPU" in result.stderr, result.stderr)

# GPUs store products of 16 bits in 16 bits: so many bytes are predicted, above 10 MB.
for flags in (["--devices=1"], ["--devices=2", "--mesh=pp=2", "--micro-batches=4"]):
    narrow = plan("--dim=batch=4096", "--machine=h100-8", "--precision=bf16", *flags)
    ratios = [device["predicted"]["peak"] / device["peak"] for device in laid_out(narrow)]
    checks.expect(f"{flags}: what is predicted is laid out", all(0.98 <= ratio <= 1.02 for ratio in ratios), ratios)
# What their kernels compute twice, the loss's exponentials for one, is not stored: nor is it predicted.
for precision in ("f32", "bf16"):
    step = plan("--dim=batch=1024", *TRAIN[1:], "--machine=h100-8", "--devices=2", f"--precision={precision}", "--zero=none", "--recompute=none")
    ratios = [device["predicted"]["peak"] / device["peak"] for device in laid_out(step)]
    checks.expect(f"{precision}: a step that trains", all(0.98 <= ratio <= 1.02 for ratio in ratios), ratios)
# Norms' scales are read before such kernels, with the statistics: a net of convolutions, BatchNorm and SiLU.
norms = json.loads(kerf("plan", f"{sys.argv[2]}/training/conv-batch-norm/model.onnx", "--dim=batch=4096", "--mesh=dp=2", *TRAIN[2:4], "--optimizer=sgd", "--machine=h100-8",
                        "--devices=2", "--zero=none", "--recompute=none", "--json").stdout)
ratios = [device["predicted"]["peak"] / device["peak"] for device in laid_out(norms)]
checks.expect("norms", all(0.98 <= ratio <= 1.02 for ratio in ratios), ratios)
# Blocks of convolutions that are computed again wait for their turn: they save what they are to save.
NET = [f"{sys.argv[2]}/graphs/resnet50/model.onnx", "--dim=batch=32", "--mesh=dp=2", *TRAIN[2:4], "--optimizer=sgd", "--machine=h100-8", "--devices=2", "--zero=none"]
once, again = (laid_out(json.loads(kerf("plan", *NET, "--json", f"--recompute={kind}").stdout))[0] for kind in ("none", "all"))
checks.expect("recomputation saves half", again["peak"] < 0.5 * once["peak"], (again["peak"], once["peak"]))
checks.finish()
