//===- TrainingSteps.cpp - steps of optimizers as operators ---------------===//
//
// Domain ai.onnx.preview.training: a model that carries its own step. Inputs
// are the rate, the number of the step, then all tensors, all gradients and all
// of each further state; outputs the new tensors and states in that order.
// (Steps that Kerf derives itself are made by lib/Autodiff.)
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Values = SmallVector<Value>;

namespace {
/// What a step gets of one tensor: `of[0]` its value, `of[1]` its gradient,
/// then states. Scalars have its type.
struct Step {
  Node &node;
  Value rate, count;
  Values of;

  Value add(Value x, Value y) { return node.add(x, y); }
  Value mul(Value x, double y) { return node.mul(x, y); }
  Value mul(Value x, Value y) { return node.mul(x, y); }
  Value sqrt(Value x) { return node.make<SqrtOp>({x}); }
  Value number(double value) { return node.scalar(value, elementOf(of[0])); }
  /// With the gradient of half the squared norm.
  Value gradient() {
    return add(mul(of[0], node.real("norm_coefficient", 0)), of[1]);
  }
  /// 0 in the first step.
  Value isLater() { return node.make<LessOp>({number(0), count}); }
};
} // namespace

/// `states` besides a tensor and its gradient; `update` gives the new tensor
/// and states.
static LogicalResult stepOf(Node &node, size_t states,
                            llvm::function_ref<Values(Step &)> update) {
  if (failed(node.arity(2 + (2 + states), 1 << 16, 1 << 16)))
    return failure();
  size_t each = 2 + states, count = (node.inputs.size() - 2) / each;
  if ((node.inputs.size() - 2) % each != 0 ||
      node.outputs.size() > count * (1 + states))
    return node.error("has " + Twine(node.inputs.size()) +
                      " inputs, expected 2 and " + Twine(each) +
                      " for each tensor");
  for (int index : {0, 1})
    if (typeOf(node.in(index)).getNumElements() != 1)
      return node.error("input " + Twine(index) + " must be one number");
  for (size_t tensor = 0; tensor < count; ++tensor) {
    Values of;
    for (size_t kind = 0; kind < each; ++kind) {
      Value value = node.in(2 + kind * count + tensor);
      if (!value || (kind && value.getType() != of[0].getType()))
        return node.error("a tensor, its gradient and its states have "
                          "different types");
      of.push_back(value);
    }
    auto scalar = [&](size_t index) {
      return node.cast(node.reshape(node.in(index), {}), elementOf(of[0]));
    };
    Step step{node, scalar(0), scalar(1), of};
    for (auto [kind, value] : llvm::enumerate(update(step)))
      if (size_t index = kind * count + tensor; index < node.outputs.size())
        if (failed(node.set(index, value)))
          return failure();
  }
  return success();
}

static LogicalResult adagrad(Node &node) {
  double decay = node.real("decay_factor", 0);
  double epsilon = node.real("epsilon", 1e-6f);
  return stepOf(node, 1, [&](Step &s) {
    Value g = s.gradient();
    Value rate = node.div(s.rate, node.add(s.mul(s.count, decay), 1));
    Value h = s.add(s.of[2], s.mul(g, g));
    Value step = node.div(s.mul(rate, g), node.add(s.sqrt(h), epsilon));
    return Values{node.sub(s.of[0], step), h};
  });
}

static LogicalResult momentum(Node &node) {
  for (StringRef name : {"alpha", "beta", "mode", "norm_coefficient"})
    node.requireAttribute(name);
  double alpha = node.real("alpha", 0), beta = node.real("beta", 1);
  std::string mode = node.text("mode", "standard");
  if (node.failed)
    return failure();
  if (mode != "standard" && mode != "nesterov")
    return node.error("mode is \"" + mode + "\"");
  return stepOf(node, 1, [&](Step &s) {
    Value g = s.gradient();
    Value factor = node.select(s.isLater(), s.number(beta), s.number(1));
    Value v = s.add(s.mul(s.of[2], alpha), s.mul(factor, g));
    Value way = mode == "nesterov" ? s.add(g, s.mul(v, alpha)) : v;
    return Values{node.sub(s.of[0], s.mul(s.rate, way)), v};
  });
}

static LogicalResult adam(Node &node) {
  double alpha = node.real("alpha", 0.9f), beta = node.real("beta", 0.999f);
  double epsilon = node.real("epsilon", 1e-6f);
  double after = node.real("norm_coefficient_post", 0);
  return stepOf(node, 2, [&](Step &s) {
    Value g = s.gradient();
    Value v = s.add(s.mul(s.of[2], alpha), s.mul(g, 1 - alpha));
    Value h = s.add(s.mul(s.of[3], beta), s.mul(s.mul(g, g), 1 - beta));
    auto lost = [&](double factor) { // 1 - factor^count
      Value power = node.make<PowOp>({s.number(factor), s.count});
      return node.sub(s.number(1), power);
    };
    Value corrected = node.div(s.mul(s.rate, s.sqrt(lost(beta))), lost(alpha));
    Value rate = node.select(s.isLater(), corrected, s.rate);
    Value step = node.div(s.mul(rate, v), node.add(s.sqrt(h), epsilon));
    return Values{s.mul(node.sub(s.of[0], step), 1 - after), v, h};
  });
}

void kerf::onnx_import::addTrainingSteps(HandlerTable &table) {
  table.add("Adagrad", 1, adagrad);
  table.add("Momentum", 1, momentum);
  table.add("Adam", 1, adam);
}
