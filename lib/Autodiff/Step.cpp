//===- Step.cpp - shared by the parts of autodiff -------------------------===//
#include "Step.h"

#include "kerf/Dist/ReplacingBuilder.h"
#include "kerf/Format/StepScalars.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

Step::Step(func::FuncOp main, const AutodiffOptions &options,
           AutodiffFailure &failure)
    : main(main), options(options), failure(failure),
      context(main.getContext()), ops(context, this) {
  ops.setInsertionPoint(terminator());
}

void Step::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) {
  if (isa<SourceOpInterface>(op) || dist::isInBodyOfOp(op))
    return;
  if (tag.phase != dist::Phase::Forward)
    dist::setPhase(op, tag.phase);
  if (tag.colocation >= 0)
    dist::setColocation(op, tag.colocation);
  if (tag.purpose)
    dist::setPurpose(op, tag.purpose);
  if (tag.isLoss)
    dist::setOfLoss(op, true);
}

Location Step::named(const Twine &name) {
  return NameLoc::get(ops.getStringAttr(name));
}

Value Step::argument(StringRef name) {
  for (unsigned index = 0; index < main.getNumArguments(); ++index)
    if (auto attr = main.getArgAttrOfType<StringAttr>(index, kNameAttr);
        attr && attr.getValue() == name)
      return main.getArgument(index);
  return {};
}

Value Step::addArgument(StringRef name, RankedTensorType type,
                        std::optional<int64_t> batchDim) {
  NamedAttrList attributes;
  attributes.set(kNameAttr, ops.getStringAttr(name));
  if (batchDim)
    attributes.set(kBatchDimAttr, ops.getI64IntegerAttr(*batchDim));
  unsigned index = main.getNumArguments();
  (void)main.insertArgument(index, type, attributes.getDictionary(context),
                            named(name));
  return main.getArgument(index);
}

Value Step::stepScalar(StringRef name, Type element) {
  if (Value known = argument(name))
    return known;
  return addArgument(name, RankedTensorType::get({}, element));
}

Value Step::lossScale() {
  if (!options.scalesLoss())
    return {};
  return stepScalar(kLossScaleInput, ops.getF32Type());
}

LogicalResult Step::request(const Twine &text, std::optional<Location> where) {
  failure.messages.push_back({where, text.str()});
  return mlir::failure();
}

LogicalResult Step::refuse(const Twine &text, std::optional<Location> where) {
  failure.isRequest = false;
  return request(text, where);
}

void Step::note(const Twine &text) {
  failure.messages.push_back({{}, text.str(), /*isNote=*/true});
}

void Step::eraseDeadOps() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body())))
    if (&op != terminator() && isOpTriviallyDead(&op) &&
        !llvm::any_of(op.getResults(), [&](Value value) {
          return buffers.contains(value); // the update will use it
        }))
      op.erase();
}

void Step::finish() {
  eraseDeadOps();
  IRRewriter rewriter(context);
  DominanceInfo dominance(main);
  eliminateCommonSubExpressions(rewriter, dominance, main);
  mergeEqualSums();
  BitVector unused(main.getNumArguments());
  for (BlockArgument argument : main.getArguments())
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
  (void)main.eraseArguments(unused);
}

std::string kerf::autodiff::nodeName(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName().str();
  return op->getName().getStringRef().str();
}

std::string kerf::autodiff::prefixOf(Operation *op) {
  auto name = op->getLoc()->findInstanceOf<NameLoc>();
  return name ? name.getName().str() + ": " : "";
}

int64_t kerf::autodiff::colocationOf(Operation *op) {
  return dist::getColocation(op).value_or(-1);
}
