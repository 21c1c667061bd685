//===- Trained.cpp - the list of trained parameters, for people -----------===//
//
// A model of 500 tensors has a dozen kinds of them, since layers repeat. The
// list that is printed before a run must be short enough to be read: it is
// where a user notices a mask that would be trained, or a weight that would
// not.
//
//===----------------------------------------------------------------------===//
#include "Trained.h"

#include "../Options.h"
#include "Report.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cstdio>
#include <map>
#include <set>

using namespace kerf;
using namespace kerf::tool;

namespace {
/// Tensors whose names differ in numbers only.
struct Group {
  std::string first, last;
  std::vector<std::string> all{}; ///< in the order of the model
  std::vector<int64_t> shape;
  int64_t count = 0, elements = 0;
};
/// By pattern and rank, in the order of the model.
using Key = std::pair<std::string, size_t>;
using Groups = llvm::MapVector<Key, Group, std::map<Key, unsigned>>;
} // namespace

/// "h.0.attn@0,64" as "h.*.attn".
static std::string patternOf(llvm::StringRef name) {
  std::string pattern;
  for (char c : name.take_until([](char each) { return each == '@'; }))
    if (!llvm::isDigit(c))
      pattern += c;
    else if (pattern.empty() || pattern.back() != '*')
      pattern += '*';
  return pattern;
}

static void add(Groups &groups, const std::string &name,
                const std::vector<int64_t> &shape, bool alone) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  std::string pattern = alone ? name : patternOf(name);
  Group &group = groups[{pattern, std::min<size_t>(shape.size(), 3)}];
  // Names in the order of a person: "a.2" before "a.10".
  bool isOnly = group.count++ == 0;
  if (isOnly)
    group.shape = shape;
  if (isOnly || llvm::StringRef(name).compare_numeric(group.first) < 0)
    group.first = name;
  if (isOnly || llvm::StringRef(name).compare_numeric(group.last) > 0)
    group.last = name;
  group.all.push_back(name);
  group.elements += elements;
}

static std::string shapeText(const std::vector<int64_t> &shape) {
  if (shape.empty())
    return "a number";
  return llvm::join(
      llvm::map_range(shape, [](int64_t size) { return std::to_string(size); }),
      "x");
}

/// Whether a group's names, in the order of people, lie between the first and
/// the last of it without one of another group that has its pattern.
static bool isRange(const Key &key, const Group &group, const Groups &groups) {
  return llvm::none_of(groups, [&](const auto &other) {
    return other.first.first == key.first && other.first != key &&
           llvm::any_of(other.second.all, [&](llvm::StringRef name) {
             return name.compare_numeric(group.first) > 0 &&
                    name.compare_numeric(group.last) < 0;
           });
  });
}

/// The names of a group as they are in the model, not as a pattern that could
/// be taken for a REGEX. If names of other groups lie between them, the first
/// few.
static std::string names(const Key &key, const Group &group,
                         const Groups &groups) {
  constexpr size_t kMax = 4;
  if (group.count == 1)
    return group.first;
  if (isRange(key, group, groups))
    return group.first + " to " + group.last;
  llvm::ArrayRef<std::string> all = group.all;
  return llvm::join(all.take_front(kMax), " and ") +
         (all.size() > kMax ? " and others" : "");
}

static std::string text(const Key &key, const Group &group,
                        const Groups &groups) {
  if (group.count == 1)
    return names(key, group, groups) + " (" + shapeText(group.shape) + ")";
  static constexpr const char *kinds[] = {"numbers", "vectors", "matrices",
                                          "tensors"};
  return names(key, group, groups) + " (" + std::to_string(group.count) + " " +
         kinds[key.second] + ", " + elementsText(group.elements) + ")";
}

