//===- OptimizerUpdates.cpp - updates as elementwise ops ------------------===//
//
// An update of an optimizer becomes elementwise ops with the attribute
// exec.update, which one kernel per parameter computes in one pass over memory.
// Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "../OpKinds.h"

#include "llvm/ADT/TypeSwitch.h"

namespace kerf {
#define GEN_PASS_DEF_EXPANDOPTIMIZERUPDATES
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
/// Elementwise ops of an update; numbers are scalars.
class UpdateBuilder {
public:
  explicit UpdateBuilder(Operation *op) : builder(op), loc(op->getLoc()) {
    element =
        cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
  }
  Value number(double value) {
    return splatConstant(builder, loc, RankedTensorType::get({}, element),
                         value);
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
    op->setAttr(exec::kUpdateMark, builder.getUnitAttr());
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

namespace {
struct ExpandOptimizerUpdates
    : kerf::impl::ExpandOptimizerUpdatesBase<ExpandOptimizerUpdates> {
  void runOnOperation() override {
    forEachOp(getOperation(), [](Operation *op) {
      bool expanded = true;
      llvm::TypeSwitch<Operation *>(op)
          .Case<nn::SGDUpdateOp, nn::AdamUpdateOp, nn::AdagradUpdateOp>(
              [](auto update) { expandUpdate(update); })
          .Default([&](Operation *) { expanded = false; });
      if (expanded)
        op->erase();
    });
  }
};
} // namespace
