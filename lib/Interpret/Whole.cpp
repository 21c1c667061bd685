//===- Whole.cpp - runs an unpartitioned function -------------------------===//
//
// One device, the whole batch, op by op. A training step reads the old values
// of sources until its end.
//
//===----------------------------------------------------------------------===//
#include "Evaluate.h"
#include "Unfused.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

#include <functional>

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
  RunOptions options;
  options.state = state;
  return run(function, inputs.vec(), weights, options);
}

namespace {

/// The values of a running function; each is freed behind its last use.
class Frame {
public:
  void set(Value value, Tensor tensor) {
    if (!value.use_empty())
      live[value] = {std::move(tensor),
                     std::distance(value.use_begin(), value.use_end())};
  }
  const Tensor *get(Value value) const {
    return &live.find(value)->second.first;
  }
  void used(Value value) {
    auto entry = live.find(value);
    if (--entry->second.second == 0)
      live.erase(entry);
  }

private:
  llvm::DenseMap<Value, std::pair<Tensor, int64_t>> live;
};

} // namespace

/// The floats of `tensor`, each displaced at random, so that numbers that were
/// nearly equal become less or greater. Whole numbers (0, positions, bounds)
/// are exact. `aroundZero`: only numbers that this may bring to the other side
/// of 0.
static Tensor displaced(const Tensor &tensor, FloatType type, double units,
                        bool aroundZero, std::mt19937_64 &random) {
  double largest = 0;
  for (double number : tensor.data)
    if (std::isfinite(number))
      largest = std::max(largest, std::fabs(number));
  // What is stored in a narrower type is computed in f32 and rounded once.
  int width = static_cast<int>(type.getFPMantissaWidth());
  double many = units * std::ldexp(largest, -std::max(width, 24)),
         few = std::clamp(units, -4.0, 4.0) * std::ldexp(largest, -width);
  double most = std::fabs(many) > std::fabs(few) ? many : few;
  std::uniform_real_distribution<double> moves(-0.5, 0.5);
  Tensor result = tensor;
  for (double &number : result.data)
    if (double move = most * moves(random);
        number != std::nearbyint(number) &&
        (!aroundZero || std::fabs(number) < std::fabs(most)))
      number += move;
  return result;
}

/// Whether the result, or its slope, jumps where a float crosses another.
static bool hasBorder(Operation *op) {
  return (op->hasTrait<nn::Border>() || op->hasTrait<nn::BorderAtZero>()) &&
         isa<FloatType>(getElementTypeOrSelf(op->getOperand(0).getType()));
}

/// What the numbers that `op` adds up to each element come to without their
/// signs; none: it adds nothing up, or to a type so narrow that the rounding of
/// the result is all there is (sums are in f32).
static MaybeTensor
termsOfSum(Operation *op, Operands operands,
           llvm::function_ref<FailureOr<llvm::SmallVector<Tensor, 1>>(Operands)>
               compute) {
  if (!nn::isSumOfProducts(op) ||
      cast<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()))
              .getFPMantissaWidth() < 24)
    return std::nullopt;
  std::vector<Tensor> unsignedOnes;
  unsignedOnes.reserve(operands.size());
  for (auto [operand, value] : llvm::zip_equal(operands, op->getOperands())) {
    unsignedOnes.push_back(*operand);
    if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
      for (double &number : unsignedOnes.back().data)
        number = std::fabs(number);
  }
  auto sums = compute(llvm::to_vector(llvm::make_pointer_range(unsignedOnes)));
  if (failed(sums))
    return std::nullopt;
  return std::move(sums->front());
}

