//===- RunNative.cpp - a module compiled and run in this process ----------===//
#include "RunNative.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"
#include "kerf/Package/Package.h"
#include "kerf/rt/runtime.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

TemporaryFolder::TemporaryFolder() {
  llvm::SmallString<128> unique;
  if (!llvm::sys::fs::createUniqueDirectory("kerf-test", unique))
    path = unique.str().str();
}

TemporaryFolder::~TemporaryFolder() { llvm::sys::fs::remove_directories(path); }

void kerf::test::storeWeights(ModuleOp module,
                              const interpret::Weights &weights,
                              const std::string &path) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  Builder builder(module.getContext());
  int64_t offset = 0;
  module.walk([&](nn::WeightOp weight) {
    interpret::Tensor tensor = weights(weight);
    for (double value : tensor.data) {
      float single = value;
      stream.write(reinterpret_cast<const char *>(&single), sizeof single);
    }
    weight.setOffset(offset);
    offset += tensor.data.size() * sizeof(float);
  });
  module->setAttr(kFilesAttr, builder.getStrArrayAttr({path}));
}

/// The elements of a tensor as the runtime wants them, and back.
static std::vector<char> toBytes(const interpret::Tensor &tensor,
                                 kerf_dtype_t dtype) {
  std::vector<char> bytes(tensor.data.size() * kerf_dtype_size(dtype));
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    if (dtype == KERF_F32)
      reinterpret_cast<float *>(bytes.data())[i] = tensor.data[i];
    else if (dtype == KERF_I64)
      reinterpret_cast<int64_t *>(bytes.data())[i] = tensor.data[i];
    else if (dtype == KERF_I32)
      reinterpret_cast<int32_t *>(bytes.data())[i] = tensor.data[i];
    else
      bytes[i] = tensor.data[i];
  }
  return bytes;
}

static interpret::Tensor fromBytes(const kerf_tensor_info_t &info,
                                   const void *data) {
  interpret::Tensor tensor(llvm::ArrayRef(info.shape, info.rank));
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    if (info.dtype == KERF_F32)
      tensor.data[i] = static_cast<const float *>(data)[i];
    else if (info.dtype == KERF_I64)
      tensor.data[i] = static_cast<const int64_t *>(data)[i];
    else if (info.dtype == KERF_I32)
      tensor.data[i] = static_cast<const int32_t *>(data)[i];
    else
      tensor.data[i] = static_cast<const int8_t *>(data)[i];
  }
  return tensor;
}

/// Runs the package; throws nothing, gives the message of what failed.
static std::string runPackage(const std::string &path, NativeSteps &steps) {
  kerf_package_t *package = nullptr;
  kerf_session_t *session = nullptr;
  llvm::scope_exit cleanup([&] {
    if (session)
      kerf_session_destroy(session);
    if (package)
      kerf_package_close(package);
  });
  std::string message;
  auto fails = [&](kerf_status_t status) {
    if (!status)
      return false;
    message = kerf_status_message(status);
    kerf_status_free(status);
    return true;
  };
  if (fails(kerf_package_open(path.c_str(), nullptr, &package)))
    return message;
  kerf_session_options_t options = {};
  options.struct_size = sizeof options;
  options.threads = steps.threads;
  options.deadline_seconds = 60;
  if (fails(kerf_session_create(package, &options, &session)))
    return message;
  for (ArrayRef<interpret::Tensor> inputs : steps.inputs) {
    std::vector<std::vector<char>> held;
    for (size_t i = 0; i < inputs.size(); ++i) {
      kerf_tensor_info_t info;
      if (fails(kerf_package_input(package, i, &info)))
        return message;
      held.push_back(toBytes(inputs[i], info.dtype));
      if (fails(kerf_session_set_input(session, i, held.back().data(),
                                       held.back().size())))
        return message;
    }
    if (fails(kerf_session_run(session)))
      return message;
    steps.outputs.emplace_back();
    for (int32_t i = 0; i < kerf_package_num_outputs(package); ++i) {
      kerf_tensor_info_t info;
      const void *data = nullptr;
      size_t bytes = 0;
      if (fails(kerf_package_output(package, i, &info)) ||
          fails(kerf_session_get_output(session, i, &data, &bytes)))
        return message;
      steps.outputs.back().push_back(fromBytes(info, data));
    }
  }
  for (int32_t i = 0; i < kerf_package_num_parameters(package); ++i) {
    kerf_parameter_info_t info;
    if (fails(kerf_package_parameter(package, i, &info)))
      return message;
    if (!info.is_mutable)
      continue;
    std::vector<char> bytes(info.tensor.bytes);
    if (fails(
            kerf_session_get_parameter(session, i, bytes.data(), bytes.size())))
      return message;
    steps.parameters.insert(
        {info.tensor.name, fromBytes(info.tensor, bytes.data())});
  }
  return "";
}

/// Lowers, compiles and packages. Anything that fails is the text.
static std::string compile(ModuleOp module, const std::string &folder,
                           bool weightsInPlace) {
  std::string message;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &d) {
    message += d.str() + "\n";
    return success();
  });
  auto failed = [&](const char *what) {
    return std::string(what) + " failed: " + message;
  };
  PassManager passes(module.getContext());
  buildLowerPipeline(passes);
  if (passes.run(module).failed())
    return failed("lowering");
  CodegenOptions codegen;
  FailureOr<Program> program = compileProgram(module, codegen);
  if (mlir::failed(program))
    return failed("code generation");
  PackageContents contents;
  contents.name = "test";
  contents.cpu = program->target.cpu;
  contents.features = program->target.features;
  contents.sharedObject = std::move(program->sharedObject);
  contents.weightsInPlace = weightsInPlace;
  if (writePackage(module, contents, folder).failed())
    return failed("packaging");
  return "";
}

std::string kerf::test::runNativeSteps(ModuleOp module,
                                       const std::string &folder,
                                       NativeSteps &steps) {
  std::string failure = compile(module, folder, /*weightsInPlace=*/false);
  return failure.empty() ? runPackage(folder, steps) : failure;
}

std::string kerf::test::runNative(ModuleOp module,
                                  ArrayRef<interpret::Tensor> inputs,
                                  const std::string &folder,
                                  bool weightsInPlace,
                                  std::vector<interpret::Tensor> &outputs) {
  std::string failure = compile(module, folder, weightsInPlace);
  if (!failure.empty())
    return failure;
  // Twice: nothing may be left over from the first step.
  NativeSteps steps;
  steps.inputs.assign(2, inputs.vec());
  failure = runPackage(folder, steps);
  if (failure.empty())
    outputs = std::move(steps.outputs.back());
  return failure;
}
