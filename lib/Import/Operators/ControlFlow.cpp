//===- ControlFlow.cpp - If, Loop, Scan -----------------------------------===//
//
// If the condition of an If is known, its branch is imported in place of the
// If. Otherwise both branches are imported and the result is selected, which is
// right since ops have no side effects. Loops are unrolled where the number of
// iterations follows from constants and shapes: each iteration is a copy of the
// body, so values may have another shape in each. A Loop of many iterations, or
// of a computed number of them, is one op (Loops.h).
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "../Graph/Sequence.h"
#include "../Importer.h"
#include "Loops.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Values = SmallVector<Value>;

static LogicalResult importBranch(Node &node, const onnx::GraphProto &graph,
                                  StringRef label, Values &results) {
  if (graph.output_size() < int(node.outputs.size()))
    return node.error("branch has " + Twine(graph.output_size()) +
                      " outputs, expected " + Twine(node.outputs.size()));
  return node.importer.importSubgraph(
      graph, node.scope, node.name + "/" + label.str() + "/", {}, results);
}

/// One of two tensors, whose sizes may differ: bounded, where they do.
static Value choose(Node &node, Value condition, Value a, Value b) {
  Value one = node.whole(a), other = node.whole(b);
  SmallVector<Bound> bounds;
  for (int64_t d = 0; d < rankOf(a) && one && other; ++d) {
    Value known = node.bounds.lengthOf(a, d),
          second = node.bounds.lengthOf(b, d);
    bool isSame =
        known && second ? areSameNumber(known, second) : !known && !second;
    int64_t sizes[] = {shapeOf(a)[d], shapeOf(b)[d]};
    if (isSame && sizes[0] == sizes[1]) {
      if (known)
        bounds.push_back({d, known});
      continue;
    }
    // A dimension of one element would be broadcast.
    int64_t most = std::max<int64_t>({sizes[0], sizes[1], 2});
    for (Value *each : {&one, &other}) {
      SmallVector<int64_t> low(rankOf(a), 0), high(rankOf(a), 0);
      if (!*each || shapeOf(*each)[d] == most)
        continue;
      high[d] = most - shapeOf(*each)[d];
      *each = node.make<PadOp>(
          {*each},
          {node.i64s("low", low), node.i64s("high", high),
           node.ops.getNamedAttr("value", node.number(0, elementOf(a)))});
    }
    Value length = node.select(condition, node.sizeOf(a, d), node.sizeOf(b, d));
    if (!length)
      return {};
    node.bounds.setMost(length, most);
    bounds.push_back({d, length});
  }
  Value result = one && other ? node.select(condition, one, other) : Value();
  for (const Bound &bound : bounds)
    if (result)
      node.bounds.set(result, bound.dim, bound.length);
  return result;
}

static LogicalResult branch(Node &node) {
  if (failed(node.arity(1, 1, 1 << 16)))
    return failure();
  node.requireAttribute("then_branch");
  node.requireAttribute("else_branch");
  const onnx::GraphProto *thenGraph = node.graph("then_branch");
  const onnx::GraphProto *elseGraph = node.graph("else_branch");
  if (!thenGraph || !elseGraph)
    return failure();
  Values results;
  if (auto condition = node.scalarElement(node.in(0))) {
    bool isTrue = *condition != 0;
    if (failed(importBranch(node, isTrue ? *thenGraph : *elseGraph,
                            isTrue ? "then" : "else", results)))
      return failure();
    for (size_t index = 0; index < node.outputs.size(); ++index)
      node.outputs[index] = results[index];
    return success();
  }
  Values others;
  if (failed(importBranch(node, *thenGraph, "then", results)) ||
      failed(importBranch(node, *elseGraph, "else", others)))
    return failure();
  if (typeOf(node.in(0)).getNumElements() != 1)
    return node.error("the condition has " +
                      Twine(typeOf(node.in(0)).getNumElements()) +
                      " elements, expected 1");
  Value condition = node.reshape(node.in(0), {});
  for (size_t index = 0; index < node.outputs.size(); ++index) {
    Value a = results[index], b = others[index];
    if (!a || !b)
      continue; // reported where it failed
    bool isTensor = !isSequence(a) && !isSequence(b);
    if (isTensor ? elementOf(a) != elementOf(b) || rankOf(a) != rankOf(b)
                 : a.getType() != b.getType())
      return node.unsupported(
          "operator If on a computed condition, whose branches give other "
          "types",
          "a condition that follows from constants and shapes is taken (option "
          "dim, option constant)");
    if (isSequence(a)) {
      Values elements;
      for (auto [one, other] : llvm::zip_equal(elementsOf(a), elementsOf(b)))
        elements.push_back(node.select(condition, one, other));
      if (llvm::is_contained(elements, Value()))
        return node.fail();
      node.outputs[index] = makeSequence(node.ops, node.loc, elements);
      continue;
    }
    node.outputs[index] = choose(node, condition, a, b);
    if (!node.outputs[index])
      return node.fail();
  }
  return success();
}

