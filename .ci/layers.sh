#!/usr/bin/env bash
# Who may include whom (docs/Architecture.md), downwards only:
#   tools -> Pipelines -> phases -> dialects -> Interfaces -> Support -> MLIR
#   phases -> Cost, Fusion -> Interfaces
#   Package, Ranks, Native -> runtime/include (plain C);  runtime -> never the compiler
#   all -> Format (tables that compiler and runtime share) -> the C++ library
# A rule names a set of files and the includes that they must not have.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bad=0

# never WHY PATTERN FOLDER...: no file in these folders includes what matches.
never() {
  local why=$1 pattern=$2 folder found folders=()
  shift 2
  for folder in "$@"; do [ -e "$folder" ] && folders+=("$folder"); done
  [ ${#folders[@]} -gt 0 ] || return 0
  if found=$(grep -rnE --include='*.cpp' --include='*.h' --include='*.c' --include='*.td' --include='*.def' \
    "^[[:space:]]*#?[[:space:]]*include[[:space:]]*[<\"]($pattern)" "${folders[@]}"); then
    printf '%s\n%s\n' "$why:" "$found" >&2
    bad=1
  fi
}

phases=(Import Autodiff Plan Partition Collectives Ranks Lower Package)
for phase in "${phases[@]}"; do
  others=$(printf '%s\n' "${phases[@]}" | grep -vx "$phase" | paste -sd'|')
  never "$phase includes another phase" "kerf/($others)/" lib/$phase include/kerf/$phase
  never "$phase includes the pipelines" "kerf/(Pipelines|Embed|Models|Bridge)/" lib/$phase include/kerf/$phase
done
for phase in Plan Partition Collectives Ranks; do
  never "$phase names ops of another dialect: use the interfaces" "kerf/NN/" lib/$phase include/kerf/$phase
done
all=$(IFS='|'; echo "${phases[*]}|Bridge|Pipelines|Cost|Fusion|Entries|Interpret")
never "models of upstream ops include a phase, or nn" "kerf/($(IFS='|'; echo "${phases[*]}")|Bridge|Pipelines|Embed|Cost|Fusion|NN|Exec)/" lib/Models include/kerf/Models
never "the bridge includes more than partition, which checks shardings" "kerf/(Import|Autodiff|Plan|Collectives|Lower|Package|Pipelines|Embed|Models|Cost|Fusion|Interpret|NN|Exec)/" lib/Bridge include/kerf/Bridge
never "nn in linalg includes more than nn" "kerf/($all|Dist|Exec|Models|Embed)/" lib/NNToLinalg include/kerf/NNToLinalg
never "compiling in memory includes more than ranks" "kerf/(${all/Ranks|/}|NNToLinalg|NN|Dist|Exec|Models|Embed)/" lib/Native include/kerf/Native
never "what others embed includes a front or a back end" "kerf/(Import|Lower|Package|Pipelines|Exec)/" lib/Embed include/kerf/Embed tools/plugin
never "a dialect includes a phase" "kerf/($all)/" dialects
never "the interfaces include a dialect" "kerf/(NN|Dist|Exec)/" dialects/kerf/Interfaces
never "nn includes exec, or dist" "kerf/(Exec|Dist)/" dialects/kerf/NN
never "dist includes nn or exec" "kerf/(NN|Exec)/" dialects/kerf/Dist
never "exec includes nn" "kerf/NN/" dialects/kerf/Exec
# What is computed together is decided over interfaces, for whoever asks.
never "Fusion names ops, or a phase: use the interfaces" "kerf/(NN|Dist|Exec|$(IFS='|'; echo "${phases[*]}")|Pipelines|Cost)/" lib/Fusion include/kerf/Fusion
never "JSON of dist includes more than dist" "kerf/(${all/Entries|/}|NN|Exec|Models|Embed)/" lib/Entries include/kerf/Entries
if found=$(grep -rnE '^#include "llvm/Support/JSON.h"' --include='*.cpp' --include='*.h' dialects); then
  printf 'a dialect writes JSON: lib/Entries and lib/Package do:\n%s\n' "$found" >&2
  bad=1
fi
never "the cost model builds IR" "kerf/(NN|Dist|Exec|Fusion|Import|Plan|Partition|Collectives|Lower|Package|Pipelines)/|mlir/" lib/Cost include/kerf/Cost
never "Support includes what stands on it" "kerf/(NN|Dist|Exec|Interfaces|Cost|Fusion|Import|Plan|Partition|Collectives|Lower|Package|Pipelines)/" lib/Support include/kerf/Support
never "Format includes more than the C++ library" "mlir/|llvm/|kerf/(NN|Dist|Exec|Interfaces|Cost|Fusion|Import|Plan|Partition|Collectives|Lower|Package|Pipelines|Support|rt)/" include/kerf/Format
never "the runtime includes the compiler" "mlir/|llvm/|llvm-c/|lld/|kerf/(NN|Dist|Exec|Interfaces|Cost|Fusion|Import|Plan|Partition|Collectives|Lower|Package|Pipelines|Support)/" runtime tools/kerf-run
# Rooms of the runtime, downwards only: base < comm < package < device < comm/nccl < execution < report (docs/Runtime.md).
up='(\.\./)*'
never "runtime/base includes what stands on it" "$up(comm|package|device|execution|report|run|train)/" runtime/base
never "comm includes what stands on it" "$up(package|device|execution|report|run|train)/" runtime/comm/*.h runtime/comm/*.cpp \
  runtime/comm/{mpi,processes,tcp,threads}
never "runtime/package includes what stands on it" "$up(device|execution|report|run|train)/" runtime/package
never "runtime/ranks includes what stands beside it" "$up(device|execution|report|run|train)/" runtime/ranks
never "a room of the runtime includes ranks, which stand on it" "$up(ranks)/" runtime/base runtime/comm runtime/package runtime/device runtime/execution
never "a device includes what stands on it, or who talks to others" "$up(execution|report|run|train|comm/[a-z]+)/" runtime/device
never "comm/nccl includes what stands on it" "$up(execution|report|run|train)/" runtime/comm/nccl
never "runtime/execution includes what stands on it" "$up(report|run|train)/" runtime/execution
never "a phase other than Package and Ranks includes the runtime" "kerf/rt/" lib/Import lib/Autodiff lib/Cost lib/Plan lib/Partition lib/Collectives dialects
# What a dialect knows of another's attributes it asks an interface (Interfaces/Placement.h).
if found=$(grep -rnE '"(dist|exec)\.[a-z_]+"' --include='*.cpp' --include='*.h' --include='*.td' dialects/kerf/NN dialects/kerf/Interfaces); then
  printf 'nn names an attribute of another dialect:\n%s\n' "$found" >&2
  bad=1
fi
# Attributes that phases tell each other have one name each: a StringLiteral in a header (kFrom = "dist.from"). Elsewhere
# none stands as a string; tests may write the names of ops and of documents, which look alike.
definition='StringLiteral k[A-Za-z]+ = "((dist|exec|kerf)\.[a-z_]+)"'
names=$(grep -rhoE "$definition" --include='*.h' --include='*.td' dialects include | sed -E "s/$definition/\1/" | sort -u)
[ -n "$names" ] || { echo "no names of attributes found, expected their definitions in dialects/" >&2; bad=1; }
if found=$(grep -rnE '"(dist|exec|kerf)\.[a-z_]+"' --include='*.cpp' --include='*.h' --include='*.td' lib dialects include tools |
  grep -vE "$definition|^include/kerf/Format/Schemas\.h:") ||
  found=$(grep -rnF "$(sed 's/.*/"&"/' <<<"$names")" --include='*.cpp' --include='*.h' unittests fuzz); then
  printf 'an attribute as a string, expected the constant that names it:\n%s\n' "$found" >&2
  bad=1
fi
# Libraries and the runtime name options, `option mesh`; flags are the tools' (spellFlags). What ld.lld and ptxas take is
# theirs.
if found=$(grep -rnE '"([^"]*[^a-z-])?--[a-z]' --include='*.cpp' --include='*.h' lib include dialects runtime |
  grep -vE '^[^:]*:[0-9]+: *//|Codegen/ObjectCode.cpp|Gpu/GpuTarget.cpp|run-reproducer'); then
  printf 'a library speaks of flags, expected "option NAME":\n%s\n' "$found" >&2
  bad=1
fi
# Options are structs; two compilations live in one process.
if found=$(grep -rnE 'cl::(opt|list|bits)\b' --include='*.cpp' --include='*.h' lib include dialects runtime); then
  printf 'cl::opt outside tools/:\n%s\n' "$found" >&2
  bad=1
fi
exit $bad
