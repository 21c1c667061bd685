//===- KernelFunctions.cpp - an exec.func around each kernel --------------===//
//
// Shared by the tests of code generation and bench/kernels.
//
//===----------------------------------------------------------------------===//
#include "KernelFunctions.h"

#include "kerf/Exec/Exec.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kerf;

void kerf::test::addFunctions(ModuleOp module) {
  OpBuilder builder(module.getContext());
  builder.setInsertionPointToEnd(module.getBody());
  for (auto kernel : llvm::to_vector(module.getOps<exec::KernelOp>())) {
    SmallVector<Type> types;
    auto add = [&](TypeRange tensors) {
      for (Type type : tensors) {
        auto tensor = cast<RankedTensorType>(type);
        types.push_back(
            MemRefType::get(tensor.getShape(), tensor.getElementType()));
      }
    };
    add(kernel.getArgumentTypes());
    size_t numInputs = types.size();
    add(kernel.getResultTypes());
    OperationState state(kernel.getLoc(), exec::FuncOp::getOperationName());
    state.addAttribute("sym_name",
                       builder.getStringAttr("run_" + kernel.getSymName()));
    state.addAttribute("function_type",
                       TypeAttr::get(builder.getFunctionType(types, {})));
    state.addAttribute("num_inputs", builder.getI64IntegerAttr(numInputs));
    state.addAttribute("stage", builder.getI64IntegerAttr(0));
    state.addAttribute("scratch", builder.getI64IntegerAttr(0));
    state.addAttribute("phase", exec::PhaseAttr::get(builder.getContext(),
                                                     exec::Phase::Forward));
    state.addRegion();
    auto func = cast<exec::FuncOp>(builder.create(state));
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&func.getBody());
    for (Type type : types)
      body->addArgument(type, kernel.getLoc());
    ValueRange arguments = body->getArguments();
    exec::LaunchOp::create(builder, kernel.getLoc(),
                           FlatSymbolRefAttr::get(kernel.getSymNameAttr()),
                           arguments.take_front(numInputs),
                           arguments.drop_front(numInputs));
    exec::ReturnOp::create(builder, kernel.getLoc());
  }
}
