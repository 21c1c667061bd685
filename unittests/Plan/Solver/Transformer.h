//===- Transformer.h - a planning problem like a GPT's ----------*- C++ -*-===//
//
// Per layer 20 ops and a mesh of three axes. Each axis of an op shards one of
// three loops (rows m, columns n, reduction k; elementwise ops have two), so an
// op has up to 27 choices. Edges price resharding between what an op leaves and
// what the next one wants; partial sums cost an all-reduce at the op. Weights
// live for the whole step, activations for an interval.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_PLAN_SOLVER_TRANSFORMER_H
#define KERF_UNITTESTS_PLAN_SOLVER_TRANSFORMER_H

#include "kerf/Plan/Problem.h"

#include <map>

namespace kerf::plan {

struct TransformerBuilder {
  static constexpr int kAxes = 3;
  enum Loop { M, N, K };
  Problem problem;
  int64_t tokens = 1024, hidden = 768;
  std::map<std::tuple<int, int, bool, int64_t>, uint32_t> reshardTables;
  uint32_t memory = 0;
  int64_t time = 0;

  static int digits(int choice, int base, int axis) {
    for (; axis > 0; --axis)
      choice /= base;
    return choice % base;
  }
  static int power(int base) { return base * base * base; }

  /// An op whose axes shard `loops` loops (2: elementwise, 3: matmul).
  uint32_t op(const char *name, int loops, int64_t rows, int64_t columns,
              int64_t depth) {
    int choices = power(loops);
    CostTable costs = CostTable::zeros(choices);
    std::vector<int64_t> weight, activation;
    for (int c = 0; c < choices; ++c) {
      int64_t partial = 1, held = 1, spread = 1;
      for (int axis = 0; axis < kAxes; ++axis) {
        int loop = digits(c, loops, axis);
        partial *= loop == K ? 2 : 1;
        held *= loop != K ? 2 : 1;
        spread *= loop != M ? 2 : 1;
      }
      int64_t buffer = rows * columns * 4 / held;
      costs.set(c, {2 * (partial - 1) * buffer / partial,
                    rows * columns * depth / 8, 0});
      weight.push_back(loops == 3 ? columns * depth * 4 / spread : 0);
      activation.push_back(buffer);
    }
    uint32_t node = problem.addNode(costs, name);
    if (loops == 3)
      problem.addUsage(memory, node, {0, 1'000'000}, weight);
    problem.addUsage(memory, node, {time, time + 3}, activation);
    ++time;
    return node;
  }

  /// `to` reads what `from` leaves; `asDepth`: its columns are to's depth.
  void edge(uint32_t from, uint32_t to, int64_t bytes, bool asDepth) {
    int a = problem.numChoices(from) == 27 ? 3 : 2;
    int b = problem.numChoices(to) == 27 ? 3 : 2;
    auto [it, isNew] = reshardTables.try_emplace({a, b, asDepth, bytes}, 0);
    if (isNew) {
      CostTable table = CostTable::zeros(power(a) * power(b));
      for (int x = 0; x < power(a); ++x)
        for (int y = 0; y < power(b); ++y) {
          int64_t moved = 0;
          for (int axis = 0; axis < kAxes; ++axis) {
            int left = digits(x, a, axis), right = digits(y, b, axis);
            // What the reader wants of its operand on this axis.
            int wanted = right == M ? M
                         : asDepth  ? (right == K ? N : -1)
                                    : right;
            if (left == K)
              left = -1; // reduced: replicated on this axis
            if (wanted == left || left == -1)
              continue;
            moved += wanted == -1 ? bytes / 2 : bytes / 4;
          }
          table.set(x * power(b) + y, {moved, 0, 0});
        }
      it->second = problem.addTable(table);
    }
    problem.addEdge({from, to}, it->second);
  }

  Problem build(int layers, std::optional<int64_t> memoryLimit) {
    memory = problem.addResource("memory", memoryLimit);
    int64_t t = tokens, h = hidden, bytes = t * h * 4;
    uint32_t stream = op("embedding", 2, t, h, 1);
    for (int layer = 0; layer < layers; ++layer) {
      uint32_t norm1 = op("norm1", 2, t, h, 1);
      edge(stream, norm1, bytes, false);
      uint32_t heads[3];
      for (uint32_t &head : heads) {
        uint32_t product = op("qkv", 3, t, h, h);
        edge(norm1, product, bytes, true);
        head = op("bias", 2, t, h, 1);
        edge(product, head, bytes, false);
      }
      uint32_t scores = op("scores", 2, t, h, 64);
      edge(heads[0], scores, bytes, false);
      edge(heads[1], scores, bytes, false);
      uint32_t softmax = op("softmax", 2, t, h, 1);
      edge(scores, softmax, bytes, false);
      uint32_t context = op("context", 2, t, h, 64);
      edge(softmax, context, bytes, false);
      edge(heads[2], context, bytes, false);
      uint32_t out = op("out", 3, t, h, h);
      edge(context, out, bytes, true);
      uint32_t add1 = op("add1", 2, t, h, 1);
      edge(out, add1, bytes, false);
      edge(stream, add1, bytes, false);
      uint32_t norm2 = op("norm2", 2, t, h, 1);
      edge(add1, norm2, bytes, false);
      uint32_t up = op("up", 3, t, 4 * h, h);
      edge(norm2, up, bytes, true);
      uint32_t gelu = op("gelu", 2, t, 4 * h, 1);
      edge(up, gelu, 4 * bytes, false);
      uint32_t down = op("down", 3, t, h, 4 * h);
      edge(gelu, down, 4 * bytes, true);
      uint32_t add2 = op("add2", 2, t, h, 1);
      edge(down, add2, bytes, false);
      edge(add1, add2, bytes, false);
      stream = add2;
    }
    uint32_t head = op("head", 3, t, 50257, h);
    edge(stream, head, bytes, true);
    return std::move(problem);
  }
};

inline Problem transformer(int layers,
                           std::optional<int64_t> memoryLimit = std::nullopt) {
  return TransformerBuilder().build(layers, memoryLimit);
}

} // namespace kerf::plan

#endif // KERF_UNITTESTS_PLAN_SOLVER_TRANSFORMER_H
