#!/usr/bin/env bash
# sanitize.sh address|thread [FOLDER...]: builds with sanitizers in a folder of
# its own (build-asan, build-tsan) and runs the suite there. MLIR and LLVM come
# from packages and are not instrumented; oneDNN and libgomp are not either.
#
#   address   AddressSanitizer and UndefinedBehaviorSanitizer: the whole suite
#   thread    ThreadSanitizer: the runtime's unit tests, thread ranks included
#
# KERF_SANITIZE_COMPILER=OFF builds the runtime alone, which takes minutes, and
# runs its unit tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kind=$1
shift
compiler=${KERF_SANITIZE_COMPILER:-ON}
case $kind in
  address) preset=asan ;;
  thread) preset=tsan compiler=OFF ;;
  *) echo "error: --sanitize=$kind, expected address or thread" >&2; exit 2 ;;
esac
folder=build-$preset
[ $compiler = ON ] || folder=$folder-runtime
mkdir -p $folder
export CCACHE_BASEDIR=$PWD CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
log=$folder/build.log
[ -e $folder/build.ninja ] ||
  cmake --preset $preset -B $folder -DKERF_BUILD_COMPILER=$compiler \
    -DPython3_EXECUTABLE="$PWD/build/venv/bin/python" >$log 2>&1 || { tail -40 $log >&2; exit 2; }

# A finding ends the program that made it; detect_leaks needs ptrace, which
# containers often refuse. Libraries that are not instrumented free what they
# allocate at exit, or never; LLVM's allocators in instrumented code poison what
# its own, uninstrumented code then uses.
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=0:allow_user_poisoning=0:detect_stack_use_after_return=1:strict_string_checks=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
if [ $compiler = ON ]; then
  ninja -C $folder >$log 2>&1 || { tail -60 $log >&2; exit 2; }
  paths=("${@/#/$folder/}")
  [ $# -gt 0 ] || paths=($folder/test)
  exec build/venv/bin/python /usr/lib/llvm-22/bin/lit -sv "${paths[@]}"
fi
tests="KerfRuntimeTests KerfFuzzTests"
ninja -C $folder kerf-run $tests >$log 2>&1 || { tail -60 $log >&2; exit 2; }
bad=0
for test in $tests; do
  if $folder/unittests/$test --gtest_brief=1 >$folder/$test.log 2>&1; then
    echo "$test: $(grep -oE '[0-9]+ tests? ran|PASSED.*' $folder/$test.log | tail -1)"
  else
    bad=1
    echo "FAIL: $test, see $folder/$test.log" >&2
    grep -m3 -E 'ERROR: |WARNING: |runtime error: |FAILED' $folder/$test.log >&2 || tail -3 $folder/$test.log >&2
  fi
done
exit $bad
