//===- Graph.h - a function as a planning Problem ---------------*- C++ -*-===//
//
// Nodes of the Problem: every op (choices: strategies), every input and weight
// (choices: storage layouts), every value with several uses (choices: the
// layout that is shared; a gather that several uses need is paid for once), and
// every output (choices: how it is left). Edges: what moving the value between
// the two layouts costs. Resources: memory, and for the volume objective the
// floating-point operations of a device.
//
// Costs are those of a whole step: what runs for each micro-batch counts that
// often. A source and what is assigned to it are one node.
//
// Ops that are alike (name, attributes, types, batch factor) share strategies
// and cost tables, so repeated layers are enumerated once and the solver
// recognises them.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_GRAPH_H
#define KERF_LIB_PLAN_MODEL_GRAPH_H

#include "DimBlocks.h"
#include "ReshardCosts.h"
#include "Strategies.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Plan/BatchAnalysis.h"
#include "kerf/Plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace kerf::plan {

struct GivenLayouts;

/// What one op costs under one strategy, on one device, each time it runs.
struct OpTotals {
  double seconds = 0;
  int64_t flops = 0;
};

/// Strategies and costs that ops alike share.
struct OpChoices {
  std::vector<Strategy> strategies;
  std::vector<OpTotals> totals;
};

/// The use of a source that says what is assigned: it moves nothing.
inline bool isAssignTarget(mlir::OpOperand &use) {
  return mlir::isa<dist::AssignOp>(use.getOwner()) &&
         use.getOperandNumber() == 0;
}

/// Whether a value is made where the source lies to which it is assigned.
bool isWrittenInPlace(mlir::OpResult result);

/// The phase in which a value of a training step is brought to its shared
/// layout.
dist::Phase sharedPhase(const BatchAnalysis &batch, mlir::Value value);

/// Names of values for hints and plan.json: the ONNX name of inputs, weights
/// and nodes, made unique by "#2", "#3".
class ValueNames {
public:
  explicit ValueNames(mlir::func::FuncOp function);
  llvm::StringRef operator[](mlir::Value value) const {
    return names.find(value)->second;
  }
  mlir::Value find(llvm::StringRef name) const { return values.lookup(name); }

private:
  llvm::DenseMap<mlir::Value, std::string> names;
  llvm::StringMap<mlir::Value> values;
};

/// Why a hint is none: its pattern is no regular expression, or no value has
/// such a name. Empty if all are fine.
std::string checkHints(mlir::func::FuncOp function, const ValueNames &names,
                       llvm::ArrayRef<ShardHint> hints);

/// How much of what runs once for each micro-batch, and of what runs once per
/// step, a step takes at least.
///
/// One stage, and forward only: M and 1. Training over p stages: stage i starts
/// after the stages in front of it have worked on the first micro-batch and
/// ends before they have worked on the last, so a step takes at least
/// M t_i + u_i + sum_{j<i} t_j for every i, t being seconds per micro-batch and
/// u those once per step. The mean of these with weights l_i in proportion to
/// ((M-1)/M)^(p-1-i) has the same factor for all t_j: 1 / (1 - ((M-1)/M)^p),
/// and at least l_0 for each u_j.
struct PartWeights {
  double perMicroBatch = 1, perStep = 1;
};
PartWeights partWeights(const MeshCandidate &candidate,
                        const BatchAnalysis &batch, Objective objective);

class Graph {
public:
  /// `memoryShare`: how much of what all stages together may hold is used (and
  /// of the tenth of the work that may be done twice).
  Graph(mlir::func::FuncOp function, const MeshCandidate &candidate,
        const PlanOptions &options, const BatchAnalysis &batch,
        const DimBlocks &dimBlocks, const ValueNames &names,
        double memoryShare = 1);

  /// Why there can be no plan (a hint that cannot be kept), or empty.
  const std::string &getError() const { return error; }

  const MeshCandidate &candidate;
  LayoutTable layouts;
  Problem problem;

  /// Layout of each operand and result of an op, or of an argument, under a
  /// solution.
  LayoutId resultLayout(const Solution &solution, mlir::Value value) const;
  LayoutId operandLayout(const Solution &solution,
                         mlir::OpOperand &operand) const;
  /// The shared layout of a value with several uses, else nothing.
  std::optional<LayoutId> sharedLayout(const Solution &solution,
                                       mlir::Value value) const;

  /// Seconds and operations of an op under a solution in a step, with the moves
  /// of its operands; bytes of those moves.
  struct OpCost {
    double computeSeconds = 0, moveSeconds = 0;
    int64_t flops = 0;
    int64_t shares = 0; ///< bytes of the busiest rank, times getByteScale()
    int64_t totalBytes = 0;
  };
  OpCost costOf(const Solution &solution, mlir::Operation *op);
  /// What it costs to bring a value to one use, as often as the Problem counts.
  OpCost moveCostOf(const Solution &solution, mlir::OpOperand &operand);
  /// How often the Problem counts that.
  int64_t moveTimes(mlir::OpOperand &operand) const;
  /// What it costs to bring a value to its shared layout, if it has one.
  OpCost sharedCostOf(const Solution &solution, mlir::Value value);
  /// Local bytes of a value under a solution, as made and as shared.
  int64_t localBytes(const Solution &solution, mlir::Value value) const;
  int64_t sharedBytes(const Solution &solution, mlir::Value value) const;

