//===- Collectives.cpp - verifiers and bytes of collectives ---------------===//
//
// What every collective shares is checked by one function: the axes, and that
// operand and result agree but for the dimensions that are cut or joined. The
// byte formulas are those of Reshard.h, from types alone.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Dist.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

#include "kerf/Dist/DistInterfaces.cpp.inc"

namespace {
/// How operand and result sizes of one dimension relate.
struct DimRelation {
  int64_t dim;
  bool cut; ///< the result is a part of the operand; else the other way round
};
} // namespace

/// `name` C1: the axes are in the mesh and, unless `time` is fine, in space.
/// Gives the group size.
static FailureOr<int64_t> verifyAxes(Operation *op, AxesAttr axes, bool time) {
  MeshAttr attribute = getMesh(op);
  if (!attribute)
    return op->emitOpError("needs a dist.mesh in its module");
  Mesh mesh = attribute.toMesh();
  auto list = toAxisList(axes, mesh);
  if (!list)
    return op->emitOpError() << toString(list.takeError());
  if (!time)
    for (const AxisRef &ref : *list)
      if (mesh.axes[ref.axis].isTime)
        return op->emitOpError("axis \"")
               << mesh.axes[ref.axis].name
               << "\" is in time, expected axes in space";
  return numShards(*list);
}

static LogicalResult verifyDim(Operation *op, uint64_t dim, StringRef name) {
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  if (static_cast<int64_t>(dim) >= type.getRank())
    return op->emitOpError() << name << " is " << dim
                             << ", expected less than rank " << type.getRank();
  return success();
}

/// Same element type and shape, but for the related dimensions: a part is of a
/// whole over N ranks what holds it in N blocks, ceil(whole / N) or more but
/// not the whole.
static LogicalResult verifyShapes(Operation *op, int64_t groupSize,
                                  ArrayRef<DimRelation> relations) {
  auto from = cast<RankedTensorType>(op->getOperand(0).getType());
  RankedTensorType to = tensorOf(op->getResult(0).getType());
  if (from.getElementType() != to.getElementType() ||
      from.getRank() != to.getRank())
    return op->emitOpError("operand is ") << from << " but result is " << to;
  for (int64_t dim = 0; dim < from.getRank(); ++dim) {
    int64_t source = from.getDimSize(dim), result = to.getDimSize(dim);
    const DimRelation *relation = llvm::find_if(
        relations, [&](const DimRelation &each) { return each.dim == dim; });
    if (relation == relations.end()) {
      if (result != source)
        return op->emitOpError("dimension ")
               << dim << " of the result is " << result << ", expected "
               << source << " for " << source << " of the operand and "
               << groupSize << " ranks";
      continue;
    }
    int64_t part = relation->cut ? result : source;
    int64_t whole = relation->cut ? source : result;
    int64_t min = localSize(whole, groupSize);
    if (part < min || (part > min && part >= whole))
      return op->emitOpError("dimension ")
             << dim << " of the " << (relation->cut ? "result" : "operand")
             << " is " << part << ", expected "
             << (part < min ? "at least " : "less than ")
             << (part < min ? min : whole) << " for " << whole << " of the "
             << (relation->cut ? "operand" : "result") << " and " << groupSize
             << " ranks";
  }
  return success();
}

LogicalResult AllReduceOp::verify() {
  auto size = verifyAxes(*this, getAxes(), /*time=*/false); // all_reduce C1
  if (failed(size))
    return failure();
  return verifyShapes(*this, *size, {}); // all_reduce C2
}

OpFoldResult AllReduceOp::fold(FoldAdaptor) {
  return getAxes().getAxes().empty() && !isStarted() ? getX() : OpFoldResult();
}

LogicalResult ReduceScatterOp::verify() {
  auto size = verifyAxes(*this, getAxes(), /*time=*/false); // reduce_scatter C1
  if (failed(size) ||
      failed(verifyDim(*this, getDim(), "dim"))) // reduce_scatter C2
    return failure();
  return verifyShapes(
      *this, *size,
      {{static_cast<int64_t>(getDim()), true}}); // reduce_scatter C3
}

LogicalResult AllGatherOp::verify() {
  auto size = verifyAxes(*this, getAxes(), /*time=*/false); // all_gather C1
  if (failed(size) ||
      failed(verifyDim(*this, getDim(), "dim"))) // all_gather C2
    return failure();
  return verifyShapes(*this, *size,
                      {{static_cast<int64_t>(getDim()), false}}); // C3
}

LogicalResult AllSliceOp::verify() {
  auto size = verifyAxes(*this, getAxes(), /*time=*/true);       // all_slice C1
  if (failed(size) || failed(verifyDim(*this, getDim(), "dim"))) // all_slice C2
    return failure();
  return verifyShapes(*this, *size,
                      {{static_cast<int64_t>(getDim()), true}}); // C3
}

