//===- PullValues.h - pulling values, ops that move elements ----*- C++ -*-===//
//
// `pull` returns the value of an op at symbolic indices and remembers it for
// the current scope. Ops that move elements only change the indices. If an
// element may lie outside of an operand (pad, concat), a guard decides: by
// ranges, by a branch if all lanes agree, or else by a select over clamped
// loads, so that memory outside of the operand is never read.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_PULLVALUES_H
#define KERF_LOWER_CODEGEN_PULLVALUES_H

#include "PullEmitter.h"

#include "kerf/NN/NN.h"
#include "kerf/NN/Rules/Rows.h"

namespace kerf::codegen {

template <typename B>
auto PullEmitter<B>::pull(mlir::Value value, llvm::ArrayRef<Index> index) -> V {
  std::pair<void *, IndexVec> key(value.getAsOpaquePointer(), IndexVec(index));
  for (auto &scope : llvm::reverse(scopes))
    if (auto it = scope.find(key); it != scope.end())
      return it->second;
  V result;
  mlir::Operation *op = value.getDefiningOp();
  if (!op || !plan.ops.contains(op)) {
    Index flat = space.linearize(index, shapeOf(value));
    result = loadInput(value, flat);
  } else if (auto it = kept.find(value);
             it != kept.end() && it->second.index == key.second) {
    T type = computeType(elementOf(value));
    result = loadRow(rowPlace(it->second.buffer, type, it->second.position),
                     vectorOf(type, lanes));
  } else {
    result = pullOp(op, index);
  }
  scopes.back()[key] = result;
  return result;
}

template <typename B>
auto PullEmitter<B>::pullOp(mlir::Operation *op, llvm::ArrayRef<Index> index)
    -> V {
  switch (kindOf(op)) {
  case KernelKind::Elementwise: {
    llvm::SmallVector<V> operands;
    for (OperandUse &use : operandUses(op, index, space))
      operands.push_back(pull(op->getOperand(use.operand), use.index));
    widenAll(operands);
    return elementwise(op, operands);
  }
  case KernelKind::Shape: {
    auto uses = operandUses(op, index, space);
    return pull(op->getOperand(0), uses[0].index);
  }
  case KernelKind::Pad:
  case KernelKind::Concat:
    return pullUses(op, index);
  case KernelKind::Constant:
    return pullConstant(op, index);
  case KernelKind::Iota:
    return pullIota(op, index);
  case KernelKind::Gather:
    return pullGather(op, index);
  case KernelKind::Row:
    return pullRow(op, index);
  case KernelKind::Window:
    return mlir::isa<nn::LRNOp>(op) ? pullLRN(op, index) : pullPool(op, index);
  case KernelKind::Contraction:
    return mlir::isa<nn::ConvOp>(op) ? pullConv(op, index)
                                     : pullMatmul(op, index);
  case KernelKind::Unsupported:
    break;
  }
  llvm_unreachable("refused by the plan");
}

//===----------------------------------------------------------------------===//
// Guards
//===----------------------------------------------------------------------===//

/// Whether the guard holds for all values of its atoms (true), for none
/// (false).
inline std::optional<bool> decideGuard(const IndexSpace &space,
                                       const Guard &guard) {
  auto [low, high] = space.range(guard.index);
  if (high < guard.low || low >= guard.high || guard.low >= guard.high)
    return false;
  if (low >= guard.low && high < guard.high)
    return true;
  return std::nullopt;
}

template <typename B>
auto PullEmitter<B>::guardCondition(llvm::ArrayRef<Guard> guards) -> V {
  V all = nullptr;
  for (const Guard &guard : guards) {
    std::optional<bool> known = decideGuard(space, guard);
    if (known && *known)
      continue;
    if (known)
      return b.getFalse();
    // low <= i < high as one unsigned comparison.
    Index shifted = space.add(guard.index, Index(-guard.low));
    bool varies = variesOverLanes(shifted) && !lanesAgree(guard);
    V at = varies ? laneIndex(shifted) : scalarIndex(shifted);
    V condition =
        b.CreateICmpULT(at, b.integer(b.typeOf(at), guard.high - guard.low));
    if (!all) {
      all = condition;
      continue;
    }
    V both[] = {all, condition};
    widenAll(both);
    all = b.CreateAnd(both[0], both[1]);
  }
  return all ? all : V(b.getTrue());
}

template <typename B>
auto PullEmitter<B>::pullGuarded(mlir::Value operand, const OperandUse &use,
                                 llvm::function_ref<V()> otherwise) -> V {
  V condition = guardCondition(use.guards);
  if (std::optional<bool> known = b.known(condition))
    return *known ? pull(operand, use.index) : otherwise();
  if (!b.isVector(condition))
    return ifElse(
        condition, [&] { return pull(operand, use.index); }, otherwise);
  // Lanes differ: every index is clamped into the operand.
  IndexVec clamped(use.index);
  for (auto [i, size] : llvm::zip_equal(clamped, shapeOf(operand))) {
    auto [low, high] = space.range(i);
    if (low >= 0 && high < size)
      continue;
    V at = variesOverLanes(i) ? laneIndexAs(i, indexType()) : scalarIndex(i);
    at = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, at,
                                 b.integer(b.typeOf(at), 0));
    at = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, at,
                                 b.integer(b.typeOf(at), size - 1));
    i = space.get(runtimeAtom(at, 0, size - 1));
  }
  V values[] = {pull(operand, clamped), otherwise()};
  values[0] = widen(values[0]);
  values[1] = widen(values[1]);
  return b.CreateSelect(condition, values[0], values[1]);
}

