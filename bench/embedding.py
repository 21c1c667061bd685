#!/usr/bin/env python3
"""bench/embedding.py [--ops 10000] [--repeat 3] [--kerf-opt build/bin/kerf-opt] [--growth G] [--json FILE]

What Kerf's passes cost on modules of other compilers. A net of layers, each a product with a weight of its own, a tanh, a
residual sum and a scaling, is written as linalg, math and arith, and once more in nn. Of the first: microseconds for each op
that kerf-propagate (from one annotation) and kerf-partition take, at a tenth of --ops and at --ops, so that growth shows, and
what MLIR's verifier takes behind each of their passes, which a host may leave out (PassManager::enableVerifier). Of both, at
a tenth and at four tenths of --ops: seconds of kerf-plan on four devices, and their ratio. Of passes it is seconds of the
clock as --mlir-timing has them, of plans seconds of the processor, less what parsing takes (other work on the machine counts
less); the least of --repeat runs; sizes, and linalg and nn, alternate.

--growth: only whether both passes take more than G times as long on one module of --ops as on ten of a tenth, which is an
error; seconds of the processor, less what parsing takes, so that other work on the machine counts less.
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
N = 64
T = f"tensor<{N}x{N}xf32>"


def module(ops, dialect, annotated):
    layers = ops // 4
    first = ' {kerf.name = "w0", dist.sharding = #dist.sharding<{}, {"tp"}>}' if annotated else ' {kerf.name = "w0"}'
    arguments = [f'%x: {T} {{kerf.name = "x"}}'] + [f'%w{i}: {T}' + (first if i == 0 else f' {{kerf.name = "w{i}"}}')
                                                    for i in range(layers)]
    lines = ['dist.mesh @mesh ["tp"=4]'] if annotated else []
    lines += [f"func.func @main({', '.join(arguments)}) -> {T} {{", f"  %s = arith.constant dense<0.5> : {T}" if dialect == "linalg"
              else f"  %s = nn.constant dense<0.5> : {T}"]
    if dialect == "linalg":
        lines.append(f"  %zero = arith.constant dense<0.0> : {T}")
    last = "%x"
    for i in range(layers):
        if dialect == "linalg":
            lines += [f"  %p{i} = linalg.matmul ins({last}, %w{i} : {T}, {T}) outs(%zero : {T}) -> {T}",
                      f"  %t{i} = math.tanh %p{i} : {T}", f"  %a{i} = arith.addf %t{i}, {last} : {T}",
                      f"  %y{i} = arith.mulf %a{i}, %s : {T}"]
        else:
            lines += [f"  %p{i} = nn.matmul {last}, %w{i} : ({T}, {T}) -> {T}", f"  %t{i} = nn.tanh %p{i} : {T}",
                      f"  %a{i} = nn.add %t{i}, {last} : {T}", f"  %y{i} = nn.mul %a{i}, %s : {T}"]
        last = f"%y{i}"
    return "\n".join([*lines, f"  return {last} : {T}", "}"]) + "\n"


def seconds(kerf_opt, text, pipeline, passes, verify=True):
    """Of these passes, by name, from --mlir-timing."""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        run = subprocess.run([kerf_opt, file.name, f"--pass-pipeline={pipeline}", "--mlir-timing", "--mlir-disable-threading",
                              "--mlir-timing-display=list", f"--verify-each={int(verify)}", "-o", "/dev/null"], capture_output=True, text=True, check=True)
    found = re.findall(r"^\s*(?:[0-9.]+ \([^)]*\)\s+)?([0-9.]+) \([^)]*\)\s+(\S+)", run.stderr, re.M)
    times = {}
    for value, name in found:
        times[name] = times.get(name, 0) + float(value)
    missing = [each for each in passes if each not in times]
    if missing:
        raise SystemExit(f"no time of {missing} in\n{run.stderr}")
    return sum(times[each] for each in passes), times


def time_passes(kerf_opt, sizes, repeat):
    """Of each size: microseconds for each op of kerf-propagate, of kerf-partition, and of the verifier behind their passes."""
    texts, runs = {ops: module(ops, "linalg", annotated=True) for ops in sizes}, {ops: [] for ops in sizes}
    for _ in range(repeat):
        for ops, text in texts.items():
            measured = []
            for verify in (False, True):
                _, times = seconds(kerf_opt, text, "builtin.module(kerf-propagate,kerf-partition)", ["Propagate"], verify)
                measured.append((times["Propagate"], sum(
                    value for name, value in times.items()
                    if name not in ("Propagate", "Parser", "Output", "root", "Rest", "Total", "Pipeline"))))
            (propagate, partition), verified = measured
            runs[ops].append((propagate, partition, sum(verified) - propagate - partition))
    return {ops: [1e6 * min(each) / ops for each in zip(*rows)] for ops, rows in runs.items()}


def processor_seconds(kerf_opt, text, pipeline):
    """Of a whole process."""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        process = subprocess.Popen([kerf_opt, file.name, "--split-input-file", f"--pass-pipeline=builtin.module({pipeline})",
                                    "--mlir-disable-threading", "--verify-each=0", "-o", "/dev/null"])
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"kerf-opt of {pipeline} failed")
        return usage.ru_utime + usage.ru_stime


def check_growth(kerf_opt, ops, repeat, most):
    """An error where the passes take more than `most` times as long on one module as on ten of a tenth."""
    texts = {ops // 10: "// -----\n".join([module(ops // 10, "linalg", annotated=True)] * 10),
             ops: module(ops, "linalg", annotated=True)}
    pipelines = ("", "kerf-propagate", "kerf-propagate,kerf-partition")
    runs = {key: [] for key in itertools.product(texts, pipelines)}
    for _ in range(repeat):
        for (size, pipeline), each in runs.items():
            each.append(processor_seconds(kerf_opt, texts[size], pipeline))
    least, both = {key: 1e6 * min(each) / ops for key, each in runs.items()}, []
    for size in texts:
        parsed, propagated, partitioned = (least[size, pipeline] for pipeline in pipelines)
        both.append(partitioned - parsed)
        print(f"{size:6} ops: kerf-propagate {propagated - parsed:.1f} us, kerf-partition {partitioned - propagated:.1f} us "
              "of the processor for each op")
    if both[1] > most * both[0]:
        raise SystemExit(f"{both[1] / both[0]:.2f} times as much, expected at most {most}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=10000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--kerf-opt", default=ROOT / "build/bin/kerf-opt")
    parser.add_argument("--growth", type=float)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    small = options.ops // 10
    if options.growth:
        return check_growth(options.kerf_opt, options.ops, options.repeat, options.growth)
    result = {"ops": options.ops, "passes": [], "plan": []}
    times = time_passes(options.kerf_opt, (small, options.ops), options.repeat)
    for ops, (propagate, partition, verifier) in times.items():
        result["passes"].append({"ops": ops, "propagate_us_per_op": propagate, "partition_us_per_op": partition,
                                 "verifier_us_per_op": verifier})
        print(f"{ops:6} ops: kerf-propagate {propagate:.1f} us, kerf-partition {partition:.1f} us, the verifier behind their "
              f"passes {verifier:.1f} us for each op", flush=True)
    for ops in (small, 4 * small):
        runs = {key: [] for key in itertools.product(("linalg", "nn"), ("", "kerf-plan{devices=4}"))}
        for _ in range(options.repeat):
            for (dialect, pipeline), each in runs.items():
                each.append(processor_seconds(options.kerf_opt, module(ops, dialect, False), pipeline))
        linalg, nn = (min(runs[dialect, "kerf-plan{devices=4}"]) - min(runs[dialect, ""]) for dialect in ("linalg", "nn"))
        result["plan"].append({"ops": ops, "linalg_seconds": linalg, "nn_seconds": nn, "ratio": linalg / nn})
        print(f"{ops:6} ops: kerf-plan {linalg:.2f} s as linalg, {nn:.2f} s as nn: {linalg / nn:.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
