//===- GpuEmitter.cpp - the function, kernels over elements ---------------===//
//
// Sizes of blocks and vectors follow from shapes and types alone, so that a
// model gives the same code on every machine.
//
//===----------------------------------------------------------------------===//
#include "GpuEmitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kerf::cuda {

using V = Value;
using codegen::numElements;

static constexpr int64_t kBlock = 256;
/// With so many blocks for each multiprocessor, and only then, a thread
/// computes more than one vector.
static constexpr int64_t kManyBlocks = 8;
/// Groups of more ops use smaller vectors: registers are scarce.
static constexpr size_t kLargeGroup = 48;

GpuEmitter::GpuEmitter(KernelPlan &plan, mlir::gpu::GPUModuleOp module,
                       int64_t kernel)
    : PullEmitter(plan, OpBuilder(module.getContext()), module.getLoc()),
      target(exec::TargetAttr::of(plan.ops.empty() ? module.getOperation()
                                                   : plan.ops.front(),
                                  exec::Device::Cuda)),
      module(module), kernel(kernel) {
  int64_t largest = 0;
  for (Operation *op : plan.ops) {
    for (Value operand : op->getOperands())
      largest = std::max(largest, numElements(operand));
    largest = std::max(largest, numElements(op->getResult(0)));
  }
  index = largest < (1 << 30) ? b.getInt32Ty() : b.getInt64Ty();
}

void GpuEmitter::makeFunction(StringRef functionName) {
  name = functionName.str();
  size_t numInputs = plan.inputs.size(), numOutputs = plan.outputs.size();
  T global = b.pointer(1);
  SmallVector<Type> types(numInputs + numOutputs + plan.canFail, global);
  b.ops.setInsertionPointToEnd(module.getBody());
  function = mlir::gpu::GPUFuncOp::create(b.ops, b.loc, name,
                                          b.ops.getFunctionType(types, {}));
  function->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(),
                    b.ops.getUnitAttr());
  SmallVector<bool> shared(numInputs + numOutputs, false);
  for (size_t input = 0; input < numInputs; ++input)
    for (size_t output = 0; output < numOutputs; ++output)
      if (plan.mayShare(input, output))
        shared[input] = shared[numInputs + output] = true;
  for (size_t at = 0; at < types.size(); ++at) {
    V argument = function.getArgument(at);
    if (at >= numInputs + numOutputs) {
      record = argument;
      continue;
    }
    if (at < numInputs) {
      pointers[plan.inputs[at]] = argument;
      invariant[plan.inputs[at]] = !shared[at];
      function.setArgAttr(at, LLVM::LLVMDialect::getReadonlyAttrName(),
                          b.ops.getUnitAttr());
    } else {
      outputPointers.push_back(argument);
    }
    if (!shared[at])
      function.setArgAttr(at, LLVM::LLVMDialect::getNoAliasAttrName(),
                          b.ops.getUnitAttr());
    function.setArgAttr(at, LLVM::LLVMDialect::getAlignAttrName(),
                        b.ops.getI64IntegerAttr(16));
  }
  b.ops.setInsertionPointToEnd(&function.getBody().front());
}

V GpuEmitter::threadIndex() {
  V id = mlir::gpu::ThreadIdOp::create(b.ops, b.loc, mlir::gpu::Dimension::x);
  return b.ops.createOrFold<arith::IndexCastUIOp>(b.loc, index, id);
}

V GpuEmitter::blockIndex() {
  V id = mlir::gpu::BlockIdOp::create(b.ops, b.loc, mlir::gpu::Dimension::x);
  return b.ops.createOrFold<arith::IndexCastUIOp>(b.loc, index, id);
}

void GpuEmitter::decompose(V number, ArrayRef<LoopVar> vars, int64_t lastStep) {
  for (size_t at = vars.size(); at-- > 0;) {
    bool last = at + 1 == vars.size();
    int64_t size = vars[at].size;
    if (last)
      size = llvm::divideCeil(size, lastStep);
    V size_ = indexConstant(size);
    V value = at ? b.CreateURem(number, size_) : number;
    if (at)
      number = b.CreateUDiv(number, size_);
    if (last)
      value = b.CreateMul(value, indexConstant(lastStep));
    atomValues[vars[at].atom] = value;
  }
}

SmallVector<V> GpuEmitter::computeOutputs(bool full) {
  SmallVector<V> values;
  for (size_t at = 0; at < plan.outputs.size(); ++at)
    values.push_back(plan.rowOps.empty() || plan.outputIsFull[at] == full
                         ? pull(plan.outputs[at], plan.outputIndex[at])
                         : V());
  return values;
}

