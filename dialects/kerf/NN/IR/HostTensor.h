//===- HostTensor.h - elements in memory, widened ---------------*- C++ -*-===//
//
// The evaluator's working form: doubles or 64-bit integers in row-major order,
// or one element standing for all (a splat).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_IR_HOSTTENSOR_H
#define KERF_NN_IR_HOSTTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <vector>

namespace kerf::nn {

struct HostTensor {
  mlir::RankedTensorType type;
  bool splat = false;
  std::vector<double> floats;    ///< if the element type is a float
  std::vector<int64_t> integers; ///< otherwise

  bool isFloat() const {
    return llvm::isa<mlir::FloatType>(type.getElementType());
  }
  size_t size() const { return isFloat() ? floats.size() : integers.size(); }
};

HostTensor decode(mlir::DenseElementsAttr attr);
/// Rounds to the element type of `tensor.type`.
mlir::DenseElementsAttr encode(const HostTensor &tensor);

} // namespace kerf::nn

#endif // KERF_NN_IR_HOSTTENSOR_H
