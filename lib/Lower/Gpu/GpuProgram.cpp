//===- GpuProgram.cpp - the kernels of a module for GPUs ------------------===//
//
// Kernels of equal structure share one entry, unless they can fail and so must
// record their own number. All gpu.modules take the passes together; LLVM IR is
// compiled on several threads, each kernel in a context of its own; the PTX is
// joined in order.
//
//===----------------------------------------------------------------------===//
#include "GpuBatch.h"
#include "GpuCalls.h"
#include "GpuTarget.h"

#include "../Codegen/Structure.h"

#include "kerf/NN/NN.h"
#include "kerf/Support/OnThreads.h"
#include "kerf/Support/WriteFile.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::cuda;

namespace {

/// One entry: its launch, and its code on the way to PTX.
struct Entry {
  std::string name;
  GpuLaunch launch;
  mlir::gpu::GPUModuleOp module;
  std::unique_ptr<llvm::LLVMContext> context =
      std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code;
  std::string ptx, error;
};

FailureOr<GpuLaunch> emitInto(Operation *op, mlir::gpu::GPUModuleOp module,
                              StringRef name) {
  if (auto call = dyn_cast<exec::LibraryCallInterface>(op))
    return emitCall(call, module, name);
  auto kernel = cast<exec::KernelOp>(op);
  FailureOr<codegen::KernelPlan> plan = codegen::planOf(kernel);
  if (failed(plan))
    return failure();
  return GpuEmitter(*plan, module, kernel.getIndex()).emit(name);
}

mlir::gpu::GPUModuleOp addModule(ModuleOp holder, Location loc,
                                 StringRef name) {
  auto builder = OpBuilder::atBlockEnd(holder.getBody());
  return mlir::gpu::GPUModuleOp::create(builder, loc, (name + "_module").str());
}

void compileAll(std::vector<std::unique_ptr<Entry>> &entries,
                const GpuOptions &options) {
  forEachOnThreads(entries.size(), options.threads, [&](size_t number) {
    Entry &entry = *entries[number];
    auto ptx = compileToPtx(*entry.code, options.dumpDir);
    if (ptx)
      entry.ptx = std::move(*ptx);
    else
      entry.error = llvm::toString(ptx.takeError());
    entry.code.reset();
  });
}

/// How a kernel is launched.
exec::GpuKernelAttr launchOf(exec::KernelOp kernel, const Entry &entry,
                             exec::GpuBatchAttr batch) {
  SmallVector<int64_t> bytes;
  for (Type type : llvm::concat<const Type>(kernel.getArgumentTypes(),
                                            kernel.getResultTypes()))
    bytes.push_back(exec::sizeBytes(cast<ShapedType>(type)));
  return exec::GpuKernelAttr::get(
      kernel.getContext(), entry.name, entry.launch.grid, entry.launch.block,
      bytes, kernel.getArgumentTypes().size(), {}, entry.launch.canFail, batch);
}

/// How the code of a call is launched. Its arguments are the buffers of the
/// call in order, or, where it computes the epilogue alone, the buffers of the
/// epilogue, of which the last is written.
exec::GpuKernelAttr launchOf(exec::LibraryCallInterface call,
                             const Entry &entry) {
  exec::CallBuffers buffers(call);
  SmallVector<int64_t> bytes, arguments;
  int64_t reads = buffers.numReads;
  if (exec::MatmulOp product = productWithEpilogueKernel(call)) {
    arguments = epilogueBuffers(product);
    reads = static_cast<int64_t>(arguments.size()) - 1;
    for (int64_t number : arguments)
      bytes.push_back(
          exec::sizeBytes(cast<MemRefType>(buffers.values[number].getType())));
  } else {
    for (Value buffer : buffers.values)
      bytes.push_back(exec::sizeBytes(cast<MemRefType>(buffer.getType())));
  }
  return exec::GpuKernelAttr::get(
      call.getContext(), entry.name, entry.launch.grid, entry.launch.block,
      bytes, reads, arguments, entry.launch.canFail, exec::GpuBatchAttr());
}

/// What the code of a call depends on: its attributes, except its number and
/// node names, and which operands share a buffer or a parameter.
const void *structureOf(exec::LibraryCallInterface call) {
  Builder builder(call.getContext());
  exec::CallBuffers buffers(call);
  NamedAttrList attributes(call->getAttrDictionary());
  for (StringRef name : {"index", "node", "phase"})
    attributes.erase(name);
  SmallVector<Attribute> key = {
      builder.getStringAttr(call->getName().getStringRef()),
      attributes.getDictionary(call.getContext())};
  for (OpOperand &operand : call->getOpOperands()) {
    auto weight = operand.get().getDefiningOp<exec::WeightOp>();
    int64_t number = weight ? -1 - static_cast<int64_t>(weight.getIndex())
                            : buffers.numberOf(operand);
    key.push_back(builder.getI64IntegerAttr(number));
    key.push_back(TypeAttr::get(exec::elementType(operand.get())));
  }
  return builder.getArrayAttr(key).getAsOpaquePointer();
}

/// The plan of a kernel's form in a batch, if it is one loop over elements.
std::optional<codegen::KernelPlan> planBatch(exec::KernelOp form) {
  FailureOr<codegen::KernelPlan> plan = codegen::planOf(form);
  if (failed(plan) || plan->form != KernelForm::Elementwise ||
      !plan->rowOps.empty() || plan->canFail || !plan->cuts.empty() ||
      plan->outer.vars.size() != 1)
    return std::nullopt;
  return std::move(*plan);
}

/// What the manifest says about the batches of a kernel.
using BatchUses = llvm::MapVector<Operation *, exec::GpuBatchAttr>;

/// Whether the kernel copies a parameter to 16 bits, as products read it.
bool isRounding(exec::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  return llvm::hasSingleElement(body.without_terminator()) &&
         isa<nn::CastOp>(body.front());
}

/// Makes one entry for several updates (or roundings) that differ only in
/// extents.
BatchUses addBatches(ModuleOp module, ModuleOp holder,
                     std::vector<std::unique_ptr<Entry>> &entries) {
  OwningOpRef<ModuleOp> forms = ModuleOp::create(module.getLoc());
  struct Class {
    exec::KernelOp form;
    std::vector<exec::KernelOp> kernels;
  };
  std::vector<Class> classes;
  std::map<std::vector<const void *>, size_t> known;
  for (auto kernel : module.getOps<exec::KernelOp>()) {
    if (kernel.getPhase() != exec::Phase::Update && !isRounding(kernel))
      continue;
    exec::KernelOp form = makeBatchForm(kernel, *forms);
    if (!form)
      continue;
    auto [it, added] =
        known.try_emplace(codegen::structureOf(form), classes.size());
    if (added)
      classes.push_back({form, {}});
    classes[it->second].kernels.push_back(kernel);
  }
  BatchUses uses;
  for (Class &each : classes) {
    if (each.kernels.size() < 2)
      continue;
    std::optional<codegen::KernelPlan> plan = planBatch(each.form);
    if (!plan)
      continue;
    auto entry = std::make_unique<Entry>();
    entry->name = "kerf_b" + std::to_string(each.kernels.front().getIndex());
    entry->module = addModule(holder, each.form->getLoc(), entry->name);
    entry->launch =
        GpuEmitter(*plan, entry->module, 0)
            .emitBatch(entry->name, batchParts(each.kernels.front()));
    for (exec::KernelOp kernel : each.kernels) {
      uses[kernel] = exec::GpuBatchAttr::get(module.getContext(), entry->name,
                                             batchElements(kernel), kBatchChunk,
                                             kBatchThreads);
    }
    entries.push_back(std::move(entry));
  }
  return uses;
}

/// Lines of `ptxas -v` of entries that keep registers in local memory.
void noteSpills(StringRef usage, StringRef arch,
                std::vector<std::string> &notes) {
  SmallVector<StringRef> lines;
  usage.split(lines, '\n');
  StringRef name;
  for (StringRef line : lines) {
    if (line.contains("Compiling entry function"))
      name = line.split('\'').second.split('\'').first;
    size_t at = line.find(" bytes spill stores");
    if (at == StringRef::npos)
      continue;
    StringRef spills = line.take_front(at);
    spills = spills.substr(spills.rfind(' ') + 1);
    StringRef stack = line.ltrim().split(' ').first;
    if (spills != "0" || stack != "0")
      notes.push_back((name + " for " + arch + ": " + line.trim()).str());
  }
}

} // namespace

