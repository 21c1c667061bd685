//===- ThreadsTest.cpp - compilations side by side ------------------------===//
//
// Nothing of a compilation is outside of its context: programs that two threads
// compile at once, down to calls of the runtime, become the same bytes as
// alone. Random functions of upstream ops, and steps of training of random nets
// of nn, planned or propagated from annotations.
//
//===----------------------------------------------------------------------===//
#include "../Support/Seeds.h"
#include "OnRanks.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <thread>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

/// A net of some layers of nn.
std::string makeNet(Random &random) {
  std::string ops, x = "%x";
  int64_t rows = 4 + random() % 5, columns = 4 + random() % 5;
  auto tensor = [](int64_t a, int64_t b) {
    return "tensor<" + std::to_string(a) + "x" + std::to_string(b) + "xf32>";
  };
  std::string input = tensor(rows, columns), type = input;
  unsigned numLayers = 1 + random() % 3;
  for (unsigned i = 0; i < numLayers; ++i) {
    std::string n = std::to_string(i);
    int64_t next = 4 + random() % 5;
    std::string weight = tensor(columns, next), result = tensor(rows, next);
    ops += "%w" + n + " = nn.weight \"w" + n + "\" file 0 at 0 : " + weight +
           "\n%p" + n + " = nn.matmul " + x + ", %w" + n + " : (" + type +
           ", " + weight + ") -> " + result + "\n%t" + n + " = nn.tanh %p" + n +
           " : " + result + "\n";
    x = "%t" + n;
    type = result;
    columns = next;
  }
  return "func.func @main(%x: " + input +
         " {kerf.name = \"x\", kerf.batch_dim = 0 : i64}) -> (" + type +
         " {kerf.name = \"y\"}) {\n" + ops + "return " + x + " : " + type +
         "\n}\n";
}

LogicalResult makeStep(ModuleOp module, Random &random) {
  const char *losses[] = {"mse(y,target)", "l1(y,target)"};
  const char *optimizers[] = {"sgd", "momentum", "adamw"};
  autodiff::AutodiffOptions step;
  step.loss = llvm::cantFail(autodiff::parseLoss(losses[random() % 2]));
  step.optimizer =
      llvm::cantFail(autodiff::parseOptimizer(optimizers[random() % 3]));
  autodiff::AutodiffRun run;
  PassManager passes(module.getContext());
  passes.addPass(autodiff::createAutodiffPass(step, run));
  return passes.run(module);
}

/// The program behind each phase; empty without a plan.
std::string compile(unsigned seed) {
  UpstreamContext loaded;
  Random random(seed);
  bool isTrained = random() % 4 == 0;
  auto module = parseSourceString<ModuleOp>(
      isTrained ? makeNet(random) : makeProgram(random, 3), &loaded.context);
  if (!module || (isTrained && failed(makeStep(*module, random)))) {
    ADD_FAILURE() << "no program of seed " << seed;
    return "";
  }
  std::string text = textOf(*module);
  std::optional<LogicalResult> planned =
      planAtRandom(*module, random, seed, isTrained);
  if (!planned)
    return "";
  text += textOf(*module);
  bool fine = succeeded(*planned);
  auto run = [&](llvm::function_ref<void(OpPassManager &)> add) {
    PassManager passes(&loaded.context);
    add(passes);
    fine = fine && succeeded(passes.run(*module));
    text += textOf(*module);
  };
  run([](OpPassManager &passes) { buildPartitionPipeline(passes); });
  run([](OpPassManager &passes) { buildCollectivesPipeline(passes); });
  run([](OpPassManager &passes) {
    passes.addPass(ranks::createCallRuntime());
  });
  EXPECT_TRUE(fine) << "seed " << seed << "\n" << text;
  return text;
}

TEST(Threads, TwoCompilationsDoNotMeet) {
  unsigned rounds = seedsOf(1000, 30), compiled = 0, trained = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    std::string left, right;
    std::thread other([&] { left = compile(2 * round); });
    right = compile(2 * round + 1);
    other.join();
    ASSERT_EQ(left, compile(2 * round)) << "seed " << 2 * round;
    ASSERT_EQ(right, compile(2 * round + 1)) << "seed " << 2 * round + 1;
    for (StringRef text : {left, right}) {
      compiled += text.contains("kerf_rank_number");
      trained += text.contains("kerf_rank_store");
    }
  }
  EXPECT_GE(compiled, rounds);
  EXPECT_GE(trained, rounds / 5);
}

} // namespace