  /// The solution in which everything lies as a given plan says (PriceGiven.h);
  /// none if something has no such choice.
  std::optional<Solution> find(const GivenLayouts &given);

  /// How often an op runs in a step.
  int64_t timesOf(mlir::Operation *op) const;
  /// The phase in which a value is brought to its shared layout.
  dist::Phase sharedPhase(mlir::Value value) const {
    return plan::sharedPhase(batch, value);
  }
  int64_t sharedTimes(mlir::Value value) const;
  const BatchAnalysis &getBatch() const { return batch; }
  /// Level 0 of `volume` is in 1/byteScale of a byte.
  int64_t getByteScale() const { return byteScale; }
  /// What of the Problem's level 0 the ops `inside` pay for, with a stage's
  /// share of the work: every plan whose stage holds them costs at least that
  /// there.
  Problem problemOf(const llvm::DenseSet<mlir::Operation *> &inside) const;

private:
  struct ValueNode {
    uint32_t node;
    std::vector<LayoutId> layouts; ///< per choice
  };
  struct OpNode {
    uint32_t node;
    const OpChoices *choices;
  };

  void addArguments();
  void addOp(mlir::Operation *op);
  void addReturn(mlir::Operation *op);
  void addHub(mlir::Value value);
  void addMemory();
  void addFlops();
  const OpChoices *choicesFor(mlir::Operation *op);
  /// For what takes its operand as it is made.
  const OpChoices *choicesKeepingLayout(mlir::Operation *op);
  OpTotals totalsOf(mlir::Operation *op, const Strategy &strategy) const;
  /// Forbids the choices that a hint on `value` rules out.
  void applyHints(mlir::Value value, uint32_t node,
                  llvm::function_ref<LayoutId(size_t)> layoutOf);
  Levels levelsOf(double seconds, int64_t shares, int64_t total,
                  int64_t times) const;
  /// Moves before the sums over micro-batches are a trifle dearer than those
  /// behind: of plans that cost the same, gradients are added where they are
  /// accumulated.
  bool isEarly(mlir::Operation *user) const {
    return batch.isTraining() && !batch.runsOnce(user);
  }
  /// Adds the edge that moves `value` from node to node, in the stage of
  /// `payer`; none: in each stage that uses the value. With `stays` it is not
  /// moved.
  void connect(uint32_t from, const std::vector<LayoutId> &fromLayouts,
               const void *fromKey, uint32_t to,
               const std::vector<LayoutId> &toLayouts, const void *toKey,
               mlir::Value value, mlir::Operation *payer, int64_t times,
               bool early = false, bool stays = false);
  /// Node, layouts per choice and identity of what provides `value` to a use.
  struct Provider {
    uint32_t node;
    std::vector<LayoutId> layouts;
    const void *key;
  };
  Provider providerOf(mlir::Value value, bool throughShared) const;
  /// The units with the blocks that hints name.
  static DimBlocks withHints(DimBlocks dimBlocks, mlir::func::FuncOp function,
                             const dist::Mesh &mesh, const PlanOptions &options,
                             const ValueNames &names);
  StrategyOptions strategyOptions() const;
  StrategyOptions strategyOptions(mlir::Operation *op) const;
  StrategyOptions strategyOptions(mlir::Value value) const;
  /// Layouts of a value that are not partial in space.
  std::vector<LayoutId> layoutsOf(mlir::Value value);
  void addAssign(dist::AssignOp op);

  double memoryShare;
  PartWeights weights;
  mlir::func::FuncOp function;
  const PlanOptions &options;
  const BatchAnalysis &batch;
  DimBlocks dimBlocks;
  const ValueNames &names;
  int64_t byteScale;
  ReshardCosts costs;
  std::string error;

  llvm::MapVector<mlir::Operation *, OpNode> ops;
  llvm::DenseMap<mlir::Value, ValueNode> arguments, sharedNodes;
  llvm::MapVector<mlir::OpOperand *, ValueNode> outputs;
  /// Of each edge: the value that it moves and the op in whose stage.
  std::vector<std::pair<mlir::Value, mlir::Operation *>> payers;
  std::vector<std::unique_ptr<OpChoices>> ownedChoices;
  llvm::DenseMap<
      llvm::hash_code,
      llvm::SmallVector<std::pair<mlir::Operation *, const OpChoices *>>>
      alike;
  std::map<std::tuple<const void *, const void *, const void *, bool>,
           const OpChoices *>
      choicesOfKeptLayout;
  std::map<std::vector<LayoutId>, const void *> layoutKeys;
  std::map<
      std::tuple<const void *, const void *, const void *, int64_t, bool, bool>,
      uint32_t>
      edgeTables;
};

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_GRAPH_H
