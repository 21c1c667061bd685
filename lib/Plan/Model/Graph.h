//===- Graph.h - a function as a planning Problem ---------------*- C++ -*-===//
//
// Nodes of the Problem: every op (choices: strategies); every input and weight
// (choices: storage layouts); every value with several uses (choices: the
// layout in which it is shared; a gather that several uses need is paid for
// once); every output (choices: the layout in which it is left). Edges: the
// cost of moving the value between the two layouts. Resources: see Graph.
//
// Costs are those of a whole step: an op that runs for each micro-batch counts
// that many times. A source and the value assigned to it are one node.
//
// Ops that are alike (name, attributes, regions, types, sharding rule, batch
// factor) share strategies and cost tables, so repeated layers are enumerated
// once and the solver recognises them.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_GRAPH_H
#define KERF_LIB_PLAN_MODEL_GRAPH_H

#include "../Zero/ZeroParts.h"
#include "DimBlocks.h"
#include "ReshardCosts.h"
#include "Strategies.h"
#include "Traffic.h"

#include "kerf/Cost/StepShares.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Plan/BatchAnalysis.h"
#include "kerf/Plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace kerf::plan {

struct GivenLayouts;
class MemoryFloor;

/// The cost of one op under one strategy, on one device, for one run.
struct OpTotals {
  double seconds = 0;
  int64_t flops = 0;
};

/// The layout of a value for each choice of a node. Equal lists of one Graph
/// are one object, so that pointers are compared.
using LayoutList = const std::vector<LayoutId> *;

/// Strategies and costs, shared by ops that are alike.
struct OpChoices {
  std::vector<Strategy> strategies;
  std::vector<OpTotals> totals;
  std::vector<LayoutList> operands, results; ///< by their numbers
};

/// Whether the use names the source of an assignment: such a use moves nothing.
inline bool isAssignTarget(mlir::OpOperand &use) {
  return mlir::isa<dist::AssignOp>(use.getOwner()) &&
         use.getOperandNumber() == 0;
}

/// Whether a value is written over the source to which it is assigned.
bool isWrittenInPlace(mlir::OpResult result);

/// The phase in which a value of a training step is brought to its shared
/// layout.
dist::Phase sharedPhase(const BatchAnalysis &batch, mlir::Value value);

/// Whether an op is a constant that has no name of its own. Which of these
/// there are depends on sizes: the 1/64 of a mean over 64 samples may be one
/// with another constant, that of 32 samples not.
bool isUnnamedConstant(mlir::Operation *op);

/// Names of values for hints and plan.json: the ONNX name of inputs, weights
/// and nodes, made unique by "#2", "#3". What is computed is numbered apart
/// from unnamed constants, which are "mean:constant", so that a plan serves
/// for another batch.
class ValueNames {
public:
  enum class Constants { Apart, Together };
  /// `Together`: as plans were written before, where a constant of a node took
  /// one of the node's numbers.
  explicit ValueNames(mlir::func::FuncOp function,
                      Constants constants = Constants::Apart);
  /// Whether the name is that of an unnamed constant.
  static bool isOfConstant(llvm::StringRef name);
  llvm::StringRef operator[](mlir::Value value) const {
    return names.find(value)->second;
  }
  mlir::Value find(llvm::StringRef name) const { return values.lookup(name); }

private:
  llvm::DenseMap<mlir::Value, std::string> names;
  llvm::StringMap<mlir::Value> values;
};

/// "\nnote: ..." for a name that nothing has: weights that several ops read may
/// have been called so, too; empty: there are none.
std::string noteShared(mlir::func::FuncOp function, const ValueNames &names);

/// Why a hint is invalid: its pattern is not a regular expression, or matches
/// no name. Empty if all hints are valid.
std::string checkHints(mlir::func::FuncOp function, const ValueNames &names,
                       llvm::ArrayRef<ShardHint> hints);

