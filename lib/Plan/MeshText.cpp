//===- MeshText.cpp - degrees of axes as text -----------------------------===//
#include "kerf/Plan/MeshText.h"

#include "llvm/ADT/SmallVector.h"

using llvm::StringRef;

std::string
kerf::plan::parseMeshText(StringRef text,
                          std::vector<std::pair<std::string, int64_t>> &mesh) {
  llvm::SmallVector<StringRef> axes;
  if (!text.empty())
    text.split(axes, ',');
  for (StringRef axis : axes) {
    auto [name, digits] = axis.split('=');
    int64_t size = 0;
    if (name.empty() || digits.getAsInteger(10, size))
      return ("option mesh: '" + axis + "', expected NAME=SIZE").str();
    mesh.push_back({name.str(), size});
  }
  return "";
}
