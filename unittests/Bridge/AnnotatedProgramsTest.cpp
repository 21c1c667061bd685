//===- AnnotatedProgramsTest.cpp - programs with annotations, on ranks ----===//
//
// The kinds of programs with which Shardy tests its partitioner, as linalg and
// tensor: pads, slices, reshapes, products, concatenations, sizes that do not
// divide, annotations that disagree, changes of sharding. Each is propagated
// and partitioned on meshes of several sizes, and the ranks are held against
// one device. Annotations stay what the user said.
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

struct Program {
  const char *name;
  const char *text;

  friend void PrintTo(const Program &program, std::ostream *stream) {
    *stream << program.name;
  }
};

// A mesh of axes a and b goes before each.
constexpr Program kPrograms[] = {
    {"a pad along what is cut", R"(
func.func @f(%x: tensor<7x4xf32> {dist.sharding = #dist.sharding<{"a"}, {}>}) -> (tensor<10x4xf32> {dist.sharding = #dist.sharding<{"a"}, {}>}) {
  %c = arith.constant 3.0 : f32
  %0 = tensor.pad %x low[1, 0] high[2, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f32
  } : tensor<7x4xf32> to tensor<10x4xf32>
  return %0 : tensor<10x4xf32>
})"},
    {"a pad beside what is cut", R"(
func.func @f(%x: tensor<7x4xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}) -> tensor<7x9xf32> {
  %c = arith.constant 3.0 : f32
  %0 = tensor.pad %x low[0, 2] high[0, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f32
  } : tensor<7x4xf32> to tensor<7x9xf32>
  return %0 : tensor<7x9xf32>
})"},
    {"a slice with a stride along what is cut", R"(
func.func @f(%x: tensor<11x6xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}) -> tensor<4x6xf32> {
  %0 = tensor.extract_slice %x[2, 0] [4, 6] [2, 1] : tensor<11x6xf32> to tensor<4x6xf32>
  %1 = arith.addf %0, %0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
})"},
    {"a slice that drops a dimension", R"(
func.func @f(%x: tensor<5x6xf32> {dist.sharding = #dist.sharding<{}, {"a"}>}) -> (tensor<6xf32> {dist.sharding = #dist.sharding<{"a"}>}) {
  %0 = tensor.extract_slice %x[3, 0] [1, 6] [1, 1] : tensor<5x6xf32> to tensor<6xf32>
  return %0 : tensor<6xf32>
})"},
    {"a part that is overwritten", R"(
func.func @f(%x: tensor<9x6xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}, %y: tensor<2x6xf32>) -> tensor<9x6xf32> {
  %0 = tensor.insert_slice %y into %x[4, 0] [2, 6] [1, 1] : tensor<2x6xf32> into tensor<9x6xf32>
  return %0 : tensor<9x6xf32>
})"},
    {"rows that are joined", R"(
func.func @f(%x: tensor<5x3x4xf32> {dist.sharding = #dist.sharding<{"a"}, {}, {"b"}>}) -> tensor<15x4xf32> {
  %0 = tensor.collapse_shape %x [[0, 1], [2]] : tensor<5x3x4xf32> into tensor<15x4xf32>
  return %0 : tensor<15x4xf32>
})"},
    {"rows that are parted", R"(
func.func @f(%x: tensor<24xf32> {dist.sharding = #dist.sharding<{"a", "b"}>}) -> tensor<4x6xf32> {
  %0 = tensor.expand_shape %x [[0, 1]] output_shape [4, 6] : tensor<24xf32> into tensor<4x6xf32>
  %1 = arith.negf %0 : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
})"},
    {"a batch of products", R"(
func.func @f(%x: tensor<6x4x5xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}, {}>}, %y: tensor<6x5x3xf32>) -> tensor<6x4x3xf32> {
  %c = arith.constant dense<0.0> : tensor<6x4x3xf32>
  %0 = linalg.batch_matmul ins(%x, %y : tensor<6x4x5xf32>, tensor<6x5x3xf32>) outs(%c : tensor<6x4x3xf32>) -> tensor<6x4x3xf32>
  return %0 : tensor<6x4x3xf32>
})"},
    {"a product over a size that does not divide", R"(
func.func @f(%x: tensor<3x7xf32> {dist.sharding = #dist.sharding<{}, {"a"}>}, %y: tensor<7x5xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}, %c: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = linalg.matmul ins(%x, %y : tensor<3x7xf32>, tensor<7x5xf32>) outs(%c : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
})"},
    {"a product whose sum is scattered", R"(
func.func @f(%x: tensor<6x8xf32> {dist.sharding = #dist.sharding<{}, {"a", "b"}>}, %y: tensor<8x5xf32>, %c: tensor<6x5xf32>) -> (tensor<6x5xf32> {dist.sharding = #dist.sharding<{"b"}, {"a"}>}) {
  %0 = linalg.matmul ins(%x, %y : tensor<6x8xf32>, tensor<8x5xf32>) outs(%c : tensor<6x5xf32>) -> tensor<6x5xf32>
  return %0 : tensor<6x5xf32>
})"},
    {"a concatenation along what is cut", R"(
func.func @f(%x: tensor<5x4xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}, %y: tensor<2x4xf32>) -> (tensor<12x4xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}) {
  %0 = tensor.concat dim(0) %x, %y, %x : (tensor<5x4xf32>, tensor<2x4xf32>, tensor<5x4xf32>) -> tensor<12x4xf32>
  return %0 : tensor<12x4xf32>
})"},
    {"a concatenation beside what is cut", R"(
func.func @f(%x: tensor<5x4xf32> {dist.sharding = #dist.sharding<{"a"}, {}>}, %y: tensor<5x3xf32> {dist.sharding = #dist.sharding<{}, {"b"}>}) -> tensor<5x7xf32> {
  %0 = tensor.concat dim(1) %x, %y : (tensor<5x4xf32>, tensor<5x3xf32>) -> tensor<5x7xf32>
  return %0 : tensor<5x7xf32>
})"},
    {"a broadcast of rows that do not divide", R"(
func.func @f(%x: tensor<7xf32> {dist.sharding = #dist.sharding<{"a"}>}, %y: tensor<7x5xf32> {dist.sharding = #dist.sharding<{}, {"b"}>}) -> tensor<7x5xf32> {
  %e = tensor.empty() : tensor<7x5xf32>
  %0 = linalg.broadcast ins(%x : tensor<7xf32>) outs(%e : tensor<7x5xf32>) dimensions = [1]
  %1 = arith.mulf %0, %y : tensor<7x5xf32>
  return %1 : tensor<7x5xf32>
})"},
    {"a maximum over a size that does not divide", R"(
func.func @f(%x: tensor<7x5xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}, %c: tensor<5xf32>) -> (tensor<5xf32> {dist.sharding = #dist.sharding<{"a"}>}) {
  %0 = linalg.reduce ins(%x : tensor<7x5xf32>) outs(%c : tensor<5xf32>) dimensions = [0]
    (%u: f32, %v: f32) {
      %1 = arith.maximumf %u, %v : f32
      linalg.yield %1 : f32
    }
  return %0 : tensor<5xf32>
})"},
    {"numbers of rows and columns", R"(
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @f() -> (tensor<7x4xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}) {
  %e = tensor.empty() : tensor<7x4xf32>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<7x4xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.muli %i, %i : index
    %s = arith.addi %k, %j : index
    %n = arith.index_cast %s : index to i64
    %v = arith.sitofp %n : i64 to f32
    linalg.yield %v : f32
  } -> tensor<7x4xf32>
  return %0 : tensor<7x4xf32>
})"},
    {"rows in reverse", R"(
#reverse = affine_map<(d0, d1) -> (6 - d0, d1)>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @f(%x: tensor<7x4xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}) -> (tensor<7x4xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}) {
  %e = tensor.empty() : tensor<7x4xf32>
  %0 = linalg.generic {indexing_maps = [#reverse, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<7x4xf32>) outs(%e : tensor<7x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    linalg.yield %i : f32
  } -> tensor<7x4xf32>
  return %0 : tensor<7x4xf32>
})"},
    {"a convolution over channels that do not divide", R"(
func.func @f(%x: tensor<4x4x4x5xf32> {dist.sharding = #dist.sharding<{"a"}, {}, {}, {"b"}>}, %k: tensor<2x2x5x3xf32>, %y: tensor<4x3x3x3xf32>) -> tensor<4x3x3x3xf32> {
  %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %k : tensor<4x4x4x5xf32>, tensor<2x2x5x3xf32>) outs(%y : tensor<4x3x3x3xf32>) -> tensor<4x3x3x3xf32>
  return %0 : tensor<4x3x3x3xf32>
})"},
    {"a convolution by output channels", R"(
func.func @f(%x: tensor<2x4x4x3xf32>, %k: tensor<2x2x3x5xf32> {dist.sharding = #dist.sharding<{}, {}, {}, {"a"}>}, %y: tensor<2x3x3x5xf32>) -> tensor<2x3x3x5xf32> {
  %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %k : tensor<2x4x4x3xf32>, tensor<2x2x3x5xf32>) outs(%y : tensor<2x3x3x5xf32>) -> tensor<2x3x3x5xf32>
  return %0 : tensor<2x3x3x5xf32>
})"},
    {"a convolution of rows of an image, which are cut", R"(
func.func @f(%x: tensor<2x6x4x3xf32> {dist.sharding = #dist.sharding<{}, {"a"}, {}, {}>}, %k: tensor<2x2x3x4xf32>, %y: tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32> {
  %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %k : tensor<2x6x4x3xf32>, tensor<2x2x3x4xf32>) outs(%y : tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32>
  return %0 : tensor<2x5x3x4xf32>
})"},
    {"a convolution per channel", R"(
func.func @f(%x: tensor<2x4x4x5xf32> {dist.sharding = #dist.sharding<{"b"}, {}, {}, {"a"}>}, %k: tensor<2x2x5xf32>, %y: tensor<2x3x3x5xf32>) -> tensor<2x3x3x5xf32> {
  %0 = linalg.depthwise_conv_2d_nhwc_hwc ins(%x, %k : tensor<2x4x4x5xf32>, tensor<2x2x5xf32>) outs(%y : tensor<2x3x3x5xf32>) -> tensor<2x3x3x5xf32>
  return %0 : tensor<2x3x3x5xf32>
})"},
    {"three operands of one contraction", R"(
#ai = affine_map<(m, n, i, j) -> (m, i)>
#bij = affine_map<(m, n, i, j) -> (i, j)>
#cj = affine_map<(m, n, i, j) -> (j, n)>
#mn = affine_map<(m, n, i, j) -> (m, n)>
func.func @f(%x: tensor<5x6xf32> {dist.sharding = #dist.sharding<{}, {"a"}>}, %y: tensor<6x7xf32> {dist.sharding = #dist.sharding<{}, {"b"}>}, %z: tensor<7x3xf32>, %c: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %0 = linalg.generic {indexing_maps = [#ai, #bij, #cj, #mn], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %y, %z : tensor<5x6xf32>, tensor<6x7xf32>, tensor<7x3xf32>) outs(%c : tensor<5x3xf32>) {
  ^bb0(%p: f32, %q: f32, %r: f32, %o: f32):
    %1 = arith.mulf %p, %q : f32
    %2 = arith.mulf %1, %r : f32
    %3 = arith.addf %2, %o : f32
    linalg.yield %3 : f32
  } -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
})"},
    {"annotations that disagree", R"(
func.func @f(%x: tensor<6x4xf32> {dist.sharding = #dist.sharding<{"a"}, {"b"}>}, %y: tensor<6x4xf32> {dist.sharding = #dist.sharding<{"b"}, {"a"}>}) -> (tensor<4x6xf32> {dist.sharding = #dist.sharding<{"b", "a"}, {}>}) {
  %0 = arith.addf %x, %y : tensor<6x4xf32>
  %e = tensor.empty() : tensor<4x6xf32>
  %1 = linalg.transpose ins(%0 : tensor<6x4xf32>) outs(%e : tensor<4x6xf32>) permutation = [1, 0]
  return %1 : tensor<4x6xf32>
})"},
    {"annotations that disagree, with priorities", R"(
func.func @f(%x: tensor<6x4xf32> {dist.sharding = #dist.sharding<{"a"}, {}>, dist.priority = 1}, %y: tensor<6x4xf32> {dist.sharding = #dist.sharding<{"b"}, {"a"}>}) -> (tensor<6x4xf32> {dist.sharding = #dist.sharding<{}, {"b"}>, dist.priority = 2}) {
  %0 = arith.addf %x, %y : tensor<6x4xf32>
  %1 = math.exp %0 : tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
})"},
    {"every change of sharding", R"(
func.func @f(%x: tensor<12x6xf32> {dist.sharding = #dist.sharding<{"a", "b"}, {}>}) -> tensor<12x6xf32> {
  %0 = dist.reshard %x to <{"b", "a"}, {}> : tensor<12x6xf32>
  %1 = dist.reshard %0 to <{"b"}, {"a"}> : tensor<12x6xf32>
  %2 = dist.reshard %1 to <{"a"}, {"b"}> : tensor<12x6xf32>
  %3 = dist.reshard %2 to <{}, {"b"}> : tensor<12x6xf32>
  %4 = dist.reshard %3 to <{"a"}, {"b"}> : tensor<12x6xf32>
  %5 = dist.reshard %4 to <{"b"}, {}> : tensor<12x6xf32>
  %6 = dist.reshard %5 to <{"a"}, {}> : tensor<12x6xf32>
  %7 = arith.addf %6, %5 : tensor<12x6xf32>
  return %7 : tensor<12x6xf32>
})"},
};

class AnnotatedPrograms
    : public testing::TestWithParam<std::tuple<Program, const char *>> {
protected:
  BridgeContext loaded;
  std::string messages;
};

TEST_P(AnnotatedPrograms, RanksComputeWhatOneDoes) {
  const auto &[program, mesh] = GetParam();
  std::string text = "dist.mesh @mesh [" + std::string(mesh) + "]\n";
  // Aliases of attributes come first.
  std::string rest = program.text;
  size_t begin = rest.find("func.func");
  text = rest.substr(0, begin) + text + rest.substr(begin);
  auto module = parseSourceString<ModuleOp>(text, &loaded.context);
  ASSERT_TRUE(module);
  auto expected = runWhole(*module);
  ASSERT_FALSE(expected.empty());
  func::FuncOp before = entryOf(*module);
  SmallVector<Attribute> given;
  for (unsigned i = 0; i < before.getNumArguments(); ++i)
    given.push_back(before.getArgAttr(i, dist::kSharding));
  ASSERT_TRUE(runPasses(*module, "kerf-flatten,kerf-propagate", messages))
      << messages;
  // What the user said of an argument stays.
  func::FuncOp after = entryOf(*module);
  for (auto [index, sharding] : llvm::enumerate(given))
    if (sharding)
      EXPECT_EQ(after.getArgAttr(index, dist::kSharding), sharding);
  std::string planned = textOf(*module);
  ASSERT_TRUE(runPasses(*module, "kerf-partition,kerf-collectives", messages))
      << messages << planned;
  auto outputs = runRanks(*module, messages);
  ASSERT_TRUE(outputs) << messages << planned << textOf(*module);
  EXPECT_TRUE(isSame(*outputs, expected)) << planned << textOf(*module);
}

INSTANTIATE_TEST_SUITE_P(, AnnotatedPrograms,
                         testing::Combine(testing::ValuesIn(kPrograms),
                                          testing::Values("\"a\"=2, \"b\"=2",
                                                          "\"a\"=3, \"b\"=2",
                                                          "\"a\"=2, \"b\"=4")),
                         [](const auto &info) {
                           std::string name;
                           for (char letter :
                                std::string(std::get<0>(info.param).name) +
                                    " on " + std::get<1>(info.param))
                             name += std::isalnum(letter) ? letter : '_';
                           return name;
                         });

} // namespace
