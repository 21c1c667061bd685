//===- Report.cpp - kerf report -------------------------------------------===//
#include "Report.h"

#include "../Commands.h"
#include "../Output.h"
#include "../Setup.h"
#include "../files/FileKinds.h"
#include "PlanReport.h"

#include "kerf/Support/Json.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>

using namespace kerf::tool;
namespace json = llvm::json;

const char *const kerf::tool::kReportReads =
    "kerf report reads what kerf plan -o plan.json and kerf run or kerf train "
    "--stats=run.json write; --html=FILE makes a page of it";

/// What kerf train --log writes: a document without a schema in each line.
static bool isTrainingLog(llvm::StringRef text) {
  auto line = kerf::parseJson(text.split('\n').first);
  const json::Object *root = line ? line->getAsObject() : nullptr;
  if (!line)
    llvm::consumeError(line.takeError());
  return root && root->get("step") && !root->get("schema") &&
         (root->get("loss") || root->get("eval_loss"));
}

static Document readDocument(const std::string &path) {
  if (std::string kind = fileKind(path);
      !kind.empty() && kind != "a plan" && kind != "the report of a run") {
    std::string note = kReportReads;
    if (kind == "a package")
      note = "kerf report " + path + "/plan.json shows how it is cut";
    else if (kind == "an ONNX model")
      note = "kerf inspect shows a model, kerf plan -o plan.json makes a plan "
             "of it";
    throw Failure{kUsage,
                  path + ": is " + kind + ", expected plan.json or run.json",
                  {note}};
  }
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    throw Failure{kUsage,
                  path + ": cannot open: " + buffer.getError().message(),
                  {kReportReads}};
  if (isTrainingLog((*buffer)->getBuffer()))
    throw Failure{kUsage,
                  path + ": is a log of training, a line of JSON for each "
                         "step, expected plan.json or run.json",
                  {"kerf train --stats=run.json writes a report of the run; "
                   "of the log each line has \"step\" and \"loss\" for "
                   "programs that draw curves"}};
  auto value = kerf::parseJson((*buffer)->getBuffer());
  if (!value) {
    std::string why = llvm::toString(value.takeError());
    throw Failure{kUsage,
                  path + ": is not valid JSON: " + why +
                      ", expected plan.json or run.json",
                  {kReportReads}};
  }
  json::Object *root = value->getAsObject();
  std::string schema = root ? textAt(root, "schema") : "";
  for (const kerf::Schema &known : {kerf::planSchema, kerf::runSchema})
    switch (matchSchema(known, schema)) {
    case kerf::SchemaMatch::Same:
      for (const char *member : {"mesh", "communication", "memory"})
        if (!root->getObject(member))
          throw Failure{kUsage, path + ": " + member + ": missing", {}};
      return {path, std::move(*root)};
    case kerf::SchemaMatch::OtherVersion:
      throw Failure{
          kUsage, path + ": schema " + schemaMismatch(known, schema), {}};
    case kerf::SchemaMatch::OtherFormat:
      break;
    }
  throw Failure{kUsage,
                path + ": schema is \"" + schema + "\", expected \"" +
                    kerf::planSchema.text() + "\" or \"" +
                    kerf::runSchema.text() + "\"",
                {kReportReads}};
}

double kerf::tool::numberAt(const json::Object *object,
                            llvm::ArrayRef<llvm::StringRef> path) {
  for (llvm::StringRef key : path.drop_back())
    if (object)
      object = object->getObject(key);
  const json::Value *value = object ? object->get(path.back()) : nullptr;
  if (!value)
    return 0;
  if (std::optional<double> number = value->getAsNumber())
    return *number;
  std::optional<llvm::StringRef> text = value->getAsString();
  return text ? std::strtod(text->str().c_str(), nullptr) : 0;
}

std::string kerf::tool::textAt(const json::Object *object,
                               llvm::StringRef key) {
  return object ? object->getString(key).value_or("").str() : "";
}

std::string kerf::tool::gapText(double gap) {
  return gap <= 1e-12 ? "0%"
         : gap < 5e-4 ? "below 0.1%"
                      : llvm::formatv("{0:F1}%", 100 * gap).str();
}

std::string kerf::tool::verdictText(const json::Object *objective) {
  bool isVolume = textAt(objective, "kind") == "volume";
  auto cost = [&](const char *key) {
    double value = numberAt(objective, {key});
    return isVolume ? formatBytes(value) : formatSeconds(value);
  };
  if (!objective || !objective->get("cost"))
    return "not predicted for this cut";
  if (!objective->get("lower_bound"))
    return cost("cost") + ", no bound: the plan was given";
  // That a plan costs nothing needs no proof.
  if (numberAt(objective, {"lower_bound"}) <= 0 &&
      numberAt(objective, {"cost"}) > 0)
    return cost("cost") + (isVolume ? ", no bound above 0 B"
                                    : ", no bound: the search was ended early");
  double gap = numberAt(objective, {"gap"});
  return cost("cost") + ", proven bound " + cost("lower_bound") +
         (gap <= 1e-12 ? ", optimal over the candidates"
                       : ", gap " + gapText(gap));
}

