//===- Structure.cpp - kernels that are the same --------------------------===//
#include "Structure.h"

#include "kerf/NN/NN.h"

using namespace mlir;

namespace kerf::codegen {

/// The slices that read `argument`, also through a reshape; none if anything
/// else reads it, if they see it in different shapes, or go backwards.
static SmallVector<nn::SliceOp> onlySlicesOf(BlockArgument argument) {
  SmallVector<nn::SliceOp> slices;
  auto collect = [&](Value source) {
    return llvm::all_of(source.getUsers(), [&](Operation *user) {
      auto slice = dyn_cast<nn::SliceOp>(user);
      if (!slice || slice.getType().getNumElements() == 0 ||
          llvm::any_of(slice.getStrides(), [](int64_t s) { return s < 0; }) ||
          (!slices.empty() &&
           slice.getX().getType() != slices.front().getX().getType()))
        return false;
      slices.push_back(slice);
      return true;
    });
  };
  for (Operation *user : argument.getUsers()) {
    auto reshape = dyn_cast<nn::ReshapeOp>(user);
    if (!(reshape ? collect(reshape.getResult()) : collect(argument)))
      return {};
    if (!reshape) // and all its other users
      break;
  }
  return slices;
}

PlacedKernel placeInputs(exec::KernelOp kernel) {
  PlacedKernel placed{kernel, {}, {}};
  Block &body = kernel.getBody().front();
  for (BlockArgument argument : body.getArguments()) {
    SmallVector<nn::SliceOp> slices = onlySlicesOf(argument);
    if (slices.empty())
      continue;
    ArrayRef<int64_t> shape = slices.front().getX().getType().getShape();
    SmallVector<int64_t> first(slices.front().getStarts());
    for (nn::SliceOp slice : slices)
      for (auto [least, start] : llvm::zip_equal(first, slice.getStarts()))
        least = std::min(least, start);
    int64_t offset = 0;
    for (auto [size, start] : llvm::zip_equal(shape, first))
      offset = offset * size + start;
    if (!offset)
      continue;
    if (!placed.owner) { // the module's kernel says what it reads
      placed.owner = kernel.clone();
      placed.kernel = *placed.owner;
      placed.byteOffsets.assign(body.getNumArguments(), 0);
    }
    unsigned number = argument.getArgNumber();
    placed.byteOffsets[number] =
        offset * exec::elementBytes(
                     cast<ShapedType>(argument.getType()).getElementType());
    for (nn::SliceOp slice :
         onlySlicesOf(placed.kernel.getBody().getArgument(number))) {
      SmallVector<int64_t> starts(slice.getStarts());
      for (auto [start, least] : llvm::zip_equal(starts, first))
        start -= least;
      slice.setStarts(starts);
    }
  }
  return placed;
}

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

SmallVector<Operation *> failingOps(ArrayRef<Operation *> ops) {
  SmallVector<Operation *> failing;
  llvm::copy_if(ops, std::back_inserter(failing), [](Operation *op) {
    return isa<nn::GatherOp>(op) || nn::dividesIntegers(op);
  });
  return failing;
}

} // namespace kerf::codegen
