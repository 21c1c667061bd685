//===- Offers.cpp - what a product could do beside ------------------------===//
//
// Problem: the gradient of a bias is the sum over rows of dy, which the product
// that computes the weights' gradient, x^T dy, reads anyway. cuBLASLt can write
// both, but not for all types and shapes, and not always faster: only the
// machine that runs the program can say.
//
// Idea: the program keeps its kernel. Where one computes nothing but the sums
// over all rows of what a product reduces over, the product gets an offer: the
// kernel's buffer is among what it may write, and at load the runtime decides
// which of the two does. Sums that are cut into parts (split-reductions) count
// as well: what reads them adds the parts up, so that the first may have it
// all. Casts in between do not matter: what is summed then is rounded as the
// product reads it.
//
// Invariant: a program whose offers are all ignored is the program without
// offers, but for readers of sums that come behind the product, too; where that
// would make a cycle, or put off communication, there is no offer. Linear in
// the units, but for one walk of the graph per offer.
//
//===----------------------------------------------------------------------===//
#include "Offers.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

using namespace mlir;
using namespace kerf;

bool UnitGraph::isReachable(int64_t from, const DenseSet<int64_t> &to) const {
  DenseSet<int64_t> seen = {from};
  SmallVector<int64_t> stack = {from};
  while (!stack.empty())
    for (int64_t next : successors[stack.pop_back_val()]) {
      if (to.contains(next))
        return true;
      if (seen.insert(next).second)
        stack.push_back(next);
    }
  return false;
}

/// Not in float16, say.
static bool hasRange(Value value) {
  Type element = typeOf(value).getElementType();
  return element.isF32() || element.isBF16();
}

bool kerf::isRounding(Operation *op) {
  auto cast = dyn_cast_or_null<nn::CastOp>(op);
  return cast && hasRange(cast.getX()) && hasRange(cast.getResult());
}

/// What `value` has the elements of, in the same order.
static Value stripOrdered(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!isa<nn::ReshapeOp>(def) && !isRounding(def))
      break;
    value = def->getOperand(0);
  }
  return value;
}

/// Whether both have the same elements, but for rounding, in the same order.
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

/// What sameElements could find two values to have in common.
static Value rootOf(Value value) {
  while (auto transpose =
             (value = stripOrdered(value)).getDefiningOp<nn::TransposeOp>())
    value = transpose.getX();
  return value;
}

namespace {
/// A kernel that is nothing but sums over rows.
struct Sums {
  Value value, source;
  int64_t parts = 1, count = 0, columns = 0;
};

class Offers {
public:
  Offers(const UnitGraph &graph, ArrayRef<Destination> destinations)
      : graph(graph), units(graph.map.units), destinations(destinations) {}

  void run() {
    DenseMap<Value, SmallVector<int64_t>> products;
    for (int64_t id : graph.live)
      if (mayWriteSums(units[id]))
        for (const StridedView *view :
             {&units[id].call->rhs, &units[id].call->lhs})
          products[rootOf(view->base)].push_back(id);
    for (int64_t id : graph.live) {
      auto sums = findSums(units[id]);
      if (!sums)
        continue;
      for (int64_t product : products[rootOf(sums->source)])
        if (offer(*sums, product))
          break;
    }
  }

private:
  static bool mayWriteSums(const Unit &unit) {
    return unit.kind == Unit::Kind::Library && !unit.init && !unit.offer &&
           unit.call->kind == LibraryCall::Kind::Matmul &&
           unit.call->batch.empty() && !unit.call->bias &&
           unit.call->postOps.empty();
  }

  std::optional<Sums> findSums(const Unit &unit) const {
    if (unit.kind != Unit::Kind::Kernel || unit.init ||
        unit.outputs.size() != 1 || unit.inputs.size() != 1)
      return std::nullopt;
    Sums sums;
    sums.value = unit.outputs.front();
    Value end = sums.value;
    size_t seen = 0;
    while (Operation *def = end.getDefiningOp()) {
      if (!isa<nn::ReshapeOp>(def) && !isRounding(def))
        break;
      end = def->getOperand(0);
      ++seen;
    }
    auto reduce = end.getDefiningOp<nn::ReduceOp>();
    if (!reduce || reduce.getKind() != nn::ReduceKind::Sum ||
        !hasRange(reduce.getResult()))
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
          end != sums.value || !llvm::all_of(end.getUsers(), addsParts))
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
      if (!llvm::is_contained(unit.ops, def))
        break;
      if (!isa<nn::ReshapeOp, nn::TransposeOp>(def) && !isRounding(def))
        return std::nullopt;
      value = def->getOperand(0);
      ++seen;
    }
    if (seen != unit.ops.size() ||
        llvm::any_of(destinations, [&](const Destination &destination) {
          return destination.value == sums.value;
        }))
      return std::nullopt;
    return sums;
  }

  static bool addsParts(Operation *user) {
    auto reduce = dyn_cast<nn::ReduceOp>(user);
    return reduce && reduce.getKind() == nn::ReduceKind::Sum &&
           reduce.getDims() == ArrayRef<int64_t>{0};
  }

  /// Whether `view` is dense, with the rows that the product adds over first.
  static bool isSummed(const StridedView &view, bool isRhs, const Sums &sums) {
    int64_t rows = view.sizes[isRhs ? 0 : 1],
            columns = view.sizes[isRhs ? 1 : 0];
    Dims dense = {columns, 1};
    if (!isRhs)
      std::swap(dense[0], dense[1]);
    return rows == sums.count && columns == sums.columns && view.offset == 0 &&
           view.strides == dense &&
           typeOf(view.base).getNumElements() == rows * columns &&
           sameElements(view.base, sums.source);
  }

  bool offer(const Sums &sums, int64_t product) {
    Unit &unit = units[product];
    const LibraryCall &call = *unit.call;
    bool isRhs = isSummed(call.rhs, true, sums);
    if (unit.offer || !(isRhs || isSummed(call.lhs, false, sums)) ||
        call.resultType != typeOf(sums.value).getElementType())
      return false;
    DenseSet<int64_t> readers;
    for (Operation *user : sums.value.getUsers())
      if (auto it = graph.map.unitOf.find(user); it != graph.map.unitOf.end())
        readers.insert(it->second);
    if (!mayWait(readers, product))
      return false;
    unit.offer = Unit::Offer{sums.value, isRhs, sums.parts};
    llvm::SmallVector<int64_t> ordered(readers.begin(), readers.end());
    llvm::sort(ordered);
    for (int64_t reader : ordered)
      graph.addEdge(product, reader);
    return true;
  }

  /// Whether the readers can come behind the product: that comes behind none of
  /// them, and no communication that was planned before it does.
  bool mayWait(const DenseSet<int64_t> &readers, int64_t product) const {
    auto position = [&](int64_t id) {
      return graph.map.position.lookup(units[id].ops.back());
    };
    DenseSet<int64_t> late = {product};
    for (int64_t id : graph.live)
      if (isa<dist::CollectiveOpInterface, dist::WaitOp>(
              units[id].ops.front()) &&
          position(id) < position(product))
        late.insert(id);
    return llvm::none_of(readers, [&](int64_t reader) {
      return late.contains(reader) || graph.isReachable(reader, late);
    });
  }

  const UnitGraph &graph;
  std::vector<Unit> &units;
  ArrayRef<Destination> destinations;
};
} // namespace

void kerf::offerSums(const UnitGraph &graph,
                     ArrayRef<Destination> destinations) {
  Offers(graph, destinations).run();
}
