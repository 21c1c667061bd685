//===- NativeCollectivesTest.cpp - every op of dist as native code --------===//
//
// Functions with one op, on six ranks of 2 x 3, held against the formulas of
// the ops' descriptions. Each rank's operand is a slab of one whole tensor,
// cut over all ranks, and so is its result. Many shapes do not divide.
//
//===----------------------------------------------------------------------===//
#include "NativeProgram.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Parser/Parser.h"

#include <functional>
#include <gtest/gtest.h>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Index;
using interpret::Tensor;

namespace {

using Shape = std::vector<int64_t>;

struct Rank {
  int64_t a, b;
  int64_t number() const { return 3 * a + b; }
};

/// Element `i`, `j` of a rank's operand.
double operand(Rank rank, int64_t i, int64_t j) {
  return static_cast<double>(rank.number() * 10 + (i * 5 + j) % 10 - 20);
}

struct Case {
  std::string body; ///< %r of %x
  std::string element;
  Shape from, to; ///< two dimensions each
  /// An element of a rank's result; NaN: it may be anything.
  std::function<double(Rank, int64_t, int64_t)> expected;
};

std::string typeOf(const Case &test, const Shape &shape, int64_t front = 0) {
  return "tensor<" + (front ? std::to_string(front) + "x" : "") +
         std::to_string(shape[0]) + "x" + std::to_string(shape[1]) + "x" +
         test.element + ">";
}

std::string programOf(const Case &test) {
  std::string from = typeOf(test, test.from), to = typeOf(test, test.to);
  std::string slab = typeOf(test, test.from, 1),
              made = typeOf(test, test.to, 1);
  std::string at =
      std::to_string(test.to[0]) + ", " + std::to_string(test.to[1]);
  std::string body = test.body;
  for (const auto &[name, type] : {std::pair("FROM", from), {"TO", to}})
    for (size_t found; (found = body.find(name)) != std::string::npos;)
      body.replace(found, strlen(name), type);
  return R"(
    #cut = #dist.sharding<{"a", "b"}, {}, {}>
    dist.mesh @mesh ["a"=2, "b"=3]
    func.func private @f()" +
         typeOf(test, test.from, 6) + " {dist.sharding = #cut}) -> (" +
         typeOf(test, test.to, 6) + " {dist.sharding = #cut})\n" +
         "func.func @stage(%slab: " + slab + ") -> " + made + " {\n" +
         "  %x = tensor.collapse_shape %slab [[0, 1], [2]] : " + slab +
         " into " + from + "\n" + body +
         "\n  %made = tensor.expand_shape %r [[0, 1], [2]] output_shape [1, " +
         at + "] : " + to + " into " + made + "\n  return %made : " + made +
         "\n}\ndist.schedule 0 {\n  %0 = dist.input 0 micro_batch 0 : " + slab +
         "\n  %1 = dist.run @stage(%0) micro_batch 0 : (" + slab + ") -> " +
         made + "\n  dist.output %1 to 0 micro_batch 0 : " + made + "\n}\n";
}

class NativeCollectives : public ::testing::Test {
protected:
  void check(const Case &test, StringRef between = "") {
    SCOPED_TRACE(test.body);
    std::string text = programOf(test);
    auto module = parseSourceString<ModuleOp>(text, &native.context);
    ASSERT_TRUE(module) << text;
    Type element = mlir::parseType(test.element, &native.context);
    auto whole = [&](const Shape &shape) {
      return RankedTensorType::get({6, shape[0], shape[1]}, element);
    };
    Tensor in(whole(test.from).getShape());
    interpret::forEachIndex(in.shape, [&](ArrayRef<int64_t> at) {
      in.at(at) = operand({at[0] / 3, at[0] % 3}, at[1], at[2]);
    });
    HostBuffer source(whole(test.from), in), result(whole(test.to));
    std::string why;
    auto program = NativeProgram::create(*module, why, between);
    ASSERT_TRUE(program) << why << text;
    why = program->run("f", {&source, &result}, 2);
    ASSERT_EQ(why, "") << text;
    Tensor out = result.tensor();
    interpret::forEachIndex(out.shape, [&](ArrayRef<int64_t> at) {
      double wanted = test.expected({at[0] / 3, at[0] % 3}, at[1], at[2]);
      if (wanted == wanted)
        EXPECT_EQ(out.at(at), wanted)
            << "rank " << at[0] << " at " << at[1] << ", " << at[2];
    });
  }

