#!/usr/bin/env bash
# Writes docs/generated/NodeTests.md: which of ONNX's node tests pass (minutes; needs what ./check builds).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
PATH=$PWD/build/bin:$PATH OMP_WAIT_POLICY=passive build/venv/bin/python test/Execute/node-tests.py \
  "$out" test/Inputs docs/generated/NodeTests.md --ranks=1,2,4 --write
