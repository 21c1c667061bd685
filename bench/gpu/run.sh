#!/usr/bin/env bash
# run.sh [FOLDER]: everything that needs a GPU, from a folder that prepare.py made.
# Needs kerf-run and packages (in FOLDER) and a Python with PyTorch and NumPy
# ($PYTHON, default python3), whose wheels hold cuBLASLt, cuDNN and NCCL. Writes
# FOLDER/results/; leaves with 1 if a check failed. Speeds are no checks.
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

part machine nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv
first=$(ls -d "$folder"/packages/*.kerf | head -1)
part libraries "$folder/kerf-run" "$first" --seed=1 -v
part check "$python" "$folder/check.py" "$folder"
# The same without graphs, and with the driver's own compilation of the PTX.
part check-no-graph env KERF_CUDA_GRAPH=0 "$python" "$folder/check.py" "$folder"
part ranks2 "$python" "$folder/check.py" "$folder" --ranks 2
part ranks4 "$python" "$folder/check.py" "$folder" --ranks 4
if sanitizer=$(command -v compute-sanitizer); then
  for tool in memcheck racecheck; do
    part "sanitizer-$tool" "$sanitizer" --tool "$tool" --error-exitcode 9 "$folder/kerf-run" "$first" --seed=1 -q
  done
else
  echo "== no compute-sanitizer on this machine: memory of kernels was not checked" | tee "$results/sanitizer.txt"
fi
part speed "$python" "$folder/speed.py" "$folder" --json "$results/speed.json"
if nsys=$(command -v nsys); then
  for package in "$folder"/speed/train-*.kerf; do
    [ -d "$package" ] || continue
    trace=$results/$(basename "$package" .kerf)
    "$nsys" profile -o "$trace" --force-overwrite true -t cuda "$folder/kerf-run" "$package" --seed=1 --repeat=10 -q
    "$nsys" stats --report cuda_gpu_trace --format csv -o - "$trace.nsys-rep" > "$trace.csv"
    part "gaps-$(basename "$package" .kerf)" "$python" - "$trace.csv" <<'PYTHON'
import csv, sys
rows = [r for r in csv.reader(open(sys.argv[1])) if r and r[0].isdigit()]
spans = sorted((int(r[0]), int(r[0]) + int(r[1])) for r in rows)
spans = spans[len(spans) // 2:]  # steps that are replayed
busy, end = 0, spans[0][0]
for begin, stop in spans:
    busy += max(0, stop - max(begin, end))
    end = max(end, stop)
print(f"idle {1 - busy / (end - spans[0][0]):.1%} of the time")
PYTHON
  done
else
  echo "== no nsys on this machine: idle gaps were not measured" | tee "$results/gaps.txt"
fi
exit $failed
