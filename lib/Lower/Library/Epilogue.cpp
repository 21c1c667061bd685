//===- Epilogue.cpp - epilogues of library calls --------------------------===//
//
// See Epilogue.h and LibraryCall.h: the additions, activations and roundings
// that a library can do before it stores a result.
//===----------------------------------------------------------------------===//
#include "Epilogue.h"

#include "../OpKinds.h"
#include "GeluGradient.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Fusion/Groups.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/Preconditions.h"
#include "kerf/Support/TensorTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/TypeSwitch.h"

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
      : call(call), logical(logicalShape),
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
    if (isFixed && isa<nn::TransposeOp>(user) &&
        (has(Kind::Add) || has(Kind::Sum)))
      return false;
    if (isa<nn::ReshapeOp, nn::TransposeOp>(user)) {
      pending.push_back(user);
      call.result = user->getResult(0);
      return true;
    }
    if (fuseGeluGradient()) {
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
  bool fuseGeluGradient() {
    if (!exec::TargetAttr::of(call.anchor).getGradientEpilogues() ||
        !isa<nn::MatmulOp>(call.anchor) || call.bias || !call.postOps.empty() ||
        !chain.empty() || !pending.empty() || elementOf(call.result).isF16())
      return false;
    auto found = findGeluGradient(call.result);
    if (!found)
      return false;
    auto view = operandView(found->x, {});
    if (!view || view->offset != 0 || logical.back() % 8 != 0 ||
        view->strides != denseStrides(logical))
      return false;
    takeOperandChain(call, found->x, view->base);
    call.ops.append(found->ops);
    call.postOps.push_back(
        {Kind::GeluTanhGradient, std::nullopt, std::nullopt, std::move(view)});
    call.result = found->result;
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

  bool has(Kind kind) const {
    return llvm::any_of(call.postOps,
                        [&](const PostOp &op) { return op.kind == kind; });
  }

  /// Whether the device's library can do this op next. cuBLASLt has a factor,
  /// then a bias, one addend and one activation; cuDNN the same without the
  /// factor.
  /// a bias, one addend and one activation; cuDNN the same without the factor.
  bool takes(Kind kind) const {
    if (!isFixed)
      return true;
    bool matmul = isa<nn::MatmulOp>(call.anchor);
    if (has(Kind::Relu) || has(Kind::GeluTanh))
      return false;
    if (kind == Kind::Linear)
      return matmul && !call.bias &&
             (call.postOps.empty() || call.postOps.back().kind == Kind::Linear);
    if (kind == Kind::Add || kind == Kind::Sum)
      return !has(Kind::Add) && !has(Kind::Sum);
    return kind == Kind::Relu || (kind == Kind::GeluTanh && matmul);
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

  bool fuseBinary(Operation *op, Kind kind, bool commutes) {
    Value self = call.result;
    Value other = op->getOperand(op->getOperand(0) == self ? 1 : 0);
    bool selfLeft = op->getOperand(0) == self;
    // The result must have the shape of the value computed so far.
    if (!asks(Precondition::ResultKeepsItsShape,
              op->getResult(0).getType() == self.getType()))
      return false;
    if (auto splat = splatValue(other)) {
      bool factor = kind == Kind::Mul || (kind == Kind::Div && selfLeft);
      if (isFixed && (!factor || !takes(Kind::Linear)))
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
          !takes(Kind::Sum) || !isa<nn::MatmulOp>(call.anchor))
        return false;
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
    if (isFixed && !bias &&
        !(kind == Kind::Add && takes(Kind::Add) && liesAs(*view, dstDense)))
      return false;
    takeOperandChain(call, other, view->base);
    if (bias) {
      call.bias = std::move(view);
      return true;
    }
    call.postOps.push_back({kind, std::nullopt, std::nullopt, std::move(view)});
    return true;
  }

  bool fuseElementwise(Operation *op) {
    auto costed = dyn_cast<OpCostInterface>(op);
    if (!costed || costed.getLibraryWork() != LibraryWork::Epilogue)
      return false;
    auto unary = [&](Kind kind) {
      if (!takes(kind))
        return false;
      add(kind);
      return true;
    };
    return llvm::TypeSwitch<Operation *, bool>(op)
        .Case<nn::ReluOp>([&](auto) { return unary(Kind::Relu); })
        .Case<nn::TanhOp>([&](auto) { return unary(Kind::Tanh); })
        .Case<nn::SigmoidOp>([&](auto) { return unary(Kind::Sigmoid); })
        .Case<nn::AbsOp>([&](auto) { return unary(Kind::Abs); })
        .Case<nn::GeluOp>([&](nn::GeluOp gelu) {
          return unary(gelu.getTanh() ? Kind::GeluTanh : Kind::GeluErf);
        })
        .Case<nn::NegOp>([&](auto) {
          if (!takes(Kind::Linear))
            return false;
          return addLinear(-1, 0);
        })
        .Case<nn::AddOp>([&](auto) { return fuseBinary(op, Kind::Add, true); })
        .Case<nn::SubOp>([&](auto) { return fuseBinary(op, Kind::Sub, false); })
        .Case<nn::MulOp>([&](auto) { return fuseBinary(op, Kind::Mul, true); })
        .Case<nn::DivOp>([&](auto) { return fuseBinary(op, Kind::Div, false); })
        .Default([](Operation *) { return false; });
  }

  LibraryCall &call;
  Dims logical;
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