  NativeContext native;
};

TEST_F(NativeCollectives, AllReduce) {
  for (const char *element : {"f64", "f32", "i32", "i8", "i64", "i16"})
    check({R"(%r = dist.all_reduce %x sum ["a"] : FROM -> TO)",
           element,
           {4, 3},
           {4, 3},
           [](Rank r, int64_t i, int64_t j) {
             return operand({0, r.b}, i, j) + operand({1, r.b}, i, j);
           }});
  check({R"(%r = dist.all_reduce %x max ["b"] : FROM -> TO)",
         "i32",
         {2, 5},
         {2, 5},
         [](Rank r, int64_t i, int64_t j) {
           return std::max({operand({r.a, 0}, i, j), operand({r.a, 1}, i, j),
                            operand({r.a, 2}, i, j)});
         }});
  check({R"(%r = dist.all_reduce %x min ["b", "a"] : FROM -> TO)",
         "f32",
         {2, 5},
         {2, 5},
         [](Rank, int64_t i, int64_t j) { return operand({0, 0}, i, j); }});
  // Whether any is set, and whether all are.
  auto isSet = [](Rank r, int64_t i, int64_t j) {
    return static_cast<int64_t>(operand(r, i, j)) & 1;
  };
  check({R"(%r = dist.all_reduce %x max ["b"] : FROM -> TO)",
         "i1",
         {2, 5},
         {2, 5},
         [&](Rank r, int64_t i, int64_t j) {
           return isSet({r.a, 0}, i, j) | isSet({r.a, 1}, i, j) |
                  isSet({r.a, 2}, i, j);
         }});
  check({R"(%r = dist.all_reduce %x prod ["a"] : FROM -> TO)",
         "i1",
         {2, 5},
         {2, 5},
         [&](Rank r, int64_t i, int64_t j) {
           return isSet({0, r.b}, i, j) & isSet({1, r.b}, i, j);
         }});
}

// 4 rows over 3 ranks are 2, 2 and none; what no row fills is zero.
TEST_F(NativeCollectives, ReduceScatter) {
  check({R"(%r = dist.reduce_scatter %x sum ["b"] dim 0 : FROM -> TO)",
         "f64",
         {4, 3},
         {2, 3},
         [](Rank r, int64_t i, int64_t j) {
           double sum = 0;
           for (int64_t b = 0; b < 3; ++b)
             sum += operand({r.a, b}, 2 * r.b + i, j);
           return 2 * r.b + i < 4 ? sum : 0;
         }});
  // In blocks of 3 where 2 would do.
  check({R"(%r = dist.reduce_scatter %x sum ["b"] dim 1 : FROM -> TO)",
         "i32",
         {2, 5},
         {2, 3},
         [](Rank r, int64_t i, int64_t j) {
           double sum = 0;
           for (int64_t b = 0; b < 3; ++b)
             sum += operand({r.a, b}, i, 3 * r.b + j);
           return 3 * r.b + j < 5 ? sum : 0;
         }});
}

TEST_F(NativeCollectives, AllGather) {
  check({R"(%r = dist.all_gather %x ["b"] dim 1 : FROM -> TO)",
         "f32",
         {3, 2},
         {3, 5},
         [](Rank r, int64_t i, int64_t j) {
           return operand({r.a, j / 2}, i, j % 2);
         }});
  // The order of the axes is that of the parts.
  check({R"(%r = dist.all_gather %x ["b", "a"] dim 0 : FROM -> TO)",
         "i8",
         {1, 2},
         {6, 2},
         [](Rank, int64_t i, int64_t j) {
           return operand({i % 2, i / 2}, 0, j);
         }});
  // Of less than a byte, a byte each.
  check({R"(%r = dist.all_gather %x ["b"] dim 0 : FROM -> TO)",
         "i4",
         {1, 3},
         {3, 3},
         [](Rank r, int64_t i, int64_t j) {
           auto bits = static_cast<int64_t>(operand({r.a, i}, 0, j)) & 15;
           return static_cast<double>((bits ^ 8) - 8);
         }});
}

TEST_F(NativeCollectives, AllToAll) {
  check({R"(%r = dist.all_to_all %x ["b"] split 0 concat 1 : FROM -> TO)",
         "f64",
         {4, 2},
         {2, 5},
         [](Rank r, int64_t i, int64_t j) {
           int64_t row = 2 * r.b + i;
           return row < 4 ? operand({r.a, j / 2}, row, j % 2) : 0;
         }});
  check({R"(%r = dist.all_to_all %x ["a"] split 1 concat 0 : FROM -> TO)",
         "i32",
         {2, 4},
         {4, 2},
         [](Rank r, int64_t i, int64_t j) {
           return operand({i / 2, r.b}, i % 2, 2 * r.a + j);
         }});
}

TEST_F(NativeCollectives, BroadcastAndPermute) {
  check({R"(%r = dist.broadcast %x ["b"] root 2 : FROM -> TO)",
         "f32",
         {2, 3},
         {2, 3},
         [](Rank r, int64_t i, int64_t j) { return operand({r.a, 2}, i, j); }});
  check({R"(%r = dist.permute %x ["b"] pairs [0, 2, 1, 0] : FROM -> TO)",
         "i64",
         {2, 3},
         {2, 3},
         [](Rank r, int64_t i, int64_t j) {
           return r.b == 1 ? 0 : operand({r.a, r.b == 2 ? 0 : 1}, i, j);
         }});
}

TEST_F(NativeCollectives, LocalOps) {
  check({R"(%r = dist.all_slice %x ["b"] dim 0 : FROM -> TO)",
         "f64",
         {4, 3},
         {2, 3},
         [](Rank r, int64_t i, int64_t j) {
           return 2 * r.b + i < 4 ? operand(r, 2 * r.b + i, j) : 0;
         }});
  check({R"(%r = dist.all_slice %x ["a", "b"] dim 1 : FROM -> TO)",
         "i1",
         {2, 6},
         {2, 1},
         [](Rank r, int64_t i, int64_t j) {
           return static_cast<int64_t>(operand(r, i, r.number())) & 1;
         }});
  check({R"(%r = dist.mask %x dim 1 size 4 over ["b"] fill 7.0 : f32 : TO)",
         "f32",
         {2, 2},
         {2, 2},
         [](Rank r, int64_t i, int64_t j) {
           return 2 * r.b + j < 4 ? operand(r, i, j) : 7;
         }});
  check({R"(%i = dist.shard_index ["b", "a"] scale 10 : tensor<i64>
            %e = tensor.empty() : TO
            %r = linalg.broadcast ins(%i : tensor<i64>) outs(%e : TO)
              dimensions = [0, 1])",
         "i64",
         {1, 2},
         {1, 2},
         [](Rank r, int64_t, int64_t) {
           return static_cast<double>(10 * (2 * r.b + r.a));
         }});
}

