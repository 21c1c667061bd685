//===- Loops.cpp - loops that are not unrolled ----------------------------===//
//
// Problem: how often a loop runs may be computed, or be so often that nobody
// waits for as many copies of its body.
//
// Idea: the body is imported once, into the region of an nn.loop. What it reads
// from outside becomes an operand (a capture), constants are made again inside,
// and a carried value that no iteration changes is captured, too. What is
// stacked is as large as the most iterations that there can be; where fewer are
// possible its first dimension is bounded (Bounds.h) by the number of
// iterations.
//
// Carried values have one shape in all iterations. Linear in the body.
//
//===----------------------------------------------------------------------===//
#include "Loops.h"

#include "../Graph/Sequence.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/SetVector.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Values = SmallVector<Value>;

namespace {

/// The body of a loop while it is imported. Its ops stay where they are if the
/// import fails: values are keys of what is known of bounds.
class LoopBuilder {
public:
  LoopBuilder(Node &node, const onnx::GraphProto &body, ArrayRef<Value> inits,
              ArrayRef<ScannedInput> scanned = {})
      : node(node), body(body), inits(inits), scanned(scanned) {}

  LogicalResult run(Value trip, Value condition);

private:
  LogicalResult importBody(std::optional<int64_t> most);
  LogicalResult checkYielded();
  void eraseUnread();
  void dropUnchanged();
  void capture();
  LogicalResult build(Value trip, Value condition, std::optional<int64_t> most);
  /// The last outputs may be absent.
  void setOutput(size_t index, Value value) {
    if (outputs[index] < node.outputs.size())
      node.outputs[outputs[index]] = value;
  }

  Node &node;
  const onnx::GraphProto &body;
  Values inits;
  ArrayRef<ScannedInput> scanned; ///< of a Scan, which has one at least
  Block *block = nullptr;
  Values yielded;              ///< the condition, carried values, stacked ones
  SmallVector<size_t> outputs; ///< which output each but the condition is
  Values captured;
};

} // namespace

/// A number that the handler's caller gives as a tensor of one element.
static Value number(Node &node, Value x, Type element) {
  return node.cast(node.reshape(x, {}), element);
}

/// The most that a number of iterations can be: negative ones are none.
static std::optional<int64_t> atMost(Node &node, Value count) {
  Operation *op = count.getDefiningOp();
  if (isa_and_nonnull<ReshapeOp, CastOp>(op))
    return atMost(node, op->getOperand(0));
  if (isa_and_nonnull<MinOp, MaxOp>(op)) {
    auto a = atMost(node, op->getOperand(0)),
         b = atMost(node, op->getOperand(1));
    if (a && b)
      return isa<MinOp>(op) ? std::min(*a, *b) : std::max(*a, *b);
    return isa<MaxOp>(op) ? std::nullopt : a ? a : b;
  }
  if (auto known = node.scalarElement(count); known && *known < 0)
    return 0;
  return node.bounds.most(count);
}

LogicalResult LoopBuilder::importBody(std::optional<int64_t> most) {
  OpBuilder::InsertionGuard guard(node.ops);
  block = node.importer.startBody();
  node.ops.setInsertionPointToEnd(block);
  Type i64 = node.ops.getI64Type(), i1 = node.ops.getI1Type();
  Value iteration =
      block->addArgument(RankedTensorType::get({}, i64), node.loc);
  if (most)
    node.bounds.setMost(iteration, *most);
  Values arguments;
  if (scanned.empty())
    arguments = {iteration, node.scalar(1, i1)};
  for (Value init : inits)
    arguments.push_back(block->addArgument(init.getType(), node.loc));
  for (const ScannedInput &each : scanned) {
    Value index = each.isBackwards
                      ? node.sub(node.scalar(double(*most - 1), i64), iteration)
                      : iteration;
    arguments.push_back(node.gather(each.x, index, each.axis));
  }
  if (llvm::is_contained(arguments, Value()))
    return node.fail();
  if (failed(node.importer.importSubgraph(body, node.scope, node.name + "/",
                                          arguments, yielded)))
    return failure();
  if (llvm::is_contained(yielded, Value()))
    return success();
  if (!scanned.empty())
    yielded.insert(yielded.begin(), node.scalar(1, i1));
  yielded.truncate(1 + std::max(inits.size(), node.outputs.size()));
  // What nobody reads is not stacked.
  for (size_t index = yielded.size() - 1; index-- > inits.size();)
    if (!node.wants(index))
      yielded.erase(yielded.begin() + int64_t(index) + 1);
  for (size_t index = 0; index < inits.size(); ++index)
    outputs.push_back(index);
  for (size_t index = inits.size(); index < node.outputs.size(); ++index)
    if (node.wants(index))
      outputs.push_back(index);
  return checkYielded();
}

