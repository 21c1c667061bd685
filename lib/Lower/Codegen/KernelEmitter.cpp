//===- KernelEmitter.cpp - function and parallel loop of a kernel ---------===//
//
// The parallel loop runs over outer loops and, where the vectorised loop is
// long, over blocks of it, so that a few thousand elements are one iteration.
// Rows are iterations of their own, or vectors of rows.
//
//===----------------------------------------------------------------------===//
#include "KernelEmitter.h"
#include "Structure.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace kerf::codegen {

/// Elements per iteration of simple kernels; work per iteration of others.
constexpr int64_t kIterationElements = 4096;
constexpr int64_t kIterationWork = 1 << 16;
/// Work below which waking a thread costs more than it saves.
constexpr int64_t kThreadWork = 1 << 16;

KernelEmitter::KernelEmitter(KernelPlan &plan, Module &module,
                             VectorTarget target)
    : PullEmitter(plan, module.getContext()), module(module),
      context(module.getContext()), target(target) {
  native = target.vectorBits / 32;
}

KernelLaunch KernelEmitter::chooseLaunch() {
  const Flat &outer = plan.outer;
  const LoopVar &last = outer.vars.back();
  outerLoops = outer.vars.size();
  blockSize = 0;
  chooseTile();
  if (plan.lanesOuter && tileLoop < 0) {
    --outerLoops;
    if (!plan.rowOps.empty()) {
      blockSize = last.size >= 4 * native ? 4 * native : native;
    } else {
      int64_t perElement =
          std::max<int64_t>(plan.work / std::max<int64_t>(outer.size, 1), 1);
      int64_t limit =
          std::clamp(kIterationWork / perElement, native, kIterationElements);
      int64_t inner = last.size;
      if (inner > limit)
        blockSize = limit / native * native;
      else
        while (outerLoops && inner * outer.vars[outerLoops - 1].size <= limit)
          inner *= outer.vars[--outerLoops].size;
    }
  }
  KernelLaunch result;
  result.canFail = plan.canFail;
  result.numNames = failingOps(plan.ops.getArrayRef()).size();
  result.count = outer.size ? 1 : 0;
  if (tileLoop >= 0)
    outerLoops = outer.vars.size() - 1;
  for (int64_t at = 0; at < outerLoops; ++at)
    result.count *= at == tileLoop ? divideCeil(outer.vars[at].size, tileBlock)
                                   : outer.vars[at].size;
  if (blockSize) {
    int64_t blocks = 0;
    for (auto [start, end] : segments(last))
      blocks += divideCeil(end - start, blockSize);
    result.count *= blocks;
  }
  int64_t perIteration =
      std::max<int64_t>(plan.work / std::max<int64_t>(result.count, 1), 1);
  result.grain = std::max<int64_t>(divideCeil(kThreadWork, perIteration), 1);
  return result;
}

void KernelEmitter::decompose(V iteration, ArrayRef<LoopVar> vars) {
  for (size_t at = vars.size(); at-- > 0;) {
    V size = b.getInt64(vars[at].size);
    atomValues[vars[at].atom] = at ? b.CreateURem(iteration, size) : iteration;
    if (at)
      iteration = b.CreateUDiv(iteration, size);
  }
}

void KernelEmitter::pullHoists() {
  for (const Hoist &hoist : plan.hoists)
    pull(hoist.value, hoist.index);
}

void KernelEmitter::storeOutputs(bool full) {
  SmallVector<std::pair<size_t, V>> values;
  for (size_t at = 0; at < plan.outputs.size(); ++at)
    if (plan.rowOps.empty() || plan.outputIsFull[at] == full)
      values.push_back({at, pull(plan.outputs[at], plan.outputIndex[at])});
  // All elements are computed before the first is stored: an output may be an
  // input.
  for (auto [at, value] : values) {
    mlir::Value output = plan.outputs[at];
    store(value, outputPointers[at], elementOf(output),
          space.linearize(plan.outputIndex[at], shapeOf(output)));
  }
}

void KernelEmitter::emitRow() {
  rowState.clear();
  kept.clear();
  keptExp.clear();
  pullHoists();
  for (mlir::Operation *op : plan.rowOps)
    computeRow(op);
  if (is_contained(plan.outputIsFull, true))
    forRow(plan.inner[product_of(innerShape(plan.rowOps.front()))], native,
           [&] { storeOutputs(true); });
  storeOutputs(false);
}

/// The sequential loops between the parallel loops and the vectorised one.
void KernelEmitter::emitNest(int64_t next, int64_t end, Body innermost) {
  if (next == end)
    return innermost();
  const LoopVar &var = plan.outer.vars[next];
  forStatic(var.size, 1, b.getInt64(0), [&](V value) {
    atomValues[var.atom] = value;
    pushScope();
    emitNest(next + 1, end, innermost);
    popScope();
  });
}