// The operand lies inside of another tensor; so does what is made of the
// result.
TEST_F(NativeCollectives, StridedOperands) {
  check({R"(%s = tensor.extract_slice %x[1, 1] [2, 3] [1, 2]
                : FROM to tensor<2x3xf64>
            %g = dist.all_reduce %s sum ["a"]
                : tensor<2x3xf64> -> tensor<2x3xf64>
            %r = tensor.insert_slice %g into %x[1, 1] [2, 3] [1, 2]
                : tensor<2x3xf64> into TO)",
         "f64",
         {3, 7},
         {3, 7},
         [](Rank r, int64_t i, int64_t j) {
           if (i < 1 || j % 2 == 0)
             return operand(r, i, j);
           return operand({0, r.b}, i, j) + operand({1, r.b}, i, j);
         }});
}

// Started, with work in between that would like to write into the operand, and
// several small ones in one buffer.
TEST_F(NativeCollectives, StartedAndPacked) {
  check({R"(%p = dist.all_reduce %x sum ["b"] : FROM -> !dist.pending<FROM>
            %two = arith.constant dense<2.0> : FROM
            %d = linalg.mul ins(%x, %two : FROM, FROM) outs(%x : FROM) -> FROM
            %w = dist.wait %p : !dist.pending<FROM>
            %k = dist.pack %d, %w : FROM, FROM -> tensor<12xf64>
            %q = dist.all_reduce %k max ["a"]
                : tensor<12xf64> -> !dist.pending<tensor<12xf64>>
            %v = dist.wait %q : !dist.pending<tensor<12xf64>>
            %u:2 = dist.unpack %v : tensor<12xf64> -> FROM, FROM
            %e = tensor.empty() : TO
            %r = linalg.sub ins(%u#1, %u#0 : FROM, FROM) outs(%e : TO) -> TO)",
         "f64",
         {2, 3},
         {2, 3},
         [](Rank r, int64_t i, int64_t j) {
           double sum = 0; // of a = 1, where all is larger
           for (int64_t b = 0; b < 3; ++b)
             sum += operand({1, b}, i, j);
           return sum - 2 * operand({1, r.b}, i, j);
         }});
}

// The same tensor is read twice, and written in between: equal reads must not
// be merged.
TEST_F(NativeCollectives, ReadsOfOneTensor) {
  for (const char *between : {"", "cse", "canonicalize,cse"})
    check({R"(%e = tensor.empty() : FROM
              %t = linalg.add ins(%x, %x : FROM, FROM) outs(%e : FROM) -> FROM
              %a = dist.all_reduce %t sum ["a"] : FROM -> FROM
              %d = linalg.exp ins(%a : FROM) outs(%t : FROM) -> FROM
              %b = dist.all_reduce %t max ["b"] : FROM -> FROM
              %f = tensor.empty() : TO
              %g = linalg.sub ins(%d, %d : FROM, FROM) outs(%f : TO) -> TO
              %r = linalg.add ins(%b, %g : TO, TO) outs(%g : TO) -> TO)",
           "f64",
           {2, 3},
           {2, 3},
           [](Rank r, int64_t i, int64_t j) {
             return 2 * operand({r.a, 2}, i, j);
           }},
          between);
}

} // namespace
