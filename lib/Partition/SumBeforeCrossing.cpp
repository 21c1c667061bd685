//===- SumBeforeCrossing.cpp - sums over micro-batches before stages ------===//
//
// A parameter that two stages use (tied weights) has a gradient from each; they
// are added where the parameter is updated. The plan would send the other
// stage's part once per micro-batch; a sum of sums is sent once per step:
//
//   accumulate(a + b)  =  accumulate(a) + accumulate(b)
//
// Of another chunk of the same stage nothing is sent, but its part would be
// kept for each micro-batch that is under way.
//
// for every op that is jointly linear in all of its operands. If the sum is
// cast to the type in which gradients are sent, so is each part that is sent.
// Linear in the ops.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/TransferCast.h"
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {
#define GEN_PASS_DEF_SUMBEFORECROSSING
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

struct SumBeforeCrossing
    : kerf::impl::SumBeforeCrossingBase<SumBeforeCrossing> {
  void runOnOperation() override {
    auto main = dist::findEntry(getOperation());
    MeshAttr attribute = getMesh(getOperation());
    if (!main || main.isExternal() || !attribute)
      return;
    mesh = attribute.toMesh();
    if (mesh.numMicroBatches() == 1)
      return;
    SmallVector<AccumulateOp> work(
        main.getBody().front().getOps<AccumulateOp>());
    while (!work.empty())
      rewrite(work.pop_back_val(), work);
  }

private:
  void rewrite(AccumulateOp accumulate, SmallVectorImpl<AccumulateOp> &work) {
    Operation *sum = accumulate.getX().getDefiningOp();
    if (!sum || !accumulate.getX().hasOneUse() || !isSumOfSums(sum))
      return;
    SmallVector<ShardingAttr> shardings;
    for (OpOperand &use : sum->getOpOperands()) {
      Operation *producer = use.get().getDefiningOp();
      OpBuilder builder(accumulate);
      auto part = AccumulateOp::create(builder, accumulate.getLoc(),
                                       use.get().getType(), use.get(), Value());
      part->setAttrs(accumulate->getAttrs());
      setStageOf(part, producer);
      setPhase(part, getPhase(producer));
      setColocation(part, getColocation(producer));
      ShardingAttr held = getSharding(use.get());
      setOperandShardings(part, held);
      setResultShardings(part, once(held));
      shardings.push_back(
          once(getOperandShardings(sum)[use.getOperandNumber()]));
      use.set(getStage(producer) == getStage(sum)
                  ? part.getResult()
                  : sentAs(accumulate, part, sum, shardings.back()));
      work.push_back(part);
    }
    sum->moveBefore(accumulate);
    setPhase(sum, Phase::Update);
    setOperandShardings(sum, shardings);
    setResultShardings(sum, once(getSharding(sum->getResult(0))));
    if (PurposeAttr purpose = getPurpose(accumulate))
      setPurpose(sum, purpose.getValue());
    accumulate.replaceAllUsesWith(sum->getResult(0));
    accumulate.erase();
  }

  /// `part` of `sum` in the type in which `accumulate` is sent: the cast to it
  /// stays with the part, the cast back with the sum.
  Value sentAs(AccumulateOp accumulate, AccumulateOp part, Operation *sum,
               ShardingAttr wanted) {
    auto onlyUser = [](Value value) -> Operation * {
      return value.hasOneUse() ? *value.user_begin() : nullptr;
    };
    Operation *there = onlyUser(accumulate.getResult());
    if (!there || !isTransferCast(there))
      return part;
    Operation *back = onlyUser(there->getResult(0));
    if (!back || back->getNumOperands() != 1 ||
        back->getResultTypes() != accumulate->getResultTypes())
      return part;
    OpBuilder builder(accumulate);
    Value value = part;
    for (Operation *op : {there, back}) {
      Operation *of = op == back ? sum : part.getOperation();
      Operation *copy = builder.clone(*op);
      copy->setOperand(0, value);
      setStageOf(copy, of);
      setColocation(copy, getColocation(of));
      // A part that is still to be added over devices is added before it is
      // sent.
      ShardingAttr sharding =
          op == back ? wanted : getResultShardings(part).front();
      setOperandShardings(copy, sharding);
      setResultShardings(copy, sharding);
      value = copy->getResult(0);
    }
    return value;
  }

  /// Whether the op is linear in all operands together, one operand comes from
  /// another stage or chunk, and each operand is made once per micro-batch.
  bool isSumOfSums(Operation *sum) {
    auto interface = dyn_cast<ShardingRuleInterface>(sum);
    if (!interface || sum->getNumResults() != 1 || sum->getNumOperands() < 2)
      return false;
    bool crosses = false;
    for (Value operand : sum->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer || isa<SourceOpInterface>(producer) ||
          runsOncePerStep(producer) ||
          !variesOverTime(getLayout(operand, mesh), mesh))
        return false;
      crosses |= getVirtualStage(producer, mesh) != getVirtualStage(sum, mesh);
    }
    SmallVector<unsigned> all(sum->getNumOperands());
    std::iota(all.begin(), all.end(), 0);
    return crosses &&
           llvm::is_contained(interface.getShardingRule().linearGroups, all);
  }

  ShardingAttr once(ShardingAttr sharding) {
    Layout layout = withoutTime(llvm::cantFail(sharding.toLayout(mesh)), mesh);
    return ShardingAttr::get(&getContext(), MeshAttr::get(&getContext(), mesh),
                             layout);
  }

  Mesh mesh;
};

} // namespace
