//===- FormGroups.cpp - a function of tensor ops as groups ----------------===//
//
// See FormGroups.h.
//
//===----------------------------------------------------------------------===//
#include "FormGroups.h"

#include "Calls.h"
#include "Units.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

#include "mlir/IR/IRMapping.h"

namespace kerf {
#define GEN_PASS_DEF_FORMGROUPS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

SmallVector<int64_t> kerf::accumulators(func::FuncOp function) {
  SmallVector<int64_t> arguments(function.getNumResults(), -1);
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto result = dist::numberFrom(function, i, dist::From::Accumulator))
      arguments[*result] = i;
  return arguments;
}

namespace {
class GroupWriter {
public:
  GroupWriter(func::FuncOp function, CallNumbers &numbers)
      : function(function), block(function.getBody().front()), numbers(numbers),
        builder(function.getContext()) {}

  LogicalResult run() {
    auto formed = formUnits(function, destinations);
    if (failed(formed))
      return failure();
    units = std::move(*formed);
    dropUnread();
    numberKernels();
    findPlaced();
    SmallVector<Operation *> before;
    for (Operation &op : block.without_terminator())
      before.push_back(&op);
    builder.setInsertionPoint(block.getTerminator());
    for (const Unit &unit : units)
      write(unit);
    // What is written in place is a new value all the same.
    for (const Destination &destination : destinations)
      if (destination.assign && destination.direct)
        moveToEnd(destination.assign);
    for (OpOperand &use : block.getTerminator()->getOpOperands())
      use.set(values.lookupOrDefault(use.get()));
    // What is left is in groups now, but for the sources.
    for (Operation *op : llvm::reverse(before))
      if (!moved.contains(op) && op->use_empty())
        op->erase();
    return success();
  }

private:
  /// Nothing is computed at load that nothing reads.
  void dropUnread() {
    DenseSet<Value> made;
    for (const Unit &unit : units)
      if (unit.init)
        made.insert(unit.outputs.begin(), unit.outputs.end());
    auto reads = [&](Value value) { return made.contains(value); };
    bool read = llvm::any_of(block.getTerminator()->getOperands(), reads);
    for (const Unit &unit : units)
      read |= !unit.init && llvm::any_of(unit.inputs, reads);
    if (!read)
      llvm::erase_if(units, [](const Unit &unit) { return unit.init; });
  }

  void numberKernels() {
    for (bool init : {true, false})
      for (const Unit &unit : units)
        if (unit.kind == Unit::Kind::Kernel && unit.init == init)
          kernelOf[unit.outputs.front()] = numbers.kernels++;
  }

  /// Values that are written where somebody else says.
  void findPlaced() {
    for (const Destination &destination : destinations)
      if (destination.direct) {
        directPlace[destination.value] = destination.place;
        placed.insert(destination.value);
      }
    DenseSet<Value> views;
    for (const Unit &unit : units)
      if (unit.kind == Unit::Kind::Alias)
        views.insert(unit.outputs.begin(), unit.outputs.end());
    SmallVector<int64_t> sums = accumulators(function);
    for (OpOperand &use : block.getTerminator()->getOpOperands()) {
      if (sums[use.getOperandNumber()] >= 0)
        continue;
      // Reshapes that are views are other names of what is stored.
      Value value = use.get();
      while (views.contains(value) && value.getDefiningOp<nn::ReshapeOp>())
        value = value.getDefiningOp()->getOperand(0);
      if (auto wait = value.getDefiningOp<dist::WaitOp>())
        value = wait.getPending();
      placed.insert(value);
    }
  }

  /// The operand into which a unit writes `value`.
  Value placeOf(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    Value place = inPlace.lookup(value);
    if (Value old = directPlace.lookup(value))
      place = values.lookupOrDefault(old);
    if (!place)
      return exec::EmptyOp::create(builder, value.getLoc(), type);
    if (place.getType() == type)
      return place;
    return nn::ReshapeOp::create(builder, value.getLoc(), type, place);
  }

  void write(const Unit &unit) {
    switch (unit.kind) {
    case Unit::Kind::Kernel:
      return writeGroup(unit);
    case Unit::Kind::Library:
      return writeCall(unit);
    case Unit::Kind::Alias:
    case Unit::Kind::Other:
      return move(unit);
    }
  }

  void move(const Unit &unit) {
    Operation *op = unit.ops.front();
    for (const Destination &destination : destinations)
      if (destination.assign == op && destination.direct)
        return;
    moveToEnd(op);
    if (unit.init)
      op->setAttr(exec::kAtLoad, builder.getUnitAttr());
  }

  void moveToEnd(Operation *op) {
    moved.insert(op);
    op->moveBefore(block.getTerminator());
    for (OpOperand &operand : op->getOpOperands())
      operand.set(values.lookupOrDefault(operand.get()));
  }

