//===- Whole.cpp - a function as it stands --------------------------------===//
//
// One device, all of the batch, op by op. A training step reads the old values
// of what it assigns to its end.
//
//===----------------------------------------------------------------------===//
#include "Evaluate.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

std::string kerf::interpret::sourceKey(Operation *source) {
  std::string key = cast<SourceOpInterface>(source).getSourceName().str();
  // Views of one weight are sources of their own.
  if (auto weight = dyn_cast<nn::WeightOp>(source))
    if (DenseI64ArrayAttr starts = weight.getStartsAttr())
      for (int64_t start : starts.asArrayRef())
        key += "," + std::to_string(start);
  return key;
}

FailureOr<Tensor> kerf::interpret::firstValue(Operation *source,
                                              const Weights &weights) {
  if (isa<nn::WeightOp>(source))
    return weights(source);
  if (auto state = dyn_cast<nn::StateOp>(source)) {
    auto global = source->getAttrOfType<TypeAttr>(dist::kGlobalType);
    auto type = cast<RankedTensorType>(global ? global.getValue()
                                              : source->getResult(0).getType());
    return Tensor(type.getShape(),
                  cast<FloatAttr>(state.getInit()).getValueAsDouble());
  }
  auto result = evaluate(source, {});
  if (failed(result))
    return failure();
  return std::move(result->front());
}

FailureOr<std::vector<Tensor>> kerf::interpret::run(func::FuncOp function,
                                                    ArrayRef<Tensor> inputs,
                                                    const Weights &weights,
                                                    State *state) {
  llvm::DenseMap<Value, Tensor> values;
  State assigned;
  for (auto [argument, input] :
       llvm::zip_equal(function.getArguments(), inputs))
    values[argument] = input;
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (isa<SourceOpInterface>(op)) {
      auto known = state ? state->find(sourceKey(&op)) : State::iterator();
      auto first = state && known != state->end()
                       ? FailureOr<Tensor>(known->second)
                       : firstValue(&op, weights);
      if (failed(first))
        return failure();
      values[op.getResult(0)] = std::move(*first);
      continue;
    }
    if (auto accumulate = dyn_cast<dist::AccumulateOp>(op)) {
      Tensor x = values[accumulate.getX()];
      values[accumulate.getResult()] = std::move(x);
      continue;
    }
    if (auto assign = dyn_cast<dist::AssignOp>(op)) {
      assigned[sourceKey(assign.getSource().getDefiningOp())] =
          values[assign.getValue()];
      continue;
    }
    llvm::SmallVector<const Tensor *> operands;
    for (Value operand : op.getOperands())
      operands.push_back(&values[operand]);
    auto results = evaluate(&op, operands);
    if (failed(results))
      return failure();
    for (auto [value, result] : llvm::zip(op.getResults(), *results))
      values[value] = std::move(result);
  }
  if (state)
    for (auto &[key, value] : assigned)
      (*state)[key] = std::move(value);
  std::vector<Tensor> outputs;
  for (Value value : function.getBody().front().getTerminator()->getOperands())
    outputs.push_back(values[value]);
  return outputs;
}
