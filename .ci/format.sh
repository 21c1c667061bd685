#!/usr/bin/env bash
# Every C and C++ file is as clang-format 22 writes it. --fix rewrites them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mapfile -t files < <(git ls-files '*.cpp' '*.h' '*.c' '*.inc' | grep -v '^test/.*/Inputs/')
if [ "${1:-}" = --fix ]; then
  exec clang-format-22 -i "${files[@]}"
fi
bad=$(clang-format-22 --dry-run "${files[@]}" 2>&1 | grep -oE '^[^: ]+\.(cpp|h|c|inc):' | tr -d : | sort -u || true)
[ -z "$bad" ] || { printf 'not formatted (.ci/format.sh --fix):\n%s\n' "$bad" >&2; exit 1; }
