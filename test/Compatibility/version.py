# The release has one number, in CMakeLists.txt: every program, what is installed for others, and CHANGELOG.md have it;
# and the formats that programs name are those of docs/Compatibility.md, each with files of this release.
#
# REQUIRES: kerf, kerf-run
# RUN: %python %s %build %S
import pathlib
import re
import sys

HERE = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(HERE.parent / "Inputs"))
from kerf_tests import Checks, kerf

BUILD, SOURCE = pathlib.Path(sys.argv[1]), HERE.parent.parent
checks = Checks()
release = re.search(r"project\(kerf VERSION ([0-9.]+) ", (SOURCE / "CMakeLists.txt").read_text())[1]

shown = kerf("--version").stdout.splitlines()
checks.expect("kerf", shown[0] == f"kerf {release}", shown)
checks.expect("kerf-run", kerf("--version", tool="kerf-run").stdout.startswith(f"{release} (program abi "))
checks.expect("pkg-config", f"\nVersion: {release}\n" in (BUILD / "runtime/kerf-runtime.pc").read_text())
checks.expect("CMake package", f'set(PACKAGE_VERSION "{release}")' in (BUILD / "runtime/KerfRuntimeConfigVersion.cmake").read_text())
changes = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (SOURCE / "CHANGELOG.md").read_text(), re.M)
checks.expect("CHANGELOG.md begins with it", changes and changes[0][0] == release, changes)

policy = (SOURCE / "docs/Compatibility.md").read_text()
formats = shown[3].split()
for name in formats:
    checks.expect(f"{name} has a line in docs/Compatibility.md", f"| `{name}` |" in policy)
schemas = re.findall(r'Schema \w+\{"(kerf\.[a-z-]+)", (\d+)', (SOURCE / "include/kerf/Format/Schemas.h").read_text())
checks.expect("the program's formats are among those of Schemas.h", {name.split("/")[0] for name in formats} <= dict(schemas).keys(), schemas)
# What tells builds of one number apart: each format that is written for a later command, and older ones that are read.
written = re.findall(r'(\w+)Schema\{"(kerf\.[a-z-]+)", (\d+),\s+"[^"]+"(?:, (\d+))?\}', (SOURCE / "include/kerf/Format/Schemas.h").read_text())
checks.expect("every file's format is shown", formats == [f"{name}/{number}" for _, name, number, _ in written], f"{formats} {written}")
older = [f"{name}/{each}" for _, name, number, oldest in written if oldest for each in range(int(oldest), int(number))]
checks.expect("and what is read as well", older and shown[4] == f"reads as well {' '.join(older)}", f"{shown} {older}")
of_runtime = kerf("--version", tool="kerf-run").stdout.splitlines()[1].split()
checks.expect("kerf-run's", of_runtime == [name for name in formats if name.split("/")[0] in ("kerf.package", "kerf.sizes", "kerf.run")], of_runtime)
for name, number in schemas:
    checks.expect(f"{name}/{number} stands in docs/Compatibility.md", f"`{name}/{number}`" in policy)
for path in (path for folder in ("lib", "tools", "runtime") for path in (SOURCE / folder).rglob("*.cpp")):
    spelled = re.findall(r'"kerf\.[a-z-]+/[0-9].*', path.read_text())
    checks.expect(f"{path} takes names of formats from Schemas.h", not spelled, spelled)
files = HERE / ".".join(release.split(".")[:2])
found = {name for path in files.rglob("*") if path.is_file() for name in re.findall(rb"kerf\.[a-z]+/[0-9]+", path.read_bytes())}
# Those of programs on CPUs in several sizes, and of functions that another compiler lowers, came behind it.
for name in (name for name in formats if name.split("/")[0] not in ("kerf.sizes", "kerf.ranks")):
    checks.expect(f"{name} has a file of this release", name.encode() in found, sorted(found))
checks.finish()
