# The lit suite of Kerf. Features: gpu, nccl, mpi, asserts, torch, onnxscript, chromium, one for each tool that
# is built (`REQUIRES: kerf-opt`), sanitizer, and `full` (lit -Dfull=1, what
# ./check --full sets). Substitutions: %python, %build, %inputs (test/Inputs), %models
# (its models), %light (ONNX's models with outputs), %cache (large generated files, kept), %chromium.
import os
import re
import shutil
import subprocess

import lit.formats

config.name = "Kerf"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test", ".py"]
config.excludes = ["Inputs", "lit.cfg.py", "lit.site.cfg.py"]
config.test_source_root = os.path.dirname(__file__)

bin_dir = os.path.join(config.kerf_build_dir, "bin")
config.environment["PATH"] = os.pathsep.join(
    [bin_dir, config.llvm_tools_dir, os.environ.get("PATH", "")])
config.environment["FILECHECK_OPTS"] = "-enable-var-scope --allow-unused-prefixes=false"
# Ranks are threads of one process; a library's own threads come from --threads.
config.environment["OMP_WAIT_POLICY"] = "passive"
config.environment["NO_COLOR"] = "1"
# Projects that tests configure are built with what builds this one: a fresh machine has no make and no cc.
config.environment["CMAKE_GENERATOR"] = "Ninja"
for variable, compiler in (("CC", "clang-22"), ("CXX", "clang++-22")):
    if shutil.which(compiler):
        config.environment[variable] = compiler
# Plans of `kerf run` are those of the preset, not of what the host at hand measures.
config.environment["KERF_HOST_MACHINE"] = "cpu"
# Kernels that one test has compiled are there for the next, of the same build of Kerf.
config.environment["XDG_CACHE_HOME"] = os.path.join(config.kerf_build_dir, "test", "cache")
for name in ("HOME", "UBSAN_OPTIONS", "ASAN_OPTIONS", "TSAN_OPTIONS", "KERF_CACHE_DIR"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

cache = os.environ.get("KERF_CACHE_DIR", os.path.join(config.kerf_build_dir, "models"))
inputs = os.path.join(config.test_source_root, "Inputs")


def python_package(package):
    """The folder of an installed package of the tests' interpreter, or None."""
    run = subprocess.run(
        [config.kerf_python, "-c",
         "import importlib.util as u, os; s = u.find_spec('%s'); "
         "print(os.path.dirname(s.origin) if s else '')" % package],
        capture_output=True, text=True)
    return run.stdout.strip() or None


onnx_dir = python_package("onnx")
config.substitutions += [
    ("%python", config.kerf_python),
    ("%build", config.kerf_build_dir),
    ("%inputs", inputs),
    ("%models", os.path.join(inputs, "models")),
    ("%cache", cache),
    ("%light", os.path.join(onnx_dir or "missing-onnx", "backend/test/data/light")),
]

for tool in config.kerf_tools:
    if tool:
        config.available_features.add(tool)
if onnx_dir:
    config.available_features.add("onnx")
for package in ("onnxruntime", "onnxscript", "torch"):
    if python_package(package):
        config.available_features.add(package)
if config.kerf_sanitize:
    config.available_features.add("sanitizer")
if config.kerf_build_type == "Debug":
    config.available_features.add("asserts")
if shutil.which("mpirun"):
    config.available_features.add("mpi")
browsers = [found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found]
if browsers:
    config.available_features.add("chromium")
    config.substitutions.append(("%chromium", browsers[0]))
if os.path.exists("/dev/nvidiactl"):
    config.available_features.add("gpu")
    found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    if "libnccl.so" in found:
        config.available_features.add("nccl")
if lit_config.params.get("full") == "1":
    config.available_features.add("full")

# A test that hangs is a failure. The limit is generous: two cores are shared
# by all tests. Without psutil lit cannot end a test's children.
if not lit_config.maxIndividualTestTime and lit_config.maxIndividualTestTimeIsSupported[0]:
    lit_config.maxIndividualTestTime = 3600 if "full" in config.available_features else 900