  void writeGroup(const Unit &unit) {
    std::string node;
    for (Operation *op : llvm::reverse(unit.ops))
      if (node.empty())
        node = modelNode(op->getLoc());
    Location loc = unit.ops.back()->getLoc();
    SmallVector<Value> inputs, places;
    SmallVector<Type> types;
    for (Value value : unit.inputs)
      inputs.push_back(values.lookupOrDefault(value));
    for (Value value : unit.outputs) {
      Value &known = places.emplace_back(offered.lookup(value));
      if (!known)
        known = placeOf(value);
      types.push_back(value.getType());
    }
    auto group = exec::GroupOp::create(
        builder, loc, types,
        builder.getI64IntegerAttr(kernelOf.lookup(unit.outputs.front())),
        builder.getStringAttr(node), phaseOf(unit.ops.back()),
        unit.init ? builder.getUnitAttr() : UnitAttr(), inputs, places);
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&group.getBody());
    IRMapping inside;
    for (Value value : unit.inputs)
      inside.map(value, body->addArgument(value.getType(), value.getLoc()));
    for (Operation *op : unit.ops) {
      // Where the value lies does not matter inside a group.
      Operation *clone = builder.clone(*op, inside);
      for (NamedAttribute attribute :
           llvm::to_vector(clone->getDiscardableAttrs()))
        clone->removeDiscardableAttr(attribute.getName());
    }
    SmallVector<Value> yielded;
    for (Value value : unit.outputs)
      yielded.push_back(inside.lookup(value));
    exec::YieldOp::create(builder, loc, yielded);
    values.map(unit.outputs, group.getResults());
    for (auto [value, place] : llvm::zip_equal(unit.outputs, places))
      written[value] = place;
  }

  void writeCall(const Unit &unit) {
    const LibraryCall &call = *unit.call;
    exec::LibraryCallInterface emitted = emitLibraryCall(
        builder, call, numbers.library,
        {[&](Value base) { return values.lookupOrDefault(base); },
         [&](Value result) { return placeOf(result); }});
    values.map(call.result, emitted->getResult(0));
    for (auto [i, more] : llvm::enumerate(call.moreResults))
      values.map(more.value, emitted->getResult(i + 1));
    if (unit.offer)
      offerSums(*unit.offer, cast<exec::MatmulOp>(emitted.getOperation()));
    if (unit.mask)
      offerMask(*unit.mask, call, cast<exec::MatmulOp>(emitted.getOperation()));
    libraryOf[call.result] = numbers.library++;
  }

  /// The product could write the sums that a kernel computes.
  void offerSums(const Unit::Offer &offer, exec::MatmulOp product) {
    Value place = written.lookup(offer.value);
    // The kernel may stand behind the call, whose memory it then is.
    if (!place) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(product);
      place = offered[offer.value] = placeOf(offer.value);
    }
    product.getSumsMutable().assign(place);
    product.setBiasGradientAttr(exec::BiasGradientAttr::get(
        builder.getContext(), offer.ofRhs ? exec::Side::Rhs : exec::Side::Lhs,
        offer.parts, kernelOf.lookup(offer.value)));
  }

  /// The product could do what a kernel does in place over its result.
  void offerMask(const Unit::Mask &mask, const LibraryCall &call,
                 exec::MatmulOp product) {
    auto forward = libraryOf.find(mask.forward);
    if (forward == libraryOf.end() || placed.contains(call.result) ||
        placed.contains(mask.result))
      return;
    inPlace[mask.result] = product->getResult(0);
    product.setReluGradientAttr(exec::ReluGradientAttr::get(
        builder.getContext(), forward->second, kernelOf.lookup(mask.result)));
  }

  func::FuncOp function;
  Block &block;
  CallNumbers &numbers;
  OpBuilder builder;
  std::vector<Unit> units;
  SmallVector<Destination> destinations;
  DenseSet<Operation *> moved;
  IRMapping values;                   ///< what groups and calls give instead
  DenseMap<Value, int64_t> kernelOf;  ///< by the first output
  DenseMap<Value, int64_t> libraryOf; ///< calls written so far
  DenseMap<Value, Value> directPlace; ///< what is written over what
  DenseSet<Value> placed;
  /// Places of results: of kernels that were written; that calls before a
  /// kernel name; that a kernel writes over in place.
  DenseMap<Value, Value> written, offered, inPlace;
};

struct FormGroups : kerf::impl::FormGroupsBase<FormGroups> {
  void runOnOperation() override {
    CallNumbers numbers;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      if (!llvm::hasSingleElement(function.getBody())) {
        function.emitError("has more than one block");
        return signalPassFailure();
      }
      if (failed(formGroups(function, numbers)))
        return signalPassFailure();
    }
  }
};
} // namespace

LogicalResult kerf::formGroups(func::FuncOp function, CallNumbers &numbers) {
  return GroupWriter(function, numbers).run();
}
