//===- MathTest.cpp - errors of the polynomials, in ulps ------------------===//
//
// Each function on many points of its range and on the special values, in f32
// and f64, against libm (in long double where it matters).
//
//===----------------------------------------------------------------------===//
#include "Harness.h"

#include "gtest/gtest.h"

#include "mlir/Parser/Parser.h"

#include <cfloat>
#include <cmath>
#include <functional>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

struct Function {
  const char *name, *attributes;
  std::function<long double(long double)> exact;
  double low, high; ///< range of the points
  double smallest;  ///< results below are compared absolutely
  double max = 0;   ///< units, where they are made of others
};

double ulps(double got, long double want, bool wide, double smallest) {
  if (std::isnan(got) || std::isnan(want))
    return std::isnan(got) == std::isnan(want) ? 0 : 1e30;
  double rounded = wide ? (double)want : (double)(float)want;
  if (got == rounded)
    return 0;
  // Exponentials that would be subnormal are zero.
  if (got == 0 && std::fabs(rounded) < (wide ? DBL_MIN : FLT_MIN))
    return 0;
  if (std::isinf(got) || std::isinf(rounded))
    return 1e30;
  double magnitude =
      std::max({std::fabs(rounded), smallest, wide ? 1e-300 : 1e-37});
  int exponent;
  std::frexp(magnitude, &exponent);
  return std::fabs((double)((long double)got - want)) /
         std::ldexp(1.0, exponent - (wide ? 53 : 24));
}

const double kFloatBorders[] = {88.72283935546875, 87.33654022216797,
                                103.97207641601562};
const double kDoubleBorders[] = {709.782712893384, 708.3964185322641,
                                 745.1332191019412};

TEST(Math, FewUnitsInTheLastPlace) {
  const Function functions[] = {
      {"exp", "", [](long double x) { return std::exp(x); }, -80, 88, 0},
      {"exp", "", [](long double x) { return std::exp(x); }, -1, 1, 0},
      {"log", "", [](long double x) { return std::log(x); }, 0, 100, 0},
      {"log", "", [](long double x) { return std::log(x); }, 0.5, 1.5, 0},
      {"log", "", [](long double x) { return std::log(x); }, 0, 1e30, 0},
      {"tanh", "", [](long double x) { return std::tanh(x); }, -12, 12, 0},
      {"tanh", "", [](long double x) { return std::tanh(x); }, -0.1, 0.1, 0},
      {"erf", "", [](long double x) { return std::erf(x); }, -5, 5, 0},
      {"erf", "", [](long double x) { return std::erf(x); }, -0.1, 0.1, 0},
      {"sigmoid", "", [](long double x) { return 1 / (1 + std::exp(-x)); }, -80,
       80, 0},
      {"sin", "", [](long double x) { return std::sin(x); }, -10, 10, 0.01},
      {"cos", "", [](long double x) { return std::cos(x); }, -10, 10, 0.01},
      {"sin", "", [](long double x) { return std::sin(x); }, -1e5, 1e5, 0.01},
      {"cos", "", [](long double x) { return std::cos(x); }, -1e5, 1e5, 0.01},
      {"sqrt", "", [](long double x) { return std::sqrt(x); }, 0, 1e10, 0},
      {"log1p", "", [](long double x) { return std::log1p(x); }, -1, 1, 0, 6},
      {"log1p", "", [](long double x) { return std::log1p(x); }, 0, 1e9, 0, 6},
      {"log1p", "", [](long double x) { return std::log1p(x); }, 0, 1e-9, 0, 6},
      {"tan", "", [](long double x) { return std::tan(x); }, -1.5, 1.5, 0, 6},
      {"asin", "", [](long double x) { return std::asin(x); }, -1, 1, 0},
      {"asin", "", [](long double x) { return std::asin(x); }, 0.99, 1, 0},
      {"acos", "", [](long double x) { return std::acos(x); }, -1, 1, 0},
      {"acos", "", [](long double x) { return std::acos(x); }, 0.99, 1, 0},
      {"atan", "", [](long double x) { return std::atan(x); }, -1, 1, 0},
      {"atan", "", [](long double x) { return std::atan(x); }, -4, 4, 0},
      {"atan", "", [](long double x) { return std::atan(x); }, -1e9, 1e9, 0},
      {"sinh", "", [](long double x) { return std::sinh(x); }, -80, 80, 0, 8},
      {"sinh", "", [](long double x) { return std::sinh(x); }, -1, 1, 0, 8},
      {"cosh", "", [](long double x) { return std::cosh(x); }, -80, 80, 0, 8},
      {"asinh", "", [](long double x) { return std::asinh(x); }, -1e9, 1e9, 0,
       8},
      {"asinh", "", [](long double x) { return std::asinh(x); }, -1, 1, 0, 8},
      {"acosh", "", [](long double x) { return std::acosh(x); }, 1, 3, 0, 8},
      {"acosh", "", [](long double x) { return std::acosh(x); }, 1, 1e9, 0, 8},
      {"atanh", "", [](long double x) { return std::atanh(x); }, -1, 1, 0, 8},
  };
  const int64_t count = 20000;
  for (const char *element : {"f32", "f64"}) {
    bool wide = element[1] == '6';
    std::string text,
        type = "tensor<" + std::to_string(count) + "x" + element + ">";
    for (size_t at = 0; at < std::size(functions); ++at)
      text += "exec.kernel @f" + std::to_string(at) + "(%x: " + type + ") -> " +
              type + " attributes {index = 0 : i64, node = \"\"} {\n%r = nn." +
              functions[at].name + " %x " + functions[at].attributes + " : (" +
              type + ") -> " + type + "\nexec.yield %r : " + type + "\n}\n";
    auto context = makeContext();
    auto module = parseSourceString<ModuleOp>(text, context.get());
    addFunctions(*module);
    for (const char *cpu : {"host", "x86-64-v2"}) {
      CodegenOptions options;
      options.cpu = cpu;
      auto program = compileProgram(*module, options);
      ASSERT_TRUE(succeeded(program));
      Library library(program->sharedObject);
      size_t next = 0;
      for (exec::KernelOp kernel : module->getOps<exec::KernelOp>()) {
        const Function &f = functions[next++];
        Result result;
        reference::Tensor input;
        input.shape = {count};
        input.data = {0.0, INFINITY, -INFINITY, NAN, -0.0, 1.0, -1.0};
        // Numbers around those where an exponential overflows or vanishes.
        for (double border : wide ? kDoubleBorders : kFloatBorders)
          for (int step = -20; step <= 20; ++step)
            for (double sign : {1.0, -1.0})
              input.data.push_back(
                  sign * (wide ? border + step * 1.1368683772161603e-13
                               : (float)(border + step * 7.62939453125e-06)));
        std::mt19937_64 random(5);
        std::uniform_real_distribution<double> draw(f.low, f.high);
        while ((int64_t)input.data.size() < count)
          input.data.push_back(wide ? draw(random) : (float)draw(random));
        result.inputs.push_back(input);
        run(kernel, library, result);
        double worst = 0, where = 0;
        for (int64_t at = 0; at < count; ++at) {
          double x = input.data[at];
          double error =
              ulps(result.outputs[0].data[at], f.exact(x), wide, f.smallest);
          if (error > worst)
            worst = error, where = x;
        }
        EXPECT_LE(worst, f.max  ? f.max
                         : wide ? 4
                                : 6)
            << f.name << " " << element << " at " << where;
      }
    }
  }
}

