//===- Exec.cpp - dialect, verifiers of buffers and calls -----------------===//
//
// Labels C1... are those of the descriptions in the .td files.
//
//===----------------------------------------------------------------------===//
#include "kerf/Exec/Exec.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf::exec;

#include "kerf/Exec/ExecDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "kerf/Exec/ExecTypes.cpp.inc"

#define GET_OP_CLASSES
#include "kerf/Exec/ExecOps.cpp.inc"

void ExecDialect::initialize() {
  registerAttributes();
  addTypes<
#define GET_TYPEDEF_LIST
#include "kerf/Exec/ExecTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kerf/Exec/ExecOps.cpp.inc"
      >();
}

int64_t kerf::exec::elementBytes(Type elementType) {
  return (elementType.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t kerf::exec::sizeBytes(ShapedType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

StringRef kerf::exec::dtypeName(Type type) {
  if (type.isF32())
    return "f32";
  if (type.isF64())
    return "f64";
  if (type.isF16())
    return "f16";
  if (type.isBF16())
    return "bf16";
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return "";
  bool isUnsigned = integer.isUnsigned();
  switch (integer.getWidth()) {
  case 1:
    return "bool";
  case 8:
    return isUnsigned ? "u8" : "i8";
  case 16:
    return isUnsigned ? "u16" : "i16";
  case 32:
    return isUnsigned ? "u32" : "i32";
  case 64:
    return isUnsigned ? "u64" : "i64";
  default:
    return "";
  }
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

LogicalResult ParamOp::verify() {
  // param C1
  if (static_cast<int64_t>(getIndex()) < 0)
    return emitOpError("index is negative");
  return success();
}

LogicalResult ArenaOp::verify() {
  // arena C1
  if (getOffset() && (static_cast<int64_t>(*getOffset()) < 0 ||
                      *getOffset() % bufferAlignment != 0))
    return emitOpError("offset is ")
           << static_cast<int64_t>(*getOffset())
           << ", expected a non-negative multiple of " << bufferAlignment;
  return success();
}

LogicalResult ViewOp::verify() {
  MemRefType from = getSource().getType(), to = getResult().getType();
  int64_t offset = getByteOffset();
  // view C2
  if (from.getElementType() != to.getElementType())
    return emitOpError("views ") << from << " as " << to;
  if (offset % elementBytes(to.getElementType()) != 0)
    return emitOpError("offset ") << offset << " cuts an element of " << to;
  // view C1
  if (offset < 0 || offset + sizeBytes(to) > sizeBytes(from))
    return emitOpError("bytes [")
           << offset << ", " << offset + sizeBytes(to)
           << ") lie outside the source's " << sizeBytes(from);
  return success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Says where buffers and the tensors of a kernel disagree.
static LogicalResult checkBuffers(Operation *op, StringRef what,
                                  ValueRange buffers, ArrayRef<Type> tensors) {
  if (buffers.size() != tensors.size())
    return op->emitOpError("has ") << buffers.size() << " " << what
                                   << "s, the kernel " << tensors.size();
  for (auto [i, buffer, type] : llvm::enumerate(buffers, tensors)) {
    auto memref = cast<MemRefType>(buffer.getType());
    auto tensor = cast<RankedTensorType>(type);
    if (memref.getShape() != tensor.getShape() ||
        memref.getElementType() != tensor.getElementType())
      return op->emitOpError("") << what << " " << i << " is " << memref
                                 << ", the kernel's is " << tensor;
  }
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("names ") << getKernelAttr() << ", which is no kernel";
  // launch C1
  if (failed(
          checkBuffers(*this, "input", getInputs(), kernel.getArgumentTypes())))
    return failure();
  return checkBuffers(*this, "output", getOutputs(), kernel.getResultTypes());
}

LogicalResult LibraryOp::verify() {
  int64_t count = getInputs().size() + getOutputs().size();
  llvm::SmallVector<bool> named(count, false);
  // library C1
  std::optional<int64_t> bad;
  auto visit = [&](auto &&self, Attribute attr) -> void {
    if (auto array = dyn_cast<ArrayAttr>(attr)) {
      for (Attribute element : array)
        self(self, element);
    } else if (auto dict = dyn_cast<DictionaryAttr>(attr)) {
      if (auto buffer = dict.getAs<IntegerAttr>("buffer")) {
        int64_t index = buffer.getInt();
        if (index < 0 || index >= count)
          bad = index;
        else
          named[index] = true;
      }
      for (NamedAttribute entry : dict)
        self(self, entry.getValue());
    }
  };
  visit(visit, getDescriptor());
  if (bad)
    return emitOpError("descriptor names buffer ")
           << *bad << " of " << count << " buffers";
  for (int64_t i = 0; i < count; ++i)
    if (!named[i])
      return emitOpError("descriptor does not name buffer ") << i;
  // library C2
  auto dst = getDescriptor().getAs<DictionaryAttr>("dst");
  auto buffer = dst ? dst.getAs<IntegerAttr>("buffer") : IntegerAttr();
  if (!buffer || getOutputs().empty() ||
      buffer.getInt() != static_cast<int64_t>(getInputs().size()))
    return emitOpError("descriptor's dst must be its first output, buffer ")
           << getInputs().size();
  return success();
}

/// Whether `shape` is the array of integers under `key`.
static bool hasShape(DictionaryAttr descriptor, StringRef key,
                     ArrayRef<int64_t> shape) {
  auto array = descriptor.getAs<ArrayAttr>(key);
  return array && array.size() == shape.size() &&
         llvm::all_of(llvm::zip(array, shape), [](auto pair) {
           auto size = dyn_cast<IntegerAttr>(std::get<0>(pair));
           return size && size.getInt() == std::get<1>(pair);
         });
}

static LogicalResult verifyCollective(Operation *op, DictionaryAttr descriptor,
                                      Value src, Value dst) {
  auto kind = descriptor.getAs<StringAttr>("kind");
  if (!kind)
    return op->emitOpError("descriptor has no kind");
  // collective C1
  for (auto [name, key, buffer] : {std::tuple("src", "src_shape", src),
                                   std::tuple("dst", "dst_shape", dst)}) {
    auto type = cast<MemRefType>(buffer.getType());
    auto dtype = descriptor.getAs<StringAttr>("dtype");
    if (!hasShape(descriptor, key, type.getShape()) || !dtype ||
        dtype.getValue() != dtypeName(type.getElementType()))
      return op->emitOpError("")
             << name << " is " << type << ", not what the descriptor says";
  }
  // collective C2
  if (src == dst && kind.getValue() != "all_reduce" &&
      kind.getValue() != "broadcast")
    return op->emitOpError("")
           << kind.getValue() << " reads and writes one buffer";
  return success();
}

LogicalResult CollectiveOp::verify() {
  return verifyCollective(*this, getDescriptor(), getSrc(), getDst());
}

LogicalResult CollectiveStartOp::verify() {
  return verifyCollective(*this, getDescriptor(), getSrc(), getDst());
}

LogicalResult CollectiveWaitOp::verify() {
  // collective_wait C1
  if (!getEvent().getDefiningOp<CollectiveStartOp>())
    return emitOpError("waits for an event that no collective_start gave");
  for (OpOperand &use : getEvent().getUses())
    if (use.getOwner() != getOperation() &&
        isa<CollectiveWaitOp>(use.getOwner()))
      return emitOpError("is not the only wait for its event");
  return success();
}

LogicalResult ShardIndexOp::verify() {
  // shard_index C1
  MemRefType type = getDst().getType();
  if (type.getRank() != 0 || !type.getElementType().isInteger(64))
    return emitOpError("stores to ") << type << ", expected memref<i64>";
  return success();
}

LogicalResult CopyOp::verify() {
  // copy C1
  MemRefType from = getSrc().getType(), to = getDst().getType();
  if (from.getElementType() != to.getElementType() ||
      from.getNumElements() != to.getNumElements())
    return emitOpError("copies ") << from << " to " << to;
  return success();
}
