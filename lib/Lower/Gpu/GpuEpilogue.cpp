//===- GpuEpilogue.cpp - a product's last post-op as a kernel -------------===//
//
// cuBLASLt may refuse to multiply a product by the derivative of GELU. For that
// case the package has that as a kernel: dst = dst * gelu'(operand), both
// dense.
//
//===----------------------------------------------------------------------===//
#include "GpuCalls.h"

#include "../Codegen/Structure.h"

#include "kerf/Lower/Gpu.h"
#include "kerf/NN/NN.h"

using namespace mlir;

namespace kerf {

exec::MatmulOp
cuda::productWithEpilogueKernel(exec::LibraryCallInterface call) {
  auto product = dyn_cast<exec::MatmulOp>(call.getOperation());
  if (!product)
    return {};
  SmallVector<exec::PostOpAttr> steps = product.getEpilogue();
  bool has = !steps.empty() &&
             steps.back().getKind() == exec::PostOpKind::GeluTanhGradient;
  return has ? product : exec::MatmulOp();
}

SmallVector<int64_t> cuda::epilogueBuffers(exec::MatmulOp product) {
  exec::CallBuffers buffers(product);
  int64_t dst = buffers.numberOf(product.getDstMutable());
  return {dst, buffers.numberOf(product.getPostOperands().back()), dst};
}

FailureOr<cuda::GpuLaunch> cuda::emitEpilogue(exec::MatmulOp product,
                                              mlir::gpu::GPUModuleOp module,
                                              StringRef name) {
  auto count = static_cast<int64_t>(product.getM() * product.getN()) *
               llvm::product_of(product.getBatch());
  Type element = exec::elementType(product.getDst());
  auto tensor = RankedTensorType::get({count}, element);
  OwningOpRef<ModuleOp> holder = ModuleOp::create(module.getLoc());
  auto builder = OpBuilder::atBlockEnd(holder->getBody());
  Location loc = module.getLoc();
  auto kernel = exec::KernelOp::create(
      builder, loc, builder.getStringAttr(name),
      TypeAttr::get(builder.getFunctionType({tensor, tensor}, {tensor})),
      ArrayAttr(), ArrayAttr(), builder.getI64IntegerAttr(0),
      builder.getStringAttr(""), IntegerAttr(), IntegerAttr(),
      exec::PhaseAttr(), exec::GpuKernelAttr());
  Block *block = builder.createBlock(&kernel.getBody());
  Value dy = block->addArgument(tensor, loc),
        x = block->addArgument(tensor, loc);
  builder.setInsertionPointToStart(block);
  Value gradient = nn::GeluGradientOp::create(builder, loc, tensor, dy, x,
                                              builder.getUnitAttr());
  exec::YieldOp::create(builder, loc, gradient);
  FailureOr<codegen::KernelPlan> plan = codegen::planOf(kernel);
  if (failed(plan))
    return failure();
  return GpuEmitter(*plan, module, 0).emit(name);
}

} // namespace kerf
