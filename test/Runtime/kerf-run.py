# kerf-run on a package made here: what it prints and writes, and cases 12 and
# 19 to 21 of the promises: message, exit code, time, nothing written. The
# program is C, so the runtime is tested without the compiler.
#
# REQUIRES: kerf-run
# RUN: %python %s %t %inputs
import json
import sys
import time

sys.path.insert(0, sys.argv[2])
import numpy as np

from c_package import CPackages
from kerf_tests import Checks, expect_error, fresh_folder, kerf

OUT = fresh_folder(sys.argv[1])

# y = the sum over two ranks of 2 x; a negative element is an index out of range.
PROGRAM = """
#include <kerf/rt/program.h>
static void kernel(void *const *b, const int64_t *s, int64_t begin, int64_t end) {
  const kerf_program_api *api = b[2];
  for (int64_t i = begin; i < end; ++i) {
    float x = ((const float *)b[0])[i];
    if (x < 0) { api->fail(b[3], KERF_FAIL_INDEX_OUT_OF_RANGE, "/embed/Gather", (int64_t)x); return; }
    ((float *)b[1])[i] = 2 * x;
  }
}
int32_t step(const kerf_program_api *api, kerf_program_context *ctx, void *const *params,
             void *const *ios, void *scratch) {
  void *b[] = {ios[0], scratch, (void *)api, ctx};
  int32_t s = api->launch(ctx, 0, kernel, b, 4, 0, 4, 1);
  if (!s) s = api->collective(ctx, 0, scratch, ios[1]);
  if (!s) s = api->collective(ctx, 1, ios[1], ios[1]);
  return s;
}
"""
BUFFERS = {"dtype": "f32", "axes": [{"axis": "tp"}], "src_shape": [4], "dst_shape": [4]}
COLLECTIVE = dict(BUFFERS, kind="all_reduce", reduction="sum", group_bytes=32, node="/fc1/Gemm")
MANIFEST = {
    "mesh": {"axes": [{"name": "tp", "size": 2}]},
    "inputs": [{"name": "x", "dtype": "f32", "global_shape": [8], "sharding": [[{"axis": "tp"}]]}],
    "outputs": [{"name": "out/y", "dtype": "f32", "global_shape": [4], "sharding": [[]]}],
    "kernels": [{"name": "double", "node": "/embed/Gather"}],
    "collectives": [COLLECTIVE, dict(BUFFERS, kind="broadcast", root=0, group_bytes=16, node="/fc2/Gemm")],
    "functions": [{"symbol": "step", "scratch_bytes": 16, "num_arguments": 1,
                   "ios": [{"dtype": "f32", "shape": [4]}, {"dtype": "f32", "shape": [4]}]}],
}
package = CPackages(OUT, PROGRAM, MANIFEST)


def npy(name, *values, dtype=np.float32):
    np.save(OUT / name, np.array(values, dtype))
    return f"--input=x=@{OUT / name}"


checks = Checks()
good = package("good.kerf")
x = npy("x.npy", *range(8))
RUN = ["--skip-hashes", "--threads=1"]

# A run: outputs, statistics and trace, all written.
result = kerf(good, x, *RUN, f"--output-dir={OUT / 'out'}", f"--stats={OUT / 'run.json'}",
              f"--trace={OUT / 'trace.json'}", "--repeat=3", tool="kerf-run")
checks.expect("runs", result.returncode == 0 and result.stdout.startswith("out/y: f32 4, min 8, max 20, mean 14\n3 steps: median ")
              and result.stdout.count("\n") == 2,
              result.stdout + result.stderr)
if result.returncode == 0:
    y = np.load(OUT / "out/out_y.npy")
    checks.expect("output", y.tolist() == [8, 12, 16, 20], str(y))
    stats = json.loads((OUT / "run.json").read_text())
    communication = stats["communication"]
    checks.expect("statistics", stats["schema"] == "kerf.run/1" and stats["repeat"] == 3
                  and communication["bytes_per_rank"] == communication["planned_bytes_per_rank"] == 32
                  and communication["total_bytes"] == 48, json.dumps(communication))
    names = {event["name"] for event in json.loads((OUT / "trace.json").read_text())["traceEvents"]}
    checks.expect("trace", {"step", "double", "input x", "all_reduce /fc1/Gemm"} <= names, str(names))
    checks.expect("nothing is left beside", not list(OUT.rglob("*.tmp*")))

# Results on stdout alone; the seed decides.
same = [kerf(good, f"--seed={seed}", *RUN, tool="kerf-run").stdout for seed in (1, 1, 2)]
# Random floats may be negative: then both runs fail alike.
checks.expect("the seed decides", same[0] == same[1])
result = kerf(good, x, *RUN, "--json", tool="kerf-run")
checks.expect("--json", result.stderr == "" and json.loads(result.stdout)["devices"] == 2, result.stderr)


def refused(name, arguments, code, *patterns):
    out, stats = OUT / f"{name}.out", OUT / f"{name}.json"
    expect_error(checks, name, [*arguments, f"--output-dir={out}", f"--stats={stats}"], code, patterns,
                 tool="kerf-run", absent=[out, stats])


