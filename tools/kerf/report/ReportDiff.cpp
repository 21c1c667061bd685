//===- ReportDiff.cpp - two documents side by side ------------------------===//
//
// A plan and a run use the same names for predicted and measured figures, so
// one table compares two plans, two runs, or one of each. Rows that neither has
// are left out.
//
//===----------------------------------------------------------------------===//
#include "Report.h"

#include "../Options.h"
#include "../Output.h"
#include "Layers.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <map>
#include <set>
#include <tuple>

using namespace kerf::tool;
namespace json = llvm::json;

namespace {

using Format = std::string (*)(double);

class Table {
public:
  /// Columns are as wide as the heads `first` and `second` need.
  Table(llvm::raw_ostream &out, const Document &a, const Document &b,
        const std::string &first, const std::string &second)
      : out(out), a(a.root), b(b.root),
        width(std::max<size_t>(15, 2 + std::max(first.size(), second.size()))) {
    out << left("") << right(first) << right(second) << right("second/first")
        << "\n";
  }
  void text(llvm::StringRef name, const std::string &first,
            const std::string &second) {
    if (first.empty() && second.empty())
      return;
    out << left(name) << right(first) << right(second)
        << right(first == second ? "equal" : "differs") << "\n";
  }
  void number(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> path,
              Format format) {
    values(name, numberAt(&a, path), numberAt(&b, path), format);
  }
  void values(llvm::StringRef name, double first, double second,
              Format format) {
    if (first == 0 && second == 0)
      return;
    std::string ratio = first == second ? "equal"
                        : first == 0
                            ? "-"
                            : llvm::formatv("{0:F3}", second / first).str();
    out << left(name) << right(format(first)) << right(format(second))
        << right(ratio) << "\n";
  }

private:
  static std::string left(llvm::StringRef text) {
    std::string cell = "  " + text.str();
    cell.resize(std::max<size_t>(cell.size() + 1, 34), ' ');
    return cell;
  }
  std::string right(llvm::StringRef text) const {
    return std::string(text.size() < width ? width - text.size() : 1, ' ') +
           text.str();
  }
  llvm::raw_ostream &out;
  const json::Object &a, &b;
  size_t width;
};

/// What heads the columns: names of files, with their folders where they are
/// the same; of long ones the end.
std::pair<std::string, std::string> headsOf(const Document &a,
                                            const Document &b) {
  llvm::StringRef first = a.path, second = b.path;
  if (llvm::sys::path::filename(first) != llvm::sys::path::filename(second)) {
    first = llvm::sys::path::filename(first);
    second = llvm::sys::path::filename(second);
  }
  auto endOf = [](llvm::StringRef text) {
    constexpr size_t kMaxLetters = 30;
    return text.size() <= kMaxLetters
               ? text.str()
               : "..." + text.take_back(kMaxLetters - 3).str();
  };
  return {endOf(first), endOf(second)};
}

/// How often collectives run in a step.
int64_t callsOf(const Document &document) {
  int64_t calls = 0;
  for (const CollectiveRow &row : collectiveRows(document.root))
    calls += row.count;
  return calls;
}

/// Lines that fit a screen, unless all are wanted.
void printLines(llvm::raw_ostream &out, const std::vector<std::string> &lines,
                bool verbose) {
  constexpr size_t kRows = 12;
  size_t shown = verbose ? lines.size() : std::min(kRows, lines.size());
  for (const std::string &line : llvm::ArrayRef(lines).take_front(shown))
    out << (verbose ? "  " + line + "\n" : fitLines("  " + line + "\n"));
  if (shown < lines.size())
    out << "  ... and " << lines.size() - shown << " more (-v)\n";
}

/// Byte counts are printed exactly.
std::string exact(double bytes) {
  return std::to_string(static_cast<int64_t>(bytes));
}

/// The numbers of an object by key, sorted.
std::map<std::string, double> numbersOf(const json::Object *object) {
  std::map<std::string, double> result;
  if (object)
    for (const auto &[key, value] : *object)
      result[key.str()] = numberAt(object, {key});
  return result;
}

void printShares(Table &table, const Document &a, const Document &b,
                 llvm::StringRef key) {
  auto sharesOf = [&](const Document &document) {
    const json::Object *all = document.root.getObject("communication");
    return numbersOf(all ? all->getObject(key) : nullptr);
  };
  auto first = sharesOf(a), second = sharesOf(b);
  std::map<std::string, double> names = first;
  names.insert(second.begin(), second.end());
  for (const auto &[name, unused] : names)
    table.values("  " + name, first[name], second[name], exact);
}

/// The entry of the device that holds most; runs list ranks, plans stages.
const json::Object *fullestDevice(const Document &document) {
  const json::Object *memory = document.root.getObject("memory");
  const json::Array *devices =
      memory ? memory->getArray("per_device") : nullptr;
  const json::Object *fullest = nullptr;
  if (!devices)
    return fullest;
  for (const json::Value &value : *devices) {
    const json::Object *device = value.getAsObject();
    if (!fullest || numberAt(device, {"peak"}) > numberAt(fullest, {"peak"}))
      fullest = device;
  }
  return fullest;
}

/// Bytes of the busiest rank by collective and axes, and with `withPhase` also
/// by phase. What a plan puts into one buffer is one row there.
std::map<std::string, double> collectivesOf(const Document &document,
                                            bool withPhase) {
  std::map<std::string, double> result;
  const json::Object *all = document.root.getObject("communication");
  const json::Array *list = all ? all->getArray("collectives") : nullptr;
  for (const json::Value &value : list ? *list : json::Array()) {
    const json::Object *c = value.getAsObject();
    std::string key = withPhase ? textAt(c, "phase") + " " : "";
    key += textAt(c, "op") + " over ";
    const json::Array *axes = c ? c->getArray("axes") : nullptr;
    for (const json::Value &axis : axes ? *axes : json::Array())
      key += axis.getAsString().value_or("").str() + " ";
    key += "of " + textAt(c, "tensor");
    // A run does not know what travels in one buffer.
    if (auto tensors = int64_t(numberAt(c, {"tensors"}));
        tensors > 1 && withPhase)
      key += " and " + std::to_string(tensors - 1) + " more";
    if (int64_t stage = int64_t(numberAt(c, {"stage"})))
      key += " in stage " + std::to_string(stage);
    result[key] +=
        numberAt(c, {"bytes_per_rank"}) * std::max(1.0, numberAt(c, {"count"}));
  }
  return result;
}

std::map<std::string, std::string> shardingsOf(const Document &document) {
  std::map<std::string, std::string> result;
  const json::Array *values = document.root.getArray("values");
  for (const json::Value &value : values ? *values : json::Array()) {
    std::string text = textAt(value.getAsObject(), "sharding");
    result[textAt(value.getAsObject(), "name")] = text.empty() ? "whole" : text;
  }
  return result;
}

/// The shapes of the model's inputs: `4x512`.
std::map<std::string, std::string> inputShapesOf(const Document &document) {
  std::map<std::string, std::string> shapes;
  auto add = [&](llvm::StringRef name, const json::Array *shape) {
    std::vector<std::string> sizes;
    for (const json::Value &size : shape ? *shape : json::Array())
      sizes.push_back(std::to_string(size.getAsInteger().value_or(0)));
    if (!sizes.empty())
      shapes[name.str()] = llvm::join(sizes, "x");
  };
  const json::Object *model = document.root.getObject("model");
  if (const json::Object *all =
          model ? model->getObject("input_shapes") : nullptr)
    for (const auto &[name, shape] : *all)
      add(name, shape.getAsArray());
  // A plan has the shapes of all values.
  std::set<llvm::StringRef> names;
  if (const json::Array *inputs = model ? model->getArray("inputs") : nullptr)
    for (const json::Value &name : *inputs)
      names.insert(name.getAsString().value_or(""));
  if (const json::Array *values = document.root.getArray("values"))
    for (const json::Value &each : *values)
      if (const json::Object *value = each.getAsObject())
        if (llvm::StringRef name = value->getString("name").value_or("");
            names.count(name))
          add(name, value->getArray("shape"));
  return shapes;
}

/// Other sizes of inputs explain other figures, so each has a row where there
/// are few; runs of earlier versions do not say theirs.
void printInputs(Table &table, const Document &a, const Document &b) {
  constexpr size_t kRows = 6;
  auto first = inputShapesOf(a), second = inputShapesOf(b);
  std::vector<std::string> names;
  for (const auto &[name, shape] : first)
    if (auto other = second.find(name);
        other != second.end() && other->second != shape)
      names.push_back(name);
  for (const std::string &name : llvm::ArrayRef(names).take_front(kRows))
    table.text("input " + name, first[name], second[name]);
  if (names.size() > kRows)
    table.text(plural(int64_t(names.size() - kRows), "more input"), "",
               "other sizes");
}

/// Two plans of models that share few names of parameters are hardly meant to
/// be compared.
void remarkOnModels(llvm::raw_ostream &out, const Document &a,
                    const Document &b) {
  auto namesOf = [](const Document &document) {
    std::set<std::string> names;
    const json::Object *model = document.root.getObject("model");
    const json::Array *list =
        model ? model->getArray("parameter_names") : nullptr;
    for (const json::Value &name : list ? *list : json::Array())
      names.insert(name.getAsString().value_or("").str());
    return names;
  };
  std::set<std::string> first = namesOf(a), second = namesOf(b);
  auto common = static_cast<size_t>(llvm::count_if(
      first, [&](const std::string &name) { return second.count(name) > 0; }));
  if (2 * common < std::min(first.size(), second.size()))
    out << "of different models, it seems: of " << first.size() << " and "
        << second.size() << " parameters " << common << " have one name\n";
}

/// What was minimised, and how far.
std::string objectiveOf(const Document &document) {
  const json::Object *objective = document.root.getObject("objective");
  double cost = numberAt(objective, {"cost"});
  bool isVolume = textAt(objective, "kind") == "volume";
  return isVolume ? formatBytes(cost) : formatSeconds(cost);
}

/// How stages take turns, what lies in parts and what is computed again, where
/// two plans differ in it.
void printChoices(Table &table, const Document &a, const Document &b) {
  auto row = [&](llvm::StringRef name, auto textOf) {
    if (textOf(a.root) != textOf(b.root))
      table.text(name, textOf(a.root), textOf(b.root));
  };
  // One stage has no order of micro-batches to choose.
  row("schedule", [](const json::Object &plan) {
    return numberAt(&plan, {"mesh", "pp"}) > 1
               ? textAt(plan.getObject("schedule"), "kind")
               : std::string("none");
  });
  row("chunks per stage", [](const json::Object &plan) {
    return exact(std::max(1.0, numberAt(&plan, {"schedule", "chunks"})));
  });
  row("ZeRO", [](const json::Object &plan) {
    return exact(numberAt(&plan, {"zero"}));
  });
  row("recompute", [](const json::Object &plan) {
    const json::Array *blocks = plan.getArray("recompute");
    return blocks && !blocks->empty() ? plural(int64_t(blocks->size()), "block")
                                      : std::string("none");
  });
}

/// The axes of a mesh that cut, in order: name and size.
std::vector<std::pair<std::string, int64_t>> axesOf(const Document &document) {
  std::vector<std::pair<std::string, int64_t>> axes;
  const json::Object *mesh = document.root.getObject("mesh");
  if (const json::Array *order = document.root.getArray("mesh_axes"))
    for (const json::Value &axis : *order) {
      std::string name = axis.getAsString().value_or("").str();
      if (auto size = int64_t(numberAt(mesh, {name})); size > 1)
        axes.emplace_back(name, size);
    }
  return axes;
}

/// Where the second mesh has the sizes of the first under other names, what its
/// axes are called there; empty: the names are the same, or the sizes are not.
/// Stages are no axis of shardings.
std::map<std::string, std::string> namesInFirst(const Document &a,
                                                const Document &b) {
  auto first = axesOf(a), second = axesOf(b);
  std::map<std::string, std::string> names;
  if (first.size() != second.size())
    return {};
  for (const auto &[one, other] : llvm::zip_equal(first, second)) {
    if (one.second != other.second ||
        (one.first == "pp") != (other.first == "pp"))
      return {};
    if (one.first == other.first)
      continue;
    if (llvm::any_of(first, [&, &wanted = other](const auto &axis) {
          return axis.first == wanted.first;
        }))
      return {}; // that means something in the first
    names[other.first] = one.first;
  }
  return names;
}

/// `{"dp"}, {}` with other names of axes.
std::string renamed(const std::string &sharding,
                    const std::map<std::string, std::string> &names) {
  std::string text;
  for (size_t at = 0; at < sharding.size();) {
    size_t end =
        sharding[at] == '"' ? sharding.find('"', at + 1) : std::string::npos;
    if (end == std::string::npos) {
      text += sharding[at++];
      continue;
    }
    auto name = names.find(sharding.substr(at + 1, end - at - 1));
    text += "\"" +
            (name == names.end() ? sharding.substr(at + 1, end - at - 1)
                                 : name->second) +
            "\"";
    at = end + 1;
  }
  return text;
}

} // namespace

