//===- Harness.cpp - annotated programs on simulated ranks ----------------===//
#include "Harness.h"

#include "LoopEvaluator.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Transforms/ShardingInterfaceImpl.h"
#include "mlir/Dialect/Func/Extensions/ShardingExtensions.h"
#include "mlir/Dialect/Linalg/Transforms/ShardingInterfaceImpl.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Dialect/Shard/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/Extensions/ShardingExtensions.h"
#include "mlir/Dialect/Tosa/IR/ShardingInterfaceImpl.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;
using interpret::Tensor;

static DialectRegistry makeRegistry() {
  DialectRegistry registry;
  registerDialects(registry);
  registerUpstreamDialects(registry);
  arith::registerShardingInterfaceExternalModels(registry);
  func::registerShardingInterfaceExternalModels(registry);
  linalg::registerShardingInterfaceExternalModels(registry);
  tensor::registerShardingInterfaceExternalModels(registry);
  tosa::registerShardingInterfaceExternalModels(registry);
  return registry;
}

BridgeContext::BridgeContext()
    : context(makeRegistry(), MLIRContext::Threading::DISABLED) {
  context.loadAllAvailableDialects();
  static const bool isRegistered = [] {
    registerPasses();
    shard::registerShardPasses();
    return true;
  }();
  (void)isRegistered;
}

std::string test::textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

func::FuncOp test::entryOf(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic())
      return function;
  return {};
}

std::vector<Tensor> test::inputsFor(func::FuncOp function) {
  std::vector<Tensor> inputs;
  unsigned state = 7;
  for (Type type : function.getArgumentTypes()) {
    Tensor &input =
        inputs.emplace_back(cast<RankedTensorType>(type).getShape());
    for (double &value : input.data) {
      state = state * 1103515245 + 12345;
      value = static_cast<double>(state / 65536 % 5) - 2;
    }
  }
  return inputs;
}

std::vector<Tensor> test::runWhole(ModuleOp module) {
  OwningOpRef<ModuleOp> copy(module.clone());
  copy->walk([](Operation *op) {
    if (isa<shard::ShardOp, dist::ReshardOp>(op)) {
      op->getResult(0).replaceAllUsesWith(op->getOperand(0));
      op->erase();
    }
  });
  copy->walk([](shard::ShardingOp op) { op.erase(); });
  func::FuncOp function = entryOf(*copy);
  auto outputs = runUpstream(function, inputsFor(function));
  return succeeded(outputs) ? *outputs : std::vector<Tensor>();
}

bool test::runPasses(ModuleOp module, StringRef pipeline,
                     std::string &messages) {
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &each) {
    messages += each.str() + "\n";
    return success();
  });
  auto passes = PassManager::on<ModuleOp>(module.getContext());
  llvm::raw_string_ostream stream(messages);
  return succeeded(parsePassPipeline(pipeline, passes, stream)) &&
         succeeded(passes.run(module));
}

/// That of an argument or a result; without one it is whole.
static Attribute shardingOr(Attribute sharding, Type type, ModuleOp module) {
  if (sharding)
    return sharding;
  return dist::ShardingAttr::get(
      module.getContext(), dist::getMesh(module),
      dist::Layout(cast<RankedTensorType>(type).getRank()));
}

bool test::frame(ModuleOp module, func::FuncOp annotated) {
  MLIRContext *context = module.getContext();
  func::FuncOp part = entryOf(module);
  std::string name = part.getName().str();
  part.setName("stage0_forward");
  dist::setPart(part, 0, dist::Phase::Forward);
  auto entry = func::FuncOp::create(annotated.getLoc(), name,
                                    annotated.getFunctionType());
  entry.setPrivate();
  module.insert(part, entry);
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto schedule = dist::ScheduleOp::create(builder, part.getLoc(), 0);
  Block &list = schedule.getBody().emplaceBlock();
  builder.setInsertionPointToStart(&list);
  SmallVector<Value> operands;
  for (auto [index, type] : llvm::enumerate(part.getArgumentTypes())) {
    Attribute sharding =
        shardingOr(annotated.getArgAttr(index, dist::kSharding), type, module);
    auto whole = TypeAttr::get(annotated.getArgumentTypes()[index]);
    entry.setArgAttr(index, dist::kSharding, sharding);
    part.setArgAttr(index, dist::kSharding, sharding);
    part.setArgAttr(index, dist::kGlobalType, whole);
    part.setArgAttr(index, dist::kFrom,
                    dist::FromAttr::get(context, dist::From::Input, index));
    operands.push_back(
        dist::InputOp::create(builder, part.getLoc(), type, index, 0));
    operands.back().getDefiningOp()->setAttr(dist::kSharding, sharding);
    operands.back().getDefiningOp()->setAttr(dist::kGlobalType, whole);
  }
  bool fits = true;
  auto check = [&](Attribute sharding, Type whole, Type part) {
    auto layout = llvm::cantFail(cast<dist::ShardingAttr>(sharding).toLayout(
        dist::getMesh(module).toMesh()));
    fits &= part == dist::localType(cast<RankedTensorType>(whole), layout);
  };
  for (auto [index, type] : llvm::enumerate(part.getArgumentTypes()))
    check(entry.getArgAttr(index, dist::kSharding),
          entry.getArgumentTypes()[index], type);
  auto run = dist::RunOp::create(builder, part.getLoc(), part.getResultTypes(),
                                 part.getName(), operands, 0);
  for (unsigned index = 0; index < part.getNumResults(); ++index) {
    Attribute sharding =
        shardingOr(annotated.getResultAttr(index, dist::kSharding),
                   part.getResultTypes()[index], module);
    entry.setResultAttr(index, dist::kSharding, sharding);
    part.setResultAttr(index, dist::kSharding, sharding);
    part.setResultAttr(index, dist::kGlobalType,
                       TypeAttr::get(annotated.getResultTypes()[index]));
    part.setResultAttr(
        index, dist::kTo,
        dist::ToAttr::get(context, {static_cast<int64_t>(index)}, {}, {}));
    dist::OutputOp::create(builder, part.getLoc(), run.getResult(index), index,
                           0);
    check(sharding, annotated.getResultTypes()[index],
          part.getResultTypes()[index]);
  }
  return fits;
}

std::optional<std::vector<Tensor>> test::runRanks(ModuleOp module,
                                                  std::string &messages) {
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &each) {
    messages += each.str() + "\n";
    return success();
  });
  func::FuncOp entry = dist::findEntry(module);
  if (failed(mlir::verify(module)))
    return std::nullopt;
  auto outputs = interpret::runPartitioned(module, inputsFor(entry), {},
                                           nullptr, nullptr, evaluateUpstream);
  return succeeded(outputs) ? std::optional(*outputs) : std::nullopt;
}

bool test::isSame(ArrayRef<Tensor> a, ArrayRef<Tensor> b) {
  return a.size() == b.size() &&
         llvm::all_of(llvm::zip_equal(a, b), [](const auto &pair) {
           return interpret::difference(std::get<0>(pair), std::get<1>(pair)) <=
                  1e-9;
         });
}
