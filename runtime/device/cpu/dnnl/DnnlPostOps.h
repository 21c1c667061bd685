//===- DnnlPostOps.h - post-ops of the manifest as oneDNN's -----*- C++ -*-===//
#ifndef KERF_RUNTIME_DEVICE_CPU_DNNL_DNNLPOSTOPS_H
#define KERF_RUNTIME_DEVICE_CPU_DNNL_DNNLPOSTOPS_H

#include "../../../package/Manifest.h"
#include "Dnnl.h"

#include <functional>

namespace kerf::rt {

/// A post-op in oneDNN's terms: one or two of these.
struct SimplePostOp {
  enum Kind { Sum, Eltwise, Binary };
  Kind kind = Eltwise;
  dnnl_alg_kind_t algorithm = dnnl_alg_kind_undef;
  float alpha = 0, beta = 0;        ///< Eltwise
  const Operand *operand = nullptr; ///< Binary: of the given post-op
};
/// Throws KERF_BAD_PACKAGE for an unknown kind or a missing operand.
std::vector<SimplePostOp> simplify(const PostOp &op);

/// Whether oneDNN would compute one of two post-ops of a primitive with the
/// constants of the other: its generated code (2.6.3) keeps one alpha and beta
/// for all steps of an algorithm.
bool sharesConstants(const SimplePostOp &a, const SimplePostOp &b);

/// A post-op with a second tensor: its place in oneDNN's list.
struct BinaryPostOp {
  int index;
  const Operand *operand;
  dnnl_memory_desc_t desc;
};

/// Builds the attribute; describe(operand) gives the memory descriptor of a
/// second tensor, broadcast dimensions as 1.
DnnlHandle<dnnl_primitive_attr_t> makeAttributes(
    const std::vector<PostOp> &ops,
    const std::function<dnnl_memory_desc_t(const Operand &)> &describe,
    std::vector<BinaryPostOp> &binaries);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_DNNL_DNNLPOSTOPS_H
