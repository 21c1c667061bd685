//===- OpShardingTest.cpp - one op under every sharding -------------------===//
//
// For each op here, mesh and way to put the mesh's axes on the factors of the
// op's rule, or to leave them partial in an operand in which it is linear: the
// partitioned function on simulated ranks equals the function as it stands.
// Sizes are mostly indivisible, so that padding is masked where it must be;
// each sharding runs with blocks of ceiling size and with larger ones, at
// random.
//
//===----------------------------------------------------------------------===//
#include "RandomGraph.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;
using namespace kerf::test;

namespace {

/// Where each axis of the mesh goes: a factor, or (from numFactors on) a linear
/// group whose operands stay partial over it, or nowhere (-1).
using Places = SmallVector<int64_t>;

class OpShardingTest : public ::testing::Test {
protected:
  OpShardingTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  ShardingAttr attr(const Mesh &mesh, Layout layout) {
    layout.canonicalize();
    return ShardingAttr::get(&context, MeshAttr::get(&context, mesh), layout);
  }

  /// Annotates one op: axes of each factor, partial axes of each operand, sizes
  /// of the blocks (0, or no list: ceil(size / n)).
  void annotate(Operation *op, const Mesh &mesh, const ShardingRule &rule,
                ArrayRef<AxisList> axes, ArrayRef<AxisList> kept,
                ArrayRef<int64_t> blocks = {}) {
    auto layoutOf = [&](const TensorFactors &tensor) {
      Layout layout(tensor.size());
      for (auto [dim, factors] : llvm::enumerate(tensor)) {
        if (factors.empty())
          continue;
        unsigned major = factors[0];
        layout.dims[dim] = axes[major];
        int64_t minor = 1, size = rule.factors[major].size;
        for (unsigned factor : ArrayRef<unsigned>(factors).drop_front())
          minor *= rule.factors[factor].size;
        int64_t block = blocks.empty() ? 0 : blocks[major];
        if (!block)
          block = dist::localSize(size, numShards(axes[major]));
        layout.setBlock(dim, size * minor, block * minor);
      }
      return layout;
    };
    SmallVector<ShardingAttr> operands, results;
    AxisList partial;
    for (auto [number, factors] : llvm::enumerate(rule.operands)) {
      Layout layout = layoutOf(factors);
      if (!kept.empty() && !kept[number].empty())
        layout.partial = partial = kept[number];
      operands.push_back(attr(mesh, layout));
    }
    auto reduction = ReductionKind::Sum;
    for (auto [number, factor] : llvm::enumerate(rule.factors))
      if (factor.kind == FactorKind::Reduction && !axes[number].empty()) {
        partial.append(axes[number]);
        reduction = factor.reduction;
      }
    for (const TensorFactors &factors : rule.results) {
      Layout layout = layoutOf(factors);
      layout.partial = partial;
      layout.reduction = reduction;
      results.push_back(attr(mesh, layout));
    }
    setOperandShardings(op, operands);
    setResultShardings(op, results);
  }

  void addMesh(ModuleOp module, const Mesh &mesh) {
    auto builder = OpBuilder::atBlockBegin(module.getBody());
    MeshOp::create(builder, module.getLoc(), "mesh",
                   MeshAttr::get(&context, mesh));
    auto main = module.lookupSymbol<func::FuncOp>("main");
    for (BlockArgument argument : main.getArguments())
      main.setArgAttr(
          argument.getArgNumber(), kSharding,
          attr(mesh,
               Layout(cast<RankedTensorType>(argument.getType()).getRank())));
    for (auto [number, type] : llvm::enumerate(main.getResultTypes()))
      main.setResultAttr(
          number, kSharding,
          attr(mesh, Layout(cast<RankedTensorType>(type).getRank())));
  }

  void compare(ModuleOp module, ArrayRef<interpret::Tensor> inputs,
               ArrayRef<interpret::Tensor> expected) {
    std::string plan;
    llvm::raw_string_ostream(plan) << module;
    PassManager partition(&context);
    buildPartitionPipeline(partition);
    ASSERT_TRUE(succeeded(partition.run(module))) << plan;
    auto outputs = interpret::runPartitioned(module, inputs, makeWeights());
    ASSERT_TRUE(succeeded(outputs)) << plan;
    for (size_t i = 0; i < outputs->size(); ++i)
      ASSERT_LE(interpret::difference((*outputs)[i], expected[i]), 1e-9)
          << plan;
    ++runs;
  }

