//===- ReplacingBuilder.h - builds what stands for another op ---*- C++ -*-===//
//
// A rewrite puts new ops in place of one: they belong to the part of the step
// to which that one belonged. This builder says so on each op that it makes,
// unless the op has a step already (a clone).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_REPLACINGBUILDER_H
#define KERF_DIST_REPLACINGBUILDER_H

#include "kerf/Dist/Dist.h"

namespace kerf::dist {

class ReplacingBuilder : private mlir::OpBuilder::Listener,
                         public mlir::OpBuilder {
public:
  /// Inserts before `replaced`.
  explicit ReplacingBuilder(mlir::Operation *replaced)
      : OpBuilder(replaced, this), step(getStep(replaced)) {}
  /// Of nothing yet: see standFor.
  explicit ReplacingBuilder(mlir::MLIRContext *context)
      : OpBuilder(context, this) {}
  ReplacingBuilder(const ReplacingBuilder &) = delete;
  ReplacingBuilder &operator=(const ReplacingBuilder &) = delete;

  /// From now on for what stands for another op; of the producer of a value:
  /// an argument is of no part.
  void standFor(mlir::Operation *replaced) { standFor(getStep(replaced)); }
  void standFor(mlir::Value replaced) {
    mlir::Operation *producer = replaced.getDefiningOp();
    standFor(producer ? getStep(producer) : StepAttr());
  }
  void standFor(StepAttr replaced) { step = replaced; }

private:
  void notifyOperationInserted(mlir::Operation *op,
                               InsertPoint previous) override {
    if (step && !previous.isSet() && !op->hasAttr(kStep))
      setStep(op, step);
  }

  StepAttr step;
};

} // namespace kerf::dist

#endif // KERF_DIST_REPLACINGBUILDER_H
