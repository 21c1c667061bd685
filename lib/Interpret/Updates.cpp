//===- Updates.cpp - steps of optimizers ----------------------------------===//
//
// The formulas of NNUpdates.td, element by element.
//
//===----------------------------------------------------------------------===//
#include "Evaluate.h"

#include "kerf/NN/NN.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

using Results = llvm::SmallVector<Tensor, 1>;

/// As many results as the op has, of its shape.
static Results resultsOf(Operation *op) {
  return Results(op->getNumResults(), Tensor(resultShape(op)));
}

static Results sgd(nn::SGDUpdateOp op, Operands in) {
  Results out = resultsOf(op);
  double lr = in.back()->data[0];
  double momentum = op.getMomentum().convertToDouble();
  double decay = op.getWeightDecay().convertToDouble();
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    double w = in[0]->data[i], step = in[1]->data[i] + decay * w;
    if (op.getVelocity()) {
      double velocity = momentum * in[2]->data[i] + step;
      out[1].data[i] = velocity;
      step = op.getNesterov() ? step + momentum * velocity : velocity;
    }
    out[0].data[i] = w - lr * step;
  }
  return out;
}

static Results adam(nn::AdamUpdateOp op, Operands in) {
  Results out = resultsOf(op);
  double lr = in[4]->data[0], c1 = in[5]->data[0], c2 = in[6]->data[0];
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  double epsilon = op.getEpsilon().convertToDouble();
  double decay = op.getWeightDecay().convertToDouble();
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    double w = in[0]->data[i], g = in[1]->data[i];
    double m = in[2]->data[i], v = in[3]->data[i];
    if (op.getDecoupled())
      w -= lr * decay * w;
    else
      g += decay * w;
    m += (1 - beta1) * (g - m);
    v = beta2 * v + (1 - beta2) * g * g;
    out[0].data[i] = w - lr / c1 * m / (std::sqrt(v) / std::sqrt(c2) + epsilon);
    out[1].data[i] = m;
    out[2].data[i] = v;
  }
  return out;
}

static Results adagrad(nn::AdagradUpdateOp op, Operands in) {
  Results out = resultsOf(op);
  double lr = in[3]->data[0];
  double epsilon = op.getEpsilon().convertToDouble();
  double decay = op.getWeightDecay().convertToDouble();
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    double w = in[0]->data[i], g = in[1]->data[i] + decay * w;
    double sum = in[2]->data[i] + g * g;
    out[0].data[i] = w - lr * g / (std::sqrt(sum) + epsilon);
    out[1].data[i] = sum;
  }
  return out;
}

llvm::SmallVector<Tensor, 1>
kerf::interpret::evaluateUpdate(Operation *op, Operands operands) {
  if (auto it = dyn_cast<nn::SGDUpdateOp>(op))
    return sgd(it, operands);
  if (auto it = dyn_cast<nn::AdamUpdateOp>(op))
    return adam(it, operands);
  if (auto it = dyn_cast<nn::AdagradUpdateOp>(op))
    return adagrad(it, operands);
  return {};
}