FailureOr<GpuEntry> kerf::emitGpuEntry(Operation *op, StringRef name,
                                       llvm::LLVMContext &context) {
  loadDialects(*op->getContext());
  OwningOpRef<ModuleOp> holder = ModuleOp::create(op->getLoc());
  mlir::gpu::GPUModuleOp module = addModule(*holder, op->getLoc(), name);
  FailureOr<GpuLaunch> launch = emitInto(op, module, name);
  if (failed(launch) || failed(lowerToNvvm(*holder)))
    return failure();
  GpuEntry entry{name.str(), launch->grid, launch->block, launch->canFail,
                 translate(module, context)};
  if (!entry.module)
    return failure();
  return entry;
}

std::optional<GpuEntry> kerf::emitGpuBatch(exec::KernelOp kernel,
                                           StringRef name,
                                           llvm::LLVMContext &context) {
  loadDialects(*kernel->getContext());
  OwningOpRef<ModuleOp> holder = ModuleOp::create(kernel.getLoc()),
                        forms = ModuleOp::create(kernel.getLoc());
  exec::KernelOp form = makeBatchForm(kernel, *forms);
  auto plan = form ? planBatch(form) : std::nullopt;
  if (!plan)
    return std::nullopt;
  mlir::gpu::GPUModuleOp module = addModule(*holder, form->getLoc(), name);
  GpuLaunch launch =
      GpuEmitter(*plan, module, 0).emitBatch(name, batchParts(kernel));
  if (failed(holder->verify()) || failed(lowerToNvvm(*holder)))
    return std::nullopt;
  GpuEntry entry{name.str(), launch.grid, launch.block, false,
                 translate(module, context)};
  return entry;
}

