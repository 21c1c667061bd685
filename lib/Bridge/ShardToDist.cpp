//===- ShardToDist.cpp - annotations of shard as shardings of dist --------===//
//
// Problem: `shard.shard` says how a value is cut where it stands; `dist` tells
// arguments, results, ops and points in between apart.
//
// Idea: what an annotation concerns follows from what is around it. The one
// through which all uses of an argument go is the argument's; the one in front
// of the return is the result's. An op all of whose tensors are annotated, and
// whose rule allows these shardings together, has a plan of them. Any other is
// a `dist.reshard`, which keeps its promise whatever is around it.
//
// A partial sum has no annotation in `shard`: where the operands cut what an op
// adds up, its result is one, and the annotation says where it is brought.
//
//===----------------------------------------------------------------------===//
#include "Bridge.h"

#include "kerf/Bridge/Passes.h"
#include "kerf/Dist/Annotations.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Partition/OpSharding.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace kerf::bridge {
#define GEN_PASS_DEF_SHARDTODIST
#include "kerf/Bridge/Passes.h.inc"
} // namespace kerf::bridge

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

class Shardings {
public:
  Shardings(func::FuncOp function, MeshAttr attr, const Mesh &mesh)
      : function(function), block(function.getBody().front()), attr(attr),
        mesh(mesh) {}

  LogicalResult run() {
    if (failed(readAll()))
      return failure();
    if (shardings.empty())
      return success();
    if (!function.getBody().hasOneBlock())
      return function.emitError("has annotations and control flow, expected "
                                "one block");
    bool isPlanned = planOps();
    isPlanned &= takeArguments();
    isPlanned &= takeReturn();
    for (Operation *op : planned)
      lookThrough(op);
    replaceRest(isPlanned);
    return success();
  }

private:
  //===--------------------------------------------------------------------===//
  // What annotations say
  //===--------------------------------------------------------------------===//

  LogicalResult readAll() {
    WalkResult walked = function.walk([&](shard::ShardOp op) -> WalkResult {
      if (op->getParentOp() != function)
        return op.emitError("stands in a region, where nothing is cut");
      return read(op);
    });
    return failure(walked.wasInterrupted());
  }

  LogicalResult read(shard::ShardOp op) {
    auto made = op.getSharding().getDefiningOp<shard::ShardingOp>();
    if (!made)
      return op.emitError("has a sharding that is not known");
    if (!made.getStaticHaloSizes().empty() ||
        !made.getDynamicHaloSizes().empty())
      return made.emitError("has halos, which dist does not have");
    if (!made.getDynamicShardedDimsOffsets().empty())
      return made.emitError("has parts of sizes that are not known");
    auto type = cast<RankedTensorType>(op.getType());
    auto axes = made.getSplitAxes().getAxes();
    Layout layout(type.getRank());
    for (auto [dim, list] : llvm::enumerate(axes)) {
      if (list.empty())
        continue;
      if (static_cast<int64_t>(dim) >= type.getRank())
        return op.emitError("cuts dimension ") << dim << " of " << type;
      for (shard::GridAxis axis : list.asArrayRef()) {
        if (axis < 0 || static_cast<size_t>(axis) >= mesh.axes.size())
          return made.emitError("names axis ")
                 << axis << " of " << mesh.axes.size();
        layout.dims[dim].push_back(wholeAxis(mesh, axis));
      }
    }
    if (!canBeCut(type)) {
      if (!layout.isReplicated())
        return op.emitError("cuts ") << type << ", expected a tensor of static "
                                     << "shape";
      return success();
    }
    if (failed(readOffsets(op, made, type, layout)))
      return failure();
    if (std::string text = checkLayout(layout, mesh, layout.dims.size());
        !text.empty())
      return made.emitError() << text;
    layout.canonicalize();
    shardings[op] = ShardingAttr::get(op.getContext(), attr, layout);
    return success();
  }

  /// Where the parts of each dimension that is cut begin: all are of one size,
  /// but for the last ones, which may be smaller.
  static LogicalResult readOffsets(shard::ShardOp op, shard::ShardingOp made,
                                   RankedTensorType type, Layout &layout) {
    ArrayRef<int64_t> offsets = made.getStaticShardedDimsOffsets();
    if (offsets.empty())
      return success();
    for (auto [dim, axes] : llvm::enumerate(layout.dims)) {
      if (axes.empty())
        continue;
      int64_t parts = numShards(axes), size = type.getDimSize(dim);
      if (static_cast<int64_t>(offsets.size()) <= parts)
        return made.emitError("has too few offsets for dimension ") << dim;
      int64_t part = offsets[1];
      for (int64_t i = 0; i <= parts; ++i)
        if (offsets[i] != (i == parts ? size : std::min(size, i * part)))
          return made.emitError("dimension ")
                 << dim << " of " << size
                 << " elements has parts of several sizes: part " << i
                 << " starts at " << offsets[i] << ", expected "
                 << (i == parts ? size : std::min(size, i * part));
      layout.setBlock(dim, size, part);
      if (std::string text = checkBlocks(layout, type.getShape());
          !text.empty())
        return made.emitError() << text;
      offsets = offsets.drop_front(parts + 1);
    }
    return success();
  }

