// What hosts of Kerf 0.2 are written against (docs/Embedding.md), by type: a
// program that was compiled with one 0.2 compiles with the next. What is added
// stands below; what stands here is never changed while the MINOR is 2.
#include "kerf/Autodiff/Passes.h"
#include "kerf/Bridge/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Passes.h"
#include "kerf/Embed/Embed.h"
#include "kerf/Interfaces/Capture.h"
#include "kerf/Interfaces/ShardingRule.h"
#include "kerf/Interpret/Interpret.h"
#include "kerf/Models/Models.h"
#include "kerf/Models/Passes.h"
#include "kerf/NN/NN.h"
#include "kerf/NNToLinalg/Passes.h"
#include "kerf/Native/Native.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/MeshText.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Ranks/Passes.h"
#include "kerf/Version.h"

static_assert(KERF_VERSION_MAJOR == 0 && KERF_VERSION_MINOR == 2,
              "another MINOR has a file of its own");

using namespace kerf;
using llvm::ArrayRef;
using llvm::StringRef;
using mlir::OpPassManager;
using mlir::Pass;
using mlir::RankedTensorType;
using Mesh = std::vector<std::pair<std::string, int64_t>>;
using MadePass = std::unique_ptr<Pass>;

// Registration, and what is made for other compilers' pipelines.
void (*const dialects)(mlir::DialectRegistry &) = registerEmbeddedDialects;
void (*const passes)() = registerEmbeddedPasses;
void (*const models)(mlir::DialectRegistry &) = registerUpstreamModels;
MadePass (*const flatten)() = plan::createFlatten;
MadePass (*const propagate)() = plan::createPropagate;
MadePass (*const planPass)(const plan::PlanOptions &, StringRef,
                           plan::PlanRun &) = plan::createPlanPass;
MadePass (*const applyPlan)(llvm::json::Value, StringRef,
                            const plan::PlanOptions &, StringRef,
                            plan::PlanRun &) = plan::createApplyPlanPass;
MadePass (*const autodiff_)(const autodiff::AutodiffOptions &,
                            autodiff::AutodiffRun &) =
    autodiff::createAutodiffPass;
MadePass (*const distToShard)() = bridge::createDistToShard;
MadePass (*const shardToDist)() = bridge::createShardToDist;
MadePass (*const callRuntime)() = ranks::createCallRuntime;
MadePass (*const nnToLinalg)() = nntolinalg::createNNToLinalg;
MadePass (*const verifyPlan)() = createVerifyPlan;
MadePass (*const separate)() = dist::createSeparatePrograms;
MadePass (*const join)() = dist::createJoinPrograms;
void (*const partition)(OpPassManager &,
                        const PartitionOptions &) = buildPartitionPipeline;
void (*const collectives)(OpPassManager &, const CollectivesOptions &) =
    buildCollectivesPipeline;

// Options and results.
std::string (*const meshText)(StringRef, Mesh &) = plan::parseMeshText;
llvm::Expected<cost::Machine> (*const machine)(StringRef,
                                               int64_t) = cost::loadMachine;
llvm::Expected<autodiff::LossSpec> (*const loss)(StringRef) =
    autodiff::parseLoss;
llvm::Expected<autodiff::OptimizerSpec> (*const optimizer)(StringRef) =
    autodiff::parseOptimizer;

