//===- Reduce.h - sums of several ranks' runs of elements -------*- C++ -*-===//
//
// dst[j][i] = src[0][i] op src[1][i] op ... in exactly this order, in f32 for
// f16 and bf16, in the type itself otherwise: the bits do not depend on the
// rank that computes, nor on time. Works in blocks that stay in the first-level
// cache; all sources of a block are read before any destination is written, so
// a destination may be one of the sources. Compiled for three instruction sets,
// which add in the same order and give the same bits.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_THREADS_REDUCE_H
#define KERF_RT_COMM_THREADS_REDUCE_H

#include "../Collective.h"

namespace kerf::rt {

using ReduceFn = void (*)(const void *const *srcs, int64_t numSrcs,
                          void *const *dsts, int64_t numDsts, int64_t count);

/// The fastest kernel that this CPU runs. Not for bool.
ReduceFn reduceFunction(kerf_dtype_t dtype, Reduction reduction);

/// The same of one instruction set, for tests; nullptr if the CPU lacks it.
enum class ReduceLevel { Base, Avx2, Avx512 };
ReduceFn reduceFunction(kerf_dtype_t dtype, Reduction reduction,
                        ReduceLevel level);

} // namespace kerf::rt

#endif // KERF_RT_COMM_THREADS_REDUCE_H
