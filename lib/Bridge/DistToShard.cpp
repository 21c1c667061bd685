//===- DistToShard.cpp - shardings of dist as annotations of shard --------===//
//
// Problem: `dist` has shardings in attributes, `shard` in ops through which the
// values pass.
//
// Idea: a value's own sharding is a `shard.shard` behind what makes it, through
// which all uses go; the sharding that a use wants is one more in front of it,
// `annotate_for_users`. Equal shardings share an op at the function's start.
//
// `shard` has no partial sums. A linalg op that makes one is annotated with the
// sharding of the whole sum, since `shard-partition` puts an all-reduce behind
// it. It puts none behind other ops, so a partial sum that another op makes is
// an error, and so is a use that wants a partial sum.
//
//===----------------------------------------------------------------------===//
#include "Bridge.h"

#include "kerf/Bridge/Passes.h"
#include "kerf/Dist/Annotations.h"
#include "kerf/Interfaces/AnyOp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace kerf::bridge {
#define GEN_PASS_DEF_DISTTOSHARD
#include "kerf/Bridge/Passes.h.inc"
} // namespace kerf::bridge

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

class Annotations {
public:
  Annotations(func::FuncOp function, const Mesh &mesh, StringRef grid)
      : function(function), mesh(mesh), grid(grid) {}

  LogicalResult run() {
    SmallVector<Operation *> ops;
    function.walk([&](Operation *op) {
      if (op != function)
        ops.push_back(op);
    });
    for (auto [index, argument] : llvm::enumerate(function.getArguments()))
      if (failed(annotate(argument, function.getArgAttr(index, kSharding),
                          function, "argument " + Twine(index))))
        return failure();
    for (Operation *op : ops)
      if (failed(annotateResults(op)))
        return failure();
    for (Operation *op : ops)
      if (failed(annotateOperands(op)))
        return failure();
    for (Operation *op : ops)
      if (auto reshard = dyn_cast<ReshardOp>(op))
        if (failed(replace(reshard)))
          return failure();
    if (failed(annotateReturn()))
      return failure();
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      function.removeArgAttr(i, kSharding);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      function.removeResultAttr(
          i, StringAttr::get(function.getContext(), kSharding));
    return success();
  }

private:
  /// The value of type !shard.sharding; none: an error was emitted at `op`.
  /// `drop`: what is partial is annotated as the sum.
  FailureOr<Value> shardingFor(ShardingAttr sharding, Type type, Operation *op,
                               const Twine &what, bool drop = false) {
    auto layout = sharding.toLayout(mesh);
    if (!layout)
      return op->emitError()
             << what << ": " << llvm::toString(layout.takeError());
    if (layout->isPartial() && !drop)
      return op->emitError()
             << what << " is a partial "
             << stringifyReductionKind(layout->reduction) << " over "
             << dist::toString(layout->partial, mesh)
             << ", which shard cannot say";
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<shard::GridAxesAttr> axes;
    for (auto [dim, list] : llvm::enumerate(layout->dims)) {
      auto numbers = bridge::toGridAxes(op, list, mesh, what);
      if (failed(numbers))
        return failure();
      if (layout->isUneven(dim, tensor.getDimSize(dim)))
        return op->emitError()
               << what << ": dimension " << dim << " has "
               << tensor.getDimSize(dim) << " elements in " << numShards(list)
               << " parts of " << layout->localSize(dim, tensor.getDimSize(dim))
               << ", where shard-partition takes parts that fill it";
      axes.push_back(shard::GridAxesAttr::get(op->getContext(), *numbers));
    }
    while (axes.size() > 1 && axes.back().empty())
      axes.pop_back();
    if (axes.empty())
      axes.push_back(shard::GridAxesAttr::get(op->getContext(), {}));
    auto key = shard::GridAxesArrayAttr::get(op->getContext(), axes);
    Value &value = known[key];
    if (!value) {
      Block &entry = function.getBody().front();
      OpBuilder builder(op->getContext());
      if (last)
        builder.setInsertionPointAfter(last);
      else
        builder.setInsertionPointToStart(&entry);
      auto made = shard::ShardingOp::create(
          builder, function.getLoc(),
          FlatSymbolRefAttr::get(op->getContext(), grid), axes);
      last = made;
      value = made;
    }
    return value;
  }