/// Results of all iterations, one behind the other in a new dimension.
static Value stack(Node &node, ArrayRef<Value> parts, int64_t axis,
                   bool reversed) {
  Values rows;
  for (Value part : parts) {
    if (!part)
      return {};
    if (isSequence(part)) {
      (void)node.error("an iteration gives a sequence, expected a tensor");
      return {};
    }
    if (part.getType() != parts.front().getType()) {
      (void)node.error("iterations give results of different shapes, which "
                       "are no one tensor");
      return {};
    }
    SmallVector<int64_t> shape(shapeOf(part));
    shape.insert(shape.begin() + axis, 1);
    rows.push_back(node.reshape(part, shape));
  }
  if (reversed)
    std::reverse(rows.begin(), rows.end());
  return rows.size() == 1 ? rows.front() : node.concat(rows, axis);
}

/// A node of the body has failed, and said so: what needs the results is
/// skipped.
static LogicalResult giveNothing(Node &node) {
  llvm::fill(node.outputs, Value());
  return success();
}

/// Iterations of one node; more would be no program that anybody waits for.
static constexpr int64_t kMaxIterations = 4096;
/// The body of a loop of more iterations is imported once, where that is
/// possible, instead of once for each.
static constexpr int64_t kManyIterations = 1024;

static LogicalResult tooMany(Node &node, int64_t count) {
  return node.unsupported(
      "operator " + node.proto.op_type() + " of more than " +
          Twine(kMaxIterations) + " iterations",
      (Twine(count) + " are written out; any number is taken of a body "
                      "that carries no sequence and no size that changes "
                      "(docs/Import.md); where they are the samples of a batch "
                      "(nn.EmbeddingBag), take a smaller one, or nn.Embedding "
                      "and a sum")
          .str());
}

static LogicalResult importIteration(Node &node, const onnx::GraphProto &body,
                                     int64_t iteration,
                                     ArrayRef<Value> arguments,
                                     Values &results) {
  std::string prefix = node.name + "/" + std::to_string(iteration) + "/";
  return node.importer.importSubgraph(body, node.scope, prefix, arguments,
                                      results);
}

/// Whether the condition that the body gives is the one that it gets, or a
/// constant.
static bool goesOnAlways(const onnx::GraphProto &body) {
  if (body.output_size() == 0 || body.input_size() < 2)
    return false;
  StringRef name = body.output(0).name();
  for (int index = body.node_size() - 1; index >= 0; --index) {
    const onnx::NodeProto &made = body.node(index);
    if (made.output_size() != 1 || StringRef(made.output(0)) != name)
      continue;
    if (made.op_type() == "Constant")
      return true;
    if (made.op_type() != "Identity" || made.input_size() != 1)
      return false;
    name = made.input(0);
  }
  return name == StringRef(body.input(1).name());
}

