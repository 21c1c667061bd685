//===- WriteBack.cpp - a solution as attributes ---------------------------===//
#include "WriteBack.h"
#include "Model/Terminator.h"
#include "WholeOps.h"

#include "kerf/Dist/Entry.h"
#include "kerf/Dist/MovePurpose.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

static void remarkIfWhole(Operation *op, Location loc, Graph &graph,
                          const Solution &solution) {
  if (graph.candidate.devicesPerStage() == 1 || !lacksRule(op))
    return;
  int64_t bytes = 0;
  for (OpOperand &operand : op->getOpOperands())
    bytes += graph.moveCostOf(solution, operand).totalBytes;
  remarkWhole(op, loc, bytes);
}

void kerf::plan::writeBack(ModuleOp module, func::FuncOp function, Graph &graph,
                           const Solution &solution, const StagePlan &stages) {
  auto target = module.lookupSymbol<func::FuncOp>(function.getName());
  MLIRContext *context = module.getContext();
  auto mesh = dist::MeshAttr::get(context, graph.candidate.mesh);
  dist::createMesh(module, mesh);
  auto attrOf = [&](LayoutId id) -> dist::ShardingAttr {
    return dist::ShardingAttr::get(context, mesh, graph.layouts[id]);
  };

  // Read everything first: the reshards that are inserted below are not part
  // of the graph.
  bool isTraining = graph.getBatch().isTraining();
  ZeroParts copies(target, graph.getZero().getZero());
  std::vector<SharedReshard> shared;
  auto note = [&](Value value, Value copy) {
    std::optional<LayoutId> layout = graph.sharedLayout(solution, value);
    LayoutId made = graph.resultLayout(solution, value);
    if (layout && *layout != made)
      shared.push_back(
          {copy, attrOf(made), attrOf(*layout),
           isTraining ? std::optional(graph.sharedPhase(value)) : std::nullopt,
           std::nullopt});
    for (StepPass pass : graph.passesOf(value))
      if (LayoutId gathered = graph.passLayout(solution, value, pass);
          gathered != made)
        shared.push_back(
            passReshard(copy, pass, attrOf(made), attrOf(gathered), copies));
  };
  dist::setArgAttrs(target, dist::kSharding, [&](unsigned index) {
    return attrOf(graph.resultLayout(solution, function.getArgument(index)));
  });
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    note(argument, target.getArgument(number));
  }
  bool staged = graph.candidate.stages > 1;
  auto setPlace = [&](Operation *op, int64_t place) {
    if (staged)
      dist::setStage(op, place % graph.candidate.stages,
                     place / graph.candidate.stages);
  };
  auto placeOf = [&](Operation *op) {
    auto found = stages.placeOf.find(op);
    return found == stages.placeOf.end() ? int64_t(-1) : found->second;
  };
  for (auto [op, copy] :
       llvm::zip_equal(function.getBody().front(), target.getBody().front())) {
    SmallVector<dist::ShardingAttr> operands, results;
    for (OpOperand &operand : op.getOpOperands())
      operands.push_back(attrOf(graph.operandLayout(solution, operand)));
    for (auto [result, same] : llvm::zip(op.getResults(), copy.getResults())) {
      results.push_back(attrOf(graph.resultLayout(solution, result)));
      note(result, same);
    }
    if (isTerminator(&op)) {
      dist::setResultAttrs(target, dist::kSharding,
                           [&](unsigned index) { return operands[index]; });
      continue;
    }
    remarkIfWhole(&op, copy.getLoc(), graph, solution);
    dist::setOperandShardings(&copy, operands);
    dist::setResultShardings(&copy, results);
    int64_t place = placeOf(&op);
    if (place < 0) {
      // A source belongs to the first stage that uses it.
      place = graph.candidate.stages * stages.chunks - 1;
      for (Operation *user : op.getUsers())
        if (int64_t other = placeOf(user); other >= 0)
          place = std::min(place, other);
    }
    setPlace(&copy, place);
  }
  for (const SharedReshard &reshard : shared)
    insertSharedReshards(reshard);
  if (isTraining)
    setScheduleKind(module, stages.schedule, stages.chunks);
}

