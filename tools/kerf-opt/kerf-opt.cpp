//===- kerf-opt.cpp - passes on textual IR, as mlir-opt -------------------===//
#include "kerf/Pipelines/Register.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  kerf::registerDialects(registry);
  kerf::registerUpstreamDialects(registry);
  kerf::registerPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Kerf optimizer driver\n", registry));
}
