//===- Epilogue.cpp - epilogues of library calls --------------------------===//
//
// See Epilogue.h and LibraryCall.h: the additions, activations and roundings
// that a library can do before it stores a result.
//===----------------------------------------------------------------------===//
#include "Epilogue.h"

#include "../OpKinds.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Fusion/Epilogue.h"
#include "kerf/Fusion/Groups.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/Preconditions.h"
#include "kerf/Support/TensorTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace kerf;

bool kerf::isAccumulator(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || !argument.hasOneUse())
    return false;
  Operation *user = *argument.user_begin();
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto result = function ? dist::numberFrom(function, argument.getArgNumber(),
                                            dist::From::Accumulator)
                         : std::nullopt;
  return result && user->getNumResults() == 1 &&
         argument.getOwner()->getTerminator()->getOperand(*result) ==
             user->getResult(0);
}

namespace {
/// Follows the result of an anchor through its users.
class EpilogueFusion {
  using Kind = exec::PostOpKind;

public:
  EpilogueFusion(LibraryCall &call, ArrayRef<int64_t> logicalShape)
      : call(call), logical(logicalShape), room(isa<nn::MatmulOp>(call.anchor)),
        isFixed(exec::TargetAttr::of(call.anchor).getEpilogue() ==
                exec::EpilogueForm::Fixed) {}

  SmallVector<Operation *> run() {
    follow();
    return chain;
  }

private:
  void follow() {
    followEpilogue(
        call.result,
        [](Value result) {
          return result.hasOneUse() ? &*result.use_begin() : nullptr;
        },
        [&](OpOperand &read) {
          return takeIn(read.getOwner()) ? call.result : Value();
        });
    finishPending();
  }

  /// Whether `user` is part of the call, or may become so.
  bool takeIn(Operation *user) {
    // An update is a kernel of its own: it reads and writes several tensors in
    // one pass.
    if (isComplete || user->hasAttr(exec::kUpdateMark))
      return false;
    // In a fixed epilogue an addend lies as the result does.
    if (isFixed && isa<nn::TransposeOp>(user) && room.hasAddend())
      return false;
    if (isa<nn::ReshapeOp, nn::TransposeOp>(user)) {
      pending.push_back(user);
      call.result = user->getResult(0);
      return true;
    }
    if (fuseGeluGradient(user)) {
      fuseNarrowing();
      return isComplete = true;
    }
    if (fuseNarrowing())
      return isComplete = true;
    if (!storable() || !(widens(user) || fuseElementwise(user)))
      return false;
    // Shape ops in front of the op are now part of the call.
    commitPending();
    call.ops.push_back(user);
    call.result = user->getResult(0);
    return true;
  }

  /// In a fixed epilogue: the result multiplied by the derivative of GELU (the
  /// tanh form) at a tensor that lies as the result does, which cuBLASLt does
  /// before it stores it.
  bool fuseGeluGradient(Operation *user) {
    auto gradient = dyn_cast<nn::GeluGradientOp>(user);
    if (!gradient || gradient.getDy() != call.result ||
        gradient.getType() != call.result.getType() || !chain.empty() ||
        !pending.empty() || elementOf(call.result).isF16() ||
        !exec::TargetAttr::of(call.anchor).getGradientEpilogues() ||
        !takes(gradient.getEpilogueStep(), StepOperand::Whole))
      return false;
    auto view = operandView(gradient.getX(), {});
    if (!view || view->offset != 0 || logical.back() % 8 != 0 ||
        view->strides != denseStrides(logical))
      return false;
    takeOperandChain(call, gradient.getX(), view->base);
    call.ops.push_back(gradient);
    call.postOps.push_back(
        {Kind::GeluTanhGradient, std::nullopt, std::nullopt, std::move(view)});
    call.result = gradient.getResult();
    return true;
  }

