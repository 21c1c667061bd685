//===- Program.cpp - machine code in memory, and its ranks ----------------===//
#include "kerf/Native/Native.h"

#include "kerf/Ranks/Passes.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/ExecutionEngine/CRunnerUtils.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::native;

struct Program::Code {
  std::unique_ptr<ExecutionEngine> engine;
  void (*function)(void **) = nullptr;
};

Program::Program() : code(std::make_unique<Code>()) {}

Program::~Program() {
  if (ranks)
    kerf_ranks_destroy(ranks);
}

static llvm::Error errorOf(kerf_status_t status) {
  if (!status)
    return llvm::Error::success();
  std::string message = kerf_status_message(status);
  kerf_status_free(status);
  return llvm::createStringError(message);
}

/// What upstream's passes and its translation need besides the program's own
/// dialects: models of these, and the targets of this machine.
static void prepare(MLIRContext *context) {
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
}

/// The types of the function's tensors, without the rank in front of them.
static llvm::Error readTypes(func::FuncOp function,
                             llvm::SmallVector<ShapedType> &types) {
  FunctionType type = function.getFunctionType();
  for (Type each :
       llvm::concat<const Type>(type.getInputs(), type.getResults())) {
    if (isa<LLVM::LLVMPointerType>(each))
      continue;
    auto shaped = dyn_cast<ShapedType>(each);
    if (!shaped || !shaped.hasStaticShape()) {
      std::string text;
      llvm::raw_string_ostream(text) << each;
      return llvm::createStringError("@" + function.getName() + ": type '" +
                                     text +
                                     "', expected a tensor of static shape");
    }
    types.push_back(shaped);
  }
  return llvm::Error::success();
}

/// What Kerf's phases tell each other about arguments and results is nothing to
/// LLVM, whose translation would warn of each. Others' attributes stay.
static void dropOwnAttrs(func::FuncOp function) {
  auto isOwn = [](NamedAttribute attribute) {
    StringRef name = attribute.getName();
    return name.starts_with("kerf.") || name.starts_with("dist.");
  };
  auto rest = [&](DictionaryAttr all) {
    SmallVector<NamedAttribute> kept;
    if (all)
      llvm::copy_if(all, std::back_inserter(kept), std::not_fn(isOwn));
    return kept;
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.setArgAttrs(i, rest(function.getArgAttrDict(i)));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    function.setResultAttrs(i, rest(function.getResultAttrDict(i)));
}

llvm::Expected<std::unique_ptr<Program>> Program::create(ModuleOp module,
                                                         StringRef name) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function || function.isExternal())
    return llvm::createStringError("there is no function @" + name);
  std::unique_ptr<Program> program(new Program);
  if (llvm::Error error = readTypes(function, program->types))
    return error;
  std::string description = (name + ranks::kDescriptionSuffix).str();
  bool hasRanks = module.lookupSymbol(description);
  MLIRContext *context = module.getContext();
  prepare(context);
  for (auto each : module.getOps<func::FuncOp>())
    dropOwnAttrs(each);
  // Buffers of arguments are the caller's: bufferization may not write to them.
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (isa<TensorType>(function.getArgumentTypes()[i]))
      function.setArgAttr(
          i, bufferization::BufferizationDialect::kWritableAttrName,
          BoolAttr::get(context, false));
  function->setAttr(LLVM::LLVMDialect::getEmitCWrapperAttrName(),
                    UnitAttr::get(context));
  PassManager passes(context);
  buildLowerToLLVM(passes);
  if (failed(passes.run(module)))
    return llvm::createStringError("@" + name + " was not lowered to LLVM");

  auto engine = ExecutionEngine::create(module);
  if (!engine)
    return engine.takeError();
  Code &code = *program->code;
  code.engine = std::move(*engine);
  code.engine->registerSymbols([](llvm::orc::MangleAndInterner mangle) {
    llvm::orc::SymbolMap symbols;
    auto add = [&](StringRef name, void *address) {
      symbols[mangle(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                               llvm::JITSymbolFlags::Exported};
    };
    for (auto *symbol = kerf_ranks_symbols(); symbol->name; ++symbol)
      add(symbol->name, symbol->address);
    add("memrefCopy", reinterpret_cast<void *>(&memrefCopy));
    return symbols;
  });
  auto entry = code.engine->lookupPacked(("_mlir_ciface_" + name).str());
  if (!entry)
    return entry.takeError();
  code.function = *entry;
  if (!hasRanks)
    return program;
  auto text = code.engine->lookup(description);
  if (!text)
    return text.takeError();
  if (llvm::Error error = errorOf(kerf_ranks_create(
          static_cast<const char *>(*text), nullptr, &program->ranks)))
    return error;
  return program;
}

namespace {

/// The descriptor of a dense memref: allocated and aligned address, offset,
/// sizes, strides.
llvm::SmallVector<int64_t> descriptorOf(ShapedType type, void *data) {
  llvm::SmallVector<int64_t> fields(2, reinterpret_cast<intptr_t>(data));
  fields.push_back(0);
  llvm::append_range(fields, type.getShape());
  llvm::append_range(fields, computeStrides(type.getShape()));
  return fields;
}

struct Call {
  void (*function)(void **);
  std::vector<void *> descriptors;

  void run(kerf_rank_t *rank) {
    std::vector<void *> arguments;
    if (rank)
      arguments.push_back(&rank);
    for (void *&descriptor : descriptors)
      arguments.push_back(&descriptor);
    function(arguments.data());
  }
};

} // namespace

llvm::Error Program::run(llvm::ArrayRef<void *> tensors) {
  if (tensors.size() != types.size())
    return llvm::createStringError(
        "tensors: " + std::to_string(tensors.size()) + ", expected " +
        std::to_string(types.size()));
  std::vector<llvm::SmallVector<int64_t>> descriptors;
  for (auto [type, data] : llvm::zip(types, tensors))
    descriptors.push_back(descriptorOf(type, data));
  Call call = {code->function, {}};
  for (auto &fields : descriptors)
    call.descriptors.push_back(fields.data());
  if (ranks)
    return errorOf(kerf_ranks_run(
        ranks,
        [](kerf_rank_t *rank, void *call) {
          static_cast<Call *>(call)->run(rank);
        },
        &call));
  call.run(nullptr);
  return llvm::Error::success();
}

llvm::Error Program::write(const std::string &parameter, const void *whole) {
  if (!ranks)
    return llvm::createStringError("a program without ranks keeps nothing");
  return errorOf(kerf_ranks_write(ranks, parameter.c_str(), whole));
}

llvm::Error Program::read(const std::string &parameter, void *whole) const {
  if (!ranks)
    return llvm::createStringError("a program without ranks keeps nothing");
  return errorOf(kerf_ranks_read(ranks, parameter.c_str(), whole));
}
