//===- Propagate.cpp - plans from annotations alone -----------------------===//
//
// Problem: whoever knows how a few values are to be cut wants the rest to
// follow, without a search.
//
// Idea: every op's rule says which dimensions are cut together: the axes of one
// dimension go to all others of the same factor. Axes spread from annotated
// values over ops, in program order and back, until nothing changes; first over
// ops that reduce nothing, so that what is certain comes before what leaves
// partial sums. Values that an annotation names never change; others only get
// more axes, so this ends. Annotations of one priority spread before those of
// the next are seen. Axes carry the annotation that they come from: where two
// dimensions of a factor disagree, the one of the smaller priority decides,
// else the first of results, then operands; a remark at the op names both.
//
// Invariant: a value is cut by an axis at most once. Rounds are linear in the
// uses; there are at most as many as axes times the longest path, for each
// priority.
//
//===----------------------------------------------------------------------===//
#include "EntryFunction.h"
#include "WholeOps.h"

#include "kerf/Dist/Annotations.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Dist/Reshard.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Plan/Passes.h"

#include <deque>
#include <map>
#include <set>

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

/// What somebody said about a value.
struct Annotation {
  int64_t priority;
  Location loc;
  std::string what;
};

/// A value's layout, and for each dimension that is cut the annotation that its
/// axes come from.
struct Placed {
  explicit Placed(size_t rank) : layout(rank), causes(rank) {}
  Layout layout;
  SmallVector<const Annotation *, 4> causes;
};

/// The axes on a factor of an op, and where they come from.
struct FactorAxes {
  AxisList axes;
  const Annotation *cause = nullptr;
};

bool isPrefix(ArrayRef<AxisRef> a, ArrayRef<AxisRef> b) {
  return a.size() <= b.size() && llvm::equal(a, b.take_front(a.size()));
}

class Propagation {
public:
  Propagation(func::FuncOp function, dist::MeshAttr attr)
      : function(function), block(function.getBody().front()), attr(attr),
        mesh(attr.toMesh()) {}

  LogicalResult run(const OpRules &rules) {
    if (mesh.find(dist::kStageAxis) || mesh.numMicroBatches() > 1)
      return function.emitError("the mesh has stages or micro-batches, which "
                                "only a search cuts: use kerf-plan");
    if (failed(collect(rules)) || failed(readAnnotations()))
      return failure();
    std::set<int64_t> known;
    for (const Annotation &annotation : annotations)
      known.insert(annotation.priority);
    for (int64_t priority : known) {
      priorities.push_back(priority);
      spreadAll();
    }
    write();
    return success();
  }

private:
  struct Node {
    Operation *op;
    const ShardingRule &rule;
    bool reduces;
  };

