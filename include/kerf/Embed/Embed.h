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

#include "kerf/Plan/Passes.h"

#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/Error.h"

namespace mlir {
class OpPassManager;
}

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

/// Options of kerf-plan for a mesh of given degrees, "dp=2,tp=4", on so many
/// devices of `machine`: a preset, or a file whose name ends in ".json"
/// (cost::loadMachine). All other options are as PlanOptions has them. An error
/// says what is wrong with either text.
llvm::Expected<plan::PlanOptions>
planOptions(llvm::StringRef mesh, llvm::StringRef machine = "h100-8");

/// The passes from a function of the host's ops to one on local shapes:
/// kerf-flatten, kerf-plan, kerf-partition, kerf-collectives. `planned`, which
/// must live as long as the passes do, gets the plan and its certificate.
void buildShardPipeline(mlir::OpPassManager &passes,
                        const plan::PlanOptions &options,
                        plan::PlanRun &planned);

} // namespace kerf

#endif // KERF_EMBED_EMBED_H
