//===- OnRanks.cpp - upstream ops, planned and run on ranks ---------------===//
#include "OnRanks.h"

#include "LoopEvaluator.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

std::string kerf::test::textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

std::vector<Tensor> kerf::test::makeInputs(func::FuncOp function,
                                           Random &random) {
  std::vector<Tensor> inputs;
  for (Type type : function.getArgumentTypes()) {
    Tensor &input = inputs.emplace_back(plannedType(type).getShape());
    for (double &value : input.data)
      value = static_cast<double>(random() % 5) - 2;
  }
  return inputs;
}

static plan::PlanOptions drawOptions(Random &random, unsigned seed) {
  const std::vector<std::pair<std::string, int64_t>> meshes[] = {
      {{"a", 2}},
      {{"a", 3}},
      {{"a", 4}},
      {{"a", 8}},
      {{"a", 2}, {"b", 2}},
      {{"a", 2}, {"b", 3}},
      {{"a", 2}, {"b", 2}, {"c", 2}},
      {{"pp", 2}, {"a", 2}},
      {{"dp", 2}, {"tp", 2}}};
  plan::PlanOptions options;
  options.mesh = meshes[random() % 9];
  for (const auto &[name, size] : options.mesh)
    options.devices *= size;
  options.machine = llvm::cantFail(
      cost::machinePreset("h100-8", options.devices, cost::HostInfo()));
  options.solver =
      random() % 10 < 8 ? plan::SolverKind::Random : plan::SolverKind::Auto;
  options.objective =
      random() % 2 ? plan::Objective::Volume : plan::Objective::Time;
  options.seed = seed;
  return options;
}

/// Puts each axis of a random mesh on a random dimension of some arguments and
/// results.
static void annotate(ModuleOp module, Random &random) {
  MLIRContext *context = module.getContext();
  auto function = dist::findEntry(module);
  const std::vector<int64_t> sizes[] = {{2},    {3},    {4},      {8},
                                        {2, 2}, {2, 3}, {2, 2, 2}};
  dist::Mesh mesh;
  for (int64_t size : sizes[random() % 7])
    mesh.axes.push_back(
        {std::string(1, static_cast<char>('a' + mesh.axes.size())), size});
  auto attr = dist::MeshAttr::get(context, mesh);
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  dist::MeshOp::create(builder, module.getLoc(), "mesh", attr);
  auto draw = [&](Type type) -> Attribute {
    dist::Layout layout(cast<RankedTensorType>(type).getRank());
    for (unsigned axis = 0; axis < mesh.axes.size(); ++axis)
      if (random() % 2 && !layout.dims.empty())
        layout.dims[random() % layout.dims.size()].push_back(
            dist::wholeAxis(mesh, axis));
    return random() % 2 ? dist::ShardingAttr::get(context, attr, layout)
                        : dist::ShardingAttr();
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (Attribute sharding = draw(function.getArgumentTypes()[i]))
      function.setArgAttr(i, dist::kSharding, sharding);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (Attribute sharding = draw(function.getResultTypes()[i]))
      function.setResultAttr(i, dist::kSharding, sharding);
}

std::optional<LogicalResult> kerf::test::planAtRandom(ModuleOp module,
                                                      Random &random,
                                                      unsigned seed,
                                                      bool isTrained) {
  MLIRContext *context = module.getContext();
  PassManager flatten(context);
  flatten.addPass(plan::createFlatten());
  if (failed(flatten.run(module)))
    return failure();
  // Remarks about ops without a rule.
  ScopedDiagnosticHandler quiet(context,
                                [](Diagnostic &) { return success(); });
  if (random() % 3 == 0 && !isTrained) {
    annotate(module, random);
    PassManager propagate(context);
    propagate.addPass(plan::createPropagate());
    return propagate.run(module);
  }
  plan::PlanError error = plan::PlanError::None;
  std::string message;
  if (failed(
          plan::planModule(module, drawOptions(random, seed), error, message)))
    return std::nullopt;
  return success();
}

std::optional<LogicalResult>
kerf::test::planAndPartition(ModuleOp module, Random &random, unsigned seed,
                             std::string &planned) {
  std::optional<LogicalResult> found = planAtRandom(module, random, seed);
  if (!found || failed(*found))
    return found;
  planned = textOf(module);
  PassManager passes(module.getContext());
  buildPartitionPipeline(passes);
  if (random() % 2)
    buildCollectivesPipeline(passes);
  return passes.run(module);
}

std::optional<FailureOr<std::vector<Tensor>>>
kerf::test::planAndRun(ModuleOp module, ArrayRef<Tensor> inputs, Random &random,
                       unsigned seed, std::string &planned) {
  std::optional<LogicalResult> partitioned =
      planAndPartition(module, random, seed, planned);
  if (!partitioned)
    return std::nullopt;
  if (failed(*partitioned))
    return FailureOr<std::vector<Tensor>>(failure());
  // As text, which other tools read: what is not printed is lost.
  auto read = parseSourceString<ModuleOp>(textOf(module), module.getContext());
  if (!read)
    return FailureOr<std::vector<Tensor>>(failure());
  return interpret::runPartitioned(*read, inputs, {}, nullptr, nullptr,
                                   evaluateUpstream);
}