  LogicalResult collect(const OpRules &rules) {
    for (Operation &op : block.without_terminator()) {
      if (isa<dist::ReshardOp>(op) || op.hasAttr(dist::kPlan))
        continue;
      if (isa_and_nonnull<dist::DistDialect>(op.getDialect()))
        return op.emitError(
            isa<dist::AccumulateOp, dist::AssignOp>(op)
                ? "is part of a step of training, which only a search cuts: "
                  "use kerf-plan"
                : "is an op on parts of tensors, but propagation decides about "
                  "whole ones, before they are cut");
      const ShardingRule &rule = rules.of(&op);
      bool reduces = llvm::any_of(rule.factors, [](const Factor &factor) {
        return factor.kind == FactorKind::Reduction;
      });
      nodes.push_back({&op, rule, reduces});
    }
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Annotations
  //===--------------------------------------------------------------------===//

  Placed &placedOf(Value value) {
    auto [it, isNew] = placed.try_emplace(
        value, static_cast<size_t>(plannedType(value).getRank()));
    return it->second;
  }

  /// A value with this layout; `closed`: that nothing changes. `what` and `loc`
  /// say whose annotation it is.
  LogicalResult give(Value value, Attribute sharding, bool closed,
                     Attribute priority, Location loc, const Twine &what) {
    auto entry = dyn_cast_or_null<ShardingAttr>(sharding);
    if (!entry)
      return success();
    auto layout = entry.toLayout(mesh);
    if (!layout)
      return emitError(value.getLoc()) << llvm::toString(layout.takeError());
    if (isClosed.contains(value))
      return success();
    layout->partial.clear();
    Placed &mine = placedOf(value);
    // One for all dimensions of a priority: what it leads to in two ways is no
    // conflict.
    std::map<int64_t, const Annotation *> byPriority;
    for (auto [dim, axes] : llvm::enumerate(layout->dims)) {
      int64_t number = dist::priorityOf(priority, dim);
      const Annotation *&annotation = byPriority[number];
      if (!axes.empty() && !annotation)
        annotation =
            &annotations.emplace_back(Annotation{number, loc, what.str()});
      mine.causes[dim] = axes.empty() ? nullptr : annotation;
    }
    mine.layout = std::move(*layout);
    if (closed)
      isClosed.insert(value);
    return success();
  }

  /// What an op must give is certain; what it wants, or the function returns,
  /// is where its operand starts from.
  LogicalResult readAnnotations() {
    auto isWhole = [&](Attribute attribute, Location loc, const Twine &what) {
      auto sharding = dyn_cast_or_null<ShardingAttr>(attribute);
      auto layout = sharding ? sharding.toLayout(mesh) : Layout();
      if (!layout)
        llvm::consumeError(layout.takeError()); // said by give()
      else if (layout->isPartial())
        return LogicalResult(emitError(loc)
                             << what << " is annotated as a part of a sum, "
                             << "which inputs and results never are");
      return success();
    };
    for (auto [index, argument] : llvm::enumerate(block.getArguments()))
      if (failed(isWhole(function.getArgAttr(index, dist::kSharding),
                         argument.getLoc(), "argument " + Twine(index))))
        return failure();
    for (unsigned index = 0; index < function.getNumResults(); ++index)
      if (failed(isWhole(function.getResultAttr(index, dist::kSharding),
                         function.getLoc(), "result " + Twine(index))))
        return failure();
    for (auto [index, argument] : llvm::enumerate(block.getArguments()))
      if (failed(give(argument, function.getArgAttr(index, dist::kSharding),
                      true, function.getArgAttr(index, dist::kPriority),
                      argument.getLoc(), "argument " + Twine(index))))
        return failure();
    for (Operation &op : block.without_terminator()) {
      Attribute priority = op.getAttr(dist::kPriority);
      if (auto reshard = dyn_cast<dist::ReshardOp>(op)) {
        if (failed(give(reshard.getResult(), reshard.getTo(), true, priority,
                        op.getLoc(), "this reshard")) ||
            (!placed.contains(reshard.getX()) &&
             failed(give(reshard.getX(), reshard.getTo(), false, priority,
                         op.getLoc(), "this reshard"))))
          return failure();
        continue;
      }
      for (auto [result, sharding] :
           llvm::zip(op.getResults(), dist::getResultShardings(&op)))
        if (failed(give(result, sharding, true, priority, op.getLoc(),
                        "the plan of this op")))
          return failure();
      for (auto [operand, sharding] :
           llvm::zip(op.getOperands(), dist::getOperandShardings(&op)))
        if (!placed.contains(operand) &&
            failed(give(operand, sharding, false, priority, op.getLoc(),
                        "the plan of this op")))
          return failure();
    }
    for (OpOperand &use : block.getTerminator()->getOpOperands()) {
      unsigned index = use.getOperandNumber();
      if (!placed.contains(use.get()) &&
          failed(give(use.get(), function.getResultAttr(index, dist::kSharding),
                      false, function.getResultAttr(index, dist::kPriority),
                      function.getLoc(), "result " + Twine(index))))
        return failure();
    }
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

  /// What the dimensions of each factor ask for, as far as it can be; of the
  /// annotations that are seen so far. With `remarks`, where they disagree is
  /// said.
  SmallVector<FactorAxes, 4> combine(const Node &node, bool remarks) {
    SmallVector<FactorAxes, 4> found(node.rule.factors.size());
    SmallVector<bool> mustDivide;
    for (const Factor &factor : node.rule.factors)
      mustDivide.push_back(factor.mustDivide);
    /// Axes that are not taken, and those that are instead.
    std::optional<std::pair<FactorAxes, FactorAxes>> conflict;
    auto disagree = [&](const FactorAxes &left, const FactorAxes &taken) {
      // What one annotation leads to in two ways is nobody's mistake.
      if (!conflict && left.cause != taken.cause)
        conflict = {left, taken};
    };
    for (int64_t priority : priorities)
      forEachCut(
          node, [&](Value value, size_t dim, unsigned factor, bool major) {
            mustDivide[factor] = mustDivide[factor] || major;
            Placed &from = placedOf(value);
            if (!from.causes[dim] || from.causes[dim]->priority != priority)
              return;
            FactorAxes wanted = {from.layout.dims[dim], from.causes[dim]};
            AxisList &known = found[factor].axes;
            if (isPrefix(wanted.axes, known))
              return;
            if (isPrefix(known, wanted.axes))
              found[factor] = wanted;
            else
              disagree(wanted, found[factor]);
          });
    // Minor factors of a dimension are never cut, and a factor that is minor in
    // one tensor is cut in none.
    for (const auto *side : {&node.rule.operands, &node.rule.results})
      for (const TensorFactors &tensor : *side)
        for (const DimFactors &list : tensor)
          for (size_t i = 1; i < list.size(); ++i)
            found[list[i]].axes.clear();
    SmallVector<FactorAxes *> used;
    std::optional<ReductionKind> reduction;
    for (int64_t priority : priorities)
      for (bool reduced : {false, true})
        for (auto [number, factor] : llvm::enumerate(node.rule.factors)) {
          FactorAxes &mine = found[number];
          if ((factor.kind == FactorKind::Reduction) != reduced ||
              mine.axes.empty() || mine.cause->priority != priority)
            continue;
          fit(mine.axes, factor.size, mustDivide[number]);
          auto other = llvm::find_if(used, [&](FactorAxes *each) {
            return overlaps(mine.axes, each->axes);
          });
          if (other != used.end())
            disagree(mine, **other);
          // A value is a partial sum or a partial maximum, not both.
          if (other != used.end() ||
              (reduced &&
               reduction.value_or(factor.reduction) != factor.reduction))
            mine.axes.clear();
          if (reduced && !mine.axes.empty())
            reduction = factor.reduction;
          used.push_back(&mine);
        }
    if (remarks && conflict)
      explain(node, conflict->first, conflict->second);
    return found;
  }

  static bool overlaps(ArrayRef<AxisRef> a, ArrayRef<AxisRef> b) {
    return llvm::any_of(a, [&](const AxisRef &ref) {
      return llvm::any_of(
          b, [&](const AxisRef &other) { return dist::overlap(ref, other); });
    });
  }

  void explain(const Node &node, const FactorAxes &left,
               const FactorAxes &taken) {
    // Not at the op itself: it would be printed, which numbers all of the
    // module's values.
    InFlightDiagnostic remark = emitRemark(node.op->getLoc())
                                << "operands and results want to be cut "
                                   "differently: some are brought to another "
                                   "sharding";
    remark.attachNote(taken.cause->loc)
        << taken.cause->what << " asks for " << dist::toString(taken.axes, mesh)
        << ", which is taken";
    remark.attachNote(left.cause->loc)
        << left.cause->what << " asks for " << dist::toString(left.axes, mesh);
  }

  /// Drops minor axes until the parts are none too many.
  static void fit(AxisList &axes, int64_t size, bool mustDivide) {
    while (!axes.empty() && (dist::numShards(axes) > size ||
                             (mustDivide && size % dist::numShards(axes) != 0)))
      axes.pop_back();
  }

  void spreadAll() {
    for (bool reductions : {false, true})
      for (bool changed = true; changed;) {
        changed = false;
        for (Node &node : nodes)
          changed |= spread(node, reductions);
        for (Node &node : llvm::reverse(nodes))
          changed |= spread(node, reductions);
      }
  }

  bool spread(Node &node, bool reductions) {
    if (node.reduces && !reductions)
      return false;
    SmallVector<FactorAxes, 4> found = combine(node, false);
    bool changed = false;
    forEachCut(node, [&](Value value, size_t dim, unsigned factor, bool) {
      if (isClosed.contains(value))
        return;
      Placed &to = placedOf(value);
      AxisList &mine = to.layout.dims[dim];
      const FactorAxes &wanted = found[factor];
      if (mine.size() >= wanted.axes.size() || !isPrefix(mine, wanted.axes))
        return;
      for (auto [other, list] : llvm::enumerate(to.layout.dims))
        if (other != dim && overlaps(list, wanted.axes))
          return;
      mine = wanted.axes;
      to.causes[dim] = wanted.cause;
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
      SmallVector<FactorAxes, 4> found = combine(node, true);
      auto layoutUnder = [&](const TensorFactors &tensor) {
        Layout layout(tensor.size());
        for (auto [dim, list] : llvm::enumerate(tensor))
          if (!list.empty())
            layout.dims[dim] = found[list[0]].axes;
        return layout;
      };
      SmallVector<ShardingAttr> operands, results;
      for (const TensorFactors &tensor : node.rule.operands)
        operands.push_back(toAttr(layoutUnder(tensor)));
      for (const TensorFactors &tensor : node.rule.results) {
        Layout layout = layoutUnder(tensor);
        for (auto [number, factor] : llvm::enumerate(node.rule.factors))
          if (factor.kind == FactorKind::Reduction &&
              !found[number].axes.empty()) {
            layout.partial.append(found[number].axes);
            layout.reduction = factor.reduction;
          }
        results.push_back(toAttr(std::move(layout)));
      }
      dist::setOperandShardings(node.op, operands);
      dist::setResultShardings(node.op, results);
    }
    dist::setArgAttrs(function, dist::kSharding, [&](unsigned index) {
      return toAttr(placedOf(block.getArgument(index)).layout);
    });
    dist::setResultAttrs(function, dist::kSharding, [&](unsigned index) {
      if (function.getResultAttr(index, dist::kSharding))
        return ShardingAttr();
      return toAttr(placedOf(block.getTerminator()->getOperand(index)).layout);
    });
    for (auto reshard : block.getOps<dist::ReshardOp>()) {
      if (ShardingAttr from = written(reshard.getX()))
        dist::setOperandShardings(reshard, from);
      dist::setResultShardings(reshard, reshard.getTo());
    }
    remarkWholeOps();
  }

  /// Says which ops every device computes whole, and what all devices send to
  /// bring them their operands.
  void remarkWholeOps() {
    if (mesh.numRanks() == 1)
      return;
    dist::ReshardWays ways;
    for (Node &node : nodes) {
      if (!lacksRule(node.op))
        continue;
      cost::Int128 bytes = 0;
      for (Value operand : node.op->getOperands())
        bytes += bytesToWhole(operand, ways);
      remarkWhole(node.op, node.op->getLoc(), cost::saturate(bytes));
    }
  }

  cost::Int128 bytesToWhole(Value value, dist::ReshardWays &ways) {
    ShardingAttr from = written(value);
    if (!from)
      return 0;
    auto layout = from.toLayout(mesh);
    if (!layout) {
      llvm::consumeError(layout.takeError()); // said by give()
      return 0;
    }
    RankedTensorType type = plannedType(value);
    std::optional<dist::Reshard> found =
        ways.find(*layout, Layout(layout->dims.size()), type.getShape(),
                  dist::elementBytes(type.getElementType()), mesh);
    cost::Int128 bytes = 0;
    if (found)
      for (const dist::ReshardStep &step : found->steps)
        if (!step.isLocal())
          bytes += cost::Int128(step.groupBytes) *
                   (mesh.numRanks() / step.groupSize);
    return bytes;
  }

  /// The sharding in which a value is given, once it is written; null: it has
  /// none.
  ShardingAttr written(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return function.getArgAttrOfType<ShardingAttr>(argument.getArgNumber(),
                                                     dist::kSharding);
    auto result = cast<OpResult>(value);
    if (auto reshard = dyn_cast<dist::ReshardOp>(result.getOwner()))
      return reshard.getTo();
    ArrayRef<ShardingAttr> all = dist::getResultShardings(result.getOwner());
    return all.empty() ? ShardingAttr() : all[result.getResultNumber()];
  }

  func::FuncOp function;
  Block &block;
  dist::MeshAttr attr;
  dist::Mesh mesh;
  std::vector<Node> nodes;
  /// Never moved, as causes point there.
  std::deque<Annotation> annotations;
  /// The priorities of annotations that were seen so far, smallest first.
  SmallVector<int64_t> priorities;
  DenseMap<Value, Placed> placed;
  DenseSet<Value> isClosed;
};

struct Propagate : plan::impl::PropagateBase<Propagate> {
  void runOnOperation() override {
    dist::MeshAttr mesh = dist::getMesh(getOperation());
    if (!mesh) {
      emitError(getOperation().getLoc(), "the module has no dist.mesh");
      return signalPassFailure();
    }
    OpRules rules;
    func::FuncOp function = entryToPlan(getOperation(), &rules);
    if (!function || failed(Propagation(function, mesh).run(rules)))
      signalPassFailure();
  }
};

} // namespace
