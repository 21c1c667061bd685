//===- RandomProgramTest.cpp - upstream ops, cut over ranks ---------------===//
//
// Random functions of linalg, tensor and arith get random legal plans, or the
// cheapest, on meshes of 2 to 8 ranks with and without stages. What the ranks
// compute, from padding full of NaN, equals the function evaluated whole.
//
//===----------------------------------------------------------------------===//
#include "RandomProgram.h"
#include "../Support/Seeds.h"
#include "LoopEvaluator.h"
#include "OnRanks.h"

#include "kerf/Dist/Dist.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

namespace {

/// All integers up to here are doubles, and so are sums of a few.
constexpr double kExact = 1e14;

struct Counts {
  int planned = 0, sending = 0, stages = 0, masked = 0, once = 0;
};

void count(ModuleOp module, Counts &counts) {
  bool masks = false, once = false, stages = false, sends = false;
  module->walk([&](Operation *op) {
    sends |= isa<dist::CollectiveOpInterface, dist::ChannelOp>(op);
    masks |=
        isa<dist::MaskOp>(op) ||
        (isa<arith::SelectOp>(op) && isa<linalg::GenericOp>(op->getParentOp()));
    once |= isa<arith::SelectOp>(op) && isa<func::FuncOp>(op->getParentOp());
    stages |= isa<dist::ChannelOp>(op);
  });
  counts.sending += sends;
  counts.masked += masks;
  counts.once += once;
  counts.stages += stages;
}

void check(MLIRContext &context, unsigned seed, Counts &counts) {
  Random random(seed);
  std::string program = makeProgram(random, 2 + static_cast<int>(random() % 6));
  auto module = parseSourceString<ModuleOp>(program, &context);
  ASSERT_TRUE(module) << program;
  auto function = *module->getOps<func::FuncOp>().begin();
  std::vector<Tensor> inputs = makeInputs(function, random);
  double largest = 0;
  auto expected = runUpstream(function, inputs, &largest);
  ASSERT_TRUE(succeeded(expected)) << program;
  if (largest > kExact)
    return; // sums would depend on their order, products overflow in parts

  std::string planned;
  auto outputs = planAndRun(*module, inputs, random, seed, planned);
  if (!outputs)
    return; // there is no such plan
  ASSERT_TRUE(succeeded(*outputs)) << planned << textOf(*module);
  ++counts.planned;
  count(*module, counts);
  ASSERT_EQ((*outputs)->size(), expected->size());
  for (size_t i = 0; i < expected->size(); ++i)
    ASSERT_LE(interpret::difference((**outputs)[i], (*expected)[i]), 1e-9)
        << "output " << i << "\n"
        << planned << textOf(*module);
}

TEST(RandomProgram, RanksComputeWhatOneDoes) {
  UpstreamContext loaded;
  Counts counts;
  unsigned seeds = seedsOf(20000, 200);
  if (!forEachSeed(1, seeds,
                   [&](unsigned seed) { check(loaded.context, seed, counts); }))
    return;
  // What the test is about happens often.
  EXPECT_GE(counts.planned, static_cast<int>(seeds) * 8 / 10);
  EXPECT_GE(counts.sending, static_cast<int>(seeds) / 2);
  EXPECT_GE(counts.stages, static_cast<int>(seeds) / 100);
  EXPECT_GE(counts.masked, static_cast<int>(seeds) / 40);
  EXPECT_GE(counts.once, static_cast<int>(seeds) / 40);
}

} // namespace
