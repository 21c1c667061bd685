//===- Optimizers.cpp - the optimizers ------------------------------------===//
//
// Options have PyTorch's defaults. See Optimizers.h.
//
//===----------------------------------------------------------------------===//
#include "Optimizers.h"

#include "kerf/Format/StepScalars.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

static Operation *buildSGD(ParameterUpdate &u) {
  Value velocity =
      u.spec.option("momentum") != 0 ? u.state("momentum") : Value();
  Value g = u.g;
  double decay = u.decay;
  if (u.spec.option("dampening") != 0) {
    // v' = u v + s (g + d w), s = 1 at the first update, then 1 - dampening.
    if (decay != 0)
      g = u.b.add(g, u.b.mul(u.w, decay));
    g = u.b.mul(g, u.scalar(kGradientWeightInput));
    decay = 0;
  }
  return nn::SGDUpdateOp::create(
      u.ops, u.loc, u.type(), velocity ? u.type() : Type(), u.w, g, velocity,
      u.lr, u.option("momentum"), u.real(decay),
      u.spec.option("nesterov") != 0 ? u.ops.getUnitAttr() : UnitAttr());
}

static StringRef checkSGD(const OptimizerSpec &spec) {
  bool hasMomentum = spec.option("momentum") != 0;
  if (spec.option("nesterov") != 0 && !hasMomentum)
    return "nesterov needs a momentum";
  if (spec.option("dampening") != 0 && !hasMomentum)
    return "dampening needs a momentum";
  if (spec.option("dampening") != 0 && spec.option("nesterov") != 0)
    return "nesterov knows no dampening";
  return "";
}

static Operation *buildAdam(ParameterUpdate &u, bool decoupled) {
  Value m = u.state("adam.m"), v = u.state("adam.v");
  Value c1 = u.scalar(kBiasCorrection1Input),
        c2 = u.scalar(kBiasCorrection2Input);
  return nn::AdamUpdateOp::create(
      u.ops, u.loc, u.type(), u.type(), u.type(), u.w, u.g, m, v, u.lr, c1, c2,
      u.option("beta1"), u.option("beta2"), u.option("eps"), u.real(u.decay),
      decoupled ? u.ops.getUnitAttr() : UnitAttr());
}
static Operation *buildAdam(ParameterUpdate &u) { return buildAdam(u, false); }
static Operation *buildAdamW(ParameterUpdate &u) { return buildAdam(u, true); }

static Operation *buildAdagrad(ParameterUpdate &u) {
  Value sum = u.state("adagrad.sum", u.spec.option("initial"));
  return nn::AdagradUpdateOp::create(u.ops, u.loc, u.type(), u.type(), u.w, u.g,
                                     sum, u.lr, u.option("eps"),
                                     u.real(u.decay));
}

static Operation *buildRMSProp(ParameterUpdate &u) {
  Value v = u.state("rmsprop.v");
  bool hasMomentum = u.spec.option("momentum") != 0;
  Value velocity = hasMomentum ? u.state("rmsprop.momentum") : Value();
  return nn::RMSPropUpdateOp::create(
      u.ops, u.loc, u.type(), u.type(), velocity ? u.type() : Type(), u.w, u.g,
      v, velocity, u.lr, u.option("alpha"), u.option("eps"),
      u.option("momentum"), u.real(u.decay));
}

static constexpr NumberOption kSGD[] = {
    {"momentum", 0, 0, 1}, {"dampening", 0, 0, 1}, {"nesterov", 0, 0, 1, true}};
static constexpr NumberOption kMomentum[] = {{"momentum", 0.9, 0, 1},
                                             {"dampening", 0, 0, 1},
                                             {"nesterov", 0, 0, 1, true}};
// A beta of 1 would make its bias correction 0, a divisor.
static constexpr NumberOption kAdam[] = {{"beta1", 0.9, 0, 0.999999},
                                         {"beta2", 0.999, 0, 0.999999},
                                         {"eps", 1e-8, 0, 1e6}};
static constexpr NumberOption kAdagrad[] = {{"eps", 1e-10, 0, 1e6},
                                            {"initial", 0, 0, 1e6}};
static constexpr NumberOption kRMSProp[] = {
    {"alpha", 0.99, 0, 1}, {"eps", 1e-8, 0, 1e6}, {"momentum", 0, 0, 1}};

static constexpr OptimizerRule kOptimizers[] = {
    {"sgd", kSGD, buildSGD, 1e-3, 0, checkSGD},
    {"momentum", kMomentum, buildSGD, 1e-3, 0, checkSGD},
    {"adam", kAdam, buildAdam},
    {"adamw", kAdam, buildAdamW, 1e-3, 0.01},
    {"adagrad", kAdagrad, buildAdagrad, 0.01},
    {"rmsprop", kRMSProp, buildRMSProp, 0.01},
};

llvm::ArrayRef<OptimizerRule> kerf::autodiff::optimizerRules() {
  return kOptimizers;
}

const OptimizerRule *kerf::autodiff::findOptimizer(StringRef name) {
  for (const OptimizerRule &rule : kOptimizers)
    if (rule.name == name)
      return &rule;
  return nullptr;
}
