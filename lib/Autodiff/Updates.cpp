//===- Updates.cpp - from gradients to new parameters ---------------------===//
//
// Once per step: gradients of all micro-batches are summed (dist.accumulate),
// clipped by their global norm as torch.nn.utils.clip_grad_norm_ does, and
// handed to the optimizer. Everything that the step changes is assigned at its
// end. With --on-nan=skip, and in float16, all of it keeps its old value where
// the loss or the norm is not finite.
//
//===----------------------------------------------------------------------===//
#include "Optimizers.h"
#include "Step.h"

#include "kerf/Format/StepScalars.h"

#include <limits>

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

namespace {

struct Assignment {
  Value source, value;
  int64_t colocation;
};

class UpdateBuilder {
public:
  UpdateBuilder(Step &step)
      : step(step), options(step.options), ops(step.ops),
        skips(options.skipNonFinite || options.scalesLoss()) {}
  void build();

private:
  Value accumulate(Value value, dist::Phase phase, int64_t colocation,
                   dist::Purpose purpose, Location loc);
  void accumulateGradients();
  void buildNorm();
  void clip();
  void update(const Parameter &parameter);
  void updateStatistics(ArrayRef<Value> parts);
  void skipNonFinite();
  void assign();

  Value state(const Parameter &parameter, StringRef what, double init);
  Value scalar(StringRef name) {
    return step.stepScalar(name, ops.getF32Type());
  }
  void at(int64_t colocation, std::optional<dist::Purpose> purpose = {}) {
    step.tag = {dist::Phase::Update, colocation, purpose};
  }

  Step &step;
  const AutodiffOptions &options;
  OpBuilder &ops;
  const bool skips; ///< steps that are not finite
  Value loss, norm;
  int64_t normColocation = 0;
  std::vector<Assignment> assignments;
};

} // namespace

Value UpdateBuilder::accumulate(Value value, dist::Phase phase,
                                int64_t colocation, dist::Purpose purpose,
                                Location loc) {
  step.tag = {phase, colocation, purpose};
  return dist::AccumulateOp::create(ops, loc, value.getType(), value, Value());
}

void UpdateBuilder::accumulateGradients() {
  for (Parameter &parameter : step.parameters) {
    Location loc = parameter.value.getLoc();
    parameter.gradient =
        accumulate(parameter.gradient, dist::Phase::BackwardWeight,
                   parameter.colocation, dist::Purpose::Gradient, loc);
    at(parameter.colocation, dist::Purpose::Gradient);
    parameter.gradient = step.sendNarrow(parameter.gradient, loc);
    if (Value scale = step.lossScale())
      parameter.gradient = step.at(loc).div(parameter.gradient, scale);
  }
}

/// The 2-norm of all gradients as one vector. Scalars are added in the order of
/// the forward pass, so that the sum crosses each boundary between stages once.
void UpdateBuilder::buildNorm() {
  std::vector<const Parameter *> order;
  for (const Parameter &parameter : step.parameters)
    order.push_back(&parameter);
  std::sort(order.begin(), order.end(),
            [](const Parameter *a, const Parameter *b) {
              return std::pair(a->colocation, a) < std::pair(b->colocation, b);
            });
  Location loc = step.named("gradient_norm");
  GradientBuilder b = step.at(loc);
  Value sum;
  for (const Parameter *parameter : order) {
    normColocation = parameter->colocation;
    at(normColocation, dist::Purpose::Statistics);
    SmallVector<int64_t> dims;
    auto type = cast<RankedTensorType>(parameter->gradient.getType());
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      dims.push_back(dim);
    Value square =
        b.reduce(b.square(parameter->gradient), nn::ReduceKind::Sum, dims);
    sum = sum ? b.add(sum, square) : square;
  }
  norm = b.make<nn::SqrtOp>(sum);
}

void UpdateBuilder::clip() {
  GradientBuilder b = step.at(step.named("gradient_norm"));
  at(normColocation, dist::Purpose::Statistics);
  Value scale = b.make<nn::MinOp>(
      b.div(b.number(*options.clipNorm, norm), b.add(norm, 1e-6)),
      b.number(1, norm));
  for (Parameter &parameter : step.parameters) {
    at(parameter.colocation);
    parameter.gradient =
        step.at(parameter.value.getLoc()).mul(parameter.gradient, scale);
  }
}

