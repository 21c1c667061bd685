//===- Propagate.cpp - plans from annotations alone -----------------------===//
//
// Problem: whoever knows how a few values are to be cut wants the rest to
// follow, without a search.
//
// Idea: every op's rule says which dimensions are cut together: the axes of one
// dimension go to all others of the same factor. Axes spread from annotated
// values over ops, in program order and back, until nothing changes; first over
// ops that reduce nothing, so that what is certain comes before what leaves
// parts of sums. Values that an annotation names never change; others only get
// more axes, so this ends. Where two dimensions of a factor disagree, the first
// of results, then operands, decides, and a remark names the op.
//
// Invariant: a value is cut by an axis at most once. Rounds are linear in the
// uses; there are at most as many as axes times the longest path.
//
//===----------------------------------------------------------------------===//
#include "EntryFunction.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Plan/Passes.h"

namespace kerf::plan {
#define GEN_PASS_DEF_PROPAGATE
#include "kerf/Plan/Passes.h.inc"
} // namespace kerf::plan

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;
using dist::AxisList;
using dist::AxisRef;
using dist::Layout;
using dist::ShardingAttr;

namespace {

/// The axes on each factor of an op.
using FactorAxes = SmallVector<AxisList, 4>;

bool isPrefix(ArrayRef<AxisRef> a, ArrayRef<AxisRef> b) {
  return a.size() <= b.size() && llvm::equal(a, b.take_front(a.size()));
}

class Propagation {
public:
  Propagation(func::FuncOp function, dist::MeshAttr attr)
      : function(function), block(function.getBody().front()), attr(attr),
        mesh(attr.toMesh()) {}

  LogicalResult run() {
    if (mesh.find(dist::kStageAxis) || mesh.numMicroBatches() > 1)
      return function.emitError("the mesh has stages or micro-batches, which "
                                "only a search cuts: use kerf-plan");
    if (failed(collect()) || failed(readAnnotations()))
      return failure();
    for (bool reductions : {false, true})
      for (bool changed = true; changed;) {
        changed = false;
        for (Node &node : nodes)
          changed |= spread(node, reductions);
        for (Node &node : llvm::reverse(nodes))
          changed |= spread(node, reductions);
      }
    write();
    return success();
  }

private:
  struct Node {
    Operation *op;
    ShardingRule rule;
    bool reduces;
  };

