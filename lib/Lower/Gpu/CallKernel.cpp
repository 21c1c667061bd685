//===- CallKernel.cpp - a kernel made of a library call -------------------===//
#include "CallKernel.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kerf::cuda;

CallKernel::CallKernel(kerf::exec::LibraryCallInterface call,
                       gpu::GPUModuleOp module, StringRef name)
    : buffers(call), b(OpBuilder(module.getContext()), module.getLoc()),
      module(module), name(name), index(b.getInt64Ty()) {
  size_t numBuffers = buffers.values.size();
  SmallVector<Type> types(numBuffers, b.pointer(1));
  b.ops.setInsertionPointToEnd(module.getBody());
  function = gpu::GPUFuncOp::create(b.ops, b.loc, name,
                                    b.ops.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                    b.ops.getUnitAttr());
  for (size_t at = 0; at < numBuffers; ++at)
    function.setArgAttr(at, LLVM::LLVMDialect::getAlignAttrName(),
                        b.ops.getI64IntegerAttr(16));
  b.ops.setInsertionPointToEnd(&function.getBody().front());
}

GpuLaunch CallKernel::finish() {
  gpu::ReturnOp::create(b.ops, b.loc);
  SmallVector<int32_t> block(launch.block.begin(), launch.block.end());
  function.setKnownBlockSizeAttr(b.ops.getDenseI32ArrayAttr(block));
  return launch;
}

Value CallKernel::pointerOf(OpOperand &operand) {
  return function.getArgument(buffers.numberOf(operand));
}

Value CallKernel::threadId() {
  V raw = gpu::ThreadIdOp::create(b.ops, b.loc, gpu::Dimension::x);
  return b.ops.createOrFold<arith::IndexCastUIOp>(b.loc, index, raw);
}

Value CallKernel::blockId() {
  V raw = gpu::BlockIdOp::create(b.ops, b.loc, gpu::Dimension::x);
  return b.ops.createOrFold<arith::IndexCastUIOp>(b.loc, index, raw);
}

void CallKernel::branch(V condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(b.ops, b.loc, condition, false);
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPoint(branch.thenYield());
  body();
}
