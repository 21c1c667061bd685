# Other compilers build against an installed Kerf: the examples of examples/embedding are built from an installed tree
# and run, stock mlir-opt takes the plugin, and what README.md and docs/Embedding.md show stands in the examples, or runs.
# installed.py has what does not need the examples. With --all (embedding-full.test) also a compiler that brings its own
# costs, whose headers take as long as those of two others.
#
# REQUIRES: kerf, kerf-opt, kerf-run
# UNSUPPORTED: sanitizer
#   (what is instrumented links only with a sanitizer)
# RUN: %python %s %t %inputs %build
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder

out, inputs, build, EVERYTHING = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], "--all" in sys.argv
root = inputs.resolve().parent.parent
examples = root / "examples" / "embedding"
checks = Checks()


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


def succeeds(what, *command, **options):
    result = run(*command, **options)
    checks.expect(what, result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:])
    return result.stdout


succeeds("install", "cmake", "--install", build, "--prefix", out / "installed")
prefix = out / "moved"
(out / "installed").rename(prefix)
succeeds("configure", "cmake", "-G", "Ninja", "-S", examples, "-B", out / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
         f"-DCMAKE_CXX_COMPILER={shutil.which('clang++-22') or 'c++'}", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0",
         *([] if EVERYTHING or not shutil.which("ld.lld-22") else ["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld"]))
succeeds("build", "cmake", "--build", out / "build", *([] if EVERYTHING else ["--target", "train-toy", "shard-linalg", "run-linalg"]))

# A dialect of two ops, sharded and trained: each of its products is cut, and both losses go down together.
printed = succeeds("train-toy", out / "build/train-toy", examples / "toy.mlir")
checks.expect("products are cut", "toy.product %arg0" in printed and "tensor<4x16xf32>, tensor<6x16xf32>" in printed, printed[:3000])
checks.expect("gradients are summed over data", 'sum ["dp"]' in printed, printed[:3000])
losses = [(float(a), float(b)) for a, b in re.findall(r"loss ([\d.]+) on four ranks, ([\d.]+) on one", printed)]
checks.expect("five steps", len(losses) == 5, printed[-500:])
checks.expect("ranks have the loss of one", all(a == b for a, b in losses), f"{losses}")
checks.expect("the loss falls", losses[-1:] < losses[:1], f"{losses}")

# linalg, from the host compiler and from stock mlir-opt: the same cut, and what Megatron sends, one sum of 8 x 16
# numbers over four devices.
(out / "mlp.mlir").write_text("""
func.func @mlp(%x: tensor<8x16xf32>, %w: tensor<16x64xf32>, %v: tensor<64x16xf32>) -> tensor<8x16xf32> {
  %a = arith.constant dense<0.0> : tensor<8x64xf32>
  %b = arith.constant dense<0.0> : tensor<8x16xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%a : tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = math.tanh %0 : tensor<8x64xf32>
  %2 = linalg.matmul ins(%1, %v : tensor<8x64xf32>, tensor<64x16xf32>) outs(%b : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
""")
hosted = succeeds("shard-linalg", out / "build/shard-linalg", out / "mlp.mlir", "tp=4")
checks.expect("a certificate", re.search(r"// sends \d+ bytes", hosted), hosted[-300:])
# Costs, a machine and a mesh of the host: rows are cut four ways, which sends nothing; a device does a quarter of the work,
# in which products count three times.
operations = 3 * 2 * (2 * 8 * 16 * 64) + 8 * 64 * 20  # and tanh's, as Kerf counts them
for speed in (1e6, 5e7) if EVERYTHING else ():
    said = re.search(r"^(\S+) seconds, (\d+) bytes$", succeeds("own-costs", out / "build/own-costs", out / "mlp.mlir", speed), re.M)
    checks.expect(f"own costs at {speed}", said and abs(float(said[1]) * 4 * speed / operations - 1) < 1e-3 and said[2] == "0", said)
