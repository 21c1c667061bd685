//===- Recurrent.cpp - RNN, GRU, LSTM -------------------------------------===//
//
// A sequence is unrolled: the products with the input are one product for all
// steps, and each step adds that of the state before it. So states can be cut
// by batch, and by hidden size between a step's gates. Directions follow each
// other. A sample that is shorter keeps its state where it is over, and gives
// 0.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Activations.h"
#include "Indexing.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {

/// An activation with its numbers.
struct Function {
  std::string name;
  std::optional<double> alpha, beta;
};

/// What the three operators have in common, for one direction.
struct Cell {
  Node &node;
  int64_t hidden = 0;
  std::vector<Function> functions;
  double clip = 0;
  Value recurrent; ///< [gates h, h]
  Value resetBias; ///< [h], of what the reset gate multiplies, or null
  Value peepholes; ///< [3 h], or null

  /// Part `index` of `count` of the last dimension.
  Value part(Value x, int64_t index) const {
    return x ? node.slice(x, rankOf(x) - 1, index * hidden, hidden) : x;
  }
  Value activate(size_t function, Value x) const {
    if (clip > 0 && x) {
      Value low = node.scalar(-clip, elementOf(x));
      x = node.make<MinOp>(
          {node.make<MaxOp>({x, low}), node.scalar(clip, elementOf(x))});
    }
    const Function &f = functions[function];
    return applyActivation(node, f.name, x, f.alpha, f.beta);
  }
  Value plus(Value x, Value bias) const { return bias ? node.add(x, bias) : x; }
  /// Rows `at` to `at + count` of gates of the recurrent weights, times h.
  Value times(Value h, int64_t at, int64_t count) const {
    return node.matmul(h, node.slice(recurrent, 0, at * hidden, count * hidden),
                       false, true);
  }
};

/// From the input's product [b, gates h], with biases, and the states before
/// the states after; `h` first, and for LSTM `c`.
using StepOf = SmallVector<Value, 2> (*)(const Cell &cell, Value x, Value h,
                                         Value c);

struct Kind {
  int64_t gates;
  ArrayRef<const char *> functions; ///< of a direction, unless they are given
  StepOf step;
  bool hasCell;
  bool resetsProduct = false; ///< the last gate's product with the state
};

} // namespace

static SmallVector<Value, 2> stepOfRNN(const Cell &cell, Value x, Value h,
                                       Value) {
  return {cell.activate(0, cell.node.add(x, cell.times(h, 0, 1)))};
}

/// Gates z, r, h. Where linear_before_reset is set, the reset gate is applied
/// to the product with the state, else to the state.
template <bool linearBeforeReset>
static SmallVector<Value, 2> stepOfGRU(const Cell &cell, Value x, Value h,
                                       Value) {
  Node &node = cell.node;
  Value zr = cell.times(h, 0, 2);
  Value z = cell.activate(0, node.add(cell.part(x, 0), cell.part(zr, 0)));
  Value r = cell.activate(0, node.add(cell.part(x, 1), cell.part(zr, 1)));
  Value candidate =
      linearBeforeReset
          ? node.mul(r, cell.plus(cell.times(h, 2, 1), cell.resetBias))
          : cell.times(node.mul(r, h), 2, 1);
  candidate = cell.activate(1, node.add(cell.part(x, 2), candidate));
  // (1 - z) candidate + z h
  return {node.add(candidate, node.mul(z, node.sub(h, candidate)))};
}

/// Gates i, o, f, c; peepholes i, o, f. `coupled`: f is 1 - i.
template <bool coupled>
static SmallVector<Value, 2> stepOfLSTM(const Cell &cell, Value x, Value h,
                                        Value c) {
  Node &node = cell.node;
  Value sum = node.add(x, cell.times(h, 0, 4));
  auto gate = [&](int64_t index, Value state) {
    Value y = cell.part(sum, index);
    return cell.peepholes
               ? node.add(y, node.mul(state, cell.part(cell.peepholes, index)))
               : y;
  };
  Value i = cell.activate(0, gate(0, c));
  Value f = coupled ? node.sub(node.scalar(1, elementOf(x)), i)
                    : cell.activate(0, gate(2, c));
  Value candidate = cell.activate(1, cell.part(sum, 3));
  Value next = node.add(node.mul(f, c), node.mul(i, candidate));
  Value o = cell.activate(0, gate(1, next));
  const Function &last = cell.functions[2];
  return {node.mul(
              o, applyActivation(node, last.name, next, last.alpha, last.beta)),
          next};
}

