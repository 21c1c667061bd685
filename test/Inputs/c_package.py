"""Packages whose program is C: the runtime is tested without the compiler."""
import json
import pathlib
import subprocess

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "runtime/include"

# Slot 0 is input 0, slot 1 is output 0, function 0 runs in between.
ONE_RUN = [{"arena_bytes": 192, "scratch": {"offset": 128, "bytes": 64},
            "slots": [{"offset": 0, "bytes": 64}, {"offset": 64, "bytes": 64}],
            "instructions": [{"input": 0, "slot": 0}, {"run": 0, "slots": [0, 1]}, {"output": 0, "slot": 1}]}]


class CPackages:
    """Packages named by the caller in `out`, of one program and one manifest with changes."""

    def __init__(self, out, program, manifest):
        self.out, self.manifest = out, {"schema": "kerf.package/1", "name": "tiny", "abi": 1,
                                        "program": "program.so", "stages": ONE_RUN, **manifest}
        (out / "program.c").write_text(program)
        subprocess.run(["clang", "-O1", "-ffreestanding", "-fPIC", "-shared", "-nostdlib", f"-I{INCLUDE}",
                        "-o", out / "program.so", out / "program.c"], check=True)

    def __call__(self, folder_name, /, **changes):
        folder = self.out / folder_name
        folder.mkdir()
        program = (self.out / "program.so").read_bytes()
        (folder / "program.so").write_bytes(program)
        files = [{"path": "program.so", "bytes": len(program), "xxh3": "0" * 16}]
        (folder / "manifest.json").write_text(json.dumps(dict(self.manifest, files=files, **changes)))
        return folder