plugin = prefix / "lib" / "libKerfPlugin.so"
annotated = (out / "mlp.mlir").read_text().replace(
    "%w: tensor<16x64xf32>", '%w: tensor<16x64xf32> {dist.sharding = #dist.sharding<{}, {"tp"}>}').replace(
    "func.func", 'dist.mesh @mesh ["tp"=4]\nfunc.func', 1)
(out / "annotated.mlir").write_text(annotated)
stock = succeeds("mlir-opt", shutil.which("mlir-opt") or "mlir-opt-22", f"--load-pass-plugin={plugin}", f"--load-dialect-plugin={plugin}",
                 "--pass-pipeline=builtin.module(kerf-propagate,kerf-partition,kerf-collectives)", out / "annotated.mlir")
checks.expect("columns, then rows", "tensor<16x16xf32>) outs" in stock and stock.count("dist.all_reduce") == 1, stock[:3000])

# Down to LLVM in one pipeline of stock mlir-opt.
lowered = succeeds("mlir-opt, to LLVM", shutil.which("mlir-opt") or "mlir-opt-22", f"--load-pass-plugin={plugin}",
                   f"--load-dialect-plugin={plugin}",
                   "--pass-pipeline=builtin.module(kerf-propagate,kerf-partition,kerf-collectives,kerf-call-runtime,"
                   "convert-elementwise-to-linalg,one-shot-bufferize{bufferize-function-boundaries "
                   "function-boundary-type-conversion=identity-layout-map},buffer-deallocation-pipeline,"
                   "convert-bufferization-to-memref,convert-linalg-to-loops,convert-scf-to-cf,expand-strided-metadata,"
                   "lower-affine,convert-math-to-libm,convert-to-llvm,reconcile-unrealized-casts)", out / "annotated.mlir")
checks.expect("calls of the runtime in LLVM", "llvm.call @kerf_rank_collective" in lowered and "llvm.func @_mlir_ciface_mlp" in lowered
              and "@mlp_ranks(" in lowered and not re.search(r"\b(dist|bufferization|memref)\.", lowered), lowered[:3000])

# The same annotations, propagated by Kerf and partitioned by upstream's own pass, in one run.
shard = succeeds("upstream's partition", shutil.which("mlir-opt") or "mlir-opt-22", f"--load-pass-plugin={plugin}",
                 f"--load-dialect-plugin={plugin}",
                 "--pass-pipeline=builtin.module(kerf-propagate,kerf-dist-to-shard,func.func(shard-partition))", root / "test/Bridge/upstream.mlir")
checks.expect("one all-reduce of shard", "tensor<16x16xf32>) outs" in shard and shard.count("shard.all_reduce") == 1, shard[:3000])

# A linalg model on ranks, as native code: what NumPy computes, and what the same passes compute without any cut. Parts
# of 10 columns are uneven; stages send what they hand on.
sources = [np.sin(phase + np.arange(size, dtype=np.float32)).astype(np.float32).reshape(shape) / 2
           for phase, (size, shape) in enumerate([(48, (6, 8)), (80, (8, 10)), (10, (10,)), (80, (10, 8))])]
x, w, b, v = sources
wanted = (np.tanh(x @ w + b) @ v).ravel()
for cut, least, most in ((["tp=4", "w=[{},{tp}]"], 576, 1152), (["dp=2,tp=2", "w=[{},{tp}]"], 1, 2000),
                         (["pp=2,tp=2", "w=[{},{tp}]"], 240, 2000), (["pp=2"], 192, 1000)):
    ran = run(out / "build/run-linalg", examples / "mlp.mlir", *cut)
    numbers = np.array([[float(a), float(b)] for a, b in re.findall(r"^(\S+) on ranks, (\S+) on one$", ran.stdout, re.M)])
    said = ran.stdout[-2000:] + ran.stderr[-2000:]
    checks.expect(f"run-linalg {' '.join(cut)}: numbers", ran.returncode == 0 and numbers.shape == (48, 2), said)
    if numbers.shape == (48, 2):
        checks.expect(f"run-linalg {' '.join(cut)}: on ranks", np.abs(numbers[:, 0] - wanted).max() < 2e-6, said)
        checks.expect(f"run-linalg {' '.join(cut)}: on one", np.abs(numbers[:, 1] - wanted).max() < 2e-6, said)
    sent = re.search(r"ranks sent (\d+) bytes", ran.stdout)
    checks.expect(f"run-linalg {' '.join(cut)}: bytes", sent and least <= int(sent[1]) <= most, said)
