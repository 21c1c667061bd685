//===- MutationTest.cpp - a wrong program is noticed ----------------------===//
//
// The judge is judged: each collective, mask or local slice of partitioned
// random programs is dropped, doubled or bent, and the comparison must fail.
// A few mutants are harmless by nature (an all-gather whose other parts nobody
// reads); the share that is noticed is what is tested.
//
//===----------------------------------------------------------------------===//
#include "RandomGraph.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;
using namespace kerf::test;

namespace {

struct Score {
  int noticed = 0, total = 0;
};

/// Bends the op in one of the ways that keep types; false if there is none.
bool mutate(Operation *op, unsigned way, std::string &name) {
  name = op->getName().getStringRef().str();
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  if (way == 0) {              // drop
    if (isa<AllSliceOp>(op) || // of a dimension of size 1: padding alone
        op->getOperand(0).getType() != op->getResult(0).getType())
      return false;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
    name += " dropped";
    return true;
  }
  if (way == 1) { // double
    if (auto reduce = dyn_cast<AllReduceOp>(op)) {
      if (reduce.getReduction().getValue() != ReductionKind::Sum)
        return false; // max of max is max
      auto again =
          AllReduceOp::create(builder, op->getLoc(), reduce.getType(),
                              reduce.getResult(), reduce.getReductionAttr(),
                              reduce.getAxes(), PurposeAttr(), PhaseAttr());
      reduce.getResult().replaceAllUsesExcept(again.getResult(), again);
      name += " doubled";
      return true;
    }
    return false;
  }
  // swap: another reduction, another order.
  if (auto reduce = dyn_cast<AllReduceOp>(op)) {
    reduce.setReductionAttr(ReductionAttr::get(
        op->getContext(), reduce.getReduction().getValue() == ReductionKind::Sum
                              ? ReductionKind::Max
                              : ReductionKind::Sum));
    name += " with another reduction";
    return true;
  }
  if (auto scatter = dyn_cast<ReduceScatterOp>(op)) {
    scatter.setReductionAttr(ReductionAttr::get(
        op->getContext(),
        scatter.getReduction().getValue() == ReductionKind::Sum
            ? ReductionKind::Max
            : ReductionKind::Sum));
    name += " with another reduction";
    return true;
  }
  // The parts of two ranks change places.
  if (isa<AllGatherOp, AllToAllOp, AllSliceOp>(op)) {
    AxesAttr axes = isa<AllSliceOp>(op)
                        ? cast<AllSliceOp>(op).getAxes()
                        : cast<CollectiveOpInterface>(op).getGroup();
    MeshAttr mesh = getMesh(op);
    AxisList list = llvm::cantFail(toAxisList(axes, mesh.toMesh()));
    for (const AxisRef &ref : list)
      if (mesh.toMesh().axes[ref.axis].isTime)
        return false;
    SmallVector<int64_t> pairs = {0, 1, 1, 0};
    for (int64_t i = 2; i < numShards(list); ++i)
      pairs.append({i, i});
    if (isa<AllSliceOp>(op)) {
      Value whole = op->getResult(0);
      auto swap =
          PermuteOp::create(builder, op->getLoc(), whole.getType(), whole, axes,
                            pairs, PurposeAttr(), PhaseAttr());
      whole.replaceAllUsesExcept(swap.getResult(), swap);
    } else {
      builder.setInsertionPoint(op);
      Value part = op->getOperand(0);
      op->setOperand(0, PermuteOp::create(builder, op->getLoc(), part.getType(),
                                          part, axes, pairs, PurposeAttr(),
                                          PhaseAttr()));
    }
    name += " with two parts swapped";
    return true;
  }
  if (auto permute = dyn_cast<PermuteOp>(op)) {
    SmallVector<int64_t> pairs(permute.getPairs());
    std::swap(pairs[1], pairs[3]);
    permute.setPairs(pairs);
    name += " with two targets swapped";
    return true;
  }
  return false;
}

TEST(MutationTest, BentProgramsAreNoticed) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::map<std::string, Score> scores;
  for (unsigned seed = 1000; seed < 1060; ++seed) {
    Random random(seed);
    auto module = makeGraph(&context, random, 6);
    auto main = module->lookupSymbol<func::FuncOp>("main");
    auto inputs = makeInputs(main, random);
    auto weights = makeWeights();
    auto expected = interpret::run(main, inputs, weights);
    makePlan(*module, makeMesh(random), random);
    PassManager passes(&context);
    buildPartitionPipeline(passes);
    buildCollectivesPipeline(passes);
    ASSERT_TRUE(succeeded(passes.run(*module)));

    int numOps = 0;
    module->walk([&](Operation *op) {
      numOps += isa<CollectiveOpInterface, MaskOp, AllSliceOp>(op);
    });
    for (int target = 0; target < numOps; ++target)
      for (unsigned way = 0; way < 3; ++way) {
        OwningOpRef<ModuleOp> bent = module->clone();
        std::vector<Operation *> ops;
        bent->walk([&](Operation *op) {
          if (isa<CollectiveOpInterface, MaskOp, AllSliceOp>(op))
            ops.push_back(op);
        });
        std::string name;
        if (!mutate(ops[target], way, name))
          continue;
        ScopedDiagnosticHandler quiet(&context,
                                      [](Diagnostic &) { return success(); });
        auto outputs = interpret::runPartitioned(*bent, inputs, weights);
        bool same = succeeded(outputs);
        for (size_t i = 0; same && i < outputs->size(); ++i)
          same = interpret::difference((*outputs)[i], (*expected)[i]) <= 1e-6;
        ++scores[name].total;
        scores[name].noticed += !same;
      }
  }
  int noticed = 0, total = 0;
  for (auto &[name, score] : scores) {
    noticed += score.noticed;
    total += score.total;
    RecordProperty(name, std::to_string(score.noticed) + " of " +
                             std::to_string(score.total));
    if (score.total >= 10)
      EXPECT_GE(score.noticed * 100, score.total * 75)
          << name << ": " << score.noticed << " of " << score.total;
  }
  EXPECT_GT(total, 150);
  EXPECT_GE(noticed * 100, total * 90) << noticed << " of " << total;
}

} // namespace