/// Why a batch dimension is invalid: no argument is called so, or it has no
/// such dimension. Empty if all are valid.
std::string checkBatchDims(const ValueNames &names,
                           const llvm::StringMap<int64_t> &batchDims);

/// The stage that a hint asks for.
std::optional<int64_t> stageOf(const ShardHint &hint);

/// Why a hint can be kept by no candidate: it names an axis or a stage that
/// none of them has. Empty if there is no such hint.
std::string checkHintAxes(llvm::ArrayRef<ShardHint> hints,
                          llvm::ArrayRef<MeshCandidate> candidates);

/// A lower bound on a step: it takes at least perMicroBatch times what runs for
/// one micro-batch plus perStep times what runs once. With one stage, or
/// forward only, these are M and 1; of training over stages see
/// cost::minShares.
cost::StepShares stepWeights(const MeshCandidate &candidate,
                             const BatchAnalysis &batch,
                             const PlanOptions &options);

/// Lower bounds for the ops of a function, without any move.
struct MinTotals {
  /// Their cost in the first level of the Problem: of those that run for each
  /// micro-batch, and of those that run once per step.
  Sum perMicroBatch = 0, perStep = 0;
  /// Bytes that the devices of all stages hold together, as the resource Memory
  /// counts them.
  Sum memory = 0;
  Sum all() const { return perMicroBatch + perStep; }
};

class Graph {
public:
  /// The Problem's resources. Memory, of all stages together: what any lowering
  /// holds at one instant (MemoryFloor.h), so that a verdict or a bound under
  /// the limit is a proof. Estimate: every value from where it is made to its
  /// last use, in program order: closer to what is laid out, but no bound on it
  /// from below or above; it has no limit but what limitEstimate() sets, to
  /// look for plans that take less. Flops, for the volume objective.
  enum Resource : uint32_t { Memory, Estimate, Flops };

  /// Choices are worked out as they are asked for; the Problem is empty until
  /// build(). `effort`: counts what that takes; may be null.
  Graph(mlir::func::FuncOp function, const OpRules &rules,
        const MeshCandidate &candidate, const PlanOptions &options,
        const BatchAnalysis &batch, const DimBlocks &dimBlocks,
        const ValueNames &names, const MemoryFloor &floor,
        const Traffic &traffic, const ZeroParts &zero, dist::ReshardWays &ways,
        Effort *effort = nullptr);

  /// What any plan takes at least; may be asked in front of build(), since it
  /// takes a small part of that time: no move is looked at. Ops that keep the
  /// layout of their operand cost nothing here.
  MinTotals minTotals();
  /// Makes the Problem, once. `isOver`: once it says so, it stays unfinished.
  void build(llvm::function_ref<bool()> isOver = {});

  /// Sets the limit of `Estimate` in bytes; none: removes it.
  void limitEstimate(std::optional<int64_t> bytes) {
    problem.resources[Estimate].limit = bytes;
  }
  /// Limits the work of a device to (1 + share / 10) / N of all work; what is
  /// more than 1/N is for work that several devices repeat. `share` is at most
  /// 1; a smaller one leaves room for the cut into stages.
  void limitReplicatedWork(double share);
  /// Of values whose hints have one, in program order.
  const llvm::MapVector<mlir::Value, int64_t> &getWantedStages() const {
    return wantedStages;
  }

  /// Whether a hint rules out choices of a node.
  bool isHinted(uint32_t node) const { return hinted.contains(node); }
  /// Counts parameters in Memory once more, after choices were forbidden or
  /// allowed again.
  void recountParameters();

  /// Whether the time ran out while the graph was built: it must not be solved.
  bool isUnfinished() const { return unfinished; }
  /// Why there can be no plan (a hint that cannot be satisfied), or empty.
  const std::string &getError() const { return error; }

  const MeshCandidate &candidate;
  LayoutTable layouts;
  Problem problem;

