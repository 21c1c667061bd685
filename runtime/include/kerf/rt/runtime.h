/*===- runtime.h - the runtime's C ABI ----------------------------*- C -*-===*\
|*
|* Opens a package, makes a session of ranks (threads of this process, or the
|* processes of a job), takes global tensors, runs steps, and returns global
|* tensors. kerf-run, the kerf driver and programs that embed Kerf use the same
|* calls.
|*
|* Rules: a function that can fail returns a status, NULL when all is well, to
|* be freed with kerf_status_free; outputs come last and are untouched on
|* failure. Nothing here exits, prints or throws. Handles of different packages
|* and sessions may be used on different threads at once; one session is used by
|* one thread at a time. Option structs carry their size, so that they can grow.
|*
\*===----------------------------------------------------------------------===*/
#ifndef KERF_RT_RUNTIME_H
#define KERF_RT_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kerf_status *kerf_status_t;
typedef struct kerf_package kerf_package_t;
typedef struct kerf_session kerf_session_t;
typedef struct kerf_job kerf_job_t;

typedef enum kerf_code {
  KERF_OK = 0,
  KERF_INVALID_ARGUMENT = 1, /* a wrong argument of the caller */
  KERF_BAD_PACKAGE = 2,      /* damaged or contradictory package */
  KERF_UNSUPPORTED_HOST = 3, /* CPU features or a library are missing */
  KERF_IO_ERROR = 4,         /* a file could not be read or written */
  KERF_OUT_OF_MEMORY = 5,
  KERF_PROGRAM_FAILURE = 6, /* the model's own error: index out of range, ... */
  KERF_RANK_FAILURE = 7,    /* a rank ended, hung or never arrived (deadline) */
  KERF_MISMATCH = 8,        /* ranks disagree on what they communicate */
  KERF_BYTES_DIFFER = 9,    /* counted bytes are not the planned bytes */
  KERF_INTERNAL = 10,       /* a bug of ours */
  KERF_CLOSED = 11,         /* rank 0 has ended the job (kerf_job_exit_code) */
  KERF_OTHER_VERSION = 12   /* a package of a newer or older Kerf */
} kerf_code_t;

/* 1 */ kerf_code_t kerf_status_code(kerf_status_t status); /* NULL: KERF_OK */
/* 2 */ const char *kerf_status_message(kerf_status_t status); /* one line */
/* 3: The model's node at which it happened, or "". */
const char *kerf_status_node(kerf_status_t status);
/* 4, 5: Further lines, such as the table of each rank's last collective. */
int32_t kerf_status_num_notes(kerf_status_t status);
const char *kerf_status_note(kerf_status_t status, int32_t index);
/* 6: The process exit code that belongs to it (docs/Runtime.md): 0, 2, 3,
 * 5, 70. */
int32_t kerf_status_exit_code(kerf_status_t status);
/* 7 */ void kerf_status_free(kerf_status_t status);

typedef enum kerf_dtype {
  KERF_F32,
  KERF_F64,
  KERF_F16,
  KERF_BF16,
  KERF_I8,
  KERF_I16,
  KERF_I32,
  KERF_I64,
  KERF_U8,
  KERF_U16,
  KERF_U32,
  KERF_U64,
  KERF_BOOL,
  /* A code per byte, in its low bits. */
  KERF_F8E4M3FN,
  KERF_F8E4M3FNUZ,
  KERF_F8E5M2,
  KERF_F8E5M2FNUZ,
  KERF_F8E8M0FNU,
  KERF_F4E2M1FN,
  KERF_I4,
  KERF_U4,
  KERF_I2,
  KERF_U2
} kerf_dtype_t;

/* 8, 9: Bytes of an element (0 if unknown) and the name ("f32"). */
size_t kerf_dtype_size(kerf_dtype_t dtype);
const char *kerf_dtype_name(kerf_dtype_t dtype);

typedef enum kerf_log_level {
  KERF_LOG_INFO,
  KERF_LOG_WARNING
} kerf_log_level_t;
/* Receives one line without newline; may be called from any rank's thread. */
typedef void (*kerf_log_sink_t)(void *user, kerf_log_level_t level,
                                const char *line);

