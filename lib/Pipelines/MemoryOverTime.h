//===- MemoryOverTime.h - what of a stage's arena is in use, when -*- C++
//-*-===//
#ifndef KERF_LIB_PIPELINES_MEMORYOVERTIME_H
#define KERF_LIB_PIPELINES_MEMORYOVERTIME_H

#include "kerf/Exec/Exec.h"

#include "llvm/Support/JSON.h"

namespace kerf {

/// Bytes of a stage's arena that hold something, over the calls of a step in
/// their order (not over seconds): the buffers between their first and their
/// last use. `{"bytes": [...], "calls": N, "runs": [{"phase", "micro_batch",
/// "begin"}]}`: at most 200 numbers, each the most of as many calls in a row;
/// `begin` counts these numbers. What lies between buffers is not in use, so
/// the most may be less than the arena. Linear in the calls of a step.
llvm::json::Object memoryOverTime(exec::StageOp stage);

} // namespace kerf

#endif // KERF_LIB_PIPELINES_MEMORYOVERTIME_H