LogicalResult LoopBuilder::checkYielded() {
  for (auto [index, value] : llvm::enumerate(yielded)) {
    if (isSequence(value))
      return node.unsupported("operator Loop of a computed number of "
                              "iterations with sequences",
                              "tensors are carried and stacked");
    if (node.bounds.has(value))
      return node.unsupported("operator Loop of a computed number of "
                              "iterations with sizes that are computed in it",
                              "values of one shape are carried and stacked");
    if (index > 0 && index <= inits.size() &&
        value.getType() != inits[index - 1].getType())
      return node.unsupported(
          "operator Loop of a computed number of iterations, of which one "
          "changes the shape of a carried value",
          "values of one shape are carried");
  }
  if (typeOf(yielded[0]).getNumElements() != 1 ||
      !elementOf(yielded[0]).isInteger(1))
    return node.error("the condition that the body gives is no truth value");
  OpBuilder::InsertionGuard guard(node.ops);
  node.ops.setInsertionPointToEnd(block);
  if (!(yielded[0] = node.reshape(yielded[0], {})))
    return node.fail();
  WalkResult random = block->walk([](Operation *op) {
    return isa<PhiloxOp, DropoutOp>(op) ? WalkResult::interrupt()
                                        : WalkResult::advance();
  });
  if (random.wasInterrupted())
    return node.unsupported("operator Loop of a computed number of iterations "
                            "with random numbers in its body");
  return success();
}

/// Ops of the block whose results are not read; the block has no terminator
/// yet.
void LoopBuilder::eraseUnread() {
  llvm::SmallDenseSet<Value> kept(yielded.begin(), yielded.end());
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (op.use_empty() && llvm::none_of(op.getResults(), [&](Value result) {
          return kept.contains(result);
        })) {
      for (Value result : op.getResults())
        node.bounds.forget(result);
      op.erase();
    }
}

/// Carried values that each iteration passes on are those outside.
void LoopBuilder::dropUnchanged() {
  for (size_t index = inits.size(); index-- > 0;) {
    BlockArgument argument = block->getArgument(unsigned(1 + index));
    if (yielded[1 + index] != argument)
      continue;
    setOutput(index, inits[index]);
    argument.replaceAllUsesWith(inits[index]);
    std::replace(yielded.begin(), yielded.end(), Value(argument), inits[index]);
    block->eraseArgument(unsigned(1 + index));
    yielded.erase(yielded.begin() + int64_t(1 + index));
    inits.erase(inits.begin() + int64_t(index));
    outputs.erase(outputs.begin() + int64_t(index));
  }
}

/// Values from outside become arguments; constants are made again.
void LoopBuilder::capture() {
  Region *region = block->getParent();
  llvm::SetVector<Value> outside;
  auto note = [&](Value value) {
    if (!region->isAncestor(value.getParentRegion()))
      outside.insert(value);
  };
  for (Operation &op : *block)
    for (Value operand : op.getOperands())
      note(operand);
  for (Value value : yielded)
    note(value);
  OpBuilder inside = OpBuilder::atBlockBegin(block);
  for (Value value : outside) {
    Operation *constant = value.getDefiningOp<ConstantOp>();
    Value own;
    if (constant && !cast<SourceOpInterface>(constant).isParameter()) {
      own = inside.clone(*constant)->getResult(0);
    } else {
      own = block->addArgument(value.getType(), value.getLoc());
      captured.push_back(value);
    }
    value.replaceUsesWithIf(own, [&](OpOperand &use) {
      return use.getOwner()->getBlock() == block;
    });
    std::replace(yielded.begin(), yielded.end(), value, own);
  }
}

