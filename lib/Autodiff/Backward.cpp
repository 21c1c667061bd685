//===- Backward.cpp - reverse mode ----------------------------------------===//
//
// Visits ops in reverse order; each passes the gradient of its results through
// its vector-Jacobian product to its operands. Only ops between a trained
// parameter and the loss take part. Contributions are added where a value has
// several uses; in reverse order, the sum belongs to the earlier user. Every op
// without a gradient is reported.
//
//===----------------------------------------------------------------------===//
#include "Step.h"

#include "kerf/Dist/MovePurpose.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

namespace {

/// Runs `call` and collects its diagnostics.
template <typename Call>
auto listening(MLIRContext *context, std::string &text, Call call) {
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (text.empty())
      text = diagnostic.str();
    return success();
  });
  return call();
}

} // namespace

LogicalResult Step::buildBackward() {
  // Float values that depend on a trained parameter.
  llvm::DenseSet<Value> varied;
  for (const Parameter &parameter : parameters)
    varied.insert(parameter.value);
  SmallVector<Operation *> path;
  for (Operation &op : body().without_terminator()) {
    if (stopsGradient(&op) || !llvm::any_of(op.getOperands(), [&](Value value) {
          return varied.contains(value);
        }))
      continue;
    path.push_back(&op);
    for (Value result : op.getResults())
      if (nn::isDifferentiable(result))
        varied.insert(result);
  }

  llvm::MapVector<Value, Value> gradients;
  Operation *last = loss().getDefiningOp();
  tag = {dist::Phase::BackwardInput, last ? colocationOf(last) : 0, {}};
  GradientBuilder seed = at(loss().getLoc());
  Value scale = lossScale();
  gradients[loss()] =
      scale ? seed.castLike(scale, loss()) : seed.number(1, loss());
  bool isMissing = false;
  for (Operation *op : llvm::reverse(path)) {
    SmallVector<Value> received;
    for (Value result : op->getResults())
      received.push_back(gradients.lookup(result));
    if (llvm::all_of(received, [](Value value) { return !value; }))
      continue;
    tag.colocation = colocationOf(op);
    // The gradient of what a statistic is taken of is none.
    tag.purpose.reset();
    if (dist::PurposeAttr purpose = dist::purposeOfOperands(op))
      tag.purpose = purpose.getValue();
    std::string why;
    FailureOr<SmallVector<Value>> given = mlir::failure();
    if (auto differentiable = dyn_cast<DifferentiableInterface>(op))
      given = listening(context, why, [&] {
        return differentiable.buildVectorJacobianProduct(ops, received);
      });
    if (failed(given)) {
      isMissing = true;
      (void)refuse(prefixOf(op) + "'" + op->getName().getStringRef() +
                       "' has no gradient" + (why.empty() ? "" : ": " + why),
                   op->getLoc());
      // Continue, so that all such ops are reported.
      given = SmallVector<Value>();
      for (Value operand : op->getOperands())
        given->push_back(
            nn::isDifferentiable(operand)
                ? at(op->getLoc())
                      .broadcast(
                          at(op->getLoc()).number(0, operand),
                          cast<RankedTensorType>(operand.getType()).getShape())
                : Value());
    }
    for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), *given))
      if (gradient && varied.contains(operand)) {
        Value &sum = gradients[operand];
        sum = sum ? at(op->getLoc()).add(sum, gradient) : gradient;
      }
  }
  if (isMissing) {
    note("parameters before these ops can stay as they are: option "
         "frozen=REGEX");
    return mlir::failure();
  }

  // Values computed from parameters alone (a rounded weight) are no
  // activations.
  llvm::DenseSet<Operation *> ofParameters;
  for (Operation &op : body().without_terminator())
    if (isa<SourceOpInterface>(op) ||
        llvm::all_of(op.getOperands(), [&](Value operand) {
          Operation *def = operand.getDefiningOp();
          return def && ofParameters.contains(def);
        }))
      ofParameters.insert(&op);
  SmallVector<Value> activations;
  for (auto &[value, gradient] : gradients)
    if (Operation *def = value.getDefiningOp();
        !def || !ofParameters.contains(def))
      activations.push_back(gradient);
  classifyBackward(activations);
  llvm::erase_if(parameters, [&](Parameter &parameter) {
    parameter.gradient = gradients.lookup(parameter.value);
    if (!parameter.gradient) {
      // Only ops with zero derivative (floor, sign) read it.
      auto type = cast<RankedTensorType>(parameter.value.getType());
      kept.push_back(
          {parameter.label, type.getShape().vec(), KeptWhy::NoGradient});
      makeConstant(parameter.value);
    }
    return !parameter.gradient;
  });
  if (failed(checkTrainable()))
    return mlir::failure();
  if (parameters.empty())
    return request("nothing to train: no gradient reaches a parameter");
  for (Parameter &parameter : parameters) {
    parameter.colocation = INT64_MAX;
    for (Operation *user : parameter.value.getUsers())
      if (dist::getPhase(user) == dist::Phase::Forward)
        parameter.colocation =
            std::min(parameter.colocation, colocationOf(user));
  }
  return success();
}
