//===- Collective.cpp - collectives of any back end -----------------------===//
//
// Legality and byte counts of collectives; see the table in docs/Package.md.
//
//===----------------------------------------------------------------------===//
#include "Collective.h"

using namespace kerf::rt;

namespace {
constexpr const char *reductionNames[] = {"sum", "max", "min", "prod"};

[[noreturn]] void bad(const std::string &message) {
  throw Error(KERF_BAD_PACKAGE, message);
}
} // namespace

const char *kerf::rt::reductionName(Reduction reduction) {
  return reductionNames[static_cast<int>(reduction)];
}
bool kerf::rt::parseReduction(std::string_view name, Reduction &reduction) {
  for (size_t i = 0; i < std::size(reductionNames); ++i)
    if (name == reductionNames[i]) {
      reduction = static_cast<Reduction>(i);
      return true;
    }
  return false;
}

static void checkSameExcept(const CollectiveDesc &desc, int64_t a, int64_t b) {
  if (desc.srcShape.size() != desc.dstShape.size())
    bad(cat("rank of src and dst differ: ", shapeString(desc.srcShape),
            " against ", shapeString(desc.dstShape)));
  for (int64_t d = 0; d < static_cast<int64_t>(desc.srcShape.size()); ++d)
    if (d != a && d != b && desc.srcShape[d] != desc.dstShape[d])
      bad(cat("dimension ", d,
              " of src and dst differ: ", shapeString(desc.srcShape),
              " against ", shapeString(desc.dstShape)));
}

static void checkDim(const CollectiveDesc &desc, int64_t dim, const char *key) {
  if (dim < 0 || dim >= static_cast<int64_t>(desc.srcShape.size()))
    bad(cat(key, " ", dim, " is not a dimension of ",
            shapeString(desc.srcShape)));
}

// part[dim] is the ceiling share of whole[dim], or the larger one that is
// given.
static void checkShare(const Shape &part, const Shape &whole, int64_t dim,
                       int64_t groupSize, int64_t given) {
  int64_t share = ceilDiv(whole[dim], groupSize);
  if (given && (given <= share || given >= whole[dim]))
    bad(cat("parts of dimension ", dim, " of ", shapeString(whole), " over ",
            groupSize, " ranks are given as ", given, ", expected more than ",
            share, " and less than ", whole[dim]));
  if (given)
    share = given;
  if (part[dim] != share)
    bad(cat("dimension ", dim, " of a part of ", shapeString(whole), " over ",
            groupSize, " ranks is ", part[dim], ", expected ", share));
}

void kerf::rt::checkCollective(const CollectiveDesc &desc, int64_t groupSize) {
  if (desc.reduces() && (desc.dtype == KERF_BOOL || codeBits(desc.dtype)))
    bad(cat("a reduction of ", kerf_dtype_name(desc.dtype),
            " is not supported"));
  int64_t cut = desc.cutDim(), joined = desc.joinedDim();
  bool two = hasTwoDims(desc.kind);
  if (cuts(desc.kind))
    checkDim(desc, cut, two ? "split_dim" : "dim");
  if (joins(desc.kind))
    checkDim(desc, joined, two ? "concat_dim" : "dim");
  if (two && cut == joined)
    bad("split_dim and concat_dim are the same");
  checkSameExcept(desc, cut, joined);
  if (cuts(desc.kind))
    checkShare(desc.dstShape, desc.srcShape, cut, groupSize, desc.part);
  if (joins(desc.kind))
    checkShare(desc.srcShape, desc.dstShape, joined, groupSize,
               two ? desc.concatPart : desc.part);
  if (hasRoot(desc.kind) && (desc.root < 0 || desc.root >= groupSize))
    bad(cat("root ", desc.root, " is not a position in a group of ",
            groupSize));
  if (hasPairs(desc.kind)) {
    std::vector<bool> from(groupSize), to(groupSize);
    for (auto [a, b] : desc.pairs) {
      if (a < 0 || a >= groupSize || b < 0 || b >= groupSize || from[a] ||
          to[b])
        bad(cat("pair [", a, ", ", b,
                "] is out of range or repeats a position"));
      from[a] = to[b] = true;
    }
  }
  groupBytes(desc, groupSize); // overflow
}

int64_t kerf::rt::groupBytes(const CollectiveDesc &desc, int64_t n) {
  int64_t src = numBytes(desc.srcShape, desc.dtype);
  int64_t dst = numBytes(desc.dstShape, desc.dtype);
  switch (desc.kind) {
  case CollectiveKind::AllReduce:
    return mulChecked(2 * (n - 1), src);
  case CollectiveKind::ReduceScatter:
    return mulChecked(mulChecked(n - 1, n), dst);
  case CollectiveKind::AllGather:
    return mulChecked(mulChecked(n - 1, n), src);
  case CollectiveKind::AllToAll: {
    Shape block = desc.srcShape;
    block[desc.dim] = desc.dstShape[desc.dim];
    return mulChecked(mulChecked(n - 1, n), numBytes(block, desc.dtype));
  }
  case CollectiveKind::Broadcast:
    return mulChecked(n - 1, src);
  case CollectiveKind::Permute: {
    int64_t moves = 0;
    for (auto [from, to] : desc.pairs)
      moves += from != to;
    return mulChecked(moves, src);
  }
  }
  return 0;
}

int64_t kerf::rt::bufferBytes(const CollectiveDesc &desc, int64_t n) {
  switch (desc.kind) {
  case CollectiveKind::ReduceScatter:
    return mulChecked(n, numBytes(desc.dstShape, desc.dtype));
  case CollectiveKind::AllGather:
    return mulChecked(n, numBytes(desc.srcShape, desc.dtype));
  case CollectiveKind::AllToAll: // each rank holds S/N
    return n == 1 ? numBytes(desc.srcShape, desc.dtype)
                  : groupBytes(desc, n) / (n - 1) * n;
  case CollectiveKind::Permute:
    return groupBytes(desc, n);
  default:
    return numBytes(desc.srcShape, desc.dtype);
  }
}

int64_t kerf::rt::bytesPerRank(const CollectiveDesc &desc, int64_t n) {
  if (n <= 1)
    return 0;
  if (isUneven(desc.kind))
    return groupBytes(desc, n) ? numBytes(desc.srcShape, desc.dtype) : 0;
  return ceilDiv(groupBytes(desc, n), n);
}

std::string kerf::rt::describe(const CollectiveDesc &desc, int64_t index) {
  std::string text(collectiveName(desc.kind));
  if (desc.reduces())
    text += cat("<", reductionName(desc.reduction), ">");
  text +=
      cat(" ", kerf_dtype_name(desc.dtype), " ", shapeString(desc.srcShape));
  if (!desc.node.empty())
    text += cat(" at ", desc.node);
  return text + cat(" (#", index, ")");
}
