//===- MutationTest.cpp - a wrong program is noticed ----------------------===//
//
// The judge is judged: each collective, mask or local slice of partitioned
// random programs is dropped, doubled or bent, and the comparison must fail
// every time. A mutant that does not fail is excused only with a reason that is
// checked, by the original program with other numbers where the mutant's values
// differ from its own:
//
//  * unread: NaN there changes nothing, so nobody reads them (an all-gather
//    whose other parts nobody wants, a permute of shards that are all padding);
//  * symmetric: random numbers there are noticed, but the mutant agrees for
//    eight draws of inputs and weights (parts swapped in front of a plain sum);
//  * redundant: random numbers there change nothing (softmax of one element, a
//    mask of what is multiplied by another mask's zeros).
//
// The last two are rare, which is tested.
//
//===----------------------------------------------------------------------===//
#include "../Support/Seeds.h"
#include "RandomGraph.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;
using namespace kerf::test;

namespace {

constexpr StringLiteral kMark = "test.target";
constexpr int kDraws = 8;

struct Score {
  int noticed = 0, unread = 0, excused = 0, total = 0;
};

/// Every part to where it is.
SmallVector<int64_t> identity(AxesAttr axes, Operation *op) {
  AxisList list = llvm::cantFail(toAxisList(axes, getMesh(op).toMesh()));
  SmallVector<int64_t> pairs;
  for (int64_t i = 0; i < numShards(list); ++i)
    pairs.append({i, i});
  return pairs;
}

/// Lets `now` stand for the marked op.
void replace(Operation *op, Operation *now) {
  op->removeAttr(kMark);
  now->setAttr(kMark, UnitAttr::get(op->getContext()));
}

/// Bends the op in one of the ways that keep types; false if there is none. The
/// mark is then on the op whose result the program uses instead.
bool mutate(Operation *op, unsigned way, std::string &name) {
  name = op->getName().getStringRef().str();
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  if (way == 0) { // drop
    if (auto mask = dyn_cast<MaskOp>(op)) {
      auto list =
          llvm::cantFail(toAxisList(mask.getAxes(), getMesh(op).toMesh()));
      mask.setSize(mask.getType().getDimSize(mask.getDim()) * numShards(list));
      name += " dropped";
      return true;
    }
    if (isa<AllSliceOp>(op) || // of a dimension of size 1: padding alone
        op->getOperand(0).getType() != op->getResult(0).getType())
      return false;
    AxesAttr axes = cast<CollectiveOpInterface>(op).getGroup();
    auto copy = PermuteOp::create(
        builder, op->getLoc(), op->getResult(0).getType(), op->getOperand(0),
        axes, identity(axes, op), PurposeAttr(), PhaseAttr());
    replace(op, copy);
    op->getResult(0).replaceAllUsesWith(copy.getResult());
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
      replace(op, again);
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
    SmallVector<int64_t> pairs = identity(axes, op);
    std::swap(pairs[1], pairs[3]);
    if (isa<AllSliceOp>(op)) {
      Value whole = op->getResult(0);
      auto swap =
          PermuteOp::create(builder, op->getLoc(), whole.getType(), whole, axes,
                            pairs, PurposeAttr(), PhaseAttr());
      replace(op, swap);
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

bool isTarget(Operation *op) {
  return isa<CollectiveOpInterface, MaskOp, AllSliceOp>(op);
}

using Values = std::vector<std::vector<interpret::Tensor>>;

/// To ten digits of the largest element: products of many small factors are
/// small everywhere, and must not hide a wrong one.
bool equal(const interpret::Tensor &a, const interpret::Tensor &b) {
  double scale = 0;
  for (double value : b.data)
    scale = std::max(scale, std::fabs(value));
  for (auto [x, y] : llvm::zip_equal(a.data, b.data))
    if (!(std::fabs(x - y) <= 1e-10 * scale))
      return false;
  return true;
}

/// What one program is judged by.
struct Judge {
  std::vector<interpret::Tensor> inputs, expected;
  interpret::Weights weights;

  bool accepts(ModuleOp module, const interpret::Observer &observer) const {
    ScopedDiagnosticHandler quiet(module.getContext(),
                                  [](Diagnostic &) { return success(); });
    auto outputs =
        interpret::runPartitioned(module, inputs, weights, nullptr, observer);
    if (failed(outputs))
      return false;
    for (size_t i = 0; i < outputs->size(); ++i)
      if (!equal((*outputs)[i], expected[i]))
        return false;
    return true;
  }
  /// The values that the marked op gave, in the order in which it ran.
  std::pair<bool, Values> observe(ModuleOp module) const {
    Values values;
    bool accepted = accepts(
        module, [&](Operation *op, MutableArrayRef<interpret::Tensor> results) {
          if (op->hasAttr(kMark))
            values.emplace_back(results.begin(), results.end());
        });
    return {accepted, std::move(values)};
  }
  /// Accepts the program with other numbers where the marked op's values
  /// differ from `others`.
  bool acceptsWith(ModuleOp module, const Values &others,
                   const std::function<double()> &number) const {
    size_t run = 0;
    return accepts(
        module, [&](Operation *op, MutableArrayRef<interpret::Tensor> results) {
          if (!op->hasAttr(kMark))
            return;
          for (auto [mine, other] : llvm::zip_equal(results, others[run]))
            for (auto [a, b] : llvm::zip_equal(mine.data, other.data))
              if (a != b)
                a = number();
          ++run;
        });
  }
};

enum class Verdict { Noticed, Unread, Symmetric, Redundant };

/// Tries several draws of inputs and weights: a rectifier or a maximum may hide
/// what differs in one of them.
Verdict judgeMutant(ModuleOp module, ModuleOp bent, ArrayRef<Judge> judges) {
  std::mt19937 random(1);
  bool unread = true, redundant = true;
  for (const Judge &judge : judges) {
    auto [accepted, values] = judge.observe(bent);
    if (!accepted)
      return Verdict::Noticed;
    unread &= judge.acceptsWith(module, values, [] { return NAN; });
    redundant &= judge.acceptsWith(module, values, [&] {
      return std::uniform_real_distribution<double>(-2, 2)(random);
    });
  }
  return unread      ? Verdict::Unread
         : redundant ? Verdict::Redundant
                     : Verdict::Symmetric;
}

void bendAll(ModuleOp module, ArrayRef<Judge> judges,
             std::map<std::string, Score> &scores) {
  std::vector<Operation *> targets;
  module->walk([&](Operation *op) {
    if (isTarget(op))
      targets.push_back(op);
  });
  for (Operation *target : targets) {
    target->setAttr(kMark, UnitAttr::get(target->getContext()));
    for (unsigned way = 0; way < 3; ++way) {
      OwningOpRef<ModuleOp> bent = module.clone();
      Operation *op = nullptr;
      bent->walk([&](Operation *each) {
        if (each->hasAttr(kMark))
          op = each;
      });
      std::string name;
      if (!mutate(op, way, name))
        continue;
      Verdict verdict = judgeMutant(module, *bent, judges);
      Score &score = scores[name];
      ++score.total;
      score.noticed += verdict == Verdict::Noticed;
      score.unread += verdict == Verdict::Unread;
      score.excused +=
          verdict == Verdict::Symmetric || verdict == Verdict::Redundant;
    }
    target->removeAttr(kMark);
  }
}

TEST(MutationTest, BentProgramsAreNoticed) {
  LoadedContext loaded;
  std::map<std::string, Score> scores;
  if (!forEachSeed(1000, 60, [&](unsigned seed) {
        Random random(seed);
        auto module = makeGraph(&loaded.context, random, 6);
        auto main = module->lookupSymbol<func::FuncOp>("main");
        std::vector<Judge> judges(kDraws);
        for (int i = 0; i < kDraws; ++i) {
          judges[i].inputs = makeInputs(main, random);
          judges[i].weights = makeWeights(i);
          judges[i].expected =
              *interpret::run(main, judges[i].inputs, judges[i].weights);
        }
        makePlan(*module, makeMesh(random), random);
        PassManager passes(&loaded.context);
        buildPartitionPipeline(passes);
        buildCollectivesPipeline(passes);
        ASSERT_TRUE(succeeded(passes.run(*module)));
        bendAll(*module, judges, scores);
      }))
    return;
  Score all;
  for (auto &[name, score] : scores) {
    all.noticed += score.noticed;
    all.excused += score.excused;
    all.total += score.total;
    RecordProperty(name, std::to_string(score.noticed) + " of " +
                             std::to_string(score.total) + ", " +
                             std::to_string(score.unread) + " unread");
  }
  // Most mutants change something that matters.
  EXPECT_GT(all.total, 1500);
  EXPECT_GE(all.noticed * 100, all.total * 90)
      << all.noticed << " of " << all.total;
  EXPECT_LE(all.excused * 100, all.total * 4)
      << all.excused << " of " << all.total;
}

} // namespace
