//===- GpuPass.cpp - kernels for GPUs, for kerf-opt -----------------------===//
#include "GpuTarget.h"

#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace {

struct GpuKernels : PassWrapper<GpuKernels, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GpuKernels)
  GpuKernels() = default;
  GpuKernels(const GpuKernels &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "kerf-gpu-kernels"; }
  StringRef getDescription() const override {
    return "Compiles every kernel for GPUs";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
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
      llvm::outs() << "// note: " << note << "\n";
    llvm::outs() << program->ptx;
  }

  Option<std::string> dumpDir{*this, "dump-dir",
                              llvm::cl::desc("Write gpu.funcs, LLVM IR and PTX "
                                             "of each kernel here")};
  Option<std::string> ptxas{*this, "ptxas",
                            llvm::cl::desc("Assemble with this program")};
};

} // namespace

void kerf::registerGpuPasses() { PassRegistration<GpuKernels>(); }