/// Activations of all directions, with the numbers that are given, in order, to
/// those that take some.
static std::optional<std::vector<Function>>
functionsOf(Node &node, const Kind &kind, int64_t directions) {
  std::vector<Function> functions;
  auto names = node.textList("activations");
  auto alphas = node.realList("activation_alpha");
  auto betas = node.realList("activation_beta");
  size_t count = kind.functions.size() * directions;
  if (names && names->size() != count) {
    (void)node.error("activations has " + Twine(names->size()) +
                     " entries, expected " + Twine(count));
    return std::nullopt;
  }
  size_t alphaAt = 0, betaAt = 0;
  for (size_t index = 0; index < count; ++index) {
    Function f{names ? (*names)[index]
                     : kind.functions[index % kind.functions.size()],
               {},
               {}};
    auto [takesAlpha, takesBeta] = numbersOfActivation(f.name);
    if (takesAlpha && alphas && alphaAt < alphas->size())
      f.alpha = (*alphas)[alphaAt++];
    if (takesBeta && betas && betaAt < betas->size())
      f.beta = (*betas)[betaAt++];
    functions.push_back(std::move(f));
  }
  return functions;
}

/// Row `index` of dimension 0, without it.
static Value rowOf(Node &node, Value x, int64_t index) {
  if (!x)
    return {};
  return node.reshape(node.slice(x, 0, index, 1), shapeOf(x).drop_front());
}

/// What is added to the input's product, once for all steps: both biases of
/// `own` [2 gates h], but not that of the state's product where a reset gate
/// multiplies it, which goes into `cell`.
static Value biasOfAll(Node &node, const Kind &kind, Value own, int64_t hidden,
                       Cell &cell) {
  int64_t rows = kind.gates * hidden;
  Value ofInput = node.slice(own, 0, 0, rows);
  if (!kind.resetsProduct)
    return node.add(ofInput, node.slice(own, 0, rows, rows));
  cell.resetBias = node.slice(own, 0, 2 * rows - hidden, hidden);
  Value before = node.add(node.slice(ofInput, 0, 0, rows - hidden),
                          node.slice(own, 0, rows, rows - hidden));
  return node.concat({before, node.slice(ofInput, 0, rows - hidden, hidden)},
                     0);
}

static bool isShaped(Node &node, Value x, ArrayRef<int64_t> shape,
                     StringRef name) {
  if (!x || shapeOf(x) == shape)
    return true;
  std::string sizes;
  for (int64_t size : shape)
    sizes += (sizes.empty() ? "" : "x") + std::to_string(size);
  (void)node.error(name + " must be " + sizes);
  return false;
}

