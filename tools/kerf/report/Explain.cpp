//===- Explain.cpp - kerf plan --explain ----------------------------------===//
//
// For each way to cut one op, what the best plan costs in which it is cut so
// (kerf/Plan/Explain.h).
//
//===----------------------------------------------------------------------===//
#include "Explain.h"
#include "../Output.h"
#include "PlanReport.h"
#include "Report.h"
#include "Table.h"

#include "kerf/Format/Schemas.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace kerf;
using namespace kerf::tool;
namespace json = llvm::json;

/// How many kinds of choices fit a screen, and how many choices of a kind.
static constexpr size_t kKinds = 8, kOfAKind = 3;

namespace {
/// Choices of the same figures, or without a plan for the same reason.
struct Kind {
  const plan::ExplainedChoice *first;
  std::vector<const plan::ExplainedChoice *> all;
  bool isAlike(const plan::ExplainedChoice &other) const {
    const plan::CandidateSummary &a = first->plan, &b = other.plan;
    return a.reason == b.reason && first->minMemory == other.minMemory &&
           (!a.reason.empty() ||
            (a.cost == b.cost && a.lowerBound == b.lowerBound &&
             a.bytesPerRank == b.bytesPerRank &&
             a.peakMemoryBytes == b.peakMemoryBytes &&
             first->ownBytes == other.ownBytes));
  }
};

class Text {
public:
  explicit Text(const Compilation &compilation)
      : explanation(compilation.getExplanation()),
        planned(compilation.getPlan()), document(compilation.getPlanJson()) {}
  void print(llvm::raw_ostream &out, bool verbose) const;

private:
  std::string cost(double value) const {
    return planned.objective == plan::Objective::Volume ? formatBytes(value)
                                                        : formatSeconds(value);
  }
  double limit() const; ///< on memory; 0: none
  /// How much more than the plan found.
  std::string more(const plan::ExplainedChoice &choice) const;
  Table::Row row(const plan::ExplainedChoice &choice) const;
  std::string reason(const plan::ExplainedChoice &choice) const;
  void printHead(llvm::raw_ostream &out, bool verbose) const;
  std::vector<Kind> kindsOf(bool verbose) const;
  size_t roomBehind(const Table::Row &head, llvm::ArrayRef<Kind> kinds) const;
  void addRows(Table &table, const Kind &kind, size_t room) const;
  void printFoot(llvm::raw_ostream &out, const Kind &best) const;

  const plan::Explanation &explanation;
  const plan::PlanResult &planned;
  const json::Object &document;
};
} // namespace

/// "operand shardings -> result shardings", on two lines if one has more than
/// `room` letters; for an input only the latter.
static std::vector<std::string> cutLines(const plan::ExplainedChoice &choice,
                                         size_t room) {
  auto join = [](const std::vector<std::string> &shardings) {
    std::vector<std::string> texts;
    for (const std::string &sharding : shardings)
      texts.push_back(sharding.empty() ? "scalar" : sharding);
    return llvm::join(texts, "; ");
  };
  if (choice.operands.empty())
    return {join(choice.results)};
  std::string reads = join(choice.operands),
              makes = "-> " + join(choice.results);
  if (reads.size() + makes.size() < room)
    return {reads + " " + makes};
  return {reads, "  " + makes};
}

static bool isCut(const plan::ExplainedChoice &choice) {
  return llvm::any_of(choice.results, [](const std::string &sharding) {
    return sharding.find('"') != sharding.npos;
  });
}

static std::string nameText(const plan::OpName &op, bool verbose) {
  return (verbose ? op.name : shortName(op.name)) + " (" + op.op +
         (op.phase.empty() ? "" : ", ") + op.phase + ")";
}

/// Bounds are sums of rounded numbers.
static bool isProven(const plan::ExplainedChoice &choice) {
  return choice.plan.lowerBound >= choice.plan.cost * (1 - 1e-9);
}

double Text::limit() const {
  const json::Object *memory = document.getObject("memory");
  return memory ? memory->getNumber("limit").value_or(0) : 0;
}

std::string Text::more(const plan::ExplainedChoice &choice) const {
  if (choice.isChosen)
    return "the plan";
  double share = planned.cost > 0 ? choice.plan.cost / planned.cost - 1 : 0;
  if (planned.cost <= 0 && choice.plan.cost > 0)
    return "+" + cost(choice.plan.cost);
  if (std::abs(share) < 1e-9)
    return "the same";
  return std::abs(share) < 5e-4
             ? (share < 0 ? "-0.0%" : "+0.0%")
             : llvm::formatv("{0}{1:F1}%", share > 0 ? "+" : "", 100 * share)
                   .str();
}