static LogicalResult loop(Node &node) {
  if (failed(node.arity(0, 1 << 16, 1 << 16)))
    return failure();
  node.requireAttribute("body");
  const onnx::GraphProto *body = node.graph("body");
  if (!body)
    return failure();
  Values carried(node.inputs.size() > 2 ? node.inputs.begin() + 2
                                        : node.inputs.end(),
                 node.inputs.end());
  size_t numScans =
      node.outputs.size() - std::min(node.outputs.size(), carried.size());
  if (body->input_size() != int(carried.size()) + 2 ||
      body->output_size() < int(carried.size() + numScans) + 1)
    return node.error("body has " + Twine(body->input_size()) + " inputs and " +
                      Twine(body->output_size()) +
                      " outputs, which do not fit");
  const Values inits = carried;
  auto asLoop = [&] {
    return importAsLoop(node, *body, node.in(0), node.in(1), inits);
  };
  std::optional<int64_t> count;
  if (node.has(0)) {
    auto given = node.integerElements(node.in(0));
    if (!given || given->size() != 1)
      return asLoop();
    count = given->front();
  }
  std::optional<double> goesOn = 1.0;
  if (node.has(1) && !(goesOn = node.scalarElement(node.in(1))))
    return asLoop();
  // Gradients are those of single iterations.
  auto isOneOp = [&] {
    if (node.importer.isTrained())
      return false;
    if (node.importer.attempt(asLoop))
      return true;
    node.failed = false;
    return false;
  };
  if (count && *count > kManyIterations && *goesOn != 0 &&
      goesOnAlways(*body)) {
    if (*count > kMaxIterations)
      return asLoop();
    if (isOneOp())
      return success();
  }
  SmallVector<Values> scans(numScans);
  Type i64 = node.ops.getI64Type(), i1 = node.ops.getI1Type();
  int64_t iteration = 0;
  for (; (!count || iteration < *count) && *goesOn != 0; ++iteration) {
    if (iteration == kManyIterations && (!count || *count > kMaxIterations) &&
        !goesOnAlways(*body) && isOneOp())
      return success();
    if (iteration == kMaxIterations)
      return tooMany(node, iteration);
    Values arguments{node.scalar(double(iteration), i64), node.scalar(1, i1)};
    llvm::append_range(arguments, carried);
    Values results;
    if (failed(importIteration(node, *body, iteration, arguments, results)))
      return failure();
    if (llvm::is_contained(results, Value()))
      return giveNothing(node);
    for (size_t index = 0; index < carried.size(); ++index)
      carried[index] = results[index + 1];
    for (size_t index = 0; index < numScans; ++index)
      scans[index].push_back(results[index + 1 + carried.size()]);
    if (!(goesOn = node.scalarElement(results[0])))
      return asLoop();
  }
  for (size_t index = 0; index < node.outputs.size(); ++index) {
    if (index < carried.size()) {
      node.outputs[index] = carried[index];
      continue;
    }
    ArrayRef<Value> parts = scans[index - carried.size()];
    if (parts.empty() && !node.wants(index))
      continue;
    if (parts.empty())
      return node.unsupported("results of operator Loop without an iteration");
    if (!(node.outputs[index] = stack(node, parts, 0, false)))
      return node.fail();
  }
  return success();
}

namespace {
/// A Scan whose attributes have been read.
struct ScanForm {
  const onnx::GraphProto *body = nullptr;
  size_t numCarried = 0, numScanned = 0, numStacked = 0;
  SmallVector<int64_t> inputAxes, outputAxes;
  SmallVector<int64_t> inputBackwards, outputBackwards;
};
} // namespace

/// Body and counts; `inputs` counts states and scanned inputs.
static FailureOr<ScanForm> readScan(Node &node, size_t inputs) {
  ScanForm form;
  node.requireAttribute("body");
  node.requireAttribute("num_scan_inputs");
  form.body = node.graph("body");
  int64_t numScanned = node.integer("num_scan_inputs", 0);
  if (!form.body || node.failed)
    return failure();
  if (numScanned < 1 || numScanned > int64_t(inputs) ||
      form.body->input_size() != int(inputs))
    return node.error("num_scan_inputs is " + Twine(numScanned) + " of " +
                      Twine(inputs) + " inputs, the body has " +
                      Twine(form.body->input_size()));
  form.numScanned = size_t(numScanned);
  form.numCarried = inputs - form.numScanned;
  if (node.outputs.size() < form.numCarried ||
      form.body->output_size() != int(node.outputs.size()))
    return node.error("body has " + Twine(form.body->output_size()) +
                      " outputs, expected " + Twine(node.outputs.size()));
  form.numStacked = node.outputs.size() - form.numCarried;
  return form;
}

