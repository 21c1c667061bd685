//===- Passes.cpp - the partition phase -----------------------------------===//
#include "kerf/Partition/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace kerf;

void kerf::buildPartitionPipeline(OpPassManager &passes,
                                  const PartitionOptions &options) {
  passes.addPass(createCloseRegions());
  if (options.verify)
    passes.addPass(createVerifyPlan());
  passes.addPass(createSumBeforeCrossing());
  passes.addPass(createInsertReshards());
  passes.addPass(createAssignInStages());
  passes.addPass(createSplitStages());
  passes.addPass(createLocalize());
  passes.addPass(createLowerReshards());
  passes.addPass(createBuildSchedule());
  passes.addPass(createJoinUpdates());
  passes.addPass(createHoldSends());
  if (options.verify)
    passes.addPass(createVerifyPartition());
}
