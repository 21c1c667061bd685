//===- CompilationResume.cpp - from IR that was printed -------------------===//
#include "kerf/Pipelines/Compilation.h"

#include "Timer.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Import/Passes.h"
#include "kerf/Lower/Passes.h"
#include "kerf/Partition/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace kerf;

/// The pass that checks what a phase guarantees to the next.
static std::unique_ptr<Pass> verifierAfter(StringRef phase) {
  if (phase == "import")
    return createVerifyAfterImport();
  if (phase == "autodiff")
    return autodiff::createVerifyAfterAutodiff();
  if (phase == "plan")
    return createVerifyPlan();
  if (phase == "lower")
    return createVerifyAfterLower();
  return createVerifyPartition();
}

Outcome Compilation::runResume() {
  const Resumption &resume = *options.resume;
  {
    Timer timer(*this, "read");
    ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
      std::string place = options.model;
      if (auto at = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
        place = (at.getFilename().getValue() + ":" + Twine(at.getLine()) + ":" +
                 Twine(at.getColumn()))
                    .str();
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        lines.push_back("error: " + place + ": " + diagnostic.str());
      return success();
    });
    module =
        parseSourceFile<ModuleOp>(options.model, ParserConfig(context.get()));
    if (!module)
      return lines.empty() ? fail(Outcome::WrongUsage,
                                  options.model + ": cannot be read as IR")
                           : Outcome::WrongUsage;
  }
  // IR that was lowered has a target; before that it may name one.
  exec::Device device = exec::TargetAttr::of(module.get()).getDevice(),
               wanted = target().getDevice();
  if ((resume.phase == "lower" ||
       module->getOperation()->hasAttr(exec::TargetAttr::kName)) &&
      device != wanted)
    return fail(Outcome::WrongUsage,
                options.model + ": it is for " + exec::stringifyDevice(device) +
                    ", option devices is for " + exec::stringifyDevice(wanted));
  if (resume.plan) {
    planJson = *resume.plan->getAsObject();
    dist::MeshAttr mesh = dist::getMesh(module.get());
    if (!mesh)
      mesh = exec::getMesh(module.get());
    int64_t ranks = mesh ? mesh.toMesh().numRanks() : 1;
    if (ranks != options.plan.devices)
      return fail(Outcome::WrongUsage,
                  options.model + ": its mesh is of " + Twine(ranks) +
                      " devices, the plan's of " + Twine(options.plan.devices));
  }
  std::vector<std::string> names = phaseNames(hasAutodiff());
  dumps = static_cast<size_t>(llvm::find(names, resume.phase) - names.begin());
  return runPasses(resume.phase, [&](OpPassManager &passes) {
    passes.addPass(verifierAfter(resume.phase));
  });
}