  static std::vector<Mesh> meshes() {
    return {Mesh{{{"x", 2, false}}}, Mesh{{{"x", 4, false}}},
            Mesh{{{"x", 6, false}}}, Mesh{{{"x", 2, false}, {"y", 2, false}}},
            Mesh{{{"x", 3, false}, {"y", 2, false}}}};
  }

  /// All ways to place the axes, both orders of two on one factor.
  static void forEachPlace(int64_t numAxes, int64_t numPlaces,
                           llvm::function_ref<void(const Places &)> visit) {
    Places places(numAxes, -1);
    while (true) {
      visit(places);
      int64_t axis = 0;
      while (axis < numAxes && ++places[axis] == numPlaces)
        places[axis++] = -1;
      if (axis == numAxes)
        return;
    }
  }

  /// Checks the last op of @main in `text`. Operands in which it is linear are
  /// sums over a dimension of size 3 of the function's arguments, made here.
  void checkOp(llvm::StringRef text) {
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text.str();
    auto main = module->lookupSymbol<func::FuncOp>("main");
    Block &block = main.getBody().front();
    Operation *op = block.getTerminator()->getPrevNode();
    ShardingRule rule = cast<ShardingRuleInterface>(op).getShardingRule();
    ASSERT_TRUE(succeeded(verifyShardingRule(op, rule)));
    for (const auto &group : rule.linearGroups)
      for (unsigned operand : group) {
        auto argument = cast<BlockArgument>(op->getOperand(operand));
        auto type = cast<RankedTensorType>(argument.getType());
        SmallVector<int64_t> shape{3};
        llvm::append_range(shape, type.getShape());
        argument.setType(type.clone(shape));
        auto builder = OpBuilder::atBlockBegin(&block);
        auto sum =
            nn::ReduceOp::create(builder, op->getLoc(), argument,
                                 nn::ReduceKind::Sum, ArrayRef<int64_t>{0});
        op->setOperand(operand, sum);
      }
    main.setType(FunctionType::get(&context, block.getArgumentTypes(),
                                   main.getResultTypes()));
    ASSERT_TRUE(succeeded(verify(*module)));
    Random random(1);
    auto inputs = makeInputs(main, random);
    auto expected = interpret::run(main, inputs, makeWeights());
    ASSERT_TRUE(succeeded(expected));

    auto numFactors = static_cast<int64_t>(rule.factors.size());
    auto numPlaces =
        numFactors + static_cast<int64_t>(rule.linearGroups.size());
    for (const Mesh &mesh : meshes())
      forEachPlace(mesh.axes.size(), numPlaces, [&](const Places &places) {
        if (HasFatalFailure())
          return;
        for (bool swapped : {false, true}) {
          if (swapped &&
              (places.size() < 2 || places[0] != places[1] || places[0] < 0))
            continue;
          for (bool larger : {false, true}) {
            OwningOpRef<ModuleOp> copy = module->clone();
            plan(*copy, mesh, rule, places, swapped, larger);
            if (rejected)
              continue;
            ASSERT_NO_FATAL_FAILURE(compare(*copy, inputs, *expected));
          }
        }
      });
  }

  /// Whether a larger factor stands outwards of it somewhere.
  static bool isInner(const ShardingRule &rule, unsigned factor) {
    for (const auto *side : {&rule.operands, &rule.results})
      for (const TensorFactors &tensor : *side)
        for (ArrayRef<unsigned> list : tensor)
          if (!list.empty() && llvm::is_contained(list.drop_front(), factor))
            return true;
    return false;
  }

