//===- ControlFlow.cpp - If, Loop, Scan -----------------------------------===//
//
// A branch that is known is imported where it stands; of one that is computed
// both are, and the result is selected, which their purity allows. Loops are
// unrolled: the number of iterations must follow from constants and shapes, so
// each has its own copy of the body, and an iteration of one may give other
// shapes than the next.
//
//===----------------------------------------------------------------------===//
#include "../Handlers.h"
#include "../Importer.h"

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
    if (a.getType() != b.getType())
      return node.unsupported(
          "operator If on a computed condition, whose branches give other "
          "types",
          "a condition that follows from constants and shapes is taken (option "
          "dim, option constant)");
    node.outputs[index] = node.select(condition, a, b);
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

static LogicalResult tooMany(Node &node, int64_t count) {
  return node.unsupported("operator " + node.proto.op_type() +
                              " of more than " + Twine(kMaxIterations) +
                              " iterations",
                          Twine(count).str());
}

static LogicalResult importIteration(Node &node, const onnx::GraphProto &body,
                                     int64_t iteration,
                                     ArrayRef<Value> arguments,
                                     Values &results) {
  std::string prefix = node.name + "/" + std::to_string(iteration) + "/";
  return node.importer.importSubgraph(body, node.scope, prefix, arguments,
                                      results);
}

static LogicalResult loop(Node &node) {
  if (failed(node.arity(0, 1 << 16, 1 << 16)))
    return failure();
  node.requireAttribute("body");
  const onnx::GraphProto *body = node.graph("body");
  if (!body)
    return failure();
  StringRef form = "a number of iterations that follows from constants and "
                   "shapes is taken (option dim, option constant)";
  std::optional<int64_t> count;
  if (node.has(0)) {
    auto given = node.integerElements(node.in(0));
    if (!given || given->size() != 1)
      return node.unsupported(
          "operator Loop of a computed number of iterations", form);
    count = given->front();
  }
  std::optional<double> goesOn = 1.0;
  if (node.has(1) && !(goesOn = node.scalarElement(node.in(1))))
    return node.unsupported("operator Loop on a computed condition", form);
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
  SmallVector<Values> scans(numScans);
  Type i64 = node.ops.getI64Type(), i1 = node.ops.getI1Type();
  int64_t iteration = 0;
  for (; (!count || iteration < *count) && *goesOn != 0; ++iteration) {
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
      return node.unsupported("operator Loop on a computed condition", form);
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

static LogicalResult scan(Node &node) {
  if (failed(node.arity(1, 1 << 16, 1 << 16)))
    return failure();
  node.requireAttribute("body");
  node.requireAttribute("num_scan_inputs");
  const onnx::GraphProto *body = node.graph("body");
  int64_t numScanned = node.integer("num_scan_inputs", 0);
  if (!body || node.failed)
    return failure();
  if (numScanned < 1 || numScanned > int64_t(node.inputs.size()) ||
      body->input_size() != int(node.inputs.size()))
    return node.error("num_scan_inputs is " + Twine(numScanned) + " of " +
                      Twine(node.inputs.size()) + " inputs, the body has " +
                      Twine(body->input_size()));
  size_t numCarried = node.inputs.size() - numScanned;
  if (node.outputs.size() < numCarried ||
      body->output_size() != int(node.outputs.size()))
    return node.error("body has " + Twine(body->output_size()) +
                      " outputs, expected " + Twine(node.outputs.size()));
  size_t numStacked = node.outputs.size() - numCarried;
  auto listOf = [&](StringRef name, size_t size) {
    SmallVector<int64_t> list =
        node.integerList(name).value_or(SmallVector<int64_t>(size, 0));
    if (list.size() != size)
      (void)node.error(name + " has " + Twine(list.size()) +
                       " entries, expected " + Twine(size));
    return list;
  };
  auto inputAxes = listOf("scan_input_axes", numScanned);
  auto inputBackwards = listOf("scan_input_directions", numScanned);
  auto outputAxes = listOf("scan_output_axes", numStacked);
  auto outputBackwards = listOf("scan_output_directions", numStacked);
  if (node.failed)
    return failure();
  Values carried(node.inputs.begin(), node.inputs.begin() + numCarried);
  ArrayRef<Value> scanned = ArrayRef(node.inputs).drop_front(numCarried);
  std::optional<int64_t> count;
  for (auto [x, axis] : llvm::zip_equal(scanned, inputAxes)) {
    auto within = node.axisWithin(axis, rankOf(x));
    if (!within)
      return failure();
    axis = *within;
    if (count.value_or(shapeOf(x)[axis]) != shapeOf(x)[axis])
      return node.error("scanned inputs have " + Twine(*count) + " and " +
                        Twine(shapeOf(x)[axis]) + " elements along their axes");
    count = shapeOf(x)[axis];
  }
  if (*count > kMaxIterations)
    return tooMany(node, *count);
  if (*count == 0 && numStacked > 0)
    return node.unsupported("results of operator Scan without an iteration");
  SmallVector<Values> stacked(numStacked);
  for (int64_t iteration = 0; iteration < *count; ++iteration) {
    Values arguments(carried), results;
    for (auto [index, x] : llvm::enumerate(scanned)) {
      int64_t axis = inputAxes[index];
      int64_t at = inputBackwards[index] ? *count - 1 - iteration : iteration;
      SmallVector<int64_t> shape(shapeOf(x));
      shape.erase(shape.begin() + axis);
      arguments.push_back(node.reshape(node.slice(x, axis, at, 1), shape));
    }
    if (llvm::is_contained(arguments, Value()))
      return node.fail();
    if (failed(importIteration(node, *body, iteration, arguments, results)))
      return failure();
    if (llvm::is_contained(results, Value()))
      return giveNothing(node);
    carried.assign(results.begin(), results.begin() + numCarried);
    for (size_t index = 0; index < numStacked; ++index)
      stacked[index].push_back(results[numCarried + index]);
  }
  for (size_t index = 0; index < node.outputs.size(); ++index) {
    if (index < numCarried) {
      node.outputs[index] = carried[index];
      continue;
    }
    ArrayRef<Value> parts = stacked[index - numCarried];
    auto axis = node.axisWithin(outputAxes[index - numCarried],
                                rankOf(parts.front()) + 1);
    if (!axis)
      return failure();
    node.outputs[index] =
        stack(node, parts, *axis, outputBackwards[index - numCarried]);
    if (!node.outputs[index])
      return node.fail();
  }
  return success();
}

void kerf::onnx_import::addControlFlow(HandlerTable &table) {
  table.add("If", 1, branch);
  table.add("Loop", 1, loop);
  table.add("Scan", 9, scan);
}
