//===- Passes.cpp - the collectives phase ---------------------------------===//
#include "kerf/Collectives/Passes.h"

#include "kerf/Dist/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace kerf;

void kerf::buildCollectivesPipeline(OpPassManager &passes,
                                    const CollectivesOptions &options) {
  passes.addNestedPass<func::FuncOp>(createSimplifyCollectives());
  passes.addNestedPass<func::FuncOp>(createFormReduceScatter());
  passes.addNestedPass<func::FuncOp>(dist::createMergeEqualOps());
  // A negative number is an error of the pass.
  if (options.bucketBytes != 0 || options.gradientBytes != 0) {
    BucketCollectivesOptions bucket;
    bucket.maxBytes = options.bucketBytes;
    bucket.gradientBytes = options.gradientBytes;
    bucket.packedBytes = options.packedBytes;
    passes.addNestedPass<func::FuncOp>(createBucketCollectives(bucket));
  }
  if (options.overlap || options.gradientBytes > 0) {
    OverlapCollectivesOptions overlap;
    overlap.onlyGradients = !options.overlap;
    passes.addNestedPass<func::FuncOp>(createOverlapCollectives(overlap));
  }
}
