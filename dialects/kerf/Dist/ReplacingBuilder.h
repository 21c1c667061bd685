//===- ReplacingBuilder.h - builds replacements of an op --------*- C++ -*-===//
//
// A rewrite replaces one op by new ones, which belong to the same part of the
// step. This builder copies the part onto each op that it makes, unless the op
// has one already (a clone).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_REPLACINGBUILDER_H
#define KERF_DIST_REPLACINGBUILDER_H

#include "kerf/Dist/Dist.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace kerf::dist {

/// Whether an op is in the body of another op, which says for both what part of
/// the step they are. A body that is being built is not in its op yet.
inline bool isInBodyOfOp(mlir::Operation *op) {
  mlir::Region *region = op->getParentRegion();
  return region && !llvm::isa_and_nonnull<mlir::FunctionOpInterface>(
                       region->getParentOp());
}

class ReplacingBuilder : private mlir::OpBuilder::Listener,
                         public mlir::OpBuilder {
public:
  /// Inserts before `replaced`.
  explicit ReplacingBuilder(mlir::Operation *replaced)
      : OpBuilder(replaced, this), step(getStep(replaced)) {}
  /// Replaces nothing yet: see standFor.
  explicit ReplacingBuilder(mlir::MLIRContext *context)
      : OpBuilder(context, this) {}
  ReplacingBuilder(const ReplacingBuilder &) = delete;
  ReplacingBuilder &operator=(const ReplacingBuilder &) = delete;

  /// From now on builds replacements of this op, or of the producer of a value;
  /// an argument belongs to no part.
  void standFor(mlir::Operation *replaced) { standFor(getStep(replaced)); }
  void standFor(mlir::Value replaced) {
    mlir::Operation *producer = replaced.getDefiningOp();
    standFor(producer ? getStep(producer) : StepAttr());
  }
  void standFor(StepAttr replaced) { step = replaced; }

private:
  void notifyOperationInserted(mlir::Operation *op,
                               InsertPoint previous) override {
    if (step && !previous.isSet() && !op->hasAttr(kStep) && !isInBodyOfOp(op))
      setStep(op, step);
  }

  StepAttr step;
};

} // namespace kerf::dist

#endif // KERF_DIST_REPLACINGBUILDER_H