  void plan(ModuleOp module, const Mesh &mesh, const ShardingRule &rule,
            const Places &places, bool swapped, bool larger) {
    auto main = module.lookupSymbol<func::FuncOp>("main");
    Operation *op = main.getBody().front().getTerminator()->getPrevNode();
    SmallVector<AxisList> axes(rule.factors.size()), kept(rule.operands.size());
    std::optional<int64_t> group;
    rejected = false;
    for (size_t i = 0; i < places.size(); ++i) {
      size_t axis = swapped ? places.size() - 1 - i : i;
      int64_t place = places[axis];
      if (place < 0)
        continue;
      if (place < static_cast<int64_t>(rule.factors.size())) {
        const Factor &factor = rule.factors[place];
        axes[place].push_back(wholeAxis(mesh, axis));
        rejected |=
            factor.kind == FactorKind::Replicated || isInner(rule, place) ||
            (factor.mustDivide && factor.size % numShards(axes[place]) != 0);
        continue;
      }
      // One group at a time: a product of two sums is not a sum.
      rejected |= group && *group != place;
      group = place;
      for (unsigned operand :
           rule.linearGroups[place - static_cast<int64_t>(rule.factors.size())])
        kept[operand].push_back(wholeAxis(mesh, axis));
    }
    SmallVector<int64_t> blocks(rule.factors.size(), 0);
    for (auto [number, list] : llvm::enumerate(axes)) {
      const Factor &factor = rule.factors[number];
      int64_t min = dist::localSize(factor.size, numShards(list));
      if (larger && !factor.mustDivide && numShards(list) > 1)
        blocks[number] =
            min + draw(blockRandom, std::max<int64_t>(factor.size - min, 1));
    }
    rejected |= larger && llvm::all_of(blocks, [](int64_t b) { return !b; });
    if (rejected)
      return;
    annotate(op, mesh, rule, axes, kept, blocks);
    for (auto reduce : main.getOps<nn::ReduceOp>()) {
      if (reduce == op)
        continue;
      unsigned operand = reduce->getUses().begin()->getOperandNumber();
      ShardingRule sum = reduce.getShardingRule();
      SmallVector<AxisList> over(sum.factors.size());
      over[sum.operands[0][0][0]] = kept[operand];
      annotate(reduce, mesh, sum, over, {});
    }
    addMesh(module, mesh);
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  Random blockRandom{7};
  bool rejected = false;
  int runs = 0;
};

TEST_F(OpShardingTest, ConvInputGradient) {
  checkOp(
      R"(func.func @main(%dy: tensor<3x4x5xf32>, %w: tensor<5x3x3xf32>) -> tensor<3x7x3xf32> {
    %r = nn.conv_input_gradient %dy, %w kernel 3 strides 2 pad 1 : tensor<3x4x5xf32> -> tensor<3x7x3xf32>
    return %r : tensor<3x7x3xf32>
  })");
  checkOp(
      R"(func.func @main(%dy: tensor<3x2x2x4xf32>, %w: tensor<4x2x2x1xf32>) -> tensor<3x3x2x4xf32> {
    %r = nn.conv_input_gradient %dy, %w kernel 2x1 groups 2 : tensor<3x2x2x4xf32> -> tensor<3x3x2x4xf32>
    return %r : tensor<3x3x2x4xf32>
  })");
  EXPECT_GT(runs, 100);
}

TEST_F(OpShardingTest, ConvWeightGradient) {
  checkOp(
      R"(func.func @main(%x: tensor<3x7x3xf32>, %dy: tensor<3x4x5xf32>) -> tensor<5x3x3xf32> {
    %r = nn.conv_weight_gradient %x, %dy kernel 3 strides 2 pad 1 : tensor<3x7x3xf32>, tensor<3x4x5xf32>
    return %r : tensor<5x3x3xf32>
  })");
  checkOp(
      R"(func.func @main(%x: tensor<3x3x2x4xf32>, %dy: tensor<3x2x2x4xf32>) -> tensor<4x2x2x1xf32> {
    %r = nn.conv_weight_gradient %x, %dy kernel 2x1 groups 2 : tensor<3x3x2x4xf32>, tensor<3x2x2x4xf32>
    return %r : tensor<4x2x2x1xf32>
  })");
  EXPECT_GT(runs, 100);
}

TEST_F(OpShardingTest, Pools) {
  checkOp(
      R"(func.func @main(%x: tensor<3x7x5xf32>, %dy: tensor<3x4x5xf32>) -> tensor<3x7x5xf32> {
    %r = nn.max_pool_gradient %x, %dy kernel 3 strides 2 pad 1
       : (tensor<3x7x5xf32>, tensor<3x4x5xf32>) -> tensor<3x7x5xf32>
    return %r : tensor<3x7x5xf32>
  })");
  checkOp(R"(func.func @main(%dy: tensor<3x4x5xf32>) -> tensor<3x7x5xf32> {
    %r = nn.avg_pool_gradient %dy kernel 3 strides 2 pad 1 : (tensor<3x4x5xf32>) -> tensor<3x7x5xf32>
    return %r : tensor<3x7x5xf32>
  })");
  EXPECT_GT(runs, 60);
}

