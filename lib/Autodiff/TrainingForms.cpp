//===- TrainingForms.cpp - BatchNorm and Dropout in training --------------===//
//
// BatchNorm uses the statistics of the batch instead of the running ones, and
// Dropout drops. Both are expanded before differentiation. With n elements per
// channel and group of samples
//
//     mean = sum x / n,  variance = sum (x - mean)^2 / n
//
// For the variance autodiff treats the mean as a constant: the missing part of
// the gradient is -2/n sum (x - mean) = 0.
//
// A group is a micro-batch (sync) or a device's part of one (local); if that is
// less than the batch, sums carry dist.local_reduction. The new running
// statistics are a sum over the whole batch, like all state that outlives a
// step. PyTorch would process m micro-batches one after another; expanded,
//
//     new = u^m old + sum_j (1 - u) u^(m-1-j) statistic_j
//
// with ONNX's momentum u, so each sample counts with the weight of its
// micro-batch. Statistics of several devices (local) are averaged.
//
//===----------------------------------------------------------------------===//
#include "Step.h"

#include "kerf/Format/StepScalars.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

namespace {

class Expander {
public:
  explicit Expander(Step &step) : step(step), options(step.options) {}

  LogicalResult expand(nn::BatchNormOp norm);
  void expand(nn::DropoutOp dropout, int64_t stream);

private:
  /// The sum over all dimensions but the last.
  Value sumPerChannel(GradientBuilder &b, Value x,
                      dist::ReductionReachAttr reach) {
    SmallVector<int64_t> dims;
    for (int64_t dim = 0;
         dim + 1 < cast<RankedTensorType>(x.getType()).getRank(); ++dim)
      dims.push_back(dim);
    step.tag.purpose = dist::Purpose::Statistics;
    Value sum = b.reduce(x, nn::ReduceKind::Sum, dims);
    step.tag.purpose.reset();
    if (reach)
      sum.getDefiningOp()->setAttr(dist::kLocalReduction, reach);
    return sum;
  }

  /// (1 - u) u^(m-1-j) for the samples of micro-batch j, to multiply `x` with.
  Value microBatchWeights(GradientBuilder &b, Value x, double momentum) {
    int64_t count = options.microBatches;
    auto type = cast<RankedTensorType>(x.getType());
    SmallVector<int64_t> shape(type.getRank(), 1);
    shape[0] = type.getDimSize(0);
    Type i64 = step.ops.getI64Type();
    Value sample = b.make<nn::IotaOp>(RankedTensorType::get(shape, i64),
                                      step.ops.getI64IntegerAttr(0));
    Value size = b.make<nn::ConstantOp>(cast<ElementsAttr>(
        DenseElementsAttr::get(RankedTensorType::get({}, i64),
                               step.ops.getI64IntegerAttr(shape[0] / count))));
    Value index =
        b.make<nn::CastOp>(type.clone(shape), b.make<nn::DivOp>(sample, size));
    Value exponent = b.sub(static_cast<double>(count - 1), index);
    return b.mul(b.make<nn::PowOp>(b.number(momentum, x), exponent),
                 1 - momentum);
  }

  /// Adds `part` / `divisor` of this micro-batch to a running statistic.
  void keepRunning(GradientBuilder &b, Value source, double keep, Value part,
                   double divisor) {
    Value made = b.mul(part, 1 / std::max(divisor, 1.0));
    made.getDefiningOp()->setAttr(kNoGradientAttr, step.ops.getUnitAttr());
    step.statistics.push_back({source, keep});
    step.buffers.insert(source);
    step.terminator()->insertOperands(step.terminator()->getNumOperands(),
                                      {made});
  }

  Step &step;
  const AutodiffOptions &options;
  bool saidGroups = false; ///< once for all norms
};

} // namespace

