//===- NativeProgram.cpp - programs of ranks as native code ---------------===//
#include "NativeProgram.h"

#include "kerf/Native/Native.h"
#include "kerf/Pipelines/Register.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/Support/TargetSelect.h"

#include <cstring>
#include <mutex>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

DialectRegistry registry() {
  DialectRegistry result;
  registerAllDialects(result);
  registerAllExtensions(result);
  registerBuiltinDialectTranslation(result);
  registerLLVMDialectTranslation(result);
  registerDialects(result);
  registerUpstreamDialects(result);
  return result;
}

void initializeOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    registerAllPasses();
  });
}

} // namespace

NativeContext::NativeContext()
    : context(registry(), MLIRContext::Threading::DISABLED) {
  initializeOnce();
  context.loadAllAvailableDialects();
}

HostBuffer::HostBuffer(RankedTensorType type) : type(type) {
  size_t elementBytes = (type.getElementType().getIntOrFloatBitWidth() + 7) / 8;
  bytes.assign(type.getNumElements() * elementBytes, 0xAB);
  fields.assign(3 + 2 * type.getRank(), 0);
  fields[0] = fields[1] = reinterpret_cast<int64_t>(bytes.data());
  int64_t stride = 1;
  for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
    fields[3 + dim] = type.getDimSize(dim);
    fields[3 + type.getRank() + dim] = stride;
    stride *= type.getDimSize(dim);
  }
}

template <typename T>
static void store(const std::vector<double> &from, std::vector<uint8_t> &to) {
  for (size_t i = 0; i < from.size(); ++i) {
    T value = static_cast<T>(from[i]);
    std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
  }
}

HostBuffer::HostBuffer(RankedTensorType type, const interpret::Tensor &tensor)
    : HostBuffer(type) {
  Type element = type.getElementType();
  if (element.isF64())
    store<double>(tensor.data, bytes);
  else if (element.isF32())
    store<float>(tensor.data, bytes);
  else if (element.isInteger(8))
    store<int8_t>(tensor.data, bytes);
  else if (element.isInteger(1))
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<int64_t>(tensor.data[i]) & 1;
  else if (element.isInteger(4))
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<int64_t>(tensor.data[i]) & 15;
  else if (element.isInteger(16))
    store<int16_t>(tensor.data, bytes);
  else if (element.isInteger(32))
    store<int32_t>(tensor.data, bytes);
  else if (element.isInteger(64))
    store<int64_t>(tensor.data, bytes);
  else
    llvm_unreachable("a type that no test has");
}

interpret::Tensor HostBuffer::tensor() const {
  return interpret::fromBytes(type, bytes);
}

/// The tensor as which a native function takes an argument, or gives a result:
/// numbers have no dimensions, and an index 64 bits.
static RankedTensorType bufferType(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return tensor;
  if (type.isIndex())
    type = IntegerType::get(type.getContext(), 64);
  return RankedTensorType::get({}, type);
}

HostBuffers::HostBuffers(FunctionType type, ArrayRef<interpret::Tensor> inputs)
    : numInputs(inputs.size()) {
  for (auto [input, argument] : llvm::zip_equal(inputs, type.getInputs()))
    buffers.push_back(
        std::make_unique<HostBuffer>(bufferType(argument), input));
  for (Type result : type.getResults())
    buffers.push_back(std::make_unique<HostBuffer>(bufferType(result)));
  for (auto &buffer : buffers)
    pointers.push_back(buffer.get());
}

std::unique_ptr<NativeProgram>
NativeProgram::create(ModuleOp module, std::string &why, StringRef between) {
  MLIRContext *context = module.getContext();
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    why += diagnostic.str() + "\n";
    return success();
  });
  PassManager passes(context);
  passes.addPass(ranks::createCallRuntime());
  llvm::raw_string_ostream errors(why);
  if (failed(parsePassPipeline(between, passes, errors)))
    return nullptr;
  native::buildLowerToLLVM(passes);
  if (failed(passes.run(module)))
    return nullptr;
  auto program = std::make_unique<NativeProgram>();
  ExecutionEngineOptions options;
  options.jitCodeGenOptLevel = llvm::CodeGenOptLevel::None;
  StringRef libraries[] = {KERF_RUNNER_UTILS};
  options.sharedLibPaths = libraries;
  auto engine = ExecutionEngine::create(module, options);
  if (!engine) {
    why += toString(engine.takeError());
    return nullptr;
  }
  program->engine = std::move(*engine);
  program->engine->registerSymbols([](llvm::orc::MangleAndInterner mangle) {
    llvm::orc::SymbolMap symbols;
    for (const kerf_ranks_symbol_t *symbol = kerf_ranks_symbols(); symbol->name;
         ++symbol)
      symbols[mangle(symbol->name)] = {
          llvm::orc::ExecutorAddr::fromPtr(symbol->address),
          llvm::JITSymbolFlags::Exported};
    return symbols;
  });
  return program;
}

void *NativeProgram::lookup(StringRef name) const {
  auto found = engine->lookup(name);
  if (found)
    return *found;
  llvm::consumeError(found.takeError());
  return nullptr;
}

std::string NativeProgram::run(StringRef name, ArrayRef<HostBuffer *> buffers,
                               int times, int64_t *sentBytes,
                               const Parameters &parameters) const {
  auto *text = static_cast<const char *>(
      lookup((name + ranks::kDescriptionSuffix).str()));
  auto function = engine->lookupPacked(("_mlir_ciface_" + name).str());
  if (!text || !function)
    return "there is no program @" + name.str();
  struct Call {
    void (*function)(void **);
    std::vector<void *> descriptors;
  } call = {*function, {}};
  for (HostBuffer *buffer : buffers)
    call.descriptors.push_back(buffer->descriptor());

  kerf_ranks_options_t options = {};
  options.struct_size = sizeof(options);
  options.deadline_seconds = 60;
  options.padding = 0xFF; // no number
  kerf_ranks_t *ranks = nullptr;
  kerf_status_t status = kerf_ranks_create(text, &options, &ranks);
  for (const auto &[parameter, buffer] : parameters)
    if (!status)
      status = kerf_ranks_write(ranks, parameter.c_str(), buffer->data());
  for (int i = 0; i < times && !status; ++i)
    status = kerf_ranks_run(
        ranks,
        [](kerf_rank_t *rank, void *user) {
          auto *call = static_cast<Call *>(user);
          std::vector<void *> arguments{&rank};
          for (void *&descriptor : call->descriptors)
            arguments.push_back(&descriptor);
          call->function(arguments.data());
        },
        &call);
  for (const auto &[parameter, buffer] : parameters)
    if (!status)
      status = kerf_ranks_read(ranks, parameter.c_str(), buffer->data());
  if (!status && sentBytes)
    *sentBytes = kerf_ranks_sent_bytes(ranks);
  std::string why = status ? kerf_status_message(status) : "";
  kerf_status_free(status);
  if (ranks)
    kerf_ranks_destroy(ranks);
  return why;
}
