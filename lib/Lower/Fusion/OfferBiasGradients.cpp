//===- OfferBiasGradients.cpp - sums that a product could write besides ---===//
//
// Problem: the gradient of a bias is the sum over rows of dy, which the product
// for the weights' gradient, x^T dy, reads anyway. cuBLASLt can write both, but
// not for all types and shapes, and not always faster: that is only known on
// the machine that runs the program.
//
// Idea: the program keeps its kernel. If a kernel computes nothing but the sums
// of an operand of a product over the dimension that the product contracts, the
// product gets an offer: it may write the kernel's buffer, and at load the
// runtime chooses one of the two. Sums in parts (kerf-split-reductions) qualify
// as well: since their readers add the parts, the first part may hold the whole
// sum. Casts between the two are allowed: the sum is then taken over rounded
// elements, as the product reads them.
//
// Invariant: a program whose offers are all ignored is the program without
// offers, except that readers of the sums also run behind the product. There is
// no offer if that would make a cycle or delay communication. Linear in the
// groups, except for one walk of the graph per offer.
//
//===----------------------------------------------------------------------===//
#include "../Library/Strides.h"
#include "../OpKinds.h"
#include "BlockOrder.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_OFFERBIASGRADIENTS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// For a result or argument of a group, the value that it stands for inside or
/// outside.
static Value throughGroups(Value value) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto group = dyn_cast<exec::GroupOp>(argument.getOwner()->getParentOp());
      if (!group)
        return value;
      value = group.getInputs()[argument.getArgNumber()];
    } else if (auto group = value.getDefiningOp<exec::GroupOp>()) {
      value = group.getBody().front().getTerminator()->getOperand(
          cast<OpResult>(value).getResultNumber());
    } else {
      return value;
    }
  }
}

/// The value behind ops that keep the elements and their order.
static Value stripOrdered(Value value) {
  while (true) {
    value = throughGroups(value);
    Operation *def = value.getDefiningOp();
    if (!isa_and_nonnull<nn::ReshapeOp>(def) && !isRounding(def))
      return value;
    value = def->getOperand(0);
  }
}

/// Whether both have the same elements, except for rounding, in the same order.
static bool sameElements(Value a, Value b) {
  while ((a = stripOrdered(a)) != (b = stripOrdered(b))) {
    auto x = a.getDefiningOp<nn::TransposeOp>(),
         y = b.getDefiningOp<nn::TransposeOp>();
    if (!x || !y || x.getPerm() != y.getPerm() ||
        typeOf(x.getX()).getShape() != typeOf(y.getX()).getShape())
      return false;
    a = x.getX();
    b = y.getX();
  }
  return true;
}

/// The value behind transposes and ops that keep the order: values that
/// sameElements finds equal have the same root.
static Value rootOf(Value value) {
  while (auto transpose =
             (value = stripOrdered(value)).getDefiningOp<nn::TransposeOp>())
    value = transpose.getX();
  return value;
}

/// Whether the op reads partial sums and adds them.
static bool addsParts(Operation *user) {
  auto reduce = dyn_cast<nn::ReduceOp>(user);
  return reduce && reduce.getKind() == nn::ReduceKind::Sum &&
         reduce.getDims() == ArrayRef<int64_t>{0};
}

/// Whether all readers of a group's result do so.
static bool isAddedUp(Value result) {
  return llvm::all_of(result.getUses(), [](OpOperand &use) {
    auto group = dyn_cast<exec::GroupOp>(use.getOwner());
    return group && use.getOperandNumber() < group.getInputs().size() &&
           llvm::all_of(
               group.getBody().getArgument(use.getOperandNumber()).getUsers(),
               addsParts);
  });
}

namespace {
/// A kernel that computes only sums over rows.
struct Sums {
  exec::GroupOp kernel;
  Value source;
  int64_t parts = 1, count = 0, columns = 0;
};

class BiasGradients {
public:
  BiasGradients(Block &block) : block(block), order(block) {
    order.addPlannedOrder();
  }

  void run() {
    DenseMap<Value, SmallVector<exec::MatmulOp>> products;
    for (auto product : block.getOps<exec::MatmulOp>())
      if (mayWriteSums(product))
        for (Value operand : {product.getRhs(), product.getLhs()})
          products[rootOf(operand)].push_back(product);
    for (auto group : block.getOps<exec::GroupOp>()) {
      auto sums = findSums(group);
      if (!sums)
        continue;
      for (exec::MatmulOp product : products[rootOf(sums->source)])
        if (offer(*sums, product))
          break;
    }
  }

private:
  static bool mayWriteSums(exec::MatmulOp product) {
    return product.getBatch().empty() && !product.getBias() &&
           product.getEpilogue().empty() && !product.getReluGradientAttr();
  }

