# Models as PyTorch exports them, with its optimizer and without: a mixture of experts with top-k routing, a U-Net with
# transposed convolutions, SegFormer's decoder with resized features, a layer of Swin with shifted windows and masks, a
# cache that is written by index. Outputs, and what three steps of SGD make of the weights, are PyTorch's on every mesh.
#
# REQUIRES: kerf, onnx, torch, onnxscript
# RUN: %python %s %t %inputs
import sys

sys.path.insert(0, sys.argv[2])
import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn as nn
import torch.nn.functional as F

from kerf_tests import Checks, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])
checks = Checks()
torch.manual_seed(0)


class Experts(nn.Module):
    def __init__(self, size=16, experts=8, best=2, inner=32):
        super().__init__()
        self.best = best
        self.gate, self.out = nn.Linear(size, experts), nn.Linear(size, 4)
        self.up = nn.Parameter(torch.randn(experts, size, inner) * 0.2)
        self.down = nn.Parameter(torch.randn(experts, inner, size) * 0.2)

    def forward(self, x):
        p = F.softmax(self.gate(x), -1)
        weights, places = torch.topk(p, self.best, dim=-1)
        route = torch.zeros_like(p).scatter(-1, places, weights / weights.sum(-1, keepdim=True))
        y = torch.einsum("bteh,ehd->bted", F.gelu(torch.einsum("btd,edh->bteh", x, self.up)), self.down)
        return self.out(x + (y * route.unsqueeze(-1)).sum(2))


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 2 * c, 3, padding=1)
        self.middle, self.head = nn.Conv2d(2 * c, 4 * c, 3, padding=1), nn.Conv2d(c, 2, 1)
        self.up2, self.conv2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2), nn.Conv2d(4 * c, 2 * c, 3, padding=1)
        self.up1 = nn.ConvTranspose2d(2 * c, c, 3, stride=2, padding=1, output_padding=1)
        self.conv1 = nn.Conv2d(2 * c, c, 3, padding=1)

    def forward(self, x):
        a = F.relu(self.down1(x))
        b = F.relu(self.down2(F.max_pool2d(a, 2)))
        m = F.relu(self.middle(F.max_pool2d(b, 2)))
        b = F.relu(self.conv2(torch.cat([self.up2(m), b], 1)))
        return self.head(F.relu(self.conv1(torch.cat([self.up1(b), a], 1))))


