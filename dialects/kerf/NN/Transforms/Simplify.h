//===- Simplify.h - rewrites among nn ops -----------------------*- C++ -*-===//
//
// Exporters write one computation in many ways; these patterns bring it to one
// form. All of them keep values up to rounding and are applied until nothing
// changes. Each moves ops in one direction only (views and transposes down,
// slices up, small ops into large ones), so that they terminate together.
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_TRANSFORMS_SIMPLIFY_H
#define KERF_NN_TRANSFORMS_SIMPLIFY_H

#include "mlir/IR/PatternMatch.h"

namespace kerf::nn {

/// Ops on constants are computed; identities vanish.
void populateFoldPatterns(mlir::RewritePatternSet &patterns);
/// Transposes sink towards the results, meet and cancel; into matmul's flags.
void populateTransposePatterns(mlir::RewritePatternSet &patterns);
/// Slices rise to what they cut; matmuls of cut weights come apart.
void populateSlicePatterns(mlir::RewritePatternSet &patterns);
/// layer_norm, rms_norm, gelu and softmax from their parts.
void populateRecognitionPatterns(mlir::RewritePatternSet &patterns);
/// Gathers by a run of consecutive constants become slices.
void populateGatherPatterns(mlir::RewritePatternSet &patterns);
/// All of the above.
void populateSimplifyPatterns(mlir::RewritePatternSet &patterns);
/// Concats of what is computed alike of rows that lie behind each other (loops
/// that import has written out) become one computation along one more
/// dimension; returns how many. Linear in the ops.
int64_t joinAlikeParts(mlir::Block &block);

/// Which attentions a target has as one call (nn.attention).
struct AttentionForms {
  /// Also match f32, which will be rounded (--precision=bf16); else only bf16.
  bool wide = false;
  /// Gradients are needed: a bias that could be trained does not match.
  bool training = false;
  /// Sizes of heads: a multiple of the first, at most the second. cuDNN's
  /// limits, on every GPU.
  int64_t headMultiple = 8, maxHead = 128;
  /// The bias of a hidden position: far below every score, finite in the type
  /// of the call, also in kernels that compute with powers of two.
  double lowest = -1e30;
};
/// Replaces the parts of attention in one block by nn.attention; returns how
/// many. Not among the patterns: only some targets have the call.
int64_t recogniseAttention(mlir::Block &block, const AttentionForms &forms);

} // namespace kerf::nn

#endif // KERF_NN_TRANSFORMS_SIMPLIFY_H
