//===- CallKernel.h - a kernel made of a library call -----------*- C++ -*-===//
//
// What kernels of library calls share: the function whose parameters are the
// call's buffers in order, where operands lie, and the few loops and branches
// of which their bodies are made.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_GPU_CALLKERNEL_H
#define KERF_LOWER_GPU_CALLKERNEL_H

#include "GpuEmitter.h"

#include "kerf/Exec/Exec.h"

namespace kerf::cuda {

class CallKernel {
protected:
  using V = mlir::Value;
  /// Adds the gpu.func `name` of a call.
  CallKernel(exec::LibraryCallInterface call, mlir::gpu::GPUModuleOp module,
             llvm::StringRef name);
  /// Ends the function; `launch` must be known.
  GpuLaunch finish();

  /// The address of an operand's buffer.
  V pointerOf(mlir::OpOperand &operand);

  V constant(int64_t value) { return b.integer(index, value); }
  V threadId();
  V blockId();
  void branch(V condition, llvm::function_ref<void()> body);

  exec::CallBuffers buffers;
  GpuBuilder b;
  mlir::gpu::GPUModuleOp module;
  mlir::gpu::GPUFuncOp function;
  llvm::StringRef name;
  mlir::Type index; ///< i64
  GpuLaunch launch;
};

} // namespace kerf::cuda

#endif // KERF_LOWER_GPU_CALLKERNEL_H
