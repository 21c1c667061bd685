#!/usr/bin/env bash
# One idea per file: none has more than 600 lines. And nothing big is committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bad=$(git ls-files -z -- '*.cpp' '*.h' '*.c' '*.td' '*.py' '*.mlir' '*.test' '*.sh' |
  xargs -0 wc -l | awk '$2 != "total" && $1 > 600 {print $1 " lines: " $2}')
big=$(git ls-files -z | xargs -0 -I{} find {} -maxdepth 0 -size +2048k -printf '%k KiB: %p\n')
[ -z "$bad$big" ] || { printf '%s\n' "$bad" "$big" | sed '/^$/d' >&2; exit 1; }