  /// The annotation that concerns the value itself: all uses go through it.
  shard::ShardOp own(Value value) const {
    if (!value.hasOneUse())
      return {};
    auto op = dyn_cast<shard::ShardOp>(*value.user_begin());
    return op && !op.getAnnotateForUsers() ? op : shard::ShardOp();
  }

  //===--------------------------------------------------------------------===//
  // What they concern
  //===--------------------------------------------------------------------===//

  ShardingAttr scalar() const {
    return ShardingAttr::get(attr.getContext(), attr, Layout(0));
  }

  /// Plans of the ops whose tensors are all annotated. Whether all ops have
  /// one.
  bool planOps() {
    bool all = true;
    for (Operation &op : block.without_terminator()) {
      if (isa_and_nonnull<shard::ShardDialect, DistDialect>(op.getDialect()))
        continue;
      SmallVector<ShardingAttr> operands, results;
      bool isFull = true, hasTensor = false;
      for (Value operand : op.getOperands()) {
        auto through = operand.getDefiningOp<shard::ShardOp>();
        ShardingAttr sharding = shardings.lookup(through);
        hasTensor |= canBeCut(operand.getType());
        isFull &= sharding || !canBeCut(operand.getType());
        operands.push_back(sharding ? sharding : scalar());
      }
      for (Value result : op.getResults()) {
        ShardingAttr sharding = shardings.lookup(own(result));
        hasTensor |= canBeCut(result.getType());
        isFull &= sharding || !canBeCut(result.getType());
        results.push_back(sharding ? sharding : scalar());
      }
      if (isFull && hasTensor && !plan(&op, operands, results))
        isFull = false;
      if (isFull && !hasTensor)
        scalars.emplace_back(&op, operands, results);
      all &= isFull;
    }
    return all;
  }

  /// Whether the rule of `op` allows these shardings; then it has a plan.
  bool plan(Operation *op, ArrayRef<ShardingAttr> operands,
            MutableArrayRef<ShardingAttr> results) {
    ShardingRule rule = shardingRuleOf(op);
    AxisList parts;
    std::optional<ReductionKind> reduction;
    llvm::SmallDenseSet<unsigned> seen;
    for (auto [factors, sharding] : llvm::zip_equal(rule.operands, operands)) {
      Layout layout = llvm::cantFail(sharding.toLayout(mesh));
      for (auto [dim, list] : llvm::enumerate(factors)) {
        if (list.empty() || layout.dims[dim].empty() ||
            rule.factors[list[0]].kind != FactorKind::Reduction ||
            !seen.insert(list[0]).second)
          continue;
        parts.append(layout.dims[dim]);
        reduction = rule.factors[list[0]].reduction;
      }
    }
    if (reduction)
      for (ShardingAttr &result : results) {
        Layout layout = llvm::cantFail(result.toLayout(mesh));
        layout.partial = parts;
        layout.reduction = *reduction;
        // The annotation is of the sum, which may lie along the axes.
        for (auto [dim, list] : llvm::enumerate(layout.dims))
          llvm::erase_if(list, [&](const AxisRef &ref) {
            return llvm::is_contained(parts, ref);
          });
        layout.canonicalize();
        result = ShardingAttr::get(op->getContext(), attr, layout);
      }
    setOperandShardings(op, operands);
    setResultShardings(op, results);
    if (isConsistent(op, mesh)) {
      planned.push_back(op);
      return true;
    }
    dropPlan(op);
    return false;
  }

  bool takeArguments() {
    bool all = true;
    for (auto [index, argument] : llvm::enumerate(block.getArguments())) {
      // Where all uses go through one for users, that is how it comes: so
      // shard-partition takes it.
      auto through = argument.hasOneUse()
                         ? dyn_cast<shard::ShardOp>(*argument.user_begin())
                         : shard::ShardOp();
      if (ShardingAttr sharding = shardings.lookup(through)) {
        function.setArgAttr(index, kSharding, sharding);
        taken.push_back(through);
      } else {
        all = false;
      }
    }
    return all;
  }

