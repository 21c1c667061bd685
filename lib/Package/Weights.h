//===- Weights.h - the stored tensors of a package --------------*- C++ -*-===//
//
// Problem: parameters are views and parts of tensors in the model's files, and
// several parameters may be of one tensor.
//
// Idea: each distinct range of a file, and each distinct literal, is stored
// once in weights.safetensors. The format allows no gaps, so tensors whose size
// is a multiple of 64 come first: all of them start at multiples of 64 and can
// be used where they are mapped.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PACKAGE_WEIGHTS_H
#define KERF_LIB_PACKAGE_WEIGHTS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace kerf {

/// Bytes of a tensor: a range of a file, or a literal.
struct StoredTensor {
  std::string name;
  mlir::RankedTensorType type;
  int64_t file = -1; ///< index into kerf.files; -1: `data`
  int64_t offset = 0;
  mlir::DenseElementsAttr data;
  int64_t sizeBytes() const;
};

struct ExternalFile {
  std::string path; ///< absolute
  int64_t bytes = 0;
};

struct WeightPlan {
  /// In the order in which they are written.
  std::vector<StoredTensor> tensors;
  /// By `source` of exec.parameter: the name of its stored tensor.
  llvm::DenseMap<mlir::Attribute, std::string> names;
  /// For weights in place: the files that are referred to, and the number of
  /// each of kerf.files among them.
  std::vector<ExternalFile> external;
  llvm::DenseMap<int64_t, int64_t> externalOf;
};

/// Collects the tensors of the module's parameters. An error if a file is
/// missing or too short.
llvm::Expected<WeightPlan> planWeights(mlir::ModuleOp module, bool inPlace);

/// Adds to `plan` the tensors of another module's plan, over the same files,
/// that it has not; the names of `other` are those of `plan` behind it.
void shareWeights(WeightPlan &plan, WeightPlan &other);

/// Writes `plan.tensors` as safetensors.
llvm::Error writeWeights(mlir::ModuleOp module, const WeightPlan &plan,
                         llvm::raw_fd_ostream &stream);

} // namespace kerf

#endif // KERF_LIB_PACKAGE_WEIGHTS_H
