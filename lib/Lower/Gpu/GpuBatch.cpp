//===- GpuBatch.cpp - one launch for many updates -------------------------===//
//
// The table of M tensors, in 64-bit words: the number of the first block of
// each tensor, then the number of all blocks; then for each tensor the
// addresses of its buffers in the kernel's order, and its number of elements. A
// block finds its tensor by bisection over the first blocks: at most 12 reads,
// equal for all its threads. A buffer with partial sums has one address;
// each part begins as many elements behind the one before as the tensor has.
//
//===----------------------------------------------------------------------===//
#include "GpuBatch.h"
#include "GpuEmitter.h"

#include "../Codegen/Structure.h"

#include "kerf/NN/NN.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

#include <numeric>

using namespace mlir;

namespace kerf::cuda {

using codegen::numElements;

/// Groups of more ops compute one vector at a time: registers are scarce.
static constexpr size_t kLargeGroup = 48;

int64_t batchElements(exec::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  return numElements(body.getTerminator()->getOperand(0));
}

static RankedTensorType formOf(Type type, bool scalar) {
  Type element = cast<RankedTensorType>(type).getElementType();
  return scalar ? RankedTensorType::get({}, element)
                : RankedTensorType::get({kBatchChunk}, element);
}

/// The number of parts of an argument that is only read by a sum over its
/// leading dimension; 1 for any other argument.
static int64_t partsOf(Value argument, int64_t count) {
  auto type = cast<RankedTensorType>(argument.getType());
  auto sum = argument.hasOneUse()
                 ? dyn_cast<nn::ReduceOp>(*argument.user_begin())
                 : nn::ReduceOp();
  if (!sum || sum.getKind() != nn::ReduceKind::Sum ||
      sum.getDims() != ArrayRef<int64_t>{0} || !type.getElementType().isF32() ||
      type.getNumElements() != type.getDimSize(0) * count)
    return 1;
  int64_t parts = type.getDimSize(0);
  // Each part begins where 16 bytes may be read at once.
  return parts >= 2 && parts <= kBatchParts && count % 4 == 0 ? parts : 1;
}

SmallVector<int64_t> batchParts(exec::KernelOp kernel) {
  SmallVector<int64_t> parts;
  for (Value argument : kernel.getBody().front().getArguments())
    parts.push_back(partsOf(argument, batchElements(kernel)));
  return parts;
}

exec::KernelOp makeBatchForm(exec::KernelOp kernel, ModuleOp holder) {
  Block &body = kernel.getBody().front();
  Operation *yield = body.getTerminator();
  int64_t count = yield->getNumOperands() ? batchElements(kernel) : 0;
  auto fits = [&](Value value) {
    int64_t n = numElements(value);
    return n == count || n == 1;
  };
  SmallVector<int64_t> parts = batchParts(kernel);
  auto fitsArgument = [&](BlockArgument argument) {
    return fits(argument) || parts[argument.getArgNumber()] > 1;
  };
  if (count < 2 || !llvm::all_of(body.getArguments(), fitsArgument) ||
      !llvm::all_of(
          yield->getOperands(),
          [&](Value v) { return numElements(v) == count; }))
    return {};
  for (Operation &op : body.without_terminator()) {
    auto constant = dyn_cast<nn::ConstantOp>(op);
    if (auto sum = dyn_cast<nn::ReduceOp>(op))
      if (auto argument = dyn_cast<BlockArgument>(sum.getX());
          argument && parts[argument.getArgNumber()] > 1)
        continue;
    bool fine = codegen::kindOf(&op) == codegen::KernelKind::Elementwise ||
                isa<nn::ReshapeOp>(op) ||
                (constant && constant.getElements().isSplat());
    if (!fine || op.getNumResults() != 1 || !fits(op.getResult(0)) ||
        !llvm::all_of(op.getOperands(), fits))
      return {};
    // Between a scalar and a tensor only broadcasting.
    if (isa<nn::ReshapeOp>(op) &&
        numElements(op.getOperand(0)) != numElements(op.getResult(0)))
      return {};
  }
  auto form = [&](Value value) {
    return formOf(value.getType(), numElements(value) == 1);
  };
  SmallVector<Type> inputs, outputs;
  for (BlockArgument argument : body.getArguments())
    inputs.append(parts[argument.getArgNumber()],
                  formOf(argument.getType(), numElements(argument) == 1));
  for (Value value : yield->getOperands())
    outputs.push_back(form(value));
  auto builder = OpBuilder::atBlockEnd(holder.getBody());
  Location loc = kernel.getLoc();
  auto result = exec::KernelOp::create(
      builder, loc, kernel.getSymNameAttr(),
      TypeAttr::get(builder.getFunctionType(inputs, outputs)), ArrayAttr(),
      ArrayAttr(), kernel.getIndexAttr(), builder.getStringAttr(""),
      IntegerAttr(), IntegerAttr(), exec::PhaseAttr(), exec::GpuKernelAttr());
  Block *block = builder.createBlock(&result.getBody());
  IRMapping mapping;
  for (Type type : inputs)
    block->addArgument(type, loc);
  builder.setInsertionPointToStart(block);
  unsigned next = 0;
  for (BlockArgument argument : body.getArguments()) {
    Value value = block->getArgument(next++);
    int64_t count = parts[argument.getArgNumber()];
    for (int64_t part = 1; part < count; ++part)
      value = nn::AddOp::create(builder, loc, value.getType(), value,
                                block->getArgument(next++));
    mapping.map(argument, value);
    if (count > 1)
      mapping.map((*argument.user_begin())->getResult(0), value);
  }
  for (Operation &op : body.without_terminator()) {
    Value old = op.getResult(0);
    if (mapping.contains(old))
      continue; // a sum of parts
    if (isa<nn::ReshapeOp>(op)) {
      mapping.map(old, mapping.lookup(op.getOperand(0)));
      continue;
    }
    Operation *copy = builder.clone(op, mapping);
    copy->getResult(0).setType(form(old));
    if (auto constant = dyn_cast<nn::ConstantOp>(copy)) {
      DenseElementsAttr elements = constant.getElements();
      constant.setValueAttr(cast<TypedAttr>(DenseElementsAttr::get(
          cast<ShapedType>(form(old)), elements.getSplatValue<Attribute>())));
    }
  }
  SmallVector<Value> results;
  for (Value value : yield->getOperands())
    results.push_back(mapping.lookup(value));
  exec::YieldOp::create(builder, loc, results);
  return result;
}

GpuLaunch GpuEmitter::emitBatch(StringRef functionName,
                                ArrayRef<int64_t> parts) {
  name = functionName.str();
  size_t numOutputs = plan.outputs.size();
  auto numBuffers = static_cast<int64_t>(parts.size() + numOutputs);
  Type i64 = b.getInt64Ty();
  SmallVector<Type> types = {b.pointer(1), i64};
  b.ops.setInsertionPointToEnd(module.getBody());
  assert(static_cast<int64_t>(plan.inputs.size()) ==
         std::accumulate(parts.begin(), parts.end(), int64_t(0)));
  function = mlir::gpu::GPUFuncOp::create(b.ops, b.loc, name,
                                          b.ops.getFunctionType(types, {}));
  function->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(),
                    b.ops.getUnitAttr());
  for (StringRef attribute : {LLVM::LLVMDialect::getReadonlyAttrName(),
                              LLVM::LLVMDialect::getNoAliasAttrName()})
    function.setArgAttr(0, attribute, b.ops.getUnitAttr());
  function.setArgAttr(0, LLVM::LLVMDialect::getAlignAttrName(),
                      b.ops.getI64IntegerAttr(16));
  b.ops.setInsertionPointToEnd(&function.getBody().front());
  pushScope();