Table::Row Text::row(const plan::ExplainedChoice &choice) const {
  const plan::CandidateSummary &plan = choice.plan;
  std::string own = formatBytes(double(choice.ownBytes));
  return {choice.isChosen ? "*" : "",
          cost(plan.cost) +
              (isProven(choice) ? "" : " (>= " + cost(plan.lowerBound) + ")"),
          more(choice),
          formatBytes(double(plan.bytesPerRank)),
          own,
          formatBytesBeside(double(plan.peakMemoryBytes), limit())};
}

std::string Text::reason(const plan::ExplainedChoice &choice) const {
  std::string text =
      choice.plan.status == plan::Status::Infeasible ? "infeasible" : "none";
  text += ": " + choice.plan.reason;
  if (choice.minMemory > 0)
    text +=
        ", at least " + formatBytesBeside(double(choice.minMemory), limit());
  else if (choice.plan.peakMemoryBytes > 0)
    text += ", about " +
            formatBytesBeside(double(choice.plan.peakMemoryBytes), limit());
  return text;
}

/// The first names of a list, and whether there are more.
static std::string listText(std::vector<std::string> names, bool verbose) {
  bool isMore = names.size() > 6;
  names.resize(std::min<size_t>(names.size(), 6));
  for (std::string &name : names)
    name = verbose ? name : shortName(name);
  return llvm::join(names, ", ") + (isMore ? ", ..." : "");
}

/// What is asked for, and what the plan has of it.
void Text::printHead(llvm::raw_ostream &out, bool verbose) const {
  const json::Array &candidates = *document.getArray("runners_up");
  std::string mesh = candidateText(*candidates.front().getAsObject());
  bool isWhole =
      explanation.choices.size() == 1 && !isCut(explanation.choices[0]);
  out << "explain   " << nameText(explanation.op, verbose) << ": "
      << (isWhole ? "it stays whole"
                  : plural(int64_t(explanation.choices.size()), "way") +
                        " to cut it")
      << (isWhole && llvm::StringRef(mesh) == meshText(nullptr) ? ""
                                                                : " on " + mesh)
      << "\n";
  if (!explanation.reads.empty())
    out << "reads     " << listText(explanation.reads, verbose) << "\n";
  if (!explanation.alike.empty()) {
    std::vector<std::string> names;
    for (const plan::OpName &op : explanation.alike)
      names.push_back(nameText(op, verbose));
    out << "beside    " << listText(names, verbose)
        << ", of the same name in the model\n";
  }
  const json::Object *objective = document.getObject("objective");
  out << "plan      " << textAt(objective, "kind") << " ("
      << textAt(objective, "cost_model") << "): " << verdictText(objective)
      << "\n\nthe best plan of this mesh for each way, everything else decided "
         "anew"
      << (planned.stages.size() > 1 ? ", where stages are cut as well" : "")
      << "\n";
}

/// Choices that are alike together, in the order of the first of each; with
/// `verbose` each by itself.
std::vector<Kind> Text::kindsOf(bool verbose) const {
  std::vector<Kind> kinds;
  for (const plan::ExplainedChoice &choice : explanation.choices) {
    auto alike = llvm::find_if(kinds, [&](const Kind &kind) {
      return !verbose && kind.isAlike(choice);
    });
    if (alike == kinds.end())
      alike = kinds.insert(kinds.end(), Kind{&choice, {}});
    alike->all.push_back(&choice);
  }
  return kinds;
}

/// What a line has left behind the columns of figures.
size_t Text::roomBehind(const Table::Row &head,
                        llvm::ArrayRef<Kind> kinds) const {
  std::vector<size_t> widths(head.size());
  auto widen = [&](const Table::Row &cells) {
    for (size_t i = 0; i < cells.size(); ++i)
      widths[i] = std::max(widths[i], cells[i].size());
  };
  widen(head);
  for (const Kind &kind : kinds)
    if (kind.first->plan.reason.empty())
      widen(row(*kind.first));
  constexpr size_t kColumns = 118, kMinColumns = 40;
  size_t taken = 0;
  for (size_t width : widths)
    taken += width + 2;
  return std::max(kMinColumns, kColumns - std::min(kColumns, taken));
}

/// The choices of a kind, of which one has figures; others stand below it.
void Text::addRows(Table &table, const Kind &kind, size_t room) const {
  bool hasPlan = kind.first->plan.reason.empty();
  auto below = [&](const std::string &text) {
    table.add({"", "", "", "", "", "", text});
  };
  for (const plan::ExplainedChoice *choice :
       llvm::ArrayRef(kind.all).take_front(kOfAKind)) {
    std::vector<std::string> lines = cutLines(*choice, room);
    if (choice != kind.first)
      below(lines.front());
    else if (hasPlan) {
      Table::Row cells = row(*choice);
      cells.push_back(lines.front());
      table.add(std::move(cells));
    } else
      table.add({"", "-", "", "", "", "", lines.front()});
    for (const std::string &line : llvm::drop_begin(lines))
      below(line);
  }
  if (kind.all.size() > kOfAKind)
    below("and " + std::to_string(kind.all.size() - kOfAKind) + " more (-v)");
  if (!hasPlan)
    below("  " + reason(*kind.first));
}