LogicalResult LoopBuilder::build(Value trip, Value condition,
                                 std::optional<int64_t> most) {
  size_t numStacked = yielded.size() - 1 - inits.size();
  Type i64 = node.ops.getI64Type();
  SmallVector<Type> types{RankedTensorType::get({}, i64)};
  llvm::append_range(types, ValueRange(inits).getTypes());
  for (Value value : ArrayRef(yielded).take_back(numStacked)) {
    SmallVector<int64_t> shape(shapeOf(value));
    shape.insert(shape.begin(), *most);
    types.push_back(RankedTensorType::get(shape, elementOf(value)));
    if (!tensorBytes(shape, elementOf(value)))
      return node.unsupported("operator Loop whose results of all iterations "
                              "are larger than 2^47 bytes");
  }
  OpBuilder inside = OpBuilder::atBlockEnd(block);
  YieldOp::create(inside, node.loc, yielded);
  auto loop = LoopOp::create(
      node.ops, node.loc, types, trip, condition, inits, captured,
      most ? node.ops.getI64IntegerAttr(*most) : IntegerAttr());
  loop.getBody().takeBody(*block->getParent());
  if (failed(verify(loop)))
    return node.fail();
  // Whether fewer iterations are possible.
  auto exact = node.scalarElement(trip);
  auto goesOn = node.scalarElement(condition);
  auto yieldsOn =
      loop.getYielded()[0].getDefiningOp<ConstantOp>(); // true, or no loop
  bool isExact = exact && goesOn && *goesOn != 0 && yieldsOn &&
                 yieldsOn.getElements().getValues<bool>()[0];
  if (most)
    node.bounds.setMost(loop.getCount(), *most);
  for (auto [index, result] : llvm::enumerate(loop.getResults())) {
    setOutput(index, result);
    if (index >= inits.size() && !isExact)
      node.bounds.set(result, 0, loop.getCount());
  }
  return success();
}

LogicalResult LoopBuilder::run(Value trip, Value condition) {
  for (Value init : inits)
    if (!init || isSequence(init) || node.bounds.has(init))
      return node.unsupported(
          "operator Loop of a computed number of iterations that carries a "
          "sequence or a value whose size is computed",
          "values of one shape are carried");
  auto isNumber = [&](Value x) {
    return !x || typeOf(x).getNumElements() == 1;
  };
  if (!isNumber(trip) || !isNumber(condition))
    return node.error("the number of iterations and the condition have more "
                      "than one element");
  // Exporters write "without end" as the largest number, which would be no
  // number of a package.
  constexpr int64_t kEndless = int64_t(1) << 31;
  constexpr double kWithoutEnd = double(int64_t(1) << 53);
  Type i64 = node.ops.getI64Type();
  std::optional<int64_t> most;
  trip = trip ? number(node, trip, i64) : node.scalar(kWithoutEnd, i64);
  if (auto known = node.scalarElement(trip); known && *known > kWithoutEnd)
    trip = node.scalar(kWithoutEnd, i64);
  if (trip)
    most = atMost(node, trip);
  if (most && *most >= kEndless)
    most.reset();
  condition = condition ? node.reshape(condition, {})
                        : node.scalar(1, node.ops.getI1Type());
  if (!trip || !condition)
    return node.fail();
  if (failed(importBody(most)))
    return failure();
  if (llvm::is_contained(yielded, Value())) {
    llvm::fill(node.outputs, Value());
    return success();
  }
  if (!most && yielded.size() > 1 + inits.size())
    return node.unsupported(
        "results of all iterations of operator Loop, whose number has no bound",
        "a number of iterations that is a constant, or the smaller one of a "
        "number and a constant, is taken");
  eraseUnread();
  dropUnchanged();
  capture();
  return build(trip, condition, most);
}

LogicalResult kerf::onnx_import::importScanAsLoop(
    Node &node, const onnx::GraphProto &body, ArrayRef<Value> carried,
    ArrayRef<ScannedInput> scanned, int64_t count) {
  Value trip = node.scalar(double(count), node.ops.getI64Type());
  return LoopBuilder(node, body, carried, scanned).run(trip, Value());
}

LogicalResult kerf::onnx_import::importAsLoop(Node &node,
                                              const onnx::GraphProto &body,
                                              Value trip, Value condition,
                                              ArrayRef<Value> carried) {
  return LoopBuilder(node, body, carried).run(trip, condition);
}
