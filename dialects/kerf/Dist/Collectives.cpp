//===- Collectives.cpp - verifiers and bytes of collectives ---------------===//
//
// One verifier for all collectives: the properties of a kind
// (Format/Collectives.def) determine which arguments it has and how operand and
// result shapes are related. Bytes follow from types alone.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Dist.h"
#include "kerf/Support/CollectiveBytes.h"

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

/// `name` C1: the axes are in the mesh and, unless `time` is true, in space.
/// Returns the group size.
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

/// Same element type and shape, except for the related dimensions: over N ranks
/// a part of a whole has ceil(whole / N) elements, or more but fewer than the
/// whole.
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

/// `pairs` holds positions of the group, each at most once on either side.
static LogicalResult verifyPairs(Operation *op, ArrayRef<int64_t> pairs,
                                 int64_t groupSize) {
  if (pairs.size() % 2)
    return op->emitOpError("pairs has ")
           << pairs.size() << " entries, expected an even number";
  llvm::DenseSet<int64_t> seen[2];
  for (auto [index, position] : llvm::enumerate(pairs)) {
    if (position < 0 || position >= groupSize)
      return op->emitOpError("position ")
             << position << " is not in the group of " << groupSize;
    if (!seen[index % 2].insert(position).second)
      return op->emitOpError("position ")
             << position << (index % 2 ? " receives" : " sends") << " twice";
  }
  return success();
}

int64_t CollectiveArguments::cutDim(CollectiveKind kind) const {
  IntegerAttr attribute = hasTwoDims(kind) ? split : dim;
  return cuts(kind) && attribute ? attribute.getInt() : -1;
}

int64_t CollectiveArguments::joinedDim(CollectiveKind kind) const {
  IntegerAttr attribute = hasTwoDims(kind) ? concat : dim;
  return joins(kind) && attribute ? attribute.getInt() : -1;
}

Value dist::createCollective(OpBuilder &builder, Location loc,
                             CollectiveKind kind, RankedTensorType type,
                             Value x, AxesAttr axes,
                             const CollectiveArguments &arguments,
                             PurposeAttr purpose, PhaseAttr phase) {
  std::string name = (DistDialect::getDialectNamespace() + "." +
                      StringRef(collectiveName(kind)))
                         .str();
  OperationState state(loc, name, x, type);
  std::pair<StringRef, Attribute> attributes[] = {
      {"axes", axes},           {"reduction", arguments.reduction},
      {"dim", arguments.dim},   {"split", arguments.split},
      {"root", arguments.root}, {"concat", arguments.concat},
      {"purpose", purpose},     {"pairs", arguments.pairs},
      {"phase", phase}};
  for (auto [key, value] : attributes)
    if (value)
      state.addAttribute(key, value);
  return builder.create(state)->getResult(0);
}

// Labels are those of the ops' descriptions: C1 axes, C2 arguments, C3 (of
// all_reduce C2) types.
LogicalResult dist::verifyCollective(Operation *op) {
  auto collective = cast<CollectiveOpInterface>(op);
  CollectiveKind kind = collective.getKind();
  auto size = verifyAxes(op, collective.getGroup(), /*time=*/false); // C1
  if (failed(size))
    return failure();
  CollectiveArguments arguments = collective.getArguments(); // C2
  std::pair<StringRef, IntegerAttr> dims[] = {{"dim", arguments.dim},
                                              {"split", arguments.split},
                                              {"concat", arguments.concat}};
  for (auto [name, dim] : dims)
    if (dim && failed(verifyDim(op, dim.getInt(), name)))
      return failure();
  if (hasTwoDims(kind) && arguments.split == arguments.concat)
    return op->emitOpError("split and concat are both ")
           << arguments.split.getInt() << ", expected two dimensions";
  if (hasRoot(kind) && static_cast<uint64_t>(arguments.root.getInt()) >=
                           static_cast<uint64_t>(*size))
    return op->emitOpError("root is ")
           << arguments.root.getInt() << ", expected less than group size "
           << *size;
  if (hasPairs(kind) && failed(verifyPairs(op, arguments.pairs, *size)))
    return failure();
  SmallVector<DimRelation> relations; // C3
  if (cuts(kind))
    relations.push_back({arguments.cutDim(kind), true});
  if (joins(kind))
    relations.push_back({arguments.joinedDim(kind), false});
  return verifyShapes(op, *size, relations);
}

OpFoldResult AllReduceOp::fold(FoldAdaptor) {
  return getAxes().getAxes().empty() && !isStarted() ? getX() : OpFoldResult();
}

LogicalResult AllSliceOp::verify() {
  auto size = verifyAxes(*this, getAxes(), /*time=*/true);       // all_slice C1
  if (failed(size) || failed(verifyDim(*this, getDim(), "dim"))) // all_slice C2
    return failure();
  return verifyShapes(*this, *size,
                      {{static_cast<int64_t>(getDim()), true}}); // C3
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

/// The operand, cut as the result is: the elements that one member has for
/// another.
static int64_t partBytes(CollectiveOpInterface op) {
  RankedTensorType source = op.getSourceType();
  int64_t bytes = sizeBytes(source);
  int64_t cut = op.getArguments().cutDim(op.getKind());
  if (cut < 0)
    return bytes;
  return bytes / std::max<int64_t>(source.getDimSize(cut), 1) *
         op.getResultTensorType().getDimSize(cut);
}

static __int128 wideBufferBytes(CollectiveOpInterface op, int64_t n) {
  int64_t moved = 0;
  if (DenseI64ArrayAttr attribute = op.getArguments().pairs) {
    ArrayRef<int64_t> pairs = attribute;
    for (size_t i = 0; i < pairs.size(); i += 2)
      moved += pairs[i] != pairs[i + 1];
  }
  return fullBufferBytes(op.getKind(), n, partBytes(op), moved);
}

int64_t dist::collectiveGroupBytes(Operation *op, int64_t n) {
  auto collective = cast<CollectiveOpInterface>(op);
  return saturate(
      ringGroupBytes(collective.getKind(), n, wideBufferBytes(collective, n)));
}

int64_t dist::collectiveBufferBytes(Operation *op, int64_t n) {
  return saturate(wideBufferBytes(cast<CollectiveOpInterface>(op), n));
}
