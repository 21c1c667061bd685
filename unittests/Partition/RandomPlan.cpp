//===- RandomPlan.cpp - random legal plans --------------------------------===//
//
// For each op in program order the free digits of the mesh are thrown onto its
// factors; an operand that is partial may stay so where the op is linear in it.
// What the results then are follows from the rule. Nothing here is clever: that
// is the point.
//
//===----------------------------------------------------------------------===//
#include "RandomGraph.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;
using namespace kerf::test;

Mesh kerf::test::makeMesh(Random &random) {
  Mesh mesh;
  if (chance(random, 30))
    mesh.axes.push_back({kStageAxis.str(), 2 + draw(random, 2), false});
  switch (draw(random, 7)) {
  case 0:
    mesh.axes.push_back({"x", 2, false});
    break;
  case 1:
    mesh.axes.push_back({"x", 4, false});
    break;
  case 2:
    mesh.axes.append({{"x", 2, false}, {"y", 2, false}});
    break;
  case 3:
    mesh.axes.append({{"x", 3, false}, {"y", 2, false}});
    break;
  case 4:
    mesh.axes.push_back({"x", 6, false});
    break;
  case 5:
    mesh.axes.append({{"x", 2, false}, {"y", 4, false}});
    break;
  default:
    mesh.axes.append({{"x", 2, false}, {"y", 2, false}, {"z", 2, false}});
  }
  if (chance(random, 30))
    mesh.axes.push_back({"mb", 2 + draw(random, 2), true});
  return mesh;
}

namespace {

struct Planner {
  Mesh mesh;
  Random &random;
  /// Of its own, so that all else is drawn alike with it and without.
  Random blocks{static_cast<unsigned>(Random(random)())};
  llvm::DenseMap<Value, Layout> layouts{};
  /// Of the function, by which partial sums pass.
  std::optional<Intervals> intervals{};
  /// The dimension of a value that micro-batches cut.
  llvm::DenseMap<Value, int64_t> batchDim{};

  std::optional<unsigned> timeAxis() {
    for (auto [index, axis] : llvm::enumerate(mesh.axes))
      if (axis.isTime)
        return index;
    return std::nullopt;
  }

  /// The axes in space in digits, in random order.
  AxisList digits() {
    AxisList result;
    for (auto [index, axis] : llvm::enumerate(mesh.axes)) {
      if (axis.isTime || axis.name == kStageAxis)
        continue;
      int64_t pre = 1;
      if (axis.size == 4 || axis.size == 6) {
        int64_t first = axis.size == 6 && chance(random, 50) ? 3 : 2;
        result.push_back({static_cast<unsigned>(index), 1, first});
        pre = first;
      }
      result.push_back({static_cast<unsigned>(index), pre, axis.size / pre});
    }
    std::shuffle(result.begin(), result.end(), random);
    return result;
  }

  ShardingAttr attr(MLIRContext *context, const Layout &layout) {
    return ShardingAttr::get(context, MeshAttr::get(context, mesh), layout);
  }

  /// Any layout for a tensor that stands alone (input, output, weight).
  Layout anyLayout(ArrayRef<int64_t> shape, std::optional<int64_t> batch) {
    Layout layout(shape.size());
    if (batch)
      layout.dims[*batch].push_back(wholeAxis(mesh, *timeAxis()));
    for (const AxisRef &digit : digits())
      if (!shape.empty() && chance(random, 60)) {
        int64_t dim = draw(random, shape.size());
        if (batch && dim == *batch &&
            shape[dim] % (numShards(layout.dims[dim]) * digit.size) != 0)
          continue;
        layout.dims[dim].push_back(digit);
      }
    for (size_t dim = 0; dim < shape.size(); ++dim)
      if (batch != static_cast<int64_t>(dim))
        layout.setBlock(
            dim, shape[dim],
            anyBlock(shape[dim], layout.localSize(dim, shape[dim])));
    layout.canonicalize();
    return layout;
  }

