//===- FunctionEmitter.cpp - exec.func as LLVM IR -------------------------===//
//
// A function is a sequence of calls, thousands of them in a deep model. An
// address is computed again at each use, and a status goes through memory to
// one common exit: only the arguments live longer than from one call to the
// next, so that compile time is linear in the calls.
//
//===----------------------------------------------------------------------===//
#include "FunctionEmitter.h"

#include "kerf/NN/NN.h"
#include "kerf/Support/ModelNode.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace llvm;

namespace kerf::codegen {

namespace {

class FunctionEmitter {
  using V = llvm::Value *;

public:
  FunctionEmitter(exec::FuncOp func, Module &module,
                  const DenseMap<mlir::StringAttr, CompiledKernel> &kernels,
                  mlir::SymbolTable &symbols)
      : func(func), module(module), context(module.getContext()), b(context),
        kernels(kernels), symbols(symbols),
        pointer(PointerType::get(context, 0)) {}

  mlir::LogicalResult emit();

private:
  mlir::LogicalResult emitOp(mlir::Operation *op);
  mlir::LogicalResult emitLaunch(exec::LaunchOp op);
  V entry(ApiOffset offset);
  /// Calls an entry; leaves the function if it fails.
  void call(ApiOffset offset, ArrayRef<V> arguments);
  V at(V base, int64_t bytes) {
    return bytes ? b.CreateConstGEP1_64(b.getInt8Ty(), base, bytes) : base;
  }
  V slot(V array, int64_t index) {
    return b.CreateLoad(pointer, b.CreateConstGEP1_64(pointer, array, index));
  }
  V argument(unsigned at) { return function->getArg(at); }
  /// The address of a buffer, computed at this place.
  V address(mlir::Value buffer);
  /// The buffers' addresses in an array, which lives until the next call.
  V fill(ArrayRef<V> buffers);