FailureOr<GpuProgram> kerf::compileGpuKernels(ModuleOp module,
                                              const GpuOptions &options) {
  loadDialects(*module.getContext());
  OwningOpRef<ModuleOp> holder = ModuleOp::create(module.getLoc());
  std::vector<std::unique_ptr<Entry>> entries;
  std::vector<std::pair<Operation *, size_t>> uses;
  std::map<std::vector<const void *>, size_t> known;
  auto add = [&](Operation *op, std::vector<const void *> key,
                 int64_t number) -> LogicalResult {
    auto [it, inserted] = known.try_emplace(std::move(key), entries.size());
    if (inserted) {
      auto entry = std::make_unique<Entry>();
      bool isCall = isa<exec::LibraryCallInterface>(op);
      entry->name = (isCall ? "kerf_c" : "kerf_k") + std::to_string(number);
      entry->module = addModule(*holder, op->getLoc(), entry->name);
      FailureOr<GpuLaunch> launch = emitInto(op, entry->module, entry->name);
      if (failed(launch))
        return op->emitError("has no code for GPUs");
      entry->launch = *launch;
      entries.push_back(std::move(entry));
    }
    size_t use = it->second;
    // It writes its own number into the record of a failure.
    if (entries[use]->launch.canFail)
      known.erase(it);
    uses.push_back({op, use});
    return success();
  };
  for (auto kernel : module.getOps<exec::KernelOp>())
    if (failed(add(kernel, codegen::structureOf(kernel), kernel.getIndex())))
      return failure();
  WalkResult walked = module.walk([&](exec::LibraryCallInterface call) {
    if (!isGpuKernelCall(call))
      return WalkResult::advance();
    return failed(add(call, {structureOf(call)},
                      static_cast<int64_t>(call.getIndex())))
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  BatchUses batches = addBatches(module, *holder, entries);
  if (!options.dumpDir.empty()) {
    // For people: what the passes are given.
    std::string text;
    llvm::raw_string_ostream(text) << *holder;
    if (llvm::Error error = dumpText(options.dumpDir, "kernels.mlir", text))
      return kerf::emitProblem(module.getLoc(), std::move(error));
  }
  if (failed(holder->verify()) || failed(lowerToNvvm(*holder)))
    return module.emitError("internal error: kernels for GPUs do not lower");
  for (std::unique_ptr<Entry> &entry : entries) {
    entry->code = translate(entry->module, *entry->context);
    if (!entry->code)
      return module.emitError("internal error: ")
             << entry->name << " cannot be translated to LLVM IR";
    entry->code->setModuleIdentifier(entry->name);
  }
  compileAll(entries, options);

  GpuProgram program;
  program.ptx = ptxHeader();
  program.numKernels = entries.size();
  for (std::unique_ptr<Entry> &entry : entries) {
    if (!entry->error.empty())
      return module.emitError("") << entry->error;
    program.ptx += entry->ptx;
  }
  for (auto [op, use] : uses) {
    if (auto call = dyn_cast<exec::LibraryCallInterface>(op)) {
      call.setCudaAttr(launchOf(call, *entries[use]));
      continue;
    }
    auto kernel = cast<exec::KernelOp>(op);
    kernel.setCudaAttr(launchOf(kernel, *entries[use], batches.lookup(op)));
  }
  if (options.ptxas.empty())
    return program;
  for (const std::string &arch : options.archs) {
    std::string usage;
    auto bytes = assemble(options.ptxas, program.ptx, arch, usage);
    if (!bytes)
      return kerf::emitProblem(module.getLoc(), bytes.takeError());
    if (bytes->empty()) {
      program.notes.push_back("ptxas does not know " + arch +
                              ", which will run the PTX");
      continue;
    }
    noteSpills(usage, arch, program.notes);
    program.cubins.push_back({arch, std::move(*bytes)});
  }
  return program;
}
