//===- Harness.cpp - a model as training steps in the interpreter ---------===//
#include "Harness.h"

#include "Tensors.h"

#include "kerf/Autodiff/Passes.h"
#include "kerf/Import/Import.h"
#include "kerf/Import/Simplify.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/NN/NN.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::test;
using llvm::StringRef;

static interpret::Tensor weightContent(mlir::Operation *op) {
  auto weight = llvm::cast<nn::WeightOp>(op);
  auto files =
      op->getParentOfType<mlir::ModuleOp>()->getAttrOfType<mlir::ArrayAttr>(
          kFilesAttr);
  std::string error;
  auto file = MappedFile::open(
      llvm::cast<mlir::StringAttr>(files[weight.getFile()]).getValue(), error);
  onnx_import::TensorData data;
  data.type = llvm::cast<mlir::RankedTensorType>(weight.getStored());
  data.bytes = file->bytes().slice(weight.getOffset(), weight.getLength());
  interpret::Tensor whole =
      interpret::fromElements(onnx_import::toElements(data));
  if (!weight.getStarts())
    return whole;
  interpret::Tensor view(weight.getType().getShape());
  interpret::forEachIndex(view.shape, [&](llvm::ArrayRef<int64_t> index) {
    interpret::Index at(index.begin(), index.end());
    for (auto [i, start] : llvm::zip(at, *weight.getStarts()))
      i += start;
    view.at(index) = whole.at(at);
  });
  return view;
}

static mlir::DialectRegistry registry() {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  return registry;
}

TrainingModel::TrainingModel()
    : context(registry(), mlir::MLIRContext::Threading::DISABLED) {
  context.loadAllAvailableDialects();
}

void TrainingModel::load(const std::string &path,
                         const std::map<std::string, int64_t> &dims,
                         const autodiff::AutodiffOptions &options) {
  optimizer = options.optimizer;
  ImportOptions import;
  import.dims = dims;
  import.trainingForms = ImportOptions::TrainingForms::Keep;
  import.smallWeights = true;
  import.scalarWeights = options.trainable;
  ImportReport report;
  auto imported = importOnnx(context, path, import, report);
  ASSERT_TRUE(mlir::succeeded(imported)) << path;
  module = std::move(*imported);
  ASSERT_TRUE(mlir::succeeded(simplifyModule(*module)));
  autodiff::AutodiffFailure why;
  ASSERT_TRUE(
      mlir::succeeded(autodiff::differentiate(module.get(), options, why)))
      << why.messages.front().text;
  mlir::PassManager passes(&context);
  passes.addPass(autodiff::createVerifyAfterAutodiff());
  ASSERT_TRUE(mlir::succeeded(passes.run(module.get())));
}

std::vector<interpret::Tensor> TrainingModel::step(Input input) {
  auto main = module->lookupSymbol<mlir::func::FuncOp>("main");
  auto t = static_cast<double>(++stepsDone);
  std::map<StringRef, double> scalars{
      {"train.learning_rate", optimizer.learningRate},
      {"train.bias_correction_1", 1 - std::pow(optimizer.option("beta1"), t)},
      {"train.bias_correction_2", 1 - std::pow(optimizer.option("beta2"), t)},
      {"train.gradient_weight", t == 1 ? 1 : 1 - optimizer.option("dampening")},
      {"train.seed", 1},
      {"train.step", t}};
  std::vector<interpret::Tensor> inputs;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    StringRef name =
        main.getArgAttrOfType<mlir::StringAttr>(i, kNameAttr).getValue();
    auto scalar = scalars.find(name);
    inputs.push_back(scalar != scalars.end()
                         ? interpret::Tensor({}, scalar->second)
                         : input(name, llvm::cast<mlir::RankedTensorType>(
                                           main.getArgumentTypes()[i])
                                           .getShape()));
  }
  auto outputs = interpret::run(main, inputs, weightContent, &state);
  EXPECT_TRUE(mlir::succeeded(outputs));
  return mlir::succeeded(outputs) ? *outputs : std::vector<interpret::Tensor>();
}

interpret::Tensor TrainingModel::parameter(StringRef name) {
  auto known = state.find(name.str());
  if (known != state.end())
    return known->second;
  auto main = module->lookupSymbol<mlir::func::FuncOp>("main");
  for (nn::WeightOp weight : main.getBody().front().getOps<nn::WeightOp>())
    if (weight.getName() == name)
      return weightContent(weight);
  return {};
}