  exec::FuncOp func;
  Module &module;
  LLVMContext &context;
  IRBuilder<> b;
  const DenseMap<mlir::StringAttr, CompiledKernel> &kernels;
  mlir::SymbolTable &symbols;
  PointerType *pointer;
  Function *function = nullptr;
  AllocaInst *array = nullptr, *status = nullptr;
  uint64_t arraySize = 1;
  BasicBlock *failed = nullptr;
};

FunctionEmitter::V FunctionEmitter::entry(ApiOffset offset) {
  return b.CreateLoad(pointer, at(argument(0), offset));
}

void FunctionEmitter::call(ApiOffset offset, ArrayRef<V> arguments) {
  SmallVector<V> all = {argument(1)};
  all.append(arguments.begin(), arguments.end());
  SmallVector<Type *> types;
  for (V value : all)
    types.push_back(value->getType());
  V result = b.CreateCall(FunctionType::get(b.getInt32Ty(), types, false),
                          entry(offset), all);
  b.CreateStore(result, status);
  BasicBlock *next = BasicBlock::Create(context, "next", function);
  b.CreateCondBr(b.CreateICmpNE(result, b.getInt32(0)), failed, next);
  b.SetInsertPoint(next);
}

FunctionEmitter::V FunctionEmitter::address(mlir::Value buffer) {
  int64_t offset = 0;
  for (; auto view = buffer.getDefiningOp<exec::ViewOp>();
       buffer = view.getSource())
    offset += view.getByteOffset();
  if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(buffer))
    return at(slot(this->argument(3), argument.getArgNumber()), offset);
  if (auto param = buffer.getDefiningOp<exec::ParamOp>())
    return at(slot(argument(2), param.getIndex()), offset);
  auto arena = buffer.getDefiningOp<exec::ArenaOp>();
  return at(argument(4), *arena.getOffset() + offset);
}

FunctionEmitter::V FunctionEmitter::fill(ArrayRef<V> buffers) {
  arraySize = std::max<uint64_t>(arraySize, buffers.size());
  for (auto [at, buffer] : enumerate(buffers))
    b.CreateStore(buffer, b.CreateConstGEP1_64(pointer, array, at));
  return array;
}

/// The model's nodes that can fail in a kernel, which has fused them with
/// others: where there are several, any of them may be meant.
static std::string failingNodes(exec::KernelOp kernel) {
  SmallSetVector<StringRef, 2> names;
  std::vector<std::string> storage;
  kernel.walk([&](mlir::Operation *op) {
    if (isa<nn::GatherOp>(op) || nn::dividesIntegers(op))
      storage.push_back(modelNode(op->getLoc()));
  });
  for (const std::string &name : storage)
    if (!name.empty())
      names.insert(name);
  return names.empty() ? kernel.getNode().str() : join(names, " or ");
}

mlir::LogicalResult FunctionEmitter::emitLaunch(exec::LaunchOp op) {
  auto kernel = symbols.lookup<exec::KernelOp>(op.getKernel());
  auto it = kernel ? kernels.find(kernel.getSymNameAttr()) : kernels.end();
  if (it == kernels.end())
    return op.emitOpError("launches '")
           << op.getKernel() << "', which is not a compiled kernel";
  const CompiledKernel &compiled = it->second;
  if (!compiled.launch.count)
    return mlir::success();
  SmallVector<V> buffers;
  for (auto [input, value] : enumerate(op.getInputs()))
    buffers.push_back(at(address(value), compiled.byteOffsets.empty()
                                             ? 0
                                             : compiled.byteOffsets[input]));
  for (mlir::Value value : op.getOutputs())
    buffers.push_back(address(value));
  if (compiled.launch.canFail) {
    buffers.append({argument(0), argument(1)});
    buffers.push_back(b.CreateGlobalString(failingNodes(kernel), "node"));
  }
  auto *type = FunctionType::get(
      b.getVoidTy(), {pointer, pointer, b.getInt64Ty(), b.getInt64Ty()}, false);
  Constant *code = ConstantPointerNull::get(pointer);
  if (!compiled.symbol.empty()) {
    auto *declared = cast<Function>(
        module.getOrInsertFunction(compiled.symbol, type).getCallee());
    declared->setVisibility(GlobalValue::HiddenVisibility);
    code = declared;
  }
  V scalars = ConstantPointerNull::get(pointer);
  call(kApiLaunch,
       {b.getInt32(kernel.getIndex()), code, fill(buffers),
        b.getInt32(buffers.size()), scalars, b.getInt64(compiled.launch.count),
        b.getInt64(compiled.launch.grain)});
  return mlir::success();
}

mlir::LogicalResult FunctionEmitter::emitOp(mlir::Operation *op) {
  return TypeSwitch<mlir::Operation *, mlir::LogicalResult>(op)
      .Case<exec::ArenaOp>([&](exec::ArenaOp arena) -> mlir::LogicalResult {
        if (!arena.getOffset())
          return arena.emitOpError("has no offset, expected planned arenas");
        return mlir::success();
      })
      .Case<exec::ParamOp, exec::WeightOp, exec::ViewOp>(
          [&](auto) { return mlir::success(); })
      .Case<exec::LaunchOp>(
          [&](exec::LaunchOp launch) { return emitLaunch(launch); })
      .Case<exec::LibraryCallInterface>(
          [&](exec::LibraryCallInterface library) {
            SmallVector<V> buffers;
            for (mlir::Value value : exec::CallBuffers(library).values)
              buffers.push_back(address(value));
            call(kApiLibrary, {b.getInt32(library.getIndex()), fill(buffers)});
            return mlir::success();
          })
      .Case<exec::CollectiveOp, exec::CollectiveStartOp>([&](auto collective) {
        bool starts = mlir::isa<exec::CollectiveStartOp>(op);
        call(starts ? kApiCollectiveStart : kApiCollective,
             {b.getInt32(collective.getIndex()), address(collective.getSrc()),
              address(collective.getDst())});
        return mlir::success();
      })
      .Case<exec::CollectiveWaitOp>([&](exec::CollectiveWaitOp wait) {
        auto start = wait.getEvent().getDefiningOp<exec::CollectiveStartOp>();
        call(kApiCollectiveWait, {b.getInt32(start.getIndex())});
        return mlir::success();
      })
      .Case<exec::ShardIndexOp>([&](exec::ShardIndexOp shard) {
        // Not a store: the buffer may be on a GPU.
        call(kApiStoreShardIndex,
             {b.getInt32(shard.getIndex()), address(shard.getDst())});
        return mlir::success();
      })
      .Case<exec::CopyOp>([&](exec::CopyOp copy) {
        call(kApiCopy, {address(copy.getSrc()), address(copy.getDst()),
                        b.getInt64(exec::sizeBytes(mlir::cast<mlir::ShapedType>(
                            copy.getSrc().getType())))});
        return mlir::success();
      })
      .Case<exec::ReturnOp>([&](auto) {
        b.CreateRet(b.getInt32(0));
        return mlir::success();
      })
      .Default([](mlir::Operation *other) {
        return other->emitOpError("has no code generation");
      });
}

mlir::LogicalResult FunctionEmitter::emit() {
  SmallVector<Type *> types(5, pointer);
  function =
      Function::Create(FunctionType::get(b.getInt32Ty(), types, false),
                       GlobalValue::ExternalLinkage, func.getSymName(), module);
  function->addFnAttr(Attribute::NoUnwind);
  function->addFnAttr("no-builtins");
  b.SetInsertPoint(BasicBlock::Create(context, "entry", function));
  array = b.CreateAlloca(pointer, b.getInt64(1));
  status = b.CreateAlloca(b.getInt32Ty());
  failed = BasicBlock::Create(context, "failed", function);
  for (mlir::Operation &op : func.getBody().front())
    if (mlir::failed(emitOp(&op)))
      return mlir::failure();
  b.SetInsertPoint(failed);
  b.CreateRet(b.CreateLoad(b.getInt32Ty(), status));
  array->setOperand(0, b.getInt64(arraySize));
  return mlir::success();
}

} // namespace

mlir::LogicalResult
emitFunction(exec::FuncOp func, Module &module,
             const DenseMap<mlir::StringAttr, CompiledKernel> &kernels,
             mlir::SymbolTable &symbols) {
  return FunctionEmitter(func, module, kernels, symbols).emit();
}

} // namespace kerf::codegen
