//===- Reference.h - nn ops element by element, in double -------*- C++ -*-===//
//
// What generated kernels are judged by: the formulas of the op descriptions,
// written as plainly as possible over double, with explicit index vectors.
// Shares no code with the code generator.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_CODEGEN_REFERENCE_H
#define KERF_UNITTESTS_CODEGEN_REFERENCE_H

#include "mlir/IR/Operation.h"

#include <vector>

namespace kerf::reference {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> data;
  int64_t size() const { return data.size(); }
};

/// The result of one nn op; integers must be below 2^53.
Tensor evaluate(mlir::Operation *op, const std::vector<Tensor> &operands);

} // namespace kerf::reference

#endif // KERF_UNITTESTS_CODEGEN_REFERENCE_H
