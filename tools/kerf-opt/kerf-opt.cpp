//===- kerf-opt.cpp - passes on textual IR, as mlir-opt -------------------===//
#include "kerf/Pipelines/Register.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  kerf::registerDialects(registry);
  kerf::registerUpstreamDialects(registry);
  // What kerf-call-runtime leaves.
  registry.insert<mlir::bufferization::BufferizationDialect,
                  mlir::LLVM::LLVMDialect, mlir::memref::MemRefDialect>();
  kerf::registerPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Kerf optimizer driver\n", registry));
}
