//===- PullEmitter.h - values of nn ops at symbolic indices -----*- C++ -*-===//
//
// Problem: kernels for CPUs and for GPUs run loops and keep partial results in
// different ways, but compute elements in the same way.
//
// Idea: `pull` computes a value at symbolic indices, over any builder
// (Builder.h). A result that is constant over the lanes of the innermost loop
// is a scalar, any other a vector of `lanes` elements; operations on both widen
// the scalar. A subclass supplies loads, loops and memory: KernelEmitter for
// LLVM IR, GpuEmitter for gpu.func.
//
// Invariant: a value that `pull` returns dominates the current insertion point;
// memo entries are dropped at the end of the loop or branch in which they were
// computed. Nothing outside of the buffers is read or written.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_PULLEMITTER_H
#define KERF_LOWER_CODEGEN_PULLEMITTER_H

#include "KernelPlan.h"
#include "VectorMath.h"

#include "kerf/NN/NN.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/InstrTypes.h"

#include <functional>

namespace kerf::codegen {

template <typename B> class PullEmitter {
public:
  virtual ~PullEmitter() = default;

protected:
  using V = typename B::V;
  using T = typename B::T;
  /// Values that are reduced together: one; or, for arg_reduce, element and
  /// position.
  using State = llvm::SmallVector<V, 2>;
  using Combine = std::function<State(const State &, const State &)>;
  using Body = llvm::function_ref<void()>;

  template <typename... Args>
  explicit PullEmitter(KernelPlan &plan, Args &&...args)
      : plan(plan), space(plan.space), b(std::forward<Args>(args)...), math(b) {
  }

  //===--------------------------------------------------------------------===//
  // What the subclass supplies.
  //===--------------------------------------------------------------------===//

  /// A loop whose variable takes base, base + step, ...; `count` values.
  virtual void forStatic(int64_t count, int64_t step, V base,
                         llvm::function_ref<void(V)> body) = 0;
  virtual void ifThen(V condition, Body then) = 0;
  /// A value from one of two branches.
  virtual V ifElse(V condition, llvm::function_ref<V()> then,
                   llvm::function_ref<V()> otherwise) = 0;
  /// Memory for one value of the type, alive as long as the kernel.
  virtual V entryAlloca(T type) = 0;
  /// The elements of an input at a flat index, in compute type.
  virtual V loadInput(mlir::Value value, const Index &flat) = 0;
  virtual V load(V pointer, mlir::Type element, const Index &flat,
                 bool invariant) = 0;
  /// The elements of a dense constant.
  virtual V constantData(mlir::Operation *op, mlir::DenseElementsAttr data) = 0;
  virtual T storageType(mlir::Type element) = 0;
  virtual V fromStorage(V raw, mlir::Type element) = 0;
  virtual V toStorage(V value, mlir::Type element) = 0;
  /// Reports `code` of an op with the detail of a bad lane, if any, and
  /// continues.
  virtual void failIf(mlir::Operation *op, V bad, V detail, int code) = 0;
  /// The same for an index into a dimension of `size` elements.
  virtual void failIndexIf(mlir::Operation *op, V bad, V index,
                           int64_t size) = 0;
  /// The type of indices.
  virtual T indexType() = 0;
  /// Whether the guard varies, but has one value for all lanes.
  virtual bool lanesAgree(const Guard &guard) { return false; }

  /// All elements of a row, in vectors of up to `wide` lanes.
  virtual void forRow(Flat &flat, int64_t wide, Body body) = 0;
  virtual State reduceRow(Flat &flat, int64_t wide, const State &identity,
                          llvm::function_ref<State()> element,
                          const Combine &combine) = 0;
  /// Memory for a row of this many elements; null: elements are recomputed.
  virtual V rowBuffer(int64_t count, T type) = 0;
  /// The address of the current vector of a row in such memory.
  virtual V rowPlace(V buffer, T type, const Index &position) = 0;
  virtual V loadRow(V place, T type) = 0;
  virtual void storeRow(V value, V place) = 0;
  /// Lanes of one register of f32: row loops may run in several.
  int64_t native = 1;

  //===--------------------------------------------------------------------===//
  // PullIndices.h: indices, element types.
  //===--------------------------------------------------------------------===//

  V scalarIndex(const Index &index);
  V scalarAtom(AtomId atom);
  V laneIndex(const Index &index);
  V laneIndexAs(const Index &index, T type);
  bool variesOverLanes(const Index &index);
  std::optional<int64_t> laneStride(const Index &index);
  AtomId runtimeAtom(V value, int64_t low, int64_t high);
  V indexConstant(int64_t value) { return b.integer(indexType(), value); }
  V widen(V value, int64_t to = 0);
  void widenAll(llvm::MutableArrayRef<V> values);
  T computeType(mlir::Type element);
  T vectorOf(T type, int64_t width) { return b.vectorOf(type, width); }
  V constantOf(mlir::Type element, double value);
  V constantOf(mlir::Type element, mlir::Attribute value);

  //===--------------------------------------------------------------------===//
  // PullValues.h: ops that move elements.
  //===--------------------------------------------------------------------===//

  V pull(mlir::Value value, llvm::ArrayRef<Index> index);
  V pullOp(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullUses(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullGuarded(mlir::Value operand, const OperandUse &use,
                llvm::function_ref<V()> otherwise);
  V guardCondition(llvm::ArrayRef<Guard> guards);
  V pullConstant(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullIota(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullGather(mlir::Operation *op, llvm::ArrayRef<Index> index);

  //===--------------------------------------------------------------------===//
  // PullElementwise.h
  //===--------------------------------------------------------------------===//

  V elementwise(mlir::Operation *op, llvm::MutableArrayRef<V> operands);
  V batchNorm(nn::BatchNormOp op, llvm::ArrayRef<V> operands);
  V elementwiseInteger(mlir::Operation *op, llvm::ArrayRef<V> operands);
  V convert(V value, mlir::Type from, mlir::Type to);
  V convertNarrow(V value, mlir::Type from, mlir::Type to);
  V bitcast(V value, mlir::Type from, mlir::Type to);
  V philoxUniform(uint64_t stream, llvm::ArrayRef<V> operands);

  //===--------------------------------------------------------------------===//
  // PullRows.h
  //===--------------------------------------------------------------------===//

  struct RowElements;
  void computeRow(mlir::Operation *op);
  V pullRow(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V rowElement(mlir::Operation *op);
  V extreme(T type, bool largest, bool isUnsigned);
  State reduceFor(mlir::Operation *op, Flat &flat);
  State argReduceFor(mlir::Operation *op, Flat &flat);
  V sumRow(Flat &flat, int64_t wide, V like, llvm::function_ref<V()> element);

  //===--------------------------------------------------------------------===//
  // PullWindows.h
  //===--------------------------------------------------------------------===//

  V pullPool(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullLRN(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullMatmul(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullConv(mlir::Operation *op, llvm::ArrayRef<Index> index);
  void forWindow(llvm::ArrayRef<int64_t> sizes, IndexVec &window, Body body);

  void pushScope() { scopes.emplace_back(); }
  void popScope() { scopes.pop_back(); }

  KernelPlan &plan;
  IndexSpace &space;
  B b;
  VectorMathOf<B> math;

  /// Lanes of the code being emitted, and the atom that they run over.
  int64_t lanes = 1;
  AtomId laneAtom = ~0u;
  /// Current values: of loops (of lane 0), and of runtime atoms.
  llvm::DenseMap<AtomId, V> atomValues;
  llvm::DenseMap<mlir::Operation *, V> constants;

  std::vector<std::map<std::pair<void *, IndexVec>, V>> scopes;

  /// Of the current row: statistics of each Row op, and the rows that are
  /// buffered.
  llvm::DenseMap<mlir::Operation *, State> rowState;
  struct Kept {
    V buffer;
    IndexVec index;
    Index position;
  };
  llvm::DenseMap<mlir::Value, Kept> kept;
  llvm::DenseMap<mlir::Operation *, Kept> keptExp;
};

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_PULLEMITTER_H
