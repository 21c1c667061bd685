//===- Precision.cpp - products in bfloat16 or float16 --------------------===//
//
// See Precision.h. In training the backward pass rounds the same operands,
// since the vector-Jacobian product of a cast is a cast. The type in which
// gradients are sent is also set here, once the gradients exist.
//
//===----------------------------------------------------------------------===//
#include "kerf/Autodiff/Precision.h"

#include "Step.h"

#include "kerf/Interfaces/TransferCast.h"
#include "kerf/Support/NarrowTypes.h"
#include "kerf/Support/TensorTypes.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

StringRef kerf::autodiff::toString(Precision precision) {
  switch (precision) {
  case Precision::F32:
    return "f32";
  case Precision::TF32:
    return "tf32";
  case Precision::BF16:
    return "bf16";
  case Precision::F16:
    return "f16";
  }
  llvm_unreachable("all precisions are named");
}

std::optional<Precision> kerf::autodiff::parsePrecision(StringRef text) {
  return llvm::StringSwitch<std::optional<Precision>>(text)
      .Cases({"f32", "fp32"}, Precision::F32)
      .Case("tf32", Precision::TF32)
      .Case("bf16", Precision::BF16)
      .Cases({"f16", "fp16"}, Precision::F16)
      .Default(std::nullopt);
}

Type kerf::autodiff::narrowType(MLIRContext *context, Precision precision) {
  if (precision == Precision::BF16)
    return BFloat16Type::get(context);
  if (precision == Precision::F16)
    return Float16Type::get(context);
  return {};
}

StringRef kerf::autodiff::gradientDtypeName(const AutodiffOptions &options) {
  Precision type = options.gradientType();
  return toString(type == Precision::TF32 ? Precision::F32 : type);
}

/// Casts from float32 to `narrow` and back, for messages between devices only.
static Value thereAndBack(OpBuilder &builder, Location loc, Value value,
                          Type narrow) {
  RankedTensorType type = typeOf(value);
  auto there = nn::CastOp::create(builder, loc, type.clone(narrow), value);
  there->setAttr(kTransferCast, builder.getUnitAttr());
  return nn::CastOp::create(builder, loc, type, there);
}

namespace {

class Narrower {
public:
  Narrower(OpBuilder &builder, Type narrow)
      : builder(builder), narrow(narrow), wide(builder.getF32Type()) {}

  /// Rounds the factors, which are the first operands; the result is made in
  /// the narrow type and cast to float32.
  void round(Operation &op, unsigned factors) {
    auto first = op.getOpOperands().take_front(factors);
    if (!llvm::all_of(first, [&](OpOperand &operand) {
          return typeOf(operand.get()).getElementType() == wide;
        }))
      return;
    for (OpOperand &operand : first) {
      Value value = operand.get();
      Value &known = rounded[value];
      if (!known) {
        builder.setInsertionPoint(&op);
        known = nn::CastOp::create(builder, op.getLoc(),
                                   typeOf(value).clone(narrow), value);
      }
      operand.set(known);
    }
    Value result = op.getResult(0);
    RankedTensorType type = typeOf(result);
    result.setType(type.clone(narrow));
    builder.setInsertionPointAfter(&op);
    Value widened = nn::CastOp::create(builder, op.getLoc(), type, result);
    result.replaceAllUsesExcept(widened, widened.getDefiningOp());
  }

  /// Rows of a table: if the table's rows are cut, they are summed over
  /// devices.
  void sendNarrow(nn::GatherOp gather) {
    auto source = gather.getData().getDefiningOp<SourceOpInterface>();
    Value result = gather.getResult();
    if (!source || !source.isParameter() ||
        typeOf(result).getElementType() != wide)
      return;
    builder.setInsertionPointAfter(gather);
    Value back = thereAndBack(builder, gather.getLoc(), result, narrow);
    result.replaceAllUsesExcept(
        back, back.getDefiningOp()->getOperand(0).getDefiningOp());
  }

private:
  OpBuilder &builder;
  Type narrow, wide;
  /// One rounding per value, however many ops read it.
  llvm::DenseMap<Value, Value> rounded;
};

} // namespace

void kerf::autodiff::lowerPrecision(func::FuncOp function, Precision precision,
                                    OpBuilder &builder) {
  Type narrow = narrowType(function.getContext(), precision);
  if (!narrow)
    return;
  OpBuilder::InsertionGuard guard(builder);
  Narrower narrower(builder, narrow);
  Block &body = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    if (isa<nn::MatmulOp, nn::ConvOp>(op))
      narrower.round(op, 2);
    else if (isa<nn::AttentionOp>(op))
      narrower.round(op, 3);
    else if (auto gather = dyn_cast<nn::GatherOp>(op))
      narrower.sendNarrow(gather);
  }
}

void Step::keepGradientsWide() {
  for (auto cast : body().getOps<nn::CastOp>())
    if (dist::getPhase(cast) == dist::Phase::BackwardWeight &&
        isComputedFloat(typeOf(cast.getX()).getElementType()) &&
        typeOf(cast.getX()).getElementTypeBitWidth() <
            typeOf(cast.getResult()).getElementTypeBitWidth())
      cast->setAttr(kTransferCast, ops.getUnitAttr());
}

Value Step::sendNarrow(Value gradient, Location loc) {
  Type narrow = narrowType(context, options.gradientType());
  if (!narrow || !typeOf(gradient).getElementType().isF32())
    return gradient;
  return thereAndBack(ops, loc, gradient, narrow);
}
