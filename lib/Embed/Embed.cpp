//===- Embed.cpp - Kerf in another compiler -------------------------------===//
#include "kerf/Embed/Embed.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Bridge/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Passes.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Models/Models.h"
#include "kerf/Models/Passes.h"
#include "kerf/NN/NN.h"
#include "kerf/NNToLinalg/Passes.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/MeshText.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/MathExtras.h"

namespace {

/// PartitionOptions as text.
struct PartitionText : mlir::PassPipelineOptions<PartitionText> {
  Option<bool> verify{*this, "verify",
                      llvm::cl::desc("Check the plan before, the program "
                                     "behind"),
                      llvm::cl::init(kerf::PartitionOptions().verify)};
};

/// CollectivesOptions as text.
struct CollectivesText : mlir::PassPipelineOptions<CollectivesText> {
  Option<int64_t> bucketBytes{
      *this, "bucket-bytes",
      llvm::cl::desc("Independent all-reduces of at most this many bytes are "
                     "sent in one buffer; 0: never"),
      llvm::cl::init(kerf::CollectivesOptions().bucketBytes)};
  Option<int64_t> gradientBytes{
      *this, "gradient-bytes",
      llvm::cl::desc("Gradients are reduced as soon as they are made, small "
                     "ones in buckets of this many bytes; 0: not"),
      llvm::cl::init(kerf::CollectivesOptions().gradientBytes)};
  Option<int64_t> packedBytes{
      *this, "packed-bytes",
      llvm::cl::desc("Gradients of at most this many bytes are small; 0: all "
                     "that do not fill a bucket"),
      llvm::cl::init(kerf::CollectivesOptions().packedBytes)};
  Option<bool> overlap{*this, "overlap",
                       llvm::cl::desc("Split collectives into start and wait "
                                      "and move them apart"),
                       llvm::cl::init(kerf::CollectivesOptions().overlap)};
};

} // namespace

void kerf::registerEmbeddedDialects(mlir::DialectRegistry &registry) {
  registry.insert<KerfDialect, dist::DistDialect, nn::NNDialect,
                  mlir::func::FuncDialect>();
  registerUpstreamModels(registry);
}

void kerf::registerEmbeddedPasses() {
  autodiff::registerKerfAutodiffPasses();
  plan::registerKerfPlanPasses();
  registerKerfPartitionPasses();
  registerKerfCollectivesPasses();
  dist::registerKerfDistPasses();
  bridge::registerKerfBridgePasses();
  models::registerKerfModelsPasses();
  nntolinalg::registerKerfNNToLinalgPasses();
  ranks::registerKerfRanksPasses();
  mlir::PassPipelineRegistration<PartitionText>(
      "kerf-partition", "The partition phase: a planned module becomes local",
      [](mlir::OpPassManager &passes, const PartitionText &text) {
        buildPartitionPipeline(passes, {text.verify});
      });
  mlir::PassPipelineRegistration<CollectivesText>(
      "kerf-collectives",
      "The collectives phase: fewer and cheaper collectives",
      [](mlir::OpPassManager &passes, const CollectivesText &text) {
        CollectivesOptions options;
        options.bucketBytes = text.bucketBytes;
        options.gradientBytes = text.gradientBytes;
        options.packedBytes = text.packedBytes;
        options.overlap = text.overlap;
        buildCollectivesPipeline(passes, options);
      });
}

llvm::Expected<kerf::plan::PlanOptions>
kerf::planOptions(llvm::StringRef mesh, llvm::StringRef machine) {
  plan::PlanOptions options;
  if (std::string wrong = plan::parseMeshText(mesh, options.mesh);
      !wrong.empty())
    return llvm::createStringError(wrong);
  for (const auto &[name, size] : options.mesh)
    if (size < 1 || llvm::MulOverflow(options.devices, size, options.devices))
      return llvm::createStringError("option mesh: axis '" + name + "' has " +
                                     std::to_string(size) +
                                     " devices, expected at least 1, and a "
                                     "number of all below 2^63");
  auto loaded = cost::loadMachine(machine, options.devices);
  if (!loaded)
    return loaded.takeError();
  options.machine = std::move(*loaded);
  return options;
}

void kerf::buildShardPipeline(mlir::OpPassManager &passes,
                              const plan::PlanOptions &options,
                              plan::PlanRun &planned) {
  passes.addPass(plan::createFlatten());
  passes.addPass(plan::createPlanPass(options, options.machine.name, planned));
  buildPartitionPipeline(passes);
  buildCollectivesPipeline(passes);
}
