/* What version 1 of the C API exports, by type: a caller that was compiled
   against it goes on to work. New functions and options are added below; what
   stands here is never changed while the version is 1. */
#include <kerf-c/Kerf.h>

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

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
MlirLogicalResult (*const applyPlan)(MlirModule, const char *) = kerfApplyPlan;
MlirLogicalResult (*const distToShard)(MlirModule) = kerfDistToShard;
MlirLogicalResult (*const shardToDist)(MlirModule) = kerfShardToDist;

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

/* All of them once, on an annotated module, printed after each: to shard and
   back, partitioned, lowered; what is printed last can be parsed again. */
static char text[1 << 20];
static size_t length;
static void keep(MlirStringRef part, void *unused) {
  assert(length + part.length < sizeof(text));
  memcpy(text + length, part.data, part.length);
  length += part.length;
  (void)unused;
}
static void show(const char *title, MlirModule module) {
  length = 0;
  mlirOperationPrint(mlirModuleGetOperation(module), keep, NULL);
  printf("// %s\n%.*s", title, (int)length, text);
}

int main(int argc, char **argv) {
  FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
  assert(file && apiVersion() == KERF_C_API_VERSION);
  length = fread(text, 1, sizeof(text) - 1, file);
  fclose(file);
  MlirContext context = mlirContextCreate();
  registerDialects(context);
  MlirModule module =
      mlirModuleCreateParse(context, mlirStringRefCreate(text, length));
  assert(!mlirModuleIsNull(module));
  const struct {
    const char *title;
    MlirLogicalResult (*run)(MlirModule);
  } steps[] = {{"propagate", propagate},       {"dist-to-shard", distToShard},
               {"shard-to-dist", shardToDist}, {"propagate again", propagate},
               {"partition", partition},       {"collectives", collectives},
               {"call-runtime", callRuntime}};
  for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); ++i) {
    if (mlirLogicalResultIsFailure(steps[i].run(module)))
      return 1;
    show(steps[i].title, module);
  }
  mlirModuleDestroy(module);
  module = mlirModuleCreateParse(context, mlirStringRefCreate(text, length));
  assert(!mlirModuleIsNull(module));

  /* Null is an error, without a crash. */
  KerfPlanOptions options = {.size = sizeof(options), .devices = 2};
  MlirModule null = {NULL};
  assert(!plan(null, &options) && !plan(module, NULL));
  assert(mlirLogicalResultIsFailure(applyPlan(null, "{}")));
  assert(mlirLogicalResultIsFailure(applyPlan(module, NULL)));
  free_(NULL);
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
  return 0;
}
