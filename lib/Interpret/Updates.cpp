//===- Updates.cpp - steps of optimizers ----------------------------------===//
//
// The formulas of NNUpdates.td, element by element.
//
//===----------------------------------------------------------------------===//
#include "Evaluate.h"
#include "Unfused.h"

#include "kerf/NN/IR/Elements.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

using Results = llvm::SmallVector<Tensor, 1>;

/// The numbers that are tried of a range.
static llvm::SmallVector<double, 3> range(double number, double distance) {
  if (distance == 0)
    return {number};
  llvm::SmallVector<double, 3> ends{number - distance, number + distance};
  if (std::fabs(number) < distance)
    ends.push_back(0);
  return ends;
}

/// Operands and results of a step: the parameter and its states, in this order;
/// of the operands the gradient is the second.
template <typename Op>
static void moveElement(Op op, llvm::MutableArrayRef<double> x, double gradient,
                        llvm::MutableArrayRef<double> moves) {
  const nn::HostFloats s;
  auto base = op.step(s, ArrayRef<double>(x));
  size_t count = base.size();
  llvm::SmallVector<llvm::SmallVector<double, 3>> ranges;
  for (size_t i = 1; i <= count; ++i)
    ranges.push_back(range(x[i], i == 1 ? gradient : moves[i - 1]));
  llvm::SmallVector<double> own(count, 0);
  llvm::SmallVector<size_t> at(count, 0);
  for (bool more = true; more;) {
    for (size_t i = 0; i < count; ++i)
      x[i + 1] = ranges[i][at[i]];
    auto moved = op.step(s, ArrayRef<double>(x));
    if (std::isnan(moved[0])) { // of a mean of squares below 0
      for (size_t i = 1; i < count; ++i)
        x[i + 1] = std::max(x[i + 1], 0.0);
      moved = op.step(s, ArrayRef<double>(x));
    }
    for (size_t i = 0; i < count; ++i)
      if (double distance = std::fabs(moved[i] - base[i]);
          std::isfinite(distance))
        own[i] = std::max(own[i], distance);
    more = false;
    for (size_t i = 0; i < count && !more; ++i) {
      more = ++at[i] < ranges[i].size();
      if (!more)
        at[i] = 0;
    }
  }
  moves[0] += own[0];
  std::copy(own.begin() + 1, own.end(), moves.begin() + 1);
}

template <typename Op>
static void moveAll(Op op, Operands operands, double gradient, unsigned threads,
                    UpdateMoves &moves) {
  size_t count = operands[0]->data.size(), results = op->getNumResults();
  moves.resize(results);
  for (std::vector<float> &part : moves)
    part.resize(count);
  parallelFor(int64_t(count), 4096, threads, [&](int64_t begin, int64_t end) {
    llvm::SmallVector<double> x(operands.size()), own(results);
    for (auto i = size_t(begin); i < size_t(end); ++i) {
      for (auto [element, operand] : llvm::zip_equal(x, operands))
        element = operand->data[operand->shape.empty() ? 0 : i];
      for (size_t part = 0; part < results; ++part)
        own[part] = moves[part][i];
      moveElement(op, x, gradient, own);
      for (size_t part = 0; part < results; ++part)
        moves[part][i] = float(own[part]);
    }
  });
}

void kerf::interpret::moveUpdate(Operation *op, Operands operands,
                                 double gradient, unsigned threads,
                                 UpdateMoves &moves) {
  nn::visitOps(op, [&](auto typed) {
    if constexpr (decltype(typed)::template hasTrait<nn::Update>())
      moveAll(typed, operands, gradient, threads, moves);
    return true;
  });
}

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
