//===- AttentionOperands.h - the operands of attention ----------*- C++ -*-===//
//
// attention and attention_gradient have up to ten operands over four kinds of
// shapes; all readers of a descriptor (parser, CPU, cuDNN, recording) use this
// list.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_PACKAGE_ATTENTIONOPERANDS_H
#define KERF_RUNTIME_PACKAGE_ATTENTIONOPERANDS_H

#include "Manifest.h"

namespace kerf::rt {

struct AttentionOperand {
  const char *name; ///< in the manifest
  const Operand *operand;
  Shape dims; ///< [batch, heads, rows, columns]; stats: without columns
  kerf_dtype_t dtype;
  bool writes = false, optional = false;

  /// Its strides; dense where the manifest has none.
  Shape strides() const;
};

/// What the call has, in the order of the manifest's documentation, reads
/// first.
std::vector<AttentionOperand> attentionOperands(const LibraryDesc &desc);

} // namespace kerf::rt

#endif // KERF_RUNTIME_PACKAGE_ATTENTIONOPERANDS_H