/// A state of the optimizer for a parameter.
Value UpdateBuilder::state(const Parameter &parameter, StringRef what,
                           double init) {
  OpBuilder::InsertionGuard guard(ops);
  ops.setInsertionPointAfterValue(parameter.value);
  return nn::StateOp::create(
      ops, parameter.value.getLoc(), parameter.value.getType(),
      (what + "/" + parameter.label).str(), ops.getF32FloatAttr(float(init)));
}

void UpdateBuilder::update(const Parameter &parameter) {
  const OptimizerSpec &spec = options.optimizer;
  Location loc = parameter.value.getLoc();
  Value lr = scalar(kLearningRateInput);
  at(parameter.colocation);
  auto makeState = [&](StringRef name, double init) {
    return state(parameter, name, init);
  };
  auto makeScalar = [&](StringRef name) { return scalar(name); };
  ParameterUpdate update{spec,
                         step.at(loc),
                         ops,
                         loc,
                         parameter.value,
                         parameter.gradient,
                         lr,
                         parameter.decayed ? spec.weightDecay : 0,
                         makeState,
                         makeScalar,
                         {}};
  Operation *op = findOptimizer(spec.name)->build(update);
  SmallVector<Value> olds{parameter.value};
  olds.append(update.states);
  for (auto [old, value] : llvm::zip_equal(olds, op->getResults()))
    assignments.push_back({old, value, parameter.colocation});
}

/// new = keep * old + part. For a layer that runs twice, the second run adds to
/// the result of the first.
void UpdateBuilder::updateStatistics(ArrayRef<Value> parts) {
  for (size_t index = 0; index < parts.size(); ++index) {
    const RunningStatistic &statistic = step.statistics[index];
    Value part = parts[index];
    Operation *def = part.getDefiningOp();
    int64_t colocation = def ? colocationOf(def) : 0;
    Location loc = statistic.source.getLoc();
    Value sum = accumulate(part, dist::Phase::Forward, colocation,
                           dist::Purpose::Statistics, loc);
    auto known = llvm::find_if(assignments, [&](const Assignment &other) {
      return other.source == statistic.source;
    });
    bool isNew = known == assignments.end();
    at(colocation);
    GradientBuilder b = step.at(loc);
    Value value = b.add(
        b.mul(isNew ? statistic.source : known->value, statistic.keep), sum);
    if (isNew)
      assignments.push_back({statistic.source, value, colocation});
    else
      known->value = value;
  }
}

void UpdateBuilder::skipNonFinite() {
  GradientBuilder b = step.at(step.named("on_nan"));
  at(normColocation, dist::Purpose::Control);
  auto isFinite = [&](Value value) {
    return b.less(b.make<nn::AbsOp>(value),
                  b.number(std::numeric_limits<double>::infinity(), value));
  };
  Value fine = b.make<nn::AndOp>(isFinite(loss), isFinite(norm));
  for (Assignment &assignment : assignments) {
    at(assignment.colocation);
    assignment.value = step.at(assignment.source.getLoc())
                           .select(fine, assignment.value, assignment.source);
  }
}

void UpdateBuilder::assign() {
  for (const Assignment &assignment : assignments) {
    at(assignment.colocation);
    dist::AssignOp::create(ops, assignment.source.getLoc(), assignment.source,
                           assignment.value);
  }
}

void UpdateBuilder::build() {
  SmallVector<Value> parts(llvm::drop_begin(step.terminator()->getOperands()));
  Operation *last = step.loss().getDefiningOp();
  loss = accumulate(step.loss(), dist::Phase::Forward,
                    last ? colocationOf(last) : 0, dist::Purpose::Statistics,
                    step.named("loss"));
  accumulateGradients();
  if (options.clipNorm || skips)
    buildNorm();
  if (options.clipNorm)
    clip();
  for (const Parameter &parameter : step.parameters)
    update(parameter);
  updateStatistics(parts);
  if (skips)
    skipNonFinite();
  assign();

  SmallVector<Value> results{loss};
  SmallVector<StringRef> names{kLossOutput};
  if (norm) {
    results.push_back(norm);
    names.push_back(kGradientNormOutput);
  }
  step.terminator()->setOperands(results);
  step.main.setFunctionType(FunctionType::get(step.context,
                                              step.main.getArgumentTypes(),
                                              ValueRange(results).getTypes()));
  SmallVector<Attribute> attributes;
  for (StringRef name : names)
    attributes.push_back(ops.getDictionaryAttr(
        ops.getNamedAttr(kNameAttr, ops.getStringAttr(name))));
  step.main.setAllResultAttrs(attributes);
}

void Step::buildUpdates() { UpdateBuilder(*this).build(); }