void GpuEmitter::storeOutputs(ArrayRef<V> values, bool full) {
  for (auto [at, value] : llvm::enumerate(values))
    if (value)
      store(value, outputPointers[at], elementOf(plan.outputs[at]),
            space.linearize(plan.outputIndex[at], shapeOf(plan.outputs[at])));
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// The number of elements in 16 bytes of the smallest type that is read or
/// written along the innermost loop; a power of two that divides the loop.
int64_t GpuEmitter::elementwiseLanes() {
  AtomId last = plan.outer.last();
  int64_t bytes = 8;
  auto consider = [&](Value value) {
    bytes = std::min<int64_t>(
        bytes, std::max(2u, b.bitsOf(storageType(elementOf(value))) / 8));
  };
  for (Value output : plan.outputs)
    consider(output);
  for (auto &[value, flats] : plan.accesses)
    for (const Index &flat : flats)
      if (flat.coefficient(last) == 1)
        consider(value);
  int64_t max = target.getVectorBytes() / bytes;
  if (plan.ops.size() > kLargeGroup || plan.form != KernelForm::Elementwise)
    max = std::min<int64_t>(max, 4);
  return max;
}

/// Whether `width` divides the loop and everything where it is cut.
static int64_t fittingWidth(const KernelPlan &plan, const LoopVar &var,
                            int64_t max) {
  int64_t width = max;
  auto fit = [&](int64_t border) {
    while (border % width)
      width /= 2;
  };
  fit(var.size);
  if (auto it = plan.cuts.find(var.atom); it != plan.cuts.end())
    for (int64_t cut : it->second)
      fit(cut);
  return width;
}

void GpuEmitter::guarded(V number, int64_t limit, int64_t threads, Body body) {
  if (threads == limit)
    return body();
  ifThen(b.CreateICmpULT(number, indexConstant(limit)), body);
}

void GpuEmitter::emitVectors(int64_t vectors, int64_t width, int64_t unroll) {
  const Flat &outer = plan.outer;
  int64_t threads = std::min<int64_t>(kBlock, llvm::alignTo(vectors, 32));
  int64_t blocks = llvm::divideCeil(vectors, threads * unroll);
  launch.grid = {blocks, 1, 1};
  launch.block = {threads, 1, 1};
  V base =
      b.CreateAdd(b.CreateMul(blockIndex(), indexConstant(threads * unroll)),
                  threadIndex());
  lanes = width;
  laneAtom = width > 1 ? outer.last() : ~0u;
  struct Vector {
    Atoms atoms;
    SmallVector<V> values;
  };
  guarded(base, vectors, blocks * threads * unroll, [&] {
    SmallVector<Vector> all;
    for (int64_t at = 0; at < unroll; ++at) {
      V number = b.CreateAdd(base, indexConstant(at * threads));
      decompose(number, outer.vars, width);
      pushScope();
      SmallVector<V> values = computeOutputs(true);
      popScope();
      all.push_back({atomValues, std::move(values)});
    }
    // All are read before the first is written: loads overlap.
    for (Vector &vector : all) {
      atomValues = vector.atoms;
      storeOutputs(vector.values, true);
    }
  });
}

/// The rest at the end of a single loop that fills no vector, one thread each.
void GpuEmitter::emitTail(int64_t from) {
  const LoopVar &var = plan.outer.vars.back();
  lanes = 1;
  laneAtom = ~0u;
  V thread = b.CreateAdd(
      b.CreateMul(blockIndex(), indexConstant(launch.block[0])), threadIndex());
  guarded(thread, var.size - from, -1, [&] {
    atomValues[var.atom] = b.CreateAdd(thread, indexConstant(from));
    storeOutputs(computeOutputs(true), true);
  });
}

void GpuEmitter::emitElementwise() {
  const Flat &outer = plan.outer;
  const LoopVar &last = outer.vars.back();
  int64_t max = elementwiseLanes();
  int64_t width = fittingWidth(plan, last, max);
  bool single = outer.vars.size() == 1 && !plan.cuts.count(last.atom);
  int64_t tail = 0;
  if (single && width < max && last.size >= 4 * max) {
    width = max;
    tail = last.size % width;
  }
  int64_t vectors = (outer.size - tail) / width, unroll = 1;
  if (plan.form == KernelForm::Elementwise && plan.ops.size() <= kLargeGroup)
    for (int64_t times : {4, 2})
      if (unroll == 1 && vectors % (kBlock * times) == 0 &&
          vectors / (kBlock * times) >= kManyBlocks * target.getProcessors())
        unroll = times;
  emitVectors(vectors, width, unroll);
  if (tail)
    emitTail(outer.size - tail);
}

GpuLaunch GpuEmitter::emit(StringRef functionName) {
  makeFunction(functionName);
  launch.canFail = plan.canFail;
  pushScope();
  if (!plan.outer.size)
    launch.block = {32, 1, 1};
  else if (!plan.rowOps.empty())
    emitRows();
  else if (chooseTiles())
    emitTiles();
  else
    emitElementwise();
  popScope();
  mlir::gpu::ReturnOp::create(b.ops, b.loc);
  SmallVector<int32_t> block(launch.block.begin(), launch.block.end());
  function.setKnownBlockSizeAttr(b.ops.getDenseI32ArrayAttr(block));
  return launch;
}

} // namespace kerf::cuda
