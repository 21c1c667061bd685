#!/usr/bin/env bash
# docs/generated/ is what the .td files say. --fix writes it. (NodeTests.md is written by node-tests.sh and held by its test.)
# All other pages are wrapped at 120 columns, as .mdformat.toml says; --fix does it.
# Links between pages lead somewhere, docs/README.md names every page, and paths in backticks are those of tracked files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tblgen="/usr/lib/llvm-22/bin/mlir-tblgen -I /usr/lib/llvm-22/include -I dialects -I include"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for name in NN Dist Exec; do
  file=dialects/kerf/$name/${name}Ops.td
  [ -e "$file" ] || continue
  $tblgen -gen-dialect-doc -dialect="${name,,}" "$file" | sed 's/[[:space:]]*$//' >"$out/$name.md"
done
$tblgen -gen-dialect-doc -dialect=kerf dialects/kerf/Interfaces/KerfDialect.td | sed 's/[[:space:]]*$//' >"$out/Kerf.md"
if [ -e dialects/kerf/Interfaces/Interfaces.td ]; then
  $tblgen -gen-op-interface-docs dialects/kerf/Interfaces/Interfaces.td | sed 's/[[:space:]]*$//' >"$out/Interfaces.md"
fi
for file in include/kerf/*/Passes.td; do
  [ -e "$file" ] || continue
  phase=$(basename "$(dirname "$file")")
  $tblgen -gen-pass-doc "$file" | sed 's/[[:space:]]*$//' >"$out/${phase}Passes.md"
done
if [ "${1:-}" = --fix ]; then
  mkdir -p docs/generated
  find docs/generated -name '*.md' ! -name NodeTests.md -delete
  cp "$out"/*.md docs/generated/
else
  diff -r -x NodeTests.md docs/generated "$out" >/dev/null || {
    echo "docs/generated is not what the .td files say (.ci/docs.sh --fix):" >&2
    diff -rq -x NodeTests.md docs/generated "$out" | sed "s#$out#new#" >&2
    exit 1
  }
fi

bad=0
mapfile -t pages < <(git ls-files '*.md' ':!docs/generated')
if [ "${1:-}" = --fix ]; then
  build/venv/bin/mdformat "${pages[@]}"
else
  build/venv/bin/mdformat --check "${pages[@]}" || { echo "not wrapped as .mdformat.toml says (.ci/docs.sh --fix)" >&2; bad=1; }
fi
while read -r page; do
  while read -r link; do
    [ -e "$(dirname "$page")/$link" ] || { echo "$page: no file $link" >&2; bad=1; }
  done < <(grep -oE '\]\([^)#: ]+' "$page" | cut -c3-)
done < <(git ls-files '*.md')
# Words of a page in backticks that look like paths: `lib/Plan`, `Epilogue.cpp`, `NN/Gradients/*.cpp`.
named_paths() {
  awk '/^ *```/ { fenced = !fenced } !fenced' "$1" | grep -oE '`[^` ]+`' | tr -d '`' | grep -E '^[][A-Za-z0-9_.*/-]+$' |
    grep -E '/|[^/.]\.(cpp|h|td|py|sh)$' | sort -u
}
tracked=$(git ls-files | awk -F/ '{ path = ""; for (i = 1; i <= NF; ++i) { path = path "/" $i; print path } }' | sort -u)
for page in docs/*.md; do
  while read -r word; do
    case $word in
      *.cpp | *.h | *.td | *.py | *.sh) ;;
      # Of a system, of a user, a schema: absolute, or with a placeholder or a number for a name (`NAME.kerf/`, `1/p`).
      /*) continue ;;
      *) ! grep -qE '(^|/)[A-Z0-9]+(\.|/|$)' <<<"$word" || continue ;;
    esac
    pattern=$(sed 's#^\./##; s#/$##; s#[.]#\\.#g; s#[*]#[^/]*#g' <<<"$word")
    grep -qE "/$pattern\$" <<<"$tracked" || { echo "$page: no tracked file or folder $word" >&2; bad=1; }
  done < <(named_paths "$page")
done
[ ! -e docs/Performance.md ] || python3 bench/figures.py --check || bad=1
for page in docs/*.md docs/generated/*.md; do
  [ "$page" = docs/README.md ] || grep -qF "(${page#docs/})" docs/README.md || { echo "docs/README.md does not name $page" >&2; bad=1; }
done
exit $bad