LogicalResult Expander::expand(nn::BatchNormOp norm) {
  auto type = cast<RankedTensorType>(norm.getX().getType());
  bool local = options.batchNorm == BatchNormMode::Local;
  int64_t groups = options.microBatches * (local ? options.dataParallel : 1);
  int64_t batch = type.getDimSize(0), channels = type.getShape().back();
  if (batch % groups != 0) {
    if (saidGroups)
      return mlir::failure();
    saidGroups = true;
    std::string parts;
    if (options.microBatches > 1)
      parts = (Twine(options.microBatches) + " micro-batches").str();
    if (local && options.dataParallel > 1)
      parts += ((parts.empty() ? Twine() : Twine(" x ")) +
                Twine(options.dataParallel) +
                " parts of dp (option batch-norm "
                "is local)")
                   .str();
    return step.request("batch of " + Twine(batch) +
                        " samples cannot be divided into " + parts +
                        ", of which each has BatchNorm statistics of its own");
  }
  OpBuilder::InsertionGuard guard(step.ops);
  step.ops.setInsertionPoint(norm);
  GradientBuilder b = step.at(norm.getLoc());
  dist::ReductionReachAttr reach;
  if (groups > 1)
    reach = dist::ReductionReachAttr::get(
        step.context, local && options.dataParallel > 1
                          ? dist::ReductionReach::Device
                          : dist::ReductionReach::MicroBatch);
  auto elements = static_cast<double>(type.getNumElements() / channels);
  double perGroup = elements / static_cast<double>(groups);

  Value x = b.widen(norm.getX());
  Value sum = sumPerChannel(b, x, reach);
  Value mean = b.mul(sum, 1 / perGroup);
  Value constant = b.mul(sum, 1 / perGroup);
  constant.getDefiningOp()->setAttr(kNoGradientAttr, step.ops.getUnitAttr());
  Value square = b.square(b.sub(x, constant));
  Value squares = sumPerChannel(b, square, reach);
  Value variance = b.mul(squares, 1 / perGroup);

  // The running variance is the unbiased one in PyTorch and in what it exports.
  Value runningMean = step.makeMutable(norm.getMean());
  Value runningVariance = step.makeMutable(norm.getVariance());
  if (!runningMean || !runningVariance)
    return step.refuse(prefixOf(norm) +
                           "running statistics are literals of the graph, "
                           "expected raw data to update them",
                       norm.getLoc());
  double momentum = norm.getMomentum().convertToDouble();
  auto count = static_cast<double>(options.microBatches);
  double keep = std::pow(momentum, count);
  Value newSum, newSquares;
  if (options.microBatches > 1) {
    Value weights = microBatchWeights(b, x, momentum);
    newSum = sumPerChannel(b, b.mul(x, weights), {});
    newSquares = sumPerChannel(b, b.mul(square, weights), {});
  } else {
    newSum = b.mul(reach ? sumPerChannel(b, x, {}) : sum, 1 - momentum);
    newSquares =
        b.mul(reach ? sumPerChannel(b, square, {}) : squares, 1 - momentum);
  }
  double devices = static_cast<double>(groups) / count;
  keepRunning(b, runningMean, keep, newSum, elements / count);
  keepRunning(b, runningVariance, keep, newSquares, elements / count - devices);

  Value meanOperand = b.castLike(mean, norm.getMean());
  Value varianceOperand = b.castLike(variance, norm.getVariance());
  norm.getMeanMutable().assign(meanOperand);
  norm.getVarianceMutable().assign(varianceOperand);
  // In a model of an old format import cannot take these apart.
  for (Value running : {runningMean, runningVariance})
    for (OpOperand &use : running.getUses())
      if (auto other = dyn_cast<OperandRoleInterface>(use.getOwner());
          other && other.getOperandRole(use.getOperandNumber()) !=
                       OperandRole::Statistic)
        return step.refuse(
            prefixOf(norm) +
                "its running statistics are stored as one "
                "tensor with what \"" +
                nodeName(use.getOwner()) +
                "\" reads: each needs an initializer of its own to be trained",
            norm.getLoc());
  if (reach)
    norm->setAttr(dist::kLocalReduction, reach);
  return success();
}

void Expander::expand(nn::DropoutOp dropout, int64_t stream) {
  OpBuilder::InsertionGuard guard(step.ops);
  step.ops.setInsertionPoint(dropout);
  GradientBuilder b = step.at(dropout.getLoc());
  auto type = cast<RankedTensorType>(dropout.getX().getType());
  Type i64 = step.ops.getI64Type();
  auto indices = RankedTensorType::get(type.getShape(), i64);
  auto integer = [&](int64_t value) -> Value {
    return b.make<nn::ConstantOp>(cast<ElementsAttr>(DenseElementsAttr::get(
        RankedTensorType::get({}, i64), step.ops.getI64IntegerAttr(value))));
  };
  // The number of each element in the global tensor, row by row.
  Value index;
  int64_t stride = 1;
  for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
    Value along = b.make<nn::IotaOp>(indices, dim);
    if (stride > 1)
      along = b.mul(along, integer(stride));
    index = index ? b.add(index, along) : along;
    stride *= type.getDimSize(dim);
  }
  if (!index)
    index = integer(0);
  double ratio = dropout.getRatio().convertToDouble();
  Value uniform = b.make<nn::PhiloxOp>(
      RankedTensorType::get(type.getShape(), step.ops.getF32Type()), index,
      step.stepScalar(kSeedInput, i64), step.stepScalar(kStepInput, i64),
      stream);
  Value dropped = b.less(uniform, b.number(ratio, uniform));
  Value kept = b.mul(dropout.getX(), ratio < 1 ? 1 / (1 - ratio) : 0);
  dropout.replaceAllUsesWith(b.zeroWhere(dropped, kept));
  dropout.erase();
}

LogicalResult Step::expandTrainingForms() {
  Expander expander(*this);
  bool failed = false, hasNorms = false;
  for (nn::BatchNormOp norm : llvm::to_vector(main.getOps<nn::BatchNormOp>())) {
    auto isWeight = [](Value value) {
      auto source = value.getDefiningOp<SourceOpInterface>();
      return source && source.isParameter();
    };
    if (!isWeight(norm.getMean()) || !isWeight(norm.getVariance()))
      continue;
    hasNorms = true;
    if (options.batchNorm != BatchNormMode::Frozen)
      failed |= mlir::failed(expander.expand(norm));
    else
      for (Value running : {norm.getMean(), norm.getVariance()})
        buffers.insert(running);
  }
  if (!hasNorms && options.batchNorm != BatchNormMode::Sync)
    return request("option batch-norm: the model has no BatchNormalization "
                   "that keeps running statistics",
                   main.getLoc());
  for (auto [stream, dropout] :
       llvm::enumerate(llvm::to_vector(main.getOps<nn::DropoutOp>())))
    expander.expand(dropout, static_cast<int64_t>(stream));
  return mlir::failure(failed);
}