#define MEMBER(STRUCT, TYPE, NAME)                                             \
  static_assert(std::is_same_v<decltype(STRUCT::NAME), TYPE>, #NAME)
MEMBER(plan::PlanOptions, int64_t, devices);
MEMBER(plan::PlanOptions, cost::Machine, machine);
MEMBER(plan::PlanOptions, Mesh, mesh);
MEMBER(plan::PlanOptions, plan::Objective, objective);
MEMBER(plan::PlanOptions, std::optional<int64_t>, memoryLimitBytes);
MEMBER(plan::PlanOptions, std::vector<plan::ShardHint>, hints);
MEMBER(plan::PlanOptions, double, deadlineSeconds);
MEMBER(plan::PlanOptions, llvm::StringMap<int64_t>, batchDims);
MEMBER(plan::PlanOptions, std::optional<int64_t>, microBatches);
MEMBER(plan::ShardHint, std::string, pattern);
MEMBER(plan::ShardHint, std::string, sharding);
MEMBER(plan::PlanRun, std::optional<plan::PlanResult>, result);
MEMBER(plan::PlanRun, std::string, message);
MEMBER(plan::PlanResult, Mesh, mesh);
MEMBER(plan::PlanResult, double, cost);
MEMBER(plan::PlanResult, double, lowerBound);
MEMBER(plan::PlanResult, std::vector<plan::CandidateSummary>, candidates);
MEMBER(plan::CandidateSummary, double, seconds);
MEMBER(plan::CandidateSummary, int64_t, totalBytes);
MEMBER(CollectivesOptions, int64_t, bucketBytes);
MEMBER(CollectivesOptions, int64_t, gradientBytes);
MEMBER(CollectivesOptions, bool, overlap);
MEMBER(autodiff::AutodiffOptions, autodiff::LossSpec, loss);
MEMBER(autodiff::AutodiffOptions, autodiff::OptimizerSpec, optimizer);
MEMBER(cost::Machine, std::string, name);
MEMBER(cost::Machine, int64_t, nodes);
MEMBER(cost::Machine, int64_t, devicesPerNode);
MEMBER(cost::Machine, int64_t, memoryBytesPerDevice);
MEMBER(cost::Machine, cost::Link, local);
MEMBER(cost::Machine, cost::Link, network);
MEMBER(cost::Throughput, double, flopsPerSecond);
MEMBER(cost::Throughput, double, bytesPerSecond);
MEMBER(cost::Throughput, double, latencySeconds);
MEMBER(cost::Link, double, latencySeconds);
MEMBER(cost::Link, double, bytesPerSecond);
constexpr plan::Objective kObjectives[] = {plan::Objective::Time,
                                           plan::Objective::Volume};

// What a dialect says of its ops.
MEMBER(ShardingRule, llvm::SmallVector<Factor>, factors);
MEMBER(ShardingRule, llvm::SmallVector<TensorFactors>, operands);
MEMBER(ShardingRule, llvm::SmallVector<TensorFactors>, results);
MEMBER(ShardingRule, llvm::SmallVector<llvm::SmallVector<unsigned>>,
       linearGroups);
unsigned (ShardingRule::*const addFactor)(int64_t, FactorKind, ReductionKind) =
    &ShardingRule::addFactor;
ShardingRule (*const elementwise)(mlir::Operation *) = elementwiseShardingRule;
ShardingRule (*const replicated)(mlir::Operation *) = replicatedShardingRule;
mlir::LogicalResult (*const verifyRule)(
    mlir::Operation *, const ShardingRule &) = verifyShardingRule;
constexpr FactorKind kFactors[] = {FactorKind::Parallel, FactorKind::Reduction,
                                   FactorKind::Replicated};
constexpr ReductionKind kReductions[] = {ReductionKind::Sum, ReductionKind::Max,
                                         ReductionKind::Min,
                                         ReductionKind::Prod};
constexpr CostClass kClasses[] = {CostClass::View,   CostClass::Elementwise,
                                  CostClass::Row,    CostClass::Matmul,
                                  CostClass::Gather, CostClass::Convolution};
constexpr LibraryWork kWorks[] = {LibraryWork::None, LibraryWork::Epilogue,
                                  LibraryWork::Product, LibraryWork::Call,
                                  LibraryWork::Sum};

/// A model of each interface that says the least that is needed.
struct Rule : ShardingRuleInterface::ExternalModel<Rule, mlir::ModuleOp> {
  ShardingRule getShardingRule(mlir::Operation *op) const {
    return replicatedShardingRule(op);
  }
};
struct Cost : OpCostInterface::ExternalModel<Cost, mlir::ModuleOp> {
  int64_t getFlops(mlir::Operation *, ArrayRef<RankedTensorType>,
                   ArrayRef<RankedTensorType>) const {
    return 0;
  }
  int64_t getBytesTouched(mlir::Operation *, ArrayRef<RankedTensorType> from,
                          ArrayRef<RankedTensorType> to) const {
    return defaultBytesTouched(CostClass::Row, from, to);
  }
  CostClass getCostClass(mlir::Operation *) const { return CostClass::Row; }
  LibraryWork getLibraryWork(mlir::Operation *) const {
    return LibraryWork::None;
  }
};
struct Gradient
    : DifferentiableInterface::ExternalModel<Gradient, mlir::ModuleOp> {
  llvm::FailureOr<llvm::SmallVector<mlir::Value>>
  buildVectorJacobianProduct(mlir::Operation *, mlir::OpBuilder &,
                             mlir::ValueRange) const {
    return mlir::failure();
  }
};
struct Range : IntervalInterface::ExternalModel<Range, mlir::ModuleOp> {
  Interval getInterval(mlir::Operation *, unsigned,
                       ArrayRef<Interval> operands) const {
    return operands.front();
  }
};
struct Source : SourceOpInterface::ExternalModel<Source, mlir::ModuleOp> {
  bool isParameter(mlir::Operation *) const { return true; }
  bool isMutable(mlir::Operation *) const { return false; }
  bool isUniform(mlir::Operation *) const { return false; }
  bool isStoredInParts(mlir::Operation *) const { return true; }
  StringRef getSourceName(mlir::Operation *) const { return "w"; }
};
void attach(mlir::MLIRContext &context) {
  mlir::ModuleOp::attachInterface<Rule, Cost, Gradient, Range, Source>(context);
}

// What comes out.
CollectiveKind kindOf(dist::CollectiveOpInterface op) { return op.getKind(); }
dist::AxesAttr groupOf(dist::CollectiveOpInterface op) { return op.getGroup(); }
int64_t bytesOf(dist::CollectiveOpInterface op, int64_t groupSize) {
  return op.getGroupBytes(groupSize);
}
mlir::FailureOr<std::vector<interpret::Tensor>> (*const simulate)(
    mlir::ModuleOp, ArrayRef<interpret::Tensor>, const interpret::Weights &,
    interpret::RankStates *, const interpret::Observer &,
    const interpret::Evaluator &) = interpret::runPartitioned;

// Added later: the ten lines of docs/Embedding.md; programs in memory.
llvm::Expected<plan::PlanOptions> (*const options)(StringRef,
                                                   StringRef) = planOptions;
void (*const shard)(OpPassManager &, const plan::PlanOptions &,
                    plan::PlanRun &) = buildShardPipeline;
using native::Program;
void (*const lower)(OpPassManager &) = native::buildLowerToLLVM;
llvm::Expected<std::unique_ptr<Program>> (*const create)(
    mlir::ModuleOp, StringRef) = Program::create;
ArrayRef<mlir::ShapedType> (Program::*const types)() const = &Program::getTypes;
kerf_ranks_t *(Program::*const ranksOf)() const = &Program::getRanks;
llvm::Error (Program::*const runOnRanks)(ArrayRef<void *>) = &Program::run;
llvm::Error (Program::*const write_)(const std::string &,
                                     const void *) = &Program::write;
llvm::Error (Program::*const read_)(const std::string &,
                                    void *) const = &Program::read;

// Added later: parameters as arguments, fused projections, captured numbers.
MadePass (*const hold)() = autodiff::createHoldParameters;
MadePass (*const split)() = models::createSplitProjections;
struct Capture : CaptureInterface::ExternalModel<Capture, mlir::ModuleOp> {
  mlir::Operation *buildWithOperands(mlir::Operation *, mlir::OpBuilder &,
                                     mlir::ValueRange) const {
    return nullptr;
  }
};
void attachCapture(mlir::MLIRContext &context) {
  mlir::ModuleOp::attachInterface<Capture>(context);
}
