//===- Updates.cpp - steps of optimizers ----------------------------------===//
//
// The formulas of NNUpdates.td, element by element.
//
//===----------------------------------------------------------------------===//
#include "Evaluate.h"

#include "kerf/NN/IR/Elements.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

using Results = llvm::SmallVector<Tensor, 1>;

template <typename Op> static Results update(Op op, Operands operands) {
  const nn::HostFloats s;
  Results results(op->getNumResults(), Tensor(resultShape(op)));
  llvm::SmallVector<double> x(operands.size());
  for (size_t i = 0; i < results[0].data.size(); ++i) {
    for (auto [element, operand] : llvm::zip_equal(x, operands))
      element = operand->data[operand->shape.empty() ? 0 : i];
    for (auto [result, element] :
         llvm::zip_equal(results, op.step(s, ArrayRef<double>(x))))
      result.data[i] = element;
  }
  return results;
}

Results kerf::interpret::evaluateUpdate(Operation *op, Operands operands) {
  Results results;
  nn::visitOps(op, [&](auto typed) {
    if constexpr (decltype(typed)::template hasTrait<nn::Update>())
      results = update(typed, operands);
    return true;
  });
  return results;
}
