/*===- kerf-c/Kerf.h - Kerf for compilers that speak C ------------*- C -*-===*\
|*                                                                            *|
|* Modules are those of MLIR's C API (mlir-c/IR.h), of one MLIR 22 library.   *|
|* What goes wrong is said through the context's diagnostics. Functions may   *|
|* be called from several threads, each with a context of its own.            *|
|*                                                                            *|
|* The library keeps what it exports while KERF_C_API_VERSION stays; options  *|
|* grow at the end, and `size` says which of them the caller knows.           *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/
#ifndef KERF_C_KERF_H
#define KERF_C_KERF_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERF_C_API_VERSION 1

/** KERF_C_API_VERSION of the library that is loaded. */
MLIR_CAPI_EXPORTED int kerfApiVersion(void);

/** Kerf's dialects, those of upstream ops that have models (arith, func,
 * linalg, math, tensor, tosa) and these models, scf, shard, and what
 * kerf-call-runtime makes (bufferization, llvm, memref) are made known to
 * `context`. */
MLIR_CAPI_EXPORTED void kerfRegisterDialects(MlirContext context);

typedef struct KerfPlanOptions {
  size_t size;              /**< sizeof(KerfPlanOptions) of the caller */
  int64_t devices;          /**< at least 1 */
  const char *mesh;         /**< "dp=2,tp=4"; null or empty: searched */
  const char *machine;      /**< a preset, or a .json file; null: "h100-8" */
  bool minimizeBytes;       /**< what is sent, instead of predicted time */
  int64_t memoryLimitBytes; /**< per device; 0: the machine's */
  double deadlineSeconds;   /**< of the search; 0: none */
} KerfPlanOptions;

/** Plans the module's function (kerf-flatten, then kerf-plan) and writes the
 * plan onto it. Returns plan.json as text, which kerfApplyPlan and the pass
 * kerf-apply-plan read, to be freed by kerfFree(); null if there is no plan,
 * for options that are wrong, and for a null module. */
MLIR_CAPI_EXPORTED char *kerfPlan(MlirModule module,
                                  const KerfPlanOptions *options);

/** kerf-flatten, then the plan of such a text is written onto the module, as
 * kerfPlan does for the plan that it finds. Sizes may be others (a plan is good
 * for another batch). A plan that does not fit the module, a module that has a
 * mesh already, and null are errors. */
MLIR_CAPI_EXPORTED MlirLogicalResult kerfApplyPlan(MlirModule module,
                                                   const char *plan);

/** kerf-flatten, then kerf-propagate: what a few annotations say about all. */
MLIR_CAPI_EXPORTED MlirLogicalResult kerfPropagate(MlirModule module);
/** kerf-partition: a module with a plan becomes local. */
MLIR_CAPI_EXPORTED MlirLogicalResult kerfPartition(MlirModule module);
/** kerf-collectives: fewer and cheaper ones. */
MLIR_CAPI_EXPORTED MlirLogicalResult kerfCollectives(MlirModule module);

/** kerf-call-runtime: what is left of dist becomes calls of kerf/rt/ranks.h;
 * upstream passes lower the rest. */
MLIR_CAPI_EXPORTED MlirLogicalResult kerfCallRuntime(MlirModule module);

/** kerf-dist-to-shard: plans and collectives of dist become those of MLIR's
 * shard dialect, and back. What the other cannot say is an error. */
MLIR_CAPI_EXPORTED MlirLogicalResult kerfDistToShard(MlirModule module);
MLIR_CAPI_EXPORTED MlirLogicalResult kerfShardToDist(MlirModule module);

MLIR_CAPI_EXPORTED void kerfFree(char *text);

#ifdef __cplusplus
}
#endif

#endif /* KERF_C_KERF_H */
