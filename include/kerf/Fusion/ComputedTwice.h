//===- ComputedTwice.h - values that kernels compute twice ------*- C++ -*-===//
//
// Problem: a loss over 50,000 classes computes exp(x - max) for a sum, and its
// gradient needs it again. Stored, it would be written and read although x,
// from which it follows, is in memory anyway. The same holds for the position
// of a label, and for the normalised rows in the gradient of a norm's scale.
// Lowering stores no such value, and planning must not count one.
//
// Idea: once groups are formed, look at the values that a kernel stores for
// others and computes by elementwise ops. If all readers are kernels, and
// reading the leaves of the computation moves fewer bytes than storing and
// reading the value, the readers get copies of these ops, as long as one kernel
// can compute them all. The decision is made here; the caller makes the copies.
//
// Invariant: the graph of groups has no cycle: a reader already ran behind the
// kernel, so behind all that the kernel reads. Values that live longer are at
// most twice as large as the one that is not stored. Linear in the ops of
// kernels, except for the questions to the caller.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FUSION_COMPUTEDTWICE_H
#define KERF_FUSION_COMPUTEDTWICE_H

#include "kerf/Fusion/Groups.h"

namespace kerf {

/// A value that its readers compute again.
struct ComputedTwice {
  mlir::Value value;
  int64_t home; ///< the kernel that computed it for others
  /// What computes the value from what is in memory, operands first.
  llvm::SmallVector<mlir::Operation *> chain;
  llvm::SmallVector<int64_t> readers; ///< kernels
};

/// Questions about values that could be computed twice.
class TwiceQuestions {
public:
  virtual ~TwiceQuestions() = default;

  /// Whether a kernel may compute the op again: isCheapByElement(), for one.
  virtual bool isCheap(mlir::Operation *op) const = 0;
  /// Whether a kernel that reads the op computes it anyway: it moves elements,
  /// or is a small constant.
  virtual bool isInline(mlir::Operation *op) const = 0;
  /// Whether a step writes over the value: its readers must run before that.
  virtual bool isOverwritten(mlir::Value value) const = 0;
  /// Whether the value is there during the whole step, read or not.
  virtual bool staysInMemory(mlir::Value value) const = 0;

  /// As in FusionQuestions.
  virtual mlir::Operation *makerOf(mlir::OpOperand &read) const {
    return read.get().getDefiningOp();
  }
  virtual mlir::Value memoryOf(mlir::Value value) const { return value; }
  virtual bool isApart(mlir::OpOperand &) const { return false; }
  virtual int64_t bytesOf(mlir::Value memory) const = 0;
  /// The operands that read a value.
  virtual llvm::SmallVector<mlir::OpOperand *>
  readsOf(mlir::Value value) const {
    llvm::SmallVector<mlir::OpOperand *> reads;
    for (mlir::OpOperand &use : value.getUses())
      reads.push_back(&use);
    return reads;
  }

  /// Adds the chain to each reader, as new ops or by FusionGroups::copies, and
  /// says whether it did: whether one kernel can compute each. Ops that nobody
  /// reads then are to leave their group.
  virtual bool take(const ComputedTwice &twice) = 0;
};

/// Decides for each value of the groups, of a group the last first.
void computeTwice(FusionGroups &map, TwiceQuestions &questions);

/// Whether an element of the op's single result is a function of an element of
/// each operand that costs less than reading it from memory would.
bool isCheapByElement(mlir::Operation *op);

} // namespace kerf

#endif // KERF_FUSION_COMPUTEDTWICE_H