  // Find the tensor of this block, and the chunk within it.
  V table = function.getArgument(0), members = function.getArgument(1);
  auto word = [&](V at) {
    return b.CreateLoad(i64, b.gep(i64, table, at), 8, true);
  };
  auto number = [&](int64_t value) { return b.getInt64(value); };
  V id = mlir::gpu::BlockIdOp::create(b.ops, b.loc, mlir::gpu::Dimension::x);
  V block = b.ops.createOrFold<arith::IndexCastUIOp>(b.loc, i64, id);
  V member = number(0), first = number(0);
  for (int64_t step = kBatchMembers / 2; step > 0; step /= 2) {
    V next = b.CreateAdd(member, number(step));
    V there = b.CreateICmpULT(next, members);
    V begin = word(b.CreateSelect(there, next, number(0)));
    V later = b.CreateICmpULT(block, begin);
    V take = b.CreateAnd(there, b.CreateNot(later));
    member = b.CreateSelect(take, next, member);
    first = b.CreateSelect(take, begin, first);
  }
  V begin = b.CreateMul(b.CreateSub(block, first), number(kBatchChunk));
  V row = b.CreateAdd(b.CreateAdd(members, number(1)),
                      b.CreateMul(member, number(numBuffers + 1)));
  V elements = word(b.CreateAdd(row, number(numBuffers)));
  V rest = b.CreateSub(elements, begin);
  rest = b.CreateSelect(b.CreateICmpULT(rest, number(kBatchChunk)), rest,
                        number(kBatchChunk));
  index = b.getInt32Ty();
  rest = b.CreateTrunc(rest, index);

