#!/usr/bin/env bash
# One idea per file: none has more than 600 lines. IR of tests is read without scrolling: its lines have at most 160
# columns (the numbers of test/Inputs/gradients are strings, which MLIR does not break). And nothing big is committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bad=$(git ls-files -z -- '*.cpp' '*.h' '*.c' '*.td' '*.py' '*.mlir' '*.test' '*.sh' |
  xargs -0 wc -l | awk '$2 != "total" && $1 > 600 {print $1 " lines: " $2}')
big=$(git ls-files -z | xargs -0 -I{} find {} -maxdepth 0 -size +2048k -printf '%k KiB: %p\n')
wide=$(git ls-files -z -- 'test/*.mlir' ':!test/Inputs/gradients' |
  xargs -0 awk 'length($0) > 160 {print length($0) " columns: " FILENAME ":" FNR}')
[ -z "$bad$big$wide" ] || { printf '%s\n' "$bad" "$big" "$wide" | sed '/^$/d' >&2; exit 1; }