/// What was not searched, and what the figures are.
void Text::printFoot(llvm::raw_ostream &out, const Kind &best) const {
  // Both reasons may be there: the time, and Ctrl-C.
  std::map<llvm::StringRef, int64_t> unsearched;
  for (const plan::ExplainedChoice &choice : explanation.choices)
    if (llvm::StringRef(choice.plan.reason).starts_with("not searched"))
      ++unsearched[choice.plan.reason];
  for (const auto &[reason, count] : unsearched)
    out << "  (" << plural(count, "way") << " " << reason << ")\n";
  if (best.first->plan.cost < planned.cost * (1 - 1e-9))
    out << "  (what costs less than the plan found: no search here has proven "
           "that there is nothing better; --shard takes it)\n";
  out << "\n*: the plan found; sent: by the busiest rank in a step, for it: of "
         "what it reads and makes; memory is predicted";
  if (limit() > 0)
    out << " (limit " << formatBytes(limit()) << ")";
  out << "\n";
}

void Text::print(llvm::raw_ostream &out, bool verbose) const {
  printHead(out, verbose);
  std::vector<Kind> kinds = kindsOf(verbose);
  Table::Row head = {
      "",
      planned.objective == plan::Objective::Volume ? "volume" : "time",
      "",
      "sent",
      "for it",
      "memory"};
  size_t room = roomBehind(head, kinds);
  head.push_back(explanation.reads.empty() ? "how it is cut"
                                           : "reads -> makes");
  Table table(std::move(head));
  // The row of the plan found is never left out.
  size_t shown = 0, left = 0, leftChoices = 0;
  for (const Kind &kind : kinds) {
    if (shown >= kKinds && !verbose && !kind.first->isChosen) {
      ++left;
      leftChoices += kind.all.size();
      continue;
    }
    ++shown;
    addRows(table, kind, room);
  }
  table.print(out);
  if (left > 0)
    out << "  ... and " << plural(int64_t(leftChoices), "way") << " more of "
        << plural(int64_t(left), "other answer") << " (-v)\n";
  printFoot(out, kinds.front());
}

void kerf::tool::printExplanation(llvm::raw_ostream &out,
                                  const Compilation &compilation,
                                  bool verbose) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Text(compilation).print(stream, verbose);
  out << (verbose ? text : fitLines(text));
}

static json::Object opObject(const plan::OpName &op) {
  json::Object object{{"name", op.name}, {"op", op.op}};
  if (!op.phase.empty())
    object["phase"] = op.phase;
  return object;
}

void kerf::tool::printExplanationJson(llvm::raw_ostream &out,
                                      const Compilation &compilation) {
  const plan::Explanation &explanation = compilation.getExplanation();
  const json::Object &document = compilation.getPlanJson();
  json::Array alike, choices;
  for (const plan::OpName &op : explanation.alike)
    alike.push_back(opObject(op));
  for (const plan::ExplainedChoice &choice : explanation.choices) {
    const plan::CandidateSummary &plan = choice.plan;
    json::Object entry{{"operands", json::Array(choice.operands)},
                       {"results", json::Array(choice.results)},
                       {"chosen", choice.isChosen},
                       {"status", plan::toString(plan.status)}};
    if (plan.reason.empty()) {
      entry["cost"] = plan.cost;
      entry["lower_bound"] = plan.lowerBound;
      entry["step_seconds"] = plan.seconds;
      entry["bytes_per_rank"] = plan.bytesPerRank;
      entry["total_bytes"] = plan.totalBytes;
      entry["own_bytes_per_rank"] = choice.ownBytes;
    } else {
      entry["reason"] = plan.reason;
    }
    if (plan.peakMemoryBytes > 0)
      entry["peak_memory_bytes"] = plan.peakMemoryBytes;
    if (choice.minMemory > 0)
      entry["least_memory_bytes"] = choice.minMemory;
    choices.push_back(std::move(entry));
  }
  json::Object root{{"schema", explainSchema.text()},
                    {"explained", opObject(explanation.op)},
                    {"reads", json::Array(explanation.reads)},
                    {"makes", json::Array(explanation.makes)},
                    {"beside", std::move(alike)},
                    {"choices", std::move(choices)}};
  for (const char *key :
       {"mesh", "mesh_axes", "schedule", "zero", "recompute", "objective"})
    if (const json::Value *value = document.get(key))
      root[key] = *value;
  if (const json::Object *memory = document.getObject("memory"))
    if (const json::Value *limit = memory->get("limit"))
      root["memory_limit_bytes"] = *limit;
  out << llvm::formatv("{0:2}\n", json::Value(std::move(root)));
}
