// Machine code in memory: upstream passes down to LLVM, a just-in-time compiler
// that knows the runtime's functions, and calls on tensors of f32.
#ifndef EXAMPLES_NATIVE_H
#define EXAMPLES_NATIVE_H

#include "kerf/rt/ranks.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/Support/TargetSelect.h"

#include <cmath>

using namespace mlir;

inline void registerForNative(DialectRegistry &registry) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  registerAllPasses();
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

inline const char *toLLVM =
    "one-shot-bufferize{bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map},"
    "buffer-results-to-out-params{modify-public-functions},"
    "buffer-deallocation-pipeline,convert-bufferization-to-memref,"
    "convert-linalg-to-loops,convert-scf-to-cf,expand-strided-metadata,"
    "lower-affine,convert-math-to-libm,convert-to-llvm";

inline std::unique_ptr<ExecutionEngine> compileInMemory(ModuleOp module) {
  PassManager passes(module.getContext());
  if (failed(parsePassPipeline(toLLVM, passes)) || failed(passes.run(module)))
    std::exit(1);
  ExecutionEngineOptions options;
  StringRef libraries[] = {RUNNER_UTILS}; // for copies of strided buffers
  options.sharedLibPaths = libraries;
  auto engine = llvm::cantFail(ExecutionEngine::create(module, options));
  engine->registerSymbols([](llvm::orc::MangleAndInterner mangle) {
    llvm::orc::SymbolMap map;
    for (auto *symbol = kerf_ranks_symbols(); symbol->name; ++symbol)
      map[mangle(symbol->name)] = {
          llvm::orc::ExecutorAddr::fromPtr(symbol->address),
          llvm::JITSymbolFlags::Exported};
    return map;
  });
  return engine;
}

/// A tensor in memory, and its descriptor: where, shape, strides.
struct Buffer {
  Buffer(RankedTensorType type, size_t phase)
      : data(type.getNumElements()), descriptor(3 + 2 * type.getRank()) {
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = std::sin(static_cast<float>(phase + i)) / 2;
    descriptor[0] = descriptor[1] = reinterpret_cast<int64_t>(data.data());
    llvm::copy(type.getShape(), descriptor.begin() + 3);
    llvm::copy(computeStrides(type.getShape()),
               descriptor.begin() + 3 + type.getRank());
  }
  std::vector<float> data;
  std::vector<int64_t> descriptor;
};

/// A compiled function, and its arguments behind the rank.
struct Call {
  Call(ExecutionEngine &engine, const std::string &name, FunctionType type)
      : function(llvm::cantFail(engine.lookupPacked("_mlir_ciface_" + name))) {
    for (auto types : {type.getInputs(), type.getResults()})
      for (Type each : types)
        buffers.emplace_back(cast<RankedTensorType>(each), buffers.size());
  }
  void operator()(kerf_rank_t *rank) {
    std::vector<void *> values, arguments;
    if (rank)
      values.push_back(rank);
    for (Buffer &buffer : buffers)
      values.push_back(buffer.descriptor.data());
    for (void *&value : values)
      arguments.push_back(&value);
    function(arguments.data());
  }
  void (*function)(void **);
  std::vector<Buffer> buffers;
};

inline void check(kerf_status_t status) {
  if (!status)
    return;
  llvm::errs() << kerf_status_message(status) << "\n";
  std::exit(1);
}

/// A thread for each rank calls the function.
inline void runOnRanks(kerf_ranks_t *ranks, Call &call) {
  check(kerf_ranks_run(
      ranks,
      [](kerf_rank_t *rank, void *call) { (*static_cast<Call *>(call))(rank); },
      &call));
}

#endif
