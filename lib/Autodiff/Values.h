//===- Values.h - classifies sources by their elements ----------*- C++ -*-===//
//
// A mask and learned positions are used alike; only their values differ.
// Weights stay in their mapped files: elements are read in place, and each
// question stops at the first element that answers it. Without the file (plans
// from shapes alone) nothing is known.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_AUTODIFF_VALUES_H
#define KERF_LIB_AUTODIFF_VALUES_H

#include "kerf/Support/MappedFile.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"

#include <memory>
#include <optional>
#include <vector>

namespace kerf::autodiff {

/// The elements of a source, in row-major order.
class Values {
public:
  int64_t size() const { return type.getNumElements(); }
  llvm::ArrayRef<int64_t> shape() const { return type.getShape(); }
  double operator[](int64_t index) const;

  /// A row for each of several positions, as every table has.
  bool hasPositions() const;
  /// All elements are equal.
  bool isUniform() const;
  /// 0 where a score is kept, and -inf or a very negative number where it is
  /// masked.
  bool isScoreMask() const;
  /// 0 and one negative number, both present: a mask with any value (Swin has
  /// -100).
  bool isTwoValuedMask() const;
  /// 0 and 1, both present.
  bool isZeroOne() const;
  /// Equal steps along the last dimension: positions, ALiBi's slopes.
  bool isProgression() const;
  /// Sines and cosines of one angle side by side, halves or neighbours; or of
  /// equally spaced angles along a dimension.
  bool isSinusoid() const;
  /// `*this` and `other` are cosines and sines of the same angles.
  bool isSinusoidWith(const Values &other) const;
  /// `other` is a matrix of swapped shape with the same elements.
  bool isTransposeOf(const Values &other) const; // Transposes.cpp

private:
  friend class ValueReader;
  bool pairsAreOnCircle(int64_t distance) const;
  bool recursAlong(int64_t dim) const;

  mlir::RankedTensorType type;
  const uint8_t *data = nullptr; ///< of the stored tensor
  bool isSplat = false;
  /// Where the view begins in the stored tensor, and the stored tensor's
  /// strides; empty if it is the whole tensor.
  int64_t begin = 0;
  llvm::SmallVector<int64_t> strides;
};

/// Opens the module's files when they are first asked for.
class ValueReader {
public:
  explicit ValueReader(mlir::ModuleOp module) : module(module) {}
  /// None if `source` is no source with content, or its file is absent.
  std::optional<Values> read(mlir::Operation *source);

private:
  mlir::ModuleOp module;
  std::vector<std::unique_ptr<MappedFile>> files;
};

} // namespace kerf::autodiff

#endif // KERF_LIB_AUTODIFF_VALUES_H
