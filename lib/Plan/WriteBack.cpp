//===- WriteBack.cpp - a solution as attributes ---------------------------===//
#include "WriteBack.h"

#include "kerf/Dist/Dist.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

void kerf::plan::writeBack(ModuleOp module, func::FuncOp function,
                           const Graph &graph, const Solution &solution,
                           const StagePlan &stages) {
  MLIRContext *context = module.getContext();
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  auto mesh = dist::MeshAttr::get(context, graph.candidate.mesh);
  dist::MeshOp::create(builder, module.getLoc(), "mesh", mesh);
  auto attrOf = [&](LayoutId id) -> Attribute {
    return dist::ShardingAttr::get(context, mesh, graph.layouts[id]);
  };

  // Read everything first: the reshards that are inserted below are not part
  // of the graph.
  struct Shared {
    Value value;
    LayoutId layout;
  };
  std::vector<Shared> shared;
  auto note = [&](Value value) {
    std::optional<LayoutId> layout = graph.sharedLayout(solution, value);
    if (layout && *layout != graph.resultLayout(solution, value))
      shared.push_back({value, *layout});
  };
  for (BlockArgument argument : function.getArguments()) {
    function.setArgAttr(argument.getArgNumber(), "dist.sharding",
                        attrOf(graph.resultLayout(solution, argument)));
    note(argument);
  }
  bool staged = graph.candidate.stages > 1;
  auto setStage = [&](Operation *op, int64_t stage) {
    if (staged)
      op->setAttr("dist.stage", builder.getI64IntegerAttr(stage));
  };
  auto stageOf = [&](Operation *op) {
    auto found = stages.stageOf.find(op);
    return found == stages.stageOf.end() ? int64_t(-1) : found->second;
  };
  for (Operation &op : function.getBody().front()) {
    SmallVector<Attribute> operands, results;
    for (OpOperand &operand : op.getOpOperands())
      operands.push_back(attrOf(graph.operandLayout(solution, operand)));
    for (Value result : op.getResults()) {
      results.push_back(attrOf(graph.resultLayout(solution, result)));
      note(result);
    }
    op.setAttr("dist.operands", builder.getArrayAttr(operands));
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (auto [index, attr] : llvm::enumerate(operands))
        function.setResultAttr(index, "dist.sharding", attr);
      op.removeAttr("dist.operands");
      continue;
    }
    op.setAttr("dist.results", builder.getArrayAttr(results));
    int64_t stage = stageOf(&op);
    if (stage < 0) {
      // Sources stand where they are first used.
      stage = graph.candidate.stages - 1;
      for (Operation *user : op.getUsers())
        if (int64_t other = stageOf(user); other >= 0)
          stage = std::min(stage, other);
    }
    setStage(&op, stage);
  }
  for (Shared &move : shared) {
    Operation *def = move.value.getDefiningOp();
    if (def)
      builder.setInsertionPointAfter(def);
    else
      builder.setInsertionPointToStart(&function.getBody().front());
    auto to = cast<dist::ShardingAttr>(attrOf(move.layout));
    SmallVector<Operation *> users(move.value.getUsers());
    auto reshard = dist::ReshardOp::create(
        builder, move.value.getLoc(), move.value.getType(), move.value,
        dist::ShardingAttr(), to, TypeAttr(), dist::PurposeAttr());
    reshard->setAttr(
        "dist.operands",
        builder.getArrayAttr(attrOf(graph.resultLayout(solution, move.value))));
    reshard->setAttr("dist.results", builder.getArrayAttr(Attribute(to)));
    int64_t stage = def ? stageOf(def) : -1;
    if (stage < 0) {
      stage = graph.candidate.stages - 1;
      for (Operation *user : users)
        if (int64_t other = stageOf(user); other >= 0)
          stage = std::min(stage, other);
    }
    setStage(reshard, stage);
    move.value.replaceAllUsesExcept(reshard.getResult(),
                                    reshard.getOperation());
  }
}
