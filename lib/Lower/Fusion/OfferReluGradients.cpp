//===- OfferReluGradients.cpp - gradients of ReLU, offered to products ----===//
//
// Problem: behind the product that gives the gradient g of y = relu(a b), a
// kernel keeps g where y > 0. cuBLASLt can do that in the product, from bits
// that it wrote together with y; not always, and not always faster.
//
// Idea: as in OfferBiasGradients.cpp the program keeps its kernel, which works
// in place over g, and the product gets an offer that names the product of y.
// The runtime allocates the bits, which live from one product to the other, in
// one function.
//
// Invariant: if the offer is ignored, only the place of the kernel's result
// differs. Only kernels that do nothing else qualify. Linear in the groups.
//
//===----------------------------------------------------------------------===//
#include "BlockOrder.h"

#include "../Library/LibraryCall.h"
#include "../OpKinds.h"

#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_OFFERRELUGRADIENTS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
class ReluGradients {
public:
  ReluGradients(func::FuncOp function) : block(function.getBody().front()) {
    SmallVector<int64_t> sums = accumulators(function);
    for (OpOperand &use : block.getTerminator()->getOpOperands())
      if (sums[use.getOperandNumber()] < 0)
        returned.insert(computedValue(use.get()));
  }

  void run() {
    for (auto group : block.getOps<exec::GroupOp>())
      if (!group.getAtLoad())
        offer(group);
  }

private:
  /// The value that `value` is inside a kernel, behind reshapes and rounding.
  static Value strip(Value value, DenseSet<Operation *> &seen) {
    while (Operation *def = value.getDefiningOp()) {
      if (!isa<nn::ReshapeOp>(def) && !isRounding(def))
        break;
      seen.insert(def);
      value = def->getOperand(0);
    }
    return value;
  }

  /// The operand of the group that `value` is in its body, if it is an argument
  /// there; else null.
  static Value inputOf(exec::GroupOp group, Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? group.getInputs()[argument.getArgNumber()] : Value();
  }

  /// The product that stores `value` as a dense tensor, or null.
  static exec::MatmulOp productOf(Value value) {
    auto product = value.getDefiningOp<exec::MatmulOp>();
    return product && product.getBatch().empty() && !product.getDstView()
               ? product
               : exec::MatmulOp();
  }

  /// Whether the value has memory of its own that no other op uses as
  /// destination.
  bool isFree(Value value) const {
    return !returned.contains(value) && !overwrittenBy(cast<OpResult>(value));
  }

  void offer(exec::GroupOp group) {
    if (group.getNumResults() != 1 || group.getInputs().size() != 2)
      return;
    Block &body = group.getBody().front();
    DenseSet<Operation *> seen;
    Value stored = body.getTerminator()->getOperand(0);
    auto select = strip(stored, seen).getDefiningOp<nn::SelectOp>();
    if (!select)
      return;
    auto compare = select->getOperand(0).getDefiningOp<nn::LessEqualOp>();
    if (!compare || splatValue(select->getOperand(1)) != 0.0 ||
        splatValue(compare->getOperand(1)) != 0.0)
      return;
    seen.insert(select);
    seen.insert(compare);
    Value y = compare->getOperand(0), g = select->getOperand(2);
    ArrayRef<int64_t> shape = select.getType().getShape();
    if (typeOf(y).getShape() != shape || typeOf(g).getShape() != shape)
      return;
    y = inputOf(group, strip(y, seen));
    g = inputOf(group, strip(g, seen));
    if (!y || !g || y == g)
      return;
    // Nothing else in the kernel, which can do it in place.
    SmallVector<Operation *> ops;
    for (Operation &op : body.without_terminator()) {
      if (!seen.contains(&op) && !isa<nn::ConstantOp>(op))
        return;
      ops.push_back(&op);
    }
    unsigned place = llvm::find(group.getInputs(), g).getIndex();
    if (typeOf(g).getElementType() != typeOf(stored).getElementType() ||
        !mayShareBuffer(ops, place, 0))
      return;
    exec::MatmulOp product = productOf(g), forward = productOf(y);
    if (!product || !forward || !forward->isBeforeInBlock(product) ||
        !g.hasOneUse() || !destinationsOf(group).front().get().hasOneUse() ||
        !isFree(g) || !isFree(group.getResult(0)) || product.getSums() ||
        product.getBias() || !product.getEpilogue().empty() ||
        forward.getEpilogue().empty() ||
        forward.getEpilogue().back().getKind() != exec::PostOpKind::Relu ||
        product.getM() != forward.getM() || product.getN() != forward.getN() ||
        product.getInputType().isF16() || forward.getInputType().isF16() ||
        !offered.insert(forward).second)
      return;
    overwrite(group, g);
    product.setReluGradientAttr(exec::ReluGradientAttr::get(
        group.getContext(), forward.getIndex(), group.getIndex()));
  }

  static void overwrite(exec::GroupOp group, Value place) {
    OpOperand &destination = destinationsOf(group).front();
    Operation *memory = destination.get().getDefiningOp();
    Type type = group.getResultTypes()[0];
    if (place.getType() != type) {
      OpBuilder builder(group);
      place = nn::ReshapeOp::create(builder, group.getLoc(), type, place);
    }
    destination.set(place);
    memory->erase();
  }

  Block &block;
  DenseSet<Value> returned;
  DenseSet<Operation *> offered; ///< products of whose ReLU there is an offer
};

struct OfferReluGradients
    : kerf::impl::OfferReluGradientsBase<OfferReluGradients> {
  void runOnOperation() override {
    FailureOr<Block *> block = blockOf(getOperation());
    if (failed(block))
      return signalPassFailure();
    if (*block && exec::TargetAttr::of(getOperation()).getGradientEpilogues())
      ReluGradients(getOperation()).run();
  }
};
} // namespace