  /// The node of the Problem whose choice says how a value is made: that of its
  /// op, or its own if it is an argument.
  uint32_t nodeOf(mlir::Value value) const {
    return providerOf(value, /*throughShared=*/false).node;
  }
  /// Layout of each operand and result of an op, or of an argument, under a
  /// solution.
  LayoutId resultLayout(const Solution &solution, mlir::Value value) const;
  LayoutId operandLayout(const Solution &solution,
                         mlir::OpOperand &operand) const;
  /// The shared layout of a value with several uses, else nothing.
  std::optional<LayoutId> sharedLayout(const Solution &solution,
                                       mlir::Value value) const;

  /// The passes that gather the value for themselves (ZeRO 3), which then has
  /// no shared layout, in order. All uses of such a pass read one layout.
  llvm::SmallVector<StepPass> passesOf(mlir::Value value) const;
  /// Whether a use reads what a pass has gathered.
  bool isOfPass(mlir::OpOperand &use) const {
    return zero.passOf(use).has_value();
  }
  LayoutId passLayout(const Solution &solution, mlir::Value value,
                      StepPass pass) const;
  /// See ReshardCosts.
  bool joinsBucket(int64_t sizeBytes) const {
    return costs.joinsBucket(sizeBytes);
  }
  const ZeroParts &getZero() const { return zero; }
  /// Whether the use is a destination that every device fills by itself, in
  /// whatever layout (a splat): nothing is moved to it.
  bool isFilledInPlace(mlir::OpOperand &use) const {
    return filledInPlace.contains(&use);
  }

  /// Seconds and operations of an op in a step under a solution, including the
  /// moves of its operands; the bytes of those moves. What a move does on the
  /// device itself (a slice) is compute.
  struct OpCost {
    double computeSeconds = 0, moveSeconds = 0;
    int64_t flops = 0;
    int64_t scaledBytes =
        0; ///< bytes of the busiest rank, times getByteScale()
    int64_t totalBytes = 0;
  };
  OpCost costOf(const Solution &solution, mlir::Operation *op);
  /// The cost of bringing a value to one use, times moveTimes().
  OpCost moveCostOf(const Solution &solution, mlir::OpOperand &operand);
  /// How often the Problem counts the move to this use.
  int64_t moveTimes(mlir::OpOperand &operand) const;
  /// The cost of bringing a value to its shared layout, if it has one.
  OpCost sharedCostOf(const Solution &solution, mlir::Value value);
  /// The cost of gathering it for a pass of each micro-batch.
  OpCost passCostOf(const Solution &solution, mlir::Value value, StepPass pass);
  /// Local bytes of a value under a solution, as made and as shared.
  int64_t localBytes(const Solution &solution, mlir::Value value) const;
  int64_t sharedBytes(const Solution &solution, mlir::Value value) const;
  /// As PlanOptions has it.
  bool isMemoryBound() const { return options.memoryBound; }
  bool hasFixedEpilogue() const { return options.fixedEpilogue; }
  bool sumsByBlock() const { return options.sumsByBlock; }

  /// The solution with the layouts of a given plan (PriceGiven.h); none if a
  /// node has no such choice.
  std::optional<Solution> find(const GivenLayouts &given);

  /// How often an op runs in a step.
  int64_t timesOf(mlir::Operation *op) const { return times(runsOf(op)); }
  /// The phase in which a value is brought to its shared layout.
  dist::Phase sharedPhase(mlir::Value value) const {
    return plan::sharedPhase(batch, value);
  }
  int64_t sharedTimes(mlir::Value value) const {
    return times(sharedRuns(value));
  }
  const BatchAnalysis &getBatch() const { return batch; }
  /// Level 0 of `volume` is in 1/byteScale of a byte.
  int64_t getByteScale() const { return byteScale; }
  /// The part of the Problem's level 0 that belongs to the ops `inside`, with
  /// one stage's limit on operations: a lower bound on what a stage that holds
  /// these ops costs.
  Problem problemOf(const llvm::DenseSet<mlir::Operation *> &inside) const;

private:
  struct ValueNode {
    uint32_t node;
    LayoutList layouts;
  };
  struct OpNode {
    uint32_t node;
    const OpChoices *choices;
  };

