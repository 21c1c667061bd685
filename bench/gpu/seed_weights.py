#!/usr/bin/env python3
"""seed_weights.py PACKAGE ... [--seed S]

Takes the stored weights out of packages: every floating-point parameter gets a
seed and the mean and deviation of what was stored (docs/Package.md), so a package
of GPT-2 travels in a few MB, and every device draws the same numbers. Tensors of
integers stay. Apply it to the package for the CPU, too: both then agree.
"""
import argparse
import json
import pathlib
import struct

import numpy as np

FLOATS = {"F32": np.float32, "F64": np.float64, "F16": np.float16}


def values_of(data, dtype):
    if dtype == "BF16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, FLOATS[dtype])


def seed_package(folder, seed):
    manifest = json.loads((folder / "manifest.json").read_text())
    if "weights" not in manifest:
        return
    file = folder / manifest["weights"]
    content = file.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    data = memoryview(content)[8 + length:]
    header.pop("__metadata__", None)
    kept = set()
    for parameter in manifest["parameters"]:
        name = parameter.get("tensor")
        if name is None:
            continue
        entry = header[name]
        if entry["dtype"] not in FLOATS and entry["dtype"] != "BF16":
            kept.add(name)
            continue
        begin, end = entry["data_offsets"]
        values = values_of(data[begin:end], entry["dtype"]).astype(np.float64)
        finite = values[np.isfinite(values)]
        del parameter["tensor"]
        parameter.update(seed=seed, stored=name, stored_shape=entry["shape"], distribution="normal",
                         mean=float(finite.mean()) if finite.size else 0.0,
                         std=float(finite.std()) if finite.size else 0.0)
    manifest["files"] = [f for f in manifest["files"] if f["path"] != manifest["weights"]]
    if kept:
        import xxhash
        new, parts, at = {}, [], 0
        for name in sorted(kept):
            begin, end = header[name]["data_offsets"]
            part = bytes(data[begin:end])
            new[name] = dict(header[name], data_offsets=[at, at + len(part)])
            part += b"\0" * (-len(part) % 64)
            parts.append(part)
            at += len(part)
        text = json.dumps(new).encode()
        text += b" " * (-(8 + len(text)) % 64)
        small = struct.pack("<Q", len(text)) + text + b"".join(parts)
        file.write_bytes(small)
        manifest["files"].append({"path": manifest["weights"], "bytes": len(small),
                                  "xxh3": xxhash.xxh3_64_hexdigest(small)})
    else:
        file.unlink()
        del manifest["weights"]
    (folder / "manifest.json").write_text(json.dumps(manifest))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for package in arguments.packages:
        seed_package(package, arguments.seed)


if __name__ == "__main__":
    main()
