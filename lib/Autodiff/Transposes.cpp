//===- Transposes.cpp - trained matrices that are one another's transpose -===//
//
// Problem: a tied table of tokens is read by rows and, as the head, as a
// factor of a product. An exporter that folds constants stores it a second time
// for the product, transposed, and a step would train two matrices where the
// model has one.
//
// Idea: only matrices of swapped shapes can be so, and the first elements tell
// nearly all of them apart, in place in their files.
//
//===----------------------------------------------------------------------===//
#include "Sources.h"
#include "Step.h"
#include "Values.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

bool Values::isTransposeOf(const Values &other) const {
  int64_t rows = shape()[0], columns = shape()[1];
  auto differs = [&](int64_t row, int64_t column) {
    return (*this)[row * columns + column] != other[column * rows + row];
  };
  if (differs(0, columns - 1) || differs(rows - 1, 0) ||
      differs(rows / 2, columns / 3))
    return false;
  // Of a large matrix the type and place of each element would take seconds.
  bool isPlain = true;
  for (const Values *each : {this, &other})
    isPlain &= each->type.getElementType().isF32() && !each->isSplat &&
               each->strides.empty();
  auto plainDiffers = [&](int64_t row, int64_t column) {
    return std::memcmp(data + 4 * (row * columns + column),
                       other.data + 4 * (column * rows + row), 4) != 0;
  };
  // In tiles: along a column of a large matrix each element is on another page.
  constexpr int64_t tile = 16;
  for (int64_t top = 0; top < rows; top += tile)
    for (int64_t left = 0; left < columns; left += tile)
      for (int64_t row = top; row < std::min(rows, top + tile); ++row)
        for (int64_t at = left; at < std::min(columns, left + tile); ++at)
          if (isPlain ? plainDiffers(row, at) : differs(row, at))
            return false;
  return true;
}

void Step::noteTransposes() {
  ValueReader reader(main->getParentOfType<ModuleOp>());
  std::map<std::pair<int64_t, int64_t>, std::vector<const Parameter *>> byShape;
  std::string names, how;
  size_t count = 0;
  for (const Parameter &parameter : parameters) {
    auto type = cast<RankedTensorType>(parameter.value.getType());
    if (type.getRank() != 2 || type.getNumElements() == 0)
      continue;
    int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
    auto others = byShape.find({columns, rows});
    // Symmetric ones, and those all of whose elements are equal, are so by the
    // values that they begin with.
    if (others != byShape.end())
      if (auto own = reader.read(parameter.value.getDefiningOp());
          own && !own->isUniform())
        for (const Parameter *other : others->second) {
          auto values = reader.read(other->value.getDefiningOp());
          if (!values || !own->isTransposeOf(*values) ||
              (rows == columns && own->isTransposeOf(*own)) || ++count > 1)
            continue;
          bool isFirst = isNamedAsConstant(other->name) &&
                         !isNamedAsConstant(parameter.name);
          const Parameter &copy = isFirst ? *other : parameter;
          const Parameter &original = isFirst ? parameter : *other;
          names = "\"" + copy.label + "\" is the transpose of \"" +
                  original.label + "\"";
          // PyTorch's older exporter, which has another option for it.
          how = llvm::StringRef(copy.name).starts_with("onnx::")
                    ? "do_constant_folding=False"
                    : "optimize=False";
        }
    byShape[{rows, columns}].push_back(&parameter);
  }
  if (count > 0)
    notes.push_back(
        names + " and is trained apart from it" +
        (count > 1 ? " (pairs of this kind: " + std::to_string(count) + ")"
                   : "") +
        ": export with " + how + " to train them as one");
}
