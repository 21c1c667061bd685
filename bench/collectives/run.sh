#!/usr/bin/env bash
# run.sh [BUILD_DIR] [RANKS]: all-reduce of thread ranks against one memcpy of the
# same bytes and against Open MPI (if mpicc and mpirun are there), 64 KiB to 64 MiB.
# Every figure is the median of several processes, which alternate; each process
# gives the median of its rounds. Writes BUILD_DIR/bench-collectives.json, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build} ranks=${2:-2} repeats=${REPEATS:-5}
cmake --build "$build" --target kerf-bench-collectives >/dev/null
ours=$build/bin/kerf-bench-collectives mpi=$build/mpi-allreduce
if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then
  OMPI_CC=${CC:-cc} mpicc -O2 -o "$mpi" bench/collectives/mpi-allreduce.c
else
  mpi=
  echo "no mpicc or mpirun: Open MPI is left out" >&2
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
middle() { sort -n | sed -n "$(((repeats + 1) / 2))p"; }
rows=
printf '%d ranks on %d cores, microseconds\n' "$ranks" "$(nproc)"
printf '%12s %12s %12s %12s %14s %14s\n' bytes threads memcpy 'Open MPI' threads/memcpy 'MPI/threads'
for bytes in 65536 262144 1048576 4194304 16777216 67108864; do
  rounds=$((bytes < 4194304 ? 400 : 1600000000 / bytes / 4))
  all= copy= other=
  for ((i = 0; i < repeats; ++i)); do
    read -r a c < <("$ours" "$ranks" "$bytes" "$rounds")
    all+="$a"$'\n' copy+="$c"$'\n'
    if [ -n "$mpi" ]; then
      other+="$(mpirun --oversubscribe -n "$ranks" "$mpi" "$bytes" "$rounds" 2>/dev/null)"$'\n'
    fi
  done
  a=$(printf %s "$all" | middle) c=$(printf %s "$copy" | middle) o=-
  [ -z "$mpi" ] || o=$(printf %s "$other" | middle)
  awk -v b="$bytes" -v a="$a" -v c="$c" -v o="$o" 'BEGIN {
    printf "%12d %12.1f %12.1f %12s %14.2f %14s\n", b, a, c, o, a / c, o == "-" ? "-" : sprintf("%.2f", o / a) }'
  rows+="{\"bytes\":$bytes,\"threads_us\":$a,\"memcpy_us\":$c,\"open_mpi_us\":$([ "$o" = - ] && echo null || echo "$o")},"
done
printf '{"ranks":%d,"cores":%d,"all_reduce":[%s]}\n' "$ranks" "$(nproc)" "${rows%,}" >"$build/bench-collectives.json"
