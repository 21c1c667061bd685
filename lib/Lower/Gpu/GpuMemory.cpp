//===- GpuMemory.cpp - loops, branches, loads and stores of a gpu.func ----===//
//
// A load at a symbolic index becomes one scalar, vectors of up to 16 bytes
// where the index is known to be a multiple of the vector's length, or a scalar
// per lane. Memory that is never written is read through the read-only path
// (ld.global.nc).
//
//===----------------------------------------------------------------------===//
#include "GpuEmitter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace kerf::cuda {

using V = Value;

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void GpuEmitter::forStatic(int64_t count, int64_t step, V base,
                           llvm::function_ref<void(V)> body) {
  if (count <= 0)
    return;
  if (count == 1)
    return body(base);
  auto loop = scf::ForOp::create(b.ops, b.loc, indexConstant(0),
                                 indexConstant(count), indexConstant(1));
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPointToStart(loop.getBody());
  V offset = b.CreateMul(loop.getInductionVar(), indexConstant(step));
  body(b.CreateAdd(base, offset));
}

void GpuEmitter::ifThen(V condition, Body then) {
  if (std::optional<bool> known = b.known(condition)) {
    if (*known)
      then();
    return;
  }
  auto branch = scf::IfOp::create(b.ops, b.loc, condition, false);
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPoint(branch.thenYield());
  pushScope();
  then();
  popScope();
}

V GpuEmitter::ifElse(V condition, llvm::function_ref<V()> then,
                     llvm::function_ref<V()> otherwise) {
  // Both must end as wide as the wider one: always as vectors.
  auto fill = [&](llvm::function_ref<V()> value) {
    return [this, value](OpBuilder &builder, Location loc) {
      OpBuilder::InsertionGuard guard(b.ops);
      b.ops.setInsertionPoint(builder.getInsertionBlock(),
                              builder.getInsertionPoint());
      pushScope();
      V result = widen(value());
      popScope();
      scf::YieldOp::create(b.ops, loc, result);
    };
  };
  return scf::IfOp::create(b.ops, b.loc, condition, fill(then), fill(otherwise))
      .getResult(0);
}

V GpuEmitter::entryAlloca(T type) {
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPointToStart(&function.getBody().front());
  T element = GpuBuilder::elementOf(type);
  if (element.isInteger(1))
    type = b.withElement(type, b.getInt8Ty());
  V one = b.getInt32(1);
  return LLVM::AllocaOp::create(b.ops, b.loc, b.pointer(), type, one, 16);
}

void GpuEmitter::barrier() { mlir::gpu::BarrierOp::create(b.ops, b.loc); }

V GpuEmitter::shared(T element, int64_t count) {
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPointToStart(module.getBody());
  if (element.isInteger(1))
    element = b.getInt8Ty();
  auto global = LLVM::GlobalOp::create(
      b.ops, b.loc, LLVM::LLVMArrayType::get(element, count), false,
      LLVM::Linkage::Internal, name + "_s" + std::to_string(numGlobals++),
      Attribute(), 16, 3);
  b.ops.setInsertionPointToStart(&function.getBody().front());
  lastShared = global;
  return LLVM::AddressOfOp::create(b.ops, b.loc, global);
}

V GpuEmitter::sharedScratch(int64_t bytes) {
  if (!scratch) {
    scratchAddress = shared(b.getInt8Ty(), bytes);
    scratch = lastShared;
  }
  scratchBytes = std::max(scratchBytes, bytes);
  scratch.setGlobalType(LLVM::LLVMArrayType::get(b.getInt8Ty(), scratchBytes));
  return scratchAddress;
}

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

Type GpuEmitter::storageType(Type element) {
  if (isComputedFloat(element))
    return element;
  return b.getIntNTy(std::max(element.getIntOrFloatBitWidth(), 8u));
}

V GpuEmitter::fromStorage(V raw, Type element) {
  if (element.isInteger(1))
    return b.CreateICmpNE(raw, b.zero(raw.getType()));
  if (element.isF16() || element.isBF16())
    return b.CreateFPExt(raw, b.withElement(raw.getType(), b.getFloatTy()));
  return raw;
}

V GpuEmitter::toStorage(V value, Type element) {
  if (element.isInteger(1))
    return b.CreateZExt(value, b.withElement(value.getType(), b.getInt8Ty()));
  if (element.isF16() || element.isBF16())
    return b.CreateFPTrunc(value, b.withElement(value.getType(), element));
  return value;
}

