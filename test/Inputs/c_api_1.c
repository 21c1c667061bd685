/* What version 1 of the C API exports, by type: a caller that was compiled
   against it goes on to work. New functions and options are added below; what
   stands here is never changed while the version is 1. */
#include <kerf-c/Kerf.h>

#include <stddef.h>

#if KERF_C_API_VERSION != 1
#error "another version has a file of its own"
#endif

int (*const apiVersion)(void) = kerfApiVersion;
void (*const registerDialects)(MlirContext) = kerfRegisterDialects;
char *(*const plan)(MlirModule, const KerfPlanOptions *) = kerfPlan;
MlirLogicalResult (*const propagate)(MlirModule) = kerfPropagate;
MlirLogicalResult (*const partition)(MlirModule) = kerfPartition;
MlirLogicalResult (*const collectives)(MlirModule) = kerfCollectives;
MlirLogicalResult (*const callRuntime)(MlirModule) = kerfCallRuntime;
void (*const free_)(char *) = kerfFree;

#define OPTION(TYPE, NAME, OFFSET)                                             \
  _Static_assert(offsetof(KerfPlanOptions, NAME) == OFFSET, #NAME);            \
  _Static_assert(_Generic(((KerfPlanOptions *)0)->NAME, TYPE: 1, default: 0),  \
                 #NAME)
OPTION(size_t, size, 0);
OPTION(int64_t, devices, 8);
OPTION(const char *, mesh, 16);
OPTION(const char *, machine, 24);
OPTION(bool, minimizeBytes, 32);
OPTION(int64_t, memoryLimitBytes, 40);
OPTION(double, deadlineSeconds, 48);
