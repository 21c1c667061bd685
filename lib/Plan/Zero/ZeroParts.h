//===- ZeroParts.h - what lies in parts over devices of equal data -*- C++ -*-//
//
// Data parallelism keeps parameters, gradients and the optimizer's states on
// each device of the axis `dp`. ZeRO keeps one part of them (a shard; papers
// say partition) on each:
//
//   1  the states: what only updates read, and the float32 copy of a parameter
//      of which the step reads nothing but a rounded one. Gradients are
//      reduce-scattered once per step, each device updates its part, and what
//      the step reads of a parameter is whole before the first micro-batch.
//   2  and the sums of gradients over micro-batches: each micro-batch's
//      gradients are reduce-scattered.
//   3  and the parameters: they are gathered for the forward pass of each
//      micro-batch, dropped, and gathered again for its backward pass.
//
// This class says which ops of a step are concerned; layouts are chosen by the
// search.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_ZERO_ZEROPARTS_H
#define KERF_LIB_PLAN_ZERO_ZEROPARTS_H

#include "kerf/Plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace kerf::plan {

/// The passes of a micro-batch that gather a parameter for themselves.
enum class StepPass { Forward, Backward };
inline constexpr StepPass kPasses[] = {StepPass::Forward, StepPass::Backward};

class ZeroParts {
public:
  ZeroParts(mlir::func::FuncOp function, Zero zero);

  Zero getZero() const { return zero; }
  /// Whether what the op makes (a source, the cast of one, a new value) is cut
  /// over all axes of data parallelism, if its sizes allow it.
  bool isInParts(mlir::Operation *op) const { return inParts.contains(op); }
  /// Whether a dist.accumulate adds up parts of gradients, if their sizes allow
  /// it.
  bool addsParts(mlir::Operation *op) const { return sums.contains(op); }
  /// Whether axes of data parallelism may cut dimensions of the op that are no
  /// batch: it runs once per step on what is in parts, or widens gradients that
  /// are added up in parts.
  bool mayCut(mlir::Operation *op) const;
  /// Whether the value, in parts, is gathered for the whole step.
  bool isGatheredOnce(mlir::Value value) const;
  /// Whether the value, in parts, is gathered for each pass.
  bool isGatheredPerPass(mlir::Value value) const;
  /// The pass for which a use of such a value gathers it; none: it reads the
  /// part.
  std::optional<StepPass> passOf(mlir::OpOperand &use) const;

private:
  Zero zero;
  llvm::DenseSet<mlir::Operation *> inParts, sums, widening;
};

/// For ZeRO 1 and 2: what the step reads of a parameter that is in parts, a
/// rounded copy, is made and gathered in front of the first micro-batch. Gives
/// these casts to the prologue; whether there were any.
bool roundInPrologue(mlir::func::FuncOp function, Zero zero);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_ZERO_ZEROPARTS_H