  void addArguments();
  void addOp(mlir::Operation *op);
  void addReturn(mlir::Operation *op);
  /// Adds the node for the layout from which all uses of a value start.
  void addSharedNode(mlir::Value value);
  bool needsSharedNode(mlir::Value value) const;
  void addPass(mlir::Value value, StepPass pass);
  void addMemory();
  /// Bytes of a result in each choice of its node, of elements this wide.
  std::vector<int64_t> heldBytes(mlir::OpResult result,
                                 int64_t bytesPerElement) const;
  /// Those that a parameter takes at least, whatever is stored of it.
  std::vector<int64_t> parameterBytes(mlir::OpResult source,
                                      int64_t bytesPerElement);
  /// The least bytes in which a parameter may be stored whatever its own choice
  /// is; none: a choice of its own is never stored in less.
  std::optional<int64_t> minStoredBytes(mlir::Value source,
                                        int64_t bytesPerElement);
  /// Whether what a reader may want, but for partial sums, are all choices of
  /// what it reads.
  bool mayAllBeOwn(LayoutList own, LayoutList wanted);
  void addEstimate();
  /// Bytes of a value on one device in each of some layouts.
  std::vector<int64_t> bytesOf(mlir::Value value,
                               llvm::ArrayRef<LayoutId> layouts) const;
  void addFlops();
  const OpChoices *choicesFor(mlir::Operation *op);
  /// A lower bound on Memory: at the instant with the largest sum, the minimum
  /// of each choice by itself. O(choices).
  Sum minMemory();
  /// For an op that uses its operand in the producer's layout.
  const OpChoices *choicesKeepingLayout(mlir::Operation *op);
  OpTotals totalsOf(mlir::Operation *op, const Strategy &strategy) const;
  /// Forbids the choices that a hint on `value` rules out.
  void applyHints(mlir::Value value, uint32_t node,
                  llvm::function_ref<LayoutId(size_t)> layoutOf);
  /// Of a step with one micro-batch both are one time, but not alike: what
  /// runs once waits for no other stage (stepWeights()).
  enum class Runs { PerMicroBatch, PerStep };
  int64_t times(Runs runs) const {
    return runs == Runs::PerStep ? 1 : candidate.microBatches;
  }
  Runs runsOf(mlir::Operation *op) const;
  Runs sharedRuns(mlir::Value value) const;
  /// What a hint on `value` may ask for: more than a search looks at, since
  /// padding does not matter.
  std::vector<LayoutId> layoutsForHints(mlir::Value value);
  dist::Layout withoutTime(LayoutId layout) const;
  std::string hintText(LayoutId layout) const;
  std::string whyNotLegal(mlir::Value value, const dist::Layout &wish) const;
  ShardingRule placementRule(mlir::Operation *op) const;
  Levels levelsOf(double seconds, int64_t scaledBytes, int64_t total,
                  Runs runs) const;
  /// Whether moves to `user` happen before the sum over micro-batches. These
  /// cost slightly more than moves behind it: among plans of equal cost the one
  /// wins that sums gradients over devices where they are accumulated.
  bool isEarly(mlir::Operation *user) const {
    return batch.isTraining() && !batch.runsOnce(user);
  }
  /// Whether bringing `value` to `user`, or if it is null to its shared layout,
  /// moves a gradient.
  static bool movesGradient(mlir::Value value, mlir::Operation *user);
  /// Adds the edge that moves `value` from node to node. The cost counts in the
  /// stage of `payer`, or, if it is null, in each stage that uses the value.
  /// With `stays` the value is not moved. `isGradient`: movesGradient().
  void connect(const ValueNode &from, const ValueNode &to, mlir::Value value,
               mlir::Operation *payer, Runs runs, bool isGradient,
               bool early = false, bool stays = false);
  LayoutList intern(std::vector<LayoutId> list) {
    return &*layoutLists.insert(std::move(list)).first;
  }
  const OpChoices *own(std::unique_ptr<OpChoices> choices, mlir::Operation *op);
  bool hasSeveralUses(mlir::Value value) const;
  /// The layout in which the only use of `value` reads it, if the value is a
  /// fill (a constant repeated) that can be made in that layout: then no
  /// reshard is needed. None: the value has a layout of its own.
  std::optional<LayoutId> layoutOfFill(const Solution &solution,
                                       mlir::Value value) const;
  /// The node that provides `value` to a use.
  ValueNode providerOf(mlir::Value value, bool throughShared) const;
  /// What a use reads: the value, or what is shared or gathered of it.
  ValueNode providerOf(mlir::OpOperand &use) const;
  OpCost moveCost(LayoutId from, LayoutId to, mlir::Value value,
                  bool isGradient, int64_t times);
  /// The block sizes of the function together with those that hints name.
  static DimBlocks withHints(DimBlocks dimBlocks, mlir::func::FuncOp function,
                             const dist::Mesh &mesh, const PlanOptions &options,
                             const ValueNames &names);
  static llvm::MapVector<mlir::Value, int64_t>
  stagesOfHints(mlir::func::FuncOp function, const PlanOptions &options,
                const ValueNames &names);
  StrategyOptions strategyOptions() const;
  StrategyOptions strategyOptions(mlir::Operation *op) const;
  StrategyOptions strategyOptions(mlir::Value value) const;
  /// Layouts of a value that are not partial in space.
  std::vector<LayoutId> layoutsOf(mlir::Value value);
  void addAssign(dist::AssignOp op);

