//===- CompilationPackage.cpp - from a lowered module to a folder ---------===//
#include "kerf/Pipelines/Compilation.h"

#include "PlanDocument.h"
#include "Timer.h"

#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Gpu.h"
#include "kerf/Package/Package.h"
#include "kerf/Support/WriteFile.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace kerf;

Outcome Compilation::runPackage(StringRef path, ArrayRef<Further> further,
                                StringRef sizes) {
  Timer timer(*this, "package");
  PackageContents contents;
  if (Outcome outcome = makeContents(contents); outcome != Outcome::Fine)
    return outcome;
  std::vector<FurtherProgram> programs;
  for (const auto &[name, compilation] : further) {
    FurtherProgram &program = programs.emplace_back();
    program.name = name;
    program.module = compilation->module.get();
    if (Outcome outcome = compilation->makeContents(program.contents);
        outcome != Outcome::Fine) {
      llvm::append_range(lines, compilation->lines);
      return outcome;
    }
  }
  return withDiagnostics("packaging failed", [&] {
    return writePackage(module.get(), contents, path, programs, sizes);
  });
}

Outcome Compilation::withDiagnostics(const char *what,
                                     llvm::function_ref<LogicalResult()> run) {
  bool isFile = false;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      lines.push_back("error: " + diagnostic.str());
    isFile |= isFileError(diagnostic);
    return success();
  });
  if (succeeded(run()))
    return Outcome::Fine;
  return lines.empty() ? fail(Outcome::Internal, what)
         : isFile      ? Outcome::RunTimeFailure
                       : Outcome::WrongUsage;
}

Outcome Compilation::makeContents(PackageContents &contents) {
  return withDiagnostics("code generation failed",
                         [&] { return generate(contents); });
}

LogicalResult Compilation::generate(PackageContents &contents) {
  if (options.cuda) {
    GpuOptions gpu;
    gpu.ptxas = options.ptxas;
    gpu.dumpDir = options.kernelDumpDir;
    FailureOr<GpuProgram> kernels = compileGpuKernels(module.get(), gpu);
    if (mlir::failed(kernels))
      return failure();
    packagingNotes = std::move(kernels->notes);
    CudaContents &cuda = contents.cuda.emplace();
    cuda.ptx = std::move(kernels->ptx);
    cuda.ptxVersion = kPtxVersion;
    cuda.ptxArch = kPtxArch;
    cuda.hostKernels = options.hostKernels;
    contents.precision = autodiff::toString(options.precision).str();
    for (Cubin &cubin : kernels->cubins)
      cuda.cubins.push_back({cubin.arch, std::move(cubin.bytes)});
  }
  CodegenOptions codegen;
  codegen.cpu = options.targetCpu;
  codegen.cache = options.objectCache;
  codegen.kernels = !options.cuda || options.hostKernels;
  FailureOr<Program> program = compileProgram(module.get(), codegen);
  if (mlir::failed(program))
    return failure();
  contents.name = module->getSymName().value_or("").str();
  contents.cpu = program->target.cpu;
  contents.features = program->target.features;
  contents.sharedObject = std::move(program->sharedObject);
  contents.plan = planText(planJson);
  if (const llvm::json::Object *memory = planJson.getObject("memory"))
    if (const llvm::json::Array *devices = memory->getArray("per_device"))
      for (const llvm::json::Value &device : *devices)
        contents.plannedBytes.push_back(
            device.getAsObject()
                ? device.getAsObject()->getInteger("peak").value_or(0)
                : 0);
  contents.weightsInPlace = options.weightsInPlace;
  return success();
}
