//===- Collectives.cpp - verifiers of communication calls -----------------===//
//
// The shapes are those that the ops of dist have; see their descriptions.
// Labels C1... are those of the descriptions in ExecCalls.td.
//
//===----------------------------------------------------------------------===//
#include "kerf/Exec/Exec.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

/// The group's size; axes in time belong to no collective.
static FailureOr<int64_t> checkAxes(Operation *op, dist::AxesAttr axes,
                                    bool time) {
  dist::MeshAttr attribute = exec::getMesh(op);
  if (!attribute)
    return op->emitOpError("needs a mesh, the module's attribute ") << kMesh;
  dist::Mesh mesh = attribute.toMesh();
  auto list = dist::toAxisList(axes, mesh);
  if (!list)
    return op->emitOpError() << toString(list.takeError());
  for (const dist::AxisRef &axis : *list)
    if (!time && mesh.axes[axis.axis].isTime)
      return op->emitOpError("axis \"")
             << mesh.axes[axis.axis].name
             << "\" is in time, expected axes in space";
  return dist::numShards(*list);
}

int64_t kerf::exec::groupSize(Operation *op, dist::AxesAttr axes) {
  return dist::numShards(
      llvm::cantFail(dist::toAxisList(axes, exec::getMesh(op).toMesh())));
}

/// Whether `ranks` parts of this size hold the whole: ceil(whole / ranks), or
/// more but less than the whole.
static bool isPart(int64_t part, int64_t whole, int64_t ranks) {
  int64_t min = dist::localSize(whole, ranks);
  return part == min || (part > min && part < whole);
}

template <typename Op> static LogicalResult checkAttributes(Op op) {
  CollectiveKind kind = op.getKind().getValue();
  std::tuple<const char *, bool, bool> attributes[] = {
      {"a reduction", reduces(kind), op.getReduction().has_value()},
      {"dim", hasOneDim(kind), op.getDim().has_value()},
      {"split", hasTwoDims(kind), op.getSplit().has_value()},
      {"concat", hasTwoDims(kind), op.getConcat().has_value()},
      {"root", hasRoot(kind), op.getRoot().has_value()},
      {"pairs", hasPairs(kind), op.getPairs().has_value()}};
  for (auto [name, expected, given] : attributes)
    if (expected != given)
      return op.emitOpError("") << StringRef(collectiveName(kind))
                                << (given ? " has " : " lacks ") << name;
  return success();
}

template <typename Op>
static LogicalResult checkPositions(Op op, int64_t ranks) {
  if (op.getRoot() && static_cast<int64_t>(*op.getRoot()) >= ranks)
    return op.emitOpError("root is ")
           << *op.getRoot() << ", expected less than group size " << ranks;
  if (op.getSplit() && op.getSplit() == op.getConcat())
    return op.emitOpError("split and concat are both ")
           << *op.getSplit() << ", expected two dimensions";
  ArrayRef<int64_t> pairs = op.getPairs().value_or(ArrayRef<int64_t>());
  if (pairs.size() % 2)
    return op.emitOpError("pairs has ")
           << pairs.size() << " entries, expected an even number";
  for (int64_t position : pairs)
    if (position < 0 || position >= ranks)
      return op.emitOpError("position ")
             << position << " is not in the group of " << ranks;
  return success();
}

/// `cut` is the dimension of which dst has a part, `joined` that of which src
/// has one; -1: none.
template <typename Op>
static LogicalResult checkShapes(Op op, int64_t ranks, int64_t cut,
                                 int64_t joined) {
  MemRefType src = op.getSrc().getType(), dst = op.getDst().getType();
  bool fits = src.getRank() == dst.getRank() &&
              src.getElementType() == dst.getElementType() &&
              cut < src.getRank() && joined < src.getRank();
  for (int64_t d = 0; fits && d < src.getRank(); ++d) {
    int64_t from = src.getDimSize(d), to = dst.getDimSize(d);
    fits = d == cut      ? isPart(to, from, ranks)
           : d == joined ? isPart(from, to, ranks)
                         : from == to;
  }
  if (!fits)
    return op.emitOpError("")
           << StringRef(collectiveName(op.getKind().getValue())) << " over "
           << ranks << " ranks does not give " << dst << " of " << src;
  return success();
}

template <typename Op> static LogicalResult verifyCollective(Op op) {
  // collective C1
  auto ranks = checkAxes(op, op.getAxes(), /*time=*/false);
  // collective C2
  if (failed(ranks) || failed(checkAttributes(op)) ||
      failed(checkPositions(op, *ranks)))
    return failure();
  // collective C3
  CollectiveKind kind = op.getKind().getValue();
  auto arguments = dist::CollectiveArguments::of(op);
  if (failed(checkShapes(op, *ranks, arguments.cutDim(kind),
                         arguments.joinedDim(kind))))
    return failure();
  // collective C4
  if (op.getSrc() == op.getDst() && !mayBeInPlace(kind))
    return op.emitOpError("")
           << StringRef(collectiveName(kind)) << " reads and writes one buffer";
  // collective C5
  if (static_cast<int64_t>(op.getGroupBytes()) < 0)
    return op.emitOpError("bytes is negative");
  return success();
}

LogicalResult CollectiveOp::verify() { return verifyCollective(*this); }

LogicalResult CollectiveStartOp::verify() { return verifyCollective(*this); }

LogicalResult ShardIndexOp::verify() {
  // shard_index C1
  MemRefType type = getDst().getType();
  if (type.getRank() != 0 || !type.getElementType().isInteger(64))
    return emitOpError("stores to ") << type << ", expected memref<i64>";
  // shard_index C2
  return checkAxes(*this, getAxes(), /*time=*/true);
}
