//===- OtherNames.cpp - names that a weight is not stored under -----------===//
#include "kerf/Interfaces/OtherNames.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Support/NamePattern.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace kerf;

std::vector<OtherName> kerf::otherNames(mlir::ModuleOp module) {
  std::vector<OtherName> names;
  auto list = module->getAttrOfType<mlir::ArrayAttr>(kOtherNamesAttr);
  for (size_t i = 0; list && i + 1 < list.size(); i += 2)
    names.emplace_back(mlir::cast<mlir::StringAttr>(list[i]).str(),
                       mlir::cast<mlir::StringAttr>(list[i + 1]).str());
  return names;
}

std::string kerf::storedAs(llvm::ArrayRef<OtherName> names,
                           llvm::StringRef pattern) {
  llvm::Regex regex = namePattern(pattern);
  std::string first;
  size_t more = 0;
  for (const auto &[other, stored] : names)
    if (regex.match(other) && !regex.match(stored)) {
      if (!first.empty())
        ++more;
      else
        first = "'" + other + "' is stored as '" + stored + "'";
    }
  return more ? first + " (and " + std::to_string(more) + " more so)" : first;
}