TEST_F(OpShardingTest, ScatterAdd) {
  // Indices are in [-4, 4).
  checkOp(
      R"(func.func @main(%i: tensor<5xi64>, %u: tensor<5x3xf32>) -> tensor<7x3xf32> {
    %r = nn.scatter_add %i, %u dim 0 : (tensor<5xi64>, tensor<5x3xf32>) -> tensor<7x3xf32>
    return %r : tensor<7x3xf32>
  })");
  checkOp(
      R"(func.func @main(%i: tensor<2x3xi64>, %u: tensor<3x2x3x2xf32>) -> tensor<3x5x2xf32> {
    %r = nn.scatter_add %i, %u dim 1 : (tensor<2x3xi64>, tensor<3x2x3x2xf32>) -> tensor<3x5x2xf32>
    return %r : tensor<3x5x2xf32>
  })");
  checkOp(
      R"(func.func @main(%i: tensor<i32>, %u: tensor<3x5xf32>) -> tensor<3x4x5xf32> {
    %r = nn.scatter_add %i, %u dim 1 : (tensor<i32>, tensor<3x5xf32>) -> tensor<3x4x5xf32>
    return %r : tensor<3x4x5xf32>
  })");
  EXPECT_GT(runs, 150);
}

TEST_F(OpShardingTest, Scatter) {
  // Indices are in [-4, 4), some of them the same; rows of samples are cut, and
  // rows that indices name.
  for (const char *kind : {"set", "add", "mul", "min", "max"}) {
    checkOp(
        (
            R"(func.func @main(%x: tensor<7x3xf32>, %i: tensor<5xi64>, %u: tensor<5x3xf32>) -> tensor<7x3xf32> {
    %r = nn.scatter )" +
            std::string(kind) +
            R"( %x, %i, %u dim 0 : (tensor<7x3xf32>, tensor<5xi64>, tensor<5x3xf32>) -> tensor<7x3xf32>
    return %r : tensor<7x3xf32>
  })")
            .c_str());
    checkOp(
        (
            R"(func.func @main(%x: tensor<3x5xf32>, %i: tensor<3x4xi64>, %u: tensor<3x4xf32>) -> tensor<3x5xf32> {
    %r = nn.scatter )" +
            std::string(kind) +
            R"( %x, %i, %u dim 1 : (tensor<3x5xf32>, tensor<3x4xi64>, tensor<3x4xf32>) -> tensor<3x5xf32>
    return %r : tensor<3x5xf32>
  })")
            .c_str());
  }
  EXPECT_GT(runs, 300);
}

TEST_F(OpShardingTest, GatherOfRows) {
  checkOp(
      R"(func.func @main(%x: tensor<3x5x2xf32>, %i: tensor<3x4xi64>) -> tensor<3x4x2xf32> {
    %r = nn.gather %x, %i dim 1 {batched} : (tensor<3x5x2xf32>, tensor<3x4xi64>) -> tensor<3x4x2xf32>
    return %r : tensor<3x4x2xf32>
  })");
  EXPECT_GT(runs, 60);
}

TEST_F(OpShardingTest, TopK) {
  checkOp(
      R"(func.func @main(%x: tensor<5x3x7xf32>) -> tensor<5x3x2xi64> {
    %r = nn.top_k 2 of %x : (tensor<5x3x7xf32>) -> tensor<5x3x2xi64>
    return %r : tensor<5x3x2xi64>
  })");
  EXPECT_GT(runs, 20);
}

TEST_F(OpShardingTest, GreedySuppress) {
  checkOp(
      R"(func.func @main(%b: tensor<5x7x4xf32>, %s: tensor<5x3x7xf32>, %t: tensor<f32>, %m: tensor<i64>) -> tensor<5x3x4xi64> {
    %r = nn.greedy_suppress 4 of %b, %s threshold %t most %m : (tensor<5x7x4xf32>, tensor<5x3x7xf32>, tensor<f32>, tensor<i64>) -> tensor<5x3x4xi64>
    return %r : tensor<5x3x4xi64>
  })");
  EXPECT_GT(runs, 20);
}

