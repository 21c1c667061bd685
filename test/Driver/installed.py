# What an installed Kerf has besides the examples of embedding.py: headers, which keep what they say within a MINOR
# (docs/Compatibility.md), and the C API, which a program in C finds by CMake, links and runs. With --all
# (installed-full.test) headers are included in both orders, and the program of this MINOR is compiled by itself.
#
# REQUIRES: kerf, kerf-opt, kerf-run
# UNSUPPORTED: sanitizer
#   (what is instrumented links only with a sanitizer)
# RUN: %python %s %t %inputs %build
import json
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder

out, inputs, build = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
root = inputs.resolve().parent.parent
examples = root / "examples"
cc, cxx = shutil.which("clang-22") or "cc", shutil.which("clang++-22") or "c++"
checks = Checks()


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)


def succeeds(what, *command, **options):
    result = run(*command, **options)
    checks.expect(what, result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:])
    return result.stdout


def fails(what, wanted, *command):
    result = run(*command)
    checks.expect(what, result.returncode > 0 and wanted in result.stderr, result.stdout[-1000:] + result.stderr[-3000:])


succeeds("install", "cmake", "--install", build, "--prefix", out / "installed")
prefix = out / "moved"
(out / "installed").rename(prefix)
include = prefix / "include"
llvm = re.search(r"^LLVM_DIR:\w+=(.*)/lib/cmake/llvm$", (build / "CMakeCache.txt").read_text(), re.M)[1]
includes = [f"-I{include}", f"-isystem{llvm}/include"]
empty = [str(path) for path in prefix.rglob("*") if path.is_dir() and not any(path.iterdir())]
checks.expect("no folder is empty", not empty, f"{empty}")

# Headers: those of the list, and no others; they can be included in either order; what is documented has
# the types that a program of this MINOR was compiled against.
version = re.search(r"project\(kerf VERSION (\d+\.\d+)", (root / "CMakeLists.txt").read_text())[1]
promised = root / "test/Compatibility" / version
listed = (promised / "headers.txt").read_text().split()
headers = sorted(str(path.relative_to(include)) for path in include.rglob("*") if path.is_file())
checks.expect("no header is gone", not set(listed) - set(headers), sorted(set(listed) - set(headers)))
checks.expect("a new header stands in the list", not set(headers) - set(listed), sorted(set(headers) - set(listed)))
(out / "all.cpp").write_text("".join(f"#include <{header}>\n" for header in headers if header.endswith(".h")))
(out / "all-backwards.cpp").write_text("".join(f"#include <{header}>\n" for header in reversed(headers) if header.endswith(".h")))
(out / "all-and-promised.cpp").write_text(f'#include "{out / "all.cpp"}"\n#include "{promised / "headers.cpp"}"\n')
for source in ((out / "all.cpp", out / "all-backwards.cpp", promised / "headers.cpp") if "--all" in sys.argv else
               (out / "all-and-promised.cpp",)):
    succeeds(f"{source.name} compiles", cxx, "-std=c++17", "-fsyntax-only", "-Wall", "-Wno-unused-parameter",
             "-Wno-unused-const-variable", "-Werror", *includes, source)

