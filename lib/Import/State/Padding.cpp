//===- Padding.cpp - follows the positions of a cache; see Padding.h ------===//
#include "Padding.h"
#include "KnownValues.h"

#include "kerf/NN/IR/Evaluate.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

namespace {

/// What is at or below this behind a mask is 0 behind softmax: exp(-1e4) is 0
/// in f32, and scores are small beside it.
constexpr double kHidden = -1e4;

enum class Kind { Raw, Hidden, Zero };

/// The positions of a value, and what those that are not filled hold.
struct Mark {
  unsigned dim;
  Kind kind;
  bool isCausal = false; ///< no new position shows to those before it
};

class Follower {
public:
  Follower(const CacheUse &use)
      : use(use), filled(use.mask, 1), empty(use.mask, 0) {
    maskDims[use.mask] = 1;
  }

  std::optional<Seen> run() {
    for (auto [cache, dim] : llvm::zip_equal(use.caches, use.dims))
      marks[cache] = {dim, Kind::Raw};
    Value first = use.caches.front();
    Block *block = first.getParentBlock();
    for (Operation &op : *block) {
      if (llvm::any_of(op.getResults(),
                       [&](Value v) { return marks.contains(v); }))
        continue; // a cache
      SmallVector<unsigned, 2> marked;
      for (OpOperand &operand : op.getOpOperands())
        if (marks.contains(operand.get()))
          marked.push_back(operand.getOperandNumber());
      if (marked.empty())
        followMask(&op);
      else if (std::string why = follow(&op, marked); !why.empty())
        return Seen{why, &op};
    }
    return std::nullopt;
  }

private:
  using Rule = ShardingRule;

  /// The factor that is all of a dimension.
  static std::optional<unsigned> factorOf(const TensorFactors &tensor,
                                          unsigned dim) {
    if (dim >= tensor.size() || tensor[dim].size() != 1)
      return std::nullopt;
    return tensor[dim].front();
  }
  static std::optional<unsigned> dimOf(const TensorFactors &tensor,
                                       unsigned factor) {
    for (auto [dim, list] : llvm::enumerate(tensor))
      if (llvm::is_contained(list, factor))
        return dim;
    return std::nullopt;
  }

  void followMask(Operation *op) {
    auto sharded = dyn_cast<ShardingRuleInterface>(op);
    if (!sharded || op->getNumResults() != 1)
      return;
    Rule rule = sharded.getShardingRule();
    std::optional<unsigned> factor;
    for (OpOperand &operand : op->getOpOperands()) {
      auto found = maskDims.find(operand.get());
      if (found == maskDims.end())
        continue;
      auto own =
          factorOf(rule.operands[operand.getOperandNumber()], found->second);
      if (!own || (factor && *factor != *own) ||
          rule.factors[*own].kind != FactorKind::Parallel)
        return;
      factor = own;
    }
    if (factor)
      if (auto dim = dimOf(rule.results[0], *factor);
          dim && factorOf(rule.results[0], *dim))
        maskDims[op->getResult(0)] = *dim;
  }

