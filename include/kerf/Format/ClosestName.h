//===- ClosestName.h - "did you mean" ---------------------------*- C++ -*-===//
//
// Misspelt names of inputs, flags, dimensions, losses: compiler and runtime
// guess alike. Includes only the C++ library, since the runtime includes this
// file.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FORMAT_CLOSESTNAME_H
#define KERF_FORMAT_CLOSESTNAME_H

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace kerf {

/// Letters to insert, to remove or to change, case aside.
inline size_t editDistance(const std::string &a, const std::string &b) {
  auto lower = [](char letter) {
    return std::tolower(static_cast<unsigned char>(letter));
  };
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t changed = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

/// That of `names` which is spelled nearly as `wanted`; empty if none is. A
/// third of the letters may be wrong, or two that are swapped; names of a few
/// letters are others.
inline std::string closestName(const std::string &wanted,
                               const std::vector<std::string> &names) {
  std::string closest;
  size_t least =
      wanted.size() < 4 ? 2 : std::max<size_t>(wanted.size() / 3, 2) + 1;
  auto sorted = [](std::string text) {
    std::sort(text.begin(), text.end());
    return text;
  };
  for (const std::string &name : names) {
    bool isSwapped = wanted.size() > 2 && sorted(wanted) == sorted(name);
    size_t distance = isSwapped ? 1 : editDistance(wanted, name);
    if (distance < least && distance < std::max(wanted.size(), name.size())) {
      least = distance;
      closest = name;
    }
  }
  return closest;
}

} // namespace kerf

#endif // KERF_FORMAT_CLOSESTNAME_H
