//===- Autodiff.cpp - the parts of autodiff in order ----------------------===//
#include "kerf/Autodiff/Autodiff.h"

#include "HoldParameters.h"
#include "Step.h"
#include "kerf/Autodiff/Passes.h"
#include "kerf/Dist/Entry.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

namespace kerf::autodiff {
#define GEN_PASS_DEF_AUTODIFFPASS
#define GEN_PASS_DEF_LOWERPRECISION
#include "kerf/Autodiff/Passes.h.inc"
} // namespace kerf::autodiff

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

FailureOr<AutodiffResult>
kerf::autodiff::differentiate(ModuleOp module, const AutodiffOptions &options,
                              AutodiffFailure &failure) {
  auto main = dist::findEntryOrEmit(module);
  if (!main)
    return mlir::failure();
  if (!llvm::hasSingleElement(main.getBody())) {
    failure.messages.push_back({main.getLoc(), ("@" + main.getName() +
                                                " has several blocks, expected "
                                                "one: run kerf-flatten")
                                                   .str()});
    return mlir::failure();
  }
  Step step(main, options, failure);
  step.nameEnds();
  if (failed(holdParameters(main)) || failed(step.checkNames()))
    return mlir::failure();
  step.mergeSources();
  // The loss first: ops that it does not depend on get no training form.
  auto loss = step.buildLoss();
  if (failed(loss))
    return mlir::failure();
  step.terminator()->setOperands(*loss);
  step.eraseDeadOps();
  if (failed(step.expandTrainingForms()))
    return mlir::failure();
  step.joinViews();
  lowerPrecision(main, options.precision, step.ops);
  if (failed(step.selectParameters()))
    return mlir::failure();
  step.hoistPrologue();
  step.numberForward();
  if (failed(step.buildBackward()))
    return mlir::failure();
  step.putBatchFirst();
  if (narrowType(main.getContext(), options.precision) &&
      options.gradientType() == Precision::F32)
    step.keepGradientsWide();
  step.buildUpdates();
  AutodiffResult result;
  for (const RunningStatistic &statistic : step.statistics)
    result.buffers.push_back(
        cast<SourceOpInterface>(statistic.source.getDefiningOp())
            .getSourceName()
            .str());
  step.finish();

  for (const Parameter &parameter : step.parameters) {
    auto shape = cast<RankedTensorType>(parameter.value.getType()).getShape();
    result.trained.push_back(
        {parameter.label, shape.vec(),
         parameter.decayed && options.optimizer.weightDecay != 0,
         parameter.isClear});
  }
  result.kept = std::move(step.kept);
  result.notes = std::move(step.notes);
  result.idleNumbers = std::move(step.idleNumbers);
  return result;
}

namespace {

struct AutodiffPass : autodiff::impl::AutodiffPassBase<AutodiffPass> {
  using AutodiffPassBase::AutodiffPassBase;
  AutodiffPass(const AutodiffOptions &o, AutodiffRun &run)
      : given(o), run(&run) {
    loss = o.loss.text;
    optimizer = o.optimizer.text;
    for (const std::string &pattern : o.trainable)
      trainable.push_back(pattern);
    for (const std::string &pattern : o.frozen)
      frozen.push_back(pattern);
    clipNorm = o.clipNorm.value_or(0);
    skipNonFinite = o.skipNonFinite;
    batchNorm = o.batchNorm;
    precision = o.precision;
    if (o.gradientDtype)
      gradientDtype = toString(*o.gradientDtype).str();
    microBatches = o.microBatches;
    dataParallel = o.dataParallel;
  }

  LogicalResult read(AutodiffOptions &o) {
    llvm::Expected<LossSpec> lossSpec = parseLoss(loss);
    if (!lossSpec)
      return emitError(getOperation().getLoc(),
                       llvm::toString(lossSpec.takeError()));
    o.loss = *lossSpec;
    llvm::Expected<OptimizerSpec> optimizerSpec = parseOptimizer(optimizer);
    if (!optimizerSpec)
      return emitError(getOperation().getLoc(),
                       llvm::toString(optimizerSpec.takeError()));
    o.optimizer = *optimizerSpec;
    o.trainable.assign(trainable.begin(), trainable.end());
    o.frozen.assign(frozen.begin(), frozen.end());
    if (!std::isfinite(clipNorm) || clipNorm < 0)
      return emitError(getOperation().getLoc(), "clip-norm: ")
             << llvm::formatv("{0}", double(clipNorm)).str()
             << ", expected a number that is at least 0";
    if (clipNorm > 0)
      o.clipNorm = clipNorm;
    o.skipNonFinite = skipNonFinite;
    o.batchNorm = batchNorm;
    o.precision = precision;
    if (!gradientDtype.empty()) {
      std::optional<Precision> sent = parsePrecision(gradientDtype);
      if (!sent)
        return emitError(getOperation().getLoc(), "gradient-dtype: '")
               << gradientDtype << "', expected f32, bf16 or f16";
      o.gradientDtype = *sent;
    }
    for (auto [name, value] :
         {std::pair("micro-batches", int64_t(microBatches)),
          std::pair("data-parallel", int64_t(dataParallel))})
      if (value < 1)
        return emitError(getOperation().getLoc(), name)
               << ": " << value << ", expected at least 1";
    o.microBatches = microBatches;
    o.dataParallel = dataParallel;
    return success();
  }

  void runOnOperation() override {
    AutodiffOptions o;
    AutodiffRun own;
    AutodiffRun &result = run ? *run : own;
    if (given)
      o = *given;
    else if (failed(read(o)))
      return signalPassFailure();
    FailureOr<AutodiffResult> found =
        differentiate(getOperation(), o, result.failure);
    if (succeeded(found)) {
      result.result = std::move(*found);
      return;
    }
    emit(result.failure);
    signalPassFailure();
  }

  /// An error for each message, at what it is about; notes go to the error
  /// before them.
  void emit(const AutodiffFailure &failure) {
    std::optional<InFlightDiagnostic> error;
    for (const AutodiffFailure::Message &message : failure.messages) {
      if (message.isNote && error) {
        error->attachNote() << message.text;
        continue;
      }
      error.reset(); // reports it
      error.emplace(emitError(message.where.value_or(getOperation().getLoc())));
      *error << message.text;
    }
  }

  std::optional<AutodiffOptions> given;
  AutodiffRun *run = nullptr;
};

struct LowerPrecision : autodiff::impl::LowerPrecisionBase<LowerPrecision> {
  using LowerPrecisionBase::LowerPrecisionBase;

  void runOnOperation() override {
    OpBuilder builder(&getContext());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (llvm::hasSingleElement(function.getBody()))
        lowerPrecision(function, precision, builder);
  }
};

} // namespace

std::unique_ptr<Pass>
kerf::autodiff::createAutodiffPass(const AutodiffOptions &options,
                                   AutodiffRun &run) {
  return std::make_unique<AutodiffPass>(options, run);
}