V GpuEmitter::constantData(Operation *op, DenseElementsAttr data) {
  Type element = storageType(data.getElementType());
  int64_t count = data.getNumElements();
  auto type = RankedTensorType::get({count}, element);
  DenseElementsAttr flat;
  if (data.getElementType().isInteger(1)) {
    SmallVector<int8_t> bytes;
    for (bool value : data.getValues<bool>())
      bytes.push_back(value);
    flat = DenseElementsAttr::get(type, ArrayRef<int8_t>(bytes));
  } else {
    flat = DenseElementsAttr::getFromRawBuffer(type, data.getRawData());
  }
  OpBuilder::InsertionGuard guard(b.ops);
  b.ops.setInsertionPointToStart(module.getBody());
  auto global = LLVM::GlobalOp::create(
      b.ops, b.loc, LLVM::LLVMArrayType::get(element, count), true,
      LLVM::Linkage::Internal, name + "_c" + std::to_string(numGlobals++), flat,
      16, 1);
  b.ops.setInsertionPointToStart(&function.getBody().front());
  return LLVM::AddressOfOp::create(b.ops, b.loc, global);
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

int64_t GpuEmitter::accessWidth(Type element, const Index &flat) {
  int64_t multiple = std::gcd(lanes, flat.constant);
  for (auto [atom, k] : flat.terms)
    if (atom != laneAtom) // the lanes' atom is a multiple of `lanes`
      multiple = std::gcd(multiple, k);
  int64_t bytes = b.bitsOf(storageType(element)) / 8;
  int64_t width = multiple & -multiple;
  return std::min<int64_t>(
      width, std::max<int64_t>(target.getVectorBytes() / bytes, 1));
}

V GpuEmitter::loadInput(Value value, const Index &flat) {
  auto tile = llvm::find_if(tiles, [&](const Tile &candidate) {
    return tilePosition && candidate.value == value && candidate.flat == flat;
  });
  if (tile == tiles.end())
    return load(pointers.lookup(value), elementOf(value), flat,
                invariant.lookup(value));
  T type = storageType(elementOf(value));
  V raw = b.CreateLoad(type, b.gep(type, tile->memory, tilePosition));
  return fromStorage(raw, elementOf(value));
}

V GpuEmitter::load(V pointer, Type element, const Index &flat,
                   bool invariantLoad) {
  T type = storageType(element);
  unsigned bytes = b.bitsOf(type) / 8;
  auto loadAt = [&](V at, int64_t width) {
    return b.CreateLoad(b.vectorOf(type, width), b.gep(type, pointer, at),
                        bytes * width, invariantLoad);
  };
  std::optional<int64_t> stride = laneStride(flat);
  if (stride == 0 || lanes == 1)
    return fromStorage(loadAt(scalarIndex(flat), 1), element);
  SmallVector<V> parts;
  if (stride == 1) {
    int64_t width = accessWidth(element, flat);
    V base = scalarIndex(flat);
    if (width == lanes)
      return fromStorage(loadAt(base, width), element);
    for (int64_t lane = 0; lane < lanes; lane += width) {
      V part = loadAt(b.CreateAdd(base, indexConstant(lane)), width);
      for (int64_t k = 0; k < width; ++k)
        parts.push_back(b.CreateExtractElement(part, k));
    }
  } else {
    V addresses = laneIndexAs(flat, indexType());
    for (int64_t lane = 0; lane < lanes; ++lane)
      parts.push_back(loadAt(b.CreateExtractElement(addresses, lane), 1));
  }
  return fromStorage(b.fromElements(parts), element);
}

void GpuEmitter::store(V value, V pointer, Type element, const Index &flat) {
  T type = storageType(element);
  unsigned bytes = b.bitsOf(type) / 8;
  std::optional<int64_t> stride = laneStride(flat);
  V raw = toStorage(value, element);
  if (stride == 0 || lanes == 1) {
    b.CreateStore(raw, b.gep(type, pointer, scalarIndex(flat)));
    return;
  }
  raw = widen(raw);
  int64_t width = stride == 1 ? accessWidth(element, flat) : 1;
  V base = stride == 1 ? scalarIndex(flat) : laneIndexAs(flat, indexType());
  for (int64_t lane = 0; lane < lanes; lane += width) {
    V at = stride == 1 ? b.CreateAdd(base, indexConstant(lane))
                       : b.CreateExtractElement(base, lane);
    V part = raw;
    if (width < lanes) {
      SmallVector<V> elements;
      for (int64_t k = 0; k < width; ++k)
        elements.push_back(b.CreateExtractElement(raw, lane + k));
      part = b.fromElements(elements);
    }
    b.CreateStore(part, b.gep(type, pointer, at), bytes * width);
  }
}

/// The base of a vector is a multiple of its width; if a border is one too, the
/// vector lies on one side of it.
bool GpuEmitter::lanesAgree(const Guard &guard) {
  if (guard.index.terms.size() != 1 ||
      guard.index.terms[0] != std::make_pair(laneAtom, int64_t(1)))
    return false;
  int64_t low = guard.low - guard.index.constant,
          high = guard.high - guard.index.constant;
  const codegen::Atom &atom = space[laneAtom];
  auto even = [&](int64_t border) {
    return border % lanes == 0 || border <= atom.low || border > atom.high;
  };
  return even(low) && even(high);
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

/// Takes the record (docs/Cuda.md) if it is free; it has the kernel's number,
/// and the host names the ops that can fail in it.
void GpuEmitter::failIf(mlir::Operation *, V bad, V detail, int code) {
  int64_t width = b.widthOf(bad);
  V any = b.CreateExtractElement(bad, 0);
  V first = b.CreateExtractElement(detail, 0);
  for (int64_t lane = 1; lane < width; ++lane) {
    V here = b.CreateExtractElement(bad, lane);
    V its = b.isVector(detail) ? b.CreateExtractElement(detail, lane) : detail;
    first = b.CreateSelect(any, first, its);
    any = b.CreateOr(any, here);
  }
  first = b.CreateSExtOrTrunc(first, b.getInt64Ty());
  ifThen(any, [&] {
    V free = b.getInt32(0), taken = b.getInt32(1);
    V pair = LLVM::AtomicCmpXchgOp::create(b.ops, b.loc, record, free, taken,
                                           LLVM::AtomicOrdering::monotonic,
                                           LLVM::AtomicOrdering::monotonic);
    V won = LLVM::ExtractValueOp::create(b.ops, b.loc, pair, 1);
    ifThen(won, [&] {
      auto put = [&](V value, int64_t words) {
        b.CreateStore(value, b.gep(b.getInt32Ty(), record, b.getInt32(words)));
      };
      put(b.getInt32(code), 1);
      put(b.getInt32(kernel), 2);
      put(first, 4);
    });
  });
}

} // namespace kerf::cuda
