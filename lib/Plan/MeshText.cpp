//===- MeshText.cpp - degrees of axes as text -----------------------------===//
#include "kerf/Plan/MeshText.h"

#include "kerf/Cost/Integers.h"

#include "llvm/ADT/SmallVector.h"

#include <set>

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
      return ("option mesh: '" + axis +
              "', expected NAME=SIZE, as in dp=2,tp=4")
          .str();
    // Other names are axes that may cut anything: these are slips.
    for (auto [known, cuts] : {std::pair("dp", "data"),
                               {"tp", "parameters"},
                               {"pp", "the model into stages"}})
      if (name != known && name.equals_insensitive(known))
        return ("option mesh: '" + axis + "', did you mean " + known +
                ", which cuts " + cuts + "?")
            .str();
    mesh.push_back({name.str(), size});
  }
  return "";
}

std::string kerf::plan::checkDegrees(
    const std::vector<std::pair<std::string, int64_t>> &mesh, int64_t devices) {
  cost::Int128 product = 1;
  for (const auto &[name, size] : mesh) {
    if (size < 1)
      return "";
    product *= size;
  }
  if (product <= devices && devices % product == 0)
    return "";
  return "option mesh: degrees multiply to " + cost::toString(product) +
         ", expected " +
         (devices == 1
              ? std::string("1, the number of devices unless option devices=N "
                            "says otherwise")
              : "a divisor of " + std::to_string(devices) + " devices");
}

std::string kerf::plan::divisorsText(int64_t size, int64_t wanted) {
  constexpr size_t kFew = 3; // below and above
  std::vector<int64_t> below, above;
  std::set<int64_t> all = {size};
  for (int64_t number = 2; number * number <= size; ++number)
    if (size % number == 0)
      all.insert({number, size / number});
  for (int64_t number : all)
    (number < wanted ? below : above).push_back(number);
  if (below.size() > kFew)
    below.erase(below.begin(), below.end() - kFew);
  above.resize(std::min(above.size(), kFew));
  below.insert(below.end(), above.begin(), above.end());
  std::string text;
  for (size_t i = 0; i < below.size(); ++i)
    text += (i == 0                  ? ", which "
             : i + 1 == below.size() ? " and "
                                     : ", ") +
            std::to_string(below[i]);
  return text + (below.empty() ? "" : below.size() == 1 ? " does" : " do");
}
