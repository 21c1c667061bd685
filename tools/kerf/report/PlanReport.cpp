//===- PlanReport.cpp - plan.json for people ------------------------------===//
//
// Reads only the document, so that the report says what the file says.
//
//===----------------------------------------------------------------------===//
#include "PlanReport.h"

#include "../Options.h"
#include "../Output.h"
#include "Layers.h"
#include "Report.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace kerf::tool;
namespace json = llvm::json;

namespace {

/// A short list of named rows in order of first mention.
template <typename Row> class Rows {
public:
  Row &operator[](const std::string &key) {
    for (auto &[name, row] : list)
      if (name == key)
        return row;
    list.push_back({key, Row()});
    return list.back().second;
  }
  auto begin() const { return list.begin(); }
  auto end() const { return list.end(); }
  bool empty() const { return list.empty(); }

private:
  std::vector<std::pair<std::string, Row>> list;
};

class Printer {
public:
  Printer(llvm::raw_ostream &out, const json::Object &plan, bool verbose)
      : out(out), plan(plan), verbose(verbose) {}

  void print();

private:
  void printHead();
  void printStages();
  void printCollectives();
  void printMemory();
  void printPureCuts();
  void printRunnersUp();
  void printCuts();
  /// That rows were left out.
  void printMore(size_t all, size_t shown, const std::string &one,
                 const std::string &more, const std::string &rest = "");
  /// The rows that are printed of a table, so that all tables fit a screen.
  static constexpr size_t kRows = 6;

  static double number(const json::Object *object, llvm::StringRef key) {
    return numberAt(object, {key});
  }
  static std::string text(const json::Object *object, llvm::StringRef key) {
    return textAt(object, key);
  }
  llvm::raw_ostream &out;
  const json::Object &plan;
  bool verbose;
};

} // namespace

/// What a number behind a name says.
static const std::string kNumbered =
    "NAME#2: the second value that comes from the node or weight NAME";

std::string kerf::tool::parametersText(const json::Object &plan) {
  const json::Object *model = plan.getObject("model");
  std::string text = formatCount(numberAt(model, {"parameters"})),
              stored = formatCount(numberAt(model, {"stored_parameters"}));
  bool isTraining = textAt(&plan, "goal") == "train",
       differs = model && model->get("stored_parameters") && stored != text;
  return text + " parameters" + (isTraining ? " in the step" : "") +
         (differs ? " (the file stores " + stored + ")" : "");
}

void Printer::printHead() {
  const json::Object *model = plan.getObject("model");
  const json::Object *objective = plan.getObject("objective");
  const json::Object *schedule = plan.getObject("schedule");
  out << "model     " << text(model, "name") << ": " << parametersText(plan)
      << ", " << formatFlops(number(model, "flops")) << " per step\n";
  out << "mesh      " << meshText(plan.getObject("mesh")) << " on "
      << plural(int64_t(plan.getNumber("devices").value_or(1)), "device")
      << " of " << text(plan.getObject("machine"), "name");
  if (number(schedule, "micro_batches") > 1)
    out << ", " << int64_t(number(schedule, "micro_batches"))
        << " micro-batches";
  out << "\n";
  out << "objective " << text(objective, "kind") << " ("
      << text(objective, "cost_model") << "): " << verdictText(objective)
      << "\n";
  for (const auto &[what, text] : decisionLines(plan, verbose))
    out << llvm::left_justify(what, 10) << text << "\n";
}

void Printer::printStages() {
  const json::Array *stages = plan.getArray("stages");
  if (!stages || stages->size() < 2)
    return;
  const json::Object *schedule = plan.getObject("schedule");
  out << "\nstages    ";
  if (int64_t(number(schedule, "chunks")) > 1)
    out << scheduleInWords(plan) << " ";
  out << llvm::formatv("(each waits for others {0:F1}% of the pipeline's time, "
                       "on average)",
                       100 * number(schedule, "bubble_fraction"))
      << "\n";
  for (const json::Value &value : *stages) {
    const json::Object *stage = value.getAsObject();
    out << "  " << int64_t(number(stage, "index")) << "  "
        << plural(int64_t(number(stage, "nodes")), "op") << ", "
        << formatFlops(number(stage, "flops")) << ", "
        << formatSeconds(number(stage, "seconds")) << "\n";
  }
}