  /// A shard.shard of `value`; `builder` says where.
  static Value create(OpBuilder &builder, Value value, Value sharding,
                      bool forUsers) {
    return shard::ShardOp::create(builder, value.getLoc(), value.getType(),
                                  value, sharding, forUsers);
  }

  /// Lets all uses of a value go through its own sharding.
  LogicalResult annotate(Value value, Attribute attribute, Operation *op,
                         const Twine &what, bool drop = false) {
    auto sharding = dyn_cast_or_null<ShardingAttr>(attribute);
    if (!sharding || !canBeCut(value.getType()))
      return success();
    auto annotation = shardingFor(sharding, value.getType(), op, what, drop);
    if (failed(annotation))
      return failure();
    OpBuilder builder(function.getContext());
    if (auto argument = dyn_cast<BlockArgument>(value))
      builder.setInsertionPointToStart(argument.getOwner());
    else
      builder.setInsertionPointAfterValue(value);
    // Behind the shardings, and behind what is there for other arguments.
    if (isa<BlockArgument>(value))
      builder.setInsertionPointAfter(lastAtStart());
    Value through = create(builder, value, *annotation, false);
    if (isa<BlockArgument>(value))
      lastArgument = through.getDefiningOp();
    value.replaceAllUsesExcept(through, through.getDefiningOp());
    return success();
  }

  Operation *lastAtStart() {
    return lastArgument && last->isBeforeInBlock(lastArgument) ? lastArgument
                                                               : last;
  }

  LogicalResult annotateResults(Operation *op) {
    ArrayRef<ShardingAttr> shardings = getResultShardings(op);
    if (isa<ReshardOp>(op) || shardings.empty())
      return success();
    for (auto [index, result] : llvm::enumerate(op->getResults())) {
      bool adds = isa<linalg::LinalgOp>(op);
      if (shardings[index].isPartial() && !adds)
        return op->emitError("leaves parts of a sum, which shard-partition "
                             "does not add up for this op");
      if (failed(annotate(result, shardings[index], op,
                          "result " + Twine(index), adds)))
        return failure();
    }
    return success();
  }

  LogicalResult annotateOperands(Operation *op) {
    ArrayRef<ShardingAttr> shardings = getOperandShardings(op);
    if (findStage(op))
      return op->emitError("is in a stage, which shard does not have");
    if (!isa<ReshardOp>(op) && !shardings.empty()) {
      OpBuilder builder(op);
      for (OpOperand &operand : op->getOpOperands()) {
        if (!canBeCut(operand.get().getType()))
          continue;
        unsigned index = operand.getOperandNumber();
        auto annotation = shardingFor(shardings[index], operand.get().getType(),
                                      op, "operand " + Twine(index));
        if (failed(annotation))
          return failure();
        operand.set(create(builder, operand.get(), *annotation, true));
      }
    }
    dropPlan(op);
    return success();
  }

  LogicalResult replace(ReshardOp op) {
    if (op.getFrom())
      return op.emitError("is on local types, expected kerf-lower-reshards to "
                          "have made collectives of it");
    auto annotation = shardingFor(op.getTo(), op.getType(), op, "the sharding");
    if (failed(annotation))
      return failure();
    OpBuilder builder(op);
    op.getResult().replaceAllUsesWith(
        create(builder, op.getX(), *annotation, true));
    op.erase();
    return success();
  }