static SmallVector<int64_t> entries(Node &node, StringRef name, size_t size) {
  SmallVector<int64_t> list =
      node.integerList(name).value_or(SmallVector<int64_t>(size, 0));
  if (list.size() != size)
    (void)node.error(name + " has " + Twine(list.size()) +
                     " entries, expected " + Twine(size));
  return list;
}

/// One scan; iterations are named from `first`. No results where the body has
/// failed.
static LogicalResult importScan(Node &node, const ScanForm &form,
                                Values carried, ArrayRef<Value> scanned,
                                int64_t first, Values &results) {
  std::optional<int64_t> count;
  SmallVector<int64_t> axes;
  for (auto [x, axis] : llvm::zip_equal(scanned, form.inputAxes)) {
    auto within = node.axisWithin(axis, rankOf(x));
    if (!within)
      return failure();
    axes.push_back(*within);
    if (count.value_or(shapeOf(x)[*within]) != shapeOf(x)[*within])
      return node.error("scanned inputs have " + Twine(*count) + " and " +
                        Twine(shapeOf(x)[*within]) +
                        " elements along their axes");
    count = shapeOf(x)[*within];
  }
  if (first + *count > kMaxIterations)
    return tooMany(node, first + *count);
  if (*count == 0 && form.numStacked > 0)
    return node.unsupported("results of operator Scan without an iteration");
  SmallVector<Values> stacked(form.numStacked);
  for (int64_t iteration = 0; iteration < *count; ++iteration) {
    Values arguments(carried), given;
    for (auto [index, x] : llvm::enumerate(scanned)) {
      int64_t axis = axes[index];
      int64_t at =
          form.inputBackwards[index] ? *count - 1 - iteration : iteration;
      SmallVector<int64_t> shape(shapeOf(x));
      shape.erase(shape.begin() + axis);
      arguments.push_back(node.reshape(node.slice(x, axis, at, 1), shape));
    }
    if (llvm::is_contained(arguments, Value()))
      return node.fail();
    if (failed(importIteration(node, *form.body, first + iteration, arguments,
                               given)))
      return failure();
    if (llvm::is_contained(given, Value()))
      return success();
    carried.assign(given.begin(), given.begin() + form.numCarried);
    for (size_t index = 0; index < form.numStacked; ++index)
      stacked[index].push_back(given[form.numCarried + index]);
  }
  results = carried;
  for (auto [index, parts] : llvm::enumerate(stacked)) {
    auto axis =
        node.axisWithin(form.outputAxes[index], rankOf(parts.front()) + 1);
    if (!axis)
      return failure();
    results.push_back(stack(node, parts, *axis, form.outputBackwards[index]));
    if (!results.back())
      return node.fail();
  }
  return success();
}

/// Imports a Scan of many iterations as one op, where that is possible.
static bool isOneLoop(Node &node, const ScanForm &form) {
  SmallVector<ScannedInput> scanned;
  int64_t count = 0;
  for (size_t index = 0; index < form.numScanned; ++index) {
    Value x = node.inputs[form.numCarried + index];
    int64_t rank = rankOf(x), axis = form.inputAxes[index];
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank || (index && shapeOf(x)[axis] != count))
      return false;
    count = shapeOf(x)[axis];
    scanned.push_back({x, axis, form.inputBackwards[index] != 0});
  }
  if (count <= kManyIterations || node.importer.isTrained() ||
      llvm::any_of(form.outputBackwards, [](int64_t is) { return is != 0; }))
    return false;
  bool isDone = node.importer.attempt([&]() -> LogicalResult {
    if (failed(importScanAsLoop(
            node, *form.body, ArrayRef(node.inputs).take_front(form.numCarried),
            scanned, count)))
      return failure();
    for (size_t index = 0; index < form.numStacked; ++index) {
      Value &output = node.outputs[form.numCarried + index];
      if (!output)
        continue;
      auto axis = node.axisWithin(form.outputAxes[index], rankOf(output));
      if (!axis)
        return failure();
      SmallVector<int64_t> perm;
      for (int64_t dim = 1; dim < rankOf(output); ++dim)
        perm.push_back(dim);
      perm.insert(perm.begin() + *axis, 0);
      output = node.transpose(output, perm);
    }
    return success();
  });
  if (!isDone)
    node.failed = false;
  return isDone;
}

