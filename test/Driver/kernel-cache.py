# Kernels that one command has compiled are kept for the next, in XDG_CACHE_HOME: the same package with and without, whatever
# is wrong with the folder or the files in it; --no-kernel-cache keeps and takes none.
#
# REQUIRES: kerf
# RUN: %python %s %t %models
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[2]).parent))
from kerf_tests import Checks, fresh_folder, in_parallel, kerf

OUT, MODELS = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2])
checks = Checks()


def compile_with(cache, name, *flags):
    """The bytes of program.so; the cache is a path that XDG_CACHE_HOME is set to."""
    package = OUT / f"{name}.kerf"
    result = kerf("compile", MODELS / "gpt2-small/model.onnx", "--dim=batch=2", "--devices=cpu:2", "--mesh=tp=2", "-o", package, *flags,
                  env={**os.environ, "XDG_CACHE_HOME": str(cache)})
    checks.expect(f"{name} compiles", result.returncode == 0 and not result.stderr, result.stderr)
    return (package / "program.so").read_bytes() if result.returncode == 0 else b""


def kept(cache):
    return sorted((cache / "kerf/kernels").glob("llvmcache-*"))


plain = compile_with(OUT / "none", "plain", "--no-kernel-cache")
checks.expect("nothing is kept", not (OUT / "none").exists())
cache = OUT / "cache"
checks.expect("the first", compile_with(cache, "first") == plain)
first = {path: path.stat().st_mtime_ns for path in kept(cache)}
checks.expect("objects are kept", len(first) > 3, str(first))
checks.expect("the second", compile_with(cache, "second") == plain)
checks.expect("nothing is written again", first == {path: path.stat().st_mtime_ns for path in kept(cache)})
compile_with(cache, "another", "--target-cpu=x86-64-v3")
checks.expect("another target has objects of its own", len(kept(cache)) > len(first))

# A byte that is another one, an end that is missing, nothing at all, a folder in place of a file.
damaged = kept(cache)
for number, path in enumerate(damaged):
    content = path.read_bytes()
    middle = len(content) // 2
    if number % 4 == 3:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes([content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1:], content[:-9], b""][number % 4])
checks.expect("damaged files", compile_with(cache, "damaged") == plain)
checks.expect("they are whole again", sum(path.is_file() and path.stat().st_size > 100 for path in damaged) > len(first) // 2)

# Many small files are trimmed, those first that were not used for the longest time; fewer stay, and so do all in the
# 20 minutes after they were looked through.
many, unused = cache / "kerf/kernels", min(path.stat().st_mtime for path in first) - 3600


def add(numbers):
    for number in numbers:
        (many / f"llvmcache-{number:032X}").write_bytes(b"0" * 16)
        os.utime(many / f"llvmcache-{number:032X}", (unused, unused))


def compile_later(name):
    os.utime(many / "llvmcache.timestamp", (unused, unused))
    return compile_with(cache, name)


add(range(19000))
compile_later("many")
checks.expect("many are kept", len(kept(cache)) > 19000, len(kept(cache)))
add(range(19000, 21000))
compile_with(cache, "soon")
checks.expect("not at once", len(kept(cache)) > 21000, len(kept(cache)))
checks.expect("too many", compile_later("trimmed") == plain and len(kept(cache)) == 20000, len(kept(cache)))
checks.expect("what was used stays", all(path.exists() for path in first))

# Where nothing can be kept.
(OUT / "file").write_text("no folder")
checks.expect("a file in its place", compile_with(OUT / "file", "in-its-place") == plain)
checks.expect("nowhere", compile_with("/proc/none", "nowhere") == plain)

# Several at once, from nothing.
together = OUT / "together"
found = []
in_parallel([(lambda number: found.append(compile_with(together, f"together{number}")), number) for number in range(4)])
checks.expect("at once", len(found) == 4 and all(each == plain for each in found))
checks.expect("no file is left half written", len(list((together / "kerf/kernels").iterdir())) in (len(first), len(first) + 1),
              str(sorted((together / "kerf/kernels").iterdir())))
checks.finish()