# Wrong use: exit 2.
refused("no-package", [], 2, "package")
refused("unknown-flag", [good, "--burn"], 2, "burn")
refused("no-input", [good, *RUN], 2, r'input "x" \(f32 \[8\]\) is missing.*--seed')
refused("unknown-input", [good, *RUN, "--input=z=1"], 2, r'no input "z", there are: x')
refused("twice", [good, *RUN, "--input=x=1", "--input=x=2"], 2, r'"x" is given twice')
refused("no-file", [good, *RUN, "--input=x=@/nonexistent.npy"], 2, "cannot open")
refused("shape", [good, *RUN, npy("short.npy", 1, 2)], 2, r'is f32 \[2\], input "x" expects f32 \[8\]')
refused("type", [good, *RUN, npy("ints.npy", *range(8), dtype=np.int64)], 2, r"is i64 \[8\], .* f32 \[8\]")
refused("bad-number", [good, *RUN, "--input=x=abc"], 2, "neither")
refused("bad-inject", [good, *RUN, x, "--inject=rank=1,fault=burn"], 2, "die|hang|skip")

# Packages of another version: exit 2, and what one can do.
refused("schema", [package("schema.kerf", schema="kerf.package/9"), x, *RUN], 2,
        'manifest.json: schema: is "kerf.package/9", newer than "kerf.package/1".*: compile the model again')
refused("abi", [package("abi.kerf", abi=99), x, *RUN], 2, "manifest.json: abi: is 99, newer than 3.*: compile the model again")

# What is not there: exit 2, the package or a file of it.
refused("missing", [OUT / "missing.kerf"], 2, "missing.kerf: cannot open: No such file")
for file in ("program.so", "manifest.json"):
    (package(f"no-{file}.kerf") / file).unlink()
    refused(f"no {file}", [OUT / f"no-{file}.kerf", x, *RUN], 2, rf"{file}\.kerf: {file}: cannot open: No such file")

# Damaged packages: exit 3.
refused("hash", [good, x], 3, "program.so: has hash .*, the manifest says 0000")
refused("key", [package("key.kerf", weihgts="w"), x, *RUN], 3, 'unknown key "weihgts"')
(package("cut.kerf") / "manifest.json").write_text('{"schema": "kerf.pack')
refused("cut", [OUT / "cut.kerf", x, *RUN], 3, r"manifest.json: is not valid JSON at byte \d+\n")
(package("half.kerf") / "program.so").write_bytes(b"half")
refused("half", [OUT / "half.kerf", x, *RUN], 3, r"half\.kerf: program\.so: has 4 bytes, the manifest says \d+")
refused("target", [package("target.kerf", target={"cpu": "bdver4", "features": ["xop", "tbm", "sse2"]}), x, *RUN],
        5, "compiled for bdver4, this CPU lacks: xop tbm")

# 12: the model's own error, at its node.
refused("12-index", [good, *RUN, npy("negative.npy", 0, 1, 2, 3, 4, 5, -6, 7)], 5,
        r"good.kerf:/embed/Gather: index -6 is out of range on rank 1")

# 19, 20: a rank dies, a rank hangs: over within T + 5 s, rank, operation and node named, with the table.
for fault in ("die", "hang"):
    start = time.monotonic()
    refused(f"19-20-{fault}", [good, x, *RUN, "--timeout=1", f"--inject=rank=1,collective=1,fault={fault}"], 5,
            r"good.kerf:/fc2/Gemm: rank 1 did not arrive at broadcast f32 4 at /fc2/Gemm \(#1\) within 1 s",
            r"note: rank 0: 2 collectives begun, last broadcast .*waiting in it",
            r"note: rank 1: 1 collectives begun, last all_reduce<sum> f32 4 at /fc1/Gemm \(#0\)")
    took = time.monotonic() - start
    checks.expect(f"{fault} ends in time", took < 1 + 30, f"took {took:.1f} s")

# 21: ranks disagree on the operation: all see it, before data is used.
refused("21-skip", [good, x, *RUN, "--inject=rank=0,collective=0,fault=skip"], 5,
        r"ranks disagree on collective 0 of their group: rank 0 runs broadcast .*, rank 1 runs all_reduce<sum>")

# Counted bytes are planned bytes.
bytes_off = [dict(COLLECTIVE, group_bytes=31), MANIFEST["collectives"][1]]
refused("bytes", [package("bytes.kerf", collectives=bytes_off), x, *RUN], 5,
        r"counted bytes of all_reduce<sum> f32 4 at /fc1/Gemm \(#0\) are 32, planned are 31 in 1 calls")

# --ranks as `kerf run` has it.
for word in ("threads", "processes", "auto"):
    result = kerf(good, x, *RUN, f"--ranks={word}", tool="kerf-run")
    checks.expect(f"--ranks={word}", result.returncode == 0, result.stderr)
refused("--ranks", [good, x, *RUN, "--ranks=strings"], 2, "--ranks")

# What cannot be written is an error, and what could is not there.
result = kerf(good, x, *RUN, f"--stats={OUT / 'nowhere/run.json'}", f"--trace={OUT / 't.json'}", tool="kerf-run")
checks.expect("unwritable", result.returncode == 2 and "nowhere/run.json: cannot write" in result.stderr
              and not (OUT / "t.json").exists(), result.stderr)
checks.finish()
