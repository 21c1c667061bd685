//===- Package.h - write a lowered module as a package ----------*- C++ -*-===//
//
// The last phase: a module of exec ops and the machine code made from it become
// the folder that docs/Package.md describes. The folder is written under a
// temporary name beside its place and renamed, so there is never half a
// package. The same input gives the same bytes.
//
// Weights are copied from the mapped files of `kerf.files`, or, in place, only
// referred to; either way they never pass through IR.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PACKAGE_PACKAGE_H
#define KERF_PACKAGE_PACKAGE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// The contents of a package for GPUs besides program.so (docs/Cuda.md).
struct CudaContents {
  std::string ptx, ptxVersion, ptxArch;
  std::vector<std::pair<std::string, std::string>> cubins; ///< arch, bytes
  bool hostKernels = false; ///< program.so has each kernel for the CPU, too
};

struct PackageContents {
  std::string name;                  ///< of the model
  std::string cpu = "";              ///< what program.so was compiled for
  std::vector<std::string> features; ///< as LLVM names them, without '+'
  std::string sharedObject;          ///< bytes of program.so
  std::string plan; ///< plan.json as text; empty: none is written
  std::optional<CudaContents> cuda; ///< none: a package for CPUs
  std::string precision;            ///< of the arithmetic; empty: not said
  /// By stage: the plan's peak memory of a rank, for messages; may be empty.
  std::vector<int64_t> plannedBytes;
  /// Refer to weights where they are (absolute paths) instead of copying them.
  bool weightsInPlace = false;
};

/// Another program in a package, on the same weights (docs/Package.md).
struct FurtherProgram {
  std::string name; ///< its files are NAME.json and NAME.so
  mlir::ModuleOp module;
  PackageContents contents;
};

/// Why what is at `path` is not replaced by a package; empty if nothing is
/// there, or a package and nothing else: its files are deleted.
std::string whyNotReplaced(llvm::StringRef path);

/// Writes the folder `path` for a module that verifyLowered accepts. What
/// is there is replaced, or an error (whyNotReplaced), as are files that cannot
/// be read or written (emitted at the module). Needs no more memory than the
/// largest literal. `further` programs are of the same files of weights
/// (kerf.files), and for CPUs. `sizes`: sizes.json as text, which says for what
/// sizes each of them is; empty: none is written.
mlir::LogicalResult
writePackage(mlir::ModuleOp module, const PackageContents &contents,
             llvm::StringRef path,
             llvm::MutableArrayRef<FurtherProgram> further = {},
             llvm::StringRef sizes = "");

} // namespace kerf

#endif // KERF_PACKAGE_PACKAGE_H
