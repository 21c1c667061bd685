//===- Kerf.cpp - Kerf for compilers that speak C -------------------------===//
#include "kerf-c/Kerf.h"

#include "kerf/Bridge/Passes.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Embed/Embed.h"
#include "kerf/Format/Schemas.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/MeshText.h"
#include "kerf/Plan/Passes.h"
#include "kerf/Ranks/Passes.h"
#include "kerf/Support/Json.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstdlib>
#include <cstring>

using namespace mlir;
using namespace kerf;

int kerfApiVersion() { return KERF_C_API_VERSION; }

void kerfRegisterDialects(MlirContext context) {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, linalg::LinalgDialect, math::MathDialect,
                  scf::SCFDialect, shard::ShardDialect, tensor::TensorDialect,
                  tosa::TosaDialect>();
  // What comes out of kerf-call-runtime can be parsed, too.
  registry.insert<bufferization::BufferizationDialect, LLVM::LLVMDialect,
                  memref::MemRefDialect>();
  registerEmbeddedDialects(registry);
  unwrap(context)->appendDialectRegistry(registry);
}

/// Runs what `build` puts into a pipeline.
static LogicalResult run(MlirModule module,
                         llvm::function_ref<void(PassManager &)> build) {
  if (mlirModuleIsNull(module))
    return failure();
  ModuleOp op = unwrap(module);
  PassManager passes(op.getContext());
  build(passes);
  return passes.run(op);
}

/// The options of a caller, who may have been compiled with fewer of them: the
/// missing ones are 0.
static KerfPlanOptions known(const KerfPlanOptions *given) {
  KerfPlanOptions options = {};
  std::memcpy(&options, given, std::min(given->size, sizeof(options)));
  return options;
}

static FailureOr<plan::PlanOptions> read(ModuleOp module,
                                         const KerfPlanOptions &given) {
  plan::PlanOptions options;
  options.devices = given.devices;
  if (given.size < sizeof(KerfPlanOptions))
    return module.emitError("size of the options: ")
           << given.size << ", expected at least " << sizeof(KerfPlanOptions);
  if (given.memoryLimitBytes < 0)
    return module.emitError("memoryLimitBytes: ")
           << given.memoryLimitBytes << ", expected at least 0";
  if (!(given.deadlineSeconds >= 0))
    return module.emitError("deadlineSeconds: expected at least 0");
  if (given.devices < 1)
    return module.emitError("devices: ")
           << given.devices << ", expected at least 1";
  if (std::string wrong =
          plan::parseMeshText(given.mesh ? given.mesh : "", options.mesh);
      !wrong.empty())
    return module.emitError(wrong);
  auto machine = cost::loadMachine(given.machine ? given.machine : "h100-8",
                                   given.devices);
  if (!machine)
    return module.emitError("machine: ") << llvm::toString(machine.takeError());
  options.machine = std::move(*machine);
  if (given.minimizeBytes)
    options.objective = plan::Objective::Volume;
  if (given.memoryLimitBytes)
    options.memoryLimitBytes = given.memoryLimitBytes;
  options.deadlineSeconds = given.deadlineSeconds;
  return options;
}

static std::string documentOf(ModuleOp module, const plan::PlanResult &plan) {
  namespace json = llvm::json;
  json::Object mesh;
  json::Array axes;
  int64_t devices = 1;
  for (const auto &[name, size] : plan.mesh) {
    mesh[name] = size;
    axes.push_back(name);
    devices *= size;
  }
  json::Array recompute;
  for (const plan::RecomputedBlock &block : plan.recomputed)
    recompute.push_back(
        json::Object{{"first", block.first}, {"last", block.last}});
  json::Object document{
      {"schema", planSchema.text()},
      {"mesh", std::move(mesh)},
      {"mesh_axes", std::move(axes)},
      {"devices", devices},
      {"schedule", plan::scheduleToJson(plan)},
      {"objective", json::Object{{"kind", plan::toString(plan.objective)},
                                 {"cost", plan.cost},
                                 {"lower_bound", plan.lowerBound}}},
      {"goal", plan.isTraining ? "train" : "inference"},
      {"zero", static_cast<int64_t>(plan.zero)},
      {"recompute", std::move(recompute)},
      {"values", plan::valuesToJson(module, plan.zero)}};
  return llvm::formatv("{0:2}\n", json::Value(std::move(document))).str();
}

