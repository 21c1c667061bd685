/* Plans and partitions the function of a module through Kerf's C API: prints
   plan.json, then the module on local shapes. Or applies a plan.json.
     plan FILE.mlir DEVICES MESH      ("dp=2,tp=2"; "" lets the search choose)
     plan FILE.mlir PLAN.json */
#include <kerf-c/Kerf.h>

#include <stdio.h>
#include <stdlib.h>

static void print(MlirStringRef text, void *file) {
  fwrite(text.data, 1, text.length, file);
}

static char *readFile(const char *path) {
  FILE *file = fopen(path, "rb");
  long size = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
  char *text = size < 0 ? NULL : calloc(1, size + 1);
  if (!text)
    return perror(path), exit(1), NULL;
  rewind(file);
  size_t read = fread(text, 1, size, file);
  fclose(file);
  return read == (size_t)size ? text : NULL;
}

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4)
    return fputs("expected FILE.mlir, then DEVICES MESH or PLAN.json\n",
                 stderr),
           2;
  MlirContext context = mlirContextCreate();
  kerfRegisterDialects(context);
  char *text = readFile(argv[1]);
  MlirModule module =
      mlirModuleCreateParse(context, mlirStringRefCreateFromCString(text));
  free(text);
  if (mlirModuleIsNull(module))
    return 1;

  if (argc == 3) {
    char *plan = readFile(argv[2]);
    if (mlirLogicalResultIsFailure(kerfApplyPlan(module, plan)))
      return 1;
    free(plan);
  } else {
    KerfPlanOptions options = {sizeof(options), atoll(argv[2]), argv[3]};
    char *plan = kerfPlan(module, &options);
    if (!plan)
      return 1;
    fputs(plan, stdout);
    kerfFree(plan);
  }
  if (mlirLogicalResultIsFailure(kerfPartition(module)) ||
      mlirLogicalResultIsFailure(kerfCollectives(module)))
    return 1;
  mlirOperationPrint(mlirModuleGetOperation(module), print, stdout);
  mlirModuleDestroy(module);
  mlirContextDestroy(context);
}