static LogicalResult recurrent(Node &node, const Kind &kind) {
  if (failed(node.arity(3, kind.hasCell ? 8 : 6, kind.hasCell ? 3 : 2)))
    return failure();
  Value x = node.in(0), weights = node.parameter(1), again = node.parameter(2);
  Value bias = node.parameter(3), lengths = node.in(4), first = node.in(5);
  Value firstCell = node.in(6), peepholes = node.parameter(7);
  std::string direction = node.text("direction", "forward");
  int64_t directions = direction == "bidirectional" ? 2 : 1;
  if (direction != "forward" && direction != "reverse" && directions == 1)
    return node.error("direction is \"" + direction +
                      "\", expected forward, reverse or bidirectional");
  bool batchFirst = node.opset >= 14 && node.integer("layout", 0);
  double clip = node.real("clip", 0);
  if (node.opset < 7)
    (void)node.integer("output_sequence", 0);
  if (rankOf(x) != 3 || rankOf(weights) != 3 || rankOf(again) != 3)
    return node.error("X, W and R have ranks " + Twine(rankOf(x)) + ", " +
                      Twine(rankOf(weights)) + " and " + Twine(rankOf(again)) +
                      ", expected 3");
  if (!isa<FloatType>(elementOf(x)))
    return node.error("X has an integer type, expected a float");
  int64_t hidden = shapeOf(again)[2];
  if (node.integer("hidden_size", hidden) != hidden)
    return node.error("hidden_size contradicts R");
  auto swapped = [&](Value value, ArrayRef<int64_t> perm) {
    return value && batchFirst ? node.transpose(value, perm) : value;
  };
  x = swapped(x, {1, 0, 2});
  first = swapped(first, {1, 0, 2});
  firstCell = swapped(firstCell, {1, 0, 2});
  if (!x)
    return node.fail();
  int64_t steps = shapeOf(x)[0], batch = shapeOf(x)[1],
          rows = kind.gates * hidden;
  Integers state{directions, batch, hidden};
  if (!isShaped(node, weights, {directions, rows, shapeOf(x)[2]}, "W") ||
      !isShaped(node, again, {directions, rows, hidden}, "R") ||
      !isShaped(node, bias, {directions, 2 * rows}, "B") ||
      !isShaped(node, lengths, {batch}, "sequence_lens") ||
      !isShaped(node, first, state, "initial_h") ||
      !isShaped(node, firstCell, state, "initial_c") ||
      !isShaped(node, peepholes, {directions, 3 * hidden}, "P"))
    return failure();
  constexpr int64_t kMaxSteps = 4096;
  if (steps > kMaxSteps || steps < 1)
    return node.unsupported("a sequence of " + Twine(steps) +
                                " steps of operator " + node.proto.op_type(),
                            "1 to 4096 are taken");
  auto functions = functionsOf(node, kind, directions);
  if (!functions)
    return failure();
  if (lengths && !(lengths = wideIndices(node, lengths)))
    return failure();
  Type element = elementOf(x);
  Value zero = node.scalar(0, element);
  SmallVector<Value> all, last, lastCell;
  for (int64_t d = 0; d < directions; ++d) {
    Cell cell{node,
              hidden,
              {},
              clip,
              rowOf(node, again, d),
              {},
              rowOf(node, peepholes, d)};
    cell.functions.assign(functions->begin() + d * kind.functions.size(),
                          functions->begin() + (d + 1) * kind.functions.size());
    Value inputs = node.matmul(x, rowOf(node, weights, d), false, true);
    if (Value own = rowOf(node, bias, d))
      inputs = node.add(inputs, biasOfAll(node, kind, own, hidden, cell));
    if (!inputs)
      return node.fail();
    Value h =
        first ? rowOf(node, first, d) : node.splat({batch, hidden}, 0, element);
    Value c = firstCell ? rowOf(node, firstCell, d)
                        : node.splat({batch, hidden}, 0, element);
    SmallVector<Value> outputs(steps);
    bool backwards = direction == "reverse" || d == 1;
    for (int64_t step = 0; step < steps; ++step) {
      int64_t at = backwards ? steps - 1 - step : step;
      auto next = kind.step(cell, rowOf(node, inputs, at), h, c);
      if (!next[0])
        return node.fail();
      Value y = next[0];
      if (lengths) {
        Value goesOn =
            node.make<LessOp>({node.scalar(double(at), node.ops.getI64Type()),
                               node.reshape(lengths, {batch, 1})});
        y = node.select(goesOn, next[0], zero);
        next[0] = node.select(goesOn, next[0], h);
        if (kind.hasCell)
          next[1] = node.select(goesOn, next[1], c);
      }
      h = next[0];
      if (kind.hasCell)
        c = next[1];
      outputs[at] = node.reshape(y, {1, 1, batch, hidden});
    }
    all.push_back(steps == 1 ? outputs[0] : node.concat(outputs, 0));
    last.push_back(node.reshape(h, {1, batch, hidden}));
    lastCell.push_back(node.reshape(c, {1, batch, hidden}));
  }
  auto joined = [&](ArrayRef<Value> parts, int64_t dim) {
    return parts.size() == 1 ? parts[0] : node.concat(parts, dim);
  };
  // [steps, directions, batch, hidden], by `layout` the batch in front.
  if (node.wants(0) &&
      failed(node.set(0, swapped(joined(all, 1), {2, 0, 1, 3}))))
    return failure();
  if (node.wants(1) && failed(node.set(1, swapped(joined(last, 0), {1, 0, 2}))))
    return failure();
  if (node.wants(2) &&
      failed(node.set(2, swapped(joined(lastCell, 0), {1, 0, 2}))))
    return failure();
  return success();
}

static LogicalResult rnn(Node &node) {
  static constexpr const char *kFunctions[] = {"Tanh"};
  return recurrent(node, {1, kFunctions, stepOfRNN, false});
}
static LogicalResult gru(Node &node) {
  bool linear = node.integer("linear_before_reset", 0);
  static constexpr const char *kFunctions[] = {"Sigmoid", "Tanh"};
  return recurrent(node,
                   {3, kFunctions, linear ? stepOfGRU<true> : stepOfGRU<false>,
                    false, linear});
}
static LogicalResult lstm(Node &node) {
  bool coupled = node.integer("input_forget", 0);
  static constexpr const char *kFunctions[] = {"Sigmoid", "Tanh", "Tanh"};
  return recurrent(
      node,
      {4, kFunctions, coupled ? stepOfLSTM<true> : stepOfLSTM<false>, true});
}

void kerf::onnx_import::addRecurrent(HandlerTable &table) {
  table.add("RNN", 7, rnn);
  table.add("GRU", 7, gru);
  table.add("LSTM", 7, lstm);
}