  LogicalResult collect() {
    for (Operation &op : block.without_terminator()) {
      if (isa<dist::ReshardOp>(op) || op.hasAttr(dist::kPlan))
        continue;
      if (isa<dist::DistDialect>(op.getDialect()))
        return op.emitError("is part of a step of training, which only a "
                            "search cuts: use kerf-plan");
      ShardingRule rule = shardingRuleOf(&op);
      bool reduces = llvm::any_of(rule.factors, [](const Factor &factor) {
        return factor.kind == FactorKind::Reduction;
      });
      nodes.push_back({&op, std::move(rule), reduces});
    }
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Annotations
  //===--------------------------------------------------------------------===//

  Layout &layoutOf(Value value) {
    auto [it, isNew] = layouts.try_emplace(
        value, static_cast<size_t>(plannedType(value).getRank()));
    return it->second;
  }

  /// A value with this layout; `closed`: that nothing changes.
  LogicalResult give(Value value, Attribute sharding, bool closed) {
    auto entry = dyn_cast_or_null<ShardingAttr>(sharding);
    if (!entry)
      return success();
    auto layout = entry.toLayout(mesh);
    if (!layout)
      return emitError(value.getLoc()) << llvm::toString(layout.takeError());
    if (isClosed.contains(value))
      return success();
    layout->partial.clear();
    layouts[value] = std::move(*layout);
    if (closed)
      isClosed.insert(value);
    return success();
  }

  /// What an op must give is certain; what it wants, or the function returns,
  /// is where its operand starts from.
  LogicalResult readAnnotations() {
    for (BlockArgument argument : block.getArguments())
      if (failed(give(
              argument,
              function.getArgAttr(argument.getArgNumber(), dist::kSharding),
              true)))
        return failure();
    for (Operation &op : block.without_terminator()) {
      if (auto reshard = dyn_cast<dist::ReshardOp>(op)) {
        if (failed(give(reshard.getResult(), reshard.getTo(), true)) ||
            failed(give(reshard.getX(), reshard.getTo(), false)))
          return failure();
        continue;
      }
      for (auto [result, sharding] :
           llvm::zip(op.getResults(), dist::getResultShardings(&op)))
        if (failed(give(result, sharding, true)))
          return failure();
      for (auto [operand, sharding] :
           llvm::zip(op.getOperands(), dist::getOperandShardings(&op)))
        if (!layouts.contains(operand) &&
            failed(give(operand, sharding, false)))
          return failure();
    }
    for (OpOperand &use : block.getTerminator()->getOpOperands())
      if (!layouts.contains(use.get()) &&
          failed(give(
              use.get(),
              function.getResultAttr(use.getOperandNumber(), dist::kSharding),
              false)))
        return failure();
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Factors
  //===--------------------------------------------------------------------===//

  /// Calls visit(value, dim, factor, isMajorOfSeveral) for each dimension that
  /// a factor can cut; results first.
  static void
  forEachCut(const Node &node,
             llvm::function_ref<void(Value, size_t, unsigned, bool)> visit) {
    auto visitAll = [&](ArrayRef<TensorFactors> sides, ValueRange values) {
      for (auto [tensor, value] : llvm::zip(sides, values))
        for (auto [dim, list] : llvm::enumerate(tensor))
          if (!list.empty() &&
              node.rule.factors[list[0]].kind != FactorKind::Replicated)
            visit(value, dim, list[0], list.size() > 1);
    };
    visitAll(node.rule.results, node.op->getResults());
    visitAll(node.rule.operands, node.op->getOperands());
  }

  /// What the dimensions of each factor ask for, as far as it can be. With
  /// `remarks`, where they disagree is said.
  FactorAxes combine(const Node &node, bool remarks) {
    FactorAxes axes(node.rule.factors.size());
    SmallVector<bool> mustDivide;
    for (const Factor &factor : node.rule.factors)
      mustDivide.push_back(factor.mustDivide);
    bool disagree = false;
    forEachCut(node, [&](Value value, size_t dim, unsigned factor, bool major) {
      mustDivide[factor] = mustDivide[factor] || major;
      const AxisList &wanted = layoutOf(value).dims[dim];
      if (isPrefix(axes[factor], wanted))
        axes[factor] = wanted;
      else
        disagree |= !isPrefix(wanted, axes[factor]);
    });
    if (remarks && disagree)
      node.op->emitRemark("operands and results want to be cut differently: "
                          "some are brought to another sharding");
    // A minor factor is whole, so all that is cut with it is.
    for (const auto *side : {&node.rule.operands, &node.rule.results})
      for (const TensorFactors &tensor : *side)
        for (const DimFactors &list : tensor)
          for (size_t i = 1; i < list.size(); ++i)
            axes[list[i]].clear();
    AxisList used;
    std::optional<ReductionKind> reduction;
    for (bool reduced : {false, true})
      for (auto [number, factor] : llvm::enumerate(node.rule.factors)) {
        if ((factor.kind == FactorKind::Reduction) != reduced)
          continue;
        AxisList &mine = axes[number];
        fit(mine, factor.size, mustDivide[number]);
        bool isUsed = llvm::any_of(mine, [&](const AxisRef &ref) {
          return llvm::any_of(used, [&](const AxisRef &other) {
            return dist::overlap(ref, other);
          });
        });
        // A value is a part of a sum or of a maximum, not of both.
        if (isUsed ||
            (reduced && !mine.empty() &&
             reduction.value_or(factor.reduction) != factor.reduction))
          mine.clear();
        if (reduced && !mine.empty())
          reduction = factor.reduction;
        used.append(mine);
      }
    return axes;
  }

  /// Drops minor axes until the parts are none too many.
  static void fit(AxisList &axes, int64_t size, bool mustDivide) {
    while (!axes.empty() && (dist::numShards(axes) > size ||
                             (mustDivide && size % dist::numShards(axes) != 0)))
      axes.pop_back();
  }

  bool spread(Node &node, bool reductions) {
    if (node.reduces && !reductions)
      return false;
    FactorAxes axes = combine(node, false);
    bool changed = false;
    forEachCut(node, [&](Value value, size_t dim, unsigned factor, bool) {
      if (isClosed.contains(value))
        return;
      Layout &layout = layoutOf(value);
      AxisList &mine = layout.dims[dim];
      if (mine.size() >= axes[factor].size() || !isPrefix(mine, axes[factor]))
        return;
      for (auto [other, list] : llvm::enumerate(layout.dims))
        for (const AxisRef &ref : list)
          if (other != dim &&
              llvm::any_of(axes[factor], [&](const AxisRef &wanted) {
                return dist::overlap(ref, wanted);
              }))
            return;
      mine = axes[factor];
      changed = true;
    });
    return changed;
  }

  //===--------------------------------------------------------------------===//
  // The plan
  //===--------------------------------------------------------------------===//

  ShardingAttr toAttr(Layout layout) {
    layout.canonicalize();
    return ShardingAttr::get(function.getContext(), attr, layout);
  }

  void write() {
    for (Node &node : nodes) {
      FactorAxes axes = combine(node, true);
      auto layoutUnder = [&](const TensorFactors &tensor) {
        Layout layout(tensor.size());
        for (auto [dim, list] : llvm::enumerate(tensor))
          if (!list.empty())
            layout.dims[dim] = axes[list[0]];
        return layout;
      };
      SmallVector<ShardingAttr> operands, results;
      for (const TensorFactors &tensor : node.rule.operands)
        operands.push_back(toAttr(layoutUnder(tensor)));
      for (const TensorFactors &tensor : node.rule.results) {
        Layout layout = layoutUnder(tensor);
        for (auto [number, factor] : llvm::enumerate(node.rule.factors))
          if (factor.kind == FactorKind::Reduction && !axes[number].empty()) {
            layout.partial.append(axes[number]);
            layout.reduction = factor.reduction;
          }
        results.push_back(toAttr(std::move(layout)));
      }
      dist::setOperandShardings(node.op, operands);
      dist::setResultShardings(node.op, results);
    }
    for (auto reshard : block.getOps<dist::ReshardOp>())
      dist::setResultShardings(reshard, reshard.getTo());
    for (BlockArgument argument : block.getArguments())
      function.setArgAttr(argument.getArgNumber(), dist::kSharding,
                          toAttr(layoutOf(argument)));
    for (OpOperand &use : block.getTerminator()->getOpOperands())
      if (!function.getResultAttr(use.getOperandNumber(), dist::kSharding))
        function.setResultAttr(use.getOperandNumber(), dist::kSharding,
                               toAttr(layoutOf(use.get())));
  }

  func::FuncOp function;
  Block &block;
  dist::MeshAttr attr;
  dist::Mesh mesh;
  std::vector<Node> nodes;
  DenseMap<Value, Layout> layouts;
  DenseSet<Value> isClosed;
};

struct Propagate : plan::impl::PropagateBase<Propagate> {
  void runOnOperation() override {
    dist::MeshAttr mesh = dist::getMesh(getOperation());
    if (!mesh) {
      getOperation().emitError("the module has no dist.mesh");
      return signalPassFailure();
    }
    std::string message;
    func::FuncOp function = entryToPlan(getOperation(), message);
    if (!function) {
      getOperation().emitError(message);
      return signalPassFailure();
    }
    if (failed(Propagation(function, mesh).run()))
      signalPassFailure();
  }
};

} // namespace
