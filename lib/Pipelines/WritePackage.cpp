//===- WritePackage.cpp - machine code and a folder -----------------------===//
//
// Code is generated for each program of the package, then all are written
// together. What a compilation knows already (the plan, a cache of kernels,
// programs for other sizes) comes in a PackageRun; by its options alone the
// pass makes the same package of one program.
//
//===----------------------------------------------------------------------===//
#include "PlanDocument.h"

#include "kerf/Exec/Exec.h"
#include "kerf/Format/Schemas.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Gpu.h"
#include "kerf/NN/NN.h"
#include "kerf/Package/Package.h"
#include "kerf/Pipelines/Passes.h"
#include "kerf/Support/Json.h"

#include "llvm/Support/MemoryBuffer.h"

namespace kerf {
#define GEN_PASS_DEF_WRITEPACKAGE
#include "kerf/Pipelines/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {

struct WritePackage : kerf::impl::WritePackageBase<WritePackage> {
  using WritePackageBase::WritePackageBase;
  WritePackage(const WritePackageOptions &options, PackageRun &run)
      : WritePackageBase(options), run(&run) {}

  void runOnOperation() override {
    if (failed(write(run ? *run : own)))
      signalPassFailure();
  }

private:
  LogicalResult write(PackageRun &run);
  FailureOr<llvm::json::Object> readPlan();
  LogicalResult generate(ModuleOp module, const llvm::json::Object *plan,
                         PackageRun &run, PackageContents &contents);

  PackageRun own;
  PackageRun *run = nullptr;
};

} // namespace

LogicalResult WritePackage::write(PackageRun &run) {
  ModuleOp module = getOperation();
  if (output.empty())
    return module.emitError("option output is missing, the folder to write");
  llvm::json::Object read;
  const llvm::json::Object *given = run.plan;
  if (!given && !plan.empty()) {
    FailureOr<llvm::json::Object> object = readPlan();
    if (failed(object))
      return failure();
    read = std::move(*object);
    given = &read;
  }
  PackageContents contents;
  if (failed(generate(module, given, run, contents)))
    return failure();
  std::vector<FurtherProgram> programs;
  for (const PackageRun::Further &further : run.further) {
    FurtherProgram &program = programs.emplace_back();
    program.name = further.name;
    program.module = further.module;
    if (failed(generate(further.module, further.plan, run, program.contents)))
      return failure();
  }
  return writePackage(module, contents, output, programs, run.sizes);
}

FailureOr<llvm::json::Object> WritePackage::readPlan() {
  auto wrong = [&](const Twine &why) {
    return getOperation().emitError("option plan: ") << plan << ": " << why;
  };
  auto buffer = llvm::MemoryBuffer::getFile(plan);
  if (!buffer)
    return wrong("cannot open: " + buffer.getError().message());
  llvm::Expected<llvm::json::Value> value = parseJson((*buffer)->getBuffer());
  if (!value)
    return wrong("is not valid JSON: " + llvm::toString(value.takeError()));
  llvm::json::Object *object = value->getAsObject();
  if (std::string mismatch = schemaMismatch(
          planSchema,
          object ? object->getString("schema").value_or("").str() : "");
      !mismatch.empty())
    return wrong("schema " + mismatch);
  return std::move(*object);
}

LogicalResult WritePackage::generate(ModuleOp module,
                                     const llvm::json::Object *plan,
                                     PackageRun &run,
                                     PackageContents &contents) {
  // The target for which the module was lowered.
  bool isForGpus =
      exec::TargetAttr::of(module).getDevice() == exec::Device::Cuda;
  if (isForGpus) {
    GpuOptions gpu;
    gpu.ptxas = ptxas;
    gpu.dumpDir = kernelDumpDir;
    FailureOr<GpuProgram> kernels = compileGpuKernels(module, gpu);
    if (failed(kernels))
      return failure();
    llvm::append_range(run.notes, kernels->notes);
    CudaContents &code = contents.cuda.emplace();
    code.ptx = std::move(kernels->ptx);
    code.ptxVersion = kPtxVersion;
    code.ptxArch = kPtxArch;
    code.hostKernels = hostKernels;
    contents.precision = autodiff::toString(precision).str();
    for (Cubin &cubin : kernels->cubins)
      code.cubins.push_back({cubin.arch, std::move(cubin.bytes)});
  }
  CodegenOptions codegen;
  codegen.cpu = cpu;
  codegen.cache = run.cache;
  codegen.kernels = !isForGpus || hostKernels;
  FailureOr<Program> program = compileProgram(module, codegen);
  if (failed(program))
    return failure();
  contents.name = module.getSymName().value_or("").str();
  contents.cpu = program->target.cpu;
  contents.features = program->target.features;
  contents.sharedObject = std::move(program->sharedObject);
  contents.weightsInPlace = inPlace;
  if (!plan)
    return success();
  contents.plan = planText(*plan);
  const llvm::json::Object *memory = plan->getObject("memory");
  const llvm::json::Array *devices =
      memory ? memory->getArray("per_device") : nullptr;
  for (const llvm::json::Value &device :
       devices ? *devices : llvm::json::Array()) {
    const llvm::json::Object *object = device.getAsObject();
    contents.plannedBytes.push_back(
        object ? object->getInteger("peak").value_or(0) : 0);
  }
  return success();
}

std::unique_ptr<Pass>
kerf::createWritePackage(const WritePackageOptions &options, PackageRun &run) {
  return std::make_unique<WritePackage>(options, run);
}
