//===- Structure.cpp - kernels that are the same --------------------------===//
#include "Structure.h"

using namespace mlir;

namespace kerf::codegen {

std::vector<const void *> structureOf(exec::KernelOp kernel) {
  std::vector<const void *> key;
  llvm::DenseMap<Value, uintptr_t> numbers;
  auto number = [&](Value value) {
    auto [it, inserted] = numbers.try_emplace(value, numbers.size());
    return reinterpret_cast<const void *>(it->second);
  };
  Block &body = kernel.getBody().front();
  key.push_back(kernel.getFunctionType().getAsOpaquePointer());
  for (BlockArgument argument : body.getArguments())
    number(argument);
  for (Operation &op : body) {
    key.push_back(op.getName().getAsOpaquePointer());
    key.push_back(op.getPropertiesAsAttribute().getAsOpaquePointer());
    key.push_back(reinterpret_cast<const void *>(
        static_cast<uintptr_t>(op.getNumOperands())));
    for (Value operand : op.getOperands())
      key.push_back(number(operand));
    for (Value result : op.getResults()) {
      number(result);
      key.push_back(result.getType().getAsOpaquePointer());
    }
  }
  return key;
}

FailureOr<KernelPlan> planOf(exec::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  SmallVector<Value> outputs(body.getTerminator()->getOperands());
  KernelPlan plan = planKernel(ops, outputs);
  if (!plan.supported)
    return kernel.emitOpError("cannot become one kernel: ") << plan.reason;
  llvm::SetVector<Value> inputs;
  for (BlockArgument argument : body.getArguments())
    inputs.insert(argument);
  plan.inputs = std::move(inputs);
  return plan;
}

} // namespace kerf::codegen