/* A global tensor of the model. Pointers live as long as the package. */
typedef struct kerf_tensor_info {
  const char *name;
  kerf_dtype_t dtype;
  int32_t rank;
  const int64_t *shape;
  size_t bytes;
  int64_t range_low, range_high; /* of random integers, half open */
} kerf_tensor_info_t;

typedef struct kerf_package_options {
  size_t struct_size;
  kerf_log_sink_t log; /* may be NULL */
  void *log_user;
  int32_t skip_hashes; /* nonzero: compare sizes of files only */
} kerf_package_options_t;

/* 10: Maps and checks the package in folder `path`. KERF_INVALID_ARGUMENT where
   it or one of its files is not there, KERF_BAD_PACKAGE, KERF_OTHER_VERSION,
   KERF_UNSUPPORTED_HOST, KERF_IO_ERROR. `options` may be NULL. */
kerf_status_t kerf_package_open(const char *path,
                                const kerf_package_options_t *options,
                                kerf_package_t **package);
/* 11: May be closed before its sessions, which keep what they need. */
void kerf_package_close(kerf_package_t *package);
/* 12-14 */
int32_t kerf_package_num_ranks(const kerf_package_t *package);
int32_t kerf_package_num_inputs(const kerf_package_t *package);
int32_t kerf_package_num_outputs(const kerf_package_t *package);
/* 15, 16: KERF_INVALID_ARGUMENT for an index out of range. Of an output whose
   size depends on what the program computes: the most that it can be
   (kerf_session_output_shape). */
kerf_status_t kerf_package_input(const kerf_package_t *package, int32_t index,
                                 kerf_tensor_info_t *info);
kerf_status_t kerf_package_output(const kerf_package_t *package, int32_t index,
                                  kerf_tensor_info_t *info);

typedef struct kerf_session_options {
  size_t struct_size;
  int32_t threads;         /* per rank, at most; 0: cores / ranks, at least 1 */
  double deadline_seconds; /* of every wait on another rank; 0: 30 */
  kerf_log_sink_t log;     /* may be NULL */
  void *log_user;
  int32_t trace; /* nonzero: record events for kerf_session_trace */
  /* Test only: "rank=1,collective=3,fault=die|hang|skip". NULL: none. */
  const char *inject;
  /* Weights other than those of the package: the dense stored tensor of a
     parameter (kerf_parameter_info_t), or NULL for the package's own. Called
     while the session is created; the data must stay until that returns. */
  const void *(*stored_tensor)(void *user, int32_t parameter);
  void *stored_user;
  /* Its processes are the ranks, as many as the package has; NULL: ranks are
     threads of this process. It must outlive the session. */
  kerf_job_t *job;
} kerf_session_options_t;

/* 17: Starts the ranks, loads and packs their parameters, allocates their
   arenas. `options` may be NULL. */
kerf_status_t kerf_session_create(kerf_package_t *package,
                                  const kerf_session_options_t *options,
                                  kerf_session_t **session);
/* 18: Ends the ranks. A rank that hangs is abandoned after one second, and its
   memory is leaked. */
void kerf_session_destroy(kerf_session_t *session);
/* 19: Global input `index`, dense, `bytes` as in kerf_tensor_info_t. Borrowed:
   it must stay until the next kerf_session_run returns, or another is set. */
kerf_status_t kerf_session_set_input(kerf_session_t *session, int32_t index,
                                     const void *data, size_t bytes);
/* 20: One step on all ranks. After a failure the session can only be destroyed.
 */
kerf_status_t kerf_session_run(kerf_session_t *session);
/* 21: Global output `index` of the last run, dense in the shape that it has
   there; valid until the next run. */
kerf_status_t kerf_session_get_output(kerf_session_t *session, int32_t index,
                                      const void **data, size_t *bytes);
/* 22: run.json without the model's name (schema kerf.run/1) for all runs so
 * far. */
kerf_status_t kerf_session_statistics(kerf_session_t *session, char **json);
/* 23: Events of the last run as Chrome trace JSON; needs options.trace. */
kerf_status_t kerf_session_trace(kerf_session_t *session, char **json);
/* 24 */ void kerf_string_free(char *string);
/* 25: The release and the programs it runs: "0.2.0 (program abi 3)". */
const char *kerf_runtime_version(void);