TEST_F(OpShardingTest, Attention) {
  // Groups of heads, with and without a mask; batch, key heads, queries.
  checkOp(
      R"(func.func @main(%q: tensor<3x8x3x4xf32>, %k: tensor<3x4x5x4xf32>, %v: tensor<3x4x5x2xf32>, %b: tensor<3x1x1x5xf32>)
      -> (tensor<3x8x3x2xf32>, tensor<3x8x3xf32>) {
    %r:2 = nn.attention %q, %k, %v, %b scale 0.5
       : tensor<3x8x3x4xf32>, tensor<3x4x5x4xf32>, tensor<3x4x5x2xf32>, tensor<3x1x1x5xf32>
    return %r#0, %r#1 : tensor<3x8x3x2xf32>, tensor<3x8x3xf32>
  })");
  // One key head, which all queries' heads share; causal.
  checkOp(
      R"(func.func @main(%q: tensor<2x5x3x4xf32>, %k: tensor<2x1x3x4xf32>) -> (tensor<2x5x3x4xf32>, tensor<2x5x3xf32>) {
    %r:2 = nn.attention %q, %k, %k scale 0.5 {causal} : tensor<2x5x3x4xf32>, tensor<2x1x3x4xf32>, tensor<2x1x3x4xf32>
    return %r#0, %r#1 : tensor<2x5x3x4xf32>, tensor<2x5x3xf32>
  })");
  checkOp(
      R"(func.func @main(%q: tensor<3x5x3x2xf32>, %b: tensor<1x5x3x3xf32>) -> (tensor<3x5x3x2xf32>, tensor<3x5x3xf32>) {
    %r:2 = nn.attention %q, %q, %q, %b scale 0.5
       : tensor<3x5x3x2xf32>, tensor<3x5x3x2xf32>, tensor<3x5x3x2xf32>, tensor<1x5x3x3xf32>
    return %r#0, %r#1 : tensor<3x5x3x2xf32>, tensor<3x5x3xf32>
  })");
  EXPECT_GT(runs, 60);
}

TEST_F(OpShardingTest, AttentionGradient) {
  checkOp(
      R"(func.func @main(%q: tensor<3x8x3x4xf32>, %k: tensor<3x4x3x4xf32>, %v: tensor<3x4x3x2xf32>, %y: tensor<3x8x3x2xf32>,
      %s: tensor<3x8x3xf32>, %dy: tensor<3x8x3x2xf32>) -> (tensor<3x8x3x4xf32>, tensor<3x4x3x4xf32>, tensor<3x4x3x2xf32>) {
    %r:3 = nn.attention_gradient %q, %k, %v, %y, %s, %dy scale 0.5 {causal}
       : tensor<3x8x3x4xf32>, tensor<3x4x3x4xf32>, tensor<3x4x3x2xf32>
    return %r#0, %r#1, %r#2 : tensor<3x8x3x4xf32>, tensor<3x4x3x4xf32>, tensor<3x4x3x2xf32>
  })");
  checkOp(
      R"(func.func @main(%q: tensor<3x5x2x2xf32>, %s: tensor<3x5x2xf32>, %dy: tensor<3x5x2x2xf32>, %b: tensor<3x5x1x2xf32>)
      -> (tensor<3x5x2x2xf32>, tensor<3x5x2x2xf32>, tensor<3x5x2x2xf32>) {
    %r:3 = nn.attention_gradient %q, %q, %q, %q, %s, %dy, %b scale 0.5
       : tensor<3x5x2x2xf32>, tensor<3x5x2x2xf32>, tensor<3x5x2x2xf32>, tensor<3x5x1x2xf32>
    return %r#0, %r#1, %r#2 : tensor<3x5x2x2xf32>, tensor<3x5x2x2xf32>, tensor<3x5x2x2xf32>
  })");
  EXPECT_GT(runs, 60);
}

/// 3 heads of 5 on 2, 4 and 6 ranks: the joined dimension is cut between heads.
TEST_F(OpShardingTest, Reshape) {
  checkOp(R"(func.func @main(%x: tensor<2x15xf32>) -> tensor<2x3x5xf32> {
    %r = nn.reshape %x : (tensor<2x15xf32>) -> tensor<2x3x5xf32>
    return %r : tensor<2x3x5xf32>
  })");
  checkOp(R"(func.func @main(%x: tensor<2x3x5x1xf32>) -> tensor<6x5xf32> {
    %r = nn.reshape %x : (tensor<2x3x5x1xf32>) -> tensor<6x5xf32>
    return %r : tensor<6x5xf32>
  })");
  checkOp(R"(func.func @main(%x: tensor<7x2x3xf32>) -> tensor<42xf32> {
    %r = nn.reshape %x : (tensor<7x2x3xf32>) -> tensor<42xf32>
    return %r : tensor<42xf32>
  })");
  checkOp(R"(func.func @main(%x: tensor<5x4x6xf32>) -> tensor<20x2x3xf32> {
    %r = nn.reshape %x : (tensor<5x4x6xf32>) -> tensor<20x2x3xf32>
    return %r : tensor<20x2x3xf32>
  })");
  EXPECT_GT(runs, 100);
}

