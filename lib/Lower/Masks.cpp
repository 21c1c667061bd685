//===- Masks.cpp - gradients of ReLU, offered to products -----------------===//
//
// Problem: behind the product that gives the gradient g of y = relu(a b) stands
// a kernel that keeps g where y > 0. cuBLASLt can do that in the product, from
// bits that it wrote beside y; not always, and not always faster.
//
// Idea: as in Offers.cpp the program keeps its kernel, which works in place
// over g, and the product gets an offer that names the product of y. Bits are
// the runtime's business: they live from one product to the other, in one
// function.
//
// Invariant: with the offer ignored nothing differs but where the kernel's
// result lies. Only kernels that do nothing else.
//
//===----------------------------------------------------------------------===//
#include "Offers.h"

#include "kerf/Lower/Codegen.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

using namespace mlir;
using namespace kerf;

namespace {
class Masks {
public:
  Masks(const UnitGraph &graph, ArrayRef<Destination> destinations)
      : graph(graph), units(graph.map.units), destinations(destinations) {}

  void run() {
    for (int64_t id : graph.live)
      if (units[id].kind == Unit::Kind::Kernel && !units[id].init)
        offer(id);
  }

private:
  /// The value that `value` is inside a kernel, behind reshapes and rounding.
  Value strip(Value value, const Unit &kernel,
              DenseSet<Operation *> &seen) const {
    while (Operation *def = value.getDefiningOp()) {
      if (!llvm::is_contained(kernel.ops, def) ||
          !(isa<nn::ReshapeOp>(def) || isRounding(def)))
        break;
      seen.insert(def);
      value = def->getOperand(0);
    }
    return value;
  }

  /// The unit of a product that stores `value` dense, if that is one.
  int64_t productOf(Value value) const {
    Operation *def = value.getDefiningOp();
    auto it = def ? graph.map.unitOf.find(def) : graph.map.unitOf.end();
    if (it == graph.map.unitOf.end())
      return -1;
    const Unit &unit = units[it->second];
    bool good =
        unit.kind == Unit::Kind::Library &&
        unit.call->kind == LibraryCall::Kind::Matmul &&
        unit.call->result == value && unit.call->batch.empty() &&
        unit.call->dst.strides == denseStrides({unit.call->m, unit.call->n});
    return good ? it->second : -1;
  }

  bool isKept(Value value) const {
    return llvm::any_of(destinations, [&](const Destination &destination) {
      return destination.value == value;
    });
  }

  void offer(int64_t id) {
    const Unit &kernel = units[id];
    if (kernel.outputs.size() != 1 || kernel.inputs.size() != 2)
      return;
    DenseSet<Operation *> seen;
    Value result = kernel.outputs.front();
    auto select = strip(result, kernel, seen).getDefiningOp<nn::SelectOp>();
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
    y = strip(y, kernel, seen);
    g = strip(g, kernel, seen);
    // Nothing else in the kernel, which can do it in place.
    for (Operation *op : kernel.ops)
      if (!seen.contains(op) && !isa<nn::ConstantOp>(op))
        return;
    auto *place = llvm::find(kernel.inputs, g);
    if (place == kernel.inputs.end() || !llvm::is_contained(kernel.inputs, y) ||
        typeOf(g).getElementType() != typeOf(result).getElementType() ||
        !mayShareBuffer(kernel.ops, place - kernel.inputs.begin(), 0))
      return;
    int64_t product = productOf(g), forward = productOf(y);
    if (product < 0 || forward < 0 || isKept(g) || isKept(result) ||
        llvm::any_of(
            g.getUsers(),
            [&](Operation *user) {
              auto it = graph.map.unitOf.find(user);
              return it == graph.map.unitOf.end() || it->second != id;
            }))
      return;
    const LibraryCall &call = *units[product].call,
                      &relu = *units[forward].call;
    if (units[product].offer || call.bias || !call.postOps.empty() ||
        relu.postOps.empty() ||
        relu.postOps.back().kind != exec::PostOpKind::Relu ||
        call.m != relu.m || call.n != relu.n || call.inputType.isF16() ||
        relu.inputType.isF16() || !masked.insert(forward).second)
      return;
    units[product].mask = Unit::Mask{result, y};
  }

  const UnitGraph &graph;
  std::vector<Unit> &units;
  ArrayRef<Destination> destinations;
  DenseSet<int64_t> masked; ///< products of which there is a mask
};
} // namespace

void kerf::offerMasks(const UnitGraph &graph,
                      ArrayRef<Destination> destinations) {
  Masks(graph, destinations).run();
}