/* A parameter of the model, or state of training. */
typedef struct kerf_parameter_info {
  kerf_tensor_info_t tensor; /* the global tensor */
  int32_t is_mutable;        /* steps write it */
  /* The tensor of the model of which it is the view that begins at
     view_starts; view_starts NULL: all of it. stored.name is NULL where it has
     no stored tensor (state, constants). */
  kerf_tensor_info_t stored;
  const int64_t *view_starts;
  /* The file outside the package that holds the stored tensor, or NULL. */
  const char *file;
  uint64_t file_offset;
} kerf_parameter_info_t;

/* 26, 27: KERF_INVALID_ARGUMENT for an index out of range. */
int32_t kerf_package_num_parameters(const kerf_package_t *package);
kerf_status_t kerf_package_parameter(const kerf_package_t *package,
                                     int32_t index,
                                     kerf_parameter_info_t *info);
/* 28: The global tensor of mutable parameter `index`, gathered from the ranks
   to `data` of `bytes` bytes. KERF_MISMATCH when ranks that hold the same part
   hold different bits: the message names both. Not while a step runs. */
kerf_status_t kerf_session_get_parameter(kerf_session_t *session, int32_t index,
                                         void *data, size_t bytes);
/* 29: Gives every rank its part of a mutable parameter. */
kerf_status_t kerf_session_set_parameter(kerf_session_t *session, int32_t index,
                                         const void *data, size_t bytes);

/* Processes as ranks, of one host or several: started by mpirun, torchrun, srun
   or by hand with torchrun's variables (docs/MultiNode.md). All make the same
   calls: sessions, inputs (every process sets the same global tensors), runs.
   Rank 0 leads: kerf_session_get_parameter, set_parameter, statistics and trace
   are its alone, served by the others between steps; outputs of more than 4096
   bytes are there on rank 0 alone. On the others kerf_session_run waits for
   rank 0's next step; KERF_CLOSED says that none will come. */
/* Written by signal handlers. mpirun wakes all processes (SIGCONT) when one has
   died, a second before it ends them (SIGTERM). */
typedef struct kerf_signals {
  volatile int terminate; /* the number of a signal that asks to end: waits end
                             within a moment and name whom they waited for */
  volatile int resumed;   /* how many SIGCONT came: all ranks are asked whether
                             they are still there */
} kerf_signals_t;
typedef struct kerf_job_options {
  size_t struct_size;
  double deadline_seconds;       /* of joining and of every wait; 0: 30 */
  const kerf_signals_t *signals; /* NULL: none */
} kerf_job_options_t;

/* 30: Joins the job that the environment describes; *job is NULL if there is
   none, or if it is one process. KERF_INVALID_ARGUMENT for variables that
   contradict each other, KERF_UNSUPPORTED_HOST without Open MPI under mpirun,
   KERF_RANK_FAILURE for ranks that did not come, named. */
kerf_status_t kerf_job_join(const kerf_job_options_t *options,
                            kerf_job_t **job);
/* 31, 32: 0 and 1 for NULL. */
int32_t kerf_job_rank(const kerf_job_t *job);
int32_t kerf_job_size(const kerf_job_t *job);
/* 33: Broadcasts `bytes` bytes of rank 0. */
kerf_status_t kerf_job_broadcast(kerf_job_t *job, void *data, size_t bytes);
/* 34: Ends the job on all ranks with `status`, which stays the caller's; the
   first one wins. */
void kerf_job_fail(kerf_job_t *job, kerf_status_t status);
/* 35: After a failure: waits until this process may print it. -1: print it now;
   else rank 0 has ended the job with this exit code and printed the reason. */
int32_t kerf_job_await_report(kerf_job_t *job);
/* 36: Rank 0 ends the job with an exit code, the others wait for that and get
   it; then all say goodbye. KERF_RANK_FAILURE if one does not. */
kerf_status_t kerf_job_leave(kerf_job_t *job, int32_t *exit_code);
/* 37 */ void kerf_job_free(kerf_job_t *job);