  /// Empty: all is well.
  std::string follow(Operation *op, ArrayRef<unsigned> marked) {
    Mark first = marks[op->getOperand(marked[0])];
    if (isa<func::ReturnOp>(op)) {
      for (unsigned number : marked)
        if (!llvm::is_contained(use.caches, op->getOperand(number)))
          return "hands out what it computes at each position";
      return {};
    }
    if (auto softmax = dyn_cast<SoftmaxOp>(op);
        softmax && softmax.getDim() == first.dim) {
      if (first.kind != Kind::Hidden)
        return "is over positions that the mask does not hide";
      if (use.newCount > 1 && !first.isCausal)
        return "is over new positions that none hides from those before them";
      marks[op->getResult(0)] = {first.dim, Kind::Zero};
      return {};
    }
    auto sharded = dyn_cast<ShardingRuleInterface>(op);
    if (!sharded)
      return "is not known to leave positions apart";
    Rule rule = sharded.getShardingRule();
    std::optional<unsigned> factor;
    for (unsigned number : marked) {
      auto own =
          factorOf(rule.operands[number], marks[op->getOperand(number)].dim);
      if (!own || (factor && *factor != *own))
        return "does not leave positions apart";
      factor = own;
    }
    if (rule.factors[*factor].kind == FactorKind::Reduction)
      return followProduct(op, marked);
    if (rule.factors[*factor].kind != FactorKind::Parallel)
      return "combines positions";
    Kind kind = Kind::Raw;
    bool isCausal = llvm::all_of(marked, [&](unsigned number) {
      return marks[op->getOperand(number)].isCausal;
    });
    if (std::string why = kindOf(op, marked, rule, *factor, kind, isCausal);
        !why.empty())
      return why;
    for (OpResult result : op->getResults())
      if (auto dim = dimOf(rule.results[result.getResultNumber()], *factor)) {
        if (!factorOf(rule.results[result.getResultNumber()], *dim))
          return "joins positions with another dimension";
        marks[result] = {*dim, kind, isCausal};
      }
    return {};
  }

  /// A sum over positions sees none where one factor is 0 and the other is what
  /// was written some time, so finite.
  std::string followProduct(Operation *op, ArrayRef<unsigned> marked) {
    if (isa<MatmulOp>(op) && marked.size() == 2 &&
        llvm::any_of(marked, [&](unsigned number) {
          return marks[op->getOperand(number)].kind == Kind::Zero;
        }))
      return {};
    return "sums over positions that the mask does not hide";
  }

  /// Whether both branches are 0 at positions that are hidden, so whatever the
  /// condition is there, which is of the same positions: PyTorch puts 0 where a
  /// softmax of nothing but -inf is NaN.
  bool selectsZeros(SelectOp select, ArrayRef<unsigned> marked) {
    auto isZero = [&](unsigned branch) {
      Value value = select->getOperand(branch);
      if (llvm::is_contained(marked, branch))
        return marks[value].kind == Kind::Zero;
      DenseElementsAttr elements = filled.get(value);
      return elements && elements.isSplat() && number(elements, 0) == 0 &&
             elements == empty.get(value);
    };
    return llvm::is_contained(marked, 0u) && isZero(1) && isZero(2);
  }

  std::string kindOf(Operation *op, ArrayRef<unsigned> marked, const Rule &rule,
                     unsigned factor, Kind &kind, bool &isCausal) {
    if (auto select = dyn_cast<SelectOp>(op);
        select && selectsZeros(select, marked)) {
      kind = Kind::Zero;
      return {};
    }
    Kind own = marks[op->getOperand(marked[0])].kind;
    for (unsigned number : marked)
      if (marks[op->getOperand(number)].kind != own)
        return "combines positions of two kinds";
    bool isMask = marked.size() == 1 && (isa<AddOp>(op) || isa<SelectOp>(op));
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned number = operand.getOperandNumber();
      if (llvm::is_contained(marked, number))
        continue;
      // Not broadcast: another number at each position.
      bool varies = dimOf(rule.operands[number], factor).has_value();
      if (varies && !isMask)
        return "depends on the place in the cache";
    }
    kind = own;
    if (auto add = dyn_cast<AddOp>(op); add && isMask)
      return addMask(op->getOperand(1 - marked[0]),
                     rule.operands[1 - marked[0]], factor, kind, isCausal);
    if (auto select = dyn_cast<SelectOp>(op); select && isMask)
      return selectByMask(select, marked[0], rule, factor, kind, isCausal);
    auto costed = dyn_cast<OpCostInterface>(op);
    bool moves = isa<CastOp, BroadcastOp>(op) ||
                 (costed && costed.getCostClass() == CostClass::View);
    bool scales = isa<MulOp, DivOp>(op) && marked.front() == 0;
    if (!moves && !(scales && own == Kind::Zero)) {
      kind = Kind::Raw;
      isCausal = false;
    }
    return {};
  }

