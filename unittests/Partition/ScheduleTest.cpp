//===- ScheduleTest.cpp - no list of instructions can deadlock ------------===//
//
// Programs of p stages and m micro-batches with channels of every kind between
// them, GPipe, 1F1B and interleaved: the lists are played against each other in
// the strictest way that a runtime may (kerf-verify-after-partition), and in a
// few random orders. The functions are empty: what matters is who waits for
// whom.
//
//===----------------------------------------------------------------------===//
#include "RandomGraph.h"

#include "kerf/Cost/Schedule.h"
#include "kerf/Dist/Dist.h"
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

/// One function of a stage, by what it takes and gives.
struct Node {
  int64_t stage, chunk;
  Phase phase;
  int64_t level; ///< of prologue and update
  SmallVector<int64_t> recvs, sends;
};

class Program {
public:
  Program(MLIRContext *context, Random &random, int64_t stages,
          int64_t microBatches, int64_t chunks)
      : builder(context), random(random), stages(stages), chunks(chunks),
        module(ModuleOp::create(builder, builder.getUnknownLoc())) {
    builder.setInsertionPointToEnd(module->getBody());
    type = RankedTensorType::get({1}, builder.getF32Type());
    MeshOp::create(builder, builder.getUnknownLoc(), "mesh",
                   MeshAttr::get(context, Mesh{{{"pp", stages, false},
                                                {"mb", microBatches, true}}}));
    addNodes();
    addChannels();
    for (Node &node : nodes)
      build(node);
  }
  OwningOpRef<ModuleOp> take() { return std::move(module); }

private:
  void addNodes() {
    for (int64_t stage = 0; stage < stages; ++stage) {
      for (int64_t level = draw(random, 3); level-- > 0;)
        nodes.push_back({stage, 0, Phase::Prologue, level, {}, {}});
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        nodes.push_back({stage, chunk, Phase::Forward, 0, {}, {}});
        if (chance(random, 90)) // else frozen
          nodes.push_back({stage, chunk, Phase::BackwardInput, 0, {}, {}});
      }
      for (int64_t level = draw(random, 4); level-- > 0;)
        nodes.push_back({stage, 0, Phase::Update, level, {}, {}});
    }
    llvm::stable_sort(nodes, [](const Node &a, const Node &b) {
      auto order = [](const Node &n) {
        int phase = n.phase == Phase::Prologue  ? 0
                    : n.phase == Phase::Forward ? 1
                    : n.phase == Phase::Update  ? 3
                                                : 2;
        return std::tuple(n.stage, phase, n.chunk, n.level);
      };
      return order(a) < order(b);
    });
  }

  /// What the verifier of plans and the levels of StageFunctions.h let through.
  bool mayFlow(const Node &a, const Node &b) const {
    if (a.stage == b.stage)
      return false;
    if (a.phase == b.phase && runsOncePerStep(a.phase))
      return a.level < b.level;
    switch (a.phase) {
    case Phase::Prologue:
      return true;
    case Phase::Forward:
      return b.phase != Phase::Prologue && b.phase != Phase::Update &&
             placeOf(a) < placeOf(b);
    case Phase::BackwardInput:
      return b.phase == Phase::BackwardInput && placeOf(a) > placeOf(b);
    default:
      return false;
    }
  }
  int64_t placeOf(const Node &node) const {
    return node.chunk * stages + node.stage;
  }

  void addChannels() {
    auto connect = [&](Node &a, Node &b) {
      ChannelOp::create(builder, builder.getUnknownLoc(), numChannels, a.stage,
                        b.stage, type, PurposeAttr(), PhaseAttr());
      a.sends.push_back(numChannels);
      b.recvs.push_back(numChannels++);
    };
    // Neighbours, as in every pipeline, and whatever else may be.
    for (Node &a : nodes)
      for (Node &b : nodes)
        if (mayFlow(a, b) &&
            ((a.phase == b.phase && !runsOncePerStep(a.phase) &&
              std::abs(placeOf(a) - placeOf(b)) == 1) ||
             chance(random, 10)))
          connect(a, b);
    for (Node &node : nodes) {
      std::shuffle(node.recvs.begin(), node.recvs.end(), random);
      std::shuffle(node.sends.begin(), node.sends.end(), random);
    }
  }

  void build(const Node &node) {
    SmallVector<Type> arguments(node.recvs.size(), type),
        results(node.sends.size(), type);
    std::string name =
        "s" + std::to_string(node.stage) + "c" + std::to_string(node.chunk) +
        "_" + stringifyPhase(node.phase).str() + std::to_string(node.level);
    auto function =
        func::FuncOp::create(builder, builder.getUnknownLoc(), name,
                             builder.getFunctionType(arguments, results));
    function.setPrivate();
    setPart(function, node.stage, node.phase, node.chunk);
    auto sharding =
        ShardingAttr::get(builder.getContext(), getMesh(*module), Layout(1));
    for (auto [index, channel] : llvm::enumerate(node.recvs)) {
      function.setArgAttr(
          index, kFrom,
          FromAttr::get(builder.getContext(), From::Recv, channel));
      function.setArgAttr(index, kSharding, sharding);
      function.setArgAttr(index, kGlobalType, TypeAttr::get(type));
    }
    for (auto [index, channel] : llvm::enumerate(node.sends)) {
      function.setResultAttr(
          index, kTo, ToAttr::get(builder.getContext(), {}, {channel}, {}));
      function.setResultAttr(index, kSharding, sharding);
      function.setResultAttr(index, kGlobalType, TypeAttr::get(type));
    }
    Block *block = function.addEntryBlock();
    OpBuilder body = OpBuilder::atBlockEnd(block);
    SmallVector<Value> values;
    if (!results.empty()) {
      Value any =
          ShardIndexOp::create(body, function.getLoc(),
                               RankedTensorType::get({}, builder.getI64Type()),
                               AxesAttr::get(builder.getContext(), {}), 1);
      auto cast = UnrealizedConversionCastOp::create(body, function.getLoc(),
                                                     Type(type), any);
      values.assign(results.size(), cast.getResult(0));
    }
    func::ReturnOp::create(body, function.getLoc(), values);
  }

  OpBuilder builder;
  Random &random;
  int64_t stages, chunks;
  OwningOpRef<ModuleOp> module;
  RankedTensorType type;
  std::vector<Node> nodes;
  int64_t numChannels = 0;
};