  /// Now and then larger blocks than are needed.
  int64_t anyBlock(int64_t size, int64_t min) {
    return chance(blocks, 25)
               ? min + draw(blocks, std::max<int64_t>(size - min, 1))
               : min;
  }

  //===--------------------------------------------------------------------===//
  // Micro-batches
  //===--------------------------------------------------------------------===//

  static bool once(Operation *op) { return runsOncePerStep(getPhase(op)); }

  /// Follows dimension 0 of the inputs through the ops; false if some op mixes
  /// micro-batches. Sums over the batch are partial over time from there on.
  bool followBatch(func::FuncOp main) {
    for (BlockArgument argument : main.getArguments())
      if (ArrayRef<int64_t> shape =
              cast<RankedTensorType>(argument.getType()).getShape();
          !shape.empty() && shape[0] == mesh.axes[*timeAxis()].size * 2)
        batchDim[argument] = 0;
    for (Operation &op : main.getBody().front().without_terminator())
      if (!once(&op) && !isa<SourceOpInterface, AssignOp>(op) &&
          !followBatch(&op))
        return false;
    for (Value result : main.getBody().front().getTerminator()->getOperands())
      if (timePartial.contains(result))
        return false;
    return !batchDim.empty();
  }

  bool followBatch(Operation *op) {
    int64_t parts = mesh.axes[*timeAxis()].size;
    if (isa<AccumulateOp>(op))
      return !batchDim.count(op->getOperand(0));
    ShardingRule rule = cast<ShardingRuleInterface>(op).getShardingRule();
    std::optional<unsigned> factor;
    SmallVector<unsigned> partial;
    for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
      if (timePartial.contains(operand))
        partial.push_back(number);
      auto at = batchDim.find(operand);
      if (at == batchDim.end())
        continue;
      const DimFactors &factors = rule.operands[number][at->second];
      if (factors.empty() || (factor && *factor != factors[0]))
        return false;
      factor = factors[0];
    }
    if (!partial.empty()) {
      auto *group = llvm::find(rule.linearGroups, partial);
      if (factor || group == rule.linearGroups.end() ||
          !intervals->letsPass(op, rule, group - rule.linearGroups.begin()))
        return false;
      opPartial[op] = partial;
      for (Value result : op->getResults())
        timePartial.insert(result);
      return true;
    }
    if (!factor)
      return true;
    const Factor &info = rule.factors[*factor];
    if (info.size % parts != 0)
      return false;
    auto dimWith = [&](const TensorFactors &tensor) {
      for (auto [dim, factors] : llvm::enumerate(tensor))
        if (!factors.empty() && factors[0] == *factor)
          return static_cast<int64_t>(dim);
      return int64_t(-1);
    };
    // Operands without a batch are cut on the way, unless they are inputs.
    for (auto [number, operand] : llvm::enumerate(op->getOperands()))
      if (dimWith(rule.operands[number]) >= 0 && !batchDim.count(operand) &&
          isa<BlockArgument>(operand))
        return false;
    for (auto [number, result] : llvm::enumerate(op->getResults())) {
      if (info.kind == FactorKind::Parallel)
        batchDim[result] = dimWith(rule.results[number]);
      else if (info.kind == FactorKind::Reduction &&
               info.reduction == ReductionKind::Sum)
        timePartial.insert(result);
      else
        return false;
    }
    opBatch[op] = *factor;
    return true;
  }
  llvm::DenseMap<Operation *, unsigned> opBatch{};
  /// Operands that a sum over time comes in by.
  llvm::DenseMap<Operation *, SmallVector<unsigned>> opPartial{};
  llvm::DenseSet<Value> timePartial{};

  //===--------------------------------------------------------------------===//
  // Ops
  //===--------------------------------------------------------------------===//

  static bool clashes(const AxisRef &digit, ArrayRef<AxisRef> axes) {
    return llvm::any_of(
        axes, [&](const AxisRef &other) { return overlap(digit, other); });
  }

