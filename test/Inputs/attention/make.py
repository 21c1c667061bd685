#!/usr/bin/env python3
"""Writes cases.json beside this script: attention and its gradients in float64 by PyTorch's
scaled_dot_product_attention, rounded to float32, with the inputs. Needs torch; the tests that read the file do not."""
import json
import pathlib

import torch

# name, batch, heads, key heads, queries, keys, head size, value size, causal, shape of the bias
CASES = [
    ("plain", 2, 2, 2, 3, 4, 8, 8, False, None),
    ("causal", 1, 2, 2, 5, 5, 8, 8, True, None),
    ("groups", 2, 4, 2, 3, 3, 8, 16, True, None),
    ("mask", 2, 2, 2, 3, 4, 8, 8, False, (2, 1, 1, 4)),
    ("positions", 1, 2, 1, 4, 4, 8, 8, False, (1, 2, 4, 4)),
]


def main():
    torch.manual_seed(1)
    cases = []
    for name, batch, heads, key_heads, queries, keys, size, width, causal, bias in CASES:
        draw = lambda *shape: torch.randn(*shape).float().double()
        q, k, v = (draw(batch, heads, queries, size), draw(batch, key_heads, keys, size),
                   draw(batch, key_heads, keys, width))
        dy = draw(batch, heads, queries, width)
        mask = None if bias is None else draw(*bias)
        if name == "mask":
            mask = torch.where(mask > 0.3, torch.finfo(torch.float32).min, 0.0).double()
        for tensor in (q, k, v):
            tensor.requires_grad_()
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=0.3,
                                                             enable_gqa=heads != key_heads)
        y.backward(dy)
        entry = {"name": name, "batch": batch, "heads": heads, "key_heads": key_heads, "queries": queries, "keys": keys,
                 "head_size": size, "value_size": width, "causal": causal, "scale": 0.3, "bias_shape": bias}
        tensors = {"q": q, "k": k, "v": v, "dy": dy, "y": y, "dq": q.grad, "dk": k.grad, "dv": v.grad}
        if mask is not None:
            tensors["bias"] = mask
        for key, tensor in tensors.items():
            entry[key] = [float(f"{x:.9g}") for x in tensor.detach().flatten().tolist()]
        cases.append(entry)
    lines = ",\n".join(json.dumps(entry) for entry in cases)
    (pathlib.Path(__file__).parent / "cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
