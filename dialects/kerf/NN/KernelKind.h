//===- KernelKind.h - how an op is computed in a kernel ---------*- C++ -*-===//
//
// Code generation distinguishes a few kinds of ops, by where an element of the
// result reads its operands. An op states its kind in its definition
// (KernelInterface).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_KERNELKIND_H
#define KERF_NN_KERNELKIND_H

#include "mlir/IR/OpDefinition.h"

namespace kerf::nn {

enum class KernelKind {
  Elementwise, ///< a function of elements at (broadcast) equal indices
  Shape,       ///< moves elements: one operand, no guard
  Pad,
  Concat,
  Constant,
  Iota,
  Gather,
  Row,         ///< combines elements along dimensions (RowInterface)
  Window,      ///< pools, lrn
  Contraction, ///< matmul, conv
  Unsupported, ///< in no kernel
};

/// The trait of ops of one kind; supplies KernelInterface's method.
template <KernelKind kind> struct OfKernelKind {
  template <typename ConcreteOp>
  class Impl : public mlir::OpTrait::TraitBase<ConcreteOp, Impl> {
  public:
    static KernelKind getKernelKind() { return kind; }
  };
};

} // namespace kerf::nn

#endif // KERF_NN_KERNELKIND_H