class Decoder(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.stages = nn.ModuleList(nn.Conv2d(c if i else 3, c, 3, stride=2, padding=1) for i in range(3))
        self.project = nn.ModuleList(nn.Conv2d(c, c, 1) for _ in range(3))
        self.fuse, self.head = nn.Conv2d(3 * c, c, 1), nn.Conv2d(c, 5, 1)

    def forward(self, x):
        features = []
        for stage in self.stages:
            x = F.relu(stage(x))
            features.append(x)
        features = [F.interpolate(project(each), size=features[0].shape[2:], mode="bilinear", align_corners=False)
                    for project, each in zip(self.project, features)]
        y = F.interpolate(self.head(F.relu(self.fuse(torch.cat(features, 1)))), scale_factor=2, mode="nearest")
        return F.interpolate(y, size=(17, 23), mode="bicubic", align_corners=False)


class Windows(nn.Module):
    def __init__(self, d=16, heads=2, window=4, size=8, shift=2):
        super().__init__()
        self.heads, self.window, self.size, self.shift = heads, window, size, shift
        self.embed, self.head = nn.Conv2d(3, d, 2, stride=2), nn.Linear(d, 5)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.project = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.1)
        grid = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (grid[:, :, None] - grid[:, None]).permute(1, 2, 0) + window - 1
        self.register_buffer("places", (apart[..., 0] * (2 * window - 1) + apart[..., 1]).flatten())

    def split(self, x):
        b, h, w, c = x.shape
        return x.view(b, h // self.window, self.window, w // self.window, self.window, c).permute(
            0, 1, 3, 2, 4, 5).reshape(-1, self.window ** 2, c)

    def mask(self):
        image, count = torch.zeros(1, self.size, self.size, 1), 0
        parts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        for rows in parts:
            for columns in parts:
                image[:, rows, columns, :] = count
                count += 1
        m = self.split(image).reshape(-1, self.window ** 2)
        m = m[:, None] - m[:, :, None]
        return m.masked_fill(m != 0, -100.0).masked_fill(m == 0, 0.0)

    def forward(self, x):
        x = self.embed(x).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        n, s = self.window ** 2, self.shift
        y = self.split(torch.roll(self.norm1(x), (-s, -s), (1, 2)))
        q, k, v = self.qkv(y).reshape(-1, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1) + self.table[self.places].view(n, n, -1).permute(2, 0, 1)[None]
        a = (a.view(b, -1, self.heads, n, n) + self.mask()[None, :, None]).view(-1, self.heads, n, n).softmax(-1)
        y = self.project((a @ v).transpose(1, 2).reshape(-1, n, c))
        y = y.view(b, h // self.window, w // self.window, self.window, self.window, c).permute(0, 1, 3, 2, 4, 5)
        x = x + torch.roll(y.reshape(b, h, w, c), (s, s), (1, 2))
        return self.head((x + self.down(F.gelu(self.up(self.norm2(x))))).mean((1, 2)))


class Cache(nn.Module):
    def forward(self, cache, new, places):
        written = cache.index_put((torch.arange(2)[:, None], places), new)
        return written, cache.index_add(1, places[0], new)


PLANS = (["--devices=cpu:1"], ["--devices=cpu:2", "--mesh=dp=2"], ["--devices=cpu:2", "--mesh=tp=2"],
         ["--devices=cpu:4", "--mesh=dp=2,tp=2"], ["--devices=cpu:4", "--solver=random", "--seed=5"])
for name, model, inputs in (
        ("experts", Experts(), [torch.randn(4, 6, 16)]), ("unet", UNet(), [torch.randn(4, 3, 16, 16)]),
        ("decoder", Decoder(), [torch.randn(4, 3, 32, 48)]), ("windows", Windows(), [torch.randn(4, 3, 16, 16)]),
        ("cache", Cache(), [torch.randn(2, 7, 5), torch.randn(2, 3, 5), torch.tensor([[1, 4, 6], [0, 2, 3]])])):
    model.eval()
    results = model(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    names, outputs = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(len(results))]
    for optimized in (True, False):
        torch.onnx.export(model, tuple(inputs), OUT / f"{name}-{optimized}.onnx", dynamo=True, optimize=optimized, verbose=False,
                          input_names=names, output_names=outputs, external_data=False)
    np.savez(OUT / f"{name}.npz", **{key: value.numpy() for key, value in zip(names, inputs)})
    expected = {key: value.detach().numpy() for key, value in zip(outputs, results)}
    for optimized in (True, False):
        for plan in PLANS:
            run = kerf("run", OUT / f"{name}-{optimized}.onnx", f"--input=@{OUT}/{name}.npz", f"--output-dir={OUT}/out", *plan)
            far = run.returncode or max(abs(np.load(OUT / "out" / f"{key}.npy") - y).max() / abs(y).max() for key, y in expected.items())
            checks.expect(f"{name} {optimized} {plan}", run.returncode == 0 and far < 1e-4, f"  {far} {run.stderr}")
    weights = {key: value.detach().clone() for key, value in model.named_parameters()}
    if not weights:
        continue
    target = torch.randn_like(results[0])
    np.savez(OUT / "train.npz", x0=inputs[0].numpy(), target=target.numpy())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(model(*inputs), target).backward()
        optimizer.step()
    for plan in PLANS:
        run = kerf("train", OUT / f"{name}-False.onnx", "--loss=mse(y0,target)", "--optimizer=sgd,lr=0.5", f"--data={OUT}/train.npz",
                   "--batch-size=4", "--steps=3", "-o", OUT / "trained.onnx", "-q", *plan)
        far = 1e9
        if run.returncode == 0:
            trained = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(OUT / "trained.onnx").graph.initializer}
            far = max(abs(trained[key] - value.detach().numpy()).max() / abs((value - weights[key]).detach().numpy()).max()
                      for key, value in model.named_parameters())
        checks.expect(f"{name} trained {plan}", far < 1e-3, f"  {far} {run.stderr}")
checks.finish()
