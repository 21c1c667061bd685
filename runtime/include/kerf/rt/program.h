/*===- program.h - what a compiled program asks of the runtime ----*- C -*-===*\
|*
|* program.so is native code for every (virtual stage, phase) function of a
|* package. It imports no symbol: it gets one table of function pointers, so
|* that the same file loads into any host program, and a test can implement the
|* calls itself. Descriptors of library calls, collectives and shard indices are
|* in manifest.json (docs/Package.md); the code refers to them by index.
|*
|* Invariants: every entry returns 0 on success; any other value is a status
|* that the program returns to its caller at once, without touching more data.
|* The table is immutable and outlives every call. A context belongs to one
|* rank; entries are called from that rank's thread, except where noted.
|* New entries are appended and raise the version; old programs keep working.
|*
\*===----------------------------------------------------------------------===*/
#ifndef KERF_RT_PROGRAM_H
#define KERF_RT_PROGRAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the table below. The manifest's "abi" must not exceed it. */
#define KERF_PROGRAM_ABI_VERSION 3

/* Buffers of the arena, of scratch, parameters and boundary slots start at
   multiples of this many bytes. */
#define KERF_BUFFER_ALIGNMENT 64

/* Codes for kerf_program_api.fail. */
enum {
  KERF_FAIL_INDEX_OUT_OF_RANGE = 1, /* detail: the offending index */
  KERF_FAIL_DIVISION_BY_ZERO = 2,   /* detail: linear index of the element */
  KERF_FAIL_CHECK = 3               /* detail: anything; the node says more */
};

/* One rank's state in the runtime. */
typedef struct kerf_program_context kerf_program_context;

/* A generated kernel: iterations [begin, end) of its outermost parallel loop.
   Called on several threads with disjoint ranges; it may not call `launch`,
   `library` or a collective. `buffers` and `scalars` are those of `launch`. */
typedef void (*kerf_kernel_t)(void *const *buffers, const int64_t *scalars,
                              int64_t begin, int64_t end);

typedef struct kerf_program_api {
  uint32_t abi_version; /* KERF_PROGRAM_ABI_VERSION of the runtime */
  uint32_t struct_size; /* bytes of this struct in the runtime */

  /* Runs `kernel` over [0, count), cut into contiguous ranges of at least
     `grain` iterations (>= 1; the last may be shorter) over the threads of this
     rank, and returns when all are done. `kernel_index` is the entry of the
     manifest's "kernels" (name and node, for traces and errors), or -1.
     `buffers` and `scalars` need to live only until the call returns. */
  int32_t (*launch)(kerf_program_context *ctx, int32_t kernel_index,
                    kerf_kernel_t kernel, void *const *buffers,
                    int32_t num_buffers, const int64_t *scalars, int64_t count,
                    int64_t grain);

  /* Executes entry `call_index` of the manifest's "library"; an operand
     {"buffer": k} of the descriptor is buffers[k]. */
  int32_t (*library)(kerf_program_context *ctx, int32_t call_index,
                     void *const *buffers);

  /* Executes entry `index` of the manifest's "collectives": reads src (shape
     "src_shape"), writes dst (shape "dst_shape"), both dense row-major.
     all_reduce and broadcast allow src == dst; otherwise they must not overlap.
   */
  int32_t (*collective)(kerf_program_context *ctx, int32_t index,
                        const void *src, void *dst);

  /* The same in two halves. Between start and wait, src must not be written and
     dst neither read nor written. At most KERF_MAX_STARTED (per set of axes)
     may be under way; entry `index` may be started again only after its wait.
   */
  int32_t (*collective_start)(kerf_program_context *ctx, int32_t index,
                              const void *src, void *dst);
  int32_t (*collective_wait)(kerf_program_context *ctx, int32_t index);

  /* This rank's linear index (major to minor) over the mesh axes that entry
     `index` of the manifest's "shard_indices" lists. Never fails for an index
     in range; -1 otherwise. */
  int64_t (*shard_index)(kerf_program_context *ctx, int32_t index);

  /* Copies `bytes` from src to dst, which do not overlap, on the rank's
   * threads. */
  int32_t (*copy)(kerf_program_context *ctx, const void *src, void *dst,
                  int64_t bytes);

  /* Ends the run with an error at `node` (a string that outlives the call, or
     NULL). May be called by kernels on any thread, which got `ctx` and the
     table through `buffers`: the launch then returns the failure, and the
     kernel's output is discarded. The first failure wins. Returns the status to
     return. */
  int32_t (*fail)(kerf_program_context *ctx, int32_t code, const char *node,
                  int64_t detail);

  /* Since version 2. Writes the result of shard_index to dst, 8 bytes on the
     rank's device, in the order of launches: host code must not access that
     memory. */
  int32_t (*store_shard_index)(kerf_program_context *ctx, int32_t index,
                               void *dst);

  /* Since version 3. `fail` with KERF_FAIL_INDEX_OUT_OF_RANGE: `size` is that
     of the dimension in which `index` does not lie. */
  int32_t (*fail_index)(kerf_program_context *ctx, const char *node,
                        int64_t index, int64_t size);
} kerf_program_api;

#define KERF_MAX_STARTED 16

/* A function of program.so, under the name in the manifest's "functions".
   params[i]: this rank's part of entry i of the manifest's "parameters", in its
   local shape, dense; NULL if this rank's stage does not hold it or it is
   marked "library_only". ios: the boundary buffers, arguments then results.
   scratch: at least "scratch_bytes" bytes, of undefined content. */
typedef int32_t (*kerf_program_function_t)(const kerf_program_api *api,
                                           kerf_program_context *ctx,
                                           void *const *params,
                                           void *const *ios, void *scratch);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KERF_RT_PROGRAM_H */