FailureOr<std::vector<Tensor>> kerf::interpret::run(func::FuncOp function,
                                                    std::vector<Tensor> inputs,
                                                    const Weights &weights,
                                                    const RunOptions &options) {
  Frame frame;
  State assigned;
  State *state = options.state;
  std::mt19937_64 random(options.seed);
  auto rounded = [&](Value value, Tensor tensor,
                     const MaybeTensor &terms = std::nullopt) {
    Type type = getElementTypeOrSelf(value.getType());
    if (options.rounding == Rounding::Wide && (type.isF16() || type.isBF16()))
      type = Float32Type::get(type.getContext());
    if (options.rounding == Rounding::Random)
      roundRandomlyTo(tensor, type, options.roundingUnits, random,
                      terms ? &*terms : nullptr);
    else if (options.rounding != Rounding::None)
      roundTo(tensor, type);
    return tensor;
  };
  using Results = FailureOr<llvm::SmallVector<Tensor, 1>>;
  std::function<Results(Operation *, Operands)> compute =
      [&](Operation *op, Operands operands) -> Results {
    if (isa<nn::LoopOp>(op))
      return evaluateLoop(op, operands, compute);
    llvm::SmallVector<Tensor, 2> moved;
    llvm::SmallVector<const Tensor *, 2> near;
    if (options.rounding == Rounding::Choices && hasBorder(op)) {
      for (auto [operand, value] : llvm::zip_equal(operands, op->getOperands()))
        moved.push_back(displaced(
            *operand, cast<FloatType>(getElementTypeOrSelf(value.getType())),
            options.roundingUnits,
            /*aroundZero=*/op->hasTrait<nn::BorderAtZero>(), random));
      for (const Tensor &tensor : moved)
        near.push_back(&tensor);
      operands = near;
    }
    auto evaluated = [&](Operands of) -> Results {
      if (auto unfused = options.unfused
                             ? evaluateUnfused(op, of, options.threads)
                             : std::nullopt)
        return llvm::SmallVector<Tensor, 1>{std::move(*unfused)};
      return evaluate(op, of);
    };
    Results results = evaluated(operands);
    if (failed(results))
      return failure();
    MaybeTensor terms;
    if (options.rounding == Rounding::Random)
      terms = termsOfSum(op, operands, evaluated);
    for (auto [value, result] : llvm::zip(op->getResults(), *results))
      result = rounded(value, std::move(result), terms);
    return results;
  };
  for (auto [argument, input] :
       llvm::zip_equal(function.getArguments(), inputs))
    frame.set(argument, std::move(input));
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (isa<SourceOpInterface>(op)) {
      auto known = state ? state->find(sourceKey(&op)) : State::iterator();
      auto first = state && known != state->end()
                       ? FailureOr<Tensor>(known->second)
                       : firstValue(&op, weights);
      if (failed(first))
        return failure();
      frame.set(op.getResult(0), rounded(op.getResult(0), std::move(*first)));
      continue;
    }
    if (auto assign = dyn_cast<dist::AssignOp>(op)) {
      assigned[sourceKey(assign.getSource().getDefiningOp())] =
          *frame.get(assign.getValue());
    } else {
      llvm::SmallVector<const Tensor *> operands;
      for (Value operand : op.getOperands())
        operands.push_back(frame.get(operand));
      if (options.updates && op.hasTrait<nn::Update>())
        options.updates(&op, operands);
      Results results = failure();
      if (isa<dist::AccumulateOp>(op))
        results = llvm::SmallVector<Tensor, 1>{
            rounded(op.getResult(0), *operands[0])};
      else
        results = compute(&op, operands);
      if (failed(results))
        return failure();
      if (options.seen && !options.seen(&op, *results))
        return std::vector<Tensor>();
      for (auto [value, result] : llvm::zip(op.getResults(), *results))
        frame.set(value, std::move(result));
    }
    for (Value operand : op.getOperands())
      frame.used(operand);
  }
  if (state)
    for (auto &[key, value] : assigned)
      (*state)[key] = std::move(value);
  std::vector<Tensor> outputs;
  for (Value value : function.getBody().front().getTerminator()->getOperands())
    outputs.push_back(*frame.get(value));
  return outputs;
}
