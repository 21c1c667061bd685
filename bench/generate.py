#!/usr/bin/env python3
"""generate.py [--kind gpt2|llama|qwen2 ...] [--mesh tp=2 ...] [--kerf build/bin/kerf] [FOLDER]

Models of transformers (small, random weights) exported by PyTorch with their
caches: `kerf generate` against transformers' own greedy `generate`, 64 tokens,
on one rank and on each mesh. By hand, with requirements-bench.txt.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, DynamicCache, GPT2Config, LlamaConfig, Qwen2Config

TOKENS, PROMPT = 64, [3, 14, 15, 9, 26]
SMALL = {"vocab_size": 211, "bos_token_id": 0, "eos_token_id": 0}
HIDDEN = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.3}
CONFIGS = {
    "gpt2": GPT2Config(n_embd=64, n_layer=2, n_head=4, n_positions=128, initializer_range=0.3, **SMALL),
    "llama": LlamaConfig(**HIDDEN, **SMALL),
    "qwen2": Qwen2Config(**HIDDEN, **SMALL),
}


class WithCache(torch.nn.Module):
    """The decoder with its cache as tensors, as optimum exports it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                         past_key_values=cache, use_cache=True)
        return out.logits, *(x for layer in out.past_key_values.layers for x in (layer.keys, layer.values))


def export(model, path):
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = config.hidden_size // config.num_attention_heads
    layers = config.num_hidden_layers
    past = [torch.zeros(2, heads, 7, size) for _ in range(2 * layers)]
    names = [f"{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    example = (torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 10, dtype=torch.int64),
               torch.arange(7, 10)[None].repeat(2, 1), *past)
    axes = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "total"},
            "position_ids": {0: "batch", 1: "sequence"}, **{f"past_key_values.{n}": {0: "batch", 2: "past"} for n in names}}
    torch.onnx.export(WithCache(model).eval(), example, path, dynamo=False, opset_version=18, dynamic_axes=axes,
                      input_names=list(axes), output_names=["logits", *(f"present.{n}" for n in names)])


def check(kerf, kind, meshes, folder):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[kind], attn_implementation="eager").eval()
    path = folder / f"{kind}.onnx"
    export(model, path)
    wanted = model.generate(torch.tensor([PROMPT]), max_new_tokens=TOKENS, do_sample=False, eos_token_id=None,
                            pad_token_id=0)[0, len(PROMPT):].tolist()
    fine = True
    for mesh in ["", *meshes]:
        ranks = 1
        for axis in filter(None, mesh.split(",")):
            ranks *= int(axis.split("=")[1])
        for more in ([], ["--prompt-tokens=3", "--cache-length=80"]):
            run = subprocess.run([kerf, "generate", path, f"--prompt-ids={','.join(map(str, PROMPT))}", f"--tokens={TOKENS}",
                                  f"--devices=cpu:{ranks}", *([f"--mesh={mesh}"] if mesh else []), *more],
                                 capture_output=True, text=True)
            same = run.stdout.split() == list(map(str, wanted))
            fine &= same
            print(f"{kind} {mesh or 'one rank'} {' '.join(more)}: {'equal' if same else 'DIFFERS ' + run.stdout + run.stderr}")
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--kind", action="append", choices=CONFIGS)
    parser.add_argument("--mesh", action="append")
    parser.add_argument("--kerf", default="build/bin/kerf")
    given = parser.parse_args()
    folder = pathlib.Path(given.folder or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    results = [check(given.kerf, kind, given.mesh or ["tp=2", "pp=2"], folder) for kind in given.kind or CONFIGS]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
