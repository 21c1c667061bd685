// What Kerf has to know of the two ops: which loops they are made of, what they
// cost, and their gradients. Nothing else is said about devices.
#include "Toy.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace kerf;
using namespace toy;

#include "ToyDialect.cpp.inc"
#define GET_OP_CLASSES
#include "Toy.cpp.inc"

void ToyDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Toy.cpp.inc"
      >();
}

// ([m, k], [k, n]) -> ([m, n]), k summed up; linear in either operand.
ShardingRule ProductOp::getShardingRule() {
  ShardingRule rule;
  unsigned m = rule.addFactor(getType().getDimSize(0));
  unsigned n = rule.addFactor(getType().getDimSize(1));
  unsigned k = rule.addFactor(getA().getType().getDimSize(getTa() ? 0 : 1),
                              FactorKind::Reduction, ReductionKind::Sum);
  rule.operands = {getTa() ? TensorFactors{{k}, {m}} : TensorFactors{{m}, {k}},
                   getTb() ? TensorFactors{{n}, {k}} : TensorFactors{{k}, {n}}};
  rule.results = {{{m}, {n}}};
  rule.linearGroups = {{0}, {1}};
  rule.multipliers = {0, 1};
  return rule;
}

int64_t ProductOp::getFlops(ArrayRef<RankedTensorType> operands,
                            ArrayRef<RankedTensorType> results) {
  return 2 * results[0].getNumElements() *
         operands[0].getDimSize(getTa() ? 0 : 1);
}
CostClass ProductOp::getCostClass() { return CostClass::Matmul; }
LibraryWork ProductOp::getLibraryWork() { return LibraryWork::Product; }

// C = A B: dA = dC B^T, dB = A^T dC; transposed where an operand is.
FailureOr<SmallVector<Value>>
ProductOp::buildVectorJacobianProduct(OpBuilder &builder,
                                      ValueRange gradients) {
  Value dc = gradients[0], a = getA(), b = getB();
  bool ta = getTa(), tb = getTb();
  auto product = [&](Value like, Value x, Value y, bool tx, bool ty) {
    return ProductOp::create(builder, getLoc(), like.getType(), x, y, tx, ty)
        .getResult();
  };
  Value da = ta ? product(a, b, dc, tb, true) : product(a, dc, b, false, !tb);
  Value db = tb ? product(b, dc, a, true, ta) : product(b, a, dc, !ta, false);
  return SmallVector<Value>{da, db};
}

ShardingRule MultiplyOp::getShardingRule() {
  ShardingRule rule = elementwiseShardingRule(*this);
  rule.linearGroups = {{0}, {1}};
  rule.multipliers = {0, 1};
  return rule;
}

int64_t MultiplyOp::getFlops(ArrayRef<RankedTensorType>,
                             ArrayRef<RankedTensorType> results) {
  return results[0].getNumElements();
}
CostClass MultiplyOp::getCostClass() { return CostClass::Elementwise; }
LibraryWork MultiplyOp::getLibraryWork() { return LibraryWork::None; }

FailureOr<SmallVector<Value>>
MultiplyOp::buildVectorJacobianProduct(OpBuilder &builder,
                                       ValueRange gradients) {
  Value da = create(builder, getLoc(), getType(), gradients[0], getB());
  Value db = create(builder, getLoc(), getType(), gradients[0], getA());
  return SmallVector<Value>{da, db};
}
