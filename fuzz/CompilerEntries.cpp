//===- CompilerEntries.cpp - files that the compiler reads ----------------===//
//
// See Entries.h. MLIR itself is not instrumented. A model is imported from a
// file, as users give it; plan.json is applied to the suite's small model.
//
//===----------------------------------------------------------------------===//
#include "Entries.h"

#include "lib/Import/File/Npy.h"

#include "kerf/Cost/Machine.h"
#include "kerf/Dist/Dist.h"
#include "kerf/Import/Import.h"
#include "kerf/Import/Simplify.h"
#include "kerf/NN/NN.h"
#include "kerf/Plan/Plan.h"
#include "kerf/Support/Json.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;
using kerf::fuzz::Entry;
using kerf::fuzz::Format;
using kerf::fuzz::InputFile;

namespace {

llvm::StringRef textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// A context is made anew now and then: types and attributes stay in it.
class Contexts {
public:
  mlir::MLIRContext &next() {
    if (!context || ++uses % 500 == 0) {
      model = {};
      context.reset();
      mlir::DialectRegistry registry;
      registry
          .insert<nn::NNDialect, dist::DistDialect, mlir::func::FuncDialect>();
      context = std::make_unique<mlir::MLIRContext>(
          registry, mlir::MLIRContext::Threading::DISABLED);
      context->loadAllAvailableDialects();
    }
    return *context;
  }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  int uses = 0;

public:
  /// In the context, with which it goes.
  mlir::OwningOpRef<mlir::ModuleOp> model;
};

std::string oneLine(const ImportReport &report) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  report.print(stream);
  return text;
}

std::string runOnnx(const uint8_t *data, size_t size) {
  static Contexts contexts;
  static InputFile file(".onnx");
  const std::string &path = file.write(data, size);
  mlir::MLIRContext &context = contexts.next();
  // A first look says which dimensions the model leaves open.
  ImportReport open;
  (void)importOnnx(context, path, {}, open);
  for (bool training : {false, true}) {
    ImportOptions options;
    for (const std::string &name : open.unboundDims)
      options.dims[name] = 2;
    options.smallWeights = options.untie = training;
    if (training)
      options.trainingForms = ImportOptions::TrainingForms::Keep;
    ImportReport report;
    auto module = importOnnx(context, path, options, report);
    if (failed(module)) {
      if (report.exitCode() == 0)
        return "refused without a reason";
      if (report.exitCode() == 70)
        return oneLine(report);
      continue;
    }
    if (report.exitCode() != 0)
      return "imported with errors: " + oneLine(report);
    if (failed(simplifyModule(**module)))
      return "what is imported does not simplify";
    if (failed(mlir::verify(**module)))
      return "what is imported is no valid module";
    costOfModule(**module);
  }
  return "";
}

std::string runPlan(const uint8_t *data, size_t size) {
  static Contexts contexts;
  mlir::MLIRContext &context = contexts.next();
  mlir::OwningOpRef<mlir::ModuleOp> &model = contexts.model;
  if (!model) {
    ImportOptions options;
    options.dims["batch"] = 8;
    ImportReport report;
    auto module = importOnnx(context, KERF_TEST_INPUTS "/models/mlp/model.onnx",
                             options, report);
    if (failed(module))
      return oneLine(report);
    if (failed(simplifyModule(**module)))
      return "the model does not simplify";
    model = std::move(*module);
  }
  llvm::Expected<llvm::json::Value> json = parseJson(textOf(data, size));
  if (!json) {
    llvm::consumeError(json.takeError());
    return "";
  }
  mlir::OwningOpRef<mlir::ModuleOp> module(
      mlir::cast<mlir::ModuleOp>((*model)->clone()));
  std::string message, diagnosed;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          diagnosed = diagnostic.str();
                                          return mlir::success();
                                        });
  plan::PlanOptions planOptions;
  planOptions.devices = 64;
  planOptions.machine = llvm::cantFail(
      cost::machinePreset("cpu", planOptions.devices, {2, int64_t(1) << 34}));
  plan::PlanResult planned;
  if (failed(
          plan::applyPlanJson(*module, *json, planOptions, planned, message)))
    return message.empty() ? "refused without a reason" : "";
  if (failed(mlir::verify(*module)))
    return "what is planned is no valid module: " + diagnosed;
  plan::valuesToJson(*module, planned.zero);
  return "";
}

std::string runMachine(const uint8_t *data, size_t size) {
  auto machine = cost::parseMachine(textOf(data, size), "machine.json");
  if (!machine)
    return llvm::toString(machine.takeError()).empty()
               ? "refused without a reason"
               : "";
  auto again = cost::parseMachine(cost::writeMachine(*machine), "again");
  if (!again)
    return "is not read back: " + llvm::toString(again.takeError());
  return "";
}

std::string runConstant(const uint8_t *data, size_t size) {
  static Contexts contexts;
  static InputFile file(".npy");
  const std::string &path = file.write(data, size);
  std::string error;
  mlir::MLIRContext &context = contexts.next();
  auto value = onnx_import::readNpy(&context, path,
                                    mlir::IntegerType::get(&context, 4), error);
  if (!value && error.empty())
    return "refused without a reason";
  return "";
}

} // namespace

const std::vector<Entry> &kerf::fuzz::compilerEntries() {
  static const std::vector<Entry> entries = {
      {"onnx", Format::Protobuf, runOnnx},
      {"plan", Format::Json, runPlan},
      {"machine", Format::Json, runMachine},
      {"constant", Format::Binary, runConstant}};
  return entries;
}
