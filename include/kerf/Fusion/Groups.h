//===- Groups.h - what is computed together, and in which order -*- C++ -*-===//
//
// Problem: lowering cuts a block into library calls and kernels and orders
// them; planning must know what that leaves in memory before there is anything
// to lower. Two cuts of the same ops would never agree.
//
// Idea: the decision stands here, once. Whoever asks for it answers questions
// about single ops and sets of ops (FusionQuestions): lowering exactly, by what
// code generation takes, on local tensors; planning by cost classes and the
// sizes of a solution.
//
// Groups are formed greedily: in program order each op opens a group and draws
// in the groups of its operands, the latest first, as long as one kernel can
// compute the union and no path leads out of it and back. A library call takes
// in what follows it as long as one op alone reads what it has so far. Groups
// then run in the order of the program as far as they depend on each other.
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

#include <vector>

namespace kerf {

/// Larger kernels only cost compile time.
inline constexpr size_t kMaxKernelOps = 96;

/// Dense constants up to this size may be part of a group; they become data of
/// program.so. Larger ones are parameters of the package.
constexpr int64_t kMaxInlineConstantBytes = 4096;

struct FusionGroup {
  /// In block order; empty: merged into another. What is no kernel is one op (a
  /// view, a library call of lowering, a collective), or a product with what a
  /// library does behind it.
  llvm::SmallVector<mlir::Operation *> ops;
  bool isKernel = false, isAtLoad = false;
};

/// What groups and ops know of each other while groups are formed.
struct FusionGroups {
  std::vector<FusionGroup> groups;
  llvm::DenseMap<mlir::Operation *, int64_t> groupOf;
  /// Of ops in the block; copies have the number of what they copy.
  llvm::DenseMap<mlir::Operation *, int64_t> position;

  /// The group of an op; -1: none (also of null).
  int64_t find(mlir::Operation *op) const {
    auto it = groupOf.find(op);
    return it == groupOf.end() ? -1 : it->second;
  }
};

/// What is asked about the ops of one block.
class FusionQuestions {
public:
  virtual ~FusionQuestions() = default;

  enum class Role {
    None,   ///< in no group: a source, another function's op
    Alone,  ///< a group of its own: a view, a collective
    Call,   ///< a library call, which takes in what it can
    Kernel, ///< in a kernel
  };
  virtual Role roleOf(mlir::Operation *op) const = 0;
  /// Whether nobody wants what the op computes.
  virtual bool isDead(mlir::Operation *) const { return false; }
  /// Whether the op is computed wherever its one reader is (a shape op), if
  /// that is in a kernel itself.
  virtual bool follows(mlir::Operation *) const { return false; }
  /// Whether it is computed once, before the first step.
  virtual bool isAtLoad(mlir::Operation *) const { return false; }
  /// Whether calls and waits stay in the order of the program (collectives).
  virtual bool isCommunication(mlir::Operation *) const { return false; }

  /// Whether a kernel may compute the op with others at all.
  virtual bool mayJoin(mlir::Operation *) const { return true; }
  /// Why the ops, in block order, cannot be one kernel; empty: they can. What
  /// one op and what follows into it are refused for.
  virtual std::string whyNoKernel(llvm::ArrayRef<mlir::Operation *>) const {
    return {};
  }
  /// Whether what follows its reader can be computed by itself.
  virtual bool canStay(mlir::Operation *) const { return true; }
  /// Whether several ops, in block order, can be one kernel.
  virtual bool canFuse(llvm::ArrayRef<mlir::Operation *> ops) const = 0;
  /// Whether a call may do `next`, the only reader of what it has so far,
  /// before it stores. Asked of calls alone.
  virtual bool takesIn(mlir::Operation *, mlir::OpOperand &) const {
    return false;
  }

  /// The op that computes what is read; null: nothing of this block.
  virtual mlir::Operation *makerOf(mlir::OpOperand &read) const {
    return read.get().getDefiningOp();
  }
  /// Where what the op computes is read.
  virtual llvm::SmallVector<mlir::OpOperand *>
  readsOf(mlir::Operation *op) const {
    llvm::SmallVector<mlir::OpOperand *> reads;
    for (mlir::OpOperand &use : op->getUses())
      reads.push_back(&use);
    return reads;
  }
  /// Whether something that is no op of the block must happen in between (a
  /// reshard that planning knows as an edge).
  virtual bool isApart(mlir::OpOperand &) const { return false; }
  /// The value whose memory holds what is read (behind views).
  virtual mlir::Value memoryOf(mlir::Value value) const = 0;
  virtual int64_t bytesOf(mlir::Value memory) const = 0;
};

/// The groups of a block. Fails, with an error, only where a single op cannot
/// be computed.
mlir::FailureOr<FusionGroups>
formFusionGroups(mlir::Block &block, const FusionQuestions &questions);

/// The groups, but for those that were merged, in an order in which they can
/// run; fewer than there are if they form a cycle. Where a group reads another
/// that ends behind it, it can wait until that has had its turn, or have it
/// computed at once: of the two orders the one that needs less memory.
/// O(uses log ops).
llvm::SmallVector<int64_t> orderOf(const FusionGroups &map,
                                   const FusionQuestions &questions);

/// Numbers 0 to n-1 in an order that keeps `successors`: of those that are
/// ready the one with the least priority, then the least number. Fewer than n
/// if there is a cycle. O((n + edges) log n).
llvm::SmallVector<int64_t>
orderByPriority(llvm::ArrayRef<llvm::SmallVector<int64_t>> successors,
                llvm::function_ref<int64_t(int64_t)> priority);

/// Follows a result from reader to reader, as long as there is one alone
/// (`onlyReader`, else null) and the call that makes it takes that in: then
/// `take` gives the result behind it, else null.
mlir::Value
followEpilogue(mlir::Value result,
               llvm::function_ref<mlir::OpOperand *(mlir::Value)> onlyReader,
               llvm::function_ref<mlir::Value(mlir::OpOperand &)> take);

/// What is asked about the inputs of a kernel that could write over one.
struct OverwriteQuestions {
  /// The memory of an input, the same for all that see the same bytes.
  llvm::function_ref<mlir::Value(mlir::Value)> memoryOf;
  /// Whether the input has the size of the output, is all of its memory and
  /// nothing reads that any more.
  llvm::function_ref<bool(mlir::Value)> diesHere;
  /// Whether the kernel reads each element only where it writes it.
  llvm::function_ref<bool(unsigned)> mayShare;
};

/// The input over which a kernel writes an output: the first that dies with it,
/// that no other input sees and that no other output has got (`given`, to which
/// its memory is added); -1: none.
int64_t chooseOverwritten(llvm::ArrayRef<mlir::Value> inputs,
                          const OverwriteQuestions &questions,
                          llvm::DenseSet<mlir::Value> &given);

/// What depends on nothing but ops that are constant in themselves
/// (`isConstant`: it is the same in every step), is computed once at load. A
/// shape op that something else reads is left to its reader, which sees through
/// it. Sources are among the result. O(ops).
llvm::DenseSet<mlir::Operation *>
findAtLoad(mlir::Block &block,
           llvm::function_ref<bool(mlir::Operation *)> isConstant,
           llvm::function_ref<bool(mlir::Operation *)> isShapeOp);

} // namespace kerf

#endif // KERF_FUSION_GROUPS_H