/// The groups after `title`: on one line if they are few, else below it.
static void append(std::vector<std::string> &lines, const std::string &title,
                   const Groups &groups, bool verbose) {
  constexpr size_t kMaxInLine = 6, kMax = 24;
  std::vector<std::string> texts;
  for (const auto &[key, group] : groups)
    texts.push_back(text(key, group, groups));
  if (texts.size() <= kMaxInLine && !verbose) {
    lines.push_back(title + ": " + llvm::join(texts, ", "));
    return;
  }
  lines.push_back(title + ":");
  // A line for one kind that is left out would take as much room as that kind.
  size_t shown = verbose || texts.size() == kMax + 1
                     ? texts.size()
                     : std::min(texts.size(), kMax);
  for (size_t i = 0; i < shown; ++i)
    lines.push_back("  " + texts[i]);
  if (shown < texts.size())
    lines.push_back("  and " + std::to_string(texts.size() - shown) +
                    " kinds more (-v lists all)");
}

std::string kerf::tool::parameterCount(const autodiff::AutodiffResult &result) {
  std::set<llvm::StringRef> names;
  for (const autodiff::TrainedParameter &parameter : result.trained) {
    auto [name, begin] = llvm::StringRef(parameter.name).rsplit('@');
    bool isPart = begin.find_first_not_of("0123456789,") == begin.npos;
    names.insert(isPart ? name : llvm::StringRef(parameter.name));
  }
  auto parts = static_cast<int64_t>(result.trained.size());
  auto count = static_cast<int64_t>(names.size());
  return plural(count, "parameter") +
         (parts > count ? " (in " + plural(parts, "part") + ")" : "");
}

std::vector<std::string> kerf::tool::describeTrained(
    const autodiff::AutodiffResult &result,
    const std::map<std::string, std::vector<int64_t>> &stored, bool verbose) {
  auto shapeOf = [&](const auto &parameter) {
    auto found = stored.find(parameter.name);
    return found == stored.end() ? parameter.shape : found->second;
  };
  std::vector<std::string> lines;
  Groups trained;
  int64_t elements = 0;
  for (const autodiff::TrainedParameter &parameter : result.trained)
    add(trained, parameter.name, shapeOf(parameter), verbose);
  for (const auto &[key, group] : trained)
    elements += group.elements;
  append(lines,
         "trains " + parameterCount(result) + " of " + elementsText(elements),
         trained, verbose);
  Groups buffers;
  // One that a norm which is applied twice updates twice is one.
  std::set<std::string> statistics;
  for (const std::string &name : result.buffers)
    if (statistics.insert(name).second)
      add(buffers, name, {0}, verbose);
  if (!result.buffers.empty()) {
    std::vector<std::string> texts;
    for (const auto &[key, group] : buffers)
      texts.push_back(names(key, group, buffers));
    lines.push_back("updates " + std::to_string(statistics.size()) +
                    " running statistics: " +
                    llvm::join(llvm::ArrayRef(texts).take_front(4), ", ") +
                    (texts.size() > 4 ? ", ..." : ""));
  }
  llvm::MapVector<autodiff::KeptWhy, Groups> kept;
  for (const autodiff::KeptParameter &parameter : result.kept)
    add(kept[parameter.why], parameter.name, shapeOf(parameter), verbose);
  for (const auto &[why, groups] : kept)
    append(lines, "leaves as it is, " + autodiff::describe(why).str(), groups,
           verbose);
  return lines;
}

static std::string numberText(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.12g", value);
  return text;
}

std::string
kerf::tool::optimizerText(const autodiff::OptimizerSpec &optimizer) {
  std::string text = optimizer.name;
  auto add = [&](const std::string &key, double value) {
    text += "," + key + "=" + numberText(value);
  };
  if (optimizer.weightDecay != 0)
    add("wd", optimizer.weightDecay);
  for (const auto &[key, value] : optimizer.options)
    add(key, value);
  return optimizer.noDecay.empty() ? text
                                   : text + ",no_decay=" + optimizer.noDecay;
}

std::string kerf::tool::clipText(double norm) {
  return norm > 0 ? numberText(norm) : "off";
}
