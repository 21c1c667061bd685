//===- Manifest.h - manifest.json from a module -----------------*- C++ -*-===//
#ifndef KERF_LIB_PACKAGE_MANIFEST_H
#define KERF_LIB_PACKAGE_MANIFEST_H

#include "Weights.h"

#include "kerf/Package/Package.h"

#include "llvm/Support/JSON.h"

namespace kerf {

constexpr const char *kPtxName = "kernels.ptx";
/// The file of the kernels for one architecture.
std::string cubinName(llvm::StringRef arch);

/// Everything but `files`. `weights` says where parameters are stored.
llvm::json::Object buildManifest(mlir::ModuleOp module,
                                 const PackageContents &contents,
                                 const WeightPlan &weights);

} // namespace kerf

#endif // KERF_LIB_PACKAGE_MANIFEST_H
