//===- Layers.cpp - names that layers repeat ------------------------------===//
//
// A name consists of numbers and the text between them. Names with the same
// text and the same remark are grouped if they differ in one number only.
//
//===----------------------------------------------------------------------===//
#include "Layers.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

using namespace kerf::tool;

namespace {
struct Parts {
  std::string pattern; ///< with '\0' for each number
  std::vector<std::string> numbers;
};
} // namespace

static Parts partsOf(const std::string &name) {
  Parts parts;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() &&
           std::isdigit(static_cast<unsigned char>(name[end])))
      ++end;
    if (end == i) {
      parts.pattern += name[i++];
      continue;
    }
    parts.pattern += '\0';
    parts.numbers.push_back(name.substr(i, end - i));
    i = end;
  }
  return parts;
}

/// "0-3,5"; of many the first and the last.
static std::string rangesOf(const std::set<int64_t> &numbers) {
  std::vector<std::string> ranges;
  for (auto at = numbers.begin(); at != numbers.end();) {
    int64_t first = *at, last = first;
    while (++at != numbers.end() && *at == last + 1)
      last = *at;
    ranges.push_back(std::to_string(first) +
                     (last > first ? "-" + std::to_string(last) : ""));
  }
  if (ranges.size() > 4)
    return ranges[0] + "," + ranges[1] + ",...," + ranges.back();
  std::string text;
  for (const std::string &range : ranges)
    text += (text.empty() ? "" : ",") + range;
  return text;
}

/// What names have in common that differ in their `place`th number alone.
static std::string keyOf(const Parts &parts, const std::string &what,
                         size_t place) {
  std::string key = parts.pattern + '\1' + what + '\1' + std::to_string(place);
  for (size_t i = 0; i < parts.numbers.size(); ++i)
    key += '\1' + (i == place ? "" : parts.numbers[i]);
  return key;
}

std::vector<AlikeNames> kerf::tool::groupLayers(
    const std::vector<std::pair<std::string, std::string>> &names) {
  std::vector<Parts> parts;
  std::map<std::string, std::vector<size_t>> alike;
  for (size_t i = 0; i < names.size(); ++i) {
    parts.push_back(partsOf(names[i].first));
    for (size_t p = 0; p < parts[i].numbers.size(); ++p)
      // A number of many digits is an identity, not a layer.
      if (parts[i].numbers[p].size() < 6)
        alike[keyOf(parts[i], names[i].second, p)].push_back(i);
  }
  std::vector<AlikeNames> groups;
  std::vector<bool> taken(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (taken[i])
      continue;
    const Parts &own = parts[i];
    // The number with the most names that are otherwise equal is the layer's.
    size_t place = own.numbers.size();
    std::vector<size_t> best{i};
    for (size_t p = 0; p < own.numbers.size(); ++p) {
      std::vector<size_t> others;
      for (size_t j : alike[keyOf(own, names[i].second, p)])
        if (!taken[j])
          others.push_back(j);
      if (others.size() > best.size()) {
        best = std::move(others);
        place = p;
      }
    }
    AlikeNames group;
    group.what = names[i].second;
    std::set<int64_t> layers;
    for (size_t j : best) {
      taken[j] = true;
      group.members.push_back(names[j].first);
      if (place < own.numbers.size())
        layers.insert(std::stoll(parts[j].numbers[place]));
    }
    size_t number = 0;
    for (char c : own.pattern) {
      if (c != '\0') {
        group.name += c;
        continue;
      }
      group.name += number == place ? rangesOf(layers) : own.numbers[number];
      if (number++ == place)
        group.prefix = group.name.size();
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<std::pair<std::string, std::vector<std::string>>>
kerf::tool::listLayers(const std::vector<AlikeNames> &groups) {
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;
  auto lineOf = [&](const std::string &what) -> std::vector<std::string> & {
    for (auto &[known, items] : lines)
      if (known == what)
        return items;
    lines.push_back({what, {}});
    return lines.back().second;
  };
  for (const AlikeNames &group : groups) {
    std::vector<std::string> &items = lineOf(group.what);
    std::string head = group.name.substr(0, group.prefix),
                rest = group.name.substr(group.prefix);
    if (group.prefix == 0 || rest.empty()) {
      items.push_back(group.name);
      continue;
    }
    head += ":";
    rest = rest.find_first_of("./_") == 0 ? rest.substr(1) : rest;
    auto known =
        std::find_if(items.begin(), items.end(), [&](const std::string &item) {
          return item.compare(0, head.size() + 1, head + " ") == 0;
        });
    if (known == items.end())
      items.push_back(head + " " + rest);
    else
      *known += ", " + rest;
  }
  return lines;
}