static LogicalResult scan(Node &node) {
  if (failed(node.arity(1, 1 << 16, 1 << 16)))
    return failure();
  auto form = readScan(node, node.inputs.size());
  if (failed(form))
    return failure();
  form->inputAxes = entries(node, "scan_input_axes", form->numScanned);
  form->inputBackwards =
      entries(node, "scan_input_directions", form->numScanned);
  form->outputAxes = entries(node, "scan_output_axes", form->numStacked);
  form->outputBackwards =
      entries(node, "scan_output_directions", form->numStacked);
  if (node.failed)
    return failure();
  Values results;
  ArrayRef<Value> inputs(node.inputs);
  if (isOneLoop(node, *form))
    return success();
  if (failed(importScan(node, *form,
                        Values(inputs.take_front(form->numCarried)),
                        inputs.drop_front(form->numCarried), 0, results)))
    return failure();
  if (results.empty() && !node.outputs.empty())
    return giveNothing(node);
  llvm::copy(results, node.outputs.begin());
  return success();
}

/// Operator set 8: a batch of scans along dimension 1, each for itself, behind
/// an optional input of their lengths.
static LogicalResult scanOfBatch(Node &node) {
  if (failed(node.arity(0, 1 << 16, 1 << 16)))
    return failure();
  ArrayRef<Value> inputs =
      ArrayRef(node.inputs).drop_front(std::min<size_t>(node.inputs.size(), 1));
  if (inputs.empty() || llvm::is_contained(inputs, Value()))
    return node.error("a state or scanned input is absent");
  if (node.has(0))
    return node.unsupported(
        "operator Scan (operator set 8) with the lengths of "
        "sequences",
        "sequences of one length are taken");
  auto form = readScan(node, inputs.size());
  if (failed(form))
    return failure();
  form->inputAxes.assign(form->numScanned, 0);
  form->inputBackwards = entries(node, "directions", form->numScanned);
  form->outputAxes.assign(form->numStacked, 0);
  form->outputBackwards.assign(form->numStacked, 0);
  if (node.failed)
    return failure();
  int64_t batch = rankOf(inputs.back()) ? shapeOf(inputs.back())[0] : 0;
  for (Value input : inputs)
    if (rankOf(input) < 1 || shapeOf(input)[0] != batch || batch < 1)
      return node.error("inputs are no batches of one size");
  int64_t length = rankOf(inputs.back()) > 1 ? shapeOf(inputs.back())[1] : 0;
  SmallVector<Values> all(node.outputs.size());
  for (int64_t sample = 0; sample < batch; ++sample) {
    Values own, results;
    for (Value input : inputs)
      own.push_back(node.reshape(node.slice(input, 0, sample, 1),
                                 shapeOf(input).drop_front()));
    if (llvm::is_contained(own, Value()))
      return node.fail();
    ArrayRef<Value> given(own);
    if (failed(importScan(
            node, *form, Values(given.take_front(form->numCarried)),
            given.drop_front(form->numCarried), sample * length, results)))
      return failure();
    if (results.empty())
      return giveNothing(node);
    for (auto [each, result] : llvm::zip_equal(all, results))
      each.push_back(result);
  }
  for (size_t index = 0; index < all.size(); ++index) {
    node.outputs[index] = stack(node, all[index], 0, /*reversed=*/false);
    if (!node.outputs[index])
      return node.fail();
  }
  return success();
}

void kerf::onnx_import::addControlFlow(HandlerTable &table) {
  table.add("If", 1, branch);
  table.add("Loop", 1, loop, /*takesSequences=*/true);
  table.add("Scan", 8, scanOfBatch);
  table.add("Scan", 9, scan);
}
