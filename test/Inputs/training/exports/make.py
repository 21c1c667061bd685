#!/usr/bin/env python3
"""Exports models of transformers with fresh weights, for the test of what is trained (test/Train/what-is-trained.py).

As torch.onnx.export(..., dynamo=True) writes them, without the metadata of their nodes: causal masks and tables of sines
and cosines are initializers, and norms that are equal (all ones) are stored once. `llama-dynamic` computes its tables
from frequencies, as exports of any batch and length do.

Needs torch 2.15, transformers, onnx; the test suite needs none of them.
"""
import pathlib

import onnx
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent


class Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model.eval()

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits


def export(name, model, dynamic=False):
    path = HERE / f"{name}.onnx"
    shapes = {"input_ids": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}} if dynamic else None
    torch.onnx.export(Logits(model), (torch.randint(0, 32, (2, 8)),), str(path), input_names=["input_ids"],
                      output_names=["logits"], external_data=False, dynamo=True, dynamic_shapes=shapes)
    model = onnx.load(path)
    for node in model.graph.node:
        del node.metadata_props[:]
        node.ClearField("doc_string")
    for function in model.functions:
        for node in function.node:
            del node.metadata_props[:]
    del model.graph.value_info[:]
    del model.graph.metadata_props[:]
    onnx.save(model, path)
    print(path.name, path.stat().st_size)


torch.manual_seed(0)
llama = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
                    num_key_value_heads=1, max_position_embeddings=32, attn_implementation="eager")
export("llama", LlamaForCausalLM(llama))
export("llama-dynamic", LlamaForCausalLM(llama), dynamic=True)
gpt2 = GPT2Config(vocab_size=32, n_embd=16, n_layer=2, n_head=2, n_positions=16, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                  attn_implementation="eager")
export("gpt2", GPT2LMHeadModel(gpt2))