void KernelEmitter::emitBlocks(V iteration, int64_t outerVars) {
  const LoopVar &last = plan.outer.vars.back();
  ArrayRef<LoopVar> parallel =
      ArrayRef<LoopVar>(plan.outer.vars).take_front(outerVars);
  auto vectors = [&](V base, int64_t extent) {
    if (plan.rowOps.empty()) {
      pullHoists();
      forLanes(last.atom, base, extent, native, [&] { storeOutputs(true); });
    } else {
      forLanes(last.atom, base, extent, blockSize, [&] { emitRow(); });
    }
  };
  auto parts = segments(last);
  if (!blockSize) {
    decompose(iteration, parallel);
    emitNest(outerVars, plan.outer.vars.size() - 1, [&] {
      for (auto [start, end] : parts) {
        space.setRange(last.atom, start, end - 1);
        vectors(b.getInt64(start), end - start);
      }
      space.setRange(last.atom, 0, last.size - 1);
    });
    return;
  }
  int64_t blocks = 0;
  for (auto [start, end] : parts)
    blocks += divideCeil(end - start, blockSize);
  V block = iteration;
  if (outerVars) {
    block = b.CreateURem(iteration, b.getInt64(blocks));
    decompose(b.CreateUDiv(iteration, b.getInt64(blocks)), parallel);
  }
  int64_t before = 0;
  for (auto [start, end] : parts) {
    space.setRange(last.atom, start, end - 1);
    int64_t full = (end - start) / blockSize, rest = (end - start) % blockSize;
    // Blocks [before, before + count) of `extent` elements from `from`.
    auto range = [&](int64_t count, int64_t from, int64_t extent) {
      if (!count)
        return;
      V offset = b.CreateSub(block, b.getInt64(before));
      V base = b.CreateAdd(b.CreateMul(offset, b.getInt64(blockSize)),
                           b.getInt64(from));
      if (count == blocks)
        vectors(base, extent);
      else
        ifThen(b.CreateICmpULT(offset, b.getInt64(count)),
               [&] { vectors(base, extent); });
      before += count;
    };
    range(full, start, blockSize);
    range(rest ? 1 : 0, start + full * blockSize, rest);
  }
  space.setRange(last.atom, 0, last.size - 1);
}

void KernelEmitter::emitParallelLoop(V begin, V end) {
  BasicBlock *entry = b.GetInsertBlock();
  BasicBlock *loop = BasicBlock::Create(context, "iteration", function);
  BasicBlock *done = BasicBlock::Create(context, "done", function);
  b.CreateCondBr(b.CreateICmpSLT(begin, end), loop, done);
  b.SetInsertPoint(loop);
  PHINode *iteration = b.CreatePHI(b.getInt64Ty(), 2);
  iteration->addIncoming(begin, entry);
  pushScope();
  if (tileLoop >= 0) {
    emitTiles(iteration);
  } else if (plan.lanesOuter) {
    emitBlocks(iteration, outerLoops);
  } else {
    decompose(iteration, plan.outer.vars);
    emitRow();
  }
  popScope();
  V next = b.CreateAdd(iteration, b.getInt64(1), "", true, true);
  iteration->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), loop, done);
  b.SetInsertPoint(done);
}

static void setAttributes(Function *function, VectorTarget target) {
  function->addFnAttr(Attribute::NoUnwind);
  // Keeps LLVM from turning a loop into a call of memcpy or memset, which
  // program.so does not have.
  function->addFnAttr("no-builtins");
  function->addFnAttr("prefer-vector-width", std::to_string(target.vectorBits));
  function->addFnAttr("min-legal-vector-width",
                      std::to_string(target.vectorBits));
}

KernelLaunch KernelEmitter::emit(StringRef name) {
  launch = chooseLaunch();
  auto *pointer = PointerType::get(context, 0);
  Type *i64 = b.getInt64Ty();
  int64_t numInputs = plan.inputs.size(), numOutputs = plan.outputs.size();
  int64_t numBuffers =
      numInputs + numOutputs + (launch.canFail ? 2 + launch.numNames : 0);

  SmallVector<Type *> types(numBuffers, pointer);
  types.append({i64, i64});
  function =
      Function::Create(FunctionType::get(b.getVoidTy(), types, false),
                       GlobalValue::InternalLinkage, name + ".body", module);
  setAttributes(function, target);
  // Pointers become parameters, so that they can be marked as not aliasing.
  function->addFnAttr(Attribute::NoInline);
  SmallVector<bool> shared(numBuffers, false);
  for (int64_t input = 0; input < numInputs; ++input)
    for (int64_t output = 0; output < numOutputs; ++output)
      if (plan.mayShare(input, output))
        shared[input] = shared[numInputs + output] = true;
  for (int64_t at = 0; at < numBuffers; ++at) {
    V argument = function->getArg(at);
    if (at < numInputs) {
      pointers[plan.inputs[at]] = argument;
      invariant[plan.inputs[at]] = !shared[at];
      function->addParamAttr(at, Attribute::ReadOnly);
    } else if (at < numInputs + numOutputs) {
      outputPointers.push_back(argument);
    }
    if (at < numInputs + numOutputs && !shared[at])
      function->addParamAttr(at, Attribute::NoAlias);
  }
  if (launch.canFail) {
    api = function->getArg(numInputs + numOutputs);
    apiContext = function->getArg(numInputs + numOutputs + 1);
    for (auto [at, op] : enumerate(failingOps(plan.ops.getArrayRef())))
      names[op] = function->getArg(numInputs + numOutputs + 2 + at);
  }
  b.SetInsertPoint(BasicBlock::Create(context, "entry", function));
  pushScope();
  emitParallelLoop(function->getArg(numBuffers),
                   function->getArg(numBuffers + 1));
  popScope();
  b.CreateRetVoid();

  Function *entry = Function::Create(
      FunctionType::get(b.getVoidTy(), {pointer, pointer, i64, i64}, false),
      GlobalValue::ExternalLinkage, name, module);
  entry->setVisibility(GlobalValue::HiddenVisibility);
  setAttributes(entry, target);
  b.SetInsertPoint(BasicBlock::Create(context, "entry", entry));
  SmallVector<V> arguments;
  for (int64_t at = 0; at < numBuffers; ++at)
    arguments.push_back(b.CreateLoad(
        pointer, b.CreateConstGEP1_64(pointer, entry->getArg(0), at)));
  arguments.append({entry->getArg(2), entry->getArg(3)});
  b.CreateCall(function, arguments);
  b.CreateRetVoid();
  return launch;
}

} // namespace kerf::codegen