# An example is all files that it is made of; the dialect is one by itself. The page has the numbers.
lines = {path.name: len(path.read_text().splitlines()) for path in examples.iterdir() if path.suffix in (".cpp", ".h", ".td")}
dialect = sum(lines.pop(name) for name in ("Toy.td", "Toy.h", "Toy.cpp"))
checks.expect("examples are short", set(lines) == {f"{name}.cpp" for name in ("own-costs", "run-linalg", "shard-linalg", "train-toy")}
              and max(lines.values()) < 120 and dialect < 120, f"{lines}, dialect {dialect}")
said = sorted(int(number) for number in re.findall(r"\b\d+\b", re.search(
    r"With all their files the\s.*?`Toy.td`", (root / "docs/Embedding.md").read_text(), re.S)[0]))
checks.expect("their lines as docs/Embedding.md says", said == sorted([*lines.values(), dialect]), f"{said}, {lines}, dialect {dialect}")

# What is wrong is said, without an abort.
(out / "errors").mkdir()
(out / "errors/CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.25)
project(errors CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(Kerf REQUIRED COMPONENTS Embed Native)
add_executable(errors {inputs / "embedded_errors.cpp"})
target_link_libraries(errors PRIVATE KerfEmbed KerfNative)
""")
succeeds("configure the errors", "cmake", "-G", "Ninja", "-S", out / "errors", "-B", out / "errors/build", f"-DCMAKE_PREFIX_PATH={prefix}",
         f"-DCMAKE_CXX_COMPILER={shutil.which('clang++-22') or 'c++'}")
succeeds("build the errors", "cmake", "--build", out / "errors/build")
said = succeeds("errors", out / "errors/build/errors").splitlines()
for line, wanted in zip(said + [""] * 20, (
        "fine", "option mesh: 'tp', expected NAME=SIZE", "axis 'tp' has 0 devices, expected at least 1", "below 2", "devices, ", "nonesuch",
        "nonesuch.json: No such file", "there is no function @none", "there is no function @external",
        "@dynamic: type 'tensor<?xf32>', expected a tensor of static shape", "tensors: 1, expected 2", "without ranks keeps nothing",
        "without ranks keeps nothing", "5.0")):
    checks.expect(f"says {wanted}", wanted in line, f"{said}")

# The solver without MLIR, which CMake is not to find; what there is not is said.
without = ["cmake", "-G", "Ninja", "-S", root / "examples/solver", "-B", out / "solver", f"-DCMAKE_PREFIX_PATH={prefix}",
           f"-DCMAKE_CXX_COMPILER={shutil.which('clang++-22') or 'c++'}", "-DCMAKE_DISABLE_FIND_PACKAGE_MLIR=ON"]
succeeds("configure the solver", *without)
succeeds("build the solver", "cmake", "--build", out / "solver")
solved = succeeds("solve", out / "solver/solve")
checks.expect("the cheaper pair is parted", "costs 3, at least 3" in solved, solved)
checks.expect("no MLIR in it", "libMLIR" not in run("ldd", out / "solver/solve").stdout)
(out / "absent").mkdir()
(out / "absent/CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(absent CXX)\n"
                                           "find_package(Kerf REQUIRED COMPONENTS Solver Nonesuch)\n")
absent = run("cmake", "-S", out / "absent", "-B", out / "absent/build", f"-DCMAKE_PREFIX_PATH={prefix}",
             f"-DCMAKE_CXX_COMPILER={shutil.which('clang++-22') or 'c++'}")
checks.expect("a component that there is not", absent.returncode and "Nonesuch" in absent.stderr, absent.stderr)

# What the pages show is what the examples do: every block of code is compared, configured, run or parsed; `...` in a line
# of its own stands for lines that are left out.
MLIR_OPT = shutil.which("mlir-opt") or "mlir-opt-22"
PLUGINS = [f"--load-pass-plugin={plugin}", f"--load-dialect-plugin={plugin}"]
sources = {path: path.read_text() for folder in (examples, root / "examples/c-api") for path in folder.iterdir()
           if path.suffix in (".cpp", ".h", ".c")}
(out / "programs.mlir").write_text("".join(
    (out / "mlp.mlir").read_text().replace("@mlp", f"@{name}") for name in ("first", "second")))


def plain(text):
    """Code without comments, a space between words."""
    return " ".join(re.sub(r"\s//.*|\s#.*", "", "\n" + text).split())


def shows(source, block):
    at = 0
    for part in re.split(r"^\.\.\.$", block, flags=re.M):
        at = source.find(plain(part), at)
        if at < 0:
            return False
        at += len(plain(part))
    return True


def holds(language, block, number):
    if language in ("cpp", "c"):
        return any(shows(plain(text), block) for text in sources.values())
    if language == "cmake":  # configured as it stands, with a program to link
        project = out / f"cmake-{number}"
        project.mkdir()
        if "add_executable" not in block:
            block = block.replace("target_link", f"add_executable(my-compiler {examples / 'shard-linalg.cpp'})\ntarget_link", 1)
        language = "C" if "COMPONENTS C)" in block else "CXX"
        (project / "plan.c").write_text("int main(void) { return 0; }\n")
        (project / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(shown LANGUAGES {language})\n{block}")
        return run("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
                   f"-DCMAKE_CXX_COMPILER={shutil.which('clang++-22') or 'c++'}").returncode == 0
    if language == "bash":
        command = block.replace("mlir-opt-22", MLIR_OPT).replace("FILE.mlir", str(out / "mlp.mlir"))
        ran = run("bash", "-c", command, cwd=prefix)
        return ran.returncode == 0 and "dist.schedule" in ran.stdout
    if language == "text":  # a pipeline
        ran = run(MLIR_OPT, *PLUGINS, "--pass-pipeline=" + re.sub(r"\n *", "", block), out / "programs.mlir")
        return ran.returncode == 0 and "@first_ranks(" in ran.stdout and "@second_ranks(" in ran.stdout
    if language == "mlir":  # of a function, which names its operands
        (out / "shown.mlir").write_text("func.func @f(%gradient: tensor<5x7xf64>, %rate: tensor<5x7xf64>) {\n" + block + "return\n}\n")
        return run(MLIR_OPT, *PLUGINS, out / "shown.mlir").returncode == 0
    if language in ("sh", "console"):
        return page == "README.md"  # test/Docs/first-pages.py runs them
    return not language and "──>" in block  # a drawing


ten_lines = []
for page in ("README.md", "docs/Embedding.md"):
    blocks = re.findall(r"^ *```(\S*)\n(.*?)^ *```$", (root / page).read_text(), re.M | re.S)
    for number, (language, block) in enumerate(blocks):
        checks.expect(f"{page}: a block of {language or 'what is not said'}: {block.splitlines()[0].strip()}",
                      holds(language, block, f"{page[:4]}{number}"), block)
    ten_lines += [block for language, block in blocks if language == "cpp"][:1]
checks.expect("ten lines of C++, of which none is left out", len(ten_lines[0].splitlines()) == 10 and "..." not in ten_lines[0], ten_lines[0])
checks.finish()