  /// In a fixed epilogue: what was computed in f32 is stored in the operands'
  /// 16 bits. Bias and addends are read in that type, too: they must be widened
  /// ones.
  bool fuseNarrowing() {
    Type narrow = elementOf(call.anchor->getResult(0));
    if (!isFixed || !call.result.hasOneUse() || !isHalf(narrow) ||
        !elementOf(call.result).isF32() || !pending.empty())
      return false;
    auto cast = dyn_cast<nn::CastOp>(*call.result.user_begin());
    if (!cast || elementOf(cast.getResult()) != narrow)
      return false;
    SmallVector<StridedView *> operands;
    if (call.bias)
      operands.push_back(&*call.bias);
    for (PostOp &post : call.postOps)
      if (post.operand)
        operands.push_back(&*post.operand);
    for (StridedView *view : operands) {
      auto widened = view->base.getDefiningOp<nn::CastOp>();
      if (!widened || elementOf(widened.getX()) != narrow ||
          llvm::any_of(widened->getUsers(), [&](Operation *user) {
            return !llvm::is_contained(call.ops, user);
          }))
        return false;
    }
    for (StridedView *view : operands) {
      Operation *widened = view->base.getDefiningOp();
      call.ops.push_back(widened);
      view->base = widened->getOperand(0);
    }
    call.ops.push_back(cast);
    call.result = cast.getResult();
    return true;
  }

  /// A 16-bit result that is cast to f32 is stored in f32, without the
  /// rounding.
  bool widens(Operation *user) const {
    return isa<nn::CastOp>(user) && !call.anchor->hasAttr(exec::kStoredMark) &&
           call.postOps.empty() && !call.bias &&
           isHalf(elementOf(user->getOperand(0))) &&
           elementOf(user->getResult(0)).isF32();
  }

  void commitPending() {
    call.ops.append(pending.begin(), pending.end());
    chain.append(pending.begin(), pending.end());
    pending.clear();
  }

  /// Whether the library stores the present result fast: rows, and a
  /// convolution's whole image, must be contiguous. oneDNN stores other layouts
  /// too, but slowly.
  bool storable() {
    if (pending.empty())
      return true;
    SmallVector<Operation *> all(chain);
    all.append(pending.begin(), pending.end());
    auto strides = pullBack(all, denseStrides(shapeOf(call.result)));
    if (!strides)
      return false;
    if (isa<nn::ConvOp>(call.anchor))
      return *strides == denseStrides(logical);
    return logical.back() > 1 && strides->back() == 1;
  }

  /// Trailing shape ops stay out of the call, since users read them as views;
  /// unless the user is a contraction that cannot, or no user reads views.
  void finishPending() {
    while (!pending.empty()) {
      Operation *last = pending.back();
      Value end = last->getResult(0);
      bool readsViews = false;
      if (end.hasOneUse() && isa<nn::MatmulOp>(*end.user_begin()))
        readsViews = composeView(end).base == pending.front()->getOperand(0);
      bool needed = llvm::any_of(
          pending, [](Operation *op) { return isa<nn::TransposeOp>(op); });
      if (!readsViews && needed && isa<nn::MatmulOp>(call.anchor)) {
        if (storable()) {
          commitPending();
          return;
        }
      }
      if (readsViews || !needed) {
        call.result = pending.front()->getOperand(0);
        pending.clear();
        return;
      }
      pending.pop_back();
      call.result = last->getOperand(0);
    }
  }

  /// `value`, read over the shape of the present result, over logical dims.
  std::optional<StridedView> operandView(Value value,
                                         ArrayRef<Operation *> all) {
    StridedView view = broadcastView(composeView(value), shapeOf(call.result));
    auto strides = pullBack(all, view.strides);
    if (!strides)
      return std::nullopt;
    view.strides = std::move(*strides);
    view.sizes = logical;
    return view;
  }

  bool asks(Precondition which, bool condition) const {
    return holds(call.anchor, which, condition);
  }

