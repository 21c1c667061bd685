//===- GpuTarget.cpp - from gpu.module to PTX and cubins ------------------===//
#include "GpuTarget.h"

#include "kerf/Support/WriteFile.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;

namespace kerf::cuda {

static llvm::Error failure(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

void registerDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect,
                  mlir::gpu::GPUDialect, LLVM::LLVMDialect, math::MathDialect,
                  NVVM::NVVMDialect, scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

void loadDialects(MLIRContext &context) {
  // Loaded once here: passes run on several threads, which must not load
  // dialects.
  if (context.getLoadedDialect<NVVM::NVVMDialect>())
    return;
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  for (StringRef name :
       {"arith", "cf", "gpu", "llvm", "math", "nvvm", "scf", "vector"})
    context.getOrLoadDialect(name);
}

LogicalResult lowerToNvvm(ModuleOp module) {
  PassManager passes(module.getContext());
  OpPassManager &kernels = passes.nest<mlir::gpu::GPUModuleOp>();
  kernels.addPass(createSCFToControlFlowPass());
  // Before GPU ops: its own patterns would call libdevice.
  kernels.addPass(createConvertMathToLLVMPass());
  kernels.addPass(createConvertVectorToLLVMPass());
  kernels.addPass(createConvertGpuOpsToNVVMOps());
  kernels.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(module);
}

std::unique_ptr<llvm::Module> translate(mlir::gpu::GPUModuleOp module,
                                        llvm::LLVMContext &context) {
  return translateModuleToLLVMIR(module, context, module.getName());
}

static const llvm::Triple &triple() {
  static const llvm::Triple nvptx("nvptx64-nvidia-cuda");
  return nvptx;
}

static std::unique_ptr<llvm::TargetMachine> makeMachine() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple(), message);
  if (!target)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple(), kPtxArch, "+ptx80", llvm::TargetOptions(), std::nullopt,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

static llvm::Error dump(StringRef dumpDir, const Twine &name,
                        llvm::function_ref<void(llvm::raw_ostream &)> body) {
  llvm::SmallString<128> path(dumpDir);
  if (std::error_code code = llvm::sys::fs::create_directories(path))
    return llvm::createStringError(code,
                                   path + ": cannot create: " + code.message());
  llvm::sys::path::append(path, name);
  return writeFile(path, body);
}

llvm::Error dumpText(StringRef dumpDir, const Twine &name, StringRef text) {
  return dump(dumpDir, name, [&](llvm::raw_ostream &to) { to << text; });
}

llvm::Expected<std::string> compileToPtx(llvm::Module &module,
                                         StringRef dumpDir) {
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine();
  if (!machine)
    return failure("this build of LLVM has no NVPTX back end");
  module.setTargetTriple(triple());
  module.setDataLayout(machine->createDataLayout());
  std::string problems;
  llvm::raw_string_ostream report(problems);
  if (llvm::verifyModule(module, &report))
    return failure("internal error: generated code of " + module.getName() +
                   " does not verify: " + problems);
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder passes(machine.get(), tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
  if (!dumpDir.empty())
    if (llvm::Error error =
            dump(dumpDir, module.getName() + ".ll",
                 [&](llvm::raw_ostream &to) { module.print(to, nullptr); }))
      return error;
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager manager;
  if (machine->addPassesToEmitFile(manager, stream, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return failure("LLVM cannot write PTX");
  manager.run(module);
  // The header is written once, for the whole file.
  StringRef body = text.str();
  size_t address = body.find(".address_size");
  if (address != StringRef::npos)
    body = body.substr(body.find('\n', address) + 1);
  if (!dumpDir.empty())
    if (llvm::Error error =
            dump(dumpDir, module.getName() + ".ptx",
                 [&](llvm::raw_ostream &to) { to << ptxHeader() << body; }))
      return error;
  return body.str();
}

std::string ptxHeader() {
  return std::string(".version ") + kPtxVersion + "\n.target " + kPtxArch +
         "\n.address_size 64\n";
}

llvm::Expected<std::string> assemble(StringRef ptxas, StringRef ptx,
                                     StringRef arch, std::string &usage) {
  llvm::SmallString<128> folder;
  if (std::error_code code =
          llvm::sys::fs::createUniqueDirectory("kerf-ptxas", folder))
    return llvm::createStringError(
        code, folder + ": cannot create: " + code.message());
  struct Remover {
    StringRef path;
    ~Remover() { llvm::sys::fs::remove_directories(path); }
  } remover{folder};
  std::string source = (folder + "/kernels.ptx").str(),
              output = (folder + "/kernels.cubin").str(),
              log = (folder + "/log").str();
  if (llvm::Error error =
          writeFile(source, [&](llvm::raw_ostream &to) { to << ptx; }))
    return std::move(error);
  std::string target = ("--gpu-name=" + arch).str();
  StringRef arguments[] = {ptxas, "-v", "-O3", target, source, "-o", output};
  std::optional<StringRef> redirects[] = {"", log, log};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt,
                                         redirects, 0, 0, &message);
  if (auto text = llvm::MemoryBuffer::getFile(log))
    usage = (*text)->getBuffer().str();
  if (status) {
    StringRef said(usage);
    if (said.contains("gpu-name") || said.contains("not defined for option"))
      return std::string();
    return failure(ptxas + ": " +
                   (message.empty() ? said : StringRef(message)));
  }
  auto cubin = llvm::MemoryBuffer::getFile(output, false, false);
  if (!cubin)
    return failure("cannot read " + output + ": " + cubin.getError().message());
  return (*cubin)->getBuffer().str();
}

} // namespace kerf::cuda

//===----------------------------------------------------------------------===//
// Where ptxas is
//===----------------------------------------------------------------------===//

std::string kerf::findPtxas(StringRef wanted, std::string &message) {
  namespace fs = llvm::sys::fs;
  if (wanted == "none")
    return "";
  if (!wanted.empty()) {
    if (fs::can_execute(wanted))
      return wanted.str();
    message = (wanted + ": is no program, expected the path of ptxas").str();
    return "";
  }
  auto variable = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::vector<std::string> places;
  if (std::string given = variable("KERF_PTXAS"); !given.empty()) {
    if (given == "none")
      return "";
    places.push_back(given);
  }
  for (const char *home : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string folder = variable(home); !folder.empty())
      places.push_back(folder + "/bin/ptxas");
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    places.push_back(*found);
  places.push_back("/usr/local/cuda/bin/ptxas");
  // The wheel nvidia-cuda-nvcc: lib/pythonX.Y/site-packages/nvidia/*/bin.
  if (std::string venv = variable("VIRTUAL_ENV"); !venv.empty()) {
    auto each = [](const std::string &folder, auto body) {
      std::error_code code;
      std::vector<std::string> entries;
      for (fs::directory_iterator it(folder, code), end; !code && it != end;
           it.increment(code))
        entries.push_back(it->path());
      llvm::sort(entries);
      for (const std::string &entry : entries)
        body(entry);
    };
    each(venv + "/lib", [&](const std::string &python) {
      each(python + "/site-packages/nvidia", [&](const std::string &package) {
        places.push_back(package + "/bin/ptxas");
      });
    });
  }
  for (const std::string &place : places)
    if (fs::can_execute(place))
      return place;
  return "";
}
