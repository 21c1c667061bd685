//===- Sources.h - parameters, masks, tables and numbers --------*- C++ -*-===//
//
// Problem: exporters store masks, tables of sines and cosines and numbers in
// the same way as weights. A step that changes them trains another model.
//
// Idea: use decides. From a source the walk follows ops on constants alone to
// the ops that join it with data; each of these says what a constant operand is
// there (OperandRole). A factor of a product, a normalization's parameter or a
// table of rows is learned. What is added or multiplied elementwise may be a
// bias, a scale, learned positions, a mask or a table: its values decide. The
// name decides only what both leave open, and a note says so.
//
// A file of PyTorch's exporter says which weights are buffers or constants
// (kerf.buffers) and which parameters (kerf.parameters: a vector of frequencies
// and a number are learned then), and its older exporter has none but constants
// in Constant nodes, whose outputs it numbers.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_AUTODIFF_SOURCES_H
#define KERF_LIB_AUTODIFF_SOURCES_H

#include "Values.h"
#include "kerf/Autodiff/Autodiff.h"
#include "kerf/Interfaces/OperandRole.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace kerf::autodiff {

/// The classification of a source by its use and values.
struct SourceVerdict {
  bool isParameter = true;
  KeptWhy why = KeptWhy::Frozen; ///< why it is no parameter, if it is none
  bool isClear = true;           ///< false: its name decided
  /// The file of its numbers is absent, and they could have said otherwise.
  bool lacksNumbers = false;
};

class SourceAnalysis {
public:
  explicit SourceAnalysis(mlir::func::FuncOp main);
  /// `name`: in the model's file, where copies have that of the original.
  SourceVerdict classify(mlir::Operation *source, llvm::StringRef name);

private:
  /// An op that joins a source with data.
  struct Use {
    OperandRole role;
    mlir::Operation *op;
    unsigned operand;
  };
  llvm::SmallVector<Use> usesOf(mlir::Value source);
  bool areFrequencies(mlir::Value source);
  bool isLearnedNumber(const Use &use);
  bool isBias(mlir::Value source, const Use &use);
  SourceVerdict classifyNumber(llvm::ArrayRef<Use> uses, llvm::StringRef name);
  bool isTable(mlir::Operation *source, const Values &values,
               llvm::ArrayRef<Use> uses);

  mlir::func::FuncOp main;
  ValueReader reader;
  llvm::StringSet<> declaredBuffers, declaredParameters;
  /// Values that are computed from sources alone.
  llvm::DenseSet<mlir::Value> constants;
  /// Sources that are multiplied elementwise, by their number of elements:
  /// among these a table of cosines finds its sines.
  llvm::MapVector<int64_t, llvm::SmallVector<mlir::Operation *>> factors;
};

} // namespace kerf::autodiff

#endif // KERF_LIB_AUTODIFF_SOURCES_H
