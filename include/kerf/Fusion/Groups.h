//===- Groups.h - groups of ops that are computed together ------*- C++ -*-===//
//
// Problem: lowering cuts a block into library calls and kernels and orders
// them; planning must predict which values that leaves in memory, before there
// is anything to lower. Two implementations of the same decision would drift
// apart.
//
// Idea: the decision is made here, once. Its callers answer questions about
// single ops and sets of ops (FusionQuestions): lowering exactly, by what code
// generation accepts, on local tensors; planning by cost classes and the sizes
// of a solution.
//
// Groups are formed greedily: in program order each op opens a group and merges
// the groups of its operands into it, the latest first, as long as one kernel
// can compute the union and no path leads out of the union and back into it. A
// library call takes in the op behind it as long as that op is the only reader
// of what the call computes so far. Groups then run in program order where
// their dependences allow it.
//
// Invariant: groups are disjoint, and the graph of groups has no cycle.
// O(ops x groups) at worst.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FUSION_GROUPS_H
#define KERF_FUSION_GROUPS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <vector>

namespace kerf {

/// Larger kernels only cost compile time.
inline constexpr size_t kMaxKernelOps = 96;

/// Dense constants up to this size may be part of a group; they become data of
/// program.so. Larger ones are parameters of the package.
constexpr int64_t kMaxInlineConstantBytes = 4096;

struct FusionGroup {
  /// In block order; empty: merged into another group. A group that is no
  /// kernel is one op (a view, a collective, a library call of lowering), or a
  /// product with the epilogue that a library computes for it.
  llvm::SmallVector<mlir::Operation *> ops;
  bool isKernel = false, isAtLoad = false;
};

/// The groups of a block while they are formed.
struct FusionGroups {
  std::vector<FusionGroup> groups;
  llvm::DenseMap<mlir::Operation *, int64_t> groupOf;
  /// The groups, behind that of the op, that compute it again (planning, which
  /// cannot copy ops).
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t, 2>> copies;
  /// The place of each op in the block; a copy has the number of its original.
  llvm::DenseMap<mlir::Operation *, int64_t> position;

  /// The group of an op; -1: none (also of null).
  int64_t find(mlir::Operation *op) const {
    auto it = groupOf.find(op);
    return it == groupOf.end() ? -1 : it->second;
  }
  /// All groups that compute an op (null: none).
  llvm::SmallVector<int64_t, 2> groupsOf(mlir::Operation *op) const {
    llvm::SmallVector<int64_t, 2> all = copies.lookup(op);
    if (int64_t own = find(op); own >= 0)
      all.push_back(own);
    return all;
  }
  bool computes(int64_t group, mlir::Operation *op) const {
    return find(op) == group ||
           (!copies.empty() && llvm::is_contained(copies.lookup(op), group));
  }
};

/// The questions about the ops of one block that its caller answers.
class FusionQuestions {
public:
  virtual ~FusionQuestions() = default;

  enum class Role {
    None,   ///< in no group: a source, another function's op
    Alone,  ///< a group of its own: a view, a collective
    Call,   ///< a library call, which may absorb its epilogue
    Kernel, ///< in a kernel
  };
  virtual Role roleOf(mlir::Operation *op) const = 0;
  /// Whether no op reads the op's results.
  virtual bool isDead(mlir::Operation *) const { return false; }
  /// Whether the op is computed inside its only reader (a shape op), if that
  /// reader is in a kernel.
  virtual bool follows(mlir::Operation *) const { return false; }
  /// Whether it is computed once, before the first step.
  virtual bool isAtLoad(mlir::Operation *) const { return false; }
  /// Whether calls and waits stay in the order of the program (collectives).
  virtual bool isCommunication(mlir::Operation *) const { return false; }
  /// Whether a call that takes in the op behind a gradient runs where the
  /// gradient's product stands.
  virtual bool isOfUpdate(mlir::Operation *) const { return false; }

  /// Whether a kernel may compute the op with others at all.
  virtual bool mayJoin(mlir::Operation *) const { return true; }
  /// Why the ops, in block order, cannot be one kernel; empty: they can. Asked
  /// for one op together with the shape ops that follow into it.
  virtual std::string whyNoKernel(llvm::ArrayRef<mlir::Operation *>) const {
    return {};
  }
  /// Whether an op that `follows` its reader can be a group of its own instead.
  virtual bool canStay(mlir::Operation *) const { return true; }
  /// Whether several ops, in block order, can be one kernel.
  virtual bool canFuse(llvm::ArrayRef<mlir::Operation *> ops) const = 0;
  /// Whether a call, the first of `ops` with the others behind it, may compute
  /// the only reader of its result so far, too, before it stores the result.
  virtual bool takesIn(llvm::ArrayRef<mlir::Operation *>,
                       mlir::OpOperand &) const {
    return false;
  }

