//===- Images.h - what operators on images share ----------------*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_OPERATORS_IMAGES_H
#define KERF_LIB_IMPORT_OPERATORS_IMAGES_H

#include "../Graph/Node.h"

namespace kerf::onnx_import {

/// From ONNX's order of dimensions to that of nn's images, and back. Null for
/// null.
mlir::Value toChannelsLast(Node &node, mlir::Value x);
mlir::Value toChannelsFirst(Node &node, mlir::Value x);

/// The attribute's `count` entries, each `otherwise` where it is absent;
/// reports a list of another length.
std::optional<llvm::SmallVector<int64_t>>
perDimension(Node &node, llvm::StringRef name, size_t count, int64_t otherwise);

/// The attribute auto_pad.
enum class AutoPad { None, SameUpper, SameLower, Valid };
std::optional<AutoPad> autoPadOf(Node &node);

/// Splits what SameUpper and SameLower pad in all: in front, behind.
std::pair<int64_t, int64_t> splitPad(AutoPad automatic, int64_t total);

/// Whether the rank is 3 to 5; reports otherwise.
bool isImage(Node &node, mlir::Value x);

/// The convolution of `x` and weights, channels first, by the node's
/// attributes; null after reporting what does not fit.
mlir::Value convolution(Node &node, mlir::Value x, mlir::Value weights);

/// What Conv computes of its first three inputs and its attributes; null after
/// reporting what does not fit.
mlir::Value convolve(Node &node);

/// Window attributes, one entry for each spatial dimension.
struct WindowShape {
  llvm::SmallVector<int64_t> kernel, strides, dilations, low, high;
  /// `high` without what ceil_mode adds.
  llvm::SmallVector<int64_t> declaredHigh;
};

/// Where in `x`, as one row of all its elements, the first of each window's
/// largest elements is, which `maxima` holds; i64. The order of the spatial
/// dimensions is reversed if `columnMajor`. Null after reporting windows of too
/// many elements.
mlir::Value maxPoolIndices(Node &node, mlir::Value x, mlir::Value maxima,
                           const WindowShape &window, bool columnMajor);

/// A convolution's result with the bias of input 2, if there is one, of this
/// many elements.
mlir::LogicalResult addBias(Node &node, mlir::Value &result, int64_t channels);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_OPERATORS_IMAGES_H