  LogicalResult annotateReturn() {
    if (!function.getBody().hasOneBlock())
      return success();
    Operation *end = function.getBody().front().getTerminator();
    OpBuilder builder(end);
    for (OpOperand &operand : end->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      auto sharding =
          function.getResultAttrOfType<ShardingAttr>(index, kSharding);
      if (!sharding || !canBeCut(operand.get().getType()))
        continue;
      auto annotation = shardingFor(sharding, operand.get().getType(), function,
                                    "result " + Twine(index));
      if (failed(annotation))
        return failure();
      operand.set(create(builder, operand.get(), *annotation, true));
    }
    return success();
  }

  func::FuncOp function;
  const Mesh &mesh;
  StringRef grid;
  llvm::DenseMap<Attribute, Value> known;
  /// The last op at the start of the function that is a sharding, or the
  /// annotation of an argument.
  Operation *last = nullptr, *lastArgument = nullptr;
};

struct DistToShard : bridge::impl::DistToShardBase<DistToShard> {
  void runOnOperation() override {
    if (failed(convert(getOperation())))
      signalPassFailure();
  }

  static LogicalResult convert(ModuleOp module) {
    SmallVector<MeshOp> meshes(module.getOps<MeshOp>());
    if (meshes.empty())
      return module.emitError("the module has no dist.mesh");
    MeshOp op = meshes.front();
    Mesh mesh = op.getMesh().toMesh();
    if (mesh.numMicroBatches() > 1)
      return op.emitError("has axes in time, which shard does not have");
    if (mesh.find(kStageAxis))
      return op.emitError("has stages, which shard does not have");
    if (failed(bridge::joinProgram(module)))
      return failure();
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(Annotations(function, mesh, op.getSymName()).run()))
        return failure();
    if (failed(bridge::collectivesToShard(module, mesh, op.getSymName())))
      return failure();
    if (failed(checkNothingIsLeft(module)))
      return failure();
    return replaceMesh(op, mesh);
  }

  /// No attribute of dist may be lost, or mean nothing to who reads it next.
  static LogicalResult checkNothingIsLeft(ModuleOp module) {
    auto isLeft = [](NamedAttribute attribute) {
      return isa_and_nonnull<DistDialect>(attribute.getNameDialect());
    };
    WalkResult walked = module.walk([&](Operation *op) -> WalkResult {
      for (NamedAttribute attribute : op->getDiscardableAttrs())
        if (isLeft(attribute))
          return op->emitError("has ") << attribute.getName().getValue()
                                       << ", which shard cannot say";
      auto function = dyn_cast<FunctionOpInterface>(op);
      for (unsigned i = 0; function && i < function.getNumArguments(); ++i)
        for (NamedAttribute attribute : function.getArgAttrs(i))
          if (isLeft(attribute))
            return op->emitError("argument ")
                   << i << " has " << attribute.getName().getValue()
                   << ", which shard cannot say";
      for (unsigned i = 0; function && i < function.getNumResults(); ++i)
        for (NamedAttribute attribute : function.getResultAttrs(i))
          if (isLeft(attribute))
            return op->emitError("result ")
                   << i << " has " << attribute.getName().getValue()
                   << ", which shard cannot say";
      return WalkResult::advance();
    });
    return failure(walked.wasInterrupted());
  }

  static LogicalResult replaceMesh(MeshOp op, const Mesh &mesh) {
    OpBuilder builder(op);
    SmallVector<int64_t> shape;
    SmallVector<StringRef> names;
    bool hasNames = false;
    for (auto [index, axis] : llvm::enumerate(mesh.axes)) {
      shape.push_back(axis.size);
      names.push_back(axis.name);
      hasNames |= axis.name != bridge::defaultAxisName(index);
    }
    auto grid =
        shard::GridOp::create(builder, op.getLoc(), op.getSymName(), shape);
    if (hasNames)
      grid->setDiscardableAttr(kAxes, builder.getStrArrayAttr(names));
    op.erase();
    return success();
  }
};

} // namespace
