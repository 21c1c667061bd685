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

/// How many letters differ. Near is what has a third of them wrong, or two that
/// are swapped; names of a few letters are others.
inline size_t slipOf(const std::string &wanted, const std::string &name,
                     bool &isNear) {
  auto sorted = [](std::string text) {
    std::sort(text.begin(), text.end());
    return text;
  };
  bool isSwapped = wanted.size() > 2 && sorted(wanted) == sorted(name);
  size_t distance = isSwapped ? 1 : editDistance(wanted, name);
  size_t least =
      wanted.size() < 4 ? 2 : std::max<size_t>(wanted.size() / 3, 2) + 1;
  isNear = distance < least && distance < std::max(wanted.size(), name.size());
  return distance;
}

/// Of names with as many parts between dots each part is that of the other, or
/// nearly: "wte.weight" is no slip of "fc.weight".
inline bool arePartsNear(std::string wanted, std::string name) {
  if (std::count(wanted.begin(), wanted.end(), '.') !=
      std::count(name.begin(), name.end(), '.'))
    return true;
  auto firstOf = [](std::string &text) {
    size_t dot = std::min(text.find('.'), text.size());
    std::string first = text.substr(0, dot);
    text.erase(0, dot + 1);
    return first;
  };
  while (!wanted.empty() || !name.empty()) {
    std::string own = firstOf(wanted), other = firstOf(name);
    bool isNear = true;
    if (own != other)
      slipOf(own, other, isNear);
    if (!isNear)
      return false;
  }
  return true;
}

/// That of `names` which is spelled nearly as `wanted`; empty if none is.
inline std::string closestName(const std::string &wanted,
                               const std::vector<std::string> &names) {
  std::string closest;
  size_t least = 0;
  for (const std::string &name : names) {
    bool isNear = false;
    size_t distance = slipOf(wanted, name, isNear);
    if (isNear && (closest.empty() || distance < least) &&
        arePartsNear(wanted, name)) {
      least = distance;
      closest = name;
    }
  }
  return closest;
}

/// Of inputs also the only name that has all words of `wanted` next to each
/// other, or whose words `wanted` has: "ids" of "input_ids".
inline std::string closestInput(const std::string &wanted,
                                const std::vector<std::string> &names) {
  std::string closest = closestName(wanted, names);
  if (!closest.empty() || wanted.size() < 2)
    return closest;
  auto words = [](const std::string &text) {
    std::string spaced = " ";
    for (char letter : text)
      spaced += std::isalnum(static_cast<unsigned char>(letter))
                    ? static_cast<char>(
                          std::tolower(static_cast<unsigned char>(letter)))
                    : ' ';
    return spaced + " ";
  };
  std::string own = words(wanted);
  for (const std::string &name : names) {
    std::string other = words(name);
    if (other.find(own) == std::string::npos &&
        (name.size() < 2 || own.find(other) == std::string::npos))
      continue;
    if (!closest.empty())
      return "";
    closest = name;
  }
  return closest;
}

/// "adamw,lr=1" of "adamw lr=1": blanks, ';' or ':' in front of KEY= where a
/// comma belongs. Empty: there is none.
inline std::string withCommas(const std::string &text) {
  auto isPart = [](char letter) {
    return std::isalpha(static_cast<unsigned char>(letter)) || letter == '_';
  };
  std::string result;
  bool isOther = false;
  for (size_t i = 0; i < text.size();) {
    size_t next = std::min(text.find_first_not_of(" ;:", i), text.size());
    size_t end = next;
    while (end < text.size() && isPart(text[end]))
      ++end;
    if (next > i && i > 0 && end > next && end < text.size() &&
        text[end] == '=' && result.back() != ',') {
      result += ',';
      isOther = true;
      i = next;
    } else {
      result += text[i++];
    }
  }
  return isOther ? result : "";
}

} // namespace kerf

#endif // KERF_FORMAT_CLOSESTNAME_H
