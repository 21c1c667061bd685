//===- Exec.cpp - dialect, verifiers of buffers and calls -----------------===//
//
// Labels C1... are those of the descriptions in the .td files.
//
//===----------------------------------------------------------------------===//
#include "Assembly.h"

#include "kerf/Exec/Exec.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace kerf::exec;

#include "kerf/Exec/ExecDialect.cpp.inc"
#include "kerf/Exec/ExecInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "kerf/Exec/ExecOps.cpp.inc"

namespace {
/// Long attributes that many calls share are printed by name.
struct Aliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attribute, raw_ostream &os) const override {
    if (isa<WindowAttr>(attribute))
      os << "window";
    else if (isa<AttentionSizesAttr>(attribute))
      os << "attention";
    else
      return AliasResult::NoAlias;
    return AliasResult::OverridableAlias;
  }
};
} // namespace

void ExecDialect::initialize() {
  addInterfaces<Aliases>();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "kerf/Exec/ExecOps.cpp.inc"
      >();
}

Type kerf::exec::elementType(Value operand) {
  if (auto weight = dyn_cast<WeightType>(operand.getType()))
    return weight.getElementType();
  return cast<ShapedType>(operand.getType()).getElementType();
}

int64_t kerf::exec::elementBytes(Type elementType) {
  return (elementType.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t kerf::exec::sizeBytes(ShapedType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
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

LogicalResult WeightOp::verify() {
  // weight C1
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

/// Reports where buffers and the tensors of a kernel disagree.
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

LogicalResult CopyOp::verify() {
  // copy C1
  MemRefType from = getSrc().getType(), to = getDst().getType();
  if (from.getElementType() != to.getElementType() ||
      from.getNumElements() != to.getNumElements())
    return emitOpError("copies ") << from << " to " << to;
  return success();
}