/// There are two enums of schedules because the cost model knows no IR, and a
/// dialect includes no phase. The cost model's has Forward besides, the only
/// order of a pipeline that does not train, which the IR therefore need not
/// say.
static dist::ScheduleKind toDist(cost::ScheduleKind kind) {
  static_assert(dist::getMaxEnumValForScheduleKind() + 1 ==
                    static_cast<unsigned>(cost::ScheduleKind::Interleaved),
                "expected in both enums the same schedules of training");
  switch (kind) {
  case cost::ScheduleKind::GPipe:
    return dist::ScheduleKind::GPipe;
  case cost::ScheduleKind::OneFOneB:
    return dist::ScheduleKind::OneFOneB;
  case cost::ScheduleKind::Interleaved:
    return dist::ScheduleKind::Interleaved;
  case cost::ScheduleKind::Forward:
    break;
  }
  llvm_unreachable("no schedule of a step of training");
}

void kerf::plan::setScheduleKind(ModuleOp module, cost::ScheduleKind kind,
                                 int64_t chunks) {
  MLIRContext *context = module.getContext();
  module->setAttr(dist::kScheduleKind,
                  dist::ScheduleKindAttr::get(context, toDist(kind)));
  if (chunks > 1)
    module->setAttr(dist::kChunks,
                    IntegerAttr::get(IntegerType::get(context, 64), chunks));
}

SharedReshard kerf::plan::passReshard(Value value, StepPass pass,
                                      dist::ShardingAttr from,
                                      dist::ShardingAttr to,
                                      const ZeroParts &zero) {
  return {value,
          from,
          to,
          pass == StepPass::Forward ? dist::Phase::Forward
                                    : dist::Phase::BackwardInput,
          pass,
          &zero};
}

/// The first of the ops that use something.
static Operation *firstUser(ArrayRef<OpOperand *> uses) {
  Operation *first = uses.front()->getOwner();
  for (OpOperand *use : uses)
    if (use->getOwner()->isBeforeInBlock(first))
      first = use->getOwner();
  return first;
}

void kerf::plan::insertSharedReshards(const SharedReshard &move) {
  Value value = move.value;
  OpBuilder builder(value.getContext());
  Operation *def = value.getDefiningOp();
  bool isMade = def && !isa<SourceOpInterface>(def);
  bool isEverywhere = !isMade || move.pass;
  // A source or input is brought to its layout in each stage that uses it (in
  // each of its chunks, unless once per step), and so is what a pass gathers:
  // in a backward pass nothing goes to a later stage, where a parameter that
  // was cast may be read. Any other value is in the stage that makes it. By
  // chunk and stage.
  bool isOnce =
      isEverywhere && move.phase && dist::runsOncePerStep(*move.phase);
  constexpr std::pair<int64_t, int64_t> kNone = {-1, -1};
  std::map<std::pair<int64_t, int64_t>, SmallVector<OpOperand *>> uses;
  for (OpOperand &use : value.getUses()) {
    if (isAssignTarget(use) ||
        (move.pass && move.zero->passOf(use) != move.pass))
      continue;
    Operation *staged = isEverywhere ? use.getOwner() : def;
    std::optional<int64_t> stage = dist::findStage(staged);
    uses[stage ? std::pair(isOnce ? 0 : dist::getChunk(staged), *stage) : kNone]
        .push_back(&use);
  }
  // The return has no stage: the last stage that uses the value gives it out.
  if (auto none = uses.find(kNone); none != uses.end() && uses.size() > 1) {
    uses.rbegin()->second.append(none->second);
    uses.erase(kNone);
  }
  for (auto &[place, list] : uses) {
    if (move.pass)
      builder.setInsertionPoint(firstUser(list));
    else if (def)
      builder.setInsertionPointAfter(def);
    else
      builder.setInsertionPointToStart(value.getParentBlock());
    dist::PurposeAttr purpose;
    if (def && isa<SourceOpInterface>(def))
      purpose =
          dist::PurposeAttr::get(value.getContext(), dist::Purpose::Parameter);
    else
      purpose = dist::movePurpose(def, nullptr);
    auto reshard = dist::ReshardOp::create(
        builder, value.getLoc(), value.getType(), value, dist::ShardingAttr(),
        move.to, TypeAttr(), purpose);
    dist::setOperandShardings(reshard, move.from);
    dist::setResultShardings(reshard, move.to);
    if (place != kNone)
      dist::setStage(reshard, place.second, place.first);
    std::optional<int64_t> colocation = def && !(isMade && isEverywhere)
                                            ? dist::getColocation(def)
                                            : std::nullopt;
    for (OpOperand *use : list) {
      std::optional<int64_t> other = dist::getColocation(use->getOwner());
      if (isEverywhere && other && (!colocation || *other < *colocation))
        colocation = other;
      use->set(reshard.getResult());
    }
    dist::setColocation(reshard, colocation);
    if (move.phase)
      dist::setPhase(reshard, *move.phase);
    if (move.pass == StepPass::Backward)
      dist::setRecomputed(reshard);
  }
}
