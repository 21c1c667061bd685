//===- Passes.h - fewer and cheaper collectives -----------------*- C++ -*-===//
#ifndef KERF_COLLECTIVES_PASSES_H
#define KERF_COLLECTIVES_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir {
class OpPassManager;
}

namespace kerf {

#define GEN_PASS_DECL
#include "kerf/Collectives/Passes.h.inc"

struct CollectivesOptions {
  /// Independent all-reduces of at most this many bytes are sent in one buffer;
  /// 0: never. Off by default, since inference has few of them.
  int64_t bucketBytes = 0;
  /// Each gradient is reduced as soon as it is made, while the backward pass
  /// goes on; small ones in buckets of this size (cost::worthwhileBytes). 0:
  /// off.
  int64_t gradientBytes = 0;
  /// Gradients up to this size count as small (cost::worthPackingBytes); 0: all
  /// that do not fill a bucket.
  int64_t packedBytes = 0;
  /// Split collectives into start and wait and move them apart.
  bool overlap = false;
};

/// All passes of the phase in order, on builtin.module.
void buildCollectivesPipeline(mlir::OpPassManager &passes,
                              const CollectivesOptions &options = {});

#define GEN_PASS_REGISTRATION
#include "kerf/Collectives/Passes.h.inc"

} // namespace kerf

#endif // KERF_COLLECTIVES_PASSES_H
