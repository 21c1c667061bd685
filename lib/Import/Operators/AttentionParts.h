//===- AttentionParts.h - what operators of attention share -----*- C++ -*-===//
//
// softmax(scale q k^T + masks) v as matmuls and softmax: the same ops as from
// exporters that write attention out, so nothing behind import knows which
// operator they came from.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_OPERATORS_ATTENTIONPARTS_H
#define KERF_LIB_IMPORT_OPERATORS_ATTENTIONPARTS_H

#include "../Graph/Node.h"

namespace kerf::onnx_import {

/// Attention of s queries in h heads to t keys in g heads, where g divides h:
/// query head i reads key head i / (h / g).
struct AttentionForm {
  using Value = mlir::Value;
  Value q;    ///< [b, h, s, d]
  Value k, v; ///< [b, g, t, d], [b, g, t, e]
  /// Booleans (true: seen) or numbers that are added to the scores; broadcasts
  /// to [b, h, s, t]. Keys behind the end of a shorter one are hidden.
  Value mask;
  /// Of each sample, i64 [b]: keys from there on are hidden.
  Value lengths;
  /// Query i stands at position past + i among the keys.
  int64_t past = 0;
  Value pastOf; ///< in its place, of each sample: i64 [b]
  /// A query sees keys up to its own position.
  bool causal = false;
  /// Keys further in front of a query, or behind it, are hidden; -1: none is.
  int64_t left = -1, right = -1;
  double scale = 0; ///< 0: 1 / sqrt(d)
  /// Scores become softcap tanh(score / softcap); 0: they stay.
  double softcap = 0;
};

struct AttentionValues {
  mlir::Value raw, capped, masked, weights; ///< [b, h, s, t]
  mlir::Value y;                            ///< [b, h, s, e]
};

/// Fails after reporting shapes that do not fit each other.
mlir::FailureOr<AttentionValues> attend(Node &node, AttentionForm form);

/// [b, s, h d] -> [b, h, s, d]; null after reporting another shape.
mlir::Value splitHeads(Node &node, mlir::Value x, int64_t heads);
/// [b, h, s, d] -> [b, s, h d]
mlir::Value joinHeads(Node &node, mlir::Value x);

/// Rotates pairs of the first `rotated` elements of [b, h, s, d] by angles
/// whose cosine and sine are given, [b or 1, s, rotated / 2]. Pairs are
/// elements 2i and 2i + 1, or i and i + rotated / 2.
mlir::Value rotatePairs(Node &node, mlir::Value x, mlir::Value cos,
                        mlir::Value sin, int64_t rotated, bool interleaved);

/// Writes `updates` [b, ..., n, ...] into `cache` along `axis`, from place
/// `first` (i64 [b]; null: 0) of each sample on, modulo the size if `circular`.
mlir::Value writeAt(Node &node, mlir::Value cache, mlir::Value updates,
                    mlir::Value first, int64_t axis, bool circular = false);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_OPERATORS_ATTENTIONPARTS_H
