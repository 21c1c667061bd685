#!/usr/bin/env bash
# run.sh [FOLDER]: everything that needs a GPU, from a folder that prepare.py made.
# Needs kerf-run and packages (in FOLDER) and a Python with PyTorch and NumPy
# ($PYTHON, default python3), whose wheels hold cuBLASLt, cuDNN and NCCL. Writes
# FOLDER/results/; leaves with 1 if a check failed. Speeds are no checks.
#
# Without a GPU, to see that the scripts themselves work, on a folder of
# prepare.py --small: KERF_DRY=1 with KERF_CUDA_DRIVER, KERF_NCCL and KERF_CUPTI
# naming the recording driver (docs/CudaRuntime.md). PyTorch is not needed then.
set -u
folder=$(cd "${1:-$(dirname "$0")}" && pwd)
python=${PYTHON:-python3}
results=$folder/results
mkdir -p "$results"
failed=0
part() {
  local name=$1
  shift
  echo "== $name"
  "$@" 2>&1 | tee "$results/$name.txt"
  local code=${PIPESTATUS[0]}
  [ "$code" = 0 ] || { echo "== $name: exit $code"; failed=1; }
}
export KERF_PYTHON_SITE=${KERF_PYTHON_SITE:-$("$python" -c 'import site; print(":".join(site.getsitepackages()))')}

dry=${KERF_DRY:-}
if [ -z "$dry" ]; then
  part machine nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv
fi
first=$(ls -d "$folder"/packages/*.kerf | head -1)
part libraries "$folder/kerf-run" "$first" --seed=1 -v
part check "$python" "$folder/check.py" "$folder"
# The same without graphs, and without updates that share a launch.
part check-no-graph env KERF_CUDA_GRAPH=0 KERF_CUDA_BATCH=0 "$python" "$folder/check.py" "$folder"
part ranks2 "$python" "$folder/check.py" "$folder" --ranks 2
part ranks4 "$python" "$folder/check.py" "$folder" --ranks 4
if sanitizer=$(command -v compute-sanitizer); then
  # Every operator and model once, training too; kernels that race or read what nobody wrote are errors.
  for tool in memcheck racecheck initcheck synccheck; do
    : > "$results/sanitizer-$tool.txt"
    for package in "$folder"/packages/*.kerf "$folder"/ops/*.kerf "$folder"/train/*.kerf; do
      [ -d "$package" ] || continue
      scalars=$("$python" -c 'import sys; sys.path.insert(0, sys.argv[1]); import check; print(*check.scalars(sys.argv[2]))' "$folder" "$package")
      # shellcheck disable=SC2086
      if ! "$sanitizer" --tool "$tool" --error-exitcode 9 "$folder/kerf-run" "$package" --seed=1 -q $scalars \
          > "$results/sanitizer.out" 2>&1; then
        cat "$results/sanitizer.out" >> "$results/sanitizer-$tool.txt"
        echo "== sanitizer-$tool: $(basename "$package") failed"
        failed=1
      fi
    done
    echo "== sanitizer-$tool: $(ls -d "$folder"/packages/*.kerf "$folder"/ops/*.kerf "$folder"/train/*.kerf 2>/dev/null | wc -l) packages" \
      | tee -a "$results/sanitizer-$tool.txt"
  done
else
  echo "== no compute-sanitizer on this machine: memory of kernels was not checked" | tee "$results/sanitizer.txt"
fi
part speed "$python" "$folder/speed.py" "$folder" --json "$results/speed.json" ${dry:+--dry --rounds=1 --steps=2}
for package in "$folder"/speed/train-*.kerf; do
  [ -d "$package" ] || continue
  name=$(basename "$package" .kerf)
  grep -q "\"$name\"" "$results/speed.json" || continue # the batch that was measured
  scalars=$("$python" -c 'import sys; sys.path.insert(0, sys.argv[1]); import check; print(*check.scalars(sys.argv[2]))' "$folder" "$package")
  # shellcheck disable=SC2086
  part "trace-$name" "$folder/kerf-run" "$package" --seed=1 --repeat=5 -q --trace="$results/$name.trace.json" $scalars
  part "gaps-$name" "$python" "$folder/gaps.py" "$results/$name.trace.json"
done
exit $failed
