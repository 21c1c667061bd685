//===- Loops.cpp - nn.loop, iteration by iteration ------------------------===//
#include "Evaluate.h"

#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

using Tensors = llvm::SmallVector<Tensor, 1>;

/// What the body yields of its arguments.
static FailureOr<Tensors> runBody(nn::LoopOp loop, Tensors arguments,
                                  ComputeOp compute) {
  llvm::DenseMap<Value, Tensor> values;
  for (auto [argument, tensor] :
       llvm::zip_equal(loop.getBlock().getArguments(), arguments))
    values[argument] = std::move(tensor);
  for (Operation &op : loop.getBlock().without_terminator()) {
    llvm::SmallVector<const Tensor *> operands;
    for (Value operand : op.getOperands())
      operands.push_back(&values.find(operand)->second);
    FailureOr<Tensors> results = compute(&op, operands);
    if (failed(results))
      return failure();
    for (auto [value, result] : llvm::zip_equal(op.getResults(), *results))
      values[value] = std::move(result);
  }
  Tensors yielded;
  for (Value value : loop.getYielded())
    yielded.push_back(values.find(value)->second);
  return yielded;
}

FailureOr<Tensors> kerf::interpret::evaluateLoop(Operation *op,
                                                 Operands operands,
                                                 ComputeOp compute) {
  auto loop = cast<nn::LoopOp>(op);
  size_t numCarried = loop.getNumCarried();
  double trip = operands[0]->data[0];
  if (loop.getLimit())
    trip = std::min(trip, double(*loop.getLimit()));
  bool goesOn = operands[1]->data[0] != 0;
  Tensors carried;
  for (const Tensor *init : operands.slice(2, numCarried))
    carried.push_back(*init);
  Tensors stacks;
  for (Value stack : loop.getStacks())
    stacks.emplace_back(cast<RankedTensorType>(stack.getType()).getShape());
  int64_t count = 0;
  for (; double(count) < trip && goesOn; ++count) {
    Tensors arguments;
    arguments.emplace_back(llvm::ArrayRef<int64_t>(), double(count));
    llvm::append_range(arguments, carried);
    for (const Tensor *capture : operands.drop_front(2 + numCarried))
      arguments.push_back(*capture);
    FailureOr<Tensors> yielded = runBody(loop, std::move(arguments), compute);
    if (failed(yielded))
      return failure();
    goesOn = (*yielded)[0].data[0] != 0;
    for (size_t index = 0; index < numCarried; ++index)
      carried[index] = std::move((*yielded)[1 + index]);
    for (size_t index = 0; index < stacks.size(); ++index) {
      const Tensor &part = (*yielded)[1 + numCarried + index];
      std::copy(part.data.begin(), part.data.end(),
                stacks[index].data.begin() +
                    count * static_cast<int64_t>(part.data.size()));
    }
  }
  Tensors results;
  results.emplace_back(llvm::ArrayRef<int64_t>(), double(count));
  llvm::append_range(results, carried);
  llvm::append_range(results, stacks);
  return results;
}