void Printer::printCollectives() {
  const json::Object *communication = plan.getObject("communication");
  if (!communication)
    return;
  out << "\ncommunication  "
      << formatBytes(number(communication, "bytes_per_rank"))
      << " sent by the busiest rank, "
      << formatBytes(number(communication, "total_bytes")) << " by all\n";
  std::vector<CollectiveRow> rows = collectiveRows(plan);
  CollectiveRow others;
  size_t max = verbose ? rows.size() : kRows;
  if (rows.size() > max)
    llvm::stable_sort(rows, [](const CollectiveRow &a, const CollectiveRow &b) {
      return a.bytes > b.bytes;
    });
  for (const CollectiveRow &row :
       llvm::ArrayRef(rows).drop_front(std::min(max, rows.size()))) {
    others.bytes += row.bytes;
    others.differs |= row.differs;
  }
  // Ranks of different stages send them, none more than the busiest.
  others.bytes =
      std::min(others.bytes, number(communication, "bytes_per_rank"));
  for (const CollectiveRow &row : llvm::ArrayRef(rows).take_front(max)) {
    out << "  " << row.count << " x " << row.what << ": " << row.bytesText();
    if (!row.formula.empty())
      out << " (" << row.formula << " each)";
    if (row.seconds > 0)
      out << ", " << formatSeconds(row.seconds);
    if (!row.example.empty())
      out << "  (" << row.examples(/*isShort=*/!verbose) << ")";
    out << "\n";
  }
  if (rows.empty())
    out << "  none\n";
  printMore(rows.size(), max, "kind", "kinds", ", " + others.bytesText());
}

void Printer::printMemory() {
  const json::Object *memory = plan.getObject("memory");
  const json::Array *devices =
      memory ? memory->getArray("per_device") : nullptr;
  if (!devices)
    return;
  out << "\nmemory per device" << (isLaidOut(plan) ? ", laid out" : "");
  double limit = memory->getNumber("limit").value_or(0), largest = 0;
  for (const json::Value &device : *devices)
    largest = std::max(largest, number(device.getAsObject(), "peak"));
  if (limit > 0)
    out << " (limit " << formatBytesBeside(limit, largest) << ")";
  out << "\n";
  for (size_t stage = 0; stage < devices->size(); ++stage) {
    const json::Object *entry = (*devices)[stage].getAsObject();
    out << "  ";
    if (devices->size() > 1)
      out << "stage " << stage << ": ";
    out << formatBytesBeside(number(entry, "peak"), limit)
        << " = parameters and constants "
        << formatBytes(number(entry, "parameters"));
    for (const char *part : {"gradients", "optimizer"})
      if (number(entry, part) != 0)
        out << " + " << part << " " << formatBytes(number(entry, part));
    out << " + activations " << formatBytes(number(entry, "activations"))
        << "\n";
  }
}

/// The width of a column of keys, so that the values behind it are aligned.
template <typename Lines> static size_t widthOf(const Lines &lines) {
  size_t width = 18;
  for (const auto &line : lines)
    width = std::max(width, line.first.size());
  return width;
}

/// Some of a list, with what it begins with: what fits the line behind a key of
/// `width` columns.
static std::string someOf(const std::vector<std::string> &items, size_t width) {
  const size_t kMaxLetters = width < 70 ? 110 - width : 40;
  std::string text;
  for (const std::string &whole : items) {
    bool isFirst = &whole == &items.front();
    // Lists of names have blanks, and are cut behind one.
    std::string item = whole.find(' ') == whole.npos ? shortName(whole) : whole;
    // A long item behind a few letters is cut, not left out.
    if (text.size() > kMaxLetters / 2 &&
        text.size() + item.size() > kMaxLetters)
      return text + "; ...";
    text += isFirst ? item : "; " + item;
    if (text.size() > kMaxLetters)
      return text.substr(0, text.rfind(", ", kMaxLetters)) + ", ...";
  }
  return text;
}

void Printer::printCuts() {
  const json::Array *values = plan.getArray("values");
  if (!values)
    return;
  if (verbose) {
    bool isNumbered = llvm::any_of(*values, [](const json::Value &value) {
      return text(value.getAsObject(), "name").find('#') != std::string::npos;
    });
    out << "\nvalues, in the order of the program"
        << (isNumbered ? " (" + kNumbered + ")\n" : "\n");
    for (const json::Value &value : *values)
      out << "  " << text(value.getAsObject(), "name") << "  "
          << text(value.getAsObject(), "sharding") << "\n";
    return;
  }
  // Parameters by name, those of layers together; what is computed by number.
  std::vector<std::pair<std::string, std::string>> parameters;
  Rows<std::pair<int64_t, std::string>> kinds;
  llvm::StringSet<> names = parametersOf(plan);
  for (const json::Value &value : *values) {
    const json::Object *entry = value.getAsObject();
    std::string name = text(entry, "name"), sharding = text(entry, "sharding");
    if (sharding.empty())
      sharding = "scalars";
    if (names.contains(name)) {
      parameters.push_back({name, sharding});
      continue;
    }
    auto &kind = kinds[sharding];
    if (kind.first++ == 0)
      kind.second = name;
  }
  auto lines = listLayers(groupLayers(parameters));
  // What is cut comes first.
  std::stable_partition(lines.begin(), lines.end(), [](const auto &line) {
    return line.first.find('"') != std::string::npos;
  });
  if (!lines.empty())
    out << "\nparameters, by how their dimensions are cut\n";
  size_t width = widthOf(llvm::ArrayRef(lines).take_front(kRows));
  for (const auto &[sharding, items] : llvm::ArrayRef(lines).take_front(kRows))
    out << "  " << llvm::left_justify(sharding, width) << " "
        << someOf(items, width) << "\n";
  printMore(lines.size(), kRows, "kind", "kinds");
  std::vector<std::pair<std::string, std::pair<int64_t, std::string>>> sorted(
      kinds.begin(), kinds.end());
  llvm::stable_sort(sorted, [](const auto &a, const auto &b) {
    return a.second.first > b.second.first;
  });
  out << (textAt(&plan, "goal") == "train"
              ? "\ninputs, states of updates and what is computed\n"
              : "\ninputs and what is computed\n");
  constexpr size_t kFew = 4;
  width = widthOf(llvm::ArrayRef(sorted).take_front(kFew));
  for (const auto &[sharding, kind] : llvm::ArrayRef(sorted).take_front(kFew))
    out << "  " << llvm::left_justify(sharding, width) << " " << kind.first
        << (kind.first == 1 ? " value (" : " values (")
        << shortName(kind.second) << (kind.first == 1 ? ")\n" : ", ...)\n");
  printMore(sorted.size(), kFew, "kind", "kinds");
  auto isNumbered = [](const auto &entry) {
    return entry.first.find('#') != std::string::npos;
  };
  if (llvm::any_of(parameters, isNumbered) ||
      llvm::any_of(sorted, [](const auto &kind) {
        return kind.second.second.find('#') != std::string::npos;
      }))
    out << "  (" << kNumbered << ")\n";
}

