//===- Passes.h - from a planned to a partitioned module --------*- C++ -*-===//
//
// The partition phase: docs/Partition.md states what it takes and gives.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PARTITION_PASSES_H
#define KERF_PARTITION_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir {
class OpPassManager;
}

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Partition/Passes.h.inc"

struct PartitionOptions {
  /// Also the checks of the contract before and after. Without them a plan has
  /// to be right: the passes may end in any way on one that is not.
  bool verify = true;
};

/// All passes of the phase in order, on builtin.module.
void buildPartitionPipeline(mlir::OpPassManager &passes,
                            const PartitionOptions &options = {});

#define GEN_PASS_REGISTRATION
#include "kerf/Partition/Passes.h.inc"

} // namespace kerf

#endif // KERF_PARTITION_PASSES_H
