//===- FilledBatch.cpp - batches with samples that do not count -----------===//
#include "kerf/Autodiff/FilledBatch.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/NN/NN.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;

static BlockArgument argumentCalled(func::FuncOp function, StringRef name) {
  for (BlockArgument argument : function.getArguments())
    if (auto own = function.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), kNameAttr);
        own && own.getValue() == name)
      return argument;
  return {};
}

/// Without what moves elements or changes their type.
static Value plain(Value value) {
  while (Operation *def = value.getDefiningOp())
    if (isa<nn::ReshapeOp, nn::BroadcastOp, nn::TransposeOp, nn::CastOp>(def))
      value = def->getOperand(0);
    else
      break;
  return value;
}

/// The one element that all of a constant are; null: there is none.
static Attribute splatOf(Value value) {
  auto constant = plain(value).getDefiningOp<nn::ConstantOp>();
  auto elements =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  return elements && elements.isSplat() ? elements.getSplatValue<Attribute>()
                                        : Attribute();
}

namespace {
class LossParts {
public:
  LossParts(func::FuncOp function, ArrayRef<std::string> labels)
      : function(function) {
    for (const std::string &name : labels)
      if (BlockArgument label = argumentCalled(function, name))
        arguments.insert(label);
  }

  bool isRightLoss(Value loss) { return isSum(loss) || isRight(loss); }

  /// Whether labels are read only for where they are ignored, or for which
  /// class they are.
  bool areLabelsAlone() {
    SmallVector<Value> work(arguments.begin(), arguments.end());
    DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      if (!seen.insert(value).second)
        continue;
      for (Operation *user : value.getUsers()) {
        if (isa<nn::EqualOp, nn::LessOp>(user))
          continue; // a truth, of which nothing is looked up
        if (auto select = dyn_cast<nn::SelectOp>(user);
            select && isIgnored(select.getCondition()) &&
            select.getOnFalse() == value)
          continue; // another number where it is ignored
        if (!isa<nn::ReshapeOp, nn::BroadcastOp, nn::TransposeOp, nn::CastOp,
                 nn::SelectOp>(user))
          return false;
        work.push_back(user->getResult(0));
      }
    }
    return true;
  }

  DenseSet<Operation *> sums; ///< over samples, of what is masked

private:
  /// Whether an element says that a label is the one that is ignored.
  bool isIgnored(Value condition) {
    auto equal = plain(condition).getDefiningOp<nn::EqualOp>();
    if (!equal)
      return false;
    for (auto [label, number] : {std::pair(equal.getLhs(), equal.getRhs()),
                                 std::pair(equal.getRhs(), equal.getLhs())}) {
      auto argument = dyn_cast<BlockArgument>(plain(label));
      auto splat = dyn_cast_or_null<IntegerAttr>(splatOf(number));
      if (!argument || !arguments.contains(argument) || !splat)
        continue;
      auto ignored = function.getArgAttrOfType<IntegerAttr>(
          argument.getArgNumber(), kIgnoreIndexAttr);
      if (ignored && ignored.getInt() == splat.getValue().getSExtValue())
        return true;
    }
    return false;
  }

  /// Whether each element is 0 where its sample's label is ignored.
  bool isMasked(Value value) {
    Operation *def = plain(value).getDefiningOp();
    if (!def)
      return false;
    if (auto select = dyn_cast<nn::SelectOp>(def))
      return isIgnored(select.getCondition())
                 ? nn::splatNumber(plain(select.getOnTrue())) == 0.0
                 : isMasked(select.getOnTrue()) &&
                       isMasked(select.getOnFalse());
    if (isa<nn::NegOp, nn::DivOp>(def))
      return isMasked(def->getOperand(0));
    if (isa<nn::MulOp>(def))
      return llvm::any_of(def->getOperands(),
                          [&](Value each) { return isMasked(each); });
    if (isa<nn::AddOp, nn::SubOp>(def))
      return llvm::all_of(def->getOperands(),
                          [&](Value each) { return isMasked(each); });
    return false;
  }

  /// A sum over all samples of what is masked.
  bool isSum(Value value) {
    auto sum = plain(value).getDefiningOp<nn::ReduceOp>();
    if (!sum || sum.getKind() != nn::ReduceKind::Sum ||
        cast<RankedTensorType>(sum.getResult().getType()).getNumElements() !=
            1 ||
        !isMasked(sum.getX()))
      return false;
    sums.insert(sum);
    return true;
  }

  /// A sum of weights, guarded against 0.
  bool isCount(Value value) {
    if (isSum(value))
      return true;
    auto select = plain(value).getDefiningOp<nn::SelectOp>();
    return select &&
           (isCount(select.getOnTrue()) || splatOf(select.getOnTrue())) &&
           (isCount(select.getOnFalse()) || splatOf(select.getOnFalse())) &&
           !(splatOf(select.getOnTrue()) && splatOf(select.getOnFalse()));
  }

  bool dependsOnSamples(Value value) {
    SmallVector<Value> work = {value};
    DenseSet<Value> seen;
    while (!work.empty()) {
      Value next = work.pop_back_val();
      if (!seen.insert(next).second)
        continue;
      if (isa<BlockArgument>(next))
        return true;
      llvm::append_range(work, next.getDefiningOp()->getOperands());
    }
    return false;
  }

  bool isRight(Value value) {
    if (!dependsOnSamples(value))
      return true;
    Operation *def = plain(value).getDefiningOp();
    if (!def)
      return false;
    auto all = [&] {
      return llvm::all_of(def->getOperands(),
                          [&](Value each) { return isRight(each); });
    };
    if (auto quotient = dyn_cast<nn::DivOp>(def))
      return (isSum(quotient.getLhs()) && isCount(quotient.getRhs())) ||
             (isRight(quotient.getLhs()) &&
              !dependsOnSamples(quotient.getRhs()));
    return isa<nn::AddOp, nn::SubOp, nn::MulOp, nn::NegOp>(def) && all();
  }

  func::FuncOp function;
  DenseSet<Value> arguments;
};
} // namespace

bool kerf::autodiff::ignoresFilling(func::FuncOp function, StringRef loss,
                                    ArrayRef<std::string> labels,
                                    DenseSet<Operation *> &sums) {
  LossParts parts(function, labels);
  bool isRight = false;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto name = function.getResultAttrOfType<StringAttr>(i, kNameAttr);
        name && name.getValue() == loss)
      isRight = parts.areLabelsAlone() &&
                parts.isRightLoss(
                    function.getBody().front().getTerminator()->getOperand(i));
  sums = std::move(parts.sums);
  return isRight;
}

bool kerf::autodiff::readsLabels(func::FuncOp function,
                                 ArrayRef<std::string> labels) {
  return llvm::any_of(labels, [&](const std::string &name) {
    BlockArgument label = argumentCalled(function, name);
    return label && !label.use_empty();
  });
}