struct Lists {
  std::vector<std::vector<Operation *>> ops;
  int64_t max = 0;
};

/// Plays the lists with the stages taking turns at random; a slot that was sent
/// is waited for at the last moment that held_until allows.
bool play(const Lists &lists, Random &random) {
  std::vector<size_t> next(lists.ops.size());
  std::map<uint64_t, int64_t> sent, taken;
  std::vector<std::vector<std::tuple<size_t, uint64_t, int64_t>>> open(
      lists.ops.size());
  int idle = 0;
  while (idle < 200) {
    size_t stage = draw(random, lists.ops.size());
    ++idle;
    for (int64_t steps = draw(random, 4); steps-- > 0;) {
      if (next[stage] == lists.ops[stage].size())
        break;
      bool waits = false;
      for (auto &[until, channel, number] : open[stage])
        waits |= until < next[stage] && taken[channel] <= number;
      Operation *op = lists.ops[stage][next[stage]];
      auto recv = dyn_cast<RecvOp>(op);
      if (waits ||
          (recv && taken[recv.getChannel()] == sent[recv.getChannel()]))
        break;
      if (recv)
        ++taken[recv.getChannel()];
      if (auto send = dyn_cast<SendOp>(op)) {
        open[stage].push_back({send.getHeldUntil().value_or(~size_t(0)),
                               send.getChannel(), sent[send.getChannel()]++});
      }
      ++next[stage];
      idle = 0;
    }
  }
  for (size_t stage = 0; stage < next.size(); ++stage)
    if (next[stage] != lists.ops[stage].size())
      return false;
  return true;
}

TEST(ScheduleTest, NoneCanDeadlock) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  for (unsigned seed = 0; seed < 250; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    int64_t stages = 2 + draw(random, 5), microBatches = 2 + draw(random, 7);
    int64_t chunks = 1;
    if (seed >= 150) {
      stages = 2 + draw(random, 3);
      microBatches = stages * (1 + draw(random, 3));
      chunks = 2 + draw(random, 2);
    }
    auto module =
        Program(&context, random, stages, microBatches, chunks).take();
    (*module)->setAttr(
        dist::kScheduleKind,
        ScheduleKindAttr::get(&context, chance(random, 50)
                                            ? dist::ScheduleKind::GPipe
                                            : dist::ScheduleKind::OneFOneB));
    if (chunks > 1)
      setInterleaved(*module, chunks);
    PassManager passes(&context);
    passes.addPass(createBuildSchedule());
    passes.addPass(createVerifyPartition());
    ASSERT_TRUE(succeeded(passes.run(*module)));
    Lists lists;
    for (auto schedule : module->getOps<ScheduleOp>()) {
      lists.ops.emplace_back();
      for (Operation &op : schedule.getBody().front())
        lists.ops.back().push_back(&op);
    }
    ASSERT_EQ(lists.ops.size(), size_t(stages));
    for (int order = 0; order < 5; ++order)
      ASSERT_TRUE(play(lists, random));
  }
}

