#!/usr/bin/env python3
"""bench/embedding.py [--ops 10000] [--repeat 3] [--kerf-opt build/bin/kerf-opt] [--json FILE]

What Kerf's passes cost on modules of other compilers. A net of layers, each a product with a weight of its own, a tanh, a
residual sum and a scaling, is written as linalg, math and arith, and once more in nn. Of the first: microseconds for each op
that kerf-propagate (from one annotation) and kerf-partition take, at a tenth of --ops and at --ops, so that growth shows, and
what MLIR's verifier takes behind each of their passes, which a host may leave out (PassManager::enableVerifier). Of both: seconds of kerf-plan on four devices, and their ratio. Seconds of the clock as --mlir-timing has them, the least of
--repeat runs; linalg and nn alternate.
"""
import argparse
import json
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, default=10000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--kerf-opt", default=ROOT / "build/bin/kerf-opt")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    result = {"ops": options.ops, "passes": [], "plan": {}}
    for ops in (options.ops // 10, options.ops):
        text = module(ops, "linalg", annotated=True)
        runs = []
        for _ in range(options.repeat):
            measured = []
            for verify in (False, True):
                _, times = seconds(options.kerf_opt, text, "builtin.module(kerf-propagate,kerf-partition)", ["Propagate"], verify)
                measured.append((times["Propagate"], sum(
                    value for name, value in times.items()
                    if name not in ("Propagate", "Parser", "Output", "root", "Rest", "Total", "Pipeline"))))
            (propagate, partition), verified = measured
            runs.append((propagate, partition, sum(verified) - propagate - partition))
        propagate, partition, verifier = (1e6 * min(each) / ops for each in zip(*runs))
        row = {"ops": ops, "propagate_us_per_op": propagate, "partition_us_per_op": partition, "verifier_us_per_op": verifier}
        result["passes"].append(row)
        print(f"{ops:6} ops: kerf-propagate {propagate:.1f} us, kerf-partition {partition:.1f} us, the verifier behind their "
              f"passes {verifier:.1f} us for each op", flush=True)
    times = {"linalg": [], "nn": []}
    plan = "builtin.module(kerf-plan{devices=4})"
    for _ in range(options.repeat):
        for dialect in times:
            times[dialect].append(seconds(options.kerf_opt, module(options.ops // 10, dialect, False), plan, ["PlanPass"])[0])
    least = {dialect: min(each) for dialect, each in times.items()}
    result["plan"] = {"ops": options.ops // 10, **{f"{dialect}_seconds": value for dialect, value in least.items()},
                      "ratio": least["linalg"] / least["nn"]}
    print(f"{options.ops // 10:6} ops: kerf-plan {least['linalg']:.2f} s as linalg, {least['nn']:.2f} s as nn: "
          f"{result['plan']['ratio']:.2f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
