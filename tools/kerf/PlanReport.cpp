//===- PlanReport.cpp - plan.json for people ------------------------------===//
//
// Reads only the document, so that the report says what the file says.
//
//===----------------------------------------------------------------------===//
#include "PlanReport.h"

#include "Options.h"
#include "Report.h"

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
  Printer(llvm::raw_ostream &out, const json::Object &plan)
      : out(out), plan(plan) {}

  void print(bool verbose);

private:
  void printHead();
  void printStages();
  void printCollectives();
  void printMemory();
  void printPureCuts();
  void printRunnersUp();
  void printCuts(bool verbose);

  static double number(const json::Object *object, llvm::StringRef key) {
    return numberAt(object, {key});
  }
  static std::string text(const json::Object *object, llvm::StringRef key) {
    return textAt(object, key);
  }
  std::string cost(double value) const {
    return text(plan.getObject("objective"), "kind") == "volume"
               ? formatBytes(value)
               : formatSeconds(value);
  }
  llvm::raw_ostream &out;
  const json::Object &plan;
};

} // namespace

void Printer::printHead() {
  const json::Object *model = plan.getObject("model");
  const json::Object *objective = plan.getObject("objective");
  const json::Object *time = plan.getObject("time");
  const json::Object *schedule = plan.getObject("schedule");
  out << "model     " << text(model, "name") << ": "
      << formatCount(number(model, "parameters")) << " parameters, "
      << formatFlops(number(model, "flops")) << " per step\n";
  out << "mesh      " << meshText(plan.getObject("mesh")) << " on "
      << int64_t(plan.getNumber("devices").value_or(1)) << " devices of "
      << text(plan.getObject("machine"), "name");
  if (number(schedule, "micro_batches") > 1)
    out << ", " << int64_t(number(schedule, "micro_batches"))
        << " micro-batches";
  out << "\n";
  out << "objective " << text(objective, "kind") << " ("
      << text(objective, "cost_model") << "): " << verdictText(objective)
      << "\n";
  if (!time) // of a plan that was given
    return;
  out << "step      " << formatSeconds(number(time, "step_seconds"))
      << " predicted: compute "
      << formatSeconds(number(time, "compute_seconds"))
      << ", communication that nothing hides "
      << formatSeconds(number(time, "exposed_communication_seconds")) << "\n";
}

void Printer::printStages() {
  const json::Array *stages = plan.getArray("stages");
  if (!stages || stages->size() < 2)
    return;
  out << "\nstages    " << "(idle "
      << llvm::formatv("{0:F1}%", 100 * number(plan.getObject("schedule"),
                                               "bubble_fraction"))
      << ")\n";
  for (const json::Value &value : *stages) {
    const json::Object *stage = value.getAsObject();
    out << "  " << int64_t(number(stage, "index")) << "  "
        << int64_t(number(stage, "nodes")) << " ops, "
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
  for (const CollectiveRow &row : rows) {
    out << "  " << row.count << " x " << row.what << ": "
        << formatBytes(row.bytes) << " per rank";
    if (!row.formula.empty())
      out << " (" << row.formula << " / N each)";
    if (row.seconds > 0)
      out << ", " << formatSeconds(row.seconds);
    if (!row.example.empty())
      out << "  (" << row.example << (row.count > 1 ? ", ...)" : ")");
    out << "\n";
  }
  if (rows.empty())
    out << "  none\n";
}

void Printer::printMemory() {
  const json::Object *memory = plan.getObject("memory");
  const json::Array *devices =
      memory ? memory->getArray("per_device") : nullptr;
  if (!devices)
    return;
  out << "\nmemory per device";
  if (std::optional<double> limit = memory->getNumber("limit"))
    out << " (limit " << formatBytes(*limit) << ")";
  out << "\n";
  for (size_t stage = 0; stage < devices->size(); ++stage) {
    const json::Object *entry = (*devices)[stage].getAsObject();
    out << "  ";
    if (devices->size() > 1)
      out << "stage " << stage << ": ";
    out << formatBytes(number(entry, "peak")) << " = parameters "
        << formatBytes(number(entry, "parameters"));
    for (const char *part : {"gradients", "optimizer"})
      if (number(entry, part) != 0)
        out << " + " << part << " " << formatBytes(number(entry, part));
    out << " + activations " << formatBytes(number(entry, "activations"))
        << "\n";
  }
}

void Printer::printCuts(bool verbose) {
  const json::Array *values = plan.getArray("values");
  if (!values)
    return;
  // Parameters and values by sharding.
  Rows<std::pair<int64_t, std::string>> kinds;
  for (const json::Value &value : *values) {
    const json::Object *entry = value.getAsObject();
    std::string sharding = text(entry, "sharding");
    if (verbose)
      out << "  " << text(entry, "name") << "  " << sharding << "\n";
    auto &kind = kinds[sharding];
    if (kind.first++ == 0)
      kind.second = text(entry, "name");
  }
  if (verbose)
    return;
  out << "\nshardings\n";
  for (const auto &[sharding, kind] : kinds)
    out << "  " << (sharding.empty() ? "scalars" : sharding) << "  "
        << kind.first << (kind.first == 1 ? " value (" : " values (")
        << kind.second << (kind.first == 1 ? ")\n" : ", ...)\n");
}

void Printer::printPureCuts() {
  const json::Object *cuts = plan.getObject("pure_cuts");
  if (!cuts)
    return;
  out << "\npure cuts, one training step, all devices   article        ring\n";
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
  out << "\ncandidates (best first)\n";
  size_t shown = 0;
  for (const json::Value &value : *list) {
    const json::Object *c = value.getAsObject();
    std::string name = meshText(c->getObject("mesh"));
    if (number(c, "micro_batches") > 1)
      name += ", " + std::to_string(int64_t(number(c, "micro_batches"))) +
              " micro-batches";
    out << "  " << llvm::left_justify(name, 34);
    if (std::optional<llvm::StringRef> reason = c->getString("reason"))
      out << *reason << "\n";
    else
      out << llvm::left_justify(cost(number(c, "cost")), 11) << "step "
          << llvm::left_justify(formatSeconds(number(c, "step_seconds")), 10)
          << "busiest rank "
          << llvm::left_justify(formatBytes(number(c, "bytes_per_rank")), 10)
          << "memory " << formatBytes(number(c, "peak_memory_bytes")) << "\n";
    if (++shown == 8 && list->size() > 8) {
      out << "  ... and " << list->size() - shown << " more in plan.json\n";
      break;
    }
  }
}

void Printer::print(bool verbose) {
  printHead();
  printStages();
  printCollectives();
  printCuts(verbose);
  printMemory();
  printPureCuts();
  printRunnersUp();
  out << "\n";
  if (std::optional<double> seconds = plan.getNumber("planning_seconds"))
    out << "planned in " << formatSeconds(*seconds) << "; ";
  out << text(plan.getObject("objective"), "candidates") << "\n";
}

void kerf::tool::printPlan(llvm::raw_ostream &out, const json::Object &plan,
                           bool verbose) {
  Printer(out, plan).print(verbose);
}
