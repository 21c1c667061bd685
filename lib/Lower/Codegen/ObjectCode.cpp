//===- ObjectCode.cpp - LLVM modules to shared objects --------------------===//
//
// Kernels arrive in vectors, inlined and without dead code, so what LLVM's -O3
// does between functions and for vectors finds nothing in them. The few passes
// on loops and values that are left give kernels of the same speed in half of
// the time (docs/Codegen.md). The linker runs inside this process, one link at
// a time, since it keeps its state in globals.
//
//===----------------------------------------------------------------------===//
#include "ObjectCode.h"

#include "kerf/Support/WriteFile.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/DeadStoreElimination.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopDeletion.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <mutex>

using namespace llvm;

LLD_HAS_DRIVER(elf)

namespace kerf::codegen {

static Error failure(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

static void initializeTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
}

static Triple hostTriple() { return Triple(sys::getDefaultTargetTriple()); }

static const llvm::Target *findTarget(std::string &message) {
  return TargetRegistry::lookupTarget(hostTriple(), message);
}

std::unique_ptr<TargetMachine> Target::makeMachine() const {
  std::string message;
  const llvm::Target *target = findTarget(message);
  return std::unique_ptr<TargetMachine>(target->createTargetMachine(
      hostTriple(), cpu, features, TargetOptions(), Reloc::PIC_, std::nullopt,
      CodeGenOptLevel::Aggressive));
}

Expected<Target> resolve(StringRef cpu) {
  initializeTargets();
  Target target;
  target.cpu = cpu.str();
  if (cpu == "host" || cpu.empty()) {
    target.cpu = sys::getHostCPUName().str();
    std::vector<std::string> flags;
    for (const auto &[name, enabled] : sys::getHostCPUFeatures())
      flags.push_back((enabled ? "+" : "-") + name.str());
    llvm::sort(flags);
    target.features = llvm::join(flags, ",");
  }
  std::string message;
  const llvm::Target *registered = findTarget(message);
  if (!registered)
    return failure(message);
  std::unique_ptr<MCSubtargetInfo> generic(
      registered->createMCSubtargetInfo(hostTriple(), "", ""));
  if (!generic || !generic->isCPUStringValid(target.cpu))
    return failure("unknown target cpu '" + cpu +
                   "', expected 'host' or a name that LLVM knows, such as "
                   "'x86-64-v3'");
  std::unique_ptr<MCSubtargetInfo> info(registered->createMCSubtargetInfo(
      hostTriple(), target.cpu, target.features));
  if (!info->checkFeatures("+sse4.1"))
    return failure("target cpu '" + cpu +
                   "' has no SSE4.1, expected at least 'x86-64-v2'");
  target.info.cpu = target.cpu;
  for (const SubtargetFeatureKV &feature : info->getEnabledProcessorFeatures())
    target.info.features.push_back(feature.Key);
  llvm::sort(target.info.features);
  if (info->checkFeatures("+avx512f,+avx512vl,+avx512bw,+avx512dq"))
    target.vectors.vectorBits = 512;
  else if (info->checkFeatures("+avx2"))
    target.vectors.vectorBits = 256;
  target.vectors.hasF16C = info->checkFeatures("+f16c");
  return target;
}

/// Keeps values in registers, moves what does not change out of loops, and
/// unrolls loops as the target likes it.
static FunctionPassManager makePipeline() {
  auto onLoops = [](auto... loopPasses) {
    LoopPassManager manager;
    (manager.addPass(std::move(loopPasses)), ...);
    return manager;
  };
  FunctionPassManager passes;
  auto clean = [&] {
    passes.addPass(SROAPass(SROAOptions::ModifyCFG));
    passes.addPass(EarlyCSEPass(/*UseMemorySSA=*/true));
  };
  clean();
  passes.addPass(InstCombinePass());
  passes.addPass(SimplifyCFGPass());
  passes.addPass(createFunctionToLoopPassAdaptor(
      onLoops(LoopRotatePass(), LICMPass(LICMOptions())),
      /*UseMemorySSA=*/true));
  passes.addPass(createFunctionToLoopPassAdaptor(
      onLoops(IndVarSimplifyPass(), LoopDeletionPass(), LoopFullUnrollPass())));
  clean(); // unrolled loops read what they have just written
  passes.addPass(DSEPass());
  passes.addPass(createFunctionToLoopPassAdaptor(
      onLoops(LICMPass(LICMOptions())), /*UseMemorySSA=*/true));
  passes.addPass(SimplifyCFGPass());
  passes.addPass(InstCombinePass());
  passes.addPass(LoopUnrollPass(LoopUnrollOptions(/*OptLevel=*/3)));
  passes.addPass(InstCombinePass());
  return passes;
}

Expected<SmallString<0>> compileModule(Module &module, const Target &target,
                                       StringRef dumpDir, bool optimise) {
  std::unique_ptr<TargetMachine> machine = target.makeMachine();
  if (!machine)
    return failure("no code generator for target cpu '" + target.cpu + "'");
  if (!optimise) // thousands of calls: instructions are selected one by one
    machine->setOptLevel(CodeGenOptLevel::None);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  std::string problems;
  raw_string_ostream report(problems);
  if (verifyModule(module, &report))
    return failure("internal error: generated code of " + module.getName() +
                   " does not verify: " + problems);

  PassBuilder passes(machine.get());
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  if (optimise) {
    ModulePassManager pipeline;
    pipeline.addPass(createModuleToFunctionPassAdaptor(makePipeline()));
    pipeline.run(module, modules);
  }

  auto emit = [&](Module &from, raw_pwrite_stream &stream,
                  CodeGenFileType type) {
    legacy::PassManager manager;
    bool refused = machine->addPassesToEmitFile(manager, stream, nullptr, type);
    assert(!refused);
    (void)refused;
    manager.run(from);
  };
  if (!dumpDir.empty()) {
    SmallString<128> path(dumpDir);
    if (std::error_code code = sys::fs::create_directories(path))
      return createStringError(code,
                               path + ": cannot create: " + code.message());
    sys::path::append(path, module.getName());
    if (Error error = writeFile((path + ".ll").str(), [&](raw_ostream &stream) {
          module.print(stream, nullptr);
        }))
      return error;
    SmallString<0> assembly;
    raw_svector_ostream stream(assembly);
    std::unique_ptr<Module> copy = CloneModule(module);
    emit(*copy, stream, CodeGenFileType::AssemblyFile);
    if (Error error = writeFile((path + ".s").str(),
                                [&](raw_ostream &to) { to << assembly; }))
      return error;
  }
  SmallString<0> object;
  raw_svector_ostream stream(object);
  emit(module, stream, CodeGenFileType::ObjectFile);
  return object;
}

Expected<std::string> linkShared(ArrayRef<SmallString<0>> objects) {
  static std::mutex oneAtATime;
  std::lock_guard<std::mutex> lock(oneAtATime);
  SmallString<128> directory;
  if (std::error_code code =
          sys::fs::createUniqueDirectory("kerf-link", directory))
    return createStringError(code,
                             directory + ": cannot create: " + code.message());
  struct Remover {
    StringRef path;
    ~Remover() { sys::fs::remove_directories(path); }
  } remover{directory};

  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "-z",
                                        "defs",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "--threads=1",
                                        "--gc-sections",
                                        "-z",
                                        "noexecstack",
                                        "-o"};
  std::string output = (directory + "/program.so").str();
  arguments.push_back(output);
  for (auto [at, object] : llvm::enumerate(objects)) {
    std::string path = (directory + "/" + Twine(at) + ".o").str();
    StringRef bytes = object;
    if (Error error =
            writeFile(path, [&](raw_ostream &stream) { stream << bytes; }))
      return error;
    arguments.push_back(path);
  }
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  std::string messages;
  raw_string_ostream stream(messages);
  lld::Result result =
      lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode) {
    // The linker says in words of its own that the disk is full.
    Error full = writeFile(output, [&](raw_ostream &stream) {
      for (const SmallString<0> &object : objects)
        stream << StringRef(object);
      stream.write_zeros(1 << 16); // tables, and what fills up pages
    });
    if (full)
      return full;
    return failure("internal error: linking failed: " +
                   StringRef(messages).rtrim());
  }
  auto buffer = MemoryBuffer::getFile(output, false, false);
  if (!buffer)
    return failure("cannot read " + output + ": " +
                   buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

} // namespace kerf::codegen