/* 38: As 33, for a session of a job between two steps: meanwhile the others
   serve requests of rank 0, such as setting parameters. */
kerf_status_t kerf_session_broadcast(kerf_session_t *session, void *data,
                                     size_t bytes);

/* What steps keep from one to the next (a decoder's cache: parameters that are
   mutable and have no stored tensor). A session has a state of its own and
   works on it until another is used; several cost no more than their memory,
   since weights, arenas and threads are the session's. Ranks must be threads on
   CPUs. KERF_INVALID_ARGUMENT where steps keep nothing, or write weights. */
typedef struct kerf_state kerf_state_t;
/* 39: A state as a new session has it. */
kerf_status_t kerf_state_create(kerf_session_t *session, kerf_state_t **state);
/* 40: A copy, of a state that any session of the same package made.
   NULL: of what the session works on. */
kerf_status_t kerf_state_fork(kerf_session_t *session,
                              const kerf_state_t *state, kerf_state_t **copy);
/* 41: As new; NULL: what the session works on. */
kerf_status_t kerf_state_reset(kerf_session_t *session, kerf_state_t *state);
/* 42: Steps, get_parameter and set_parameter of the session are on this state
   from now on; NULL: its own. One session at a time uses a state. */
kerf_status_t kerf_session_use_state(kerf_session_t *session,
                                     kerf_state_t *state);
/* 43: A state that is in use stays until another is used. */
void kerf_state_free(kerf_state_t *state);

/* 44: A second program of the package, of the same model, on the same weights
   and the same kinds of state: "prompt" takes several tokens in a step.
   Sessions of either use the states of both. *program is NULL if there is none;
   it may be closed before or behind `package`. */
kerf_status_t kerf_package_open_program(const kerf_package_t *package,
                                        const char *name,
                                        const kerf_package_options_t *options,
                                        kerf_package_t **program);

/* A dimension of inputs of which the package takes several sizes, by a program
   for each of some (kerf compile --dim batch=1..8; docs/Package.md, Sizes).
   Pointers live as long as the package. */
typedef struct kerf_open_dim {
  const char *name;
  /* By input: which of its axes has this size; -1: none. By output: the same
     for a multiple of it, but -1 where `padded` is empty and no rows are cut
     off. */
  const int32_t *input_axes, *output_axes;
  const int64_t *sizes; /* of the programs, ascending */
  int32_t num_sizes;
  /* Sizes that the program of the next larger one takes as well: rows of inputs
     behind them may be anything that the model takes, and the same share of
     rows of outputs is theirs. */
  const int64_t *padded;
  int32_t num_padded;
} kerf_open_dim_t;
/* 45, 46: None in packages of one program, and in the programs of sizes.
   KERF_INVALID_ARGUMENT for an index out of range. */
int32_t kerf_package_num_open_dims(const kerf_package_t *package);
kerf_status_t kerf_package_open_dim(const kerf_package_t *package,
                                    int32_t index, kerf_open_dim_t *dim);
/* 47: The program for a size of each open dimension, which has that size or
   more (its inputs say it). Sessions of programs do not share memory, but the
   files that they map. KERF_INVALID_ARGUMENT, with the sizes that fit, where
   none takes it. */
kerf_status_t kerf_package_open_sizes(const kerf_package_t *package,
                                      const int64_t *sizes,
                                      const kerf_package_options_t *options,
                                      kerf_package_t **program);

/* 48: The shape of output `index` in the last run, `rank` numbers as in
   kerf_tensor_info_t: that of kerf_package_output, or in dimensions whose size
   depends on what the program computes (NonZero, NonMaxSuppression) what there
   is of it, perhaps 0. */
kerf_status_t kerf_session_output_shape(kerf_session_t *session, int32_t index,
                                        int64_t *shape, int32_t rank);
/* 49: Whether dimension `dim` of output `index` is one of these; 0 for what is
   out of range. */
int32_t kerf_package_output_is_bounded(const kerf_package_t *package,
                                       int32_t index, int32_t dim);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KERF_RT_RUNTIME_H */
