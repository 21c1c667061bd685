//===- Gpu.h - kernels for CUDA GPUs ----------------------------*- C++ -*-===//
//
// Problem: a package for GPUs needs each exec.kernel as GPU code, made on a
// machine that may have neither a GPU nor the CUDA toolkit.
//
// Idea: the plan of a kernel is that of the CPU (Codegen.h); its body is pulled
// into a gpu.func, which MLIR's NVVM path turns into LLVM IR and LLVM's NVPTX
// back end into PTX. ptxas, where it is found, assembles PTX to cubins. Some
// library calls (sums of rows, gradients of pools) are kernels as well. The
// contract with the runtime is docs/Cuda.md.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_GPU_H
#define KERF_LOWER_GPU_H

#include "kerf/Exec/Exec.h"

#include "mlir/IR/BuiltinOps.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace kerf {

/// What kernels are compiled for; every GPU from sm_80 on takes it.
constexpr const char *kPtxArch = "sm_80", *kPtxVersion = "8.0";

struct GpuOptions {
  /// Threads that compile (>= 1); the result does not depend on it.
  unsigned threads = 2;
  /// Path of ptxas; empty: no cubins.
  std::string ptxas;
  /// GPUs to assemble for, those that ptxas does not know left out.
  std::vector<std::string> archs = {"sm_80", "sm_90", "sm_100"};
  /// Where to write gpu.func (NAME.mlir), LLVM IR and PTX of every kernel, for
  /// people and tests; empty: nowhere.
  std::string dumpDir;
};

struct Cubin {
  std::string arch, bytes;
};

struct GpuProgram {
  std::string ptx;
  std::vector<Cubin> cubins;
  /// Kernels that were compiled, after identical ones were merged.
  int64_t numKernels = 0;
  /// Architectures left out, kernels that spill registers: one line each.
  std::vector<std::string> notes;
};

/// Compiles every exec.kernel and every library call that is one, and sets the
/// attribute `cuda` of each: how it is launched. The same module gives the same
/// PTX, whatever `threads` is. Loads MLIR's dialects for GPUs into the module's
/// context.
mlir::FailureOr<GpuProgram> compileGpuKernels(mlir::ModuleOp module,
                                              const GpuOptions &options);

/// An entry as LLVM IR before it is optimised for a GPU.
struct GpuEntry {
  std::string name;
  std::array<int64_t, 3> grid, block;
  bool canFail = false;
  std::unique_ptr<llvm::Module> module; ///< in the context that was given
};

/// The code of one exec.kernel, or of a library call that is one. For tests,
/// which run it on threads of their own.
mlir::FailureOr<GpuEntry> emitGpuEntry(mlir::Operation *kernelOrCall,
                                       llvm::StringRef name,
                                       llvm::LLVMContext &context);

/// The code of the batches (docs/Cuda.md) to which an exec.kernel belongs; none
/// if kernels of its kind are not batched. For tests.
std::optional<GpuEntry> emitGpuBatch(exec::KernelOp kernel,
                                     llvm::StringRef name,
                                     llvm::LLVMContext &context);

/// Whether a library call of this kind is a generated kernel on GPUs.
bool isGpuKernelCall(exec::LibraryCallInterface call);

/// The path of ptxas (docs/Cuda.md), empty if it is not found. `wanted` is a
/// path, "none" or empty; a given path that does not exist is an error in
/// `message`.
std::string findPtxas(llvm::StringRef wanted, std::string &message);

} // namespace kerf

#endif // KERF_LOWER_GPU_H
