//===- GpuEpilogue.cpp - a product's last post-op as a kernel -------------===//
//
// cuBLASLt may refuse to multiply a product by the slope of GELU. For that case
// the package has the slope as a kernel: dst = dst * gelu'(operand), both
// dense, the expressions that autodiff would have left.
//
//===----------------------------------------------------------------------===//
#include "GpuCalls.h"

#include "../Codegen/Structure.h"

#include "kerf/Lower/Gpu.h"
#include "kerf/NN/NN.h"

using namespace mlir;

namespace kerf {

static DictionaryAttr lastPostOp(DictionaryAttr descriptor) {
  auto kind = descriptor.getAs<StringAttr>("kind");
  auto ops = descriptor.getAs<ArrayAttr>("post_ops");
  if (!kind || kind != "matmul" || !ops || ops.empty())
    return {};
  return cast<DictionaryAttr>(ops[ops.size() - 1]);
}

bool cuda::hasEpilogueKernel(DictionaryAttr descriptor) {
  DictionaryAttr last = lastPostOp(descriptor);
  auto kind = last ? last.getAs<StringAttr>("kind") : StringAttr();
  return kind && kind == "gelu_tanh_gradient";
}

SmallVector<int64_t> cuda::epilogueBuffers(DictionaryAttr descriptor) {
  auto number = [](DictionaryAttr entry, StringRef key) {
    return entry.getAs<DictionaryAttr>(key)
        .getAs<IntegerAttr>("buffer")
        .getInt();
  };
  int64_t dst = number(descriptor, "dst");
  return {dst, number(lastPostOp(descriptor), "operand"), dst};
}

FailureOr<cuda::GpuLaunch> cuda::emitEpilogue(DictionaryAttr descriptor,
                                              mlir::gpu::GPUModuleOp module,
                                              StringRef name) {
  auto number = [&](StringRef key) {
    return descriptor.getAs<IntegerAttr>(key).getInt();
  };
  int64_t count = number("m") * number("n");
  if (auto batch = descriptor.getAs<ArrayAttr>("batch"))
    for (Attribute size : batch)
      count *= cast<IntegerAttr>(size).getInt();
  auto dtype = descriptor.getAs<StringAttr>("dst_dtype");
  if (!dtype)
    dtype = descriptor.getAs<StringAttr>("dtype");
  Builder types(module.getContext());
  Type element = dtype == "bf16"  ? types.getBF16Type()
                 : dtype == "f16" ? types.getF16Type()
                                  : Type(types.getF32Type());
  auto tensor = RankedTensorType::get({count}, element);
  OwningOpRef<ModuleOp> holder = ModuleOp::create(module.getLoc());
  auto builder = OpBuilder::atBlockEnd(holder->getBody());
  Location loc = module.getLoc();
  auto kernel = exec::KernelOp::create(
      builder, loc, builder.getStringAttr(name),
      TypeAttr::get(builder.getFunctionType({tensor, tensor}, {tensor})),
      ArrayAttr(), ArrayAttr(), builder.getI64IntegerAttr(0),
      builder.getStringAttr(""), IntegerAttr(), IntegerAttr());
  Block *block = builder.createBlock(&kernel.getBody());
  Value dy = block->addArgument(tensor, loc),
        x = block->addArgument(tensor, loc);
  builder.setInsertionPointToStart(block);
  auto gelu =
      nn::GeluOp::create(builder, loc, tensor, x, builder.getUnitAttr());
  auto gradient = cast<DifferentiableInterface>(gelu.getOperation())
                      .buildVectorJacobianProduct(builder, {dy});
  if (failed(gradient))
    return failure();
  exec::YieldOp::create(builder, loc, ValueRange{gradient->front()});
  if (gelu->use_empty())
    gelu->erase();
  FailureOr<codegen::KernelPlan> plan = codegen::planOf(kernel);
  if (failed(plan))
    return failure();
  return GpuEmitter(*plan, module, 0).emit(name);
}

} // namespace kerf
