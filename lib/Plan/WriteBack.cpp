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
    function.setArgAttr(argument.getArgNumber(), dist::kSharding,
                        attrOf(graph.resultLayout(solution, argument)));
    note(argument);
  }
  bool staged = graph.candidate.stages > 1;
  auto setStage = [&](Operation *op, int64_t stage) {
    if (staged)
      op->setAttr(dist::kStage, builder.getI64IntegerAttr(stage));
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
    op.setAttr(dist::kOperands, builder.getArrayAttr(operands));
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (auto [index, attr] : llvm::enumerate(operands))
        function.setResultAttr(index, dist::kSharding, attr);
      op.removeAttr(dist::kOperands);
      continue;
    }
    op.setAttr(dist::kResults, builder.getArrayAttr(results));
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
    auto from = attrOf(graph.resultLayout(solution, move.value));
    auto to = cast<dist::ShardingAttr>(attrOf(move.layout));
    SharedReshard reshard{move.value, from, to, std::nullopt};
    reshard.phase = graph.getBatch().isTraining()
                        ? std::optional(graph.sharedPhase(move.value))
                        : std::nullopt;
    insertSharedReshards(reshard);
  }
  if (graph.getBatch().isTraining())
    module->setAttr(dist::kScheduleKind,
                    builder.getStringAttr(cost::toString(stages.schedule)));
}

void kerf::plan::insertSharedReshards(const SharedReshard &move) {
  Value value = move.value;
  OpBuilder builder(value.getContext());
  Operation *def = value.getDefiningOp();
  bool isEverywhere = !def || isa<SourceOpInterface>(def);
  // By stage: what is everywhere is brought into its layout in each stage that
  // uses it, anything else where it is made.
  std::map<int64_t, SmallVector<OpOperand *>> uses;
  for (OpOperand &use : value.getUses()) {
    if (isAssignTarget(use))
      continue;
    Operation *staged = isEverywhere ? use.getOwner() : def;
    auto stage = staged->getAttrOfType<IntegerAttr>(dist::kStage);
    uses[stage ? stage.getInt() : -1].push_back(&use);
  }
  // What the program gives out has no stage.
  if (auto none = uses.find(-1); none != uses.end() && uses.size() > 1) {
    uses.rbegin()->second.append(none->second);
    uses.erase(-1);
  }
  for (auto &[stage, list] : uses) {
    if (def)
      builder.setInsertionPointAfter(def);
    else
      builder.setInsertionPointToStart(value.getParentBlock());
    dist::PurposeAttr purpose;
    if (def && isa<SourceOpInterface>(def))
      purpose =
          dist::PurposeAttr::get(value.getContext(), dist::Purpose::Parameter);
    else if (def)
      purpose = def->getAttrOfType<dist::PurposeAttr>(dist::kPurpose);
    auto reshard = dist::ReshardOp::create(
        builder, value.getLoc(), value.getType(), value, dist::ShardingAttr(),
        cast<dist::ShardingAttr>(move.to), TypeAttr(), purpose);
    reshard->setAttr(dist::kOperands, builder.getArrayAttr(move.from));
    reshard->setAttr(dist::kResults, builder.getArrayAttr(move.to));
    if (stage >= 0)
      reshard->setAttr(dist::kStage, builder.getI64IntegerAttr(stage));
    Attribute colocation = def ? def->getAttr(dist::kColocation) : Attribute();
    for (OpOperand *use : list) {
      auto other =
          use->getOwner()->getAttrOfType<IntegerAttr>(dist::kColocation);
      if (isEverywhere && other &&
          (!colocation ||
           other.getInt() < cast<IntegerAttr>(colocation).getInt()))
        colocation = other;
      use->set(reshard.getResult());
    }
    if (colocation)
      reshard->setAttr(dist::kColocation, colocation);
    if (move.phase && *move.phase != dist::Phase::Forward)
      reshard->setAttr(dist::kPhase,
                       dist::PhaseAttr::get(value.getContext(), *move.phase));
  }
}
