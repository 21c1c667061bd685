//===- FunctionEmitter.cpp - exec.func as LLVM IR -------------------------===//
//
// A function is a sequence of calls, thousands of them in a deep model. An
// address is computed again at each use, and a status goes through memory to
// one common exit: only the arguments live longer than from one call to the
// next, so that compile time is linear in the calls.
//
//===----------------------------------------------------------------------===//
#include "FunctionEmitter.h"
#include "Structure.h"

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
  mlir::LogicalResult emitLoop(exec::LoopOp op);
  void fillWithZeros(V base, V first, int64_t last, int64_t unit);
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

/// The model's node of each op that can fail in a kernel, which has fused it
/// with others.
static std::vector<std::string> failingNodes(exec::KernelOp kernel) {
  SmallVector<mlir::Operation *> ops;
  for (mlir::Operation &op : kernel.getBody().front().without_terminator())
    ops.push_back(&op);
  std::vector<std::string> names;
  for (mlir::Operation *op : failingOps(ops)) {
    std::string name = modelNode(op->getLoc());
    names.push_back(name.empty() ? kernel.getNode().str() : name);
  }
  return names;
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
    for (const std::string &name : failingNodes(kernel))
      buffers.push_back(b.CreateGlobalString(name, "node"));
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

/// The buffers of the carried values in an iteration are those of the results
/// or the temporary ones, in turn.
mlir::LogicalResult FunctionEmitter::emitLoop(exec::LoopOp op) {
  auto body = symbols.lookup<exec::FuncOp>(op.getBody());
  size_t numCarried = op.getInits().size();
  size_t numStacked = op.getOuts().size() - numCarried - 1;
  mlir::ValueRange results = op.getOuts().slice(1, numCarried),
                   stacks = op.getOuts().drop_front(numCarried + 1),
                   others = op.getTemporaries().slice(2, numCarried),
                   stacked =
                       op.getTemporaries().slice(2 + numCarried, numStacked);
  size_t numBuffers = body.getArgumentTypes().size();
  Type *i64 = b.getInt64Ty();
  // Not in the loop around this one, where they would be allocated each time.
  IRBuilder<> entryBlock(&function->getEntryBlock().front());
  auto *buffers = entryBlock.CreateAlloca(pointer, b.getInt64(numBuffers));
  auto *count = entryBlock.CreateAlloca(i64);
  auto *condition = entryBlock.CreateAlloca(b.getInt8Ty());
  auto bytesOf = [](mlir::Value buffer) {
    return exec::sizeBytes(mlir::cast<mlir::ShapedType>(buffer.getType()));
  };
  auto copy = [&](V from, V to, int64_t bytes) {
    if (bytes)
      call(kApiCopy, {from, to, b.getInt64(bytes)});
  };
  for (auto [init, result] : zip_equal(op.getInits(), results))
    copy(address(init), address(result), bytesOf(init));
  V trip = b.CreateLoad(i64, address(op.getTrip()));
  if (op.getLimit())
    trip = b.CreateBinaryIntrinsic(Intrinsic::smin, trip,
                                   b.getInt64(*op.getLimit()));
  b.CreateStore(b.getInt64(0), count);
  b.CreateStore(b.CreateLoad(b.getInt8Ty(), address(op.getCondition())),
                condition);
  auto block = [&](const char *name) {
    return BasicBlock::Create(context, name, function);
  };
  BasicBlock *head = block("loop"), *iteration = block("iteration"),
             *done = block("done");
  b.CreateBr(head);

  b.SetInsertPoint(head);
  V goesOn = b.CreateAnd(
      b.CreateICmpSLT(b.CreateLoad(i64, count), trip),
      b.CreateICmpNE(b.CreateLoad(b.getInt8Ty(), condition), b.getInt8(0)));
  b.CreateCondBr(goesOn, iteration, done);

  b.SetInsertPoint(iteration);
  auto isOdd = [&] {
    return b.CreateTrunc(b.CreateLoad(i64, count), b.getInt1Ty());
  };
  V odd = isOdd();
  b.CreateStore(b.CreateLoad(i64, count), address(op.getTemporaries()[0]));
  unsigned next = 0;
  auto hand = [&](V buffer) {
    b.CreateStore(buffer, b.CreateConstGEP1_64(pointer, buffers, next++));
  };
  hand(address(op.getTemporaries()[0]));
  for (auto [result, other] : zip_equal(results, others))
    hand(b.CreateSelect(odd, address(other), address(result)));
  for (mlir::Value capture : op.getCaptures())
    hand(address(capture));
  hand(address(op.getTemporaries()[1]));
  for (auto [result, other] : zip_equal(results, others))
    hand(b.CreateSelect(odd, address(result), address(other)));
  for (mlir::Value each : stacked)
    hand(address(each));
  bool hasMemory = op.getTemporaries().size() > 2 + numCarried + numStacked;
  auto *declared = cast<Function>(
      module.getOrInsertFunction(body.getSymName(), function->getFunctionType())
          .getCallee());
  declared->setVisibility(GlobalValue::HiddenVisibility);
  V result =
      b.CreateCall(declared, {argument(0), argument(1), argument(2), buffers,
                              hasMemory ? address(op.getTemporaries().back())
                                        : argument(4)});
  b.CreateStore(result, status);
  BasicBlock *rest = block("next");
  b.CreateCondBr(b.CreateICmpNE(result, b.getInt32(0)), failed, rest);
  b.SetInsertPoint(rest);
  for (auto [each, stack] : zip_equal(stacked, stacks)) {
    V offset = b.CreateMul(b.CreateLoad(i64, count), b.getInt64(bytesOf(each)));
    copy(address(each), b.CreateGEP(b.getInt8Ty(), address(stack), offset),
         bytesOf(each));
  }
  b.CreateStore(b.CreateLoad(b.getInt8Ty(), address(op.getTemporaries()[1])),
                condition);
  b.CreateStore(b.CreateAdd(b.CreateLoad(i64, count), b.getInt64(1)), count);
  b.CreateBr(head);

  b.SetInsertPoint(done);
  BasicBlock *moves = block("moves"), *end = block("end");
  b.CreateCondBr(isOdd(), moves, end);
  b.SetInsertPoint(moves);
  for (auto [result, other] : zip_equal(results, others))
    copy(address(other), address(result), bytesOf(result));
  b.CreateBr(end);
  b.SetInsertPoint(end);
  b.CreateStore(b.CreateLoad(i64, count), address(op.getOuts()[0]));
  for (auto [each, stack] : zip_equal(stacked, stacks))
    fillWithZeros(
        address(stack),
        b.CreateMul(b.CreateLoad(i64, count), b.getInt64(bytesOf(each))),
        bytesOf(stack), bytesOf(each));
  return mlir::success();
}

/// Bytes from `first` to `last`, multiples of `unit`.
void FunctionEmitter::fillWithZeros(V base, V first, int64_t last,
                                    int64_t unit) {
  int64_t width = 8;
  while (unit % width)
    width /= 2;
  Type *type = b.getIntNTy(unsigned(width) * 8), *i64 = b.getInt64Ty();
  BasicBlock *before = b.GetInsertBlock();
  BasicBlock *head = BasicBlock::Create(context, "zeros", function);
  BasicBlock *store = BasicBlock::Create(context, "zero", function);
  BasicBlock *end = BasicBlock::Create(context, "filled", function);
  b.CreateBr(head);
  b.SetInsertPoint(head);
  PHINode *at = b.CreatePHI(i64, 2);
  at->addIncoming(first, before);
  b.CreateCondBr(b.CreateICmpSLT(at, b.getInt64(last)), store, end);
  b.SetInsertPoint(store);
  b.CreateStore(Constant::getNullValue(type),
                b.CreateGEP(b.getInt8Ty(), base, at));
  at->addIncoming(b.CreateAdd(at, b.getInt64(width)), store);
  b.CreateBr(head);
  b.SetInsertPoint(end);
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
      .Case<exec::LoopOp>([&](exec::LoopOp loop) { return emitLoop(loop); })
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
