//===- GpuTarget.h - from gpu.module to PTX and cubins ----------*- C++ -*-===//
//
// The part of GPU code generation that uses passes, LLVM's NVPTX back end and
// ptxas, and does not deal with tensors.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_GPU_GPUTARGET_H
#define KERF_LOWER_GPU_GPUTARGET_H

#include "kerf/Lower/Gpu.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/Support/Error.h"

namespace kerf::cuda {

/// The dialects that gpu.funcs are made of, and their translations.
void registerDialects(mlir::DialectRegistry &registry);
void loadDialects(mlir::MLIRContext &context);

/// All gpu.modules of the module to the LLVM dialect.
mlir::LogicalResult lowerToNvvm(mlir::ModuleOp module);

/// One of them as LLVM IR.
std::unique_ptr<llvm::Module> translate(mlir::gpu::GPUModuleOp module,
                                        llvm::LLVMContext &context);

/// Optimises and compiles to PTX, without its header. Safe in parallel for
/// modules of different contexts.
llvm::Expected<std::string> compileToPtx(llvm::Module &module,
                                         llvm::StringRef dumpDir);

/// Writes a file for people; an error with the reason.
llvm::Error dumpText(llvm::StringRef dumpDir, const llvm::Twine &name,
                     llvm::StringRef text);

/// The header of a PTX file.
std::string ptxHeader();

/// Assembles; `usage` gets what ptxas says of registers and spills. An empty
/// result: ptxas does not know the architecture.
llvm::Expected<std::string> assemble(llvm::StringRef ptxas, llvm::StringRef ptx,
                                     llvm::StringRef arch, std::string &usage);

} // namespace kerf::cuda

#endif // KERF_LOWER_GPU_GPUTARGET_H
