//===- LastBatch.h - whether the last batch can be filled up ----*- C++ -*-===//
#ifndef KERF_TOOLS_LASTBATCH_H
#define KERF_TOOLS_LASTBATCH_H

#include "kerf/rt/train.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace kerf::tool {

/// What of an imported model counts samples that fill a batch up, whose labels
/// are ignored, "node_matmul (nn.matmul) joins samples"; empty: nothing does.
std::string whatCountsFilling(mlir::func::FuncOp main,
                              const rt::TrainLoss &loss);

} // namespace kerf::tool

#endif // KERF_TOOLS_LASTBATCH_H