  auto isShared = [&](size_t input) {
    for (size_t output = 0; output < numOutputs; ++output)
      if (plan.mayShare(input, output))
        return true;
    return false;
  };
  auto pointerTo = [&](mlir::Value value, int64_t buffer, V from) -> V {
    V pointer = LLVM::IntToPtrOp::create(
        b.ops, b.loc, b.pointer(1), word(b.CreateAdd(row, number(buffer))));
    return numElements(value) == 1
               ? pointer
               : b.gep(storageType(elementOf(value)), pointer, from);
  };
  size_t input = 0;
  for (auto [buffer, count] : llvm::enumerate(parts))
    for (int64_t part = 0; part < count; ++part, ++input) {
      mlir::Value value = plan.inputs[input];
      V from = part == 0
                   ? begin
                   : b.CreateAdd(begin, b.CreateMul(elements, number(part)));
      pointers[value] = pointerTo(value, static_cast<int64_t>(buffer), from);
      invariant[value] = !isShared(input);
    }
  for (auto [output, value] : llvm::enumerate(plan.outputs))
    outputPointers.push_back(
        pointerTo(value, static_cast<int64_t>(parts.size() + output), begin));

  // Vectors as long as they are full, then single elements.
  AtomId atom = plan.outer.last();
  int64_t width = elementwiseLanes();
  int64_t unroll = plan.ops.size() <= kLargeGroup ? 2 : 1;
  int64_t step = kBatchThreads * width, steps = step * unroll;
  V thread = b.CreateMul(threadIndex(), indexConstant(width));
  V rounds = b.CreateUDiv(b.CreateAdd(rest, indexConstant(steps - 1)),
                          indexConstant(steps));
  auto loop = scf::ForOp::create(b.ops, b.loc, indexConstant(0), rounds,
                                 indexConstant(1));
  {
    OpBuilder::InsertionGuard guard(b.ops);
    b.ops.setInsertionPointToStart(loop.getBody());
    V base = b.CreateAdd(
        b.CreateMul(loop.getInductionVar(), indexConstant(steps)), thread);
    V end = b.CreateAdd(base, indexConstant(steps - step + width));
    V cut = b.CreateICmpULT(rest, end);
    auto vectors = [&] {
      lanes = width;
      laneAtom = width > 1 ? atom : ~0u;
      SmallVector<SmallVector<V>> all;
      for (int64_t at = 0; at < unroll; ++at) {
        atomValues[atom] = b.CreateAdd(base, indexConstant(at * step));
        pushScope();
        all.push_back(computeOutputs(true));
        popScope();
      }
      for (int64_t at = 0; at < unroll; ++at) {
        atomValues[atom] = b.CreateAdd(base, indexConstant(at * step));
        storeOutputs(all[at], true);
      }
    };
    auto element = [&](V at) {
      ifThen(b.CreateICmpULT(at, rest), [&] {
        lanes = 1;
        laneAtom = ~0u;
        atomValues[atom] = at;
        storeOutputs(computeOutputs(true), true);
      });
    };
    ifThen(b.CreateNot(cut), vectors);
    ifThen(cut, [&] {
      forStatic(unroll, step, base,
                [&](V at) { forStatic(width, 1, at, element); });
    });
  }
  popScope();
  mlir::gpu::ReturnOp::create(b.ops, b.loc);
  launch.grid = {1, 1, 1}; // as many as the table has blocks
  launch.block = {kBatchThreads, 1, 1};
  SmallVector<int32_t> threads(launch.block.begin(), launch.block.end());
  function.setKnownBlockSizeAttr(b.ops.getDenseI32ArrayAttr(threads));
  return launch;
}

} // namespace kerf::cuda
