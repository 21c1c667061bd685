//===- LibraryCall.h - library calls and what they take in ------*- C++ -*-===//
//
// Problem: the library that computes matmul and convolution can add a bias,
// apply activations and add a residual while the result is still in registers,
// and can read and write strided. Every op that is not given to it costs a pass
// over memory.
//
// Idea: from the contraction (the anchor) follow its result as long as it has
// one use, and take in elementwise ops that exist as post-ops and shape ops
// that strides of the destination can express. Follow each operand backwards
// through shape ops that strides of the operand can express.
//
// Invariant: the call computes `result` from the bases of its operands and
// nothing else; it replaces `ops`, in block order, whose other results are not
// used elsewhere. Linear in the length of the chains.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_LOWER_LIBRARY_LIBRARYCALL_H
#define KERF_LIB_LOWER_LIBRARY_LIBRARYCALL_H

#include "Strides.h"

#include "kerf/Exec/Exec.h"

namespace kerf {

struct PostOp {
  exec::PostOpKind kind;
  std::optional<double> alpha, beta;
  /// Strides over the logical dimensions of the call's dst.
  std::optional<StridedView> operand;
};

struct LibraryCall {
  /// The op of nn, which determines the kind of call.
  mlir::Operation *anchor = nullptr;
  llvm::SmallVector<mlir::Operation *> ops;
  /// The value that the call stores, dense.
  mlir::Value result;
  /// Matmul: strides over [batch.., m, k], [batch.., k, n], [batch.., m, n].
  Dims batch;
  int64_t m = 0, n = 0, k = 0;
  /// Conv: lhs are the activations, rhs the weights, both dense. All other
  /// kinds: the op's operands in order (one: `lhs`), dense.
  StridedView lhs, rhs, dst;
  /// ScatterAdd: the dense tensor to which rows are added; without one, zeros.
  std::optional<StridedView> base;
  mlir::Type inputType, resultType; ///< element types
  std::optional<StridedView> bias;  ///< one element per n or output channel
  llvm::SmallVector<PostOp> postOps;
  /// Operands besides lhs and rhs. Attention (queries and keys): in the order
  /// of the op of exec, a bias last; strides over [batch, heads, rows,
  /// columns].
  llvm::SmallVector<StridedView, 0> moreOperands;
  /// And results beside `result`: the statistics, or the gradients of keys and
  /// values. `value` is what is stored, dense.
  struct Result {
    StridedView view;
    mlir::Value value;
  };
  llvm::SmallVector<Result, 0> moreResults;
  /// The result is added to this argument of the function, a sum over
  /// micro-batches, and written over it: by a first post-op `sum`, or as
  /// `base`.
  mlir::Value accumulator;
};

/// The call for a matmul or convolution, or none for types and layouts that
/// the library does not take.
std::optional<LibraryCall> selectLibraryCall(mlir::Operation *op);

/// Of nn.attention and its gradient (Attention.cpp).
std::optional<LibraryCall> selectAttention(mlir::Operation *op);

/// Types of 16 bits, whose products a library may store in f32.
inline bool isHalf(mlir::Type element) {
  return element.isBF16() || element.isF16();
}

/// Shape ops between a base and the op that reads it belong to the call.
void takeOperandChain(LibraryCall &call, mlir::Value operand, mlir::Value base);

/// Removes batch dimensions of size 1, merges neighbouring ones if one stride
/// describes both for every tensor, and moves batch dimensions that rhs
/// broadcasts into m.
void mergeDims(LibraryCall &call);

/// The value of a splat constant, looked for through shape ops and float casts.
std::optional<double> splatValue(mlir::Value value);

} // namespace kerf

#endif // KERF_LIB_LOWER_LIBRARY_LIBRARYCALL_H
