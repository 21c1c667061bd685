//===- Tensor.h - a tensor of the interpreter -------------------*- C++ -*-===//
//
// Dense, row-major, every element a double: the interpreter checks meaning, not
// rounding, and all integers of the tests are exact in doubles.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERPRET_TENSOR_H
#define KERF_INTERPRET_TENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <random>
#include <vector>

namespace kerf::interpret {

using Index = llvm::SmallVector<int64_t, 6>;

struct Tensor {
  Index shape;
  std::vector<double> data;

  Tensor() = default;
  explicit Tensor(llvm::ArrayRef<int64_t> shape, double fill = 0);

  /// Position of an index that lies inside.
  int64_t offset(llvm::ArrayRef<int64_t> index) const;
  bool contains(llvm::ArrayRef<int64_t> index) const;
  double &at(llvm::ArrayRef<int64_t> index) { return data[offset(index)]; }
  double at(llvm::ArrayRef<int64_t> index) const { return data[offset(index)]; }
  /// The element at a position, right-aligned and broadcast along dimensions of
  /// size 1, as NumPy does.
  double broadcastAt(llvm::ArrayRef<int64_t> index) const;
};

/// Calls `visit` with every index of `shape` in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);

/// The elements of a literal.
Tensor fromElements(mlir::DenseElementsAttr elements);

/// Raw little-endian elements, as files and buffers hold them; a bool is a
/// byte.
Tensor fromBytes(mlir::RankedTensorType type, llvm::ArrayRef<uint8_t> bytes);
/// The reverse.
std::vector<uint8_t> toBytes(mlir::RankedTensorType type, const Tensor &tensor);

/// Rounds as a tensor of this element type would: to the nearest number, to
/// infinity past the largest one; integers of up to 32 bits wrap around.
void roundTo(Tensor &tensor, mlir::Type elementType);
/// The same, but a number between two of the type is moved first, by up to half
/// of `units` distances of two, so that it becomes either by chance. `terms`,
/// of the same shape: what the numbers that were added up to each element come
/// to without their signs; it is moved by as much of that as well, since a
/// program rounds each partial sum: the error of a sum in any order is a small
/// multiple of a unit of its terms' magnitudes, however small the sum is (N. J.
/// Higham, "The Accuracy of Floating Point Summation", SIAM J. Sci. Comput. 14,
/// 1993).
void roundRandomlyTo(Tensor &tensor, mlir::Type elementType, double units,
                     std::mt19937_64 &random, const Tensor *terms = nullptr);

} // namespace kerf::interpret

#endif // KERF_INTERPRET_TENSOR_H
