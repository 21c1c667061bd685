//===- Embed.h - Kerf in another compiler -----------------------*- C++ -*-===//
//
// What a compiler of its own needs to plan, partition and communicate on its
// own ops: docs/Embedding.md goes through it. The passes and their options are
// those of kerf/Plan/Passes.h, kerf/Partition/Passes.h,
// kerf/Collectives/Passes.h and kerf/Ranks/Passes.h.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_EMBED_EMBED_H
#define KERF_EMBED_EMBED_H

#include "mlir/IR/DialectRegistry.h"

namespace kerf {

/// The dialects in which plans are written (dist, kerf), nn, in which losses,
/// optimizers and gradients are, and models of upstream dialects, which are
/// attached where these are loaded (kerf/Models/Models.h). May be called for
/// any number of registries.
void registerEmbeddedDialects(mlir::DialectRegistry &registry);

/// The passes of autodiff, plan, partition, collectives, ranks, of upstream ops
/// and of the bridge to upstream's shard dialect by name, and the pipelines
/// kerf-partition and kerf-collectives. Process-wide, as MLIR's pass registry
/// is; call it once. Passes that are made by their functions need no
/// registration.
void registerEmbeddedPasses();

} // namespace kerf

#endif // KERF_EMBED_EMBED_H
