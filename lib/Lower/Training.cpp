//===- Training.cpp - functions of a training step in plain nn ops --------===//
//
// See prepareTraining in Simplify.h. Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Parameters.h"
#include "Simplify.h"
#include "Strides.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;

/// All uses of a mutable source mean the same memory.
static void mergeMutableSources(func::FuncOp function) {
  llvm::StringMap<Operation *> known;
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (!isMutableSource(&op))
      continue;
    auto [it, added] = known.try_emplace(mutableIdentity(&op), &op);
    // Where types differ the table of parameters says so.
    if (added || it->second->getResultTypes() != op.getResultTypes())
      continue;
    op.replaceAllUsesWith(it->second);
    op.erase();
  }
}

/// A source that gets the value of another is told from it: each is read before
/// either is written. One that is returned is copied before it is written.
static void separateSources(func::FuncOp function) {
  auto separate = [](OpOperand &use) {
    Value value = use.get();
    while (isShapeOp(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    if (!isMutableSource(value.getDefiningOp()))
      return;
    OpBuilder builder(use.getOwner());
    use.set(nn::CastOp::create(builder, use.getOwner()->getLoc(),
                               use.get().getType(), use.get()));
  };
  Block &block = function.getBody().front();
  for (auto assign : block.getOps<dist::AssignOp>())
    separate(assign.getValueMutable());
  for (OpOperand &use : block.getTerminator()->getOpOperands())
    separate(use);
}

static void expandAccumulates(func::FuncOp function) {
  for (auto accumulate : llvm::make_early_inc_range(
           function.getBody().front().getOps<dist::AccumulateOp>())) {
    Value sum = accumulate.getX();
    if (Value into = accumulate.getInto()) {
      OpBuilder builder(accumulate);
      sum = nn::AddOp::create(builder, accumulate.getLoc(), into, sum);
    }
    accumulate.getResult().replaceAllUsesWith(sum);
    accumulate.erase();
  }
}

namespace {
/// Elementwise ops of an update; numbers are scalars.
class UpdateBuilder {
public:
  explicit UpdateBuilder(Operation *op) : builder(op), loc(op->getLoc()) {
    element =
        cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
  }
  Value number(double value) {
    auto type = RankedTensorType::get({}, element);
    return nn::ConstantOp::create(
        builder, loc,
        cast<ElementsAttr>(DenseElementsAttr::get(
            type, FloatAttr::get(cast<FloatType>(element), value))));
  }
  /// A scalar in the type of the parameter.
  Value scalar(Value value) {
    auto type = RankedTensorType::get({}, element);
    return value.getType() == type
               ? value
               : nn::CastOp::create(builder, loc, type, value).getResult();
  }
  template <typename Op> Value make(ValueRange operands) {
    auto op = Op::create(builder, loc, operands);
    op->setAttr(kUpdateAttr, builder.getUnitAttr());
    return op->getResult(0);
  }
  Value add(Value x, Value y) { return make<nn::AddOp>({x, y}); }
  Value sub(Value x, Value y) { return make<nn::SubOp>({x, y}); }
  Value mul(Value x, Value y) { return make<nn::MulOp>({x, y}); }
  Value mul(Value x, double y) { return mul(x, number(y)); }
  Value div(Value x, Value y) { return make<nn::DivOp>({x, y}); }
  Value sqrt(Value x) { return make<nn::SqrtOp>({x}); }
  /// g + d w.
  Value decayed(Value g, Value w, const APFloat &decay) {
    return decay.isZero() ? g : add(g, mul(w, decay.convertToDouble()));
  }

private:
  OpBuilder builder;
  Location loc;
  Type element;
};
} // namespace

static void expandUpdate(nn::SGDUpdateOp op) {
  UpdateBuilder b(op);
  Value w = op.getW(), g = b.decayed(op.getG(), w, op.getWeightDecay());
  Value step = g;
  if (Value velocity = op.getVelocity()) {
    double momentum = op.getMomentum().convertToDouble();
    Value next = b.add(b.mul(velocity, momentum), g);
    op.getNewVelocity().replaceAllUsesWith(next);
    step = op.getNesterov() ? b.add(g, b.mul(next, momentum)) : next;
  }
  op.getNewW().replaceAllUsesWith(b.sub(w, b.mul(step, b.scalar(op.getLr()))));
}

static void expandUpdate(nn::AdamUpdateOp op) {
  UpdateBuilder b(op);
  Value w = op.getW(), g = op.getG(), lr = b.scalar(op.getLr());
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  if (!op.getDecoupled())
    g = b.decayed(g, w, op.getWeightDecay());
  else if (!op.getWeightDecay().isZero())
    // The factor is rounded before it is applied, as PyTorch's.
    w = b.mul(w, b.sub(b.number(1),
                       b.mul(lr, op.getWeightDecay().convertToDouble())));
  Value m = b.add(op.getM(), b.mul(b.sub(g, op.getM()), 1 - beta1));
  Value v = b.add(b.mul(op.getV(), beta2), b.mul(b.mul(g, g), 1 - beta2));
  Value scale = b.div(b.number(1), b.sqrt(b.scalar(op.getC2())));
  Value divisor = b.add(b.mul(b.sqrt(v), scale),
                        b.number(op.getEpsilon().convertToDouble()));
  Value step = b.div(lr, b.scalar(op.getC1()));
  op.getNewW().replaceAllUsesWith(b.sub(w, b.div(b.mul(m, step), divisor)));
  op.getNewM().replaceAllUsesWith(m);
  op.getNewV().replaceAllUsesWith(v);
}

static void expandUpdate(nn::AdagradUpdateOp op) {
  UpdateBuilder b(op);
  Value w = op.getW(), g = b.decayed(op.getG(), w, op.getWeightDecay());
  Value sum = b.add(op.getSum(), b.mul(g, g));
  Value divisor =
      b.add(b.sqrt(sum), b.number(op.getEpsilon().convertToDouble()));
  Value step = b.div(b.mul(g, b.scalar(op.getLr())), divisor);
  op.getNewW().replaceAllUsesWith(b.sub(w, step));
  op.getNewSum().replaceAllUsesWith(sum);
}

/// Updates become elementwise ops, which one kernel computes.
static void expandUpdates(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    bool expanded = true;
    llvm::TypeSwitch<Operation *>(&op)
        .Case<nn::SGDUpdateOp, nn::AdamUpdateOp, nn::AdagradUpdateOp>(
            [](auto update) { expandUpdate(update); })
        .Default([&](Operation *) { expanded = false; });
    if (expanded)
      op.erase();
  }
}

/// Where and when an nn op runs is decided: equal ops may merge again. Its
/// phase goes on with its location, for traces.
static void dropPlacement(func::FuncOp function) {
  for (Operation &op : function.getBody().front()) {
    if (!isa<nn::NNDialect>(op.getDialect()))
      continue;
    if (Attribute phase = op.getAttr(dist::kPhase))
      op.setLoc(FusedLoc::get(op.getContext(), {op.getLoc()}, phase));
    for (StringRef name :
         {StringRef(dist::kStage), StringRef(dist::kPhase),
          StringRef(dist::kColocation), StringRef(dist::kPurpose),
          StringRef(dist::kOperands), StringRef(dist::kResults)})
      op.removeDiscardableAttr(name);
  }
}

void kerf::prepareTraining(func::FuncOp function) {
  mergeMutableSources(function);
  separateSources(function);
  expandAccumulates(function);
  dropPlacement(function);
  expandUpdates(function);
}
