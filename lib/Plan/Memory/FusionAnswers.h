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

#include "kerf/Fusion/Epilogue.h"
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
/// behind it. `moves`: as above, or another function reads it.
llvm::DenseSet<mlir::Value>
findStoredNarrow(mlir::func::FuncOp function,
                 llvm::function_ref<bool(mlir::OpOperand &)> moves);

/// What planning is asked about one function of a stage. By default it is the
/// only function, and nothing of it is cut.
class FunctionQuestions {
public:
  explicit FunctionQuestions(const Views &views) : views(views) {}
  virtual ~FunctionQuestions() = default;

  /// Whether the op is computed in the function.
  virtual bool isHere(mlir::Operation *) const { return true; }
  /// Whether it is computed at load, or is a source that no step writes.
  virtual bool isConstant(mlir::Operation *op) const = 0;
  /// Whether a value is left for another function as it is.
  virtual bool isKept(mlir::Value) const { return false; }
  /// Whether a value is added up over micro-batches before it is sent.
  virtual bool isSummed(mlir::Value) const { return false; }
  /// Whether a call ends with the value, stored in 16 bits (StoredNarrow.h).
  virtual bool endsCall(mlir::Value) const { return false; }
  /// Whether a collective or a slice stands between a value and its use.
  virtual bool moves(mlir::OpOperand &) const { return false; }
  /// What a use reads where a collective stands in between.
  virtual FusionQuestions::Copy copyReadBy(mlir::OpOperand &) const {
    return {};
  }

  /// The type of a value on one device as it is made, and as a use reads it.
  virtual mlir::RankedTensorType localType(mlir::Value value) const {
    return tensorType(value);
  }
  virtual mlir::RankedTensorType typeRead(mlir::OpOperand &use) const {
    return tensorType(use.get());
  }
  /// Bytes of a value on one device as it is made, and as most uses read it.
  virtual int64_t bytes(mlir::Value value) const {
    return sizeBytes(localType(value));
  }
  virtual int64_t bytesRead(mlir::Value value) const { return bytes(value); }

  int64_t elements(mlir::Value value) const {
    return localType(value).getNumElements();
  }
  int64_t elementsRead(mlir::OpOperand &use) const {
    return typeRead(use).getNumElements();
  }

  const Views &views;
  /// Whether kernels compute again what is cheap (ComputedTwice.h).
  bool computesTwice = false;
  /// Whether libraries have one step of each kind behind a product.
  bool hasFixedEpilogue = false;
  /// Whether blocks of a GPU share long sums.
  bool sumsByBlock = false;
};

/// Planning's answers about the ops of one function.
class FunctionAnswers : public FusionQuestions {
public:
  FunctionAnswers(mlir::Block &block, const FunctionQuestions &function);

  Role roleOf(mlir::Operation *op) const override;
  bool isOfUpdate(mlir::Operation *op) const override;
  bool mayJoin(mlir::Operation *op) const override;
  /// A library call can take in a bias, an addend and functions of one number;
  /// computations on parameters alone (a folded normalization) go into its
  /// operands. It may store more than 16 bits of a product, but it does not
  /// round a value that it has computed.
  bool takesIn(llvm::ArrayRef<mlir::Operation *> ops,
               mlir::OpOperand &read) const override;
  bool canFuse(llvm::ArrayRef<mlir::Operation *> ops) const override;
  /// The same where nobody else reads some of them, copies.
  bool canFuse(llvm::ArrayRef<mlir::Operation *> ops,
               llvm::ArrayRef<mlir::Operation *> copies) const;
  mlir::Operation *makerOf(mlir::OpOperand &read) const override;
  /// Behind views.
  llvm::SmallVector<mlir::OpOperand *>
  readsOf(mlir::Operation *op) const override;
  bool isApart(mlir::OpOperand &read) const override;
  mlir::Value memoryOf(mlir::Value value) const override;
  int64_t bytesOf(mlir::Value memory) const override;
  Copy copyReadBy(mlir::OpOperand &read) const override {
    return function.copyReadBy(read);
  }

  /// The concatenations in whose memory values are written, by these.
  const llvm::DenseMap<mlir::Value, mlir::Value> &getPlaces() const {
    return places;
  }

private:
  void findJoins(mlir::Block &block);
  /// Whether nobody computes the concatenation (Joins.h).
  bool isJoin(mlir::Operation *op,
              const llvm::DenseSet<mlir::Value> &ofCalls) const;
  /// The results that calls store, behind what they take in.
  llvm::DenseSet<mlir::Value> findCallResults(mlir::Block &block) const;
  /// Whether steps compute the value that is read, in this function.
  bool isComputed(mlir::OpOperand &read) const;
  /// Whether a call that adds in place gives `next` its other operand: the
  /// product is what it adds to.
  bool isSumBehind(mlir::Operation *anchor, mlir::Operation *next) const;
  /// Whether `read`, alone, is added to another value of its type.
  bool addsTo(mlir::OpOperand &read) const;
  /// Whether a product can write its result where `move` (a transpose, reshape
  /// or slice behind it) would: a matrix product writes rows in any order, and
  /// parts of rows if a product reads them; a convolution writes whole images.
  bool storesMoved(mlir::Operation *anchor, mlir::Operation *move) const;
  /// Whether the library has the step of `read`'s owner, behind those of `ops`.
  bool hasStep(llvm::ArrayRef<mlir::Operation *> ops,
               mlir::OpOperand &read) const;
  /// What the step of `op` reads beside `self`.
  StepOperand stepOperandOf(mlir::Operation *op, mlir::Value self) const;
  int64_t numPartsOf(mlir::Operation *op) const;
  /// Of the memory that the op makes, or sees.
  void collectReads(mlir::Operation *op,
                    llvm::SmallVectorImpl<mlir::OpOperand *> &reads) const;

  /// An op whose loops cannot have any order.
  struct Ordered {
    bool readsElsewhere;
    int64_t numParts; ///< into which lowering cuts a sum; 1: none
  };

  const FunctionQuestions &function;
  /// Of the ops of rows, and those that read elsewhere. Asked for every op of
  /// each group that might be.
  llvm::DenseMap<mlir::Operation *, Ordered> ordered;
  bool hasParts = false; ///< whether some sum is cut into parts
  llvm::DenseSet<mlir::Operation *> joins;
  llvm::DenseMap<mlir::Value, mlir::Value> places; ///< of parts of joins
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MEMORY_FUSIONANSWERS_H