  Layout withoutTime(Layout layout) {
    if (timeAxis())
      llvm::erase_if(layout.partial, [&](const AxisRef &ref) {
        return ref.axis == *timeAxis();
      });
    return layout;
  }

  void setLayouts(Operation *op, ArrayRef<ShardingAttr> operands,
                  ArrayRef<ShardingAttr> results) {
    setOperandShardings(op, operands);
    setResultShardings(op, results);
  }

  /// How an op with a rule is cut.
  struct Cut {
    ShardingRule rule;
    SmallVector<AxisList> factorAxes;
    SmallVector<int64_t> sizes;    ///< of each factor, on a device
    std::optional<unsigned> batch; ///< the factor that is cut in time
    AxisList kept;                 ///< operands stay partial over these
    SmallVector<unsigned> keptBy;
    std::optional<ReductionKind> reduction;
  };

  /// Chooses operands that stay partial.
  void keepPartial(Operation *op, Cut &cut) {
    auto &[rule, factorAxes, sizes, batch, kept, keptBy, reduction] = cut;
    bool overTime = opPartial.count(op);
    if (overTime) {
      keptBy = opPartial[op];
      kept = {wholeAxis(mesh, *timeAxis())};
    }
    for (auto [number, group] : llvm::enumerate(rule.linearGroups)) {
      if (!intervals->letsPass(op, rule, number))
        continue;
      if (overTime && ArrayRef(group) != ArrayRef(keptBy))
        continue;
      const Layout &first = layouts[op->getOperand(group[0])];
      bool all = first.isPartial() && first.reduction == ReductionKind::Sum;
      for (unsigned operand : group)
        all &= layouts[op->getOperand(operand)].partial == first.partial &&
               layouts[op->getOperand(operand)].reduction == first.reduction;
      if (all && chance(random, 70)) {
        kept = first.partial;
        keptBy.assign(group.begin(), group.end());
        break;
      }
    }
    if (!kept.empty())
      reduction = ReductionKind::Sum;
  }

  /// The factors that may be cut at all: each outermost in every dimension.
  static std::vector<unsigned> openFactors(const ShardingRule &rule) {
    std::vector<unsigned> open;
    for (unsigned factor = 0; factor < rule.factors.size(); ++factor) {
      bool major = true, seen = false;
      auto look = [&](const TensorFactors &tensor) {
        for (const DimFactors &factors : tensor)
          for (auto [place, number] : llvm::enumerate(factors))
            if (number == factor) {
              seen = true;
              major &= place == 0;
            }
      };
      for (const TensorFactors &tensor : rule.operands)
        look(tensor);
      for (const TensorFactors &tensor : rule.results)
        look(tensor);
      if (seen && major && rule.factors[factor].kind != FactorKind::Replicated)
        open.push_back(factor);
    }
    return open;
  }

  /// Gives the digits of the mesh to factors.
  void cutFactors(Operation *op, Cut &cut) {
    auto &[rule, factorAxes, sizes, batch, kept, keptBy, reduction] = cut;
    std::vector<unsigned> open = openFactors(rule);
    bool uniform = true;
    if (auto source = dyn_cast<SourceOpInterface>(op))
      uniform = source.isParameter() || source.isUniform();
    for (const AxisRef &digit : digits()) {
      if (open.empty() || clashes(digit, kept) || !uniform ||
          !chance(random, 75))
        continue;
      unsigned factor = open[draw(random, open.size())];
      const Factor &info = rule.factors[factor];
      AxisList axes = factorAxes[factor];
      axes.push_back(digit);
      bool divides = info.size % numShards(axes) == 0;
      if ((info.mustDivide || batch == factor) && !divides)
        continue;
      if (info.kind == FactorKind::Reduction) {
        if (reduction && *reduction != info.reduction)
          continue;
        reduction = info.reduction;
      }
      factorAxes[factor] = axes;
    }
    for (auto [number, info] : llvm::enumerate(rule.factors)) {
      int64_t min = dist::localSize(info.size, numShards(factorAxes[number]));
      sizes.push_back(
          batch == number || info.mustDivide ? min : anyBlock(info.size, min));
    }
  }

