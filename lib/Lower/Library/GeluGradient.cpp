//===- GeluGradient.cpp - the gradient of GELU, found again ---------------===//
//
// Candidates for x are tried: all values from which `result` is computed that
// have dy's type. The formula has some 20 ops, so a try costs as many
// comparisons, and a product that is no GELU gradient fails at the first.
//
//===----------------------------------------------------------------------===//
#include "GeluGradient.h"

#include "kerf/NN/NN.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;

/// More ops than any such formula has.
static constexpr size_t maxOps = 48;

namespace {
/// Whether two values are computed alike from the same leaves.
class Comparison {
public:
  bool same(Value wanted, Value found) {
    if (wanted == found)
      return true;
    Operation *a = wanted.getDefiningOp(), *b = found.getDefiningOp();
    if (!a || !b || a->getName() != b->getName() ||
        a->getNumOperands() != b->getNumOperands() ||
        wanted.getType() != found.getType() ||
        a->getPropertiesAsAttribute() != b->getPropertiesAsAttribute())
      return false;
    if (auto it = known.find(wanted); it != known.end()) {
      // Constants and widenings were copied for each of their uses.
      Operation *before = it->second.getDefiningOp();
      bool again = it->second == found ||
                   (before && isa<nn::ConstantOp, nn::CastOp>(before) &&
                    OperationEquivalence::isEquivalentTo(
                        before, b, OperationEquivalence::IgnoreLocations));
      if (again)
        matched.insert(b);
      return again || isa<nn::ConstantOp>(a);
    }
    for (auto [x, y] : llvm::zip_equal(a->getOperands(), b->getOperands()))
      if (!same(x, y))
        return false;
    known[wanted] = found;
    matched.insert(b);
    return true;
  }
  llvm::SetVector<Operation *> matched;

private:
  DenseMap<Value, Value> known;
};
} // namespace

Value kerf::matchGeluGradient(Value result, Value dy,
                              SmallVectorImpl<Operation *> &ops) {
  Operation *last = result.getDefiningOp();
  if (!isa_and_nonnull<nn::MulOp, nn::CastOp>(last))
    return {};
  // Values from which the result is computed, within the size of a formula.
  llvm::SetVector<Value> reached;
  reached.insert(result);
  bool hasTanh = false;
  for (size_t at = 0; at < reached.size() && at < maxOps; ++at) {
    Operation *def = reached[at].getDefiningOp();
    if (!isa_and_nonnull<nn::MulOp, nn::AddOp, nn::SubOp, nn::TanhOp,
                         nn::CastOp>(def))
      continue;
    hasTanh |= isa<nn::TanhOp>(def);
    for (Value operand : def->getOperands())
      if (operand != dy)
        reached.insert(operand);
  }
  if (!hasTanh)
    return {};
  for (Value x : reached) {
    if (x == result || x.getType() != dy.getType() ||
        isa_and_nonnull<nn::ConstantOp>(x.getDefiningOp()))
      continue;
    Block scratch;
    OpBuilder builder(result.getContext()); // the block has no parent
    builder.setInsertionPointToEnd(&scratch);
    auto gelu = nn::GeluOp::create(builder, result.getLoc(), dy.getType(), x,
                                   builder.getUnitAttr());
    auto built = cast<DifferentiableInterface>(gelu.getOperation())
                     .buildVectorJacobianProduct(builder, {dy});
    Comparison comparison;
    if (failed(built) || !built->front() ||
        !comparison.same(built->front(), result))
      continue;
    // Ops with other readers are kept for these.
    DenseSet<Operation *> own;
    for (Operation *op : llvm::reverse(comparison.matched))
      if (op == last || llvm::all_of(op->getUsers(), [&](Operation *user) {
            return own.contains(user) || user->getBlock() == &scratch;
          }))
        own.insert(op);
    for (Operation *op : comparison.matched)
      if (own.contains(op))
        ops.push_back(op);
    llvm::sort(
        ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return x;
  }
  return {};
}

std::optional<GeluGradient> kerf::findGeluGradient(Value dy) {
  Value end = dy;
  for (int far = 0; far < 3; ++far) {
    if (!end.hasOneUse() || (*end.user_begin())->getNumResults() != 1)
      return std::nullopt;
    end = (*end.user_begin())->getResult(0);
    GeluGradient found{end, {}, {}};
    if (end.getType() == dy.getType() &&
        (found.x = matchGeluGradient(end, dy, found.ops)))
      return found;
  }
  return std::nullopt;
}
