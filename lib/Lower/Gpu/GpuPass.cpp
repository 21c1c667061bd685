//===- GpuPass.cpp - kernels for GPUs, as a pass --------------------------===//
#include "GpuTarget.h"

#include "kerf/Lower/Passes.h"

namespace kerf {
#define GEN_PASS_DEF_GPUKERNELS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;

namespace {
struct GpuKernels : kerf::impl::GpuKernelsBase<GpuKernels> {
  using GpuKernelsBase::GpuKernelsBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    GpuKernelsBase::getDependentDialects(registry);
    kerf::cuda::registerDialects(registry);
  }

  void runOnOperation() override {
    kerf::GpuOptions options;
    options.dumpDir = dumpDir;
    options.ptxas = ptxas;
    FailureOr<kerf::GpuProgram> program =
        kerf::compileGpuKernels(getOperation(), options);
    if (failed(program))
      return signalPassFailure();
    for (const std::string &note : program->notes)
      getOperation().emitRemark(note);
    if (ptx.empty())
      return;
    std::error_code error;
    llvm::raw_fd_ostream out(ptx, error);
    if (!error) {
      out << program->ptx;
      out.flush();
      error = out.error();
      out.clear_error();
    }
    if (!error)
      return;
    getOperation().emitError("cannot write " + ptx + ": " + error.message());
    signalPassFailure();
  }
};
} // namespace