void Printer::printPureCuts() {
  const json::Object *cuts = plan.getObject("pure_cuts");
  if (!cuts)
    return;
  out << "\nwhat a training step in 32 bits would send if it were cut one way "
         "alone, all devices together\n  ("
      << kRingCuts << ";\n  " << kArticleCuts << "; *: the least)\n"
      << llvm::left_justify("", 44) << "article        ring\n";
  const char *names[] = {"data", "tensor", "pipeline"};
  auto bytesOf = [&](const char *name, const char *model) {
    return numberAt(cuts->getObject(name), {model});
  };
  auto cheapest = [&](const char *model) {
    const char *best = names[0];
    for (const char *name : names)
      if (bytesOf(name, model) < bytesOf(best, model))
        best = name;
    return std::string(best);
  };
  for (const char *name : names) {
    std::string article = formatBytes(bytesOf(name, "article_bytes"));
    std::string ring = formatBytes(bytesOf(name, "ring_bytes"));
    if (cheapest("article_bytes") == name)
      article += " *";
    if (cheapest("ring_bytes") == name)
      ring += " *";
    out << "  " << llvm::left_justify(name, 42)
        << llvm::left_justify(article, 15) << ring << "\n";
  }
}

void Printer::printRunnersUp() {
  const json::Array *list = plan.getArray("runners_up");
  if (!list || list->size() < 2)
    return;
  CandidateTable table = candidateTable(plan);
  out << "\ncandidates (" << kCandidateFigures << ")\n";
  const std::vector<CandidateRow> &rows = table.rows;
  size_t max = verbose ? rows.size() : kRows, width = 32;
  for (const CandidateRow &row : llvm::ArrayRef(rows).take_front(max))
    width = std::max(width, row.what.size());
  for (const CandidateRow &row : llvm::ArrayRef(rows).take_front(max)) {
    out << "  " << llvm::left_justify(row.what, width + 2)
        << llvm::left_justify(row.cost, 11) << "step "
        << llvm::left_justify(row.step, 10) << "busiest rank "
        << llvm::left_justify(row.sent, 10) << "memory " << row.memory;
    for (const std::string &remark : row.remarks)
      out << "  (" << remark << ")";
    out << "\n";
  }
  printMore(rows.size(), max, "mesh", "meshes");
  // What kept a mesh from having a plan is said once.
  size_t said = 0, all = 0;
  for (const auto &[reason, names] : table.reasons)
    if (++all <= kRows || verbose) {
      ++said;
      out << fitLines("  " +
                      (verbose ? llvm::join(names, "; ") : someOf(names, 0)) +
                      ": " + reason + "\n");
    }
  printMore(all, said, "reason", "reasons");
}

void Printer::printMore(size_t all, size_t shown, const std::string &one,
                        const std::string &more, const std::string &rest) {
  if (all > shown)
    out << "  ... and " << all - shown << " more "
        << (all - shown == 1 ? one : more) << rest << " (-v)\n";
}

void Printer::print() {
  printHead();
  printStages();
  printCollectives();
  printCuts();
  printMemory();
  if (verbose)
    printPureCuts();
  printRunnersUp();
  out << "\n" << searchedText(plan, verbose) << "\n";
}

void kerf::tool::printPlan(llvm::raw_ostream &out, const json::Object &plan,
                           bool verbose) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Printer(stream, plan, verbose).print();
  out << (verbose ? text : fitLines(text));
}