TEST(Math, PowerOfSpecialValues) {
  auto context = makeContext();
  for (std::string e : {"f32", "f64"}) {
    std::string t = "tensor<400x" + e + ">";
    auto module = parseSourceString<ModuleOp>(
        "exec.kernel @k(%x: " + t + ", %y: " + t + ") -> (" + t + ", " + t +
            ", " + t +
            ") attributes {index = 0 : i64, node = \"\"} {\n"
            "%r = nn.pow %x, %y : (" +
            t + ", " + t + ") -> " + t + "\n%s = nn.rem %x, %y : (" + t + ", " +
            t + ") -> " + t + "\n%m = nn.max %x, %y : (" + t + ", " + t +
            ") -> " + t + "\nexec.yield %r, %s, %m : " + t + ", " + t + ", " +
            t + "\n}\n",
        context.get());
    addFunctions(*module);
    auto program = compileProgram(*module, {});
    ASSERT_TRUE(succeeded(program));
    Library library(program->sharedObject);
    const double specials[] = {0.0,  -0.0, 1,   -1,       2,         -2,  0.5,
                               -0.5, 3,    -3,  INFINITY, -INFINITY, NAN, 1.5,
                               10,   -7,   0.1, 20,       33,        7.25};
    Result result;
    result.inputs.resize(2);
    for (double x : specials)
      for (double y : specials) {
        result.inputs[0].data.push_back(e == "f32" ? (float)x : x);
        result.inputs[1].data.push_back(e == "f32" ? (float)y : y);
      }
    run(*module->getOps<exec::KernelOp>().begin(), library, result);
    for (int64_t at = 0; at < 400; ++at) {
      double x = result.inputs[0].data[at], y = result.inputs[1].data[at];
      double got = result.outputs[0].data[at], want = std::pow(x, y);
      if (e == "f32")
        want = (float)want;
      bool same = got == want || (std::isnan(got) && std::isnan(want)) ||
                  std::fabs(got - want) <=
                      std::fabs(want) * (e == "f32" ? 5e-7 : 4e-15);
      EXPECT_TRUE(same) << e << ": " << x << " ^ " << y << " = " << got
                        << ", expected " << want;
      got = result.outputs[1].data[at], want = std::fmod(x, y);
      same = got == want || (std::isnan(got) && std::isnan(want)) ||
             std::fabs(got - want) <= 1e-6 * std::fabs(y);
      EXPECT_TRUE(same) << e << ": " << x << " rem " << y << " = " << got
                        << ", expected " << want;
      got = result.outputs[2].data[at];
      want = std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y);
      EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want)));
    }
  }
}

} // namespace