# A program in C, in a project of C alone, links libKerfC.so and none of Kerf's archives. It plans, and takes the plan of
# one run back in the next.
c_api = out / "c-api"
succeeds("configure in C", "cmake", "-G", "Ninja", "-S", examples / "c-api", "-B", c_api, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_COMPILER={cc}")
languages = re.findall(r"^CMAKE_(\w+)_COMPILER:", (c_api / "CMakeCache.txt").read_text(), re.M)
checks.expect("no compiler of C++", languages == ["C"], languages)
built = succeeds("build in C", "cmake", "--build", c_api, "--verbose")
checks.expect("one library", set(re.findall(r"\bl?Kerf\w+\b", " ".join(built.split("Linking")[1:]))) <= {"KerfC"}
              and not re.search(r"libKerf\w*\.a|lMLIR|libMLIR", built), built[-2000:])
mlp = examples / "embedding/mlp.mlir"
for cut in ("pp=2,tp=2", "tp=4"):
    planned = succeeds(f"plan.c {cut}", c_api / "plan", mlp, "4", cut)
    document, end = json.JSONDecoder().raw_decode(planned)
    checks.expect(f"plan.json of {cut}", document["schema"] == "kerf.plan/1" and document["mesh"]["tp"] == int(cut[-1]), planned[:500])
    checks.expect(f"local shapes of {cut}", "dist.schedule" in planned[end:], planned[end:][:2000])
    (out / "plan.json").write_text(json.dumps(document))
    applied = succeeds(f"plan.c applies the plan of {cut}", c_api / "plan", mlp, out / "plan.json")
    checks.expect(f"the same module for {cut}", applied == planned[end:].lstrip("\n"), applied[:2000])
for what, change, wanted in (("misspelt", {"values_": []}, 'unknown key "values_"'), ("of another version", {"schema": "kerf.plan/2"}, "newer than"),
                             ("of an empty mesh", {"mesh": {}}, "mesh: no size"), ("without values", {"values": []}, "values: input"),
                             ("of too many devices", {"mesh": {"tp": 1 << 40}, "mesh_axes": ["tp"]}, "plan: mesh: 1099511627776 devices")):
    (out / "wrong.json").write_text(json.dumps({**document, **change}))
    fails(f"a plan {what}", wanted, c_api / "plan", mlp, out / "wrong.json")
(out / "wrong.json").write_text("{")
fails("a plan that is no JSON", "error: plan: ", c_api / "plan", mlp, out / "wrong.json")
(out / "meshed.mlir").write_text('dist.mesh @mesh ["tp"=4]\n' + mlp.read_text())
fails("a module with a mesh", "has a mesh already", c_api / "plan", out / "meshed.mlir", out / "plan.json")

# Branches over tensors are a part of what is planned.
(out / "branch.mlir").write_text("""
func.func @branch(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %flag: tensor<i1>) -> tensor<8x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<8x16xf32>
  %positive = tensor.extract %flag[] : tensor<i1>
  %0 = scf.if %positive -> tensor<8x16xf32> {
    %1 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x16xf32>) outs(%zero : tensor<8x16xf32>) -> tensor<8x16xf32>
    scf.yield %1 : tensor<8x16xf32>
  } else {
    scf.yield %x : tensor<8x16xf32>
  }
  return %0 : tensor<8x16xf32>
}
""")
branch = succeeds("scf through the C API", c_api / "plan", out / "branch.mlir", "2", "dp=2")
checks.expect("a branch", "scf.if" in branch and "dist.schedule" in branch, branch[-2000:])

# Version 1: what it exports, the types of that, and all of it called once.
exported = run("nm", "-D", "--defined-only", prefix / "lib/libKerfC.so").stdout
functions = sorted(line.split()[-1] for line in exported.splitlines() if re.search(r" T kerf\w+$", line))
typed = (inputs / "c_api_1.c").read_text()
checks.expect("version 1 of the C API", functions == sorted(re.findall(r"= (kerf\w+);", typed)), f"{functions}")
succeeds("types of version 1", cc, "-std=c11", "-Wall", "-Wextra", "-Werror", *includes, inputs / "c_api_1.c", "-o", out / "c_api_1",
         f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}", f"-Wl,-rpath-link,{llvm}/lib", "-lKerfC")
(out / "annotated.mlir").write_text("""dist.mesh @mesh ["tp"=4]
func.func @mlp(%x: tensor<8x16xf32>, %w: tensor<16x64xf32> {dist.sharding = #dist.sharding<{}, {"tp"}>}, %v: tensor<64x16xf32>) -> tensor<8x16xf32> {
  %a = arith.constant dense<0.0> : tensor<8x64xf32>
  %b = arith.constant dense<0.0> : tensor<8x16xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x64xf32>) outs(%a : tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = math.tanh %0 : tensor<8x64xf32>
  %2 = linalg.matmul ins(%1, %v : tensor<8x64xf32>, tensor<64x16xf32>) outs(%b : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}
""")
shown = dict(re.findall(r"^// (.*)\n((?:(?!// ).*\n)*)", succeeds("version 1 runs", out / "c_api_1", out / "annotated.mlir"), re.M))
for step, has, lacks in (("dist-to-shard", "shard.grid", "dist.mesh"), ("shard-to-dist", "dist.mesh", "shard.grid"),
                         ("collectives", "dist.all_reduce", "shard."), ("call-runtime", "@kerf_rank_collective", "dist.all_reduce")):
    text = shown.get(step, "")
    checks.expect(f"version 1: {step}", has in text and lacks not in text, text[:3000])

# By name from Python.
listed = run(sys.executable, examples / "embedding/plan.py", prefix / "lib/libKerfC.so", mlp, "4", "tp=4")
checks.expect("plan.py", listed.returncode == 0 and "'tp': 4" in listed.stdout and "dist.schedule" in listed.stdout,
              listed.stdout[:2000] + listed.stderr[-2000:])

# The plugin has a target, too, whose path a build of others gives to mlir-opt.
(out / "plugin").mkdir()
(out / "plugin/CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.25)
project(plugin LANGUAGES C)
find_package(Kerf REQUIRED COMPONENTS Plugin)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/path CONTENT $<TARGET_FILE:KerfPlugin>)
""")
succeeds("KerfPlugin is a target", "cmake", "-G", "Ninja", "-S", out / "plugin", "-B", out / "plugin/build", f"-DCMAKE_PREFIX_PATH={prefix}",
         f"-DCMAKE_C_COMPILER={cc}")
path = out / "plugin/build/path"
checks.expect("the plugin's path", path.exists() and path.read_text() == str(prefix / "lib/libKerfPlugin.so"))
checks.finish()
