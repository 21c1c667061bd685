#!/usr/bin/env bash
# fuzz.sh SECONDS: builds the fuzz targets (preset fuzz, folder build-fuzz) and
# lets each of them read for so long. What breaks a promise is kept in
# build-fuzz/found and replayed by build-fuzz/bin/fuzz-NAME FILE; inputs that
# reach new code are kept in build-fuzz/corpus. KERF_FUZZ_TARGETS="onnx plan"
# names some of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
targets=${KERF_FUZZ_TARGETS:-manifest safetensors npy npz checkpoint machine constant plan onnx}
export CCACHE_BASEDIR=$PWD CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
log=build-fuzz/build.log
mkdir -p build-fuzz/found
[ -e build-fuzz/build.ninja ] ||
  cmake --preset fuzz -DPython3_EXECUTABLE="$PWD/build/venv/bin/python" >$log 2>&1 || { tail -40 $log >&2; exit 2; }
ninja -C build-fuzz $(printf 'fuzz-%s ' $targets) >$log 2>&1 || { tail -60 $log >&2; exit 2; }

# Models of every operator: ONNX's node tests.
mkdir -p build-fuzz/corpus/onnx
[ -e build-fuzz/corpus/onnx/test_abs ] || build/venv/bin/python - build-fuzz/corpus/onnx >$log 2>&1 <<'END' || true
import pathlib, sys
from onnx.backend.test.loader import load_model_tests
for test in load_model_tests(kind="node"):
    (pathlib.Path(sys.argv[1]) / test.name).write_bytes(test.model.SerializeToString())
END

# LLVM's allocators in instrumented code poison what its own, uninstrumented
# code then uses.
bad=0
for name in $targets; do
  mkdir -p build-fuzz/corpus/$name
  log=build-fuzz/fuzz-$name.log
  if ASAN_OPTIONS=allow_user_poisoning=0 UBSAN_OPTIONS=print_stacktrace=1 build-fuzz/bin/fuzz-$name -max_total_time="$seconds" -timeout=15 \
    -rss_limit_mb=4096 -malloc_limit_mb=512 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix=build-fuzz/found/$name- build-fuzz/corpus/$name fuzz/corpus/$name >"$log" 2>&1; then
    echo "fuzz-$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s, no promise is broken"
  else
    bad=1
    echo "FAIL: fuzz-$name" >&2
    grep -m1 -E 'ERROR: |runtime error: |broken promise: ' "$log" >&2 || tail -5 "$log" >&2
    grep -oE 'build-fuzz/found/[^ ]+' "$log" | tail -1 >&2 || true
  fi
done
exit $bad