  /// What `value` says at each position, with and without filled positions:
  /// `visible` and `hidden` are asked of each number. Sets `hides`.
  template <typename IsHidden>
  std::string readMask(Value value, const TensorFactors &tensor,
                       unsigned factor, IsHidden isHidden, bool &hides,
                       bool &isCausal) {
    hides = false;
    auto dim = dimOf(tensor, factor);
    if (!dim)
      return {};
    DenseElementsAttr with = filled.get(value);
    DenseElementsAttr without = empty.get(value);
    if (!with || !without)
      return "adds or selects by what is no function of the mask alone";
    int64_t inner = 1;
    ArrayRef<int64_t> shape = with.getType().getShape();
    for (int64_t size : shape.drop_front(*dim + 1))
      inner *= size;
    int64_t numHidden = 0, numSeen = 0;
    // New positions see those before them, which the dimension in front counts.
    bool byQuery = *dim > 0 && shape[*dim - 1] == use.newCount;
    bool hidesLater = byQuery;
    for (int64_t i = 0, n = with.getNumElements(); i < n; ++i) {
      int64_t place = i / inner % shape[*dim] - use.length;
      if (place >= 0) {
        int64_t query = byQuery ? i / inner / shape[*dim] % use.newCount : 0;
        bool hidden = isHidden(with, i);
        if (hidden && place <= query)
          return "hides new positions from themselves or those behind them";
        hidesLater &= hidden || place <= query;
        continue;
      }
      if (isHidden(with, i))
        return "hides positions that are filled, by their place in the cache";
      ++(isHidden(without, i) ? numHidden : numSeen);
    }
    if (numHidden && numSeen)
      return "hides some positions that are not filled, and not others";
    hides = numHidden > 0;
    isCausal |= hidesLater;
    if (hides && maskDims.lookup(value) != *dim)
      return "combines positions of the mask";
    return {};
  }

  static double number(DenseElementsAttr elements, int64_t i) {
    if (isa<FloatType>(elements.getElementType()))
      return (elements.isSplat() ? elements.getSplatValue<APFloat>()
                                 : elements.getValues<APFloat>()[i])
          .convertToDouble();
    APInt value = elements.isSplat() ? elements.getSplatValue<APInt>()
                                     : elements.getValues<APInt>()[i];
    return value.getBitWidth() == 1 ? double(value.getZExtValue())
                                    : double(value.getSExtValue());
  }

  std::string addMask(Value bias, const TensorFactors &tensor, unsigned factor,
                      Kind &kind, bool &isCausal) {
    bool hides = false;
    std::optional<double> common;
    bool differs = false;
    auto isHidden = [&](DenseElementsAttr elements, int64_t i) {
      double value = number(elements, i);
      if (value <= kHidden)
        return true;
      differs |= common && *common != value;
      common = value;
      return false;
    };
    std::string why = readMask(bias, tensor, factor, isHidden, hides, isCausal);
    if (why.empty() && differs)
      why = "adds another number at each place in the cache";
    if (hides)
      kind = Kind::Hidden;
    return why;
  }

  std::string selectByMask(SelectOp op, unsigned marked, const Rule &rule,
                           unsigned factor, Kind &kind, bool &isCausal) {
    if (marked == 0)
      return "selects by what is at each position";
    bool hides = false;
    auto isHidden = [&](DenseElementsAttr elements, int64_t i) {
      return (number(elements, i) != 0) != (marked == 1);
    };
    std::string why = readMask(op.getCondition(), rule.operands[0], factor,
                               isHidden, hides, isCausal);
    if (!why.empty())
      return why;
    DenseElementsAttr fill = filled.get(op->getOperand(marked == 1 ? 2 : 1));
    if (!fill || !fill.isSplat() || number(fill, 0) > kHidden)
      return "fills hidden positions with what is no constant of at most -1e4";
    if (hides)
      kind = Kind::Hidden;
    return {};
  }

  const CacheUse &use;
  KnownValues filled, empty; ///< with all positions filled, and with none
  DenseMap<Value, Mark> marks;
  DenseMap<Value, unsigned> maskDims;
};
} // namespace

std::optional<Seen> kerf::findSeenPadding(const CacheUse &use) {
  return Follower(use).run();
}
