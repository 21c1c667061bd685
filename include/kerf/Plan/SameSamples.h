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

#include <optional>
#include <string>
#include <vector>

namespace kerf::plan {

/// The dimension of samples of each argument and result; -1: none. The size of
/// a result's is a multiple of the number of samples.
struct SampleAxes {
  std::vector<int64_t> arguments, results;
};

/// Where samples are in `large`, if it does with each what `small`, the same
/// model of fewer samples (two at least), does; else nothing, and `why`, as
/// "NODE: reason". Both are of one MLIRContext. Linear in the ops and in the
/// elements of constants. `batchDims`: as of BatchAnalysis.
std::optional<SampleAxes>
sameForEachSample(mlir::func::FuncOp small, mlir::func::FuncOp large,
                  const llvm::StringMap<int64_t> &batchDims, std::string &why);

} // namespace kerf::plan

#endif // KERF_PLAN_SAMESAMPLES_H