template <typename B>
auto PullEmitter<B>::pullUses(mlir::Operation *op, llvm::ArrayRef<Index> index)
    -> V {
  llvm::SmallVector<OperandUse, 3> uses;
  for (OperandUse &use : operandUses(op, index, space)) {
    bool never = llvm::any_of(use.guards, [&](const Guard &guard) {
      return decideGuard(space, guard) == std::optional<bool>(false);
    });
    if (!never)
      uses.push_back(std::move(use));
  }
  auto pad = mlir::dyn_cast<nn::PadOp>(op);
  std::function<V(size_t)> chain = [&](size_t at) -> V {
    if (at == uses.size()) {
      mlir::Type element = elementOf(op->getResult(0));
      return pad ? constantOf(element, pad.getValue())
                 : constantOf(element, 0.0);
    }
    mlir::Value operand = op->getOperand(uses[at].operand);
    // The last part of a concat is read without a guard if its guards always
    // hold.
    if (!pad && at + 1 == uses.size()) {
      OperandUse use = uses[at];
      bool inside = llvm::all_of(use.guards, [&](const Guard &guard) {
        return decideGuard(space, guard) == std::optional<bool>(true);
      });
      if (inside)
        return pull(operand, use.index);
    }
    return pullGuarded(operand, uses[at], [&] { return chain(at + 1); });
  };
  return chain(0);
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

template <typename B>
auto PullEmitter<B>::pullConstant(mlir::Operation *op,
                                  llvm::ArrayRef<Index> index) -> V {
  mlir::DenseElementsAttr elements =
      mlir::cast<nn::ConstantOp>(op).getElements();
  mlir::Type element = elements.getElementType();
  if (elements.isSplat())
    return constantOf(element, elements.getSplatValue<mlir::Attribute>());
  V &data = constants[op];
  if (!data)
    data = constantData(op, elements);
  Index flat = space.linearize(index, shapeOf(op->getResult(0)));
  return load(data, element, flat, true);
}

template <typename B>
auto PullEmitter<B>::pullIota(mlir::Operation *op, llvm::ArrayRef<Index> index)
    -> V {
  const Index &i = index[mlir::cast<nn::IotaOp>(op).getDim()];
  mlir::Type element = elementOf(op->getResult(0));
  V at = variesOverLanes(i) ? laneIndex(i) : scalarIndex(i);
  T type = b.withElement(b.typeOf(at), computeType(element));
  return b.isFloat(type) ? b.CreateSIToFP(at, type)
                         : b.CreateSExtOrTrunc(at, type);
}

template <typename B>
auto PullEmitter<B>::pullGather(mlir::Operation *op,
                                llvm::ArrayRef<Index> index) -> V {
  auto gather = mlir::cast<nn::GatherOp>(op);
  int64_t dim = gather.getDim();
  int64_t shared = gather.getBatched() ? dim : 0;
  int64_t rank = shapeOf(gather.getIndices()).size() - shared;
  int64_t size = shapeOf(gather.getData())[dim];
  mlir::Type indexElement = elementOf(gather.getIndices());
  V raw = pull(gather.getIndices(), IndexVec(index.begin() + dim - shared,
                                             index.begin() + dim + rank));
  T i64 = b.withElement(b.typeOf(raw), b.getInt64Ty());
  bool isUnsigned =
      indexElement.isUnsignedInteger() || indexElement.isInteger(1);
  V at = isUnsigned ? b.CreateZExt(raw, i64) : b.CreateSExt(raw, i64);
  V zero = b.integer(i64, 0), bound = b.integer(i64, size);
  V wrapped = at;
  if (!gather.getPartial())
    wrapped =
        b.CreateSelect(b.CreateICmpSLT(at, zero), b.CreateAdd(at, bound), at);
  V inside = b.CreateICmpULT(wrapped, bound);
  if (!gather.getPartial())
    failIndexIf(op, b.CreateNot(inside), at, size);
  else if (indexElement.isSignlessInteger(64)) // rows that no device holds
    failIf(op, b.CreateICmpSLT(at, b.integer(i64, nn::kNoRow / 2)),
           b.CreateSub(at, b.integer(i64, nn::kNoRow)), 1);
  V nothing = constantOf(elementOf(op->getResult(0)), 0.0);
  if (!size)
    return nothing;
  V safe = b.CreateSelect(inside, wrapped, zero);
  IndexVec data(index.begin(), index.begin() + dim);
  data.push_back(space.get(runtimeAtom(safe, 0, size - 1)));
  data.append(index.begin() + dim + rank, index.end());
  V value = pull(gather.getData(), data);
  if (!gather.getPartial())
    return value;
  V parts[] = {inside, value, nothing};
  if (b.isVector(value) || b.isVector(inside))
    for (V &part : parts)
      part = widen(part);
  return b.CreateSelect(parts[0], parts[1], parts[2]);
}

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_PULLVALUES_H
