# Flags that would do nothing are refused, sizes have units, bindings come one by one or in a list.
#
# REQUIRES: kerf, kerf-solve
# RUN: %python %s %t %inputs
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, expect_error, fresh_folder, kerf

out, models = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]) / "models"
checks = Checks()
mlp, bert = models / "mlp/model.onnx", models / "bert-small/model.onnx"

version = kerf("--version").stdout.splitlines()
checks.expect("version", version[0].startswith("kerf 0.") and version[1].startswith("LLVM 22.") and version[2].startswith("oneDNN 2.")
              and "kerf.package/1" in version[3], version)

# Sizes.
for text in ("16", "16GBit", "GiB", "-1GiB", "1 GiB"):
    expect_error(checks, f"memory limit {text!r}", ["plan", mlp, "--dim=batch=8", f"--memory-limit={text}"], 2,
                 [f"--memory-limit: '{text}' is not a size", "B, KB, MB"])
for text in ("100000B", "100KB", "0.5MiB"):
    checks.expect(f"memory limit {text}", kerf("plan", mlp, "--dim=batch=8", f"--memory-limit={text}").returncode == 0)

# Bindings.
lists = [kerf("plan", bert, *dims, "-q", "--json").stdout for dims in (["--dim", "batch=2"], ["--dim", "batch=2,batch=2"])]
checks.expect("bindings in a list", lists[0] and len(lists[0].splitlines()) == len(lists[1].splitlines()), lists)
expect_error(checks, "two sizes", ["plan", bert, "--dim=batch=2,batch=3"], 2, ['--dim: "batch" is both 2 and 3'])
expect_error(checks, "no size", ["plan", bert, "--dim=batch"], 2, ["--dim"])

# A package is compiled already.
package = out / "mlp.kerf"
result = kerf("compile", mlp, "--dim=batch=8", "--devices=cpu:2", "-o", package)
checks.expect("compiles", result.returncode == 0, result.stderr)
for flag in ("--devices=cpu:4", "--mesh=tp=2", "--dim=batch=4", "--machine=h100-8", "--dump-dir=x", "--precision=bf16", "--target-cpu=x86-64"):
    expect_error(checks, f"package and {flag}", ["run", package, flag], 2, [f"{flag.split('=')[0]}: {package} is a package, which is compiled already"])
checks.expect("package and seed", kerf("run", package, "--seed=3", "--repeat=2", "-q").returncode == 0)
expect_error(checks, "run and a phase", ["run", mlp, "--dim=batch=8", "--stop-after=plan"], 2, ["--stop-after"])

# kerf-solve has its own options alone.
shown = subprocess.run(["kerf-solve", "--help"], capture_output=True, text=True)
flags = set(re.findall(r"--[a-z]+", shown.stdout))
checks.expect("kerf-solve --help", shown.returncode == 0 and
              flags == {"--help", "--solver", "--deadline", "--seed", "--hint", "--statistics"}, sorted(flags))
for arguments in ([], ["x.json", "--solver=fast"], ["x.json", "--deadline=-1"], ["x.json", "--color"]):
    wrong = subprocess.run(["kerf-solve", *arguments], capture_output=True, text=True)
    checks.expect(f"kerf-solve {arguments}", wrong.returncode == 2 and wrong.stderr.startswith("error: "), wrong.stderr)
checks.finish()
