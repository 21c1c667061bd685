//===- FilledBatch.h - batches with samples that do not count ---*- C++ -*-===//
//
// Problem: the last batch of an epoch may have too few samples. It is filled up
// with others whose labels are ignored, which is right where the loss is a mean
// or a sum over the labels that count, and wrong where anything else of the
// samples goes into it, or where a label is read for another purpose.
//
// Idea: a loss that is in the model's graph is taken apart from its end. It is
// right if it is made of sums over samples of what is 0 where a label is
// ignored, divided by such sums, and of what depends on no sample. What cannot
// be told is called wrong. O(ops).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_AUTODIFF_FILLEDBATCH_H
#define KERF_AUTODIFF_FILLEDBATCH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

#include <string>
#include <vector>

namespace kerf::autodiff {

/// Whether the scalar output `loss` of an imported function is the same for a
/// batch that is filled up with samples whose `labels` (inputs with
/// kerf.ignore_index) are ignored, if nothing but the ops that are put into
/// `sums` joins samples. O(ops).
bool ignoresFilling(mlir::func::FuncOp function, llvm::StringRef loss,
                    llvm::ArrayRef<std::string> labels,
                    llvm::DenseSet<mlir::Operation *> &sums);

/// Whether the labels are inputs of the model that something else reads: where
/// a loss is put behind the model, only that may read them.
bool readsLabels(mlir::func::FuncOp function,
                 llvm::ArrayRef<std::string> labels);

} // namespace kerf::autodiff

#endif // KERF_AUTODIFF_FILLEDBATCH_H
