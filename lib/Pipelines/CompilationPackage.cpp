//===- CompilationPackage.cpp - from a lowered module to a folder ---------===//
#include "kerf/Pipelines/Compilation.h"

#include "Timer.h"

#include "kerf/Pipelines/Passes.h"
#include "kerf/Support/WriteFile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/Support/Path.h"

using namespace mlir;
using namespace kerf;

/// plan.json as it can be read later: that beside the IR, or the package's own.
static std::string planPath(const CompilationOptions &options, StringRef path) {
  llvm::SmallString<128> file(options.dumpDir.empty() ? path : options.dumpDir);
  llvm::sys::path::append(file, "plan.json");
  return file.str().str();
}

Outcome Compilation::runPackage(StringRef path, ArrayRef<Further> further,
                                StringRef sizes) {
  Timer timer(*this, "package");
  WritePackageOptions package;
  package.output = path.str();
  package.plan = planPath(options, path);
  package.cpu = options.targetCpu;
  package.ptxas = options.ptxas;
  package.hostKernels = options.hostKernels;
  package.precision = options.precision;
  package.kernelDumpDir = options.kernelDumpDir;
  package.inPlace = options.weightsInPlace;
  PackageRun run;
  run.plan = &planJson;
  run.cache = options.objectCache;
  run.sizes = sizes.str();
  for (const auto &[name, compilation] : further)
    run.further.push_back(
        {name, compilation->module.get(), &compilation->planJson});

  // A path that is taken or an unknown CPU is a wrong request; a file that
  // cannot be read or written is a failure at run time.
  bool isFile = false;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      lines.push_back("error: " + diagnostic.str());
    isFile |= isFileError(diagnostic);
    return success();
  });
  PassManager passes(context.get(), ModuleOp::getOperationName());
  passes.enableVerifier(false); // done behind lowering, and nothing changes
  passes.addPass(createWritePackage(package, run));
  pipelines.push_back({"package", textOf(passes)});
  LogicalResult result = passes.run(module.get());
  packagingNotes = std::move(run.notes);
  if (succeeded(result))
    return Outcome::Fine;
  return lines.empty() ? fail(Outcome::Internal, "packaging failed")
         : isFile      ? Outcome::RunTimeFailure
                       : Outcome::WrongUsage;
}
