//===- KernelTest.cpp - each op, and fused groups, against the reference --===//
#include "Harness.h"

#include "gtest/gtest.h"

#include "mlir/Parser/Parser.h"

#include "llvm/ADT/STLExtras.h"

#include <cstdlib>
#include <map>

using namespace kerf;
using namespace kerf::test;

namespace {

/// Collects kernels; those for one target are compiled as one program.
class Kernels : public ::testing::Test {
protected:
  void expect(std::string text, const std::string &cpu = "host",
              uint64_t seed = 1, double tolerance = 0) {
    Batch &batch = batches[{cpu, tolerance}];
    for (size_t at = 0; (at = text.find("@k(", at)) != text.npos; ++at)
      text.replace(at, 2, "@k" + std::to_string(count++));
    batch.text += text;
    batch.seed = seed;
    if (++batch.kernels == 100)
      run();
  }
  void TearDown() override { run(); }

private:
  struct Batch {
    std::string text;
    uint64_t seed = 1;
    int64_t kernels = 0;
  };
  void run() {
    for (auto &[key, batch] : batches)
      EXPECT_EQ(check(batch.text, key.first, batch.seed, key.second), "");
    batches.clear();
  }
  std::map<std::pair<std::string, double>, Batch> batches;
  int64_t count = 0;
};
class Groups : public Kernels {};

/// Whether a test takes a member of a product of factors, whose values are
/// numbered: all of them with KERF_FULL, otherwise one in `period`, so that the
/// values of any two factors occur together.
bool isTaken(size_t sum, size_t period = 3) {
  return std::getenv("KERF_FULL") || sum % period == 0;
}

/// "exec.kernel @k(ARGS) -> RESULT attributes {...} { BODY }"
std::string kernel(const std::string &arguments, const std::string &results,
                   const std::string &body) {
  return "exec.kernel @k(" + arguments + ") -> " + results +
         " attributes {index = 0 : i64, node = \"/node\"} {\n" + body + "\n}\n";
}

std::string unary(const std::string &op, const std::string &shape,
                  const std::string &attributes = "",
                  const std::string &range = "") {
  std::string type = "tensor<" + shape + ">";
  return kernel("%x: " + type + range, type,
                "%r = nn." + op + " %x " + attributes + " : (" + type +
                    ") -> " + type + "\nexec.yield %r : " + type);
}

std::string rangeOf(double low, double high) {
  return " {test.low = " + std::to_string(low) +
         " : f64, test.high = " + std::to_string(high) + " : f64}";
}

const char *kShapes[] = {"1x", "7x", "16x", "3x37x", "1000x", "5000x"};

TEST_F(Kernels, UnaryOps) {
  const char *elements[] = {"f32", "f64"};
  const char *ops[] = {"neg",     "abs",   "sign", "exp",   "erf",   "tanh",
                       "sigmoid", "sin",   "cos",  "tan",   "asin",  "acos",
                       "atan",    "sinh",  "cosh", "asinh", "atanh", "relu",
                       "gelu",    "floor", "ceil", "round", "silu"};
  const char *positive[] = {"log",   "log1p",      "sqrt",
                            "rsqrt", "reciprocal", "acosh"};
  for (auto [t, element] : llvm::enumerate(elements))
    for (auto [s, shape] : llvm::enumerate(kShapes)) {
      std::string type = std::string(shape) + element;
      for (auto [o, op] : llvm::enumerate(ops))
        if (isTaken(t + s + o, 2))
          expect(unary(op, type));
      for (auto [o, op] : llvm::enumerate(positive))
        if (isTaken(t + s + o, 2))
          expect(unary(op, type, "", rangeOf(0.01, 10)));
      expect(unary("gelu", type, "{tanh}"));
    }
}

TEST_F(Kernels, SmallFloats) {
  for (const char *cpu : {"host", "x86-64-v2", "x86-64-v3"})
    for (const char *element : {"f16", "bf16"})
      for (const char *shape : {"7x", "100x"})
        for (const char *op : {"neg", "exp", "gelu", "tanh", "silu"})
          expect(unary(op, std::string(shape) + element), cpu);
}

std::string binary(const std::string &op, const std::string &lhs,
                   const std::string &rhs, const std::string &result,
                   const std::string &range = "") {
  return kernel("%x: tensor<" + lhs + ">, %y: tensor<" + rhs + ">" + range,
                "tensor<" + result + ">",
                "%r = nn." + op + " %x, %y : (tensor<" + lhs + ">, tensor<" +
                    rhs + ">) -> tensor<" + result +
                    ">\nexec.yield %r : tensor<" + result + ">");
}

TEST_F(Kernels, BinaryOpsAndBroadcasting) {
  struct Case {
    const char *lhs, *rhs, *result;
  };
  const Case shapes[] = {
      {"5x33x", "5x33x", "5x33x"}, {"5x33x", "33x", "5x33x"},
      {"5x1x", "33x", "5x33x"},    {"4x5x3x", "5x1x", "4x5x3x"},
      {"", "70x", "70x"},          {"2x3x4x5x", "3x1x5x", "2x3x4x5x"},
      {"300x3x", "3x", "300x3x"}};
  const char *elements[] = {"f32", "f64", "i64", "i32", "i8", "ui8", "f16"};
  const char *ops[] = {"add",  "sub",        "mul", "max", "min", "equal",
                       "less", "less_equal", "div", "mod", "rem"};
  const char *logic[] = {"and", "or", "xor", "shift_left", "shift_right"};
  const char *integers[] = {"i1", "i64", "i32", "i8"};
  for (auto [s, c] : llvm::enumerate(shapes)) {
    for (auto [t, element] : llvm::enumerate(elements))
      for (auto [o, op] : llvm::enumerate(ops)) {
        std::string e = element, name = op;
        const bool compares = o >= 5 && o < 8, divides = o >= 8;
        if (!isTaken(s + t + o) || (e == "i8" && !compares && !divides) ||
            (e == "ui8" && name == "sub") || (e == "f16" && divides))
          continue;
        std::string range = !divides      ? ""
                            : e[0] == 'f' ? rangeOf(0.5, 3)
                                          : rangeOf(1, 4);
        expect(binary(op, c.lhs + e, c.rhs + e,
                      c.result + (compares ? "i1" : e), range));
      }
    for (auto [o, op] : llvm::enumerate(logic))
      for (auto [t, element] : llvm::enumerate(integers))
        if (isTaken(s + t + o)) {
          std::string e = element;
          expect(binary(op, c.lhs + e, c.rhs + e, c.result + e));
        }
  }
  for (const char *e : {"40xi1", "40xi64", "40xi32", "40xi8"})
    expect(unary("not", e));
  expect(binary("mod", "40xi64", "40xi64", "40xi64", rangeOf(-4, 0)));
  expect(binary("div", "40xi32", "40xi32", "40xi32", rangeOf(-4, 0)));
  expect(binary("mod", "40xf32", "40xf32", "40xf32", rangeOf(-4, -1)));
  expect(binary("pow", "40xi64", "40xi64", "40xi64", rangeOf(0, 5)));
}

TEST_F(Kernels, Pow) {
  for (const char *e : {"f32", "f64"}) {
    std::string t = std::string("tensor<50x") + e + ">";
    expect(kernel("%x: " + t + rangeOf(0.1, 4) + ", %y: " + t, t,
                  "%r = nn.pow %x, %y : (" + t + ", " + t + ") -> " + t +
                      "\nexec.yield %r : " + t));
    for (const char *c : {"2.0", "3.0", "-1.0", "0.5", "1.7"})
      expect(kernel("%x: " + t + rangeOf(0.1, 4), t,
                    std::string("%c = nn.constant dense<") + c + "> : tensor<" +
                        e + ">\n%r = nn.pow %x, %c : (" + t + ", tensor<" + e +
                        ">) -> " + t + "\nexec.yield %r : " + t));
  }
}

TEST_F(Kernels, CastsBetweenAllTypes) {
  const char *types[] = {"f32",        "f64",      "f16",        "bf16",
                         "i64",        "i32",      "i8",         "ui8",
                         "i1",         "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2",
                         "f8E5M2FNUZ", "i4",       "ui4",        "f4E2M1FN"};
  // Every pair as vectors of the host, as scalars and of another CPU in turn.
  for (size_t turn = 0, count = std::size(types); turn < 4; ++turn) {
    std::string module, shape = turn % 2 ? "tensor<1x" : "tensor<37x";
    for (size_t i = 0; i < count * count; ++i) {
      std::string from = types[i / count], x = shape + from + ">",
                  r = shape + types[i % count] + ">";
      if (!turn || isTaken(i / count + i % count + turn))
        module += kernel("%x: " + x + rangeOf(0, from == "i1" ? 2 : 6), r,
                         "%r = nn.cast %x : (" + x + ") -> " + r +
                             "\nexec.yield %r : " + r);
    }
    expect(module, turn < 2 ? "host" : "x86-64-v3", 3, 1e-12);
  }
}

TEST_F(Kernels, ShapeOps) {
  expect(kernel("%x: tensor<6x20xf32>", "tensor<8x15xf32>",
                "%r = nn.reshape %x : (tensor<6x20xf32>) -> "
                "tensor<8x15xf32>\nexec.yield %r : tensor<8x15xf32>"));
  for (const char *e : {"f32", "f64", "i8", "f16", "i64"}) {
    std::string a = std::string("tensor<37x53x") + e + ">",
                c = std::string("tensor<53x37x") + e + ">";
    expect(kernel("%x: " + a, c,
                  "%r = nn.transpose %x perm [1, 0] : (" + a + ") -> " + c +
                      "\nexec.yield %r : " + c));
    a = std::string("tensor<2x5x16x12x") + e + ">";
    c = std::string("tensor<2x16x5x12x") + e + ">";
    expect(kernel("%x: " + a, c,
                  "%r = nn.transpose %x perm [0, 2, 1, 3] : (" + a + ") -> " +
                      c + "\nexec.yield %r : " + c));
    c = std::string("tensor<12x2x16x5x") + e + ">";
    expect(kernel("%x: " + a, c,
                  "%r = nn.transpose %x perm [3, 0, 2, 1] : (" + a + ") -> " +
                      c + "\nexec.yield %r : " + c));
  }
  expect(kernel(
      "%x: tensor<9x40xf32>", "tensor<3x10xf32>",
      "%r = nn.slice %x from [7, 39] strides [-2, -3] : (tensor<9x40xf32>) -> "
      "tensor<3x10xf32>\nexec.yield %r : tensor<3x10xf32>"));
  expect(kernel("%x: tensor<9x40xf32>", "tensor<9x30xf32>",
                "%r = nn.slice %x from [0, 10] : (tensor<9x40xf32>) -> "
                "tensor<9x30xf32>\nexec.yield %r : tensor<9x30xf32>"));
  expect(kernel("%x: tensor<5x1x7xf32>", "tensor<2x5x9x7xf32>",
                "%r = nn.broadcast %x : (tensor<5x1x7xf32>) -> "
                "tensor<2x5x9x7xf32>\nexec.yield %r : tensor<2x5x9x7xf32>"));
  expect(kernel("", "tensor<5x37xi64>",
                "%r = nn.iota dim 1 : tensor<5x37xi64>\nexec.yield %r : "
                "tensor<5x37xi64>"));
  expect(kernel("", "tensor<5x37xf32>",
                "%r = nn.iota dim 0 : tensor<5x37xf32>\nexec.yield %r : "
                "tensor<5x37xf32>"));
}

TEST_F(Kernels, EmptyTensors) {
  for (std::string e : {"f32", "i64"}) {
    std::string from = "tensor<3x0x" + e + ">", to = "tensor<3x" + e + ">",
                pad = "tensor<3x20x" + e + ">",
                value = e == "f32" ? "2.0 : f32" : "2 : i64";
    for (const char *kind : {"sum", "prod"})
      expect(kernel("%x: " + from, to,
                    std::string("%r = nn.reduce ") + kind + " %x dims [1] : (" +
                        from + ") -> " + to + "\nexec.yield %r : " + to));
    expect(kernel("%x: " + from, pad,
                  "%r = nn.pad %x by [0, 5:15] value " + value + " : (" + from +
                      ") -> " + pad + "\nexec.yield %r : " + pad));
    expect(kernel("%x: " + from + ", %y: " + pad, pad,
                  "%r = nn.concat %x, %y dim 1 : (" + from + ", " + pad +
                      ") -> " + pad + "\nexec.yield %r : " + pad));
    expect(kernel("%x: " + from, "tensor<0x3x" + e + ">",
                  "%r = nn.transpose %x perm [1, 0] : (" + from +
                      ") -> tensor<0x3x" + e +
                      ">\nexec.yield %r : tensor<0x3x" + e + ">"));
  }
  expect(kernel("%x: tensor<0x5xf32>", "tensor<0x5xf32>",
                "%r = nn.softmax %x dim 1 : tensor<0x5xf32>\nexec.yield %r : "
                "tensor<0x5xf32>"));
}

TEST_F(Kernels, PadsAndConcats) {
  for (const char *pad : {"0, 3", "2, 0", "1, 30"})
    expect(kernel(
        "%x: tensor<4x21xf32>",
        std::string("tensor<") +
            (pad[0] == '0'   ? "4"
             : pad[0] == '2' ? "6"
                             : "5") +
            "x" + (pad[3] == '3' ? (pad[4] ? "81" : "27") : "21") + "xf32>",
        std::string("%r = nn.pad %x by [") + pad[0] + ":0, " + (pad + 3) + ":" +
            (pad[3] == '3' ? (pad[4] ? "30" : "3") : "0") +
            "] value 1.5 : f32 : (tensor<4x21xf32>) -> tensor<" +
            (pad[0] == '0'   ? "4"
             : pad[0] == '2' ? "6"
                             : "5") +
            "x" + (pad[3] == '3' ? (pad[4] ? "81" : "27") : "21") +
            "xf32>\nexec.yield %r : tensor<" +
            (pad[0] == '0'   ? "4"
             : pad[0] == '2' ? "6"
                             : "5") +
            "x" + (pad[3] == '3' ? (pad[4] ? "81" : "27") : "21") + "xf32>"));
  for (const char *e : {"f32", "i64", "i1", "bf16"}) {
    std::string E = e;
    expect(kernel("%x: tensor<4x21x" + E + ">, %y: tensor<4x50x" + E + ">",
                  "tensor<4x71x" + E + ">",
                  "%r = nn.concat %x, %y dim 1 : (tensor<4x21x" + E +
                      ">, tensor<4x50x" + E + ">) -> tensor<4x71x" + E +
                      ">\nexec.yield %r : tensor<4x71x" + E + ">"));
    expect(kernel("%x: tensor<4x21x" + E + ">, %y: tensor<9x21x" + E + ">",
                  "tensor<13x21x" + E + ">",
                  "%r = nn.concat %x, %y dim 0 : (tensor<4x21x" + E +
                      ">, tensor<9x21x" + E + ">) -> tensor<13x21x" + E +
                      ">\nexec.yield %r : tensor<13x21x" + E + ">"));
    expect(kernel("%x: tensor<40x2x" + E + ">, %y: tensor<40x1x" + E + ">",
                  "tensor<40x3x" + E + ">",
                  "%r = nn.concat %x, %y dim 1 : (tensor<40x2x" + E +
                      ">, tensor<40x1x" + E + ">) -> tensor<40x3x" + E +
                      ">\nexec.yield %r : tensor<40x3x" + E + ">"));
  }
  // Rotary embeddings: halves swapped, one negated.
  expect(kernel(
      "%x: tensor<5x64xf32>, %c: tensor<5x64xf32>", "tensor<5x64xf32>",
      "%a = nn.slice %x from [0, 0] : (tensor<5x64xf32>) -> "
      "tensor<5x32xf32>\n%b = nn.slice %x from [0, 32] : (tensor<5x64xf32>) -> "
      "tensor<5x32xf32>\n%n = nn.neg %b : tensor<5x32xf32>\n%r = nn.concat %n, "
      "%a dim 1 : (tensor<5x32xf32>, tensor<5x32xf32>) -> tensor<5x64xf32>\n%m "
      "= nn.mul %r, %c : tensor<5x64xf32>\n%s = nn.add %m, %x : "
      "tensor<5x64xf32>\nexec.yield %s : tensor<5x64xf32>"));
}

std::string softmax(const std::string &op, const std::string &type, int dim) {
  return kernel("%x: tensor<" + type + ">", "tensor<" + type + ">",
                "%r = nn." + op + " %x dim " + std::to_string(dim) +
                    " : (tensor<" + type + ">) -> tensor<" + type +
                    ">\nexec.yield %r : tensor<" + type + ">");
}

TEST_F(Kernels, Softmax) {
  const char *cpus[] = {"host", "x86-64-v3"};
  const char *ops[] = {"softmax", "log_softmax"};
  const char *elements[] = {"f32", "f64", "f16", "bf16"};
  const char *shapes[] = {"3x1x",   "5x7x",    "4x64x",
                          "3x100x", "2x1037x", "40x3x"};
  for (auto [c, cpu] : llvm::enumerate(cpus))
    for (auto [o, op] : llvm::enumerate(ops))
      for (auto [t, e] : llvm::enumerate(elements))
        for (auto [s, shape] : llvm::enumerate(shapes))
          for (int dim : {0, 1})
            if (isTaken(c + o + t + s + dim))
              expect(softmax(op, std::string(shape) + e, dim), cpu);
  expect(softmax("softmax", "2x5x33xf32", 1));
  expect(softmax("softmax", "2x90000xf32", 1));
  expect(softmax("softmax", "900x20xf32", 0));
}

TEST_F(Kernels, Norms) {
  for (const char *e : {"f32", "f64", "bf16"})
    for (auto [shape, row, dim] :
         {std::tuple{"5x7x", "7x", 1}, std::tuple{"3x768x", "768x", 1},
          std::tuple{"2x3x50x", "3x50x", 1}, std::tuple{"2x3x50x", "50x", 2},
          std::tuple{"70x3x", "3x", 1}}) {
      std::string x = std::string("tensor<") + shape + e + ">",
                  s = std::string("tensor<") + row + e + ">";
      std::string d = "dim " + std::to_string(dim) + " epsilon 1.0e-5";
      expect(kernel("%x: " + x + ", %s: " + s + ", %b: " + s, x,
                    "%r = nn.layer_norm %x, %s, %b " + d + " : (" + x + ", " +
                        s + ", " + s + ") -> " + x + "\nexec.yield %r : " + x));
      expect(kernel("%x: " + x + ", %s: " + s, x,
                    "%r = nn.rms_norm %x, %s " + d + " : (" + x + ", " + s +
                        ") -> " + x + "\nexec.yield %r : " + x));
      // A row of zeros stays.
      for (std::string range : {std::string(), rangeOf(0, 0)})
        for (const char *absolute : {"", " {absolute}"})
          expect(kernel("%x: " + x + range, x,
                        "%r = nn.lp_norm %x dim " + std::to_string(dim) +
                            absolute + " : (" + x + ") -> " + x +
                            "\nexec.yield %r : " + x));
    }
}

TEST_F(Kernels, Reductions) {
  struct Case {
    const char *from, *dims, *to;
  };
  const Case cases[] = {
      {"5x37x", "1", "5x"},           {"5x37x", "0", "37x"},
      {"5x37x", "0, 1", ""},          {"4x5x200x", "0, 1", "200x"},
      {"4x30x70x", "1", "4x70x"},     {"4x30x70x", "0, 2", "30x"},
      {"3x500x", "1", "3x"},          {"7x2x3x", "2", "7x2x"},
      {"2x7x7x64x", "1, 2", "2x64x"}, {"1x", "0", ""}};
  const std::string elements[] = {"f32", "f64", "i64", "i32", "f16"};
  const std::string kinds[] = {"sum", "max", "min", "prod"};
  for (auto [s, c] : llvm::enumerate(cases))
    for (auto [t, e] : llvm::enumerate(elements))
      for (auto [k, kind] : llvm::enumerate(kinds)) {
        if (!isTaken(s + t + k))
          continue;
        std::string from = "tensor<" + (c.from + e) + ">",
                    to = "tensor<" + (c.to + e) + ">";
        expect(kernel(
            "%x: " + from +
                (kind == "prod"
                     ? rangeOf(e[0] == 'f' ? 0.9 : 1, e[0] == 'f' ? 1.05 : 2)
                     : ""),
            to,
            "%r = nn.reduce " + kind + " %x dims [" + c.dims + "] : (" + from +
                ") -> " + to + "\nexec.yield %r : " + to));
      }
  for (std::string e : {"f32", "i64", "f64"})
    for (const char *attribute : {"", " {min}", " {last}", " {last, min}"})
      for (int dim : {0, 1, 2}) {
        std::string from = "tensor<4x33x20x" + e + ">";
        std::string to = std::string("tensor<") +
                         (dim == 0   ? "33x20"
                          : dim == 1 ? "4x20"
                                     : "4x33") +
                         "xi64>";
        expect(kernel("%x: " + from, to,
                      "%r = nn.arg_reduce %x dim " + std::to_string(dim) +
                          attribute + " : (" + from + ") -> " + to +
                          "\nexec.yield %r : " + to));
      }
}

TEST_F(Kernels, Gathers) {
  for (std::string i : {"i64", "i32"})
    for (int dim : {0, 1})
      for (const char *partial : {"", " {partial}"}) {
        std::string out = dim ? "tensor<10x2x7x" : "tensor<2x7x40x";
        out += "f32>";
        std::string range = *partial ? rangeOf(-5, 15) : rangeOf(-10, 10);
        expect(kernel(
            "%t: tensor<10x40xf32>, %i: tensor<2x7x" + i + ">" + range, out,
            "%r = nn.gather %t, %i dim " + std::to_string(dim) + partial +
                " : (tensor<10x40xf32>, tensor<2x7x" + i + ">) -> " + out +
                "\nexec.yield %r : " + out));
      }
  expect(
      kernel("%t: tensor<30xf32>, %i: tensor<50xi64> {test.low = 0.0 : f64, "
             "test.high = 30.0 : f64}",
             "tensor<50xf32>",
             "%r = nn.gather %t, %i dim 0 : (tensor<30xf32>, tensor<50xi64>) "
             "-> tensor<50xf32>\nexec.yield %r : tensor<50xf32>"));
  // GPT-2's first ops: two embeddings and a layer norm.
  expect(kernel(
      "%t: tensor<100x48xf32>, %i: tensor<1x9xi64> {test.low = 0.0 : f64, "
      "test.high = 100.0 : f64}, %p: tensor<16x48xf32>, %s: tensor<48xf32>, "
      "%b: tensor<48xf32>",
      "(tensor<1x9x48xf32>, tensor<1x9x48xf32>)",
      "%e = nn.gather %t, %i dim 0 : (tensor<100x48xf32>, tensor<1x9xi64>) -> "
      "tensor<1x9x48xf32>\n%j = nn.iota dim 1 : tensor<1x9xi64>\n%q = "
      "nn.gather %p, %j dim 0 : (tensor<16x48xf32>, tensor<1x9xi64>) -> "
      "tensor<1x9x48xf32>\n%a = nn.add %e, %q : tensor<1x9x48xf32>\n%n = "
      "nn.layer_norm %a, %s, %b dim 2 epsilon 1.0e-05 : tensor<1x9x48xf32>, "
      "tensor<48xf32>\nexec.yield %a, %n : tensor<1x9x48xf32>, "
      "tensor<1x9x48xf32>"));
}

TEST_F(Kernels, Pools) {
  for (std::string e : {"f32", "f64", "f16"})
    for (const char *c : {"1", "3", "64"}) {
      std::string in = std::string("tensor<2x9x8x") + c + "x" + e + ">",
                  out = std::string("tensor<2x5x4x") + c + "x" + e + ">";
      std::string window = " %x kernel 3x3 strides 2x2 pad 1x1";
      for (std::string op : {"max_pool" + window, "avg_pool" + window,
                             "avg_pool" + window + " {count_include_pad}"})
        expect(kernel("%x: " + in, out,
                      "%r = nn." + op + " : (" + in + ") -> " + out +
                          "\nexec.yield %r : " + out));
      out = std::string("tensor<2x3x3x") + c + "x" + e + ">";
      window =
          "kernel 3x2 strides 3x3 low 0x1 high 2x2 dilations 2x1 {count_high = "
          "array<i64: 1, 1>, count_include_pad}";
      out = std::string("tensor<2x3x4x") + c + "x" + e + ">";
      expect(kernel("%x: " + in, out,
                    "%r = nn.avg_pool %x " + window + " : (" + in + ") -> " +
                        out + "\nexec.yield %r : " + out));
    }
  for (const char *c : {"3", "7", "96", "256"})
    for (const char *beta : {"0.75", "0.5", "0.6"}) {
      std::string t = std::string("tensor<2x3x") + c + "xf32>";
      expect(kernel("%x: " + t, t,
                    std::string("%r = nn.lrn %x size 5 alpha 0.1 beta ") +
                        beta + " bias 1.0 : " + t + "\nexec.yield %r : " + t));
    }
}

TEST_F(Kernels, Contractions) {
  for (std::string e : {"i64", "f32", "f16"})
    for (const char *flags : {"", "{transpose_lhs}", "{transpose_rhs}",
                              "{transpose_lhs, transpose_rhs}"}) {
      std::string f = flags;
      bool tl = f.find("lhs") != f.npos, tr = f.find("rhs") != f.npos;
      std::string l = (tl ? "tensor<2x1x9x5x" : "tensor<2x1x5x9x") + e + ">",
                  r = (tr ? "tensor<3x33x9x" : "tensor<3x9x33x") + e + ">",
                  o = "tensor<2x3x5x33x" + e + ">";
      expect(kernel("%x: " + l + ", %y: " + r, o,
                    "%r = nn.matmul %x, %y " + f + " : (" + l + ", " + r +
                        ") -> " + o + "\nexec.yield %r : " + o),
             "host", 1, e == "f16" ? 2e-2 : 0);
    }
  struct Case {
    const char *x, *w, *o;
    int groups;
  };
  for (Case c : {Case{"2x7x6x4x", "6x4x3x3x", "2x4x3x6x", 1},
                 Case{"2x7x6x4x", "8x2x3x3x", "2x4x3x8x", 2},
                 Case{"1x7x6x4x", "4x1x3x3x", "1x4x3x4x", 4},
                 Case{"1x7x6x4x", "1x4x3x3x", "1x4x3x1x", 1}}) {
    std::string x = std::string("tensor<") + c.x + "f32>",
                w = std::string("tensor<") + c.w + "f32>",
                o = std::string("tensor<") + c.o + "f32>";
    expect(kernel("%x: " + x + ", %w: " + w, o,
                  "%r = nn.conv %x, %w kernel 3x3 strides 2x2 pad 1x1 groups " +
                      std::to_string(c.groups) + " : " + x + " -> " + o +
                      "\nexec.yield %r : " + o));
  }
}

TEST_F(Groups, AttentionSoftmax) {
  expect(kernel(
      "%s: tensor<1x3x10x10xf32>, %m: tensor<1x1x10x10xi1>",
      "tensor<1x3x10x10xf32>",
      "%c = nn.constant dense<0.125> : tensor<f32>\n%low = nn.constant "
      "dense<-3.4e38> : tensor<f32>\n%a = nn.mul %s, %c : "
      "(tensor<1x3x10x10xf32>, tensor<f32>) -> tensor<1x3x10x10xf32>\n%b = "
      "nn.select %m, %a, %low : (tensor<1x1x10x10xi1>, tensor<1x3x10x10xf32>, "
      "tensor<f32>) -> tensor<1x3x10x10xf32>\n%r = nn.softmax %b dim 3 : "
      "tensor<1x3x10x10xf32>\nexec.yield %r : tensor<1x3x10x10xf32>"));
}

TEST_F(Groups, ResidualLayerNormInTwoShapes) {
  expect(
      kernel("%x: tensor<1x9x96xf32>, %y: tensor<9x96xf32>, %c: "
             "tensor<96xf32>, %s: tensor<96xf32>, %b: tensor<96xf32>",
             "(tensor<1x9x96xf32>, tensor<9x96xf32>)",
             "%z = nn.add %y, %c : (tensor<9x96xf32>, tensor<96xf32>) -> "
             "tensor<9x96xf32>\n%w = nn.reshape %z : (tensor<9x96xf32>) -> "
             "tensor<1x9x96xf32>\n%a = nn.add %x, %w : tensor<1x9x96xf32>\n%n "
             "= nn.layer_norm %a, %s, %b dim 2 epsilon 1.0e-05 : "
             "tensor<1x9x96xf32>, tensor<96xf32>\n%r = nn.reshape %n : "
             "(tensor<1x9x96xf32>) -> tensor<9x96xf32>\nexec.yield %a, %r : "
             "tensor<1x9x96xf32>, tensor<9x96xf32>"));
}

TEST_F(Groups, HeadsSplitAndMerge) {
  expect(kernel(
      "%x: tensor<10x36xf32>, %b: tensor<36xf32>", "tensor<1x3x10x12xf32>",
      "%a = nn.add %x, %b : (tensor<10x36xf32>, tensor<36xf32>) -> "
      "tensor<10x36xf32>\n%r = nn.reshape %a : (tensor<10x36xf32>) -> "
      "tensor<1x10x3x12xf32>\n%t = nn.transpose %r perm [0, 2, 1, 3] : "
      "(tensor<1x10x3x12xf32>) -> tensor<1x3x10x12xf32>\nexec.yield %t : "
      "tensor<1x3x10x12xf32>"));
  expect(kernel("%x: tensor<10x36xf32>, %b: tensor<36xf32>",
                "tensor<3x12x10xf32>",
                "%a = nn.add %x, %b : (tensor<10x36xf32>, tensor<36xf32>) -> "
                "tensor<10x36xf32>\n%r = nn.reshape %a : (tensor<10x36xf32>) "
                "-> tensor<10x3x12xf32>\n%t = nn.transpose %r perm [1, 2, 0] : "
                "(tensor<10x3x12xf32>) -> tensor<3x12x10xf32>\nexec.yield %t : "
                "tensor<3x12x10xf32>"));
}

TEST_F(Groups, NormFromParts) {
  // An exporter's layer norm: mean, difference, power, mean, root, division.
  expect(kernel(
      "%x: tensor<7x70xf32>", "tensor<7x70xf32>",
      "%n = nn.constant dense<0.0142857142857> : tensor<f32>\n%two = "
      "nn.constant dense<2.0> : tensor<f32>\n%e = nn.constant dense<1.0e-5> : "
      "tensor<f32>\n%s = nn.reduce sum %x dims [1] : (tensor<7x70xf32>) -> "
      "tensor<7xf32>\n%m = nn.mul %s, %n : (tensor<7xf32>, tensor<f32>) -> "
      "tensor<7xf32>\n%mr = nn.reshape %m : (tensor<7xf32>) -> "
      "tensor<7x1xf32>\n%d = nn.sub %x, %mr : (tensor<7x70xf32>, "
      "tensor<7x1xf32>) -> tensor<7x70xf32>\n%p = nn.pow %d, %two : "
      "(tensor<7x70xf32>, tensor<f32>) -> tensor<7x70xf32>\n%v = nn.reduce sum "
      "%p dims [1] : (tensor<7x70xf32>) -> tensor<7xf32>\n%w = nn.mul %v, %n : "
      "(tensor<7xf32>, tensor<f32>) -> tensor<7xf32>\n%q = nn.add %w, %e : "
      "(tensor<7xf32>, tensor<f32>) -> tensor<7xf32>\n%root = nn.sqrt %q : "
      "tensor<7xf32>\n%rr = nn.reshape %root : (tensor<7xf32>) -> "
      "tensor<7x1xf32>\n%r = nn.div %d, %rr : (tensor<7x70xf32>, "
      "tensor<7x1xf32>) -> tensor<7x70xf32>\nexec.yield %r : "
      "tensor<7x70xf32>"));
}

#ifndef KERF_TEST_GPU
TEST(Failures, GatherNamesNodeAndIndex) {
  auto context = makeContext();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      kernel("%t: tensor<10x4xf32>, %i: tensor<6xi64>", "tensor<6x4xf32>",
             "%r = nn.gather %t, %i dim 0 : (tensor<10x4xf32>, tensor<6xi64>) "
             "-> tensor<6x4xf32>\nexec.yield %r : tensor<6x4xf32>"),
      context.get());
  addFunctions(*module);
  auto program = compileProgram(*module, {});
  ASSERT_TRUE(succeeded(program));
  Library library(program->sharedObject);
  exec::KernelOp op = *module->getOps<exec::KernelOp>().begin();
  Result result;
  result.inputs = {{{10, 4}, std::vector<double>(40, 1)},
                   {{6}, {0, 9, -10, 3, 12, 1}}};
  run(op, library, result);
  EXPECT_EQ(result.status, KERF_FAIL_INDEX_OUT_OF_RANGE);
  EXPECT_EQ(result.host.failNode, "/node");
  EXPECT_TRUE(result.host.failDetail == 12 && result.host.failSize == 10);
}

TEST(Failures, DivisionByZero) {
  auto context = makeContext();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      binary("div", "40xi64", "40xi64", "40xi64"), context.get());
  addFunctions(*module);
  auto program = compileProgram(*module, {});
  ASSERT_TRUE(succeeded(program));
  Library library(program->sharedObject);
  Result result;
  result.inputs = {{{40}, std::vector<double>(40, 7)},
                   {{40}, std::vector<double>(40, 2)}};
  result.inputs[1].data[33] = 0;
  run(*module->getOps<exec::KernelOp>().begin(), library, result);
  EXPECT_EQ(result.status, KERF_FAIL_DIVISION_BY_ZERO);
}
#endif

} // namespace
