//===- MeshText.cpp - degrees of axes as text -----------------------------===//
#include "kerf/Plan/MeshText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

std::string
kerf::plan::parseMeshText(StringRef text,
                          std::vector<std::pair<std::string, int64_t>> &mesh) {
  llvm::SmallVector<StringRef> axes;
  text.split(axes, ',', -1, /*KeepEmpty=*/false);
  for (StringRef axis : axes) {
    auto [name, digits] = axis.split('=');
    int64_t size = 0;
    bool isName = !name.empty() && llvm::all_of(name, [](char c) {
      return llvm::isAlnum(c) || c == '_' || c == '-';
    });
    if (!isName || digits.getAsInteger(10, size) || size < 1)
      return ("mesh: '" + axis + "', expected NAME=SIZE").str();
    if (llvm::any_of(mesh, [&, name = name](const auto &known) {
          return known.first == name;
        }))
      return ("mesh: axis \"" + name + "\" is given twice").str();
    mesh.push_back({name.str(), size});
  }
  return "";
}
