//===- plugin.cpp - Kerf's passes and dialects in mlir-opt ----------------===//
//
//   mlir-opt-22 --load-pass-plugin=libKerfPlugin.so
//               --load-dialect-plugin=libKerfPlugin.so --kerf-plan=... FILE
//
//===----------------------------------------------------------------------===//
#include "kerf/Embed/Embed.h"

#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo
mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Kerf", KERF_VERSION,
          kerf::registerEmbeddedPasses};
}

extern "C" LLVM_ATTRIBUTE_WEAK mlir::DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Kerf", KERF_VERSION,
          [](mlir::DialectRegistry *registry) {
            kerf::registerEmbeddedDialects(*registry);
          }};
}
