/*===- ranks.h - ranks that run the code of another compiler ------*- C -*-===*\
|*
|* For programs that the pass kerf-call-runtime has lowered to calls of the
|* functions below, and that another compiler has made native code of
|* (docs/Embedding.md). The host makes ranks from the program's description, a
|* text that the lowered module holds under the name FUNCTION_ranks, and lets
|* each of them run the function; a rank is a thread, and the first argument of
|* the function.
|*
|* The functions kerf_ranks_... are the host's; rules are those of runtime.h.
|* Those called kerf_rank_... are the program's, each on the thread of its rank.
|* They return no status: once any rank has failed, every call on every rank
|* returns at once and leaves its results as they are, and kerf_ranks_run gives
|* the first failure. So the program's code needs no way out of its loops.
|*
\*===----------------------------------------------------------------------===*/
#ifndef KERF_RT_RANKS_H
#define KERF_RT_RANKS_H

#include "kerf/rt/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the functions called kerf_rank_...: code that was lowered for an
   older one runs. New functions raise it. */
#define KERF_RANKS_ABI_VERSION 2

/* All ranks of a program, and one of them. */
typedef struct kerf_ranks kerf_ranks_t;
typedef struct kerf_rank kerf_rank_t;

typedef struct kerf_ranks_options {
  size_t struct_size;
  double deadline_seconds; /* of every wait on another rank; 0: 30 */
  /* Test only: the byte that fills the padding of inputs. */
  int32_t padding;
} kerf_ranks_options_t;

/* Reads the description of a program (schema kerf.ranks/1, docs/Runtime.md).
   KERF_BAD_PACKAGE, KERF_OTHER_VERSION. `options` may be NULL. */
kerf_status_t kerf_ranks_create(const char *program,
                                const kerf_ranks_options_t *options,
                                kerf_ranks_t **ranks);
void kerf_ranks_destroy(kerf_ranks_t *ranks);
int64_t kerf_ranks_size(const kerf_ranks_t *ranks);
/* Bytes that all ranks have sent so far. After each run they are compared with
   those that the program says it sends, and with those that were moved. */
int64_t kerf_ranks_sent_bytes(const kerf_ranks_t *ranks);

/* What ranks keep from run to run, in parts: parameters (weights) and other
   state, by the names in the description's "parameters". `whole` is dense and
   row-major. Before the first run the host writes all of them; a run that reads
   one without a value fails. Not while ranks run. KERF_INVALID_ARGUMENT for a
   name that the program does not have, or a parameter without a value. */
kerf_status_t kerf_ranks_write(kerf_ranks_t *ranks, const char *parameter,
                               const void *whole);
kerf_status_t kerf_ranks_read(const kerf_ranks_t *ranks, const char *parameter,
                              void *whole);

/* Calls function(rank, user) on a thread for each rank, at once, and returns
   when all have returned. KERF_RANK_FAILURE where a rank waited too long for
   another one, KERF_MISMATCH, KERF_BYTES_DIFFER, or what kerf_rank_fail said.
   After a failure the ranks can only be destroyed. */
typedef void (*kerf_rank_function_t)(kerf_rank_t *rank, void *user);
kerf_status_t kerf_ranks_run(kerf_ranks_t *ranks, kerf_rank_function_t function,
                             void *user);

/* The functions below by name, for hosts that compile in memory and tell their
   compiler where they are; behind the last one stands a name that is NULL. */
typedef struct kerf_ranks_symbol {
  const char *name;
  void *address;
} kerf_ranks_symbol_t;
const kerf_ranks_symbol_t *kerf_ranks_symbols(void);

/* The rank's number, row-major over the axes of the mesh. */
int64_t kerf_rank_number(kerf_rank_t *rank);
/* Ends the run on all ranks with KERF_PROGRAM_FAILURE; the first one wins. */
void kerf_rank_fail(kerf_rank_t *rank, const char *message);

/* Buffers are dense, row-major, in the shapes that the description says.

   This rank's part of a tensor that the host holds whole, in a micro-batch:
   `part` is an entry of the description's "parts". What lies past the end of
   the tensor is padding; it is zero after take, and give leaves it out. Of
   ranks that hold the same part one gives it. */
void kerf_rank_take(kerf_rank_t *rank, int64_t part, int64_t micro_batch,
                    const void *whole, void *local);
void kerf_rank_give(kerf_rank_t *rank, int64_t part, int64_t micro_batch,
                    const void *local, void *whole);

/* This rank's part of an entry of the description's "parameters": as the host
   or the last store left it; zero past the end of the tensor. Since version 2.
 */
void kerf_rank_load(kerf_rank_t *rank, int64_t parameter, void *local);
void kerf_rank_store(kerf_rank_t *rank, int64_t parameter, const void *local);

/* Entry `index` of the description's "collectives". `src` and `dst` do not
   overlap, or are the same for all_reduce and broadcast. */
void kerf_rank_collective(kerf_rank_t *rank, int64_t index, const void *src,
                          void *dst);
/* The same in two halves. Between them `src` is not written and `dst` neither
   read nor written; at most 16 are under way. */
void kerf_rank_start(kerf_rank_t *rank, int64_t index, const void *src,
                     void *dst);
void kerf_rank_wait(kerf_rank_t *rank, int64_t index);

/* Entry `channel` of the description's "channels": to, or from, the rank of
   equal other coordinates in another stage. What is sent is not written or
   freed before kerf_rank_finish has returned for the channel. */
void kerf_rank_send(kerf_rank_t *rank, int64_t channel, int64_t micro_batch,
                    const void *data);
void kerf_rank_finish(kerf_rank_t *rank, int64_t channel);
void kerf_rank_receive(kerf_rank_t *rank, int64_t channel, int64_t micro_batch,
                       void *data);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KERF_RT_RANKS_H */