  bool takeReturn() {
    bool all = true;
    for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
      auto through = operand.get().getDefiningOp<shard::ShardOp>();
      if (ShardingAttr sharding = shardings.lookup(through)) {
        function.setResultAttr(operand.getOperandNumber(), kSharding, sharding);
        if (through.getAnnotateForUsers())
          operand.set(through.getSrc());
      } else {
        all = false;
      }
    }
    return all;
  }

  /// The operands of a planned op without the annotations that its plan has.
  void lookThrough(Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      if (auto through = operand.get().getDefiningOp<shard::ShardOp>())
        if (through.getAnnotateForUsers() || !shardings.contains(through))
          operand.set(through.getSrc());
    auto results = getResultShardings(op);
    for (auto [result, sharding] : llvm::zip_equal(op->getResults(), results))
      if (shard::ShardOp through = own(result)) {
        // What was scattered beside being summed is brought there.
        if (!sharding.isPartial() || isSumOf(shardings[through], sharding))
          taken.push_back(through);
      }
  }

  /// Whether a sharding is that of a partial sum, summed.
  bool isSumOf(ShardingAttr sum, ShardingAttr part) const {
    Layout layout = llvm::cantFail(part.toLayout(mesh));
    layout.partial.clear();
    return llvm::cantFail(sum.toLayout(mesh)) == layout;
  }

  /// `isPlanned`: that everything in the function has a plan.
  void replaceRest(bool isPlanned) {
    for (shard::ShardOp op : taken) {
      op.getResult().replaceAllUsesWith(op.getSrc());
      shardings.erase(op);
      op.erase();
    }
    SmallVector<shard::ShardOp> rest(block.getOps<shard::ShardOp>());
    for (shard::ShardOp op : llvm::reverse(rest)) {
      ShardingAttr sharding = shardings.lookup(op);
      if (op.use_empty()) {
        op.erase();
        continue;
      }
      Value value = op.getSrc();
      if (sharding) {
        OpBuilder builder(op);
        auto reshard = ReshardOp::create(builder, op.getLoc(), op.getType(),
                                         value, ShardingAttr(), sharding,
                                         TypeAttr(), PurposeAttr());
        value = reshard;
      }
      op.getResult().replaceAllUsesWith(value);
      op.erase();
    }
    for (auto reshard : block.getOps<ReshardOp>())
      if (isPlanned) {
        setOperandShardings(reshard, getSharding(reshard.getX()));
        setResultShardings(reshard, reshard.getTo());
      }
    if (isPlanned)
      for (auto &[op, operands, results] : scalars) {
        setOperandShardings(op, operands);
        setResultShardings(op, results);
      }
    for (auto op :
         llvm::make_early_inc_range(block.getOps<shard::ShardingOp>()))
      if (op.use_empty())
        op.erase();
  }

  func::FuncOp function;
  Block &block;
  MeshAttr attr;
  const Mesh &mesh;
  DenseMap<shard::ShardOp, ShardingAttr> shardings;
  /// Ops that have got a plan; annotations that arguments and results have got.
  SmallVector<Operation *> planned;
  SmallVector<shard::ShardOp> taken;
  /// Ops without a tensor, with the plan that they have if all others have one.
  SmallVector<std::tuple<Operation *, SmallVector<ShardingAttr>,
                         SmallVector<ShardingAttr>>>
      scalars;
};

struct ShardToDist : bridge::impl::ShardToDistBase<ShardToDist> {
  void runOnOperation() override {
    if (failed(convert(getOperation())))
      signalPassFailure();
  }

  static LogicalResult convert(ModuleOp module) {
    SmallVector<shard::GridOp> grids(module.getOps<shard::GridOp>());
    if (grids.empty())
      return module.emitError("the module has no shard.grid");
    if (grids.size() > 1) {
      InFlightDiagnostic error =
          grids[1].emitError("is a second grid, where dist has one mesh");
      error.attachNote(grids[0].getLoc()) << "the first one";
      return error;
    }
    auto mesh = toMesh(grids.front());
    if (failed(mesh))
      return failure();
    auto attr = MeshAttr::get(module.getContext(), *mesh);
    OpBuilder builder(grids.front());
    MeshOp::create(builder, grids.front().getLoc(), grids.front().getSymName(),
                   attr);
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(Shardings(function, attr, *mesh).run()))
        return failure();
    if (failed(bridge::collectivesToDist(module, *mesh)))
      return failure();
    grids.front().erase();
    return success();
  }

  static FailureOr<Mesh> toMesh(shard::GridOp grid) {
    Mesh mesh;
    auto names = grid->getAttrOfType<ArrayAttr>(kAxes);
    if (names && names.size() != grid.getShape().size())
      return grid.emitError() << kAxes << " has " << names.size()
                              << " names, expected " << grid.getShape().size();
    for (auto [index, size] : llvm::enumerate(grid.getShape())) {
      if (ShapedType::isDynamic(size))
        return grid.emitError("axis ") << index << " has a size that is not "
                                       << "known";
      mesh.axes.push_back({names
                               ? cast<StringAttr>(names[index]).getValue().str()
                               : bridge::defaultAxisName(index),
                           size});
    }
    if (std::string text = checkMesh(mesh); !text.empty())
      return grid.emitError() << text;
    if (mesh.find(kStageAxis))
      return grid.emitError("has an axis of the name \"")
             << kStageAxis << "\", which numbers stages";
    return mesh;
  }
};

} // namespace
