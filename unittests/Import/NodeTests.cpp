//===- NodeTests.cpp - ONNX's node tests in one process -------------------===//
//
// A folder per test: model.onnx, input_0.npy ..., output_0.npy .... Each model
// is imported and interpreted, and its outputs are compared as ONNX compares
// them (shape, type, rtol 1e-3, atol 1e-7). Prints one line per test:
// `pass|differ|refused NAME [reason]`. Integer inputs become constants where
// the import without that fails, since they steer shapes.
//
//===----------------------------------------------------------------------===//
#include "Npy.h"
#include "Tensors.h"

#include "kerf/Import/Import.h"
#include "kerf/Import/Simplify.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interpret/Bounded.h"
#include "kerf/Interpret/Interpret.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace kerf;
using namespace llvm;
using mlir::DenseElementsAttr;

namespace {

struct Test {
  std::string name, folder;
  std::vector<DenseElementsAttr> inputs, outputs;
};

std::string numbered(const Test &test, const char *kind, size_t index) {
  return test.folder + "/" + kind + "_" + std::to_string(index) + ".npy";
}

bool readArrays(mlir::MLIRContext &context, Test &test, const char *kind,
                std::vector<DenseElementsAttr> &arrays) {
  std::string error;
  while (sys::fs::exists(numbered(test, kind, arrays.size()))) {
    // Codes of a type that the model knows are bytes so far.
    arrays.push_back(onnx_import::readNpy(
        &context, numbered(test, kind, arrays.size()),
        mlir::IntegerType::get(&context, 8, mlir::IntegerType::Unsigned),
        error));
    if (!arrays.back())
      return false;
  }
  return true;
}

interpret::Tensor weightContent(mlir::Operation *op) {
  auto weight = cast<nn::WeightOp>(op);
  auto module = op->getParentOfType<mlir::ModuleOp>();
  auto files = module->getAttrOfType<mlir::ArrayAttr>(kFilesAttr);
  std::string error;
  auto file = MappedFile::open(
      cast<mlir::StringAttr>(files[weight.getFile()]).getValue(), error);
  onnx_import::TensorData data;
  data.type = cast<mlir::RankedTensorType>(weight.getStored());
  data.bytes = file->bytes().slice(weight.getOffset(), weight.getLength());
  interpret::Tensor whole =
      interpret::fromElements(onnx_import::toElements(data));
  if (!weight.getStarts())
    return whole;
  interpret::Tensor view(weight.getType().getShape());
  interpret::forEachIndex(view.shape, [&](ArrayRef<int64_t> index) {
    interpret::Index at(index.begin(), index.end());
    for (auto [i, start] : zip(at, *weight.getStarts()))
      i += start;
    view.at(index) = whole.at(at);
  });
  return view;
}

/// An array as numbers of the type that the model says.
interpret::Tensor tensorOf(DenseElementsAttr array, mlir::Type element) {
  if (!isNarrow(element))
    return interpret::fromElements(array);
  std::vector<uint8_t> codes;
  for (const APInt &code : array.getValues<APInt>())
    codes.push_back(static_cast<uint8_t>(code.getZExtValue()));
  return interpret::fromBytes(
      cast<mlir::RankedTensorType>(array.getType().clone(element)), codes);
}

/// Empty if `found` is what was expected.
std::string compare(const interpret::Tensor &found,
                    const interpret::Tensor &expected) {
  std::string text;
  raw_string_ostream stream(text);
  if (found.shape != expected.shape) {
    stream << "shape [";
    interleaveComma(found.shape, stream);
    stream << "], expected [";
    interleaveComma(expected.shape, stream);
    stream << "]";
    return text;
  }
  for (size_t i = 0; i < found.data.size(); ++i) {
    double a = found.data[i], b = expected.data[i];
    if (a == b || (std::isnan(a) && std::isnan(b)))
      continue;
    if (!(std::fabs(a - b) <= 1e-7 + 1e-3 * std::fabs(b))) {
      stream << "element " << i << " is " << a << ", expected " << b;
      return text;
    }
  }
  return text;
}

std::string reason(const ImportReport &report) {
  if (!report.unsupported.empty())
    return report.unsupported.front().what;
  return report.issues.empty() ? "" : report.issues.front().message;
}

void runTest(mlir::MLIRContext &context, Test &test) {
  auto say = [&](const char *verdict, const Twine &why = "") {
    outs() << verdict << " " << test.name << " " << why << "\n";
    outs().flush();
  };
  if (!readArrays(context, test, "input", test.inputs) ||
      !readArrays(context, test, "output", test.outputs))
    return say("refused", "element type of an array");
  std::string path = test.folder + "/model.onnx";
  ImportReport report;
  auto module = importOnnx(context, path, {}, report);
  if (failed(module)) {
    ImportOptions options;
    for (auto [index, input] : enumerate(report.inputs))
      if (index < test.inputs.size() &&
          (isa<mlir::IntegerType>(test.inputs[index].getElementType()) ||
           test.inputs[index].getNumElements() <= 1))
        options.constants[input.name] = "@" + numbered(test, "input", index);
    ImportReport again;
    module = importOnnx(context, path, options, again);
    if (failed(module))
      return say("refused", reason(again));
  }
  if (failed(simplifyModule(**module)))
    return say("refused", "simplification does not converge");
  auto main = (*module)->lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<interpret::Tensor> inputs;
  for (unsigned index = 0; index < main.getNumArguments(); ++index) {
    auto name = main.getArgAttrOfType<mlir::StringAttr>(index, kNameAttr);
    for (auto [at, input] : enumerate(report.inputs))
      if (input.name == name.getValue() && at < test.inputs.size())
        inputs.push_back(
            tensorOf(test.inputs[at],
                     cast<mlir::ShapedType>(main.getArgumentTypes()[index])
                         .getElementType()));
  }
  if (inputs.size() != main.getNumArguments())
    return say("refused", "an optional input is absent");
  std::string complaint;
  mlir::ScopedDiagnosticHandler handler(&context,
                                        [&](mlir::Diagnostic &diagnostic) {
                                          complaint += diagnostic.str();
                                          return mlir::success();
                                        });
  auto results = interpret::run(main, inputs, weightContent);
  if (failed(results))
    return say("differ", "not interpreted: " + complaint);
  results = interpret::modelOutputs(main, *results);
  for (size_t index = 0; index < test.outputs.size(); ++index) {
    auto type = cast<mlir::RankedTensorType>(main.getResultTypes()[index]);
    if (type.getElementType() != test.outputs[index].getElementType() &&
        !isNarrow(type.getElementType()))
      return say("differ", "element type of output " + Twine(index));
    std::string difference =
        compare((*results)[index],
                tensorOf(test.outputs[index], type.getElementType()));
    if (!difference.empty())
      return say("differ", difference);
  }
  say("pass");
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    errs() << "usage: kerf-node-tests FOLDER\n";
    return 2;
  }
  std::vector<std::string> names;
  std::error_code error;
  for (sys::fs::directory_iterator entry(argv[1], error), end;
       entry != end && !error; entry.increment(error))
    names.push_back(entry->path());
  sort(names);
  for (const std::string &folder : names) {
    // A fresh context for each: attributes are never freed.
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    Test test{StringRef(folder).rsplit('/').second.str(), folder, {}, {}};
    runTest(context, test);
  }
  return 0;
}