  cost::StepShares weights;
  mlir::func::FuncOp function;
  const OpRules &rules;
  const PlanOptions &options;
  const BatchAnalysis &batch;
  DimBlocks dimBlocks;
  const ValueNames &names;
  llvm::MapVector<mlir::Value, int64_t> wantedStages;
  const MemoryFloor &floor;
  const Traffic &traffic;
  const ZeroParts &zero;
  llvm::DenseSet<mlir::OpOperand *> filledInPlace;
  int64_t byteScale;
  cost::Int128 flopsOfModel = 0; ///< once, all devices together
  ReshardCosts costs;
  Effort *effort;
  bool unfinished = false;
  std::string error;

  /// A parameter's entry among the usages of Memory.
  struct CountedParameter {
    size_t usage;
    mlir::OpResult source;
    int64_t bytesPerElement;
  };
  std::vector<CountedParameter> countedParameters;
  llvm::DenseMap<std::pair<LayoutList, LayoutList>, bool> ownedLayouts;
  llvm::DenseSet<uint32_t> hinted; ///< nodes with a hint

  llvm::MapVector<mlir::Operation *, OpNode> ops;
  llvm::DenseMap<mlir::Value, ValueNode> arguments, sharedNodes;
  llvm::MapVector<std::pair<mlir::Value, int>, ValueNode> passNodes;
  llvm::MapVector<mlir::OpOperand *, ValueNode> outputs;
  /// For each edge the value that it moves, and the op in whose stage the move
  /// is.
  std::vector<std::pair<mlir::Value, mlir::Operation *>> payers;
  std::vector<std::unique_ptr<OpChoices>> ownedChoices;
  struct Alike {
    mlir::Operation *op; ///< the first of them
    ShardingRule rule;
    const OpChoices *choices;
  };
  llvm::DenseMap<llvm::hash_code, std::vector<Alike>> alike;
  /// By the layouts and types of operand and result, and whether it sums (1),
  /// or sums in parts (2).
  std::map<std::tuple<const void *, const void *, const void *, int>,
           const OpChoices *>
      choicesOfKeptLayout;
  std::set<std::vector<LayoutId>> layoutLists;
  std::map<std::tuple<const void *, const void *, const void *, int64_t, bool,
                      bool, bool>,
           uint32_t>
      edgeTables;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_GRAPH_H
