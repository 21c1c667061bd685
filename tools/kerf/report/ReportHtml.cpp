//===- ReportHtml.cpp - a page for a plan or a run ------------------------===//
//
// Bars are boxes with a width, so the page needs no script and can be printed.
// It shows figures of the document; only sums and shares are computed.
//
//===----------------------------------------------------------------------===//
#include "PlanReport.h"
#include "Report.h"
#include "ReportDrawing.h"

#include "../Options.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace kerf::tool;
namespace json = llvm::json;

static const char kStyle[] = R"(
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #1b1f24; }
h1 { font-size: 1.4em; margin-bottom: 0; } h2 { font-size: 1.05em; margin: 1.8em 0 .4em; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .15em .8em .15em 0; vertical-align: top; }
th { font-weight: 600; border-bottom: 1px solid #c6ccd3; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { display: flex; height: 1.1em; background: #eef1f4; min-width: 12em; } .bar span { display: block; height: 100%; }
.a { background: #2f6db3; } .b { background: #d98a2b; } .c { background: #4c9a5f; } .d { background: #9a5fb0; } .e { background: #a9b3bd; }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; } .quiet { color: #59636e; }
code { font-size: .92em; } details summary { cursor: pointer; })";

namespace {

std::string escape(llvm::StringRef raw) { return escapeHtml(raw); }

/// Parts of a whole, in the colours of their classes.
struct Part {
  const char *name;
  double value;
};

class Page {
public:
  Page(llvm::raw_ostream &out, const Document &document)
      : out(out), document(document), root(document.root) {}
  void print();

private:
  void head();
  void time();
  void collectives();
  void memory();
  void ranks();
  void stages();
  void pureCuts();
  void candidates();
  void values();

  void key(llvm::ArrayRef<Part> parts);
  /// `whole` is what the full width stands for.
  std::string bar(llvm::ArrayRef<Part> parts, double whole);
  void begin(llvm::StringRef title, llvm::ArrayRef<const char *> columns);
  /// Cells that start with '#' are numbers.
  void row(llvm::ArrayRef<std::string> cells);
  void end() { out << "</table>\n"; }
  const json::Array *list(llvm::StringRef outer, llvm::StringRef inner) {
    const json::Object *object = outer.empty() ? &root : root.getObject(outer);
    return object ? object->getArray(inner) : nullptr;
  }

  llvm::raw_ostream &out;
  const Document &document;
  const json::Object &root;
};

} // namespace

static const char *colour(size_t i) {
  const char *names[] = {"a", "b", "c", "d", "e"};
  return names[i % 5];
}

std::string Page::bar(llvm::ArrayRef<Part> parts, double whole) {
  std::string text = "<div class=bar>";
  for (auto [i, part] : llvm::enumerate(parts))
    if (part.value > 0 && whole > 0)
      text += llvm::formatv("<span class={0} style=\"width:{1:F2}%\"></span>",
                            colour(i), 100 * part.value / whole)
                  .str();
  return text + "</div>";
}

void Page::key(llvm::ArrayRef<Part> parts) {
  out << "<p class=key>";
  for (auto [i, part] : llvm::enumerate(parts))
    out << "<span class=" << colour(i) << "></span>" << part.name;
  out << "</p>\n";
}

void Page::begin(llvm::StringRef title, llvm::ArrayRef<const char *> columns) {
  if (!title.empty())
    out << "<h2>" << escape(title) << "</h2>\n";
  out << "<table><tr>";
  for (llvm::StringRef column : columns)
    if (column.consume_front("#"))
      out << "<th class=n>" << column;
    else
      out << "<th>" << column;
  out << "</tr>\n";
}

void Page::row(llvm::ArrayRef<std::string> cells) {
  out << "<tr>";
  for (llvm::StringRef cell : cells)
    if (cell.consume_front("#"))
      out << "<td class=n>" << cell;
    else
      out << "<td>" << cell;
  out << "</tr>\n";
}

void Page::head() {
  const json::Object *model = root.getObject("model");
  std::string name = escape(textAt(model, "name"));
  out << "<!doctype html>\n<html lang=en><meta charset=utf-8><title>" << name
      << (document.isPlan() ? " - plan" : " - run") << "</title><style>"
      << kStyle << kDrawingStyle << "</style>\n<h1>" << name << ": "
      << escape(meshText(root.getObject("mesh"))) << " on "
      << plural(int64_t(numberAt(&root, {"devices"})), "device");
  if (auto parts = int64_t(numberAt(&root, {"schedule", "micro_batches"}));
      parts > 1)
    out << ", " << parts << " micro-batches";
  out << "</h1>\n"
      << "<p class=quiet>" << (document.isPlan() ? "plan" : "run") << " of "
      << escape(document.path);
  if (document.isPlan())
    out << "; " << escape(textAt(&root, "goal")) << ", " << parametersText(root)
        << ", " << formatFlops(numberAt(model, {"flops"})) << " per step, "
        << escape(textAt(root.getObject("machine"), "description"));
  out << "</p>\n";
  const json::Object *objective = root.getObject("objective");
  if (!objective)
    return;
  out << "<p>" << escape(textAt(objective, "kind")) << " ("
      << escape(textAt(objective, "cost_model")) << "): <b>"
      << escape(verdictText(objective)) << "</b>.</p>\n";
  if (document.isPlan()) {
    out << "<table>\n";
    for (const auto &[what, text] : decisionLines(root, /*verbose=*/true))
      row({escape(what), escape(text)});
    out << "</table>\n";
  }
  out << "<details class=quiet><summary>What was searched</summary>"
      << escape(searchedText(root, /*verbose=*/true)) << "</details>\n";
}

void Page::time() {
  if (!root.getObject("time"))
    return;
  double step = numberAt(&root, {"time", "step_seconds"});
  double compute = numberAt(&root, {"time", "compute_seconds"});
  double exposed = numberAt(&root, {"time", "exposed_communication_seconds"});
  Part parts[] = {
      {"compute", compute},
      {"communication that nothing hides", exposed},
      {document.isPlan() ? "idle" : kOtherOfRun, otherSeconds(root)}};
  out << "<h2>Step: " << formatSeconds(step)
      << (document.isPlan() ? " predicted" : " measured") << "</h2>\n"
      << bar(parts, step);
  key(parts);
}

void Page::collectives() {
  std::vector<CollectiveRow> rows = collectiveRows(root);
  llvm::stable_sort(rows, [](const CollectiveRow &a, const CollectiveRow &b) {
    return a.bytes > b.bytes;
  });
  const json::Object *communication = root.getObject("communication");
  begin("Communication: " +
            formatBytes(numberAt(communication, {"bytes_per_rank"})) +
            " sent by the busiest rank, " +
            formatBytes(numberAt(communication, {"total_bytes"})) + " by all",
        {"#times", "collective", "#bytes of the busiest rank", "", "#time",
         "first at"});
  double max = rows.empty() ? 0 : rows.front().bytes;
  for (const CollectiveRow &each : rows) {
    Part part[] = {{"", each.bytes}};
    std::string formula =
        each.formula.empty() ? "" : " (" + each.formula + " each)";
    row({"#" + std::to_string(each.count), escape(each.what + formula),
         std::string(each.differs ? "#at most " : "#") +
             formatBytes(each.bytes),
         bar(part, max), "#" + formatSeconds(each.seconds),
         "<code>" + escape(each.examples()) + "</code>"});
  }
  end();
}

void Page::memory() {
  const json::Array *devices = list("memory", "per_device");
  if (!devices)
    return;
  double limit = numberAt(&root, {"memory", "limit"}), whole = 0;
  for (const json::Value &device : *devices)
    whole = std::max(whole, numberAt(device.getAsObject(), {"peak"}));
  std::string title = "Memory of each ";
  title += document.isPlan() ? "stage's devices" : "rank";
  if (isLaidOut(root))
    title += ", laid out";
  if (limit > 0)
    title += ", limit " + formatBytesBeside(limit, whole);
  // A run knows what is kept from step to step and what is not, and no more.
  bool isPlan = document.isPlan();
  begin(title, {"", "#peak",
                isPlan ? "parameters and constants, gradients, optimizer, "
                         "activations, workspace"
                       : "parameters and states; gradients and activations; "
                         "workspace"});
  for (auto [i, device] : llvm::enumerate(*devices)) {
    const json::Object *object = device.getAsObject();
    auto part = [&](llvm::StringRef name) { return numberAt(object, {name}); };
    std::vector<Part> parts;
    if (isPlan)
      parts = {{"parameters and constants", part("parameters")},
               {"gradients", part("gradients")},
               {"optimizer", part("optimizer")},
               {"activations", part("activations")}};
    else
      parts = {{"parameters and states", part("parameters")},
               {"gradients and activations", part("activations")}};
    parts.push_back({"workspace", part("workspace")});
    row({std::to_string(i), "#" + formatBytes(numberAt(object, {"peak"})),
         bar(parts, whole)});
    if (i + 1 == devices->size()) {
      end();
      key(parts);
    }
  }
}

/// What each rank's list of instructions took, one after another.
void Page::ranks() {
  const json::Array *all = list("", "ranks");
  if (!all)
    return;
  double whole = 0;
  auto partsOf = [](const json::Object *rank) {
    double other = 0, run = 0, wait = 0;
    const json::Array *instructions =
        rank ? rank->getArray("instructions") : nullptr;
    for (const json::Value &value :
         instructions ? *instructions : json::Array()) {
      const json::Object *instruction = value.getAsObject();
      std::string op = textAt(instruction, "op");
      double seconds = numberAt(instruction, {"seconds"});
      (op == "run"                    ? run
       : op == "recv" || op == "send" ? wait
                                      : other) += seconds;
    }
    return std::vector<Part>{{"functions, their collectives included", run},
                             {"sends and receives", wait},
                             {"inputs and outputs", other}};
  };
  for (const json::Value &rank : *all) {
    double sum = 0;
    for (const Part &part : partsOf(rank.getAsObject()))
      sum += part.value;
    whole = std::max(whole, sum);
  }
  begin("Time of each rank's instructions", {"rank", "#stage", ""});
  for (const json::Value &rank : *all)
    row({std::to_string(int64_t(numberAt(rank.getAsObject(), {"rank"}))),
         "#" + std::to_string(int64_t(numberAt(rank.getAsObject(), {"stage"}))),
         bar(partsOf(rank.getAsObject()), whole)});
  end();
  key(partsOf(nullptr));
}

void Page::stages() {
  const json::Array *all = list("", "stages");
  if (!all || all->size() < 2)
    return;
  begin(llvm::formatv(
            "Stages: {0}, {1}, each waits for others {2:F1}% of the "
            "pipeline's time, on average",
            scheduleInWords(root),
            plural(int64_t(numberAt(&root, {"schedule", "micro_batches"})),
                   "micro-batch", "micro-batches"),
            100 * numberAt(&root, {"schedule", "bubble_fraction"}))
            .str(),
        {"#stage", "#ops", "#FLOP", "#time of a step", ""});
  double max = 0;
  for (const json::Value &stage : *all)
    max = std::max(max, numberAt(stage.getAsObject(), {"seconds"}));
  for (const json::Value &stage : *all) {
    const json::Object *object = stage.getAsObject();
    Part part[] = {{"", numberAt(object, {"seconds"})}};
    row({"#" + std::to_string(int64_t(numberAt(object, {"index"}))),
         "#" + std::to_string(int64_t(numberAt(object, {"nodes"}))),
         "#" + formatCount(numberAt(object, {"flops"})),
         "#" + formatSeconds(part[0].value), bar(part, max)});
  }
  end();
}

void Page::pureCuts() {
  const json::Object *cuts = root.getObject("pure_cuts");
  if (!cuts)
    return;
  begin("What a training step in 32 bits would send if it were cut one way "
        "alone, over all devices (" +
            kRingCuts.str() + "; " + kArticleCuts.str() + ")",
        {"", "#article", "#ring"});
  for (const char *name : {"data", "tensor", "pipeline"})
    row({name,
         "#" + formatBytes(numberAt(cuts->getObject(name), {"article_bytes"})),
         "#" + formatBytes(numberAt(cuts->getObject(name), {"ring_bytes"}))});
  end();
}

void Page::candidates() {
  CandidateTable table = candidateTable(root);
  if (table.rows.empty() && table.reasons.empty())
    return;
  begin("Candidates",
        {"", "#objective", "#step", "#busiest rank", "#memory", ""});
  for (const CandidateRow &each : table.rows)
    row({escape(each.what), "#" + each.cost, "#" + each.step, "#" + each.sent,
         "#" + each.memory, escape(llvm::join(each.remarks, "; "))});
  end();
  out << "<p class=quiet>" << kCandidateFigures << "</p>\n";
  for (const auto &[reason, names] : table.reasons)
    out << "<p>" << escape(llvm::join(names, "; ")) << ": " << escape(reason)
        << "</p>\n";
}

void Page::values() {
  const json::Array *all = list("", "values");
  if (!all)
    return;
  out << "<h2>Values</h2>\n<details><summary>" << all->size()
      << " values and how each is cut</summary>\n";
  begin("", {"name", "shape", "sharding"});
  for (const json::Value &value : *all) {
    const json::Object *object = value.getAsObject();
    std::string shape;
    const json::Array *sizes = object->getArray("shape");
    for (const json::Value &size : sizes ? *sizes : json::Array())
      shape += (shape.empty() ? "" : " x ") +
               std::to_string(size.getAsInteger().value_or(0));
    row({"<code>" + escape(textAt(object, "name")) + "</code>",
         shape.empty() ? "scalar" : shape,
         "<code>" + escape(textAt(object, "sharding")) + "</code>"});
  }
  end();
  out << "</details>\n";
}

void Page::print() {
  head();
  time();
  drawDevices(out, root);
  drawSchedule(out, root);
  stages();
  if (document.isPlan())
    drawValues(out, root);
  collectives();
  memory();
  if (document.isPlan())
    drawMemory(out, root);
  ranks();
  pureCuts();
  candidates();
  values();
  out << "</html>\n";
}

void kerf::tool::printHtml(llvm::raw_ostream &out, const Document &document) {
  Page(out, document).print();
}