std::string kerf::tool::plural(int64_t count, const std::string &one,
                               const std::string &more) {
  return std::to_string(count) + " " +
         (count == 1     ? one
          : more.empty() ? one + "s"
                         : more);
}

/// What nobody sees in three digits is left out.
static double minSeconds(double step) { return 5e-4 * step; }

double kerf::tool::otherSeconds(const json::Object &document) {
  double step = numberAt(&document, {"time", "step_seconds"});
  double other = step - numberAt(&document, {"time", "compute_seconds"}) -
                 numberAt(&document, {"time", "exposed_communication_seconds"});
  return other > minSeconds(step) ? other : 0;
}

std::string kerf::tool::stepText(const json::Object *time,
                                 const std::string &rest) {
  double step = numberAt(time, {"step_seconds"});
  double compute = numberAt(time, {"compute_seconds"});
  double exposed = numberAt(time, {"exposed_communication_seconds"});
  const double min = minSeconds(step);
  std::vector<std::string> parts;
  auto add = [&](double seconds, const std::string &what) {
    if (seconds > min)
      parts.push_back(formatSeconds(seconds) + " " + what);
  };
  add(compute, "compute");
  add(exposed, "wait for communication");
  add(step - compute - exposed, rest);
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string CollectiveRow::examples(bool isShort) const {
  return (isShort ? shortName(example) : example) +
         (tensors > 1 ? " and " + std::to_string(tensors - 1) + " more" : "") +
         (count > 1 ? ", ..." : "");
}

std::string CollectiveRow::bytesText() const {
  return (differs ? "at most " : "") + formatBytes(bytes) + " per rank";
}

std::string kerf::tool::meshText(const json::Object *mesh) {
  std::map<std::pair<bool, std::string>, int64_t> axes;
  if (mesh)
    for (const auto &[name, size] : *mesh)
      if (size.getAsInteger().value_or(1) > 1)
        axes[{name.str() != "pp", name.str()}] = *size.getAsInteger();
  std::string result;
  for (const auto &[name, size] : axes)
    result += (result.empty() ? "" : " x ") + name.second + "=" +
              std::to_string(size);
  return result.empty() ? "nothing cut" : result;
}

std::vector<CollectiveRow>
kerf::tool::collectiveRows(const json::Object &root) {
  std::vector<CollectiveRow> rows;
  // What a rank of each stage does for each row: a rank is of one stage only.
  struct Sums {
    double bytes = 0, seconds = 0;
  };
  std::vector<std::map<int64_t, Sums>> stages;
  constexpr int64_t kAllStages = -1;
  const size_t numStages =
      std::max<int64_t>(1, int64_t(numberAt(&root, {"mesh", "pp"})));
  const json::Object *communication = root.getObject("communication");
  const json::Array *list =
      communication ? communication->getArray("collectives") : nullptr;
  for (const json::Value &value : list ? *list : json::Array()) {
    const json::Object *c = value.getAsObject();
    std::vector<std::string> names;
    if (const json::Array *list = c ? c->getArray("axes") : nullptr)
      for (const json::Value &name : *list)
        names.push_back(name.getAsString().value_or("").str());
    std::string axes = llvm::join(names, ",");
    // A rank passes all of its part on or keeps it: what moves is less than S.
    double whole =
        textAt(c, "op") == "permute"
            ? numberAt(c, {"bytes_per_rank"}) * numberAt(c, {"group_size"})
            : 0;
    std::string what =
        textAt(c, "op") + " over " + (axes.empty() ? "-" : axes) + ", " +
        formatBytes(std::max(whole, numberAt(c, {"buffer_bytes"}))) + ", " +
        textAt(c, "purpose");
    auto row = llvm::find_if(
        rows, [&](const CollectiveRow &each) { return each.what == what; });
    if (row == rows.end()) {
      // Of a group, in equal shares; a send is one device's alone.
      std::string formula = textAt(c, "formula");
      if (!formula.empty() && textAt(c, "op") != "send")
        formula += " / N";
      rows.push_back({what, textAt(c, "node"), formula});
      stages.emplace_back();
      row = rows.end() - 1;
      row->tensors =
          std::max<int64_t>(1, static_cast<int64_t>(numberAt(c, {"tensors"})));
    }
    double count = std::max(1.0, numberAt(c, {"count"}));
    row->count += int64_t(count);
    // A send is one rank's; what else is over stages is done by all of them.
    bool isOfAll = textAt(c, "op") != "send" && llvm::is_contained(names, "pp");
    int64_t stage = isOfAll ? kAllStages : int64_t(numberAt(c, {"stage"}));
    Sums &sums = stages[row - rows.begin()][stage];
    sums.bytes += numberAt(c, {"bytes_per_rank"}) * count;
    sums.seconds += numberAt(c, {"seconds"}) * count;
  }
  for (auto [row, ofStages] : llvm::zip_equal(rows, stages)) {
    for (const auto &[stage, sums] : ofStages) {
      row.bytes = std::max(row.bytes, sums.bytes);
      row.seconds = std::max(row.seconds, sums.seconds);
    }
    row.differs =
        row.bytes > 0 && !ofStages.count(kAllStages) &&
        (ofStages.size() < numStages ||
         llvm::any_of(ofStages, [bytes = row.bytes](const auto &stage) {
           return stage.second.bytes < bytes;
         }));
  }
  return rows;
}

/// A line on the device that holds most; empty: nothing is known.
static std::string memoryOfRun(const json::Object &run) {
  const json::Object *memory = run.getObject("memory");
  const json::Array *devices =
      memory ? memory->getArray("per_device") : nullptr;
  if (!devices)
    return "";
  const json::Object *fullest = nullptr;
  for (const json::Value &value : *devices)
    if (const json::Object *device = value.getAsObject();
        device &&
        (!fullest || numberAt(device, {"peak"}) > numberAt(fullest, {"peak"})))
      fullest = device;
  if (!fullest)
    return "";
  std::string text = "memory    " + formatBytes(numberAt(fullest, {"peak"})) +
                     (devices->size() > 1 ? " on the fullest device" : "");
  const char *between = " = ";
  for (auto [key, what] : {std::pair("parameters", "parameters and states"),
                           {"activations", "activations"},
                           {"workspace", "workspace of libraries"}})
    if (double bytes = numberAt(fullest, {key}); bytes > 0) {
      text += between + std::string(what) + " " + formatBytes(bytes);
      between = " + ";
    }
  return text + "\n";
}

void kerf::tool::printRun(llvm::raw_ostream &out, const json::Object &run) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  const json::Object *communication = run.getObject("communication");
  auto parts = int64_t(numberAt(&run, {"schedule", "micro_batches"}));
  stream << "model     " << textAt(run.getObject("model"), "name") << "\n"
         << "mesh      " << meshText(run.getObject("mesh")) << " on "
         << plural(int64_t(numberAt(&run, {"devices"})), "device") << ", "
         << plural(int64_t(numberAt(&run, {"threads_per_rank"})), "thread")
         << " each"
         << (parts > 1 ? ", " + std::to_string(parts) + " micro-batches" : "")
         << "\n"
         << "step      "
         << formatSeconds(numberAt(&run, {"time", "step_seconds"}))
         << " (median of " << int64_t(numberAt(&run, {"repeat"}))
         << "): " << stepText(run.getObject("time"), kOtherOfRun) << "\n"
         << memoryOfRun(run) << "\ncommunication  "
         << formatBytes(numberAt(communication, {"bytes_per_rank"}))
         << " sent by the busiest rank, "
         << formatBytes(numberAt(communication, {"total_bytes"}))
         << " by all; planned "
         << formatBytes(numberAt(communication, {"planned_bytes_per_rank"}))
         << "\n";
  for (const CollectiveRow &row : collectiveRows(run))
    stream << "  " << row.count << " x " << row.what << ": " << row.bytesText()
           << ", " << formatSeconds(row.seconds) << "  ("
           << row.examples(/*isShort=*/true) << ")\n";
  if (numberAt(communication, {"total_bytes"}) > 0)
    stream << "  (times of collectives are means"
           << (numberAt(&run, {"repeat"}) > 1 ? " without the first step" : "")
           << ", of the slowest rank, from its wait to the end: the time that "
              "other ranks came later is in them, not what ran beside compute; "
              "they do not add up to the wait)\n";
  out << fitLines(text);
}

int kerf::tool::report(const Options &options) {
  Document document = readDocument(options.document);
  std::string text;
  llvm::raw_string_ostream out(text);
  if (!options.otherDocument.empty())
    printDiff(out, document, readDocument(options.otherDocument),
              options.verbose);
  else if (!options.html.empty())
    printHtml(out, document);
  else if (document.isPlan())
    printPlan(out, document.root, options.verbose);
  else
    printRun(out, document.root);
  if (!options.html.empty())
    writeFile(options.html, text);
  else if (!options.quiet)
    PrintableStream(llvm::outs()) << text;
  llvm::outs().flush();
  return kFine;
}
