//===- OptimizerUpdates.cpp - updates as elementwise ops ------------------===//
//
// An update of an optimizer becomes elementwise ops with the attribute
// exec.update, which one kernel per parameter computes in one pass over memory.
// Linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

#include "../OpKinds.h"

#include "kerf/NN/IR/Elements.h"

namespace kerf {
#define GEN_PASS_DEF_EXPANDOPTIMIZERUPDATES
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
/// What a step does (NNUpdates.td) as elementwise ops; numbers are scalars.
class UpdateOps {
public:
  using V = Value;

  explicit UpdateOps(Operation *op) : builder(op), loc(op->getLoc()) {
    element =
        cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
  }
  V number(double value) {
    return splatConstant(builder, loc, RankedTensorType::get({}, element),
                         value);
  }
  V number(const APFloat &value) { return number(value.convertToDouble()); }
  /// A scalar in the type of the parameter.
  V scalar(V value) {
    auto type = RankedTensorType::get({}, element);
    return value.getType() == type
               ? value
               : nn::CastOp::create(builder, loc, type, value).getResult();
  }
  V add(V x, V y) { return make<nn::AddOp>({x, y}); }
  V sub(V x, V y) { return make<nn::SubOp>({x, y}); }
  V mul(V x, V y) { return make<nn::MulOp>({x, y}); }
  V div(V x, V y) { return make<nn::DivOp>({x, y}); }
  V max(V x, V y) { return make<nn::MaxOp>({x, y}); }
  V abs(V x) { return make<nn::AbsOp>({x}); }
  V sqrt(V x) { return make<nn::SqrtOp>({x}); }

private:
  template <typename Op> V make(ValueRange operands) {
    auto op = Op::create(builder, loc, operands);
    op->setAttr(exec::kUpdateMark, builder.getUnitAttr());
    return op->getResult(0);
  }

  dist::ReplacingBuilder builder;
  Location loc;
  Type element;
};
} // namespace

template <typename Op> static void expandUpdate(Op op) {
  UpdateOps s(op);
  SmallVector<Value> x(op->getOperands());
  for (Value &operand : x)
    if (cast<RankedTensorType>(operand.getType()).getRank() == 0 &&
        cast<RankedTensorType>(op->getOperand(0).getType()).getRank() != 0)
      operand = s.scalar(operand);
  op->replaceAllUsesWith(op.step(s, ArrayRef<Value>(x)));
}

namespace {
struct ExpandOptimizerUpdates
    : kerf::impl::ExpandOptimizerUpdatesBase<ExpandOptimizerUpdates> {
  void runOnOperation() override {
    forEachOp(getOperation(), [](Operation *op) {
      bool expanded = nn::visitOps(op, [](auto typed) {
        if constexpr (decltype(typed)::template hasTrait<nn::Update>()) {
          expandUpdate(typed);
          return true;
        }
        return false;
      });
      if (expanded)
        op->erase();
    });
  }
};
} // namespace
