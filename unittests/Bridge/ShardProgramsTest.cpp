//===- ShardProgramsTest.cpp - programs of shard, on ranks ----------------===//
//
// What upstream's tests of the shard dialect ask for, as programs that compute
// something: elementwise ops and their resharding, products, reductions, the
// layers of a network. Each is partitioned by Kerf, from the same annotations,
// and by upstream's own shard-partition; what the ranks compute is held against
// one device. Where upstream's result is wrong, or there is none, that is said
// beside the program (docs/Bridge.md lists them), and checked as well.
//
//===----------------------------------------------------------------------===//
#include "Harness.h"

#include "kerf/Dist/Dist.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

/// What shard-partition makes of a program.
enum class Upstream {
  Right,
  Wrong,   ///< without a word
  Refused, ///< with an error
  Crash    ///< so it is not tried
};

struct Program {
  const char *name;
  Upstream upstream;
  /// Why kerf-dist-to-shard does not hand the program to upstream; empty: it
  /// does.
  const char *refused;
  const char *text;

  friend void PrintTo(const Program &program, std::ostream *stream) {
    *stream << program.name;
  }
};

constexpr const char *kUneven =
    "where shard-partition takes parts that fill it";
constexpr const char *kDropped = "shard-partition does not add up";

constexpr Program kPrograms[] = {
    {"an elementwise op on rows", Upstream::Right, "", R"(
shard.grid @g(shape = 2)
func.func @f(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<4x3xf32>
  %0 = tosa.abs %x1 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
})"},
    {"two operands of which one is annotated", Upstream::Right, "", R"(
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %y1 = shard.shard %y to %s : tensor<4x6xf32>
  %0 = tosa.add %x, %y1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = tosa.sigmoid %0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
})"},
    {"sliced in front of an op, gathered behind it", Upstream::Right, "", R"(
shard.grid @g(shape = 2)
func.func @f(%x: tensor<6xf32>) -> tensor<6xf32> {
  %w = shard.sharding @g split_axes = [[]] : !shard.sharding
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %x1 = shard.shard %x to %w : tensor<6xf32>
  %x2 = shard.shard %x1 to %s annotate_for_users : tensor<6xf32>
  %0 = tosa.tanh %x2 : (tensor<6xf32>) -> tensor<6xf32>
  %1 = shard.shard %0 to %s : tensor<6xf32>
  %2 = shard.shard %1 to %w annotate_for_users : tensor<6xf32>
  %3 = tosa.abs %2 : (tensor<6xf32>) -> tensor<6xf32>
  %4 = shard.shard %3 to %w : tensor<6xf32>
  %5 = shard.shard %4 to %s annotate_for_users : tensor<6xf32>
  return %5 : tensor<6xf32>
})"},
    {"an axis that changes dimension", Upstream::Right, "", R"(
shard.grid @g(shape = 2)
func.func @f(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %r = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %c = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %x1 = shard.shard %x to %r : tensor<4x6xf32>
  %x2 = shard.shard %x1 to %c annotate_for_users : tensor<4x6xf32>
  return %x2 : tensor<4x6xf32>
})"},
    {"the inner of two axes is gathered", Upstream::Right, "", R"(
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %s = shard.sharding @g split_axes = [[0, 1]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<8x3xf32>
  %x2 = shard.shard %x1 to %t annotate_for_users : tensor<8x3xf32>
  return %x2 : tensor<8x3xf32>
})"},
    {"both axes change dimension", Upstream::Wrong, "", R"(
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[1], [0]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<4x8xf32>
  %x2 = shard.shard %x1 to %t annotate_for_users : tensor<4x8xf32>
  return %x2 : tensor<4x8xf32>
})"},
    {"one of two axes changes dimension, one is gathered", Upstream::Wrong, "",
     R"(
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = shard.sharding @g split_axes = [[0, 1]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<8x8xf32>
  %x2 = shard.shard %x1 to %t annotate_for_users : tensor<8x8xf32>
  return %x2 : tensor<8x8xf32>
})"},
    {"another axis on the same dimension", Upstream::Crash, "", R"(
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[1]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<8x8xf32>
  %x2 = shard.shard %x1 to %t annotate_for_users : tensor<8x8xf32>
  return %x2 : tensor<8x8xf32>
})"},
    {"the same axes in another order", Upstream::Crash, "", R"(
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = shard.sharding @g split_axes = [[0, 1]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[1, 0]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<8x8xf32>
  %x2 = shard.shard %x1 to %t annotate_for_users : tensor<8x8xf32>
  return %x2 : tensor<8x8xf32>
})"},
    {"whole, then cut by two axes", Upstream::Crash, "", R"(
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = shard.sharding @g split_axes = [[]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[0, 1]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<8x8xf32>
  %x2 = shard.shard %x1 to %t annotate_for_users : tensor<8x8xf32>
  return %x2 : tensor<8x8xf32>
})"},
    {"8 rows over 3 devices, then whole", Upstream::Refused, kUneven, R"(
shard.grid @g(shape = 3)
func.func @f(%x: tensor<8x2xf32>) -> tensor<8x2xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<8x2xf32>
  %x2 = shard.shard %x1 to %t annotate_for_users : tensor<8x2xf32>
  return %x2 : tensor<8x2xf32>
})"},
    {"8 rows over 3 devices all the way", Upstream::Wrong, kUneven, R"(
shard.grid @g(shape = 3)
func.func @f(%x: tensor<8x2xf32>) -> tensor<8x2xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<8x2xf32>
  %0 = tosa.tanh %x1 : (tensor<8x2xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
})"},
    {"the sum of 8 rows over 3 devices", Upstream::Wrong, kUneven, R"(
shard.grid @g(shape = 3)
func.func @f(%x: tensor<8x2xf32>, %c: tensor<2xf32>) -> tensor<2xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<8x2xf32>
  %0 = linalg.reduce ins(%x1 : tensor<8x2xf32>) outs(%c : tensor<2xf32>) dimensions = [0]
    (%a: f32, %b: f32) {
      %1 = arith.addf %a, %b : f32
      linalg.yield %1 : f32
    }
  return %0 : tensor<2xf32>
})"},
    {"rows in parts of given sizes", Upstream::Crash, kUneven, R"(
shard.grid @g(shape = 3)
func.func @f(%x: tensor<8x2xf32>) -> tensor<8x2xf32> {
  %s = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 3, 6, 8] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<8x2xf32>
  %0 = tosa.tanh %x1 : (tensor<8x2xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
})"},
    {"a sum to one number", Upstream::Right, "", R"(
shard.grid @g(shape = 2)
func.func @f(%x: tensor<6x4xf32>) -> tensor<f32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %w = shard.sharding @g split_axes = [[]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<6x4xf32>
  %c = arith.constant dense<0.0> : tensor<f32>
  %c1 = shard.shard %c to %w : tensor<f32>
  %x2 = shard.shard %x1 to %s annotate_for_users : tensor<6x4xf32>
  %c2 = shard.shard %c1 to %w annotate_for_users : tensor<f32>
  %0 = linalg.reduce ins(%x2 : tensor<6x4xf32>) outs(%c2 : tensor<f32>) dimensions = [0, 1]
    (%a: f32, %b: f32) {
      %1 = arith.addf %a, %b : f32
      linalg.yield %1 : f32
    }
  %r = shard.shard %0 to %w : tensor<f32>
  %r1 = shard.shard %r to %w annotate_for_users : tensor<f32>
  return %r1 : tensor<f32>
})"},
    {"sums of rows, by rows", Upstream::Right, "", R"(
shard.grid @g(shape = 2)
func.func @f(%x: tensor<6x4xf32>, %c: tensor<6xf32>) -> tensor<6xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<6x4xf32>
  %0 = linalg.reduce ins(%x1 : tensor<6x4xf32>) outs(%c : tensor<6xf32>) dimensions = [1]
    (%a: f32, %b: f32) {
      %1 = arith.addf %a, %b : f32
      linalg.yield %1 : f32
    }
  return %0 : tensor<6xf32>
})"},
    {"a constant and a scalar", Upstream::Right, "", R"(
shard.grid @g(shape = 4x4)
func.func @f() -> tensor<8x4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %k = arith.constant dense<1.5> : tensor<8x4xf32>
  %k1 = shard.shard %k to %s : tensor<8x4xf32>
  %e = arith.constant dense<0.0> : tensor<8x4xf32>
  %0 = linalg.mul ins(%k1, %k1 : tensor<8x4xf32>, tensor<8x4xf32>) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
})"},
    {"a product by batch and rows", Upstream::Wrong, "", R"(
shard.grid @g(shape = 2x4)
func.func @f(%x: tensor<2x8x3xf32>, %w: tensor<2x3x5xf32>) -> tensor<2x8x5xf32> {
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %zero = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.matmul %x, %w, %zero, %zero : (tensor<2x8x3xf32>, tensor<2x3x5xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x8x5xf32>
  %1 = shard.shard %0 to %s : tensor<2x8x5xf32>
  return %1 : tensor<2x8x5xf32>
})"},
    {"a product by rows and columns", Upstream::Wrong, "", R"(
shard.grid @g(shape = 2x4)
func.func @f(%x: tensor<2x6x3xf32>, %w: tensor<2x3x8xf32>) -> tensor<2x6x8xf32> {
  %s = shard.sharding @g split_axes = [[], [0], [1]] : !shard.sharding
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.matmul %x, %w, %z, %z : (tensor<2x6x3xf32>, tensor<2x3x8xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x6x8xf32>
  %1 = shard.shard %0 to %s : tensor<2x6x8xf32>
  return %1 : tensor<2x6x8xf32>
})"},
    {"a product of TOSA by rows and what it adds up", Upstream::Wrong, kDropped,
     R"(
shard.grid @g(shape = 2x4)
func.func @f(%x: tensor<2x6x8xf32>, %w: tensor<2x8x3xf32>) -> tensor<2x6x3xf32> {
  %s = shard.sharding @g split_axes = [[], [0], [1]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<2x6x8xf32>
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.matmul %x1, %w, %z, %z : (tensor<2x6x8xf32>, tensor<2x8x3xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x6x3xf32>
  return %0 : tensor<2x6x3xf32>
})"},
    {"a product of linalg by what it adds up, over two axes", Upstream::Right,
     "", R"(
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %c: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %s = shard.sharding @g split_axes = [[], [0, 1]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[0, 1]] : !shard.sharding
  %z = shard.sharding @g split_axes = [[]] : !shard.sharding
  %w1 = shard.shard %w to %t : tensor<8x6xf32>
  %x1 = shard.shard %x to %s : tensor<4x8xf32>
  %c1 = shard.shard %c to %z : tensor<4x6xf32>
  %x2 = shard.shard %x1 to %s annotate_for_users : tensor<4x8xf32>
  %w2 = shard.shard %w1 to %t annotate_for_users : tensor<8x6xf32>
  %c2 = shard.shard %c1 to %z annotate_for_users : tensor<4x6xf32>
  %0 = linalg.matmul ins(%x2, %w2 : tensor<4x8xf32>, tensor<8x6xf32>) outs(%c2 : tensor<4x6xf32>) -> tensor<4x6xf32>
  %r = shard.shard %0 to %z : tensor<4x6xf32>
  %r1 = shard.shard %r to %z annotate_for_users : tensor<4x6xf32>
  return %r1 : tensor<4x6xf32>
})"},
    {"an annotation of the result against one of an operand", Upstream::Right,
     "", R"(
shard.grid @g(shape = 2)
func.func @f(%x: tensor<2x3xf32>, %w: tensor<3x2xf32>, %c: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %z = shard.sharding @g split_axes = [[]] : !shard.sharding
  %x1 = shard.shard %x to %s : tensor<2x3xf32>
  %0 = linalg.matmul ins(%x1, %w : tensor<2x3xf32>, tensor<3x2xf32>) outs(%c : tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = shard.shard %0 to %z : tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
})"},
    {"two layers, columns then rows", Upstream::Right, "", R"(
shard.grid @g(shape = 4)
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %v: tensor<16x8xf32>) -> tensor<4x8xf32> {
  %c = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %r = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %n = shard.sharding @g split_axes = [[]] : !shard.sharding
  %x1 = shard.shard %x to %c : tensor<4x8xf32>
  %w1 = shard.shard %w to %c : tensor<8x16xf32>
  %v1 = shard.shard %v to %r : tensor<16x8xf32>
  %a = arith.constant dense<0.0> : tensor<4x16xf32>
  %a1 = shard.shard %a to %c : tensor<4x16xf32>
  %x2 = shard.shard %x1 to %n annotate_for_users : tensor<4x8xf32>
  %w2 = shard.shard %w1 to %c annotate_for_users : tensor<8x16xf32>
  %a2 = shard.shard %a1 to %c annotate_for_users : tensor<4x16xf32>
  %0 = linalg.matmul ins(%x2, %w2 : tensor<4x8xf32>, tensor<8x16xf32>) outs(%a2 : tensor<4x16xf32>) -> tensor<4x16xf32>
  %1 = shard.shard %0 to %c : tensor<4x16xf32>
  %2 = shard.shard %1 to %c annotate_for_users : tensor<4x16xf32>
  %3 = tosa.sigmoid %2 : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %4 = shard.shard %3 to %c : tensor<4x16xf32>
  %b = arith.constant dense<0.0> : tensor<4x8xf32>
  %b1 = shard.shard %b to %n : tensor<4x8xf32>
  %5 = shard.shard %4 to %c annotate_for_users : tensor<4x16xf32>
  %v2 = shard.shard %v1 to %r annotate_for_users : tensor<16x8xf32>
  %b2 = shard.shard %b1 to %n annotate_for_users : tensor<4x8xf32>
  %6 = linalg.matmul ins(%5, %v2 : tensor<4x16xf32>, tensor<16x8xf32>) outs(%b2 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = shard.shard %6 to %n : tensor<4x8xf32>
  %8 = shard.shard %7 to %n annotate_for_users : tensor<4x8xf32>
  return %8 : tensor<4x8xf32>
})"},
    {"two layers of TOSA, weights cut over three axes", Upstream::Crash, "", R"(
shard.grid @g(shape = 2x2x2)
func.func @f(%x: tensor<2x4x8xf32>, %w: tensor<2x8x16xf32>, %v: tensor<2x16x8xf32>) -> tensor<2x4x8xf32> {
  %a = shard.sharding @g split_axes = [[], [], [0, 1, 2]] : !shard.sharding
  %b = shard.sharding @g split_axes = [[], [0], [1, 2]] : !shard.sharding
  %c = shard.sharding @g split_axes = [[], [1, 2], [0]] : !shard.sharding
  %x1 = shard.shard %x to %a : tensor<2x4x8xf32>
  %w1 = shard.shard %w to %b : tensor<2x8x16xf32>
  %v1 = shard.shard %v to %c : tensor<2x16x8xf32>
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = tosa.matmul %x1, %w1, %z, %z : (tensor<2x4x8xf32>, tensor<2x8x16xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x4x16xf32>
  %1 = shard.shard %0 to %a : tensor<2x4x16xf32>
  %2 = tosa.sigmoid %1 : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %3 = tosa.matmul %2, %v1, %z, %z : (tensor<2x4x16xf32>, tensor<2x16x8xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x4x8xf32>
  %4 = shard.shard %3 to %a : tensor<2x4x8xf32>
  %5 = shard.shard %4 to %a annotate_for_users : tensor<2x4x8xf32>
  return %5 : tensor<2x4x8xf32>
})"},
};

class ShardPrograms : public testing::TestWithParam<Program> {
protected:
  OwningOpRef<ModuleOp> parse() {
    return parseSourceString<ModuleOp>(GetParam().text, &loaded.context);
  }
  BridgeContext loaded;
  std::string messages;
};
/// Those that do not end upstream's process.
class UpstreamPrograms : public ShardPrograms {};

/// From annotations of shard to ranks, by Kerf.
TEST_P(ShardPrograms, PartitionedByKerf) {
  auto module = parse();
  ASSERT_TRUE(module);
  auto expected = runWhole(*module);
  ASSERT_FALSE(expected.empty());
  ASSERT_TRUE(runPasses(
      *module,
      "kerf-shard-to-dist,kerf-propagate,kerf-partition,kerf-collectives",
      messages))
      << messages << textOf(*module);
  auto outputs = runRanks(*module, messages);
  ASSERT_TRUE(outputs) << messages << textOf(*module);
  EXPECT_TRUE(isSame(*outputs, expected)) << textOf(*module);
}

/// The same annotations, by upstream's passes; what they make comes back to be
/// run on ranks.
TEST_P(UpstreamPrograms, PartitionedByUpstream) {
  auto module = parse();
  ASSERT_TRUE(module);
  auto expected = runWhole(*module);
  ASSERT_TRUE(runPasses(*module, "func.func(sharding-propagation)", messages))
      << messages;
  OwningOpRef<ModuleOp> annotated(module->clone());
  ASSERT_TRUE(runPasses(*annotated, "kerf-shard-to-dist", messages))
      << messages;
  bool isPartitioned =
      runPasses(*module, "func.func(shard-partition)", messages);
  ASSERT_EQ(isPartitioned, GetParam().upstream != Upstream::Refused)
      << messages;
  if (!isPartitioned)
    return;
  std::string partitioned = textOf(*module);
  ASSERT_TRUE(runPasses(*module, "kerf-shard-to-dist", messages))
      << messages << partitioned;
  bool isRight = frame(*module, entryOf(*annotated));
  if (isRight) {
    auto outputs = runRanks(*module, messages);
    isRight = outputs && isSame(*outputs, expected);
  }
  EXPECT_EQ(isRight, GetParam().upstream == Upstream::Right)
      << messages << partitioned << textOf(*module);
}

/// What Kerf's propagation decides, partitioned by upstream: right wherever
/// upstream is. What it would get wrong for lack of a word is refused.
TEST_P(UpstreamPrograms, PropagatedByKerfPartitionedByUpstream) {
  auto module = parse();
  ASSERT_TRUE(module);
  auto expected = runWhole(*module);
  ASSERT_TRUE(runPasses(*module, "kerf-shard-to-dist,kerf-propagate", messages))
      << messages;
  OwningOpRef<ModuleOp> annotated(module->clone());
  std::string planned = textOf(*module);
  std::string refused = GetParam().refused;
  bool isHanded = runPasses(*module, "kerf-dist-to-shard", messages);
  ASSERT_EQ(isHanded, refused.empty()) << messages << planned;
  if (!isHanded) {
    EXPECT_NE(messages.find(refused), std::string::npos) << messages;
    return;
  }
  if (GetParam().upstream != Upstream::Right)
    return; // Said, and still done wrong.
  ASSERT_TRUE(runPasses(
      *module, "func.func(shard-partition),kerf-shard-to-dist", messages))
      << messages << planned;
  ASSERT_TRUE(frame(*module, entryOf(*annotated))) << textOf(*module);
  auto outputs = runRanks(*module, messages);
  ASSERT_TRUE(outputs) << messages << textOf(*module);
  EXPECT_TRUE(isSame(*outputs, expected)) << planned << textOf(*module);
}

/// dist, shard, dist: the same text.
TEST_P(ShardPrograms, GoesThereAndBack) {
  auto module = parse();
  ASSERT_TRUE(module);
  ASSERT_TRUE(
      runPasses(*module, "kerf-shard-to-dist,kerf-propagate", messages));
  std::string before = textOf(*module);
  bool isHanded = runPasses(*module, "kerf-dist-to-shard", messages);
  ASSERT_EQ(isHanded, std::string(GetParam().refused).empty()) << messages;
  if (!isHanded)
    return;
  std::string between = textOf(*module);
  ASSERT_TRUE(runPasses(*module, "kerf-shard-to-dist", messages)) << messages;
  EXPECT_EQ(textOf(*module), before) << between;
}

std::vector<Program> withoutCrashes() {
  std::vector<Program> programs;
  for (const Program &program : kPrograms)
    if (program.upstream != Upstream::Crash)
      programs.push_back(program);
  return programs;
}

std::string nameOf(const testing::TestParamInfo<Program> &info) {
  std::string name;
  for (char letter : std::string(info.param.name))
    name += std::isalnum(letter) ? letter : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(, ShardPrograms, testing::ValuesIn(kPrograms), nameOf);
INSTANTIATE_TEST_SUITE_P(, UpstreamPrograms,
                         testing::ValuesIn(withoutCrashes()), nameOf);

} // namespace
