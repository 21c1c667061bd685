//===- RandomNativeTest.cpp - random programs as native code on ranks -----===//
//
// The random functions of unittests/Models, cut by random plans, searched ones
// and random annotations, lowered by kerf-call-runtime and upstream passes, run
// by thread ranks from padding that is no number: equal to the function that
// the evaluator of loops computes whole. Passes that upstream compilers put in
// between (canonicalization, CSE) change nothing.
//
//===----------------------------------------------------------------------===//
#include "../Models/LoopEvaluator.h"
#include "../Models/OnRanks.h"
#include "../Models/RandomProgram.h"
#include "../Support/Seeds.h"
#include "NativeProgram.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

namespace {

/// All integers up to here are doubles, and so are sums of a few.
constexpr double kExact = 1e14;

struct Counts {
  int planned = 0, sending = 0, stages = 0;
  std::set<std::string> kinds;
};

void count(ModuleOp module, Counts &counts) {
  bool sends = false, stages = false;
  module->walk([&](Operation *op) {
    if (isa<dist::DistDialect>(op->getDialect()))
      counts.kinds.insert(op->getName().stripDialect().str());
    sends |= isa<dist::CollectiveOpInterface>(op);
    stages |= isa<dist::ChannelOp>(op);
  });
  counts.sending += sends;
  counts.stages += stages;
}

void check(MLIRContext &context, unsigned seed, Counts &counts) {
  Random random(seed);
  std::string program = makeProgram(random, 2 + static_cast<int>(random() % 6));
  auto module = parseSourceString<ModuleOp>(program, &context);
  ASSERT_TRUE(module) << program;
  auto function = *module->getOps<func::FuncOp>().begin();
  FunctionType type = function.getFunctionType();
  std::vector<Tensor> inputs = makeInputs(function, random);
  double largest = 0;
  auto expected = runUpstream(function, inputs, &largest);
  ASSERT_TRUE(succeeded(expected)) << program;
  if (largest > kExact)
    return; // sums would depend on their order

  std::string planned;
  std::optional<LogicalResult> partitioned =
      planAndPartition(*module, random, seed, planned);
  if (!partitioned)
    return; // there is no such plan
  ASSERT_TRUE(succeeded(*partitioned)) << planned;
  ++counts.planned;
  if (random() % 2) { // starts early what it can
    PassManager passes(&context);
    passes.addNestedPass<func::FuncOp>(createOverlapCollectives());
    ASSERT_TRUE(succeeded(passes.run(*module)));
  }
  count(*module, counts);
  std::string local = textOf(*module), why;
  constexpr const char *kBetween[] = {"", "canonicalize,cse",
                                      "eliminate-empty-tensors"};
  auto native = NativeProgram::create(*module, why, kBetween[random() % 3]);
  ASSERT_TRUE(native) << why << local;

  HostBuffers buffers(type, inputs);
  // Once more: the program leaves nothing behind, and its inputs as they are.
  why = native->run("f", buffers.all(), 1 + static_cast<int>(random() % 2));
  ASSERT_EQ(why, "") << local;
  for (size_t i = 0; i < expected->size(); ++i)
    ASSERT_LE(interpret::difference(buffers.result(i), (*expected)[i]), 1e-9)
        << "output " << i << "\n"
        << local;
  for (size_t i = 0; i < inputs.size(); ++i)
    ASSERT_EQ(interpret::difference(buffers.input(i), inputs[i]), 0)
        << "input " << i << "\n"
        << local;
}

TEST(RandomNative, RanksComputeWhatOneDoes) {
  NativeContext native;
  Counts counts;
  unsigned seeds = seedsOf(3000, 50);
  if (!forEachSeed(1, seeds,
                   [&](unsigned seed) { check(native.context, seed, counts); }))
    return;
  // What the test is about happens often.
  EXPECT_GE(counts.planned, static_cast<int>(seeds) * 8 / 10);
  EXPECT_GE(counts.sending, static_cast<int>(seeds) / 2);
  EXPECT_GE(counts.stages, static_cast<int>(seeds) / 100);
  for (const char *kind :
       {"all_reduce", "all_gather", "all_slice", "shard_index", "wait"})
    EXPECT_TRUE(counts.kinds.count(kind)) << kind;
}

} // namespace
