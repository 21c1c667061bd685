//===- FusionAnswers.h - planning's answers about kernels -------*- C++ -*-===//
//
// Problem: which values exist in memory, and from when to when, depends on
// which ops lowering computes together and in which order.
//
// Idea: planning asks what lowering asks (kerf/Fusion/Groups.h), with answers
// from cost classes, from what libraries have (LibraryWork) and the sizes of a
// solution: a product takes in elementwise ops of its size; kernels write what
// one loop nest can write; what views and ops that only move elements give is
// read where it is used.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MEMORY_FUSIONANSWERS_H
#define KERF_LIB_PLAN_MEMORY_FUSIONANSWERS_H

#include "../Stages/Stages.h"
#include "Views.h"

#include "kerf/Fusion/Groups.h"

namespace kerf::plan {

CostClass costClassOf(mlir::Operation *op);
LibraryWork libraryWorkOf(mlir::Operation *op);

/// Whether the op updates memory: all of its results are assigned to sources,
/// or it adds to a sum over micro-batches. Such an op runs as soon as it can.
bool isUpdate(mlir::Operation *op);

/// Whether the op reads an element of an operand for several elements of its
/// result (windows of a pool, a product): its operands must lie in memory.
bool readsElsewhere(mlir::Operation *op);

/// The ops that are computed at load under a solution, including sources that
/// no step writes: what is the same in every step, unless computing it would
/// move data between devices.
llvm::DenseSet<mlir::Operation *> findConstants(const Graph &graph,
                                                const Solution &solution,
                                                mlir::func::FuncOp function);
/// The same, where `moves` says whether an operand is moved between devices.
llvm::DenseSet<mlir::Operation *>
findConstants(mlir::func::FuncOp function,
              llvm::function_ref<bool(mlir::OpOperand &)> moves);

/// The values with which the calls of a function end in 16 bits, on a device
/// whose memory is slow beside computing: the product, or what is computed
/// behind it. `moves` as above.
llvm::DenseSet<mlir::Value>
findStoredNarrow(mlir::func::FuncOp function,
                 llvm::function_ref<bool(mlir::OpOperand &)> moves);

/// The questions about the ops of one function of a stage.
struct FunctionQuestions {
  /// Whether the op is computed in the function.
  llvm::function_ref<bool(mlir::Operation *)> isHere;
  const Views &views;
  /// Whether it is computed at load, or is a source that no step writes.
  llvm::function_ref<bool(mlir::Operation *)> isConstant;
  /// Whether a value is left for another function as it is.
  llvm::function_ref<bool(mlir::Value)> isKept;
  /// Whether a collective or a slice stands between a value and its use.
  llvm::function_ref<bool(mlir::OpOperand &)> moves;
  /// Whether a call ends with the value, stored in 16 bits (StoredNarrow.h).
  llvm::function_ref<bool(mlir::Value)> endsCall;
  /// Elements, and bytes, of a value on one device.
  llvm::function_ref<int64_t(mlir::Value)> elements, bytes;
};

/// The groups of a function, and when each runs.
class FunctionOrder {
public:
  void form(mlir::Block &block, const FunctionQuestions &questions);

  /// The time at which an op runs; its place in the block if it is in no group.
  int64_t timeOf(mlir::Operation *op) const;
  bool isTogether(mlir::Operation *a, mlir::Operation *b) const {
    return map.find(a) >= 0 && map.find(a) == map.find(b);
  }
  /// Whether the op is computed by a library.
  bool isCall(mlir::Operation *op) const {
    return map.find(op) >= 0 && !map.groups[map.find(op)].isKernel;
  }
  llvm::ArrayRef<mlir::Operation *> togetherWith(mlir::Operation *op) const {
    int64_t group = map.find(op);
    return group < 0 ? llvm::ArrayRef<mlir::Operation *>()
                     : map.groups[group].ops;
  }

private:
  void placeShapeOps(mlir::Block &block, const FusionQuestions &questions);

  FusionGroups map;
  std::vector<int64_t> times; ///< per group
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MEMORY_FUSIONANSWERS_H
