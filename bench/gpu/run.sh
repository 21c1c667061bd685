#!/usr/bin/env bash
# run.sh [FOLDER [PART ...]]: everything that needs a GPU, from a folder that prepare.py made.
# Needs kerf-run and packages (in FOLDER) and a Python with PyTorch and NumPy
# ($PYTHON, default python3), whose wheels hold cuBLASLt, cuDNN and NCCL. Writes
# $RESULTS (default FOLDER/results); leaves with 1 if a check failed. Speeds are no
# checks. $JOBS packages are checked at a time (default 4); SPEED_FLAGS go to speed.py.
# Parts: machine libraries check check-no-graph ranks2 ranks4 memcheck racecheck
# initcheck synccheck speed traces; without PART, all in this order.
#
# Without a GPU, to see that the scripts themselves work, on a folder of
# prepare.py --small: KERF_DRY=1 with KERF_CUDA_DRIVER, KERF_NCCL and KERF_CUPTI
# naming the recording driver (docs/CudaRuntime.md). PyTorch is not needed then.
set -u
folder=$(cd "${1:-$(dirname "$0")}" && pwd)
shift $(($# ? 1 : 0))
[ $# -gt 0 ] || set -- machine libraries check check-no-graph ranks2 ranks4 memcheck racecheck initcheck synccheck speed traces
python=${PYTHON:-python3}
results=${RESULTS:-$folder/results}
jobs=${JOBS:-4}
mkdir -p "$results"
failed=0
run() {
  local name=$1 from=$SECONDS
  shift
  echo "== $name"
  "$@" 2>&1 | tee "$results/$name.txt"
  local code=${PIPESTATUS[0]}
  [ "$code" = 0 ] || { echo "== $name: exit $code"; failed=1; }
  echo "== $name took $((SECONDS - from)) s"
}
export KERF_PYTHON_SITE=${KERF_PYTHON_SITE:-$("$python" -c 'import site; print(":".join(site.getsitepackages()))')}
export PYTHONUNBUFFERED=1

dry=${KERF_DRY:-}
first=$(ls -d "$folder"/packages/*.kerf | head -1)
for part; do
  case $part in
    machine)
      [ -n "$dry" ] || run machine nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv ;;
    libraries) run libraries "$folder/kerf-run" "$first" --seed=1 -v ;;
    check) run check "$python" "$folder/check.py" "$folder" --jobs "$jobs" ;;
    # The same without graphs, and without updates that share a launch.
    check-no-graph)
      run check-no-graph env KERF_CUDA_GRAPH=0 KERF_CUDA_BATCH=0 "$python" "$folder/check.py" "$folder" --jobs "$jobs" ;;
    ranks2 | ranks4) run "$part" "$python" "$folder/check.py" "$folder" --ranks "${part#ranks}" --jobs $(((jobs + 1) / 2)) ;;
    memcheck | racecheck | initcheck | synccheck)
      # Kernels that race, or read what nobody wrote, are errors.
      if command -v compute-sanitizer > /dev/null; then
        run "sanitizer-$part" "$python" "$folder/sanitize.py" "$folder" "$part" --jobs "$jobs"
      else
        echo "== no compute-sanitizer on this machine: $part was not run" | tee "$results/sanitizer-$part.txt"
      fi ;;
    speed)
      # shellcheck disable=SC2086
      run speed "$python" "$folder/speed.py" "$folder" --json "$results/speed.json" ${SPEED_FLAGS:-} \
        ${dry:+--dry --rounds=1 --steps=2} ;;
    traces)
      for package in "$folder"/speed/train-*.kerf; do
        [ -d "$package" ] || continue
        name=$(basename "$package" .kerf)
        grep -q "\"$name\"" "$results/speed.json" || continue # the batch that was measured
        scalars=$("$python" -c 'import sys; sys.path.insert(0, sys.argv[1]); import check; print(*check.scalars(sys.argv[2]))' "$folder" "$package")
        # shellcheck disable=SC2086
        run "trace-$name" "$folder/kerf-run" "$package" --seed=1 --repeat=5 -q --trace="$results/$name.trace.json" $scalars
        run "gaps-$name" "$python" "$folder/gaps.py" "$results/$name.trace.json"
      done ;;
    *) echo "run.sh: no part \"$part\"" >&2; exit 2 ;;
  esac
done
exit $failed
