//===- MemoryUnits.h - what is computed together, and when ------*- C++ -*-===//
//
// Problem: which values exist in memory, and from when to when, follows from
// how lowering forms library calls and kernels and orders them.
//
// Idea: the same rules on ops of which only cost classes and sizes are known. A
// contraction takes in the elementwise ops of its size behind it. Any other op
// draws the kernels of its operands into its own, the latest first, where no
// path leads around and the outputs have sizes that one loop nest can write.
// Then units run in the order of their last ops, as far as they depend on each
// other; an update that waits for no device runs as soon as it can.
//
// O(ops * (operands * reach + log ops)), reach being the ops on paths around,
// at most kMostReach.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MEMORY_MEMORYUNITS_H
#define KERF_LIB_PLAN_MEMORY_MEMORYUNITS_H

#include "../Stages/Stages.h"

namespace kerf::plan {

/// What a value or an op of one function of a stage is asked about.
struct UnitQuestions {
  /// Whether the op is of the function that is looked at.
  llvm::function_ref<bool(mlir::Operation *)> isHere;
  /// Whether its result is its operand.
  llvm::function_ref<bool(mlir::Operation *)> isView;
  /// Whether a collective or a slice stands between a value and its use.
  llvm::function_ref<bool(mlir::OpOperand &)> moves;
  /// Elements of a value on one device.
  llvm::function_ref<int64_t(mlir::Value)> elements;
};

class MemoryUnits {
public:
  /// Ops of `block` in its order.
  void form(mlir::Block &block, const UnitQuestions &questions);

  /// When an op runs; of one that has no unit its place in the block.
  int64_t timeOf(mlir::Operation *op) const;
  bool isTogether(mlir::Operation *a, mlir::Operation *b) const {
    auto x = unitOf.find(a), y = unitOf.find(b);
    return x != unitOf.end() && y != unitOf.end() && x->second == y->second;
  }
  /// Whether the op is computed by a library.
  bool isCall(mlir::Operation *op) const {
    auto found = unitOf.find(op);
    return found != unitOf.end() && units[found->second].isCall;
  }
  llvm::ArrayRef<mlir::Operation *> togetherWith(mlir::Operation *op) const {
    auto found = unitOf.find(op);
    return found == unitOf.end() ? llvm::ArrayRef<mlir::Operation *>()
                                 : units[found->second].ops;
  }
  /// An op whose every result is assigned, or that adds to a sum over
  /// micro-batches: it runs as soon as it can.
  static bool isUpdate(mlir::Operation *op);

private:
  struct Unit {
    llvm::SmallVector<mlir::Operation *> ops;
    bool isCall = false;
    int64_t time = 0;
  };
  bool isKernel(mlir::Operation *op) const;
  bool collectReaders(mlir::Operation *op, const UnitQuestions &questions,
                      llvm::SmallVectorImpl<mlir::OpOperand *> &readers) const;
  void formCall(mlir::Operation *anchor, const UnitQuestions &questions);
  void formKernel(mlir::Operation *op, const UnitQuestions &questions);
  bool fits(llvm::ArrayRef<mlir::Operation *> ops,
            const UnitQuestions &questions) const;
  bool hasDetour(uint32_t from, uint32_t to) const;
  void order(const UnitQuestions &questions);
  uint32_t add(llvm::ArrayRef<mlir::Operation *> ops, bool isCall);
  /// The op that makes a value, behind views.
  mlir::Operation *makerOf(mlir::Value value,
                           const UnitQuestions &questions) const;

  std::vector<Unit> units;
  llvm::DenseMap<mlir::Operation *, uint32_t> unitOf;
  llvm::DenseMap<mlir::Operation *, int64_t> position;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MEMORY_MEMORYUNITS_H
