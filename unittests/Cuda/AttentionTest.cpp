//===- AttentionTest.cpp - attention: the CPU's answer, cuDNN's graph -----===//
//
// Random views (heads moved by strides, offsets, groups of heads, biases that
// repeat, causal or not) and PyTorch's numbers. The CPU's call runs as it is;
// the graph that cuDNN gets is evaluated node by node, each rounded to the type
// of its tensor. Where cuDNN is installed its back end must take every graph.
//
//===----------------------------------------------------------------------===//
#include "AttentionCalls.h"

#include "device/Device.h"
#include "device/cuda/cudnn/CudnnAttention.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

using namespace kerf::test;

namespace {

void runOnCpu(AttentionCallData &call, int32_t threads) {
  auto device = makeCpuDevice(0, threads, makeCpuPackCache());
  auto prepared =
      device->prepare(call.desc, 0, [](int64_t) { return ParameterView{}; });
  auto scratch = device->allocate(prepared->scratchBytes(), "scratch");
  std::vector<void *> buffers;
  for (std::vector<char> &bytes : call.memory)
    buffers.push_back(bytes.data());
  prepared->run(buffers.data(), scratch->data);
}

/// The graph of cuDNN, node by node.
class GraphEvaluator {
public:
  explicit GraphEvaluator(AttentionCallData &call)
      : call(call), plan(planAttention(call.desc)),
        operands(attentionOperands(call.desc)), values(plan.tensors.size()) {}

  void run() {
    for (const AttentionNode &node : plan.nodes)
      forEachPlace(tensor(node.y).layout.dims, [&](const Shape &at, int64_t) {
        store(node.y, at, element(node, at));
      });
  }

private:
  using Node = AttentionNode;
  const AttentionTensor &tensor(int number) const {
    return plan.tensors[static_cast<size_t>(number)];
  }
  const AttentionOperand &operandOf(const AttentionTensor &t) const {
    for (const AttentionOperand &o : operands)
      if (o.operand == t.operand)
        return o;
    ADD_FAILURE() << "a tensor of no operand";
    return operands[0];
  }
  static int64_t flat(const DnnTensor &t, const Shape &at) {
    int64_t place = 0;
    for (size_t d = 0; d < t.dims.size(); ++d)
      place += (t.dims[d] == 1 ? 0 : at[d]) * t.strides[d];
    return place;
  }
  /// Tensors hold what memory would: elements at their strides.
  double load(int number, const Shape &at) const {
    const AttentionTensor &t = tensor(number);
    if (t.kind == AttentionTensor::Scalar)
      return t.value;
    int64_t place = flat(t.layout, at);
    if (t.kind == AttentionTensor::Stored)
      return call.read(operandOf(t), place + t.operand->offset);
    return values[static_cast<size_t>(number)].at(static_cast<size_t>(place));
  }
  void store(int number, const Shape &at, double value) {
    const AttentionTensor &t = tensor(number);
    int64_t place = flat(t.layout, at);
    if (t.kind == AttentionTensor::Stored)
      return call.write(operandOf(t), place + t.operand->offset, value);
    auto &memory = values[static_cast<size_t>(number)];
    memory.resize(std::max(memory.size(), static_cast<size_t>(place) + 1), NAN);
    bool isMask = t.dtype == KERF_I32 || t.dtype == KERF_BOOL;
    memory[static_cast<size_t>(place)] =
        isMask ? value : rounded(value, t.dtype);
  }

  double product(const Node &n, const Shape &at) const {
    const Shape &x = tensor(n.x).layout.dims;
    // Heads of b that several heads of x share.
    int64_t shared = x[1] / tensor(n.b).layout.dims[1];
    double sum = 0;
    for (int64_t c = 0; c < x[3]; ++c)
      sum += load(n.x, {at[0], at[1], at[2], c}) *
             load(n.b, {at[0], at[1] / shared, c, at[3]});
    return sum;
  }
  double reduction(const Node &n, const Shape &at) const {
    bool max = n.op == Node::Max;
    double result = max ? -INFINITY : 0;
    Shape steps = tensor(n.x).layout.dims;
    for (size_t d = 0; d < 4; ++d)
      steps[d] /= tensor(n.y).layout.dims[d];
    forEachPlace(steps, [&](const Shape &step, int64_t) {
      Shape place = at;
      for (size_t d = 0; d < 4; ++d)
        place[d] = at[d] * steps[d] + step[d];
      double x = load(n.x, place);
      result = max ? std::max(result, x) : result + x;
    });
    return result;
  }
  double element(const Node &n, const Shape &at) const {
    auto x = [&] { return load(n.x, at); };
    auto b = [&] { return load(n.b, at); };
    switch (n.op) {
    case Node::Matmul:
      return product(n, at);
    case Node::Max:
    case Node::Sum:
      return reduction(n, at);
    case Node::Add:
      return x() + b();
    case Node::Mul:
      return x() * b();
    case Node::Sub:
      return x() - b();
    case Node::Div:
      return x() / b();
    case Node::Exp:
      return std::exp(x());
    case Node::Log:
      return std::log(x());
    case Node::Identity:
      return x();
    case Node::Index:
      return static_cast<double>(at[static_cast<size_t>(n.axis)]);
    case Node::NotLess:
      return x() >= b();
    case Node::Select:
      return load(n.t, at) != 0 ? x() : b();
    case Node::Reshape:
      // Rows and columns exchanged.
      return load(n.x, {at[0], at[1], at[3], at[2]});
    }
    return NAN;
  }