// The lists run functions in the order whose makespan and memory the planner
// has simulated (closed forms: unittests/Cost/ScheduleTest.cpp), and hold no
// more than min(m, p - i) kept values at stage i in 1F1B, m in GPipe,
// min(mv, (v+1)p - 2i - 1) of v chunks.
TEST(ScheduleTest, RunsInTheSimulatedOrderAndHoldsNoMore) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  Random random(7);
  for (int trial = 0; trial < 60; ++trial) {
    int64_t p = 1 + draw(random, 6), m = 1 + draw(random, 12);
    bool gpipe = chance(random, 50);
    int64_t v = trial % 3 == 2 ? 2 + draw(random, 2) : 1;
    auto kind = v > 1   ? cost::ScheduleKind::Interleaved
                : gpipe ? cost::ScheduleKind::GPipe
                        : cost::ScheduleKind::OneFOneB;
    if (v > 1)
      m = p * (1 + draw(random, 3));
    OpBuilder builder(&context);
    OwningOpRef<ModuleOp> module =
        ModuleOp::create(builder, builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
    MeshOp::create(
        builder, builder.getUnknownLoc(), "mesh",
        MeshAttr::get(&context, Mesh{{{"pp", p, false}, {"mb", m, true}}}));
    auto type = RankedTensorType::get({1}, builder.getF32Type());
    auto nameOf = [](int64_t stage, int64_t chunk, bool backward) {
      return "s" + std::to_string(stage) + "c" + std::to_string(chunk) +
             (backward ? "b" : "f");
    };
    for (int64_t place = 0; place < p * v; ++place)
      for (bool backward : {false, true}) {
        int64_t stage = place % p, chunk = place / p;
        auto function = func::FuncOp::create(
            builder, builder.getUnknownLoc(), nameOf(stage, chunk, backward),
            backward ? builder.getFunctionType({type}, {})
                     : builder.getFunctionType({}, {type}));
        setPart(function, stage,
                backward ? Phase::BackwardInput : Phase::Forward, chunk);
        Block *block = function.addEntryBlock();
        auto sharding =
            ShardingAttr::get(&context, getMesh(*module), Layout(1));
        if (backward) {
          function.setArgAttr(0, kFrom,
                              FromAttr::get(&context, From::Kept, chunk));
          function.setArgAttr(0, kSharding, sharding);
        } else {
          function.setResultAttr(0, kTo,
                                 ToAttr::get(&context, {}, {}, {chunk}));
          function.setResultAttr(0, kSharding, sharding);
        }
        OpBuilder body = OpBuilder::atBlockEnd(block);
        SmallVector<Value> values;
        if (!backward) {
          Value any = ShardIndexOp::create(
              body, function.getLoc(),
              RankedTensorType::get({}, builder.getI64Type()),
              AxesAttr::get(&context, {}), 1);
          values.push_back(UnrealizedConversionCastOp::create(
                               body, function.getLoc(), Type(type), any)
                               .getResult(0));
        }
        func::ReturnOp::create(body, function.getLoc(), values);
      }
    (*module)->setAttr(
        dist::kScheduleKind,
        ScheduleKindAttr::get(&context, gpipe ? dist::ScheduleKind::GPipe
                                              : dist::ScheduleKind::OneFOneB));
    if (v > 1)
      setInterleaved(*module, v);
    PassManager passes(&context);
    passes.addPass(createBuildSchedule());
    ASSERT_TRUE(succeeded(passes.run(*module)));

    cost::Schedule order = cost::buildSchedule(kind, p, m, v);
    for (auto schedule : module->getOps<ScheduleOp>()) {
      size_t at = 0;
      int64_t held = 0, max = 0;
      const auto &list = order[schedule.getStage()];
      for (auto run : schedule.getOps<RunOp>()) {
        ASSERT_LT(at, list.size());
        bool forward = list[at].phase == cost::Phase::Forward;
        EXPECT_EQ(run.getCallee(),
                  nameOf(schedule.getStage(), list[at].chunk, !forward));
        EXPECT_EQ(int64_t(run.getMicroBatch()), list[at++].microBatch);
        // A slot lives to its last use, which is the backward run.
        if (forward)
          max = std::max(max, ++held);
        else
          --held;
        for (Value result : run.getResults())
          for (Operation *user : result.getUsers())
            EXPECT_EQ(cast<RunOp>(user).getMicroBatch(), run.getMicroBatch());
      }
      EXPECT_EQ(at, list.size());
      auto i = static_cast<int64_t>(schedule.getStage());
      EXPECT_EQ(max, v > 1   ? std::min(m * v, (v + 1) * p - 2 * i - 1)
                     : gpipe ? m
                             : std::min(m, p - i));
    }
  }
}

} // namespace