TEST_F(OpShardingTest, Matmul) {
  checkOp(
      R"(func.func @main(%x: tensor<3x4x5xf32>, %w: tensor<5x7xf32>) -> tensor<3x4x7xf32> {
    %r = nn.matmul %x, %w : (tensor<3x4x5xf32>, tensor<5x7xf32>) -> tensor<3x4x7xf32>
    return %r : tensor<3x4x7xf32>
  })");
  checkOp(R"(func.func @main(%x: tensor<3x5x4xf32>) -> tensor<3x5x4xf32> {
    %r = nn.softmax %x dim 1 : tensor<3x5x4xf32>
    return %r : tensor<3x5x4xf32>
  })");
  EXPECT_GT(runs, 100);
}

/// What the gradients belong to.
TEST_F(OpShardingTest, Forward) {
  checkOp(
      R"(func.func @main(%x: tensor<3x7x3xf32>, %w: tensor<5x3x3xf32>) -> tensor<3x4x5xf32> {
    %r = nn.conv %x, %w kernel 3 strides 2 pad 1 : tensor<3x7x3xf32> -> tensor<3x4x5xf32>
    return %r : tensor<3x4x5xf32>
  })");
  checkOp(
      R"(func.func @main(%x: tensor<7x3xf32>, %i: tensor<5xi64>) -> tensor<5x3xf32> {
    %r = nn.gather %x, %i dim 0 : (tensor<7x3xf32>, tensor<5xi64>) -> tensor<5x3xf32>
    return %r : tensor<5x3xf32>
  })");
  EXPECT_GT(runs, 100);
}

/// Numbers of elements made of iotas: every sharding draws the same.
TEST_F(OpShardingTest, Philox) {
  const char *text =
      R"(func.func @main(%seed: tensor<i64>, %step: tensor<i64>) -> tensor<5x7xf32> {
    %row = nn.iota dim 0 : tensor<5x7xi64>
    %width = nn.constant dense<7> : tensor<i64>
    %start = nn.mul %row, %width : (tensor<5x7xi64>, tensor<i64>) -> tensor<5x7xi64>
    %column = nn.iota dim 1 : tensor<5x7xi64>
    %i = nn.add %start, %column : tensor<5x7xi64>
    %r = nn.philox %i, %seed, %step {stream = 3 : i64} : (tensor<5x7xi64>, tensor<i64>, tensor<i64>) -> tensor<5x7xf32>
    return %r : tensor<5x7xf32>
  })";
  auto module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  std::vector<interpret::Tensor> inputs = {interpret::Tensor({}, 11),
                                           interpret::Tensor({}, 5)};
  auto expected = interpret::run(module->lookupSymbol<func::FuncOp>("main"),
                                 inputs, makeWeights());
  ASSERT_TRUE(succeeded(expected));
  for (const Mesh &mesh : meshes())
    forEachPlace(mesh.axes.size(), 2, [&](const Places &places) {
      if (HasFatalFailure())
        return;
      OwningOpRef<ModuleOp> copy = module->clone();
      auto main = copy->lookupSymbol<func::FuncOp>("main");
      for (Operation &op : main.getBody().front().without_terminator()) {
        ShardingRule rule = cast<ShardingRuleInterface>(op).getShardingRule();
        SmallVector<AxisList> axes(rule.factors.size());
        for (auto [axis, dim] : llvm::enumerate(places))
          if (dim >= 0 && !rule.results[0].empty())
            axes[rule.results[0][dim][0]].push_back(wholeAxis(mesh, axis));
        annotate(&op, mesh, rule, axes, {});
      }
      addMesh(*copy, mesh);
      ASSERT_NO_FATAL_FAILURE(compare(*copy, inputs, *expected));
    });
  EXPECT_GT(runs, 20);
}

} // namespace
