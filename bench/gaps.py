#!/usr/bin/env python3
"""bench/gaps.py [--kerf BINARY] [--only TEXT] [--deadline SECONDS] [--unlimited]
              [--markdown]

How far plans for 8 devices of h100-8 are above their proven bounds: models of about a
hundred million parameters, inference and training (bf16; AdamW, ResNet-50 by SGD), batch 1
and 8 for each device, without a memory limit and with 1.2 times the least that any plan
was found to lay out (by searches of --deadline or 20 s under ever smaller limits). Printed are the seconds of the whole command, the plan's cost, the gap,
what its fullest device lays out, and its mesh. Graphs that are not there are exported once
into build/models, which needs requirements-bench.txt.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRAPHS = ROOT / "test/Inputs/graphs"
CACHE = pathlib.Path(os.environ.get("KERF_CACHE_DIR", ROOT / "build/models"))
TOKENS = 512


def exported(name):
    """The graph of one of these, exported if need be."""
    path = CACHE / f"gaps-{name}/model.onnx"
    if path.exists():
        return path
    sys.path.insert(0, str(GRAPHS))
    import make as graphs
    import torch
    import torchvision
    import transformers
    from torch import nn

    class Logits(nn.Module):
        """What a model of transformers gives, as its own weights and a head."""

        def __init__(self, model, head=None):
            super().__init__()
            self.model, self.head = model, head

        def forward(self, input_ids):
            hidden = self.model(input_ids, return_dict=False)[0]
            return self.head(hidden[:, 0]) if self.head else hidden

    class Decoder(nn.Module):
        """T5 on the ids of both sides."""

        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids, decoder_input_ids):
            return self.model(input_ids=input_ids, decoder_input_ids=decoder_input_ids, use_cache=False,
                              return_dict=False)[0]

    class Experts(nn.Module):
        """A transformer whose layers have eight experts, all of which compute every token: a dense mixture."""

        class Block(nn.Module):
            def __init__(self, width, heads, experts):
                super().__init__()
                self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
                self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
                self.gate = nn.Linear(width, experts)
                self.up = nn.Parameter(torch.zeros(experts, width, 2 * width))
                self.down = nn.Parameter(torch.zeros(experts, 2 * width, width))

            def forward(self, x):
                normal = self.norms[0](x)
                x = x + self.attention(normal, normal, normal, need_weights=False)[0]
                normal = self.norms[1](x)
                weights = torch.softmax(self.gate(normal), -1)
                hidden = nn.functional.gelu(torch.einsum("bsd,edf->besf", normal, self.up))
                return x + torch.einsum("besf,efd,bse->bsd", hidden, self.down, weights)

        def __init__(self, width=512, layers=8, heads=8, experts=8, vocabulary=32000):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.blocks = nn.Sequential(*(self.Block(width, heads, experts) for _ in range(layers)))
            self.head = nn.Linear(width, vocabulary)

        def forward(self, input_ids):
            return self.head(self.blocks(self.tokens(input_ids)))

    ids = torch.zeros(2, TOKENS, dtype=torch.int64)
    made = {
        "bert": (lambda: Logits(transformers.BertModel(transformers.BertConfig()), nn.Linear(768, 2)), {"input_ids": ids}),
        "vit": (lambda: torchvision.models.vit_b_16(), {"image": torch.zeros(2, 3, 224, 224)}),
        "llama": (lambda: Logits(transformers.LlamaForCausalLM(transformers.LlamaConfig(
            hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, use_cache=False))),
            {"input_ids": ids}),
        "t5": (lambda: Decoder(transformers.T5ForConditionalGeneration(transformers.T5Config(
            d_model=512, num_layers=6, decoder_start_token_id=0, attn_implementation="eager"))), {"input_ids": ids, "decoder_input_ids": ids}),
        "experts": (Experts, {"input_ids": ids}),
    }[name]
    print(f"exporting {name}", file=sys.stderr, flush=True)
    graphs.write(*made, path.parent)
    return path


ADAMW, MOMENTUM = "adamw,lr=0.001", "sgd,lr=0.1,momentum=0.9"
MODELS = {
    "gpt2-124m": (lambda: GRAPHS / "gpt2-124m/model.onnx", ADAMW),
    "bert": (lambda: exported("bert"), ADAMW),
    "vit": (lambda: exported("vit"), ADAMW),
    "llama": (lambda: exported("llama"), ADAMW),
    "resnet50": (lambda: GRAPHS / "resnet50/model.onnx", MOMENTUM),
    "t5": (lambda: exported("t5"), ADAMW),
    "experts": (lambda: exported("experts"), ADAMW),
}


def run(kerf, model, options):
    """plan.json, what was said, and the seconds that it took."""
    begin = time.perf_counter()
    process = subprocess.run([kerf, "plan", model, "--json", "--machine=h100-8", "--precision=bf16", *options],
                             capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    return json.loads(process.stdout) if process.returncode == 0 else None, process.stderr, seconds


def least(kerf, model, options, seconds):
    """About the least bytes that a plan lays out: ever smaller limits, until no plan is found in so many seconds."""
    found, limit = None, 1 << 20
    _, said, _ = run(kerf, model, [*options, "--memory-limit=1KiB", f"--deadline={seconds}"])
    for known in re.findall(r"(?:needs at least|predicted to need) (\d+) bytes", said):
        limit = max(limit, int(known))
    while True:
        plan, said, _ = run(kerf, model, [*options, f"--memory-limit={limit >> 10}KiB", f"--deadline={seconds}"])
        if plan is None:
            if found is not None:
                return found
            limit = int(1.5 * limit)
            continue
        found = max(device["peak"] for device in plan["memory"]["per_device"])
        limit = int(0.8 * found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default=ROOT / "build/bin/kerf")
    parser.add_argument("--only", default="")
    parser.add_argument("--deadline", help="of every search, in seconds")
    parser.add_argument("--unlimited", action="store_true", help="only without a memory limit")
    parser.add_argument("--markdown", action="store_true", help="rows of a table in docs/")
    arguments = parser.parse_args()
    end = [f"--deadline={arguments.deadline}"] if arguments.deadline else []
    line = "| {} | {} | {} | {} | {} | {} |" if arguments.markdown else "{:36} {:>8} {:>10} {:>6} {:>10}  {}"
    print(line.format("case", "seconds", "cost", "gap", "device", "mesh"))
    for name, (find, optimizer) in MODELS.items():
        for batch in (8, 64):
            for trains in (False, True):
                case = f"{name} {'train' if trains else 'infer'} {batch}"
                if arguments.only not in case:
                    continue
                options = [f"--dim=batch={batch}", *(["--train", "--loss=cross_entropy(logits,labels)",
                                                      f"--optimizer={optimizer}"] if trains else [])]
                for limit in (None,) if arguments.unlimited else (None, 1.2):
                    own = [*options, *end]
                    if limit:
                        bytes_ = least(arguments.kerf, find(), options, arguments.deadline or 20)
                        own.append(f"--memory-limit={int(limit * bytes_) >> 10}KiB")
                    plan, said, seconds = run(arguments.kerf, find(), own)
                    label = f"{case}, 1.2 of the least" if limit else case
                    if plan is None:
                        print(line.format(label, f"{seconds:.1f}", "", "", "", said.strip().splitlines()[0]), flush=True)
                        continue
                    objective = plan["objective"]
                    mesh = " x ".join(f"{axis}={size}" for axis, size in plan["mesh"].items() if size > 1)
                    peak = max(device["peak"] for device in plan["memory"]["per_device"])
                    print(line.format(label, f"{seconds:.1f}", f"{1e3 * objective['cost']:.4g} ms", f"{100 * objective['gap']:.1f}%",
                                      f"{peak / 2**20:.0f} MiB", mesh), flush=True)


if __name__ == "__main__":
    main()