  /// Whether the device's library can do this step next.
  bool takes(EpilogueStep step, StepOperand operand) const {
    return isFixed
               ? room.takes(step, operand)
               : step != EpilogueStep::GeluTanhGradient && steps.takes(operand);
  }
  void use(EpilogueStep step, StepOperand operand) {
    if (isFixed)
      room.add(step, operand);
    else
      steps.add(operand);
  }

  void add(Kind kind, std::optional<double> alpha = std::nullopt,
           std::optional<double> beta = std::nullopt) {
    call.postOps.push_back({kind, alpha, beta, std::nullopt});
  }

  /// Adds alpha x + beta, joined with a linear step before it. False if a
  /// joined number would not be an ordinary float: 0 * inf is NaN, x / inf is
  /// not.
  bool addLinear(double alpha, double beta) {
    auto isPlain = [](double number) {
      auto size = std::fabs(static_cast<float>(number));
      return number == 0 || (size >= std::numeric_limits<float>::min() &&
                             size <= std::numeric_limits<float>::max());
    };
    bool joins =
        !call.postOps.empty() && call.postOps.back().kind == Kind::Linear;
    double joinedAlpha = alpha, joinedBeta = beta;
    if (joins) {
      joinedBeta = *call.postOps.back().beta * alpha + beta;
      joinedAlpha = *call.postOps.back().alpha * alpha;
    }
    // Each step must be an ordinary float by itself, too: 1e30 x 1e30 is
    // infinite, and stays so times 1e-30.
    for (double number : {alpha, beta, joinedAlpha, joinedBeta})
      if (!asks(Precondition::NumbersArePlain, isPlain(number)))
        return false;
    if (joins)
      call.postOps.pop_back();
    add(Kind::Linear, joinedAlpha, joinedBeta);
    return true;
  }

  /// Whether every dimension of more than one element has the strides of dst.
  bool liesAs(const StridedView &view, const std::optional<Dims> &dst) const {
    if (!dst)
      return false;
    for (size_t d = 0; d < logical.size(); ++d)
      if (logical[d] != 1 && view.strides[d] != (*dst)[d])
        return false;
    return true;
  }