  std::optional<Sums> findSums(exec::GroupOp group) const {
    if (group.getAtLoad() || group.getNumResults() != 1 ||
        group.getInputs().size() != 1 ||
        !group.getDestinations()[0].getDefiningOp<exec::EmptyOp>())
      return std::nullopt;
    Sums sums;
    sums.kernel = group;
    Block &body = group.getBody().front();
    Value stored = body.getTerminator()->getOperand(0), end = stored;
    // The terminator counts as seen.
    int64_t seen = 1;
    while (Operation *def = end.getDefiningOp()) {
      if (!isa<nn::ReshapeOp>(def) && !isRounding(def))
        break;
      end = def->getOperand(0);
      ++seen;
    }
    auto reduce = end.getDefiningOp<nn::ReduceOp>();
    if (!reduce || reduce.getKind() != nn::ReduceKind::Sum ||
        !hasRange(reduce.getType()))
      return std::nullopt;
    RankedTensorType from = typeOf(reduce.getX()), to = reduce.getType();
    ArrayRef<int64_t> dims = reduce.getDims();
    bool leading = true;
    for (auto [i, dim] : llvm::enumerate(dims))
      leading &= dim == static_cast<int64_t>(i);
    if (to.getNumElements() == 0)
      return std::nullopt;
    sums.columns = to.getNumElements();
    if (!leading) {
      if (dims != ArrayRef<int64_t>{1} || from.getRank() != 3 ||
          end != stored || !isAddedUp(group.getResult(0)))
        return std::nullopt;
      sums.parts = from.getDimSize(0);
      sums.columns = from.getDimSize(2);
    }
    sums.count = from.getNumElements() / sums.columns;
    sums.source = reduce.getX();
    // Nothing else in the kernel.
    ++seen;
    Value value = sums.source;
    while (Operation *def = value.getDefiningOp()) {
      if (!isa<nn::ReshapeOp, nn::TransposeOp>(def) && !isRounding(def))
        return std::nullopt;
      value = def->getOperand(0);
      ++seen;
    }
    if (seen != static_cast<int64_t>(body.getOperations().size()))
      return std::nullopt;
    return sums;
  }

  /// Whether an operand of a product is dense, with the rows that the product
  /// adds over first.
  static bool isSummed(exec::MatmulOp product, bool isRhs, const Sums &sums) {
    exec::ViewAttr view =
        isRhs ? product.getRhsViewAttr() : product.getLhsViewAttr();
    Value operand = isRhs ? product.getRhs() : product.getLhs();
    int64_t rows = product.getK(),
            columns = isRhs ? product.getN() : product.getM();
    // Strides of [k, n], or of [m, k].
    Dims dense = {columns, 1};
    if (!isRhs)
      std::swap(dense[0], dense[1]);
    Dims strides =
        isRhs ? denseStrides({rows, columns}) : denseStrides({columns, rows});
    if (view && !view.getStrides().empty())
      strides.assign(view.getStrides().begin(), view.getStrides().end());
    return rows == sums.count && columns == sums.columns &&
           (!view || view.getOffset() == 0) && strides == dense &&
           typeOf(operand).getNumElements() == rows * columns &&
           sameElements(operand, sums.source);
  }

  bool offer(const Sums &sums, exec::MatmulOp product) {
    exec::GroupOp kernel = sums.kernel;
    bool isRhs = isSummed(product, true, sums);
    if (product.getSums() || !(isRhs || isSummed(product, false, sums)) ||
        typeOf(product.getDst()).getElementType() !=
            typeOf(kernel.getResult(0)).getElementType())
      return false;
    llvm::SetVector<Operation *> readers;
    for (Operation *user : kernel->getUsers())
      if (order.contains(user))
        readers.insert(user);
    if (!mayWait(readers.getArrayRef(), product))
      return false;
    Value place = kernel.getDestinations()[0];
    if (product->isBeforeInBlock(place.getDefiningOp()))
      place.getDefiningOp()->moveBefore(product);
    product.getSumsMutable().assign(place);
    product.setBiasGradientAttr(exec::BiasGradientAttr::get(
        kernel.getContext(), isRhs ? exec::Side::Rhs : exec::Side::Lhs,
        sums.parts, kernel.getIndex()));
    for (Operation *reader : readers)
      order.addEdge(product, reader);
    return true;
  }

  /// Whether the readers can run behind the product: it depends on none of
  /// them, and no communication that was planned earlier does.
  bool mayWait(ArrayRef<Operation *> readers, Operation *product) const {
    DenseSet<Operation *> late = {product};
    for (Operation *op : order.getOps())
      if (isa<dist::CollectiveOpInterface, dist::WaitOp>(op) &&
          order.positionOf(op) < order.positionOf(product))
        late.insert(op);
    return llvm::none_of(readers, [&](Operation *reader) {
      return late.contains(reader) || order.isReachable(reader, late);
    });
  }

  Block &block;
  BlockOrder order;
};

struct OfferBiasGradients
    : kerf::impl::OfferBiasGradientsBase<OfferBiasGradients> {
  void runOnOperation() override {
    FailureOr<Block *> block = blockOf(getOperation());
    if (failed(block))
      return signalPassFailure();
    if (*block && exec::TargetAttr::of(getOperation()).getGradientEpilogues())
      BiasGradients(**block).run();
  }
};
} // namespace
