//===- SameSamples.h - one function of a sample, many sizes -----*- C++ -*-===//
//
// Problem: a program is compiled for a number of samples. May it be given fewer
// of them, and others in the places of those that are missing?
//
// Idea: if nothing in it combines samples (BatchAnalysis), it applies one
// function to each of them. The program of the smaller number does so, too; and
// it is the same function if both programs are the same op by op, in types,
// attributes and constants, but for the number of samples. So a model that
// divides by the size of its batch is found out, whose size is a constant once
// it is imported.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_SAMESAMPLES_H
#define KERF_PLAN_SAMESAMPLES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <string>

namespace kerf::plan {

/// The axis of a dimension that inputs share, in each input by name; -1 in
/// those that lack it. Outputs: only those that have it, where its size is a
/// multiple of the number of samples.
using AxesByName = llvm::StringMap<int64_t>;

/// Empty, or why the dimension is not that of samples: in some input another
/// dimension is, and rows of anything but samples may see each other.
std::string whyNoSamples(mlir::func::FuncOp function, const AxesByName &inputs);

/// Empty, with the `outputs` that have the dimension, if `large` does with each
/// sample what `small`, the same model of fewer samples (two at least), does,
/// and the dimension is where samples are; else why not, as "NODE: reason".
/// Both are of one MLIRContext. Linear in the ops and in the elements of
/// constants. `batchDims`: as of BatchAnalysis.
std::string whyNotSameForEachSample(mlir::func::FuncOp small,
                                    mlir::func::FuncOp large,
                                    const llvm::StringMap<int64_t> &batchDims,
                                    const AxesByName &inputs,
                                    AxesByName &outputs);

} // namespace kerf::plan

#endif // KERF_PLAN_SAMESAMPLES_H
