//===- CallKernel.h - a kernel made of a library call -----------*- C++ -*-===//
//
// What kernels of library calls share: the function whose parameters are the
// call's buffers in order, the descriptor's attributes, and the few loops and
// branches of which their bodies are made.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_GPU_CALLKERNEL_H
#define KERF_LOWER_GPU_CALLKERNEL_H

#include "GpuEmitter.h"

namespace kerf::cuda {

class CallKernel {
protected:
  using V = mlir::Value;
  /// Adds the gpu.func `name` of a call's descriptor (docs/Package.md).
  CallKernel(mlir::DictionaryAttr descriptor, int64_t numBuffers,
             mlir::gpu::GPUModuleOp module, llvm::StringRef name);
  /// Ends the function; `launch` must be known.
  GpuLaunch finish();

  llvm::StringRef text(llvm::StringRef key) const;
  int64_t number(llvm::StringRef key) const; ///< 0 if there is none
  /// The operand, if it is a buffer of the call.
  mlir::DictionaryAttr operand(llvm::StringRef key) const;
  V pointerOf(mlir::DictionaryAttr operand);

  V constant(int64_t value) { return b.integer(index, value); }
  V threadId();
  V blockId();
  void branch(V condition, llvm::function_ref<void()> body);

  mlir::DictionaryAttr descriptor;
  GpuBuilder b;
  mlir::gpu::GPUModuleOp module;
  mlir::gpu::GPUFuncOp function;
  llvm::StringRef name;
  mlir::Type index; ///< i64
  GpuLaunch launch;
};

} // namespace kerf::cuda

#endif // KERF_LOWER_GPU_CALLKERNEL_H