char *kerfPlan(MlirModule module, const KerfPlanOptions *options) {
  if (mlirModuleIsNull(module))
    return nullptr;
  if (!options) {
    unwrap(module).emitError("options: expected, but null");
    return nullptr;
  }
  KerfPlanOptions given = known(options);
  FailureOr<plan::PlanOptions> read = ::read(unwrap(module), given);
  if (failed(read))
    return nullptr;
  plan::PlanRun planned;
  if (failed(run(module, [&](PassManager &passes) {
        passes.addPass(plan::createFlatten());
        passes.addPass(plan::createPlanPass(
            *read, given.machine ? given.machine : "h100-8", planned));
      })))
    return nullptr;
  return strdup(documentOf(unwrap(module), *planned.result).c_str());
}

/// A machine with as many devices as the plan's mesh. It does not matter which,
/// since nobody asks what the plan costs. If the mesh is wrong, applying the
/// plan reports it.
static llvm::Expected<cost::Machine> machineOf(const llvm::json::Value &plan) {
  const llvm::json::Object *root = plan.getAsObject();
  const auto *axes = root ? root->getArray("mesh_axes") : nullptr;
  const auto *mesh = root ? root->getObject("mesh") : nullptr;
  int64_t devices = 1;
  for (size_t i = 0; axes && mesh && i < axes->size(); ++i) {
    int64_t size =
        mesh->getInteger((*axes)[i].getAsString().value_or("")).value_or(0);
    if (size < 1 || llvm::MulOverflow(devices, size, devices))
      return cost::Machine();
  }
  return cost::machinePreset("cpu", devices, cost::HostInfo());
}

static LogicalResult applyPlan(ModuleOp module, const char *text) {
  if (!text)
    return module.emitError("plan: expected, but null");
  for (dist::MeshOp mesh : module.getOps<dist::MeshOp>())
    return mesh.emitError(
        "the module has a mesh already, expected none: a plan "
        "brings its own");
  llvm::Expected<llvm::json::Value> plan = parseJson(text);
  if (!plan)
    return module.emitError("plan: ") << llvm::toString(plan.takeError());
  llvm::Expected<cost::Machine> machine = machineOf(*plan);
  if (!machine)
    return module.emitError("plan: mesh: ")
           << llvm::toString(machine.takeError());
  plan::PlanOptions options;
  options.machine = std::move(*machine);
  module.getContext()->getOrLoadDialect<dist::DistDialect>();
  plan::PlanResult result;
  std::string message;
  if (failed(plan::applyPlanJson(module, *plan, options, result, message)))
    return module.emitError("plan: ") << message;
  return success();
}

MlirLogicalResult kerfApplyPlan(MlirModule module, const char *plan) {
  if (failed(run(module, [](PassManager &passes) {
        passes.addPass(plan::createFlatten());
      })))
    return wrap(failure());
  return wrap(applyPlan(unwrap(module), plan));
}

MlirLogicalResult kerfPropagate(MlirModule module) {
  return wrap(run(module, [](PassManager &passes) {
    passes.addPass(plan::createFlatten());
    passes.addPass(plan::createPropagate());
  }));
}

MlirLogicalResult kerfPartition(MlirModule module) {
  return wrap(
      run(module, [](PassManager &passes) { buildPartitionPipeline(passes); }));
}

MlirLogicalResult kerfCollectives(MlirModule module) {
  return wrap(run(
      module, [](PassManager &passes) { buildCollectivesPipeline(passes); }));
}

MlirLogicalResult kerfCallRuntime(MlirModule module) {
  return wrap(run(module, [](PassManager &passes) {
    passes.addPass(ranks::createCallRuntime());
  }));
}

MlirLogicalResult kerfDistToShard(MlirModule module) {
  return wrap(run(module, [](PassManager &passes) {
    passes.addPass(bridge::createDistToShard());
  }));
}

MlirLogicalResult kerfShardToDist(MlirModule module) {
  return wrap(run(module, [](PassManager &passes) {
    passes.addPass(bridge::createShardToDist());
  }));
}

void kerfFree(char *text) { std::free(text); }
