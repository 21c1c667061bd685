//===- Simplify.h - rewrites among nn ops -----------------------*- C++ -*-===//
//
// Exporters spell one computation in many ways; these patterns bring it to one
// form. All of them keep values up to rounding and run to a fixed point; each
// moves in one direction only (views and transposes down, slices up, small ops
// into large ones), so that they terminate together.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_SIMPLIFY_H
#define KERF_NN_SIMPLIFY_H

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

} // namespace kerf::nn

#endif // KERF_NN_SIMPLIFY_H
