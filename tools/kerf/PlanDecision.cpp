//===- PlanDecision.cpp - a plan in three sentences -----------------------===//
//
// Which cut, why, and what the next best would have cost: what somebody reads
// who reads no table.
//
//===----------------------------------------------------------------------===//
#include "Options.h"
#include "PlanReport.h"
#include "Report.h"

#include "llvm/Support/FormatVariadic.h"

using namespace kerf::tool;
namespace json = llvm::json;

bool kerf::tool::isParameter(const json::Object &plan,
                             const json::Object &value) {
  std::string name = textAt(&value, "name");
  if (value.get("operands") || !value.get("shape"))
    return false;
  const json::Object *model = plan.getObject("model");
  const json::Array *inputs = model ? model->getArray("inputs") : nullptr;
  return !inputs || llvm::none_of(*inputs, [&](const json::Value &input) {
    return input.getAsString() == llvm::StringRef(name);
  });
}

namespace {
/// What an axis cuts: how many parameters, of how many, and the first; and
/// whether it cuts anything else.
struct Use {
  int64_t parameters = 0, all = 0;
  std::string example;
  bool cutsData = false;
};
} // namespace

static Use useOf(const json::Object &plan, const std::string &axis) {
  Use use;
  const json::Array *values = plan.getArray("values");
  for (const json::Value &each : values ? *values : json::Array()) {
    const json::Object *value = each.getAsObject();
    if (!value)
      continue;
    bool isCut =
        textAt(value, "sharding").find("\"" + axis + "\"") != std::string::npos;
    if (!isParameter(plan, *value)) {
      use.cutsData |= isCut;
      continue;
    }
    ++use.all;
    if (isCut && use.parameters++ == 0)
      use.example = textAt(value, "name");
  }
  return use;
}

static std::string cutText(const json::Object &plan) {
  const json::Object *mesh = plan.getObject("mesh");
  const json::Array *names = plan.getArray("mesh_axes");
  std::string text;
  for (const json::Value &each : names ? *names : json::Array()) {
    std::string axis = each.getAsString().value_or("").str();
    auto size = int64_t(numberAt(mesh, {axis}));
    if (size < 2)
      continue;
    text += (text.empty() ? "" : "; ") + axis;
    if (axis == "pp") {
      text += " cuts the model into " + std::to_string(size) +
              " stages, one after the other";
      continue;
    }
    Use use = useOf(plan, axis);
    if (use.parameters == 0 && !use.cutsData)
      text += " cuts nothing: all its devices compute the same";
    else if (use.parameters == 0)
      text += " cuts the data, and every device of it has all parameters";
    else
      text += " cuts " + std::to_string(use.parameters) + " of " +
              std::to_string(use.all) + " parameters (" + use.example +
              (use.parameters > 1 ? ", ...)" : ")");
  }
  return text.empty() ? "nothing is cut" : text;
}

static std::string whyText(const json::Object &plan) {
  const json::Object *time = plan.getObject("time");
  const json::Object *communication = plan.getObject("communication");
  double step = numberAt(time, {"step_seconds"});
  double exposed = numberAt(time, {"exposed_communication_seconds"});
  if (!time)
    return "the plan was given, and no other was looked at";
  std::string text = "of " + formatSeconds(step) + " predicted for a step, " +
                     formatSeconds(numberAt(time, {"compute_seconds"})) +
                     " compute and " + formatSeconds(exposed) +
                     " wait for communication";
  if (communication)
    text += "; the busiest rank sends " +
            formatBytes(numberAt(communication, {"bytes_per_rank"}));
  return text;
}

/// The next best that is not the same mesh, and what it costs more.
static std::string elseText(const json::Object &plan) {
  const json::Array *list = plan.getArray("runners_up");
  const json::Object *objective = plan.getObject("objective");
  bool isVolume = textAt(objective, "kind") == "volume";
  double best = numberAt(objective, {"cost"});
  for (size_t i = 1; list && i < list->size(); ++i) {
    const json::Object *c = (*list)[i].getAsObject();
    if (!c || c->get("reason"))
      continue;
    double cost = numberAt(c, {"cost"});
    std::string text = "the runner-up, " + candidateText(*c) + ", would ";
    if (cost <= best * (1 + 1e-9))
      return text + (isVolume ? "send as much" : "take as long");
    text +=
        isVolume ? "send " + formatBytes(cost) : "take " + formatSeconds(cost);
    if (best > 0)
      text += llvm::formatv(", {0:F2} times as {1}", cost / best,
                            isVolume ? "much" : "long")
                  .str();
    return text;
  }
  return list && list->size() > 1 ? "no other mesh has a plan"
                                  : "no other mesh was looked at";
}

std::string kerf::tool::candidateText(const json::Object &candidate) {
  std::string text = meshText(candidate.getObject("mesh"));
  auto parts = int64_t(numberAt(&candidate, {"micro_batches"}));
  if (parts > 1)
    text += ", " + std::to_string(parts) + " micro-batches";
  return text;
}

void kerf::tool::printDecision(llvm::raw_ostream &out,
                               const json::Object &plan) {
  out << "cut       " << cutText(plan) << "\n"
      << "why       " << whyText(plan) << "\n";
  if (plan.get("runners_up"))
    out << "else      " << elseText(plan) << "\n";
}