  AttentionCallData &call;
  AttentionPlan plan;
  std::vector<AttentionOperand> operands;
  std::vector<std::vector<double>> values;
};

TEST(Attention, CpuAnswers) {
  for (kerf_dtype_t dtype : {KERF_F32, KERF_BF16, KERF_F16})
    for (bool gradient : {false, true})
      for (unsigned seed = 0; seed < 60; ++seed) {
        SCOPED_TRACE(
            cat(kerf_dtype_name(dtype), gradient ? " gradient " : " ", seed));
        AttentionCallData call = randomAttention(seed, gradient, dtype);
        runOnCpu(call, 1 + static_cast<int32_t>(seed % 3));
        call.compare(unitOf(dtype));
        if (HasFatalFailure())
          return;
      }
}

/// The bits do not depend on the number of threads.
TEST(Attention, CpuIsDeterministic) {
  for (bool gradient : {false, true}) {
    AttentionCallData one = randomAttention(7, gradient, KERF_BF16);
    AttentionCallData four = randomAttention(7, gradient, KERF_BF16);
    runOnCpu(one, 1);
    runOnCpu(four, 4);
    EXPECT_EQ(one.memory, four.memory);
  }
}

TEST(Attention, GraphMeansTheCall) {
  for (kerf_dtype_t dtype : {KERF_BF16, KERF_F16})
    for (bool gradient : {false, true})
      for (unsigned seed = 0; seed < 60; ++seed) {
        SCOPED_TRACE(
            cat(kerf_dtype_name(dtype), gradient ? " gradient " : " ", seed));
        AttentionCallData call = randomAttention(seed, gradient, dtype);
        GraphEvaluator(call).run();
        call.compare(2 * unitOf(dtype));
        if (HasFatalFailure())
          return;
      }
}

/// The descriptor of a case of PyTorch's.
AttentionCallData callOf(const nlohmann::json &entry, bool gradient) {
  AttentionCallData call;
  LibraryDesc &desc = call.desc;
  AttentionDesc &a = desc.attention;
  desc.kind =
      gradient ? LibraryDesc::AttentionGradient : LibraryDesc::Attention;
  desc.batch = {entry["batch"].get<int64_t>()};
  a.heads = entry["heads"];
  a.keyHeads = entry["key_heads"];
  a.queries = entry["queries"];
  a.keys = entry["keys"];
  a.headSize = entry["head_size"];
  a.valueSize = entry["value_size"];
  a.scale = entry["scale"];
  a.causal = entry["causal"];
  int64_t next = 0;
  for (Operand *operand : {&desc.lhs, &desc.rhs, &a.v, &desc.dst, &a.stats})
    *operand = bufferOperand(next++);
  if (gradient)
    for (Operand *operand : {&a.out, &a.diff, &a.dk, &a.dv})
      *operand = bufferOperand(next++);
  if (entry.contains("bias"))
    desc.bias = bufferOperand(next++);
  for (const AttentionOperand &o : attentionOperands(desc)) {
    std::string name = o.name, key = name == "diff" ? "dy" : name;
    if (o.writes || !entry.contains(key))
      continue;
    Dense &t = call.tensors[name];
    t.dims = o.dims;
    auto given = entry[key].get<std::vector<double>>();
    if (name != "bias") {
      t.values = given;
      continue;
    }
    auto shape = entry["bias_shape"].get<Shape>();
    Shape strides = denseStrides(shape);
    forEachPlace(o.dims, [&](const Shape &at, int64_t) {
      int64_t from = 0;
      for (size_t d = 0; d < 4; ++d)
        from += shape[d] == 1 ? 0 : at[d] * strides[d];
      t.values.push_back(given[static_cast<size_t>(from)]);
    });
  }
  call.finish();
  return call;
}

TEST(Attention, PyTorch) {
  std::ifstream file(KERF_TEST_INPUTS "/attention/cases.json");
  ASSERT_TRUE(file);
  nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_GE(cases.size(), 5u);
  for (const auto &entry : cases)
    for (bool gradient : {false, true}) {
      SCOPED_TRACE(entry["name"].get<std::string>());
      AttentionCallData call = callOf(entry, gradient);
      // What others computed, in place of the reference.
      auto expect = [&](const char *name, const char *key) {
        auto want = entry[key].get<std::vector<double>>();
        Dense &own = call.tensors[name];
        ASSERT_EQ(own.values.size(), want.size());
        for (size_t n = 0; n < want.size(); ++n)
          ASSERT_NEAR(own.values[n], want[n], 1e-6) << key;
        own.values = want;
      };
      expect("out", "y");
      if (gradient)
        for (const char *name : {"dq", "dk", "dv"})
          expect(name, name);
      runOnCpu(call, 2);
      call.compare(2e-5);
    }
}

/// cuDNN itself, where it is installed: its back end takes every descriptor and
/// the graph. Whether an engine fits is asked of a GPU, at load.
TEST(Attention, GraphsAreCudnns) {
  const Cudnn *library = nullptr;
  try {
    library = &Cudnn::get();
  } catch (const Error &error) {
    GTEST_SKIP() << error.message;
  }
  if (!library->getVersion || library->getVersion() < 90800)
    GTEST_SKIP() << "graphs without a handle are of cuDNN 9.8";
  for (bool gradient : {false, true})
    for (unsigned seed = 0; seed < 20; ++seed) {
      AttentionCallData call = randomAttention(seed, gradient, KERF_BF16);
      AttentionPlan plan = planAttention(call.desc);
      EXPECT_NO_THROW(
          { auto parts = describeAttention(*library, plan, nullptr); });
    }
}

} // namespace