  bool fuseBinary(Operation *op, EpilogueStep step) {
    Kind kind = step == EpilogueStep::Add   ? Kind::Add
                : step == EpilogueStep::Sub ? Kind::Sub
                : step == EpilogueStep::Mul ? Kind::Mul
                                            : Kind::Div;
    bool commutes = kind == Kind::Add || kind == Kind::Mul;
    Value self = call.result;
    Value other = op->getOperand(op->getOperand(0) == self ? 1 : 0);
    bool selfLeft = op->getOperand(0) == self;
    // The result must have the shape of the value computed so far.
    if (!asks(Precondition::ResultKeepsItsShape,
              op->getResult(0).getType() == self.getType()))
      return false;
    if (auto splat = splatValue(other)) {
      if (!takes(step, StepOperand::Number))
        return false;
      bool added = kind == Kind::Add   ? addLinear(1, *splat)
                   : kind == Kind::Sub ? addLinear(selfLeft ? 1 : -1,
                                                   selfLeft ? -*splat : *splat)
                   : kind == Kind::Mul ? addLinear(*splat, 0)
                   : kind == Kind::Div && selfLeft && *splat != 0
                       ? addLinear(1 / *splat, 0)
                       : false;
      if (!added)
        return false;
      use(step, StepOperand::Number);
      takeOperandChain(call, other, Value());
      return true;
    }
    if (!asks(Precondition::OperandsCommute, selfLeft || commutes))
      return false;
    // scatter_add adds rows to the product in place, long after it was
    // computed.
    if (isa_and_nonnull<nn::ScatterAddOp, exec::ScatterAddOp>(
            other.getDefiningOp()) &&
        other.hasOneUse() && kind == Kind::Add)
      return false;
    // A slot that dist.zero zeroed becomes the sum, in place.
    if (isAccumulator(other)) {
      if (kind != Kind::Add || call.bias || !call.postOps.empty() ||
          !takes(step, StepOperand::Whole) || !isa<nn::MatmulOp>(call.anchor))
        return false;
      use(step, StepOperand::Whole);
      call.accumulator = other;
      add(Kind::Sum);
      return true;
    }
    SmallVector<Operation *> all(chain);
    all.append(pending.begin(), pending.end());
    auto view = operandView(other, all);
    if (!view)
      return false;
    // The library is fast for operands of full size and for one value per
    // column.
    bool perColumn = true, full = true;
    Dims dense = denseStrides(logical);
    auto dstDense = pullBack(all, denseStrides(shapeOf(self)));
    for (size_t d = 0; d < logical.size(); ++d) {
      if (logical[d] == 1)
        continue;
      bool last = d + 1 == logical.size();
      perColumn &= view->strides[d] == (last ? 1 : 0);
      full &= view->strides[d] == dense[d] ||
              (dstDense && view->strides[d] == (*dstDense)[d]);
    }
    if (!perColumn && !full)
      return false;
    bool bias = kind == Kind::Add && perColumn && !call.bias &&
                asks(Precondition::BiasComesFirst, call.postOps.empty());
    StepOperand operand = bias ? StepOperand::PerColumn
                          : isFixed
                              ? (liesAs(*view, dstDense) ? StepOperand::Whole
                                                         : StepOperand::Other)
                          : full ? StepOperand::Whole
                                 : StepOperand::PerColumn;
    if (!takes(step, operand))
      return false;
    use(step, operand);
    takeOperandChain(call, other, view->base);
    if (bias) {
      call.bias = std::move(view);
      return true;
    }
    call.postOps.push_back({kind, std::nullopt, std::nullopt, std::move(view)});
    return true;
  }

  bool fuseElementwise(Operation *op) {
    EpilogueStep step = epilogueStepOf(op);
    auto unary = [&](Kind kind) {
      if (!takes(step, StepOperand::None))
        return false;
      use(step, StepOperand::None);
      add(kind);
      return true;
    };
    switch (step) {
    case EpilogueStep::None:
    case EpilogueStep::Some:
    case EpilogueStep::Normalize: // kerf-fold-batch-norm has left its parts
    case EpilogueStep::GeluTanhGradient:
      return false;
    case EpilogueStep::Relu:
      return unary(Kind::Relu);
    case EpilogueStep::Tanh:
      return unary(Kind::Tanh);
    case EpilogueStep::Sigmoid:
      return unary(Kind::Sigmoid);
    case EpilogueStep::Abs:
      return unary(Kind::Abs);
    case EpilogueStep::GeluTanh:
      return unary(Kind::GeluTanh);
    case EpilogueStep::GeluErf:
      return unary(Kind::GeluErf);
    case EpilogueStep::Neg:
      if (!takes(step, StepOperand::None) || !addLinear(-1, 0))
        return false;
      use(step, StepOperand::None);
      return true;
    case EpilogueStep::Add:
    case EpilogueStep::Sub:
    case EpilogueStep::Mul:
    case EpilogueStep::Div:
      return fuseBinary(op, step);
    }
    llvm_unreachable("all steps are handled");
  }

  LibraryCall &call;
  Dims logical;
  FixedEpilogue room;      ///< what is left of it
  ChainEpilogue steps;     ///< or of one that has steps of any kind
  bool isFixed;            ///< one step of each kind, in the library's order
  bool isComplete = false; ///< nothing can be behind what was taken in
  /// Shape ops taken in so far, and those waiting for an op that needs them.
  SmallVector<Operation *> chain, pending;
};
} // namespace

SmallVector<Operation *> kerf::fuseEpilogue(LibraryCall &call,
                                            ArrayRef<int64_t> logicalShape) {
  return EpilogueFusion(call, logicalShape).run();
}
