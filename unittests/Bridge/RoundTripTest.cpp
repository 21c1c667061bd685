//===- RoundTripTest.cpp - dist, shard and back, at random ----------------===//
//
// Random programs of upstream ops, with random annotations that divide,
// propagated, or with a random plan: what kerf-dist-to-shard takes comes back
// from kerf-shard-to-dist as the same text, and what comes back to it is the
// same once more.
//
//===----------------------------------------------------------------------===//
#include "Harness.h"

#include "RandomProgram.h"

#include "kerf/Dist/Dist.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

/// Puts axes on dimensions of arguments and results that they divide.
void annotate(ModuleOp module, Random &random) {
  MLIRContext *context = module.getContext();
  func::FuncOp function = entryOf(module);
  const std::vector<int64_t> sizes[] = {{2}, {2, 2}, {3}, {2, 3}};
  dist::Mesh mesh;
  for (int64_t size : sizes[random() % 4])
    mesh.axes.push_back(
        {std::string(1, static_cast<char>('a' + mesh.axes.size())), size});
  auto attr = dist::MeshAttr::get(context, mesh);
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  dist::MeshOp::create(builder, module.getLoc(), "mesh", attr);
  auto draw = [&](Type type) -> Attribute {
    auto ranked = dyn_cast<RankedTensorType>(type);
    if (!ranked) // A number from outside.
      return Attribute();
    ArrayRef<int64_t> shape = ranked.getShape();
    dist::Layout layout(shape.size());
    for (unsigned axis = 0; axis < mesh.axes.size(); ++axis)
      for (auto [dim, size] : llvm::enumerate(shape)) {
        dist::AxisList &axes = layout.dims[dim];
        int64_t parts = dist::numShards(axes) * mesh.axes[axis].size;
        if (size % parts == 0 && random() % 2) {
          axes.push_back(dist::wholeAxis(mesh, axis));
          break;
        }
      }
    return random() % 2 ? dist::ShardingAttr::get(context, attr, layout)
                        : dist::ShardingAttr();
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (Attribute sharding = draw(function.getArgumentTypes()[i]))
      function.setArgAttr(i, dist::kSharding, sharding);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (Attribute sharding = draw(function.getResultTypes()[i]))
      function.setResultAttr(i, dist::kSharding, sharding);
}

TEST(RoundTrip, SameText) {
  BridgeContext loaded;
  unsigned taken[2] = {0, 0};
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    auto module = parseSourceString<ModuleOp>(
        makeProgram(random, 1 + random() % 6), &loaded.context);
    ASSERT_TRUE(module);
    std::string messages, planning = "kerf-flatten,kerf-propagate";
    if (seed % 2)
      annotate(*module, random);
    else
      planning = "kerf-flatten,kerf-plan{devices=4 mesh=a=2,b=2 solver=random "
                 "seed=" +
                 std::to_string(seed) + "}";
    if (!runPasses(*module, planning, messages)) {
      ASSERT_EQ(seed % 2, 0u) << messages;
      continue; // No plan for so few ops.
    }
    std::string dist = textOf(*module);
    if (!runPasses(*module, "kerf-dist-to-shard", messages))
      continue;
    ++taken[seed % 2];
    std::string shard = textOf(*module);
    ASSERT_TRUE(runPasses(*module, "kerf-shard-to-dist", messages))
        << messages << shard;
    ASSERT_EQ(textOf(*module), dist) << shard;
    ASSERT_TRUE(runPasses(*module, "kerf-dist-to-shard", messages)) << messages;
    ASSERT_EQ(textOf(*module), shard);
  }
  EXPECT_GE(taken[0], 5u);
  EXPECT_GE(taken[1], 30u);
}

} // namespace
