# Training of random graphs, over one to four ranks. Two steps as planned are held
# against one device; gradients against difference quotients of ONNX Runtime in
# double. KERF_FUZZ=N and KERF_FUZZ_SEED=S ask for other graphs,
# KERF_FUZZ_REFERENCE=interpreted|unfused|compiled for another reference of verify.
#
# REQUIRES: kerf-commands, onnxruntime
# RUN: %python %s %t 40
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Inputs"))


def main():
    from onnxgen.campaign import campaign

    out = pathlib.Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    failures, covered = campaign(out, int(os.environ.get("KERF_FUZZ_SEED", 1)),
                                 int(os.environ.get("KERF_FUZZ", sys.argv[2])), training=True,
                                 first=int(os.environ.get("KERF_FUZZ_FIRST", 0)),
                                 workers=int(os.environ.get("KERF_FUZZ_WORKERS", 2)), timeout=120)
    sys.exit(bool(failures or not covered))


if __name__ == "__main__":
    main()