LogicalResult AllToAllOp::verify() {
  auto size = verifyAxes(*this, getAxes(), /*time=*/false); // all_to_all C1
  if (failed(size) || failed(verifyDim(*this, getSplit(), "split")) ||
      failed(verifyDim(*this, getConcat(), "concat")))
    return failure();
  if (getSplit() == getConcat()) // all_to_all C2
    return emitOpError("split and concat are both ")
           << getSplit() << ", expected two dimensions";
  return verifyShapes(*this, *size,
                      {{static_cast<int64_t>(getSplit()), true},
                       {static_cast<int64_t>(getConcat()), false}}); // C3
}

LogicalResult BroadcastOp::verify() {
  auto size = verifyAxes(*this, getAxes(), /*time=*/false); // broadcast C1
  if (failed(size))
    return failure();
  if (static_cast<int64_t>(getRoot()) >= *size) // broadcast C2
    return emitOpError("root is ")
           << getRoot() << ", expected less than group size " << *size;
  return verifyShapes(*this, *size, {}); // broadcast C3
}

LogicalResult PermuteOp::verify() {
  auto size = verifyAxes(*this, getAxes(), /*time=*/false); // permute C1
  if (failed(size))
    return failure();
  if (getPairs().size() % 2) // permute C2
    return emitOpError("pairs has ")
           << getPairs().size() << " entries, expected an even number";
  llvm::DenseSet<int64_t> seen[2];
  for (auto [index, position] : llvm::enumerate(getPairs())) {
    if (position < 0 || position >= *size)
      return emitOpError("position ")
             << position << " is not in the group of " << *size;
    if (!seen[index % 2].insert(position).second)
      return emitOpError("position ")
             << position << (index % 2 ? " receives" : " sends") << " twice";
  }
  return verifyShapes(*this, *size, {}); // permute C3
}

LogicalResult WaitOp::verify() {
  if (!getPending().hasOneUse()) // wait C1
    return emitOpError("waits for a collective that has other uses");
  return success();
}

/// The buffer is one-dimensional and holds all the pieces.
static LogicalResult verifyPacked(Operation *op, RankedTensorType buffer,
                                  TypeRange pieces) {
  int64_t elements = 0;
  for (Type piece : pieces) {
    auto type = cast<RankedTensorType>(piece);
    if (type.getElementType() != buffer.getElementType()) // pack, unpack C1
      return op->emitOpError("piece is ")
             << type << ", expected elements of " << buffer;
    elements += type.getNumElements();
  }
  if (buffer.getRank() != 1 ||
      buffer.getNumElements() != elements) // pack, unpack C2
    return op->emitOpError("buffer is ")
           << buffer << ", expected one dimension of " << elements;
  return success();
}

LogicalResult PackOp::verify() {
  return verifyPacked(*this, cast<RankedTensorType>(getType()),
                      getInputs().getTypes());
}

LogicalResult UnpackOp::verify() {
  return verifyPacked(*this, cast<RankedTensorType>(getX().getType()),
                      getOutputs().getTypes());
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

int64_t dist::collectiveGroupBytes(Operation *op, int64_t n) {
  int64_t source =
      sizeBytes(cast<RankedTensorType>(op->getOperand(0).getType()));
  int64_t result = sizeBytes(tensorOf(op->getResult(0).getType()));
  if (isa<AllReduceOp>(op))
    return groupBytes(StepKind::AllReduce, n, source, result);
  if (isa<ReduceScatterOp>(op))
    return groupBytes(StepKind::ReduceScatter, n, source, result);
  if (isa<AllGatherOp>(op))
    return groupBytes(StepKind::AllGather, n, source, result);
  if (auto exchange = dyn_cast<AllToAllOp>(op)) {
    auto from = cast<RankedTensorType>(exchange.getX().getType());
    int64_t split = static_cast<int64_t>(exchange.getSplit());
    int64_t part = source / std::max<int64_t>(from.getDimSize(split), 1) *
                   tensorOf(exchange.getType()).getDimSize(split);
    return groupBytes(StepKind::AllToAll, n, source, result, part);
  }
  if (auto permute = dyn_cast<PermuteOp>(op)) {
    int64_t moved = 0;
    ArrayRef<int64_t> pairs = permute.getPairs();
    for (size_t i = 0; i < pairs.size(); i += 2)
      moved += pairs[i] != pairs[i + 1];
    return groupBytes(StepKind::Permute, n, source, result, 0, moved);
  }
  return (n - 1) * source; // broadcast
}

int64_t dist::collectiveBufferBytes(Operation *op, int64_t n) {
  int64_t source =
      sizeBytes(cast<RankedTensorType>(op->getOperand(0).getType()));
  if (isa<ReduceScatterOp>(op))
    return n * sizeBytes(tensorOf(op->getResult(0).getType()));
  if (isa<AllGatherOp>(op))
    return n * source;
  if (isa<AllToAllOp>(op)) // each rank holds S/N
    return n == 1 ? source : collectiveGroupBytes(op, n) / (n - 1) * n;
  if (isa<PermuteOp>(op))
    return collectiveGroupBytes(op, n);
  return source; // all_reduce, broadcast
}
