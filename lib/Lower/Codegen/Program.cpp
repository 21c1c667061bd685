//===- Program.cpp - a module of exec ops to program.so -------------------===//
//
// Kernels of equal structure are compiled once, since layers repeat, and steps
// of a loop but for the places that they read. Each kernel and each function is
// a module of its own, emitted here in order and compiled on several threads;
// the linker gets the objects in order, so the bytes do not depend on the
// threads.
//
//===----------------------------------------------------------------------===//
#include "FunctionEmitter.h"
#include "ObjectCache.h"
#include "Structure.h"

#include "kerf/Support/OnThreads.h"
#include "kerf/Support/WriteFile.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/IR/LLVMContext.h"

using namespace mlir;

namespace kerf::codegen {

namespace {

/// A module to compile. The context must outlive it.
struct Unit {
  std::unique_ptr<llvm::LLVMContext> context =
      std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> module;
  llvm::SmallString<0> object;
  std::string error;
  bool optimise; ///< kernels; functions only call one thing after the other

  explicit Unit(llvm::StringRef name, bool optimise) : optimise(optimise) {
    module = std::make_unique<llvm::Module>(name, *context);
    module->setSourceFileName(name);
  }
};

void compileAll(std::vector<std::unique_ptr<Unit>> &units, const Target &target,
                const CodegenOptions &options) {
  ObjectCache cache(options.cache, target);
  bool isKept = !options.cache.folder.empty() && options.dumpDir.empty();
  forEachOnThreads(units.size(), options.threads, [&](size_t number) {
    Unit &unit = *units[number];
    auto object = isKept ? cache.compile(*unit.module, unit.optimise)
                         : compileModule(*unit.module, target, options.dumpDir,
                                         unit.optimise);
    if (object)
      unit.object = std::move(*object);
    else
      unit.error = llvm::toString(object.takeError());
    unit.module.reset();
  });
}

} // namespace

} // namespace kerf::codegen

FailureOr<kerf::Program> kerf::compileProgram(ModuleOp module,
                                              const CodegenOptions &options) {
  using namespace kerf::codegen;
  auto target = resolve(options.cpu);
  if (!target)
    return emitError(module.getLoc()) << llvm::toString(target.takeError());
  auto machine = exec::TargetAttr::of(module, exec::Device::Cpu);
  if (machine.getVectorBytes() != 0)
    target->vectors.vectorBits = 8 * machine.getVectorBytes();

  std::vector<std::unique_ptr<Unit>> units;
  std::map<std::vector<const void *>, CompiledKernel> known;
  llvm::DenseMap<StringAttr, CompiledKernel> kernels;
  for (exec::KernelOp kernel : module.getOps<exec::KernelOp>()) {
    if (!options.kernels) {
      kernels[kernel.getSymNameAttr()].launch.count = 1;
      continue;
    }
    PlacedKernel placed = placeInputs(kernel);
    CompiledKernel &compiled = known[structureOf(placed.kernel)];
    if (compiled.symbol.empty()) {
      FailureOr<KernelPlan> plan = planOf(placed.kernel);
      if (failed(plan))
        return failure();
      compiled.symbol = ("kernel." + kernel.getSymName()).str();
      units.push_back(std::make_unique<Unit>(compiled.symbol, true));
      KernelEmitter emitter(*plan, *units.back()->module, target->vectors);
      compiled.launch = emitter.emit(compiled.symbol);
    }
    CompiledKernel &own = kernels[kernel.getSymNameAttr()] = compiled;
    own.byteOffsets = std::move(placed.byteOffsets);
    kernel.setCount(compiled.launch.count);
    kernel.setGrain(compiled.launch.grain);
  }
  int64_t numKernels = units.size();
  SymbolTable symbols(module);
  for (exec::FuncOp func : module.getOps<exec::FuncOp>()) {
    units.push_back(
        std::make_unique<Unit>(("function." + func.getSymName()).str(), false));
    if (failed(emitFunction(func, *units.back()->module, kernels, symbols)))
      return failure();
  }

  compileAll(units, *target, options);
  std::vector<llvm::SmallString<0>> objects;
  for (std::unique_ptr<Unit> &unit : units) {
    if (!unit->error.empty())
      return emitError(module.getLoc()) << unit->error;
    objects.push_back(std::move(unit->object));
  }
  auto shared = linkShared(objects);
  if (!shared)
    return kerf::emitProblem(module.getLoc(), shared.takeError());
  Program program;
  program.target = target->info;
  program.sharedObject = std::move(*shared);
  program.numKernels = numKernels;
  return program;
}