  static Layout layoutOf(const TensorFactors &tensor, const Cut &cut) {
    const ShardingRule &rule = cut.rule;
    Layout layout(tensor.size());
    for (auto [dim, factors] : llvm::enumerate(tensor)) {
      if (factors.empty())
        continue;
      int64_t minor = 1;
      for (unsigned factor : ArrayRef<unsigned>(factors).drop_front())
        minor *= rule.factors[factor].size;
      layout.dims[dim] = cut.factorAxes[factors[0]];
      layout.setBlock(dim, rule.factors[factors[0]].size * minor,
                      cut.sizes[factors[0]] * minor);
    }
    return layout;
  }

  void planOp(Operation *op) {
    MLIRContext *context = op->getContext();
    if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      Layout layout = layouts[accumulate.getX()];
      layouts[accumulate.getResult()] = withoutTime(layout);
      return setLayouts(op, {attr(context, layout)},
                        {attr(context, withoutTime(layout))});
    }
    if (auto assign = dyn_cast<AssignOp>(op)) {
      ShardingAttr stored = attr(context, layouts[assign.getSource()]);
      return setLayouts(op, {stored, stored}, {});
    }
    Cut cut;
    cut.rule = cast<ShardingRuleInterface>(op).getShardingRule();
    cut.factorAxes.resize(cut.rule.factors.size());
    if (auto found = opBatch.find(op); found != opBatch.end()) {
      cut.batch = found->second;
      cut.factorAxes[*cut.batch].push_back(wholeAxis(mesh, *timeAxis()));
    }
    keepPartial(op, cut);
    cutFactors(op, cut);
    SmallVector<ShardingAttr> operands, results;
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      Layout layout = layoutOf(cut.rule.operands[i], cut);
      if (llvm::is_contained(cut.keptBy, i))
        layout.partial = cut.kept;
      operands.push_back(attr(context, layout));
    }
    for (unsigned i = 0; i < op->getNumResults(); ++i) {
      Layout layout = layoutOf(cut.rule.results[i], cut);
      for (auto [number, factor] : llvm::enumerate(cut.rule.factors))
        if (factor.kind == FactorKind::Reduction)
          layout.partial.append(cut.factorAxes[number]);
      layout.partial.append(cut.kept);
      layout.reduction = cut.reduction.value_or(ReductionKind::Sum);
      layout.canonicalize();
      layouts[op->getResult(i)] = layout;
      results.push_back(attr(context, layout));
    }
    setLayouts(op, operands, results);
  }

  /// Now and then a value is brought somewhere for all its uses.
  void addHub(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    for (OpOperand &use : value.getUses()) // a use that wants it partial
      if (ArrayRef<ShardingAttr> list = getOperandShardings(use.getOwner());
          !list.empty() && list[use.getOperandNumber()].isPartial())
        return;
    if (timePartial.contains(value))
      return;
    std::optional<int64_t> batch;
    if (auto found = batchDim.find(value); found != batchDim.end())
      batch = found->second;
    Layout to = anyLayout(type.getShape(), batch);
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    auto shared = ReshardOp::create(
        builder, value.getLoc(), type, value, ShardingAttr(),
        attr(value.getContext(), to), TypeAttr(), PurposeAttr());
    Operation *producer = value.getDefiningOp();
    setStageOf(shared, producer);
    Phase phase =
        isa<AccumulateOp>(producer) ? Phase::Update : getPhase(producer);
    setPhase(shared, phase);
    value.replaceAllUsesExcept(shared.getResult(), shared);
  }

  void run(ModuleOp module) {
    auto main = module.lookupSymbol<func::FuncOp>("main");
    MLIRContext *context = module.getContext();
    intervals.emplace(main.getBody().front());
    if (auto time = timeAxis(); time && !followBatch(main)) {
      mesh.axes.erase(mesh.axes.begin() + *time);
      batchDim.clear();
      opBatch.clear();
      opPartial.clear();
      timePartial.clear();
    }
    int64_t numStages = 1;
    if (auto axis = mesh.find(kStageAxis))
      numStages = mesh.axes[*axis].size;
    if (getNumChunks(module) > 1 && mesh.numMicroBatches() % numStages != 0) {
      module->removeAttr(kChunks);
      module->removeAttr(kScheduleKind);
    }
    auto builder = OpBuilder::atBlockBegin(module.getBody());
    MeshOp::create(builder, module.getLoc(), "mesh",
                   MeshAttr::get(context, mesh));
    auto batchOf = [&](Value value) -> std::optional<int64_t> {
      auto found = batchDim.find(value);
      if (found == batchDim.end())
        return std::nullopt;
      return found->second;
    };
    for (BlockArgument argument : main.getArguments()) {
      layouts[argument] =
          anyLayout(cast<RankedTensorType>(argument.getType()).getShape(),
                    batchOf(argument));
      main.setArgAttr(argument.getArgNumber(), kSharding,
                      attr(context, layouts[argument]));
    }
    Operation *terminator = main.getBody().front().getTerminator();
    for (OpOperand &use : terminator->getOpOperands())
      main.setResultAttr(
          use.getOperandNumber(), kSharding,
          attr(context,
               anyLayout(cast<RankedTensorType>(use.get().getType()).getShape(),
                         batchOf(use.get()))));

    // Stages are virtual ones here: chunk * numStages + stage.
    int64_t numVirtual = numStages * getNumChunks(module), stage = 0;
    auto setVirtualStage = [&](Operation *op, int64_t number) {
      setStage(op, number % numStages, number / numStages);
    };
    SmallVector<Operation *> ops;
    for (Operation &op : main.getBody().front().without_terminator())
      ops.push_back(&op);
    llvm::DenseMap<int64_t, int64_t> stageOf; // by colocation
    auto forward = llvm::count_if(
        ops, [](Operation *op) { return getPhase(op) == Phase::Forward; });
    // Forward ops in order; all else where they are, or anywhere.
    for (Operation *op : ops) {
      planOp(op);
      std::optional<int64_t> together = getColocation(op);
      if (getPhase(op) != Phase::Forward || isa<AccumulateOp>(op))
        continue;
      bool known = together && stageOf.count(*together);
      if (!known && stage + 1 < numVirtual &&
          chance(random, static_cast<int>(100 * numVirtual / forward)))
        ++stage;
      int64_t here = known ? stageOf[*together] : stage;
      if (together)
        stageOf[*together] = here;
      setVirtualStage(op, here);
    }
    for (Operation *op : ops) {
      if (findStage(op))
        continue;
      std::optional<int64_t> together = getColocation(op);
      bool known = together && stageOf.count(*together);
      int64_t here = known      ? stageOf[*together]
                     : once(op) ? draw(random, numVirtual)
                                : stage;
      if (together)
        stageOf[*together] = here;
      setVirtualStage(op, here);
    }
    for (Operation *op : ops)
      if (chance(random, 15) && !isa<SourceOpInterface, AssignOp>(op))
        addHub(op->getResult(0));
  }
};

} // namespace

void kerf::test::makePlan(ModuleOp module, Mesh mesh, Random &random) {
  Planner{std::move(mesh), random}.run(module);
}

int64_t kerf::test::makeInterleaved(Mesh &mesh, Random &random) {
  int64_t count =
      mesh.axes[*mesh.find(kStageAxis)].size * (1 + draw(random, 2));
  llvm::erase_if(mesh.axes, [](const MeshAxis &each) { return each.isTime; });
  mesh.axes.push_back({"mb", count, true});
  return 2 + draw(random, 2);
}

void kerf::test::setInterleaved(ModuleOp module, int64_t chunks) {
  MLIRContext *context = module.getContext();
  module->setAttr(kScheduleKind, ScheduleKindAttr::get(
                                     context, dist::ScheduleKind::Interleaved));
  module->setAttr(kChunks,
                  IntegerAttr::get(IntegerType::get(context, 64), chunks));
}