void kerf::tool::printDiff(llvm::raw_ostream &out, const Document &a,
                           const Document &b, bool verbose) {
  auto kindOf = [](const Document &document) {
    return document.isPlan() ? "plan" : "run";
  };
  out << "first   " << a.path << " (" << kindOf(a) << ")\nsecond  " << b.path
      << " (" << kindOf(b) << ")\n";
  remarkOnModels(out, a, b);
  out << "\n";
  auto [firstHead, secondHead] = headsOf(a, b);
  Table table(out, a, b, firstHead, secondHead);
  // Exporters give graphs of all models one name.
  auto graphOf = [](const Document &document) {
    return textAt(document.root.getObject("model"), "name");
  };
  // Of a run no more is known, so that equal names say nothing.
  if ((a.isPlan() && b.isPlan()) || graphOf(a) != graphOf(b))
    table.text("graph", graphOf(a), graphOf(b));
  if (a.isPlan() && b.isPlan()) {
    table.number("parameters", {"model", "parameters"}, formatCount);
    table.number("FLOPs of a step", {"model", "flops"}, formatFlops);
    for (auto [name, object, key] : {std::tuple("made for", "", "goal"),
                                     {"precision", "", "precision"},
                                     {"machine", "machine", "name"},
                                     {"minimised", "objective", "kind"}}) {
      auto textOf = [&](const Document &document) {
        return textAt(
            *object ? document.root.getObject(object) : &document.root, key);
      };
      if (textOf(a) != textOf(b))
        table.text(name, textOf(a), textOf(b));
    }
  }
  printInputs(table, a, b);
  table.text("mesh", meshText(a.root.getObject("mesh")),
             meshText(b.root.getObject("mesh")));
  // Runs of earlier versions do not say it.
  if (a.root.getObject("schedule") && b.root.getObject("schedule"))
    table.number("micro-batches", {"schedule", "micro_batches"}, exact);
  if (a.isPlan() && b.isPlan()) {
    printChoices(table, a, b);
    if (textAt(a.root.getObject("objective"), "kind") ==
        textAt(b.root.getObject("objective"), "kind"))
      table.number("objective", {"objective", "cost"},
                   textAt(a.root.getObject("objective"), "kind") == "volume"
                       ? formatBytes
                       : formatSeconds);
    else
      table.text("objective", objectiveOf(a), objectiveOf(b));
  }
  table.number("step", {"time", "step_seconds"}, formatSeconds);
  table.number("compute", {"time", "compute_seconds"}, formatSeconds);
  // In a plan stages that wait are neither; a run's wait for what they receive.
  bool isStaged = llvm::any_of(llvm::ArrayRef({&a, &b}), [](auto *each) {
    return numberAt(&each->root, {"mesh", "pp"}) > 1;
  });
  auto waits = [](const Document &document) {
    return numberAt(&document.root, {"time", "exposed_communication_seconds"}) +
           otherSeconds(document.root);
  };
  if (isStaged && a.isPlan() != b.isPlan()) {
    table.values("communication, waiting stages", waits(a), waits(b),
                 formatSeconds);
  } else {
    table.number("exposed communication",
                 {"time", "exposed_communication_seconds"}, formatSeconds);
    table.values("neither (starting, waiting)", otherSeconds(a.root),
                 otherSeconds(b.root), formatSeconds);
  }
  table.number("bytes of the busiest rank", {"communication", "bytes_per_rank"},
               exact);
  printShares(table, a, b, "by_purpose");
  printShares(table, a, b, "by_axis");
  table.number("bytes of all ranks", {"communication", "total_bytes"}, exact);
  // Its parts add up to its peak.
  const json::Object *fullA = fullestDevice(a), *fullB = fullestDevice(b);
  table.values("memory of the fullest device", numberAt(fullA, {"peak"}),
               numberAt(fullB, {"peak"}), formatBytes);
  // A run knows what is kept from step to step and what is not, and no more.
  bool isApart = a.isPlan() && b.isPlan();
  const llvm::StringRef kept[] = {"parameters", "optimizer"},
                        made[] = {"gradients", "activations"};
  for (llvm::ArrayRef<llvm::StringRef> row :
       {llvm::ArrayRef(kept), llvm::ArrayRef(made)}) {
    double first = 0, second = 0;
    for (llvm::StringRef part : row) {
      first += numberAt(fullA, {part});
      second += numberAt(fullB, {part});
      if (isApart)
        table.values(("  " + part).str(), numberAt(fullA, {part}),
                     numberAt(fullB, {part}), formatBytes);
    }
    if (!isApart)
      table.values("  " + llvm::join(row, ", "), first, second, formatBytes);
  }
  table.values("  workspace", numberAt(fullA, {"workspace"}),
               numberAt(fullB, {"workspace"}), formatBytes);

  bool alike = a.isPlan() == b.isPlan();
  auto first = collectivesOf(a, alike), second = collectivesOf(b, alike);
  struct Line {
    double bytes;
    std::pair<std::string, std::string> text;
  };
  std::vector<Line> sorted;
  for (const auto &[key, bytes] : first)
    if (!second.count(key))
      sorted.push_back(
          {bytes, {"only first   " + key, exact(bytes) + " bytes"}});
    else if (second[key] != bytes)
      sorted.push_back({std::max(bytes, second[key]),
                        {"other bytes  " + key,
                         exact(bytes) + " against " + exact(second[key])}});
  for (const auto &[key, bytes] : second)
    if (!first.count(key))
      sorted.push_back(
          {bytes, {"only second  " + key, exact(bytes) + " bytes"}});
  // Those that send most are what a screen has room for.
  llvm::stable_sort(
      sorted, [](const Line &x, const Line &y) { return x.bytes > y.bytes; });
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Line &line : sorted)
    lines.push_back(line.text);
  out << "\ncollectives of a step: " << callsOf(a) << " against " << callsOf(b)
      << (lines.empty() ? ", all alike\n" : "\n");
  // Collectives that layers repeat share a line, with the bytes of each.
  std::vector<std::string> rows;
  for (const AlikeNames &group : groupLayers(lines))
    rows.push_back(group.name + ", " + group.what +
                   (group.members.size() > 1 ? " each" : ""));
  printLines(out, rows, verbose);

  if (!a.isPlan() || !b.isPlan())
    return;
  auto before = shardingsOf(a), after = shardingsOf(b);
  auto names = namesInFirst(a, b);
  std::string same;
  for (const auto &[second, first] : names)
    same += (same.empty() ? " (" : ", ") + second + " taken for " + first;
  std::vector<std::pair<std::string, std::string>> differing;
  for (const auto &[name, sharding] : before)
    if (auto other = after.find(name);
        other != after.end() && renamed(other->second, names) != sharding)
      differing.push_back({name, sharding + " against " + other->second});
  out << "\nvalues: " << before.size() << " against " << after.size() << ", "
      << differing.size() << " of both are cut otherwise"
      << (same.empty() ? "" : same + ")") << "\n";
  // By name, those of layers together; or by how they are cut, by number.
  rows.clear();
  std::map<std::string, std::pair<int64_t, std::string>> kindOfCut;
  for (const auto &[name, what] : differing) {
    auto &[count, example] = kindOfCut[what];
    if (count++ == 0)
      example = name;
  }
  if (verbose) {
    for (const AlikeNames &group : groupLayers(differing))
      rows.push_back(group.name + "  " + group.what);
  } else {
    std::vector<std::pair<std::string, std::pair<int64_t, std::string>>> kinds(
        kindOfCut.begin(), kindOfCut.end());
    llvm::stable_sort(kinds, [](const auto &x, const auto &y) {
      return x.second.first > y.second.first;
    });
    for (const auto &[what, kind] : kinds)
      rows.push_back(what + ": " + plural(kind.first, "value") + " (" +
                     kind.second + (kind.first > 1 ? ", ...)" : ")"));
  }
  printLines(out, rows, verbose);
}