  /// The op that computes the value that is read; null: none of this block.
  virtual mlir::Operation *makerOf(mlir::OpOperand &read) const {
    return read.get().getDefiningOp();
  }
  /// The operands that read the op's results.
  virtual llvm::SmallVector<mlir::OpOperand *>
  readsOf(mlir::Operation *op) const {
    llvm::SmallVector<mlir::OpOperand *> reads;
    for (mlir::OpOperand &use : op->getUses())
      reads.push_back(&use);
    return reads;
  }
  /// Whether something that is not an op of the block happens between the value
  /// and this use (a reshard, which planning knows as an edge only).
  virtual bool isApart(mlir::OpOperand &) const { return false; }
  /// The value whose memory is read, behind views.
  virtual mlir::Value memoryOf(mlir::Value value) const = 0;
  virtual int64_t bytesOf(mlir::Value memory) const = 0;

  /// What a use reads in place of the value itself: made of it right before the
  /// first use that reads it, held until the last.
  struct Copy {
    int64_t number = -1; ///< the same for all its uses; -1: there is none
    int64_t sizeBytes = 0;
    bool isMadeAtOnce = false; ///< right behind the value instead
  };
  /// Of a read where something happens in between (isApart).
  virtual Copy copyReadBy(mlir::OpOperand &) const { return {}; }
};

/// The groups of a block. Fails, with an error, only where a single op cannot
/// be computed.
mlir::FailureOr<FusionGroups>
formFusionGroups(mlir::Block &block, const FusionQuestions &questions);

/// The groups in an order in which they can run, without those that were merged
/// into others; shorter than that if they form a cycle. Where a group reads one
/// that ends behind it in the program, the reader is either delayed until that
/// group ran in program order, or that group is moved up. Both orders are
/// computed, and the one with the smaller peak of live bytes is returned; if it
/// lowers that peak, with groups that give more bytes than they free in front
/// of their first readers. O(uses log ops), and the distances moved.
llvm::SmallVector<int64_t> orderOf(const FusionGroups &map,
                                   const FusionQuestions &questions);

/// Numbers 0 to n-1 in an order that respects `successors`: among those that
/// are ready, first the one with the least priority, then with the least
/// number. Shorter than n if there is a cycle. O((n + edges) log n).
llvm::SmallVector<int64_t>
orderByPriority(llvm::ArrayRef<llvm::SmallVector<int64_t>> successors,
                llvm::function_ref<int64_t(int64_t)> priority);

/// Follows a result from reader to reader, as long as the value has one reader
/// only (`onlyReader`, else null) and the call that makes it can compute that
/// reader: then `take` returns the reader's result, else null.
mlir::Value
followEpilogue(mlir::Value result,
               llvm::function_ref<mlir::OpOperand *(mlir::Value)> onlyReader,
               llvm::function_ref<mlir::Value(mlir::OpOperand &)> take);

/// A library call and the ops that it takes in, in order; `isTaken` says of an
/// op that another call has it.
llvm::SmallVector<mlir::Operation *>
opsOfCall(mlir::Operation *anchor, const FusionQuestions &questions,
          llvm::function_ref<bool(mlir::Operation *)> isTaken);

/// Questions about the inputs of a kernel that could write over one of them.
struct OverwriteQuestions {
  /// The memory of an input: the same value for all inputs that share bytes.
  llvm::function_ref<mlir::Value(mlir::Value)> memoryOf;
  /// Whether the input has the size of the output, covers all of its memory,
  /// and nothing reads that memory later.
  llvm::function_ref<bool(mlir::Value)> diesHere;
  /// Whether the kernel reads each element only where it writes the same
  /// element.
  llvm::function_ref<bool(unsigned)> mayShare;
};

/// The input over which a kernel writes an output: the first that dies here,
/// whose memory no other input shares and which no other output was given
/// (`given`, to which its memory is added); -1: none.
int64_t chooseOverwritten(llvm::ArrayRef<mlir::Value> inputs,
                          const OverwriteQuestions &questions,
                          llvm::DenseSet<mlir::Value> &given);

/// The ops that are computed once at load: those that depend only on ops that
/// are constant in themselves (`isConstant`: the same in every step). A shape
/// op that an op outside of the set reads is left to that reader, which
/// computes it inside; so are whole numbers that follow from where an element
/// is, for elementwise readers: kept, they would take 8 bytes for each element
/// that dropout draws. The result includes sources. O(ops).
llvm::DenseSet<mlir::Operation *>
findAtLoad(mlir::Block &block,
           llvm::function_ref<bool(mlir::Operation *)> isConstant,
           llvm::function_ref<bool(mlir::Operation *)> isShapeOp);

} // namespace kerf

#endif // KERF_FUSION_GROUPS_H
